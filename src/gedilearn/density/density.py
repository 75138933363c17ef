"""p(x) of a network on a base: Eq. 6 of the paper relative to an exact density."""

from __future__ import annotations

import math
from functools import partial

import numpy as np
import torch
from torch import Generator, Tensor, nn

from gedilearn.density.coordinates import Coordinates
from gedilearn.density.gaussians import Framed, Gaussians
from gedilearn.density.outliers import GROUP_ROWS, GROUP_SHARE, Subsamples
from gedilearn.density.parts import Sum
from gedilearn.sampling.langevin import LogDensity, look, move
from gedilearn.sampling.weights import effective_share, log_mean_exp, resampled

VECTORS, IMAGES = 4_096, 512  # points evaluated at once
MOVES = 20  # at the end of a sample of vectors
# Steps without noise at the end of a sample of images: noise between pixels would be visible. Their
# total time is limited: in a longer time the base would move all samples to its mode.
SETTLING, SETTLED = 10, 0.25
FIRST_LENGTH = 0.1  # of moves, in units of the points' spread
LEAST_MORE, MOST_MORE = 4, 40  # proposals for each point of a sample
Mixture = Sum | Gaussians | Framed
LEVELS, MOST_LEVELS = 1_001, 2_000  # of log p(x) that a model keeps, and the points they are of


