"""Built-in sets whose true clusters are known: points in the plane, and small digits."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from gedilearn.data.dataset import Dataset
from gedilearn.errors import InputError

Floats = npt.NDArray[np.floating[Any]]

SPIRAL_TURNS = 1.5


def moons(n: int = 1000, noise: float = 0.05, random_state: int = 0, share: float = 0.5) -> Dataset:
    """Two interleaved half circles; ``y`` says which. The first holds this ``share`` of points."""
    _check(n, noise)
    first = int(n * share + 1e-9) if 0 < share < 1 else 0  # 0.29 * 100 is 28.999...
    if not 0 < first < n:
        raise InputError(f"share={share}: of n={n} points, both moons need at least one")
    from sklearn.datasets import make_moons  # type: ignore[import-untyped, unused-ignore]

    x, y = make_moons(n_samples=(first, n - first), noise=noise, random_state=random_state)
    return _dataset("moons", x, y)


def most_likely_moon(x: Floats, noise: float, share: float = 0.5) -> npt.NDArray[np.intp]:
    """The moon of highest posterior probability, from the true density: (n, 2) -> (n,).

    A moon is a normal density of deviation ``noise`` smeared along its half circle.
    """
    curves = moons(1000, 0.0)
    squares = ((x[:, None] - curves.x) ** 2).sum(-1)
    squares -= squares.min(1, keepdims=True)  # the nearest curve point never underflows
    density = np.exp(-squares / (2 * noise**2))
    assert curves.y is not None
    first = share * density[:, curves.y == 0].sum(1)
    return np.asarray(first < (1 - share) * density[:, curves.y == 1].sum(1), dtype=np.intp)


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


def rings(n: int = 1000, noise: float = 0.05, number: int = 3, random_state: int = 0) -> Dataset:
    """Concentric rings of radius 1, 2, ..., ``number``, with equally many points each."""
    _check(n, noise)
    if not 2 <= number <= n:
        raise InputError(f"number={number}: give 2 rings or more, and a point for each (n={n})")
    rng = np.random.default_rng(random_state)
    y = np.arange(n) % number
    x = _polar(1.0 + y, rng.uniform(0, 2 * np.pi, n))
    return _dataset("rings", x + rng.normal(0, noise, x.shape), y)


def spirals(n: int = 1000, noise: float = 0.015, random_state: int = 0) -> Dataset:
    """Two spiral arms of 1.5 turns that end at radius 1; ``y`` says which.

    The square root spreads the points evenly along the arms, whose inmost part is left out: the
    arms would meet there.
    """
    _check(n, noise)
    rng = np.random.default_rng(random_state)
    y = np.arange(n) % 2
    radius = np.sqrt(rng.uniform(0.04, 1, n))
    x = _polar(radius, radius * SPIRAL_TURNS * 2 * np.pi + y * np.pi)
    return _dataset("spirals", x + rng.normal(0, noise, x.shape), y)


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


@dataclass(frozen=True)
class Blobs:
    """Equally likely Gaussian clusters that share one covariance.

    Where clusters overlap no method can be right everywhere; since the density is known here, so
    is the best possible answer.
    """

    name: str
    centres: tuple[tuple[float, float], ...]
    covariance: tuple[tuple[float, float], tuple[float, float]]

    def draw(self, n: int = 1000, random_state: int = 0) -> Dataset:
        """Points with equal shares of the clusters, ``y`` says which."""
        if n < len(self.centres):
            raise InputError(f"n={n}: {len(self.centres)} clusters need at least as many points")
        rng = np.random.default_rng(random_state)
        y = np.arange(n) % len(self.centres)
        spread = np.linalg.cholesky(np.array(self.covariance))
        x = np.array(self.centres)[y] + rng.normal(size=(n, 2)) @ spread.T
        return _dataset(self.name, x, y)

    def most_likely(self, x: Floats) -> npt.NDArray[np.intp]:
        """The cluster of highest posterior probability: (n, 2) -> (n,).

        With equal shares and one covariance that is the nearest centre in Mahalanobis' distance.
        """
        away = x[:, None] - np.array(self.centres)
        precision = np.linalg.inv(np.array(self.covariance))
        distance = np.einsum("nki,ij,nkj->nk", away, precision, away)
        return np.asarray(distance.argmin(1))


BLOBS_4 = Blobs("blobs-4", ((0, 0), (6, 0), (0, 6), (6, 6)), ((0.36, 0), (0, 0.36)))
BLOBS_7 = Blobs(
    "blobs-7",
    ((0, 0), *((4 * np.cos(i * np.pi / 3), 4 * np.sin(i * np.pi / 3)) for i in range(6))),
    ((0.16, 0), (0, 0.16)),
)
# Unit normals about (0, 0), (-6, -6) and (7, -3), all under the map with rows (.6, -.4), (-.6, .8).
ANISOTROPIC = Blobs(
    "anisotropic", ((0, 0), (-1.2, -1.2), (5.4, -6.6)), ((0.52, -0.68), (-0.68, 1.0))
)


def moved(data: Dataset, scale: float, shift: float) -> Dataset:
    """In other units and far from the origin."""
    return replace(data, x=data.x * scale + shift)


def rotated(data: Dataset, angle: float) -> Dataset:
    """Turned about the origin by ``angle`` radians, counter-clockwise."""
    c, s = np.cos(angle), np.sin(angle)
    return replace(data, x=data.x @ np.array([[c, s], [-s, c]]))


def stretched(data: Dataset, factor: float) -> Dataset:
    """The second axis ``factor`` times as long, as when columns come in different units."""
    return replace(data, x=data.x * np.array([1.0, factor]))


def _polar(radius: Floats, angle: Floats) -> np.ndarray:
    return np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=1)


def _check(n: int, noise: float) -> None:
    if n < 2:
        raise InputError(f"n={n}: two clusters need at least 2 points")
    if not 0 <= noise < float("inf"):
        raise InputError(f"noise={noise}: a standard deviation is finite and at least 0")


def _dataset(name: str, x: np.ndarray, y: np.ndarray) -> Dataset:
    return Dataset(name=name, x=x, y=y, columns=("x1", "x2"), source="built-in")
