"""Persistent chains: Langevin dynamics that goes on from where an earlier iteration left it."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Protocol

import torch
from torch import Tensor

from gedilearn import sections
from gedilearn.ranks import n_ranks
from gedilearn.sampling.langevin import Box, Kernel, LogDensity, run

Initial = Callable[..., Tensor]


class Sampler(Protocol):
    """What draws x~ for GEN.

    `registry.SAMPLERS` holds functions (settings, box, n_members, n_chains, calm) that make one.
    """

    positions: Tensor  # (members, size, *point): all that it remembers, on each rank its own

    def draw(self, log_density: LogDensity, batch: int) -> Tensor:
        """Samples (members, batch, *point) of the densities of all members."""
        ...


class PersistentChains:
    """Draws x~ by `steps` Langevin steps from where chains of the buffer stand."""

    def __init__(self, buffer: ReplayBuffer, kernel: Kernel, steps: int) -> None:
        self.buffer = buffer
        self.kernel = kernel
        self.steps = steps

    @property
    def positions(self) -> Tensor:
        return self.buffer.positions

    @positions.setter
    def positions(self, positions: Tensor) -> None:
        self.buffer.positions = positions

    def draw(self, log_density: LogDensity, batch: int) -> Tensor:
        """Samples (members, batch, *point); the buffer goes on from them."""
        start, slots = self.buffer.draw(batch)
        samples = run(start, log_density, self.kernel, self.steps)
        self.buffer.store(slots, samples)
        return samples


def persistent_chains(
    settings: sections.Sampler, box: Box, n_members: int, n_chains: int, calm: float = 1.0
) -> PersistentChains:
    """This rank's share of the chains of the settings, all fresh.

    `n_chains` of them move in each iteration; `calm` multiplies the Langevin step, and its root the
    noise.
    """
    size = max(settings.buffer // n_ranks(), n_chains)
    buffer = ReplayBuffer(n_members, size, settings.restart, box.uniform)
    kernel = Kernel(
        settings.step_size * calm,
        settings.noise * calm**0.5,
        settings.max_move,
        box if settings.clamp else None,
    )
    return PersistentChains(buffer, kernel, settings.steps)


class ReplayBuffer:
    """`size` chain positions for each member, on the device of the initial distribution.

    `initial(*shape)` gives fresh points (*shape, *point), for instance `Box.uniform`. Each drawn
    chain restarts there with probability `restart`; the rest go on from their slot, and whatever
    comes of a chain is written back to the slot it came from.
    """

    def __init__(self, n_members: int, size: int, restart: float, initial: Initial) -> None:
        self.restart = restart
        self.initial = initial
        self.positions = initial(n_members, size)  # (members, size, *point)

    def draw(self, batch: int) -> tuple[Tensor, Tensor]:
        """Starting positions (members, batch, *point) and the slots (members, batch) they hold.

        The buffer is read as a ring, turned by a random angle and cut into `batch` stretches of
        whole slots, and one slot is drawn from each: every slot is equally likely, and no two
        chains of a batch share one.
        """
        members, size = self.positions.shape[:2]
        device = self.positions.device
        starts, lengths = _stretches(size, batch, device)
        within, chance = torch.rand(2, members, batch, device=device, dtype=torch.float64)
        turn = torch.randint(size, (members, 1), device=device)
        slots = (within.mul_(lengths).long() + starts).add_(turn).remainder_(size)
        positions = self._flat().index_select(0, self._index(slots))
        positions = positions.view(members, batch, *self.positions.shape[2:])
        fresh = (chance < self.restart).view(members, batch, *[1] * (positions.dim() - 2))
        return torch.where(fresh, self.initial(members, batch), positions), slots

    def store(self, slots: Tensor, positions: Tensor) -> None:
        """Write positions (members, batch, *point) back to their slots (members, batch)."""
        self._flat().index_copy_(0, self._index(slots), positions.flatten(0, 1))

    def _flat(self) -> Tensor:
        """The slots of all members one after another: (members * size, *point), no copy."""
        return self.positions.flatten(0, 1)

    def _index(self, slots: Tensor) -> Tensor:
        """Where slots (members, batch) are among those of all members."""
        members, size = self.positions.shape[:2]
        first = torch.arange(0, members * size, size, device=slots.device)
        return (slots + first[:, None]).flatten()


@lru_cache(maxsize=8)
def _stretches(size: int, batch: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """First slot and number of slots of each of `batch` stretches of nearly equal length."""
    cuts = torch.arange(batch + 1, device=device) * size // batch
    return cuts[:-1], cuts.diff()
