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
from gedilearn.density.base import Framed, Gaussians, Known
from gedilearn.models.image_encoders import SmallConvNet
from gedilearn.models.mlp import MLP
from gedilearn.sampling.langevin import value_and_gradient

# --- network --------------------------------------------------------------------------------------
#
# The network g that corrects a base density: of vectors, or of images.


WIDTH = 64
SINES = 32
SCALE = 2.0  # of their frequencies
CHANNELS = 32  # of the first convolution


class Energy(nn.Module):
    """A perceptron on x and on sines of it, for several members at once.

    Perceptrons learn last what changes over short distances; sines let them see it. The frequencies
    are trained too; they start such that a typical direction sees about the same number of waves
    in any dimension.

    (members, n, d) -> (members, n).
    """

    def __init__(self, d: int, members: int, *, generator: Generator | None) -> None:
        super().__init__()
        self.frequencies = nn.Parameter(torch.empty(members, d, SINES))
        self.phases = nn.Parameter(torch.empty(members, 1, SINES))
        if generator is not None:
            with torch.no_grad():
                self.frequencies.normal_(0, SCALE * math.sqrt(2 / d), generator=generator)
                self.phases.uniform_(0, 2 * math.pi, generator=generator)
        self.layers = MLP((d + SINES, WIDTH, WIDTH, 1), members, "silu", generator=generator)

    def forward(self, x: Tensor) -> Tensor:
        waves = torch.sin(torch.baddbmm(self.phases, x, self.frequencies))
        out: Tensor = self.layers(torch.cat([x, waves], -1))[..., 0]
        return out


class ImageEnergy(nn.Module):
    """Convolutions and a perceptron, which corrects nothing to begin with.

    Convolutions are pooled, never strided alone: those see some pixels more than others, and their
    gradients draw a checkerboard.  (1, n, channels, height, width) -> (1, n).
    """

    def __init__(self, channels: int, *, generator: Generator | None) -> None:
        super().__init__()
        self.convolutions = SmallConvNet(channels, CHANNELS, "silu", generator=generator)
        self.layers = MLP((3 * CHANNELS, WIDTH, 1), 1, "silu", generator=generator)
        if generator is not None:
            nn.init.zeros_(self.layers.weights[-1])
            nn.init.zeros_(self.layers.biases[-1])

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.layers(self.convolutions(x[0])[None])[..., 0]
        return out


# --- coordinates ----------------------------------------------------------------------------------
#
# Coordinates in which a density is simple: points to y and back, with the volume that it takes.
#
# Of vectors they are the columns that vary. Of images, and of vectors with many columns,
#
#     u = log s / (1 - s) of pixels s, or the point itself
#     y = R^-1 (u - centre),   R = w I + sum_k (s_k - w) v_k v_k^T
#
# v_k are the leading principal directions, s_k the deviations along them and w that of the rest: y
# has about the same spread in all directions, so that chains move as fast in all.


class Squash(NamedTuple):
    """Pixels in (0, 1), widened by `edge` on both sides and stretched by the logit.

    Pixels are the middles of cells of a width `cell`, from `low` on; `high` is the last one. With
    an edge of 0 there is no stretching.
    """

    edge: float
    low: float
    high: float
    cell: float

    @property
    def range(self) -> tuple[float, float]:
        """From the lower end of the first cell to the upper end of the last."""
        return self.low - self.cell / 2, self.high + self.cell / 2

    def spread(self, x: Tensor, generator: Generator) -> Tensor:
        """Pixels anywhere in their cells: values that repeat have no density."""
        return x + self.cell * (torch.empty_like(x).uniform_(generator=generator) - 0.5)

    def apply(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """u, and log |du/dx| summed over the pixels.  (n, d) -> (n, d), (n,)."""
        if not self.edge:
            return x, torch.zeros_like(x[:, 0])
        whole = self.high - self.low + self.cell
        inside = ((x - self.low + self.cell / 2) / whole).clamp(0, 1)
        s = self.edge + (1 - 2 * self.edge) * inside
        steep = math.log((1 - 2 * self.edge) / whole) - torch.log(s * (1 - s))
        return torch.logit(s), steep.sum(1)

    def undo(self, u: Tensor) -> Tensor:
        """(n, d) -> (n, d)."""
        if not self.edge:
            return u
        inside = (torch.sigmoid(u) - self.edge) / (1 - 2 * self.edge)
        return self.low - self.cell / 2 + (self.high - self.low + self.cell) * inside


class Coordinates(nn.Module):
    """Points (n, *point) <-> coordinates (n, d). Made empty: all is read from a file, or set."""

    used: Tensor  # (d,): numbers of the columns or pixels with a density
    resting: Tensor  # (*point): the values of those that have none
    centre: Tensor  # (d,)
    directions: Tensor  # (r, d): v_k, one below another; none for plain vectors
    deviations: Tensor  # (r,): s_k
    rest: Tensor  # w
    squash_: Tensor  # (4,): edge, low, high, cell

    def __init__(self, point: tuple[int, ...], d: int, directions: int) -> None:
        super().__init__()
        self.point = point
        self.register_buffer("used", torch.zeros(d, dtype=torch.long))
        for name, shape in {
            "resting": point,
            "centre": (d,),
            "directions": (directions, d),
            "deviations": (directions,),
            "rest": (),
            "squash_": (4,),
        }.items():
            self.register_buffer(name, torch.zeros(shape, dtype=torch.float64))

    @property
    def squash(self) -> Squash:
        return Squash(*self.squash_.tolist())

    def taken(self, x: Tensor) -> Tensor:
        """The values with a density.  (n, *point) -> (n, d)."""
        return x.to(self.centre).flatten(1)[:, self.used]

    def forward(self, values: Tensor) -> tuple[Tensor, Tensor]:
        """Coordinates, and log |dy/dx|.  (n, d) -> (n, d), (n,)."""
        u, volume = self.squash.apply(values)
        away = u - self.centre
        if len(self.directions):
            along = away @ self.directions.T
            away = away / self.rest
            away = away + (along / self.deviations - along / self.rest) @ self.directions
            rest = (len(self.centre) - len(self.deviations)) * self.rest.log()
            volume = volume - self.deviations.log().sum() - rest
        return away, volume

    def values(self, y: Tensor) -> Tensor:
        """What `forward` took.  (n, d) -> (n, d)."""
        if len(self.directions):
            along = y @ self.directions.T
            y = self.rest * y + (along * (self.deviations - self.rest)) @ self.directions
        return self.squash.undo(self.centre + y)

    def leading(self, y: Tensor) -> Tensor:
        """What lies along the principal directions.  (n, d) -> (n, d)."""
        return (y @ self.directions.T) @ self.directions

    def inner(self, y: Tensor) -> Tensor:
        """What a network looks at: images, or the columns that vary.  (n, d) -> (n, ...)."""
        values = self.values(y)
        return values.view(-1, *self.point) if len(self.point) > 1 else values

    def points(self, y: Tensor) -> Tensor:
        """(n, d) -> (n, *point)."""
        whole = self.resting.flatten().expand(len(y), -1).clone()
        whole[:, self.used] = self.values(y)
        return whole.view(-1, *self.point)


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
