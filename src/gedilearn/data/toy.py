"""Two-dimensional toy sets whose true clusters are known."""

from __future__ import annotations

import numpy as np

from gedilearn.data.dataset import Dataset
from gedilearn.errors import InputError


def moons(n: int = 1000, noise: float = 0.05, random_state: int = 0) -> Dataset:
    """Two interleaved half circles; ``y`` says which."""
    _check(n, noise)
    from sklearn.datasets import make_moons  # type: ignore[import-untyped, unused-ignore]

    x, y = make_moons(n_samples=n, noise=noise, random_state=random_state)
    return _dataset("moons", x, y)


def circles(
    n: int = 1000, noise: float = 0.05, factor: float = 0.5, random_state: int = 0
) -> Dataset:
    """Two concentric circles, the inner one of radius ``factor``; ``y`` says which."""
    _check(n, noise)
    if not 0 <= factor < 1:
        raise InputError(f"factor={factor}: the inner radius must be at least 0 and below 1")
    from sklearn.datasets import make_circles  # type: ignore[import-untyped, unused-ignore]

    x, y = make_circles(n_samples=n, noise=noise, factor=factor, random_state=random_state)
    return _dataset("circles", x, y)


def _check(n: int, noise: float) -> None:
    if n < 2:
        raise InputError(f"n={n}: two clusters need at least 2 points")
    if not 0 <= noise < float("inf"):
        raise InputError(f"noise={noise}: a standard deviation is finite and at least 0")


def _dataset(name: str, x: np.ndarray, y: np.ndarray) -> Dataset:
    return Dataset(name=name, x=x, y=y, columns=("x1", "x2"), source="built-in")
