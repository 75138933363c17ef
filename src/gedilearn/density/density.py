"""A normalised density: mixtures, a correcting network, and the constant that it needs."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import torch
from torch import Generator, Tensor, nn

from gedilearn.data.arrays import evenly_spaced
from gedilearn.density.annealing import Path, anneal, move, settle
from gedilearn.density.coordinates import Coordinates
from gedilearn.density.energy import Energy, ImageEnergy
from gedilearn.density.gaussians import Framed, Gaussians, Known
from gedilearn.sampling.langevin import value_and_gradient


class Effort(NamedTuple):
    """How many points are spent on what."""

    batch: int  # looked at at once
    population: int  # that log Gamma is measured with,
    runs: int  # so many times
    more: int  # points drawn for each that a sample keeps, so that few are the same
    settling: int  # steps without noise at the end of a sample


VECTORS = Effort(4_096, 1_000, 8, 4, 0)
MOST_VALUES, LEAST_POPULATION = 1_000_000, 50  # of a population in many columns
IMAGES = Effort(512, 200, 2, 1, 10)  # what noise there is between pixels is seen at once
MOVES = 20  # of an annealed sample, at its end

LEVELS, MOST_LEVELS = 1_001, 2_000  # of log p(x) that a model keeps, and the points they are of


class Sizes(NamedTuple):
    """What must be known of a density before its tensors can be read."""

    point: tuple[int, ...]  # the shape of one
    used: int  # columns or pixels; columns that never vary are left out
    directions: int  # principal ones; 0 for vectors with few columns
    frame: int  # directions in which the base is a mixture; 0 for all
    full: int  # components of the mixture b
    rounds: int
    start_full: int  # of the base a that the network corrects; none: b itself
    start_rounds: int
    proposal_full: int  # of what its points are proposed by; none: b itself
    proposal_rounds: int
    members: int  # of the network

    @classmethod
    def of(cls, point: tuple[int, ...], shapes: Mapping[str, tuple[int, ...]]) -> Sizes:
        """From the shapes of a density's tensors."""

        def first(name: str) -> int:
            return shapes[name][0] if name in shapes else 0

        framed = first("base.frame")
        mixture = "base.mixture." if framed else "base."
        return cls(
            point,
            first("coordinates.used"),
            first("coordinates.directions"),
            framed,
            first(f"{mixture}full_weights"),
            first(f"{mixture}round_weights"),
            first("start.full_weights"),
            first("start.round_weights"),
            first("proposal.full_weights"),
            first("proposal.round_weights"),
            first("energy.phases") or 1,
        )


