"""Base densities of vectors, weighted by how well they foretell rows that they have not seen."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import NamedTuple, Protocol

import numpy as np
import torch
from sklearn.exceptions import ConvergenceWarning
from sklearn.mixture import GaussianMixture
from sklearn.neighbors import NearestNeighbors
from torch import Generator, Tensor, nn

from gedilearn.data.arrays import evenly_spaced

# --- mixtures of Gaussians ------------------------------------------------------------------------
#
# Mixtures of Gaussians: densities that are known exactly and are drawn from directly.


CHUNK_VALUES = 2**22  # numbers held at once while a density is computed


class Known(Protocol):
    """A density that is known exactly, up to no constant, and is drawn from directly."""

    def log_density(self, x: Tensor) -> Tensor:
        """(n, d) -> (n,), with gradients."""
        ...

    def sample(self, n: int, generator: Generator) -> Tensor:
        """Independent points: (n, d)."""
        ...


class Gaussians(nn.Module):
    """sum_k w_k N(mean_k, C_k): some components with any covariance, some round.

    C_k is L_k L_k^T for the `full` ones and s_k^2 I for the `round` ones; all weights together sum
    to 1. Made empty; `set` fills it.
    """

    full_weights: Tensor  # (k,): logarithms
    full_means: Tensor  # (k, d)
    full_factors: Tensor  # (k, d, d): L_k, lower triangular
    round_weights: Tensor  # (r,): logarithms
    round_means: Tensor  # (r, d)
    round_widths: Tensor  # (r,): s_k

    def __init__(self, d: int, full: int, rounds: int) -> None:
        super().__init__()
        shapes = {
            "full_weights": (full,),
            "full_means": (full, d),
            "full_factors": (full, d, d),
            "round_weights": (rounds,),
            "round_means": (rounds, d),
            "round_widths": (rounds,),
        }
        for name, shape in shapes.items():
            self.register_buffer(name, torch.zeros(shape, dtype=torch.float64))

    def __len__(self) -> int:
        return len(self.full_means) + len(self.round_means)

    @classmethod
    def full(cls, weights: Tensor, means: Tensor, factors: Tensor) -> Gaussians:
        """Components with any covariance; the weights themselves."""
        made = cls(means.shape[1], len(means), 0)
        made.full_weights, made.full_means, made.full_factors = weights.log(), means, factors
        return made

    @classmethod
    def round(cls, weights: Tensor, means: Tensor, widths: Tensor) -> Gaussians:
        """Round components; the weights themselves."""
        made = cls(means.shape[1], 0, len(means))
        made.round_weights, made.round_means, made.round_widths = weights.log(), means, widths
        return made

    @staticmethod
    def mixed(parts: list[Gaussians], log_weights: Tensor) -> Gaussians:
        """The weighted sum of several mixtures."""
        made = Gaussians(parts[0].full_means.shape[1], 0, 0)
        for name in dict(made.named_buffers()):
            each = [getattr(part, name) for part in parts]
            if name.endswith("weights"):
                each = [own + weight for own, weight in zip(each, log_weights, strict=True)]
            setattr(made, name, torch.cat(each))
        return made

    def log_density(self, x: Tensor) -> Tensor:
        """(..., d) -> (...), with gradients."""
        flat = x.reshape(-1, x.shape[-1])
        held = len(self.round_means) + self.full_means.numel()
        chunks = torch.split(flat, max(1, CHUNK_VALUES // max(held, 1)))
        return torch.cat([self._log_density(chunk) for chunk in chunks]).reshape(x.shape[:-1])

    def _log_density(self, x: Tensor) -> Tensor:
        d, logs = x.shape[-1], []
        if len(self.full_means):
            means, factors = self.full_means.to(x), self.full_factors.to(x)
            away = (x - means[:, None]).mT  # (k, d, n)
            solved = torch.linalg.solve_triangular(factors, away, upper=False)
            volumes = factors.diagonal(dim1=1, dim2=2).log().sum(-1)
            squares = solved.square().sum(1).T
            logs.append(self.full_weights.to(x) - volumes - squares / 2)
        if len(self.round_means):
            means, widths = self.round_means.to(x), self.round_widths.to(x)
            squares = (x.square().sum(-1)[:, None] + means.square().sum(-1)) - 2 * (x @ means.T)
            scaled = squares.clamp_min(0) / widths.square()
            logs.append(self.round_weights.to(x) - d * widths.log() - scaled / 2)
        return torch.logsumexp(torch.cat(logs, -1), -1) - d / 2 * math.log(2 * math.pi)

    def sample(self, n: int, generator: Generator) -> Tensor:
        """Independent points: (n, d)."""
        n_full, d = self.full_means.shape
        weights = torch.cat([self.full_weights, self.round_weights]).exp()
        chosen = torch.multinomial(weights, n, True, generator=generator)
        points = self.full_means.new_empty(n, d).normal_(generator=generator)
        for k in range(n_full):
            own = chosen == k
            points[own] = self.full_means[k] + points[own] @ self.full_factors[k].T
        own = chosen >= n_full
        which = chosen[own] - n_full
        points[own] = self.round_means[which] + self.round_widths[which, None] * points[own]
        return points


class Framed(nn.Module):
    """A mixture along some directions, and the standard normal density along all others."""

    frame: Tensor  # (m, d): orthonormal directions, one below another

    def __init__(self, d: int, m: int, full: int) -> None:
        super().__init__()
        self.mixture = Gaussians(m, full, 0)
        self.register_buffer("frame", torch.zeros(m, d, dtype=torch.float64))

    def log_density(self, x: Tensor) -> Tensor:
        """(n, d) -> (n,), with gradients."""
        m, d = self.frame.shape
        along = x @ self.frame.T
        squares = x.square().sum(-1) - along.square().sum(-1)
        rest = squares / 2 + (d - m) / 2 * math.log(2 * math.pi)
        return self.mixture.log_density(along) - rest

    def sample(self, n: int, generator: Generator) -> Tensor:
        """Independent points: (n, d)."""
        x = self.frame.new_empty(n, self.frame.shape[1]).normal_(generator=generator)
        return x + (self.mixture.sample(n, generator) - x @ self.frame.T) @ self.frame


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
