"""What draws x~ where the network is a density on a base: importance weights, and short runs.

Importance weights need no chains: with proposals z ~ q, log Gamma is estimated by the logarithm of
the mean of b(z) exp(logsumexp f(z)) / q(z), with gradients.

Short runs start at the base, near the data, and make `steps` Langevin steps in its coordinates,
where they move equally fast in all directions. The network learns to make the ends of such runs
like the data. Nijkamp, Hill, Zhu and Wu (2019) call this a generator that is read off an energy:
its samples are good at the length that it was trained with.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import torch
from torch import Generator, Tensor

from gedilearn.density.amortised import SMOOTHNESS, Amortised
from gedilearn.density.base import Bases
from gedilearn.density.density import Density
from gedilearn.sampling.langevin import LogDensity, SampleBatch, SamplerContext, move

EACH = 2  # proposals for each row
FIRST_LENGTH = 0.3  # of a step, in coordinates of deviation about 1


class OnBaseSampler:
    """The rows and the base of each member, and what it remembers from draw to draw."""

    positions: Tensor | None = None
    weighted = False

    def __init__(self, wanted: SamplerContext) -> None:
        self.bases: Bases = wanted.bases
        each = wanted.n_members // len(self.bases.bases)
        self.groups = [member // each for member in range(wanted.n_members)]
        self.memory: list[Any] = []  # one for each member, if there is any

    def of_members(self, drawn: Tensor) -> Tensor:
        """(groups, ...) -> (members, ...); nothing is copied of one group."""
        if len(drawn) == 1:
            return drawn.expand(len(self.groups), *drawn.shape[1:])
        return drawn[self.groups]

    def contrast(self, ends: list[Tensor], generator: Generator, **more: float) -> SampleBatch:
        """As many rows beside the coordinates (batch, d) that each member has drawn."""
        points = [self.density(k).inside(y) for k, y in enumerate(ends)]
        data = self.of_members(self.bases.rows(len(ends[0]), generator))
        return SampleBatch(torch.stack(points).to(data), None, data, **more)

    def density(self, member: int) -> Density:
        return self.bases.bases[self.groups[member]].density

    def tilted(self, member: int, log_density: LogDensity) -> LogDensity:
        """log p of a member in coordinates, up to a constant, given those of all: (members, n)."""
        dtype = self.bases.data.dtype

        def energy(points: Tensor) -> Tensor:
            return log_density(points.to(dtype).expand(len(self.groups), *points.shape))[member]

        return partial(self.density(member).tilted, energy=energy, weight=1.0)

    def state(self) -> dict[str, Any]:
        return {"memory": self.memory}

    def load_state(self, state: dict[str, Any]) -> None:
        self.memory = list(state["memory"])

    def select(self, members: Sequence[int]) -> None:
        groups = [self.groups[member] for member in members]
        left = sorted(set(groups))  # alone, or a resumed training would draw other numbers
        self.bases, self.groups = self.bases.select(left), [left.index(group) for group in groups]
        self.memory = [self.memory[member] for member in members] if self.memory else []


class Proposals(OnBaseSampler):
    """Points of a pool that is drawn once, each with its weight."""

    weighted = True

    def __init__(self, wanted: SamplerContext) -> None:
        super().__init__(wanted)
        self.points, self.log_ratio = self.bases.pool

    def draw(self, log_density: LogDensity, batch: int, generator: Generator) -> SampleBatch:
        n, device = EACH * batch, self.points.device
        index = torch.randint(self.points.shape[1], (n,), generator=generator, device=device)
        proposed = self.points[:, index], self.log_ratio[:, index]
        points, ratio, data = map(self.of_members, (*proposed, self.bases.rows(batch, generator)))
        return SampleBatch(points, ratio, data)

    def select(self, members: Sequence[int]) -> None:
        super().select(members)
        self.points, self.log_ratio = self.bases.pool


class BaseChains(OnBaseSampler):
    """Ends of short runs from the base, each time anew; the lengths of steps are remembered."""

    def __init__(self, wanted: SamplerContext) -> None:
        super().__init__(wanted)
        self.steps = wanted.settings.steps
        self.memory = [FIRST_LENGTH] * wanted.n_members

    def draw(self, log_density: LogDensity, batch: int, generator: Generator) -> SampleBatch:
        ends = []
        for k, length in enumerate(self.memory):
            tilted, y = self.tilted(k, log_density), self.density(k).q.sample(batch, generator)
            y, self.memory[k] = move(tilted, y, self.steps, length, generator, corrected=False)
            ends.append(y)
        return self.contrast(ends, generator)


class AmortisedDraws(OnBaseSampler):
    """The points of generators that are trained beside the model (`amortised.py`)."""

    def __init__(self, wanted: SamplerContext) -> None:
        super().__init__(wanted)
        d, device = len(self.density(0).coordinates.used), wanted.generator.device
        makers = Generator().manual_seed(wanted.generator.initial_seed())
        self.memory = [Amortised(d, makers, device) for _ in range(wanted.n_members)]

    def draw(self, log_density: LogDensity, batch: int, generator: Generator) -> SampleBatch:
        drawn = [
            own.draw(self.tilted(k, log_density), batch, generator)
            for k, own in enumerate(self.memory)
        ]
        return self.contrast(drawn, generator, smoothness=SMOOTHNESS)

    def state(self) -> dict[str, Any]:
        return {"memory": [own.state() for own in self.memory]}

    def load_state(self, state: dict[str, Any]) -> None:
        for own, saved in zip(self.memory, state["memory"], strict=True):
            own.load_state(saved)