class Density(nn.Module):
    """p(y) = (1 - w) b(y) + w a(y) exp(g) / Gamma, in coordinates y of the network's units.

    g is the mean of the network's members. Points of all columns go in and come out; columns that
    never varied have no density, and keep their one value in samples. Numbers of vectors with few
    columns are in double precision, others in single.
    """

    weight: Tensor  # w
    log_normaliser: Tensor  # log Gamma
    error: Tensor  # its standard error
    effective: Tensor  # the effective share of its proposals
    run: Tensor  # (2,): steps of the short runs that it was trained with, and their length; 0: none

    def __init__(self, sizes: Sizes, generator: Generator | None = None) -> None:
        super().__init__()
        d, images = sizes.used, len(sizes.point) > 1
        self.is_of_images = images
        population = max(LEAST_POPULATION, min(VECTORS.population, MOST_VALUES // max(d, 1)))
        self.effort = IMAGES if images else VECTORS._replace(population=population)
        self.coordinates = Coordinates(sizes.point, d, sizes.directions)
        self.base: Gaussians | Framed
        if sizes.frame:
            self.base = Framed(d, sizes.frame, sizes.full)
        else:
            self.base = Gaussians(d, sizes.full, sizes.rounds)
        self.start = Gaussians(d, sizes.start_full, sizes.start_rounds)
        self.proposal = Gaussians(d, sizes.proposal_full, sizes.proposal_rounds)
        self.energy: Energy | ImageEnergy
        if images:
            self.energy = ImageEnergy(sizes.point[0], generator=generator)
        else:
            self.energy = Energy(d, sizes.members, generator=generator)
        for name in ("weight", "log_normaliser", "error", "effective"):
            self.register_buffer(name, torch.zeros((), dtype=torch.float64))
        self.register_buffer("run", torch.zeros(2, dtype=torch.float64))
        self.to(torch.float32 if sizes.directions else torch.float64)

    @property
    def path(self) -> Path:
        """From what proposes points to what the network makes of its base."""
        proposal: Known = self.proposal if len(self.proposal) else self.base
        return Path(proposal, self.corrected)

    def corrected(self, y: Tensor) -> Tensor:
        """log a(y) + g, which lacks log Gamma.  (n, d) -> (n,)."""
        start: Known = self.start if len(self.start) else self.base
        return start.log_density(y) + self.correction(y)

    def correction(self, y: Tensor) -> Tensor:
        """g.  (n, d) -> (n,)."""
        inner = self.coordinates.inner(y)
        members = 1 if isinstance(self.energy, ImageEnergy) else len(self.energy.phases)
        g: Tensor = self.energy(inner.expand(members, *inner.shape)).mean(0)
        return g

    def both(self, y: Tensor) -> Tensor:
        """log p(y), with gradients.  (n, d) -> (n,)."""
        if float(self.weight) == 0:
            return self.base.log_density(y)
        network = self.weight.log() + self.corrected(y) - self.log_normaliser
        if float(self.weight) == 1:
            return network
        return torch.logaddexp(torch.log1p(-self.weight) + self.base.log_density(y), network)

    def of_values(self, values: Tensor) -> Tensor:
        """log p(x), with gradients, of the columns or pixels with a density.  (n, d) -> (n,)."""
        y, volume = self.coordinates(values)
        found: Tensor = self.both(y) + volume
        return found

    @torch.no_grad()
    def log_density(self, x: Tensor) -> Tensor:
        """log p(x).  x: (n, *point) -> (n,)."""
        parts = torch.split(self.coordinates.taken(x), self.effort.batch)
        return torch.cat([self.of_values(part) for part in parts])

    def levels(self, x: Tensor) -> Tensor:
        """log p(x) of at most `MOST_LEVELS` points of x, evenly spaced quantiles: (LEVELS,)."""
        own = x[torch.from_numpy(evenly_spaced(len(x), MOST_LEVELS))].cpu()
        places = torch.linspace(0, 1, LEVELS, dtype=torch.float64)
        return torch.quantile(self.log_density(own).double(), places)

    def slopes(self, x: Tensor) -> Tensor:
        """d log p(x) / dx.  x: (n, *point) -> (n, d)."""
        parts = torch.split(self.coordinates.taken(x), self.effort.batch)
        return torch.cat([value_and_gradient(self.of_values, part)[1] for part in parts])

    def volume(self, scale: np.ndarray) -> float:
        """The logarithm of the volume that a point of unit size has in units `scale` times finer.

        scale: (d,), or one for all pixels.
        """
        logs = np.broadcast_to(np.log(scale), self.coordinates.point).reshape(-1)
        return float(logs[self.coordinates.used.numpy()].sum())

    def normalise(self, generator: Generator) -> None:
        """Measure log Gamma."""
        found = anneal(self.path, self.effort.population, self.effort.runs, 0, generator)
        self.log_normaliser, self.error = found.log_normaliser, found.error
        self.effective = found.effective

    @torch.no_grad()
    def sample(self, n: int, moves: int | None, generator: Generator) -> Tensor:
        """New points: (n, *point).

        Images are without what lies outside of the principal directions, which is noise, and
        within the range of the data.

        Independent points of the mixture, and annealed ones of the network that are moved on. A
        network that has no say in p(x), because log Gamma is not known, draws by short runs from
        the base, if it was trained with such.
        """
        y = self.base.sample(n, generator)
        steps, length = self.run.tolist()
        if steps and not float(self.weight):
            moves = int(steps) if moves is None else moves
            y, length = move(self.path, y, 1.0, moves, length, generator, corrected=False)
            y = settle(self.path, y, self.effort.settling, length)
        else:
            draws = torch.empty(n, device=y.device).uniform_(generator=generator)
            by_network = draws < self.weight
            if wanted := int(by_network.sum()):
                moves = MOVES if moves is None else moves
                found = anneal(self.path, self.effort.more * wanted, 1, moves, generator)
                order = torch.randperm(len(found.points), generator=generator, device=y.device)
                y[by_network] = found.points[order[:wanted]]
        if not self.is_of_images:
            return self.coordinates.points(y)
        low, high = self.coordinates.squash.range
        return self.coordinates.points(self.coordinates.leading(y)).clamp(low, high)


def bits_per_dimension(log_density: float, d: int, cell: float) -> float:
    """Of values that are known to within a cell, given the mean of log p(x)."""
    return -(log_density / d + math.log(cell)) / math.log(2)
