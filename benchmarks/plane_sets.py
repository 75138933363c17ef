"""Sets in the plane whose density is known, exactly or as a sum over a curve."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.stats import multivariate_normal
from sklearn.neighbors import KernelDensity

from gedilearn.data.dataset import Dataset
from gedilearn.data.toy import NOISE, circles, dataset, moons

Floats = npt.NDArray[np.floating[Any]]

SPIRAL_TURNS = 1.5
SPIRAL_NOISE = 0.015
NODES = 1000  # points of a curve that a density is summed over


def rings(n: int = 1000, noise: float = NOISE, number: int = 3, random_state: int = 0) -> Dataset:
    """Concentric rings of radius 1, 2, ..., ``number``, with equally many points each."""
    rng = np.random.default_rng(random_state)
    y = np.arange(n) % number
    x = _polar(1.0 + y, rng.uniform(0, 2 * np.pi, n))
    return dataset("rings", x + rng.normal(0, noise, x.shape), y)


def spirals(n: int = 1000, noise: float = SPIRAL_NOISE, random_state: int = 0) -> Dataset:
    """Two spiral arms of 1.5 turns that end at radius 1; ``y`` says which.

    The square root spreads the points evenly along the arms, whose inmost part is left out: the
    arms would meet there.
    """
    rng = np.random.default_rng(random_state)
    y = np.arange(n) % 2
    radius = np.sqrt(rng.uniform(0.04, 1, n))
    x = _arm(radius, y)
    return dataset("spirals", x + rng.normal(0, noise, x.shape), y)


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
        rng = np.random.default_rng(random_state)
        y = np.arange(n) % len(self.centres)
        spread = np.linalg.cholesky(np.array(self.covariance))
        x = np.array(self.centres)[y] + rng.normal(size=(n, 2)) @ spread.T
        return dataset(self.name, x, y)

    def most_likely(self, x: Floats) -> npt.NDArray[np.intp]:
        """The cluster of highest posterior probability: (n, 2) -> (n,)."""
        return np.asarray(self.joint_log_density(x).argmax(1))

    def joint_log_density(self, x: Floats) -> np.ndarray:
        """log p(x, y) for each cluster y: (n, 2) -> (n, clusters)."""
        centres = np.array(self.centres)
        each = log_density_of_gaussians(x, centres, np.array([self.covariance] * len(centres)))
        return np.asarray(each - np.log(len(centres)))


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


# --- densities ----------------------------------------------------------------------------------


def log_density_of_gaussians(x: Floats, means: Floats, covariances: Floats) -> np.ndarray:
    """Of each Gaussian: (n, d), (k, d), (k, d, d) -> (n, k)."""
    pairs = zip(means, covariances, strict=True)
    return np.stack([multivariate_normal(m, c).logpdf(x) for m, c in pairs], axis=1)


def log_density_near(x: Floats, curves: Sequence[Floats], noise: float) -> np.ndarray:
    """Of the points of each curve, moved by normal noise of this deviation: (n, 2) -> (n, curves).

    A curve is points (m, 2) that are equally likely.
    """
    kernel = KernelDensity(bandwidth=noise)
    return np.stack([kernel.fit(curve).score_samples(x) for curve in curves], axis=1)


def most_likely_moon(x: Floats, noise: float, share: float = 0.5) -> npt.NDArray[np.intp]:
    """The moon of highest posterior probability, from the true density: (n, 2) -> (n,)."""
    joint = log_density_near(x, moon_curves(), noise) + np.log([share, 1 - share])
    return np.asarray(joint.argmax(1))


def moon_curves() -> list[np.ndarray]:
    """Where `moons` of 1000 points lie without noise, moon by moon."""
    return _by_cluster(moons(noise=0.0))


def circle_curves() -> list[np.ndarray]:
    """Where `circles` of 1000 points lie without noise, circle by circle."""
    return _by_cluster(circles(noise=0.0))


def ring_curves(number: int = 3) -> list[np.ndarray]:
    """The rings of `rings`, at equal angles."""
    angle = 2 * np.pi * _quantiles()
    return [_polar(np.full(NODES, 1.0 + y), angle) for y in range(number)]


def spiral_curves() -> list[np.ndarray]:
    """The arms of `spirals`, at equal steps of probability."""
    radius = np.sqrt(0.04 + 0.96 * _quantiles())
    return [_arm(radius, np.full(NODES, y)) for y in range(2)]


def _quantiles() -> np.ndarray:
    return np.asarray((np.arange(NODES) + 0.5) / NODES)


def _by_cluster(data: Dataset) -> list[np.ndarray]:
    assert data.y is not None
    return [data.x[data.y == k] for k in np.unique(data.y)]


# --- other units --------------------------------------------------------------------------------


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


def _arm(radius: Floats, y: npt.NDArray[np.integer[Any]]) -> np.ndarray:
    return _polar(radius, radius * SPIRAL_TURNS * 2 * np.pi + y * np.pi)


def _polar(radius: Floats, angle: Floats) -> np.ndarray:
    return np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=1)
