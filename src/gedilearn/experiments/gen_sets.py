"""The data sets of `gen`: points to fit, fresh ones to measure on, and others from elsewhere."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from gedilearn.data import toy
from gedilearn.data.dataset import Dataset
from gedilearn.data.toy import digits
from gedilearn.experiments.rows import FRESH

MEANS = np.array([[0.0, 0.0], [4.0, 0.0], [0.0, 4.0], [4.0, 4.0]])
COVARIANCES = np.array(
    [
        [[0.5, 0.3], [0.3, 0.4]],
        [[0.3, 0.0], [0.0, 0.3]],
        [[0.8, 0.0], [0.0, 0.1]],
        [[0.2, 0.0], [0.0, 0.5]],
    ]
)


def mixture(n: int, seed: int) -> Dataset:
    """Points of four equally likely Gaussians, each with a covariance of its own."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, len(MEANS), n)
    spread = np.linalg.cholesky(COVARIANCES)[y]
    x = MEANS[y] + np.einsum("nij,nj->ni", spread, rng.normal(size=(n, 2)))
    return Dataset("mixture", x, y, ("x1", "x2"), "built-in")


def joint_log_density(x: np.ndarray) -> np.ndarray:
    """log p(x, y) of the mixture: (n, 2) -> (n, 4)."""
    away = x[:, None] - MEANS
    squares = np.einsum("nki,kij,nkj->nk", away, np.linalg.inv(COVARIANCES), away)
    volume = np.linalg.slogdet(2 * np.pi * COVARIANCES)[1]
    return np.asarray(-(squares + volume) / 2 - np.log(len(MEANS)))


class Points(NamedTuple):
    """What one seed sees."""

    train: Dataset
    fresh: Dataset  # of the same source, not seen in training
    outside: np.ndarray  # of another source


@dataclass(frozen=True)
class Case:
    """A source of data; `joint` is x -> log p(x, y) where it is known."""

    n_clusters: int
    draw: Callable[[int, int], Points]
    joint: Callable[[np.ndarray], np.ndarray] | None = None


def _in_the_plane(source: Callable[[int, int], Dataset]) -> Callable[[int, int], Points]:
    def draw(n: int, seed: int) -> Points:
        train, fresh = source(n, seed), source(n, seed + FRESH)
        low, high = train.x.min(0), train.x.max(0)
        margin = (high - low) / 4
        rng = np.random.default_rng(seed + 2 * FRESH)
        return Points(train, fresh, rng.uniform(low - margin, high + margin, (n, 2)))

    return draw


def _half_the_digits(n: int, seed: int) -> Points:
    """All digits, whatever `n` is: there are no more."""
    rng = np.random.default_rng(seed)
    data = digits()
    assert data.y is not None
    order = rng.permutation(len(data.x))
    halves = np.array_split(order, 2)
    train, fresh = (
        Dataset(data.name, data.x[half], data.y[half], data.columns, data.source) for half in halves
    )
    return Points(train, fresh, rng.permuted(fresh.x, axis=1))


CASES = {
    "mixture": Case(4, _in_the_plane(mixture), joint_log_density),
    "moons": Case(2, _in_the_plane(lambda n, seed: toy.moons(n, random_state=seed))),
    "circles": Case(2, _in_the_plane(lambda n, seed: toy.circles(n, random_state=seed))),
    "digits": Case(10, _half_the_digits),
}
