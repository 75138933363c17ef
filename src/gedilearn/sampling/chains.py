"""Persistent chains: the replay buffer and the Langevin kernel together give samples x~."""

from __future__ import annotations

from torch import Tensor

from gedilearn.sampling.buffer import ReplayBuffer
from gedilearn.sampling.langevin import Kernel, LogDensity, run


class PersistentChains:
    """Draws x~ by `steps` Langevin steps from where chains of the buffer stand."""

    def __init__(self, buffer: ReplayBuffer, kernel: Kernel, steps: int) -> None:
        self.buffer = buffer
        self.kernel = kernel
        self.steps = steps

    def draw(self, log_density: LogDensity, batch: int) -> Tensor:
        """Samples (members, batch, *point); the buffer goes on from them."""
        start, slots = self.buffer.draw(batch)
        samples = run(start, log_density, self.kernel, self.steps)
        self.buffer.store(slots, samples)
        return samples
