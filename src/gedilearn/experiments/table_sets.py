"""Data as tables have it: many columns, most of them noise, outliers, repeats, heavy tails."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from gedilearn.data import toy
from gedilearn.data.dataset import Dataset

# Four unit Gaussians in 20 dimensions; the centres are one draw for good.
CENTRES_20 = np.random.default_rng(7).normal(size=(4, 20))
CENTRES_TAILS = np.array([[0.0, 0.0], [12.0, 0.0], [6.0, 10.0]])
REPEATS = 5


def mixture_50(n: int, seed: int) -> Dataset:
    """The four Gaussians, and 30 more columns of nothing but noise."""
    rng = np.random.default_rng(seed)
    y = np.arange(n) % len(CENTRES_20)
    telling = CENTRES_20[y] + rng.normal(size=(n, 20))
    return _dataset("mixture-50", np.c_[telling, rng.normal(size=(n, 30))], y)


def likeliest_of_mixture(x: np.ndarray) -> np.ndarray:
    """The nearest centre in the columns that tell."""
    away = np.linalg.norm(x[:, None, :20] - CENTRES_20, axis=-1)
    return np.asarray(away.argmin(1))


def outliers(n: int, seed: int) -> Dataset:
    """Four blobs, and one point in fifty anywhere in a box of twenty times their width.

    The label of an outlier is the blob it is likeliest to come from.
    """
    rng = np.random.default_rng(seed)
    x = toy.BLOBS_4.draw(n, seed).x
    strays = n // 50
    x[:strays] = rng.uniform(-57, 63, (strays, 2))
    return _dataset("outliers", x, toy.BLOBS_4.most_likely(x))


def duplicates(n: int, seed: int) -> Dataset:
    """Moons of which every point comes five times, all but the same."""
    rng = np.random.default_rng(seed)
    moons = toy.moons(max(n // REPEATS, 2), random_state=seed)
    assert moons.y is not None
    x = np.repeat(moons.x, REPEATS, axis=0)
    x = x + rng.normal(0, 1e-4, x.shape)
    return _dataset("duplicates", x, np.repeat(moons.y, REPEATS))


def heavy_tails(n: int, seed: int) -> Dataset:
    """Three clusters of Student's t with two degrees of freedom: no variance."""
    rng = np.random.default_rng(seed)
    y = np.arange(n) % len(CENTRES_TAILS)
    return _dataset("heavy-tails", CENTRES_TAILS[y] + rng.standard_t(2, (n, 2)), y)


def real_table(name: str) -> Callable[[int, int], Dataset]:
    """A table that comes with scikit-learn: iris, wine or breast_cancer; all of it."""

    def draw(n: int, seed: int) -> Dataset:
        import sklearn.datasets

        content: Any = getattr(sklearn.datasets, f"load_{name}")()
        return _dataset(name, content.data, content.target)

    return draw


def _dataset(name: str, x: np.ndarray, y: np.ndarray) -> Dataset:
    return Dataset(name=name, x=x, y=y, columns=None, source="built-in")
