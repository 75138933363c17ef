"""Bases: densities of the data that are known exactly, and the rows that GEN learns from.

A tenth of the rows chooses: the size of mixtures, when training ends, the weight of the network. As
many are only measured on. GEN learns from all others.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np
import torch
from sklearn.exceptions import ConvergenceWarning
from sklearn.mixture import GaussianMixture
from sklearn.neighbors import NearestNeighbors
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped, unused-ignore]
from torch import Generator, Tensor

from gedilearn.data.arrays import evenly_spaced
from gedilearn.density.coordinates import Coordinates
from gedilearn.density.density import Density
from gedilearn.density.gaussians import Gaussians
from gedilearn.ranks import ONE_AT_A_TIME
from gedilearn.sampling.annealing import effective_share, log_mean_exp

COMPONENTS = (1, 2, 3, 4, 6, 8, 11, 15, 20)
PATIENCE = 3  # numbers of components in a row that are no better than fewer
WIDTHS = (0.15, 0.25, 0.4, 0.6, 0.9, 1.3, 2.0)  # of kernels
FLOOR = 1e-6  # added to variances, in the network's units
NEIGHBOUR = 7  # the distance to it is the unit of a kernel's width
MOST_KERNELS, MOST_NEAR = 2_000, 500  # of a candidate, and among the proposals
MOST_ROWS = 5_000  # that a mixture is fitted to
WIDER = 1.5  # the wide Gaussian's deviations, in units of the data's
LEAST_WEIGHT = 0.03
CLUSTERS = "a mixture that begins with the clusters"

FOLDS = 3  # of the rows; as many are held out in turn as give
ENOUGH = 300  # rows to choose weights by
MOST_IN_FOLD = 1_000
MOST_FOR_WIDE = 4  # columns; in more, no proposals cover what a wide Gaussian leaves to the network
NEAR = 1.0  # width of the kernels among the proposals
# Rows that choose, and as many that are only measured on: a tenth, of few rows a fifth up to 50.
SHARE, SHARE_OF_FEW, FEW, MOST_HELD_OUT = 10, 5, 50, 1_000
CONTINUOUS = 1e-3  # cells narrower than this need no spreading while GEN learns

Fit = Callable[[np.ndarray], list[Gaussians]]  # of rows, given by their numbers


# --- the rows ------------------------------------------------------------------------------------


class HeldOut(NamedTuple):
    """Rows that nothing was fitted to."""

    values: Tensor  # (m, d): of the columns or pixels with a density
    known: Tensor  # (m,): log m of their coordinates, fitted without them
    based: Tensor  # (m,): log b of them; where b is m, fitted without them too


class Base(NamedTuple):
    """A mixture and a base that were fitted to data, and the rows that GEN learns from."""

    name: str
    density: Density
    training: Tensor  # (k,): numbers of the rows that GEN learns from
    choosing: HeldOut
    measuring: HeldOut


def split(n: int, seed: int) -> tuple[np.ndarray, int]:
    """All rows in random order, and how many of the first choose; as many follow to measure on."""
    held = min(MOST_HELD_OUT, max(n // SHARE, min(FEW, n // SHARE_OF_FEW), 1))
    return np.random.default_rng(seed).permutation(n), held


# --- candidates ----------------------------------------------------------------------------------


def wide_gaussian(x: np.ndarray) -> Gaussians:
    """One Gaussian, wider than the data on every side."""
    spread = np.atleast_2d(np.cov(x.T)) * WIDER**2 + FLOOR * np.eye(x.shape[1])
    factor = torch.from_numpy(np.linalg.cholesky(spread))
    return Gaussians.full(torch.ones(1).double(), torch.from_numpy(x.mean(0))[None], factor[None])


class Rules(NamedTuple):
    """How mixtures are fitted."""

    floor: float = FLOOR  # added to variances
    rounds: int = 100  # of expectation maximisation, at most
    most: int = MOST_ROWS  # rows; of more, evenly spaced ones


RULES = Rules()


def gaussian_mixture(
    x: np.ndarray, n_components: int, seed: int, rules: Rules = RULES, **start: np.ndarray
) -> Gaussians:
    """Fitted by scikit-learn's expectation maximisation, with covariances of any shape.

    It starts from points of the data, far from each other, or from the values of `start`.
    """
    mixture = GaussianMixture(
        n_components,
        reg_covar=rules.floor,
        max_iter=rules.rounds,
        random_state=seed,
        init_params="k-means++",
        **start,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        mixture.fit(x[evenly_spaced(len(x), rules.most)])
    parts = (mixture.weights_, mixture.means_, np.linalg.cholesky(mixture.covariances_))
    return Gaussians.full(*(torch.from_numpy(part.astype(np.float64)) for part in parts))


def clusters_mixture(x: np.ndarray, labels: np.ndarray, seed: int) -> Gaussians:
    """A Gaussian for each cluster to begin with, however long and thin: (n, d), (n,)."""
    parts = [x[labels == k] for k in np.unique(labels)]
    spreads = [np.atleast_2d(np.cov(part.T, bias=True)) for part in parts]
    return gaussian_mixture(
        x,
        len(parts),
        seed,
        weights_init=np.array([len(part) for part in parts]) / len(x),
        means_init=np.array([part.mean(0) for part in parts]),
        precisions_init=np.array([_inverse(spread) for spread in spreads]),
    )


def _inverse(spread: np.ndarray) -> np.ndarray:
    """(spread + floor I)^-1, symmetric even where a cluster has fewer rows than columns."""
    values, directions = np.linalg.eigh(spread)
    half = directions / np.sqrt(values.clip(0) + FLOOR)
    return np.asarray(half @ half.T)


def kernels(x: np.ndarray, *widths: float, most: int = MOST_KERNELS) -> list[Gaussians]:
    """A round Gaussian at each point, or at evenly spaced ones, as wide as its neighbourhood.

    One mixture for each width, in units of the neighbourhood's.
    """
    points = x[evenly_spaced(len(x), most)]
    k = min(NEIGHBOUR, len(points) - 1)
    away = NearestNeighbors(n_neighbors=k + 1).fit(points).kneighbors(points)[0][:, -1]
    unit = torch.from_numpy(away / np.sqrt(x.shape[1]))
    means = torch.from_numpy(points)
    return [Gaussians.round(means, (w * unit).clamp_min(FLOOR**0.5)) for w in widths]


def mixing_weights(log_densities: Tensor, rounds: int = 100) -> Tensor:
    """The logarithms of the weights under which a sum of densities is likeliest.

    Expectation maximisation.  (n, parts) -> (parts,).
    """
    weights = torch.zeros_like(log_densities[0]).log_softmax(0)
    for _ in range(rounds):
        shares = (log_densities + weights).log_softmax(1)
        weights = shares.logsumexp(0) - np.log(len(shares))
    return weights


# --- vectors with few columns: mixtures and kernels in all of them -------------------------------


def base_in_columns(
    data: np.ndarray, labels: np.ndarray | None, kind: str, seed: int, generator: Generator
) -> Base:
    """The base of rows (n, d), which begin in clusters `labels` (n,), if in any.

    Where data are shapes in few columns, a wide Gaussian leaves all of them to the network, which
    cannot undo the roughness of a mixture; in many columns it needs the mixture to begin with.
    """
    used = np.flatnonzero(data.max(0) > data.min(0))
    if not len(used):  # one point, again and again: a density of no width is shown as a narrow one
        used = np.arange(data.shape[1])
    x = data[:, used].astype(np.float64)
    coordinates = Coordinates(
        torch.from_numpy(used), torch.from_numpy(data[0].astype(np.float64)), _cells(x)
    )
    values = coordinates.spread(torch.from_numpy(x), generator)
    x = values.numpy()
    order, held = split(len(x), seed)
    # More threads than one only wait for each other here; the limit is the whole process's.
    with ONE_AT_A_TIME, threadpool_limits(1):
        name, fit = weighted(x, labels, order, seed)
        mixture, without = fit(np.arange(len(x))), fit(order[2 * held :])
        few = x.shape[1] <= MOST_FOR_WIDE
        base = wide_gaussian(x) if kind == "gaussian" or (kind == "auto" and few) else None
        density = Density(coordinates, mixture, base, _proposals(x, mixture))
    rows = torch.from_numpy(order)
    parts = [values[rows[k * held : (k + 1) * held]] for k in range(2)]
    held_out = []
    for part in parts:
        known = without.log_density(part)
        held_out.append(HeldOut(part, known, known if base is None else base.log_density(part)))
    return Base(name, density, rows[2 * held :], *held_out)


def weighted(
    x: np.ndarray, labels: np.ndarray | None, order: np.ndarray, seed: int
) -> tuple[str, Callable[[np.ndarray], Gaussians]]:
    """Mixtures of several sizes, kernels of several widths and the wide Gaussian, all at once.

    One mixture begins with the clusters, of which `labels` (n,) tells each row its own. The weight
    of each is the one under which held-out rows are likeliest; those of little weight are dropped.
    Gives its name, and the function that fits it to rows.
    """
    each = max(1, min(len(x) // FOLDS, MOST_IN_FOLD))
    folds = [order[k * each : (k + 1) * each] for k in range(min(FOLDS, -(-ENOUGH // each)))]

    def held_out(fit: Fit) -> Tensor:
        """log densities of held-out rows: (rows, bases)."""
        found = []
        for own in folds:
            bases = fit(np.setdiff1d(order, own))
            rows = torch.from_numpy(x[own])
            found.append(torch.stack([base.log_density(rows) for base in bases], -1))
        return torch.cat(found)

    fits: list[tuple[list[str], Fit]] = [
        (["a wide Gaussian"], lambda rows: [wide_gaussian(x[rows])]),
        ([f"kernels {w:g} wide" for w in WIDTHS], lambda rows: kernels(x[rows], *WIDTHS)),
    ]
    if labels is not None:
        fits.append(([CLUSTERS], lambda rows: [clusters_mixture(x[rows], labels[rows], seed)]))
    levels = [held_out(fit) for _, fit in fits]
    best, worse = -np.inf, 0
    for c in (c for c in COMPONENTS if c <= max(1, (len(x) - each) // 3)):

        def mixture(rows: np.ndarray, c: int = c) -> list[Gaussians]:
            return [gaussian_mixture(x[rows], c, seed)]

        fits.append(([f"a mixture of {c}"], mixture))
        levels.append(held_out(mixture))
        level = float(levels[-1].mean())
        best, worse = (level, 0) if level > best else (best, worse + 1)
        if worse == PATIENCE:
            break
    densities = torch.cat(levels, -1)
    kept = (mixing_weights(densities).exp() > LEAST_WEIGHT).nonzero()[:, 0].tolist()
    weights = mixing_weights(densities[:, kept])
    names = [name for own, _ in fits for name in own]
    shares = sorted(zip(weights.tolist(), (names[k] for k in kept), strict=True), reverse=True)
    words = ", ".join(f"{word} ({math.exp(share):.0%})" for share, word in shares)
    wanted = {names[k] for k in kept}

    def fit_kept(rows: np.ndarray) -> Gaussians:
        parts = [
            base
            for own, fit in fits
            if wanted & set(own)
            for name, base in zip(own, fit(rows), strict=True)
            if name in wanted
        ]
        return Gaussians.mixed(parts, weights)

    return words, fit_kept


def _proposals(x: np.ndarray, mixture: Gaussians) -> Gaussians:
    """Where to look for the model's mass: near the data and beyond, or at the mixture."""
    if x.shape[1] <= MOST_FOR_WIDE:
        near = kernels(x, NEAR, most=MOST_NEAR)
        parts, shares = [mixture, *near, wide_gaussian(x)], [0.4, 0.4, 0.2]
    else:  # near the data is no place of its own any more
        parts, shares = [mixture, wide_gaussian(x)], [0.9, 0.1]
    return Gaussians.mixed(parts, torch.tensor(shares, dtype=torch.float64).log())


