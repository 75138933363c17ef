"""What draws x~ where the network is a density on a base: importance weights, and short runs.

Importance weights need no chains: with proposals z ~ q, log Gamma is estimated by the logarithm of
the mean of b(z) exp(logsumexp f(z)) / q(z), with gradients.

Short runs start at the base, near the data, and make `steps` Langevin steps in its coordinates,
where they move equally fast in all directions. The network learns to make the ends of such runs
like the data. Nijkamp, Hill, Zhu and Wu (2019) call this a generator that is read off an energy:
its samples are good at the length that it was trained with.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from torch import Generator, Tensor

from gedilearn.density.base import Base
from gedilearn.sampling.langevin import LogDensity, SampleBatch, SamplerContext, move

EACH = 2  # proposals for each row
FIRST_LENGTH = 0.3  # of a step, in coordinates of deviation about 1


class Proposals:
    """Points of a pool that is drawn once, each with its weight."""

    positions: Tensor | None = None
    weighted = True

    def __init__(self, context: SamplerContext) -> None:
        self.base: Base = context.base
        self.n_members = context.n_members
        self.points, self.log_ratio = self.base.pool

    def draw(self, log_density: LogDensity, batch: int, generator: Generator) -> SampleBatch:
        n, device = EACH * batch, self.points.device
        index = torch.randint(len(self.points), (n,), generator=generator, device=device)
        drawn = (self.points[index], self.log_ratio[index], self.base.rows(batch, generator))
        return SampleBatch(*(part.expand(self.n_members, *part.shape) for part in drawn))

    def state(self) -> dict[str, Any]:
        return {}

    def load_state(self, state: dict[str, Any]) -> None:
        pass


class BaseChains:
    """Ends of short runs from the base, each time anew; the lengths of steps are remembered."""

    positions: Tensor | None = None
    weighted = False

    def __init__(self, context: SamplerContext) -> None:
        self.base: Base = context.base
        self.steps = context.settings.steps
        self.lengths = [FIRST_LENGTH] * context.n_members

    def draw(self, log_density: LogDensity, batch: int, generator: Generator) -> SampleBatch:
        density, ends = self.base.density, []
        for member, length in enumerate(self.lengths):
            y = density.q.sample(batch, generator)
            tilted = partial(density.tilted, network=self._of(member, log_density), weight=1.0)
            y, self.lengths[member] = move(
                tilted, y, self.steps, length, generator, corrected=False
            )
            ends.append(density.points_of(y))
        data = self.base.rows(batch, generator)
        samples = torch.stack(ends).to(data)
        return SampleBatch(samples, None, data.expand(len(ends), *data.shape))

    def _of(self, member: int, log_density: LogDensity) -> LogDensity:
        """log-density of a member at points (n, *point), given that of all members."""
        dtype, members = self.base.data.dtype, len(self.lengths)

        def of_points(points: Tensor) -> Tensor:
            return log_density(points.to(dtype).expand(members, *points.shape))[member]

        return of_points

    def state(self) -> dict[str, Any]:
        return {"lengths": self.lengths}

    def load_state(self, state: dict[str, Any]) -> None:
        self.lengths = list(state["lengths"])
