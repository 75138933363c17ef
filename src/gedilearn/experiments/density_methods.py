"""The methods whose densities are compared: GEDI, two estimators of scikit-learn, and the truth.

All have fit and sample; score_samples where there is a density, predict where there are clusters.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from sklearn.mixture import GaussianMixture
from sklearn.neighbors import KernelDensity

from gedilearn.estimator import GEDI
from gedilearn.experiments.density_sets import LogDensity, Points
from gedilearn.experiments.runner import Options

HELD_OUT = 0.15  # share of the training rows that components and bandwidth are chosen on
COMPONENTS = tuple(range(1, 21))
BANDWIDTHS = tuple(np.geomspace(0.01, 3, 40).tolist())
FLOOR, FLOOR_OF_MANY, MANY = 1e-6, 1e-3, 20  # added to variances; in more than so many columns
GEDI_, REAL = "gedi", "real"
REFERENCES = ("gmm", "kde")


class Reference:
    """A density estimator of scikit-learn; one of its settings is chosen on held-out rows."""

    def __init__(self, make: Callable[[Any], Any], candidates: Sequence[float], seed: int) -> None:
        self.make = make
        self.candidates = candidates
        self.seed = seed

    def fit(self, x: np.ndarray) -> None:
        """Choose on some of the rows, then fit to all of them."""
        order = np.random.default_rng(self.seed).permutation(len(x))
        held, rest = np.split(order, [max(1, round(HELD_OUT * len(x)))])

        def level(candidate: float) -> float:
            try:
                found = self.make(candidate).fit(x[rest]).score_samples(x[held])
            except ValueError:  # more components than rows, or one that shrank to a point
                return -np.inf
            return float(found.mean())

        self.chosen = max(self.candidates, key=level)
        self.estimator = self.make(self.chosen).fit(x)

    def score_samples(self, x: np.ndarray) -> np.ndarray:
        return np.asarray(self.estimator.score_samples(x))

    def sample(self, n: int) -> np.ndarray:
        if isinstance(self.estimator, KernelDensity):
            return np.asarray(self.estimator.sample(n, random_state=self.seed))
        return np.asarray(self.estimator.sample(n)[0])


class Real:
    """Nothing learned: training points in place of samples, the true density where it is known."""

    def __init__(self, truth: LogDensity | None) -> None:
        if truth is not None:
            self.score_samples = truth

    def fit(self, x: np.ndarray) -> None:
        self.x = x

    def sample(self, n: int) -> np.ndarray:
        return self.x[:n]


def build(
    method: str, n_clusters: int, points: Points, seed: int, settings: Options | None = None
) -> Any:
    """A method not yet fitted."""
    if method == REAL:
        return Real(points.truth)
    if method == "gmm":
        floor = FLOOR_OF_MANY if points.train.shape[1] > MANY else FLOOR
        return Reference(
            lambda k: GaussianMixture(k, reg_covar=floor, random_state=seed), COMPONENTS, seed
        )
    if method == "kde":
        return Reference(lambda width: KernelDensity(bandwidth=width), BANDWIDTHS, seed)
    return GEDI(n_clusters, random_state=seed, settings=settings)


def is_normalised(model: Any) -> bool:
    """Whether its scores are log densities, and not only so up to a constant."""
    if isinstance(model, GEDI):
        return model.log_normaliser_ is not None
    return hasattr(model, "score_samples")
