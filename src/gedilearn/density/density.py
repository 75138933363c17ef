"""p(x) of a network on a base: Eq. 6 of the paper relative to a density that is known exactly."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np
import torch
from torch import Generator, Tensor, nn

from gedilearn.data.arrays import evenly_spaced
from gedilearn.density.coordinates import Coordinates
from gedilearn.density.gaussians import Framed, Gaussians, Known
from gedilearn.sampling.annealing import Path, anneal, move, settle
from gedilearn.sampling.langevin import value_and_gradient

# logsumexp f(x) of a network: (n, *point) -> (n,), with gradients.
Energy = Callable[[Tensor], Tensor]


class Effort(NamedTuple):
    """How many points are spent on each task."""

    batch: int  # looked at at once
    population: int  # that log Gamma is measured with,
    runs: int  # so many times
    more: int  # points drawn for each that a sample keeps, so that few are the same
    settling: int  # steps without noise at the end of a sample


VECTORS = Effort(4_096, 1_000, 8, 4, 0)
MOST_VALUES, LEAST_POPULATION = 1_000_000, 50  # of a population in many columns
IMAGES = Effort(512, 200, 2, 1, 10)  # noise between pixels is seen at once
MOVES = 20  # of an annealed sample, at its end

LEVELS, MOST_LEVELS = 1_001, 2_000  # of log p(x) that a model keeps, and the points they are of


class Density(nn.Module):
    """log p(y) = (1 - w) log m(y) + w (log b(y) + logsumexp f) - log Gamma, in coordinates y.

    m is a mixture that is known exactly, b the base that the network f was trained on (m itself, or
    a wide Gaussian), and w the weight of the network; Gamma is 1 where w is 0. q proposes points:
    another mixture, or m. The network is given to each method as its `Energy`. Points of all
    columns go in and come out; columns that never varied have no density, and keep their one value
    in samples. Numbers of vectors with few columns are in double precision, others in single.
    """

    weight: Tensor  # w
    log_normaliser: Tensor  # log Gamma
    error: Tensor  # its standard error
    effective: Tensor  # the effective share of its proposals
    run: Tensor  # (2,): steps of the short runs that the network was trained with, and their length

    def __init__(
        self,
        coordinates: Coordinates,
        mixture: Known,
        base: Gaussians | None = None,
        proposal: Gaussians | None = None,
        **numbers: Tensor,
    ) -> None:
        super().__init__()
        self.coordinates, self.mixture = coordinates, mixture
        self.base, self.proposal = base, proposal
        for name in ("weight", "log_normaliser", "error", "effective"):
            self.register_buffer(name, numbers.get(name, coordinates.centre.new_zeros(())))
        self.register_buffer("run", numbers.get("run", coordinates.centre.new_zeros(2)))
        d, images = len(coordinates.used), coordinates.resting.dim() > 1
        population = max(LEAST_POPULATION, min(VECTORS.population, MOST_VALUES // max(d, 1)))
        self.effort = IMAGES if images else VECTORS._replace(population=population)

    @classmethod
    def read(cls, tensors: dict[str, Tensor]) -> Density:
        """From the state of another one."""

        def part(prefix: str) -> dict[str, Tensor]:
            own = ((k.removeprefix(prefix), t) for k, t in tensors.items() if k.startswith(prefix))
            return dict(own)

        def known(prefix: str) -> Known | None:
            own = part(prefix)
            if "frame" in own:
                return Framed(own["frame"], Gaussians(**part(f"{prefix}mixture.")))
            return Gaussians(**own) if own else None

        numbers = {name: tensor for name, tensor in tensors.items() if "." not in name}
        parts = [known(f"{name}.") for name in ("mixture", "base", "proposal")]
        return cls(Coordinates(**part("coordinates.")), *parts, **numbers)  # type: ignore[arg-type]

    # --- in coordinates y, (n, d) ------------------------------------------------------------

    def inside(self, y: Tensor) -> Tensor:
        """The points of coordinates, as the network sees them: (n, d) -> (n, *point)."""
        return self.coordinates.points(self.coordinates.values(y))

    def base_density(self, y: Tensor) -> Tensor:
        """log b(y): (n, d) -> (n,)."""
        base: Known = self.mixture if self.base is None else self.base
        return base.log_density(y)

    def tilted(self, y: Tensor, energy: Energy, weight: float) -> Tensor:
        """log p(y) + log Gamma, for a weight of the network: (n, d) -> (n,), with gradients."""
        level = y.new_zeros(len(y))
        if weight < 1 or self.base is None:
            known = self.mixture.log_density(y)
            level = known if self.base is None else (1 - weight) * known
        if weight and self.base is not None:
            level = level + weight * self.base.log_density(y)
        return level + weight * energy(self.inside(y)) if weight else level

    @property
    def q(self) -> Known:
        """The density that proposes points."""
        return self.mixture if self.proposal is None else self.proposal

    def path(self, energy: Energy, weight: float = 1.0) -> Path:
        """From the proposals to the network's density, at a weight of the network."""
        return Path(self.q, partial(self.tilted, energy=energy, weight=weight))

    def of_coordinates(self, y: Tensor, energy: Energy) -> Tensor:
        """log p(y): (n, d) -> (n,), with gradients."""
        return self.tilted(y, energy, float(self.weight)) - self.log_normaliser

    def of_values(self, values: Tensor, energy: Energy) -> Tensor:
        """log p(x) of the columns or pixels with a density: (n, d) -> (n,), with gradients."""
        y, volume = self.coordinates(values)
        found: Tensor = self.of_coordinates(y, energy) + volume
        return found

    def anneal(self, energy: Energy, weight: float, generator: Generator) -> None:
        """Give the network this weight, and measure log Gamma."""
        population, runs = self.effort.population, self.effort.runs
        found = anneal(self.path(energy, weight), population, runs, 0, generator)
        self.settle(weight, found.log_normaliser, found.error, found.effective)

    def settle(self, weight: float, *measured: Tensor) -> None:
        """Set the weight of the network, log Gamma, its error, and the effective share."""
        numbers = (torch.tensor(weight), *measured)
        self.weight, self.log_normaliser, self.error, self.effective = (
            number.to(self.weight) for number in numbers
        )

    # --- of points, (n, *point) --------------------------------------------------------------

    @torch.no_grad()
    def log_density(self, x: Tensor, energy: Energy) -> Tensor:
        """log p(x): (n, *point) -> (n,)."""
        parts = torch.split(self.coordinates.taken(x), self.effort.batch)
        return torch.cat([self.of_values(part, energy) for part in parts])

    def levels(self, x: Tensor, energy: Energy) -> Tensor:
        """log p(x) of at most `MOST_LEVELS` points of x, evenly spaced quantiles: (LEVELS,)."""
        own = x[torch.from_numpy(evenly_spaced(len(x), MOST_LEVELS))].cpu()
        places = torch.linspace(0, 1, LEVELS, dtype=torch.float64)
        return torch.quantile(self.log_density(own, energy).double(), places)

    def slopes(self, x: Tensor, energy: Energy) -> Tensor:
        """d log p(x) / dx: (n, *point) -> (n, d)."""
        parts = torch.split(self.coordinates.taken(x), self.effort.batch)
        of_values = partial(self.of_values, energy=energy)
        return torch.cat([value_and_gradient(of_values, part)[1] for part in parts])

    def volume(self, scale: np.ndarray) -> float:
        """The logarithm of the volume that a point of unit size has in units `scale` times finer.

        scale: (d,), or one for all pixels.
        """
        logs = np.broadcast_to(np.log(scale), self.coordinates.resting.shape).reshape(-1)
        return float(logs[self.coordinates.used.numpy()].sum())

    @torch.no_grad()
    def sample(self, n: int, moves: int | None, energy: Energy, generator: Generator) -> Tensor:
        """New points: (n, *point).

        Independent points of the mixture, where the network has no weight, else annealed ones that
        are moved on. A network without weight, because log Gamma is not known, draws by short runs
        from the mixture, if it was trained with such. Images are without their part outside of the
        principal directions, which is noise, and within the range of the data.
        """
        steps, length = self.run.tolist()
        if weight := float(self.weight):
            path, moves = self.path(energy, weight), MOVES if moves is None else moves
            found = anneal(path, self.effort.more * n, 1, moves, generator).points
            y = found[torch.randperm(len(found), generator=generator, device=found.device)[:n]]
        else:
            y = self.mixture.sample(n, generator)
        if steps and not weight:
            path, moves = self.path(energy), int(steps) if moves is None else moves
            y, length = move(path, y, 1.0, moves, length, generator, corrected=False)
            y = settle(path, y, self.effort.settling, length)
        if self.coordinates.resting.dim() == 1:
            return self.inside(y)
        low, high = self.coordinates.stretch.range
        return self.inside(self.coordinates.leading(y)).clamp(low, high)


def bits_per_dimension(log_density: float, d: int, cell: float) -> float:
    """Of values that are known to within a cell, given the mean of log p(x)."""
    return -(log_density / d + math.log(cell)) / math.log(2)