class Density(nn.Module):
    """log p(y) = (1 - w) log m(y) + w (log b(y) + logsumexp f) - log Gamma, in coordinates y.

    m is an exact sum of densities, b the base that the network f was trained on (m itself, or a
    wide Gaussian), and w the weight of the network; Gamma is 1 for w = 0. Points are proposed by q:
    by m, and a share of `explored` by Gaussians that look elsewhere. `network` is logsumexp f as a
    function of points (n, *point), with gradients. Points have all columns. Constant columns have
    no density and keep their value in samples. Vectors with few columns are in double precision,
    others in single. `subsamples` of the training rows give outlier scores.
    """

    subsamples: Subsamples | None

    weight: Tensor  # w
    log_normaliser: Tensor  # log Gamma
    error: Tensor  # its standard error
    effective: Tensor  # the effective sample size of its proposals, as a share of them
    explored: Tensor  # the share of proposals by the Gaussians that look elsewhere
    run: Tensor  # (2,): number and length of the steps of short runs in the training

    def __init__(
        self,
        coordinates: Coordinates,
        mixture: Mixture,
        base: Gaussians | None = None,
        elsewhere: Gaussians | None = None,
        **numbers: Tensor,
    ) -> None:
        super().__init__()
        self.coordinates, self.mixture = coordinates, mixture
        self.base, self.elsewhere = base, elsewhere
        self.subsamples = None
        for name in ("weight", "log_normaliser", "error", "effective", "explored"):
            self.register_buffer(name, numbers.get(name, coordinates.centre.new_zeros(())))
        self.register_buffer("run", numbers.get("run", coordinates.centre.new_zeros(2)))
        self.is_of_images = coordinates.template.dim() > 1
        self.at_once = IMAGES if self.is_of_images else VECTORS

    @classmethod
    def read(cls, tensors: dict[str, Tensor]) -> Density:
        """From the state of another density."""

        def part(prefix: str) -> dict[str, Tensor]:
            own = ((k.removeprefix(prefix), t) for k, t in tensors.items() if k.startswith(prefix))
            return dict(own)

        def gaussians(prefix: str) -> Gaussians | None:
            own = part(prefix)
            return Gaussians(**own) if own else None

        numbers = {name: tensor for name, tensor in tensors.items() if "." not in name}
        own = part("mixture.")
        mixture: Mixture = Sum.read(own) if "frame" not in own else Framed.read(own)
        parts = gaussians("base."), gaussians("elsewhere.")
        read = cls(Coordinates(**part("coordinates.")), mixture, *parts, **numbers)  # type: ignore[arg-type]
        if own := part("subsamples."):
            read.subsamples = Subsamples(**own)
        return read

    # --- in coordinates y, (n, d) ------------------------------------------------------------

    def points_of(self, y: Tensor) -> Tensor:
        """The points of coordinates, as the network sees them: (n, d) -> (n, *point)."""
        return self.coordinates.points(self.coordinates.undo(y))

    def tilted(
        self, y: Tensor, network: LogDensity, weight: float, log_mixture: Tensor | None = None
    ) -> Tensor:
        """log p(y) + log Gamma, for a weight of the network: (n, d) -> (n,), with gradients.

        log_mixture: (n,), where it is computed already
        """
        level = y.new_zeros(len(y))
        if weight < 1 or self.base is None:
            log_mixture = self.mixture.log_density(y) if log_mixture is None else log_mixture
            level = log_mixture if self.base is None else (1 - weight) * log_mixture
        if weight and self.base is not None:
            level = level + weight * self.base.log_density(y)
        return level + weight * network(self.points_of(y)) if weight else level

    @property
    def q(self) -> Mixture:
        """The density that proposes points."""
        if self.elsewhere is None:
            return self.mixture
        shares = {"mixture": torch.log1p(-self.explored), "elsewhere": self.explored.log()}
        return Sum({"mixture": self.mixture, "elsewhere": self.elsewhere}, shares)

    def log_q(self, y: Tensor, log_mixture: Tensor) -> Tensor:
        """log q(y), given log m(y), which is costly: (n, d), (n,) -> (n,)."""
        if self.elsewhere is None:
            return log_mixture
        rest = self.elsewhere.log_density(y) + self.explored.log()
        return torch.logaddexp(log_mixture + torch.log1p(-self.explored), rest)

    @property
    def gaussians(self) -> Gaussians:
        """The Gaussians among the parts of q."""
        m, rest = self.mixture, torch.log1p(-self.explored)
        parts = dict(zip(m, m.log_weights, strict=True)) if isinstance(m, Sum) else {m: rest * 0}
        own = {part: rest + weight for part, weight in parts.items() if isinstance(part, Gaussians)}
        if self.elsewhere is not None:
            own[self.elsewhere] = self.explored.log()
        weights = torch.stack(list(own.values())).log_softmax(0)
        return Gaussians.mixed(list(own), weights)

    def of_coordinates(self, y: Tensor, network: LogDensity) -> Tensor:
        """log p(y): (n, d) -> (n,), with gradients."""
        return self.tilted(y, network, float(self.weight)) - self.log_normaliser

    def of_values(self, values: Tensor, network: LogDensity) -> Tensor:
        """log p(x) of the columns or pixels with a density: (n, d) -> (n,), with gradients."""
        y, volume = self.coordinates(values)
        found: Tensor = self.of_coordinates(y, network) + volume
        return found

    @torch.no_grad()
    def propose(
        self, n: int, network: LogDensity, weight: float, generator: Generator
    ) -> tuple[Tensor, Tensor]:
        """Points of q, and the logarithms of their importance weights: (n, d), (n,)."""
        y, ratios = self.q.sample(n, generator), []
        for part in torch.split(y, self.at_once):
            level = self.mixture.log_density(part)
            ratios.append(self.tilted(part, network, weight, level) - self.log_q(part, level))
        return y, torch.cat(ratios)

    @torch.no_grad()
    def propose_given(
        self, x: Tensor, known: Tensor, n: int, network: LogDensity, generator: Generator
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Points of `gaussians` with the `known` columns of vectors x, and log importance weights.

        With their log density of the known columns.  (m, d), (d,) -> (m, n, d), (m, n), (m,).
        """
        gaussians, weight = self.gaussians, float(self.weight)
        y = self.coordinates(self.coordinates.values_of(x))[0]
        drawn, level = gaussians.given(y, known[self.coordinates.used], n, generator)
        ratios = [
            self.tilted(part, network, weight) - gaussians.log_density(part)
            for part in torch.split(drawn.flatten(0, 1), self.at_once)
        ]
        return drawn, torch.cat(ratios).view(len(x), n), level

    @torch.no_grad()
    def sample_given(
        self,
        n: int,
        x: Tensor,
        known: Tensor,
        moves: int | None,
        network: LogDensity,
        generator: Generator,
    ) -> Tensor:
        """New points with the `known` columns of a vector x: (d,), (d,) -> (n, d).

        Proposals are resampled by their importance weights, then moved in all other columns.
        """
        drawn, ratios, _ = self.propose_given(x[None], known, LEAST_MORE * n, network, generator)
        y = drawn[0, resampled(ratios[0], n, generator)]
        free = (~known[self.coordinates.used]).nonzero()[:, 0]

        def tilted(part: Tensor) -> Tensor:
            whole = y[:1].expand(len(part), -1).index_copy(1, free, part)
            return self.tilted(whole, network, float(self.weight))

        spread = float(y[:, free].std(0).mean()) if n > 1 and len(free) else 1.0
        first = FIRST_LENGTH * spread
        moved = move(tilted, y[:, free], MOVES if moves is None else moves, first, generator)[0]
        return self.points_of(y.index_copy(1, free, moved))

    def normalise(self, n: int, network: LogDensity, weight: float, generator: Generator) -> None:
        """Give the network this weight, and measure log Gamma with n proposals."""
        ratios = self.propose(n, network, weight, generator)[1]
        self.set_weight(weight, log_mean_exp(ratios), effective_share(ratios), n)

    def set_weight(self, weight: float, log_gamma: Tensor, share: Tensor, n: int) -> None:
        """Set the weight of the network, and log Gamma of n proposals with this effective share."""
        error = ((1 / share - 1).clamp_min(0) / n).sqrt()
        numbers = (torch.tensor(weight), log_gamma, error, share)
        self.weight, self.log_normaliser, self.error, self.effective = (
            number.to(self.weight) for number in numbers
        )

    # --- of points, (n, *point) --------------------------------------------------------------

    @torch.no_grad()
    def log_density(self, x: Tensor, network: LogDensity) -> Tensor:
        """log p(x): (n, *point) -> (n,)."""
        parts = torch.split(self.coordinates.values_of(x), self.at_once)
        return torch.cat([self.of_values(part, network) for part in parts])

    def outlying(self, x: Tensor, labels: np.ndarray, n_clusters: int) -> tuple[int, ...]:
        """The clusters that are groups of outliers, small and far from the bulk.

        (n, *point), (n,).
        """
        assert self.subsamples is not None
        named, most = [], max(GROUP_SHARE * len(x), GROUP_ROWS)
        for k, size in enumerate(np.bincount(labels, minlength=n_clusters)):
            own = x[torch.from_numpy(labels == k).to(x.device)] if 0 < size <= most else x[:0]
            if len(own) and self.subsamples.are_far(self.coordinates.leading(own), len(x)):
                named.append(k)
        return tuple(named)

    def gradients(self, x: Tensor, network: LogDensity) -> Tensor:
        """d log p(x) / dx: (n, *point) -> (n, d)."""
        return look(partial(self.of_values, network=network), self.coordinates.values_of(x))[1]

    def volume(self, scale: np.ndarray) -> float:
        """log |dx/dz| of x = scale * z + offset, for the columns with a density.

        scale: (d,), or one number for all pixels.
        """
        logs = np.broadcast_to(np.log(scale), self.coordinates.template.shape).reshape(-1)
        return float(logs[self.coordinates.used.numpy()].sum())

    @torch.no_grad()
    def sample(
        self, n: int, moves: int | None, network: LogDensity, generator: Generator
    ) -> Tensor:
        """New points: (n, *point).

        If the network has weight, proposals are resampled by their importance weights, then moved.
        Otherwise points are drawn from the mixture. If the training used short runs, such runs by
        the network follow. Images are projected to the principal directions, without the noise in
        all others, and clipped to the range of the data.
        """
        steps, length = self.run.tolist()
        if weight := float(self.weight):
            more = min(max(2 / float(self.effective), LEAST_MORE), MOST_MORE)
            y, ratios = self.propose(round(more * n), network, weight, generator)
            y = y[resampled(ratios, n, generator)]
            tilted = partial(self.tilted, network=network, weight=weight)
            first = FIRST_LENGTH * float(y.std(0).mean()) if n > 1 else FIRST_LENGTH
            y, _ = move(tilted, y, MOVES if moves is None else moves, first, generator)
        else:
            y = self.mixture.sample(n, generator)
        if steps and not weight:
            tilted = partial(self.tilted, network=network, weight=1.0)
            moves = int(steps) if moves is None else moves
            y, length = move(tilted, y, moves, length, generator, corrected=False)
            half = min(length**2 / 2, SETTLED / SETTLING)
            for _ in range(SETTLING if self.is_of_images else 0):
                y = y + half * look(tilted, y)[1]
        if not self.is_of_images:
            return self.points_of(y)
        low, high = self.coordinates.stretch.range
        return self.points_of(self.coordinates.project(y)).clamp(low, high)


def bits_per_dimension(log_density: float, d: int, cell: float) -> float:
    """Of values rounded to a cell, given the mean of log p(x)."""
    return -(log_density / d + math.log(cell)) / math.log(2)
