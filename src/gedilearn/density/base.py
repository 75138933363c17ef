"""The base: a density of the data that is known exactly, and the rows that GEN learns from.

A tenth of the rows are validation rows: they choose the size of mixtures, the end of training and
the weight of the network. As many are test rows. GEN learns from all others.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import torch
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped, unused-ignore]
from torch import Generator, Tensor

from gedilearn.density.candidates import OUTSIDE, WIDER, kernels, one_gaussian
from gedilearn.density.coordinates import coordinates_in_columns
from gedilearn.density.density import Density
from gedilearn.density.gaussians import Gaussians
from gedilearn.density.parts import Rows, weighted
from gedilearn.ranks import ONE_AT_A_TIME
from gedilearn.sampling.weights import effective_share, log_mean_exp

MOST_NEAR = 500  # kernels among the proposals
MOST_FOR_WIDE = 4  # columns; in more, no proposals cover what a wide Gaussian leaves to the network
NEAR = 1.0  # width of the kernels among the proposals
# Validation rows, and as many test rows: a tenth, of few rows a fifth up to 50.
SHARE, SHARE_OF_FEW, FEW, MOST_HELD_OUT = 10, 5, 50, 1_000
CONTINUOUS = 1e-3  # cells narrower than this need no spreading while GEN learns

POOL, CHECKED = 20_000, 4_000  # proposals to learn from, and others to measure with
WEIGHTS = tuple(k / 10 for k in range(11))  # of the network, to choose from: the smallest
TOLERATED = 0.5  # that is not worse than the likeliest by more than this many standard errors
# The least effective sample size (ESS) of the proposals. The standard error of log Gamma is about
# one over its root: 0.14 nats at 50. Below, single proposals decide about the gradient, and the
# error itself is not known.
HEALTHY = 50


class HeldOut(NamedTuple):
    """Rows that nothing was fitted to."""

    values: Tensor  # (m, d): of the columns or pixels with a density
    log_mixture: Tensor  # (m,): log m of their coordinates, fitted without them
    log_base: Tensor  # (m,): log b of them; where b is m, fitted without them too


class Proposed(NamedTuple):
    """Points of q; the last `CHECKED` of them are not trained with."""

    points: Tensor  # (n, *point)
    log_mixture: Tensor  # (n,): log m
    log_base: Tensor  # (n,): log b
    log_q: Tensor  # (n,)


class Evaluation(NamedTuple):
    """The validation rows under each member's network."""

    held_out: Tensor  # (members, m): log p of them at the chosen weight
    weight: Tensor  # (members,): that weight
    log_gamma: Tensor  # (members,): log Gamma there
    ess_share: Tensor  # (members,): the ESS there, as a share of the proposals
    ess: Tensor  # (members,): the effective sample size of the proposals at weight 1