def _cells(x: np.ndarray) -> Tensor:
    """The distance of two neighbouring values of each column: (n, d) -> (d,).

    Values that repeat have no density; spread over their own cell of the scale, they have the one
    that a histogram shows. Of columns with any value, this moves the last digits alone.
    """
    steps = (np.diff(np.unique(column)) for column in x.T)
    gaps = [float(np.median(own)) if len(own) else FLOOR**0.5 for own in steps]
    return torch.tensor(gaps, dtype=torch.float64)


# --- of all groups of a training -----------------------------------------------------------------

POOL, CHECKED = 8_000, 4_000  # proposals to learn from, and others to measure with
WEIGHTS = tuple(k / 10 for k in range(11))  # of the network, to choose from: the smallest
TOLERATED = 0.5  # that is not worse than the likeliest by more than this many standard errors
# Effective proposals below which weights are not healthy. The standard error of log Gamma is about
# one over the root of their number: 0.14 nats at 50. With fewer, single proposals decide about the
# gradient, and the error itself is not known.
HEALTHY = 50


class Bases:
    """The bases of all groups of a training: samplers draw from them, and they judge GEN.

    data: (groups, n, *point). Every draw is for all groups: (groups, ...). The pool and all else
    that is drawn once depends on the seed alone, so that a resumed training has the same.
    """

    def __init__(self, data: Tensor, bases: Sequence[Base], seed: int) -> None:
        self.data, self.bases, self.seed, self.dtype = data, bases, seed, data.dtype
        self.densities = [base.density for base in bases]

    def select(self, groups: Sequence[int]) -> Bases:
        """Those of these groups."""
        if list(groups) == list(range(len(self.bases))):
            return self
        return Bases(self.data[list(groups)], [self.bases[k] for k in groups], self.seed)

    def rows(self, n: int, generator: Generator) -> Tensor:
        """Rows to learn from, anywhere in their cells: (groups, n, *point)."""
        training = self.bases[0].training
        chosen = torch.randint(len(training), (n,), generator=generator, device=training.device)
        x = self.data[:, training[chosen]]
        return torch.stack([self._spread(k, own, generator) for k, own in enumerate(x)])

    def _spread(self, k: int, x: Tensor, generator: Generator) -> Tensor:
        coordinates = self.densities[k].coordinates
        if float(coordinates.cells.max()) < CONTINUOUS:
            return x
        return coordinates.points(coordinates.spread(coordinates.taken(x), generator)).to(x)

    @cached_property
    def pool(self) -> tuple[Tensor, Tensor]:
        """Points of q to learn from, and log b - log q of each: (groups, POOL, *point), ..."""
        points, ratios = [], []
        for density in self.densities:
            y, log_q = _proposed(density, POOL, self.seed)
            points.append(density.inside(y).to(self.data))
            ratios.append((density.base_density(y) - log_q).to(self.data))
        return torch.stack(points), torch.stack(ratios)

    @cached_property
    def check(self) -> Check:
        """What the network is judged by."""
        return Check(*map(torch.stack, zip(*map(self._check, self.bases), strict=True)))

    def _check(self, base: Base) -> Check:
        density, rows = base.density, base.choosing
        y, log_q = _proposed(density, CHECKED, self.seed + 1)
        points = torch.cat([density.inside(y), density.coordinates.points(rows.values)])
        mixture = density.mixture.log_density(y)
        based = mixture if density.base is None else density.base.log_density(y)
        levels = torch.cat([mixture, rows.known]), torch.cat([based, rows.based]), log_q
        return Check(points.to(self.data), *(level.double() for level in levels))

    @torch.no_grad()
    def judge(self, log_density: Callable[[Tensor], Tensor]) -> Judgement:
        """How likely the rows that choose are, at the chosen weight of each network.

        `log_density` gives logsumexp f of the members: (groups, m, *point) -> (members, m).
        """
        energies = log_density(self.check.points).double()
        each = len(energies) // len(self.bases)
        check = Check(*(part.repeat_interleave(each, 0) for part in self.check))
        weights = torch.tensor(WEIGHTS).to(energies)[:, None, None]
        levels = (1 - weights) * check.mixture + weights * (check.base + energies)
        ratios = levels[..., :CHECKED] - check.log_q
        log_gamma, share = log_mean_exp(ratios), effective_share(ratios)  # (weights, members)
        held_out = levels[..., CHECKED:] - log_gamma[..., None]
        member = torch.arange(len(energies), device=energies.device)
        likeliest = held_out[held_out.mean(-1).argmax(0), member]
        lost = likeliest - held_out  # (weights, members, m)
        allowed = TOLERATED * lost.std(-1) / lost.shape[-1] ** 0.5
        best = (lost.mean(-1) <= allowed).int().argmax(0)  # the first, the smallest
        found = (held_out[best, member], weights[best, 0, 0], log_gamma[best, member])
        return Judgement(*found, share[best, member], CHECKED * share[-1])


def _proposed(density: Density, n: int, seed: int) -> tuple[Tensor, Tensor]:
    """Points of q, in coordinates, and log q of them, in single precision: (n, d), (n,)."""
    device = density.coordinates.centre.device
    y = density.q.sample(n, Generator(device).manual_seed(seed)).float()
    return y, density.q.log_density(y)


class Check(NamedTuple):
    """Proposals, and rows that choose, by which networks are judged; for all groups."""

    points: Tensor  # (groups, CHECKED + m, *point): proposals that nothing was trained with, rows
    mixture: Tensor  # (groups, CHECKED + m): log m; of the rows, fitted without them
    base: Tensor  # (groups, CHECKED + m): log b, likewise
    log_q: Tensor  # (groups, CHECKED): of the proposals


class Judgement(NamedTuple):
    """What rows that choose say of each member's network."""

    held_out: Tensor  # (members, m): log p of them at the chosen weight
    weight: Tensor  # (members,): that weight
    log_gamma: Tensor  # (members,): log Gamma there
    share: Tensor  # (members,): the effective share of the proposals there
    effective: (
        Tensor  # (members,): the effective number of proposals where the network has weight 1
    )
