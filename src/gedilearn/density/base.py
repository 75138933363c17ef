"""Base densities of vectors, weighted by how well they foretell rows that they have not seen."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import torch
from sklearn.exceptions import ConvergenceWarning
from sklearn.mixture import GaussianMixture
from sklearn.neighbors import NearestNeighbors
from torch import Tensor

from gedilearn.data.arrays import evenly_spaced
from gedilearn.density.gaussians import Gaussians

COMPONENTS = (1, 2, 3, 4, 5, 6, 7, 8, 10, 13, 16, 20)
PATIENCE = 3  # numbers of components in a row that are no better than fewer
WIDTHS = (0.15, 0.25, 0.4, 0.6, 0.9, 1.3, 2.0)  # of kernels
FLOOR = 1e-6  # added to variances, in the network's units
NEIGHBOUR = 7  # the distance to it is the unit of a kernel's width
MOST_KERNELS = 2_000
MOST_ROWS = 5_000  # that a mixture is fitted to
WIDER = 1.5  # the wide Gaussian's deviations, in units of the data's
LEAST_WEIGHT = 0.03
CLUSTERS = "a mixture that begins with the clusters"

Fit = Callable[[np.ndarray], list[Gaussians]]  # of rows, given by their numbers


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

    It starts from points of the data, far from each other, or from what `start` gives.
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


def clusters_mixture(
    x: np.ndarray, labels: np.ndarray, seed: int, rules: Rules = RULES
) -> Gaussians:
    """A Gaussian for each cluster to begin with, however long and thin: (n, d), (n,)."""
    parts = [x[labels == k] for k in np.unique(labels)]
    spreads = [np.atleast_2d(np.cov(part.T, bias=True)) for part in parts]
    shares = np.array([len(part) for part in parts]) / len(x)
    return gaussian_mixture(
        x,
        len(parts),
        seed,
        rules,
        weights_init=shares,
        means_init=np.array([part.mean(0) for part in parts]),
        precisions_init=np.array([_inverse(spread, rules.floor) for spread in spreads]),
    )


def _inverse(spread: np.ndarray, floor: float) -> np.ndarray:
    """(spread + floor I)^-1, symmetric even where a cluster has fewer rows than columns."""
    values, directions = np.linalg.eigh(spread)
    half = directions / np.sqrt(values.clip(0) + floor)
    return np.asarray(half @ half.T)


def kernels(x: np.ndarray, *widths: float) -> list[Gaussians]:
    """A round Gaussian at each point, or at evenly spaced ones, as wide as its neighbourhood.

    One mixture for each width, in units of the neighbourhood's.
    """
    points = x[evenly_spaced(len(x), MOST_KERNELS)]
    k = min(NEIGHBOUR, len(points) - 1)
    away = NearestNeighbors(n_neighbors=k + 1).fit(points).kneighbors(points)[0][:, -1]
    unit = torch.from_numpy(away / np.sqrt(x.shape[1]))
    weights = torch.full((len(points),), 1 / len(points), dtype=torch.float64)
    means = torch.from_numpy(points)
    return [Gaussians.round(weights, means, (w * unit).clamp_min(FLOOR**0.5)) for w in widths]


def held_out(x: np.ndarray, held: np.ndarray, fit: Fit) -> Tensor:
    """log b of held-out rows, fitted to all but those of their fold: (folds, m, bases)."""
    found = []
    for own in held:
        rows = torch.from_numpy(x[own])
        bases = fit(np.delete(np.arange(len(x)), own))
        found.append(torch.stack([base.log_density(rows) for base in bases], -1))
    return torch.stack(found)


def mixing_weights(log_densities: Tensor, rounds: int = 200) -> Tensor:
    """The logarithms of the weights under which a sum of densities is likeliest.

    Expectation maximisation.  (n, parts) -> (parts,).
    """
    weights = torch.zeros_like(log_densities[0]).log_softmax(0)
    for _ in range(rounds):
        shares = (log_densities + weights).log_softmax(1)
        weights = shares.logsumexp(0) - np.log(len(shares))
    return weights


class Candidate(NamedTuple):
    """A base, and what it says of rows that were held out from it."""

    name: str
    base: Gaussians
    held_out: Tensor  # (folds, m)


def weighted(x: np.ndarray, labels: np.ndarray, held: np.ndarray, seed: int) -> Candidate:
    """Mixtures of several sizes, kernels of several widths and the wide Gaussian, all at once.

    One mixture begins with the clusters, of which `labels` (n,) tells each row its own.

    The weight of each is the one under which the held-out rows are likeliest; those of little
    weight are dropped.
    """
    fits: list[tuple[list[str], Fit]] = [
        (["a wide Gaussian"], lambda rows: [wide_gaussian(x[rows])]),
        ([CLUSTERS], lambda rows: [clusters_mixture(x[rows], labels[rows], seed)]),
        ([f"kernels {w:g} wide" for w in WIDTHS], lambda rows: kernels(x[rows], *WIDTHS)),
    ]
    each = [held_out(x, held, fit) for _, fit in fits]
    most = max(1, (len(x) - held.shape[1]) // 3)
    best, worse = -np.inf, 0
    for c in (c for c in COMPONENTS if c <= most):

        def mixture(rows: np.ndarray, c: int = c) -> list[Gaussians]:
            return [gaussian_mixture(x[rows], c, seed)]

        fits.append(([f"a mixture of {c}"], mixture))
        each.append(held_out(x, held, mixture))
        level = float(each[-1].mean())
        best, worse = (level, 0) if level > best else (best, worse + 1)
        if worse == PATIENCE:
            break
    densities = torch.cat(each, -1)
    flat = densities.flatten(0, 1)
    kept = (mixing_weights(flat).exp() > LEAST_WEIGHT).nonzero()[:, 0].tolist()
    weights = mixing_weights(flat[:, kept])
    parts, words, first = [], [], 0
    for names, fit in fits:  # those that are kept, fitted to all rows
        wanted = [k - first for k in kept if first <= k < first + len(names)]
        first += len(names)
        if wanted:
            bases = fit(np.arange(len(x)))
            parts += [bases[k] for k in wanted]
            words += [names[k] for k in wanted]
    shares = sorted(zip(weights.tolist(), words, strict=True), reverse=True)
    name = ", ".join(f"{word} ({math.exp(share):.0%})" for share, word in shares)
    together = torch.logsumexp(densities[..., kept] + weights, -1)
    return Candidate(name, Gaussians.mixed(parts, weights), together)


def wide(x: np.ndarray, held: np.ndarray) -> Candidate:
    """The wide Gaussian alone: all that is known of the data is then in the network."""
    rows = held_out(x, held, lambda rows: [wide_gaussian(x[rows])])[..., 0]
    return Candidate("a wide Gaussian", wide_gaussian(x), rows)
