"""Built-in sets with known clusters: points in the plane, and small digits."""

from __future__ import annotations

import numpy as np

from gedilearn.data.dataset import Dataset

NOISE = 0.05


def moons(
    n: int = 1000, noise: float = NOISE, random_state: int = 0, share: float = 0.5
) -> Dataset:
    """Two interleaved half circles, labelled in ``y``; the first has this ``share`` of points."""
    from sklearn.datasets import make_moons  # type: ignore[import-untyped, unused-ignore]

    first = int(n * share + 1e-9)  # 0.29 * 100 is 28.999...
    x, y = make_moons(n_samples=(first, n - first), noise=noise, random_state=random_state)
    return dataset("moons", x, y)


def circles(
    n: int = 1000, noise: float = NOISE, factor: float = 0.5, random_state: int = 0
) -> Dataset:
    """Two concentric circles, labelled in ``y``; the inner one has the radius ``factor``."""
    from sklearn.datasets import make_circles  # type: ignore[import-untyped, unused-ignore]

    x, y = make_circles(n_samples=n, noise=noise, factor=factor, random_state=random_state)
    return dataset("circles", x, y)


def digits() -> Dataset:
    """The 1797 digits of scikit-learn as vectors of 64 pixels in [0, 16]; ``y`` is the digit."""
    from sklearn.datasets import load_digits  # type: ignore[import-untyped, unused-ignore]

    bunch = load_digits()
    return Dataset(
        name="digits",
        x=np.asarray(bunch.data, dtype=np.float64),
        y=np.asarray(bunch.target),
        columns=tuple(bunch.feature_names),
        source="built-in",
    )


def dataset(name: str, x: np.ndarray, y: np.ndarray) -> Dataset:
    """Points in the plane as a built-in set."""
    return Dataset(name=name, x=x, y=y, columns=("x1", "x2"), source="built-in")