@dataclass(frozen=True, eq=False)
class Base:
    """A mixture and a base that were fitted to data, and the rows that GEN learns from."""

    name: str
    density: Density
    data: Tensor  # (n, *point)
    training: Tensor  # (k,): numbers of the rows that GEN learns from
    seed: int
    validation: HeldOut
    test: HeldOut

    @cached_property
    def proposed(self) -> Proposed:
        """They depend on the seed alone: a resumed training has the same."""
        density = self.density
        generator = Generator(density.coordinates.centre.device).manual_seed(self.seed)
        y = density.q.sample(POOL + CHECKED, generator).float()
        mixture = density.mixture.log_density(y)
        log_q = density.log_q(y, mixture)
        base = mixture if density.base is None else density.base.log_density(y)
        return Proposed(density.points_of(y), mixture, base, log_q)

    def rows(self, n: int, generator: Generator) -> Tensor:
        """Rows to learn from, anywhere in their cells: (n, *point)."""
        numbers, coordinates = self.training, self.density.coordinates
        chosen = torch.randint(len(numbers), (n,), generator=generator, device=numbers.device)
        x = self.data[numbers[chosen]]
        if float(coordinates.cells.max()) < CONTINUOUS:
            return x
        return coordinates.points(coordinates.dequantise(coordinates.values_of(x), generator)).to(x)

    @property
    def pool(self) -> tuple[Tensor, Tensor]:
        """Points of q to learn from, and log b - log q of each: (POOL, *point), (POOL,)."""
        points, _, base, log_q = (part[:POOL] for part in self.proposed)
        return points.to(self.data), (base - log_q).to(self.data)

    @property
    def checked(self) -> tuple[Tensor, ...]:
        """Proposals not trained with, then the validation rows; their log m, log b and log q.

        (CHECKED + m, *point), (CHECKED + m,), (CHECKED + m,), (CHECKED,).
        """
        points, mixture, base, log_q = (part[-CHECKED:] for part in self.proposed)
        rows = self.validation
        points = torch.cat([points, self.density.coordinates.points(rows.values)])
        levels = torch.cat([mixture, rows.log_mixture]), torch.cat([base, rows.log_base])
        return points, *levels, log_q

    @torch.no_grad()
    def evaluate(self, log_density: Callable[[Tensor], Tensor]) -> Evaluation:
        """How likely the validation rows are, at the chosen weight of each network.

        `log_density` gives logsumexp f of the members: (m, *point) -> (members, m).
        """
        points, *levels = self.checked
        energies = log_density(points.to(self.data)).double()
        mixture, base, log_q = (level.double() for level in levels)
        weights = torch.tensor(WEIGHTS).to(energies)[:, None, None]
        found = (1 - weights) * mixture + weights * (base + energies)
        ratios = found[..., :CHECKED] - log_q
        log_gamma, share = log_mean_exp(ratios), effective_share(ratios)  # (weights, members)
        held_out = found[..., CHECKED:] - log_gamma[..., None]
        member = torch.arange(len(energies), device=energies.device)
        likeliest = held_out[held_out.mean(-1).argmax(0), member]
        lost = likeliest - held_out  # (weights, members, m)
        allowed = TOLERATED * lost.std(-1) / lost.shape[-1] ** 0.5
        best = (lost.mean(-1) <= allowed).int().argmax(0)  # the first, the smallest
        chosen = (held_out[best, member], weights[best, 0, 0], log_gamma[best, member])
        return Evaluation(*chosen, share[best, member], CHECKED * share[-1])


def split(n: int, seed: int) -> tuple[np.ndarray, int]:
    """All rows in random order: first so many validation rows, then as many test rows."""
    held = min(MOST_HELD_OUT, max(n // SHARE, min(FEW, n // SHARE_OF_FEW), 1))
    return np.random.default_rng(seed).permutation(n), held


# --- vectors with few columns ---------------------------------------------------------------------


def base_in_columns(
    points: Tensor, labels: np.ndarray | None, kind: str, seed: int, generator: Generator
) -> Base:
    """The base of points (n, d), given the labels (n,) of their initial clustering, if any.

    Where data are shapes in few columns, a wide Gaussian leaves all of them to the network, which
    cannot undo the roughness of a mixture; in many columns it needs the mixture to begin with.
    """
    coordinates = coordinates_in_columns(points)
    values = coordinates.dequantise(coordinates.values_of(points), generator)
    x = values.numpy()
    order, held = split(len(x), seed)
    training = order[2 * held :]
    # More threads than one only wait for each other here; the limit is the whole process's.
    with ONE_AT_A_TIME, threadpool_limits(1):
        name, fit = weighted(Rows(x, labels, order[:held], training, seed))
        mixture, without = fit(x), fit(x[training])
        few = x.shape[1] <= MOST_FOR_WIDE
        wide = one_gaussian(x[training], WIDER)
        base = wide if kind == "gaussian" or (kind == "auto" and few) else None
        # Where to look for the model's mass besides the mixture: beyond the data and near them. In
        # many columns near the data is no place of its own any more, and the part for outliers
        # gives no proposals: one of them, with a weight that nothing trained, would be many samples
        other, share = one_gaussian(x[training], OUTSIDE), [0.08, 0.02]
        if few:
            other, share = kernels(x, NEAR, MOST_NEAR), [0.2, 0.4]
        shares = torch.tensor(share, dtype=torch.float64)
        elsewhere = Gaussians.mixed([wide, other], (shares / shares.sum()).log())
    held_out = []
    for rows in (values[order[:held]], values[order[held : 2 * held]]):
        level = without.log_density(rows)
        held_out.append(HeldOut(rows, level, level if base is None else base.log_density(rows)))
    density = Density(coordinates, mixture, base, elsewhere, explored=shares.sum())
    return Base(name, density, points, torch.from_numpy(training), seed, *held_out)
