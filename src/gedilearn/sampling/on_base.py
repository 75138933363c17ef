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
from typing import Any

import torch
from torch import Generator, Tensor

from gedilearn.sampling.amortised import SMOOTHNESS, Amortised
from gedilearn.sampling.annealing import Path, move
from gedilearn.sampling.langevin import Contrast, LogDensity, OnBases, Wanted

EACH = 2  # proposals for each row
FIRST_LENGTH = 0.3  # of a step, in coordinates of deviation about 1


class OnBaseSampler:
    """The rows and the base of each member."""

    positions: Tensor | None = None

    def __init__(self, wanted: Wanted) -> None:
        assert wanted.bases is not None
        self.bases: OnBases = wanted.bases
        self.groups = [wanted.group(member) for member in range(wanted.n_members)]

    def of_members(self, drawn: Tensor) -> Tensor:
        """(groups, ...) -> (members, ...); nothing is copied of one group."""
        if len(drawn) == 1:
            return drawn.expand(len(self.groups), *drawn.shape[1:])
        return drawn[self.groups]

    def rows(self, n: int, generator: Generator) -> Tensor:
        """The data that samples are compared with: (members, n, *point)."""
        return self.of_members(self.bases.rows(n, generator))

    def path(self, member: int, log_density: LogDensity) -> Path:
        """From the base of a member to its density, given those of all: (members, n)."""

        def energy(points: Tensor) -> Tensor:
            points = points.to(self.bases.dtype)
            return log_density(points.expand(len(self.groups), *points.shape))[member]

        found: Path = self.bases.densities[self.groups[member]].path(energy)
        return found

    def inside(self, member: int, y: Tensor) -> Tensor:
        return self.bases.densities[self.groups[member]].inside(y)

    def state(self) -> dict[str, Any]:
        return {}

    def load_state(self, state: dict[str, Any]) -> None:
        pass

    def select(self, members: Sequence[int]) -> None:
        groups = [self.groups[member] for member in members]
        left = sorted(set(groups))  # alone, or a resumed training would draw other numbers
        self.bases, self.groups = self.bases.select(left), [left.index(group) for group in groups]


class Proposals(OnBaseSampler):
    """Points of a pool that is drawn once, each with its weight."""

    def __init__(self, wanted: Wanted) -> None:
        super().__init__(wanted)
        self.points, self.log_ratio = self.bases.pool

    def draw(self, log_density: LogDensity, batch: int, generator: Generator) -> Contrast:
        n, device = EACH * batch, self.points.device
        index = torch.randint(self.points.shape[1], (n,), generator=generator, device=device)
        points, ratio = self.points[:, index], self.log_ratio[:, index]
        data = self.rows(batch, generator)
        return Contrast(self.of_members(points), self.of_members(ratio), data)

    def select(self, members: Sequence[int]) -> None:
        super().select(members)
        self.points, self.log_ratio = self.bases.pool


class BaseChains(OnBaseSampler):
    """Ends of short runs from the base, each time anew."""

    def __init__(self, wanted: Wanted) -> None:
        super().__init__(wanted)
        self.steps = wanted.settings.steps
        self.lengths = [FIRST_LENGTH] * wanted.n_members

    def draw(self, log_density: LogDensity, batch: int, generator: Generator) -> Contrast:
        ends = []
        for k, length in enumerate(self.lengths):
            path = self.path(k, log_density)
            y = path.proposal.sample(batch, generator)
            y, self.lengths[k] = move(path, y, 1.0, self.steps, length, generator, corrected=False)
            ends.append(self.inside(k, y))
        data = self.rows(batch, generator)
        return Contrast(torch.stack(ends).to(data), None, data)

    def state(self) -> dict[str, Any]:
        return {"lengths": self.lengths}

    def load_state(self, state: dict[str, Any]) -> None:
        self.lengths = list(state["lengths"])

    def select(self, members: Sequence[int]) -> None:
        super().select(members)
        self.lengths = [self.lengths[member] for member in members]


class AmortisedDraws(OnBaseSampler):
    """The points of generators that are trained beside the model (`amortised.py`)."""

    def __init__(self, wanted: Wanted) -> None:
        super().__init__(wanted)
        device = wanted.generator.device
        makers = Generator().manual_seed(wanted.generator.initial_seed())
        probe = self.path(0, lambda points: points.flatten(2).sum(-1)).proposal
        d = probe.sample(1, wanted.generator).shape[1]
        self.generators = [Amortised(d, makers, device) for _ in range(wanted.n_members)]

    def draw(self, log_density: LogDensity, batch: int, generator: Generator) -> Contrast:
        drawn = []
        for k, own in enumerate(self.generators):
            y = own.draw(self.path(k, log_density).model, batch, generator)
            drawn.append(self.inside(k, y))
        data = self.rows(batch, generator)
        return Contrast(torch.stack(drawn).to(data), None, data, SMOOTHNESS)

    def state(self) -> dict[str, Any]:
        return {"generators": [own.state() for own in self.generators]}

    def load_state(self, state: dict[str, Any]) -> None:
        for own, saved in zip(self.generators, state["generators"], strict=True):
            own.load_state(saved)

    def select(self, members: Sequence[int]) -> None:
        super().select(members)
        self.generators = [self.generators[member] for member in members]
