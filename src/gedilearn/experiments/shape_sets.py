"""The data sets and the methods of `shapes`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from gedilearn.data import toy
from gedilearn.data.dataset import Dataset
from gedilearn.data.toy import digits
from gedilearn.experiments import table_sets as tables

UNIFORM, AUTO, GIVEN = "gedi", "gedi prior=auto", "gedi prior=given"
PRIORS = (UNIFORM, AUTO, GIVEN)
RIVALS = ("kmeans", "gmm", "spectral", "hdbscan")
FAMILIES = ("gedi", *RIVALS)  # what can be asked for; gedi is all its rows
NAMES = {
    UNIFORM: "GEDI",
    AUTO: 'GEDI prior="auto"',
    GIVEN: "GEDI, true prior",
    "kmeans": "KMeans",
    "gmm": "GaussianMixture",
    "spectral": "SpectralClustering",
    "hdbscan": "HDBSCAN",
}


@dataclass(frozen=True)
class Shape:
    """A source of data, and what is known of it."""

    n_clusters: int
    draw: Callable[[int, int], Dataset]  # (n, seed)
    gedi: tuple[str, ...] = (UNIFORM,)
    prior: tuple[float, ...] | None = None  # the true shares, for GIVEN
    best: Callable[[np.ndarray], np.ndarray] | None = None  # x -> the likeliest cluster
    fresh: bool = True  # whether more points can be drawn
    units: bool = True  # columns may have units of their own: standardised for every method


def _moons(n: int, seed: int) -> Dataset:
    return toy.moons(n, random_state=seed)


def _circles(n: int, seed: int) -> Dataset:
    return toy.circles(n, random_state=seed)


SHAPES: dict[str, Shape] = {
    "moons": Shape(2, _moons),
    "circles": Shape(2, _circles),
    "moons-far": Shape(2, lambda n, s: toy.moved(_moons(n, s), 1000, 1e6)),
    "circles-far": Shape(2, lambda n, s: toy.moved(_circles(n, s), 1000, 1e6)),
    "moons-rotated": Shape(2, lambda n, s: toy.rotated(_moons(n, s), 0.7)),
    "circles-rotated": Shape(2, lambda n, s: toy.rotated(_circles(n, s), 0.7)),
    "moons-axes": Shape(2, lambda n, s: toy.stretched(_moons(n, s), 100)),
    "circles-axes": Shape(2, lambda n, s: toy.stretched(_circles(n, s), 100)),
    "rings": Shape(3, lambda n, s: toy.rings(n, random_state=s)),
    "spirals": Shape(2, lambda n, s: toy.spirals(n, random_state=s)),
    "moons-80-20": Shape(
        2, lambda n, s: toy.moons(n, random_state=s, share=0.8), PRIORS, (0.8, 0.2)
    ),
    "moons-95-5": Shape(
        2,
        lambda n, s: toy.moons(n, random_state=s, share=0.95),
        PRIORS,
        (0.95, 0.05),
    ),
    "blobs-4": Shape(4, toy.BLOBS_4.draw, best=toy.BLOBS_4.most_likely),
    "blobs-7": Shape(7, toy.BLOBS_7.draw, best=toy.BLOBS_7.most_likely),
    "anisotropic": Shape(3, toy.ANISOTROPIC.draw, best=toy.ANISOTROPIC.most_likely),
    "moons-noisy": Shape(
        2, lambda n, s: toy.moons(n, 0.1, s), best=lambda x: toy.most_likely_moon(x, 0.1)
    ),
    "digits": Shape(10, lambda n, s: digits(), fresh=False, units=False),
    "mixture-50": Shape(4, tables.mixture_50, best=tables.likeliest_of_mixture),
    "outliers": Shape(4, tables.outliers, best=toy.BLOBS_4.most_likely),
    "duplicates": Shape(2, tables.duplicates),
    "heavy-tails": Shape(3, tables.heavy_tails),
    "iris": Shape(3, tables.real_table("iris"), (UNIFORM, AUTO), fresh=False),
    "wine": Shape(3, tables.real_table("wine"), (UNIFORM, AUTO), fresh=False),
    "breast-cancer": Shape(2, tables.real_table("breast_cancer"), (UNIFORM, AUTO), fresh=False),
}


def build(method: str, shape: Shape, seed: int, settings: dict[str, Any]) -> Any:
    """An estimator. The others get standardised columns, as GEDI makes them, and ten starts."""
    from sklearn.cluster import HDBSCAN, KMeans, SpectralClustering
    from sklearn.mixture import GaussianMixture
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    from gedilearn.estimator import GEDI

    k = shape.n_clusters
    if method.split()[0] == "gedi":
        prior = {UNIFORM: None, AUTO: "auto", GIVEN: shape.prior}[method]
        return GEDI(k, prior=prior, random_state=seed, **settings)
    rival = {
        "kmeans": lambda: KMeans(k, n_init=10, random_state=seed),
        "gmm": lambda: GaussianMixture(k, n_init=10, random_state=seed),
        "spectral": lambda: SpectralClustering(k, affinity="nearest_neighbors", random_state=seed),
        "hdbscan": lambda: HDBSCAN(copy=True),
    }[method]()
    return make_pipeline(StandardScaler(with_std=shape.units), rival)
