"""Tables with classes that are known: many columns, discrete ones, mixed ones, and real ones."""

from __future__ import annotations

from typing import Any

import numpy as np

from gedilearn.data.dataset import Dataset
from gedilearn.experiments.shape_pieces import Floats, Gaussians, built_in

# --- many columns -------------------------------------------------------------------------------

# Four unit Gaussians in 20 dimensions; the centres are one draw for good.
CENTRES_20 = np.random.default_rng(7).normal(size=(4, 20))
DIRECTIONS = np.random.default_rng(11).normal(size=(8, 128))
DIRECTIONS /= np.linalg.norm(DIRECTIONS, axis=1, keepdims=True)


def mixture_50(n: int, random_state: int) -> Dataset:
    """The four Gaussians, and 30 more columns of nothing but noise."""
    rng = np.random.default_rng(random_state)
    y = np.arange(n) % len(CENTRES_20)
    telling = CENTRES_20[y] + rng.normal(size=(n, 20))
    return built_in(np.c_[telling, rng.normal(size=(n, 30))], y, "mixture-50")


def likeliest_of_mixture(x: np.ndarray) -> np.ndarray:
    """The nearest centre in the columns that tell."""
    away = np.linalg.norm(x[:, None, :20] - CENTRES_20, axis=-1)
    return np.asarray(away.argmin(1))


def own_covariances(k: int, d: int) -> Gaussians:
    """Gaussians of a covariance each: some directions of a cluster are wide, others narrow."""
    rng = np.random.default_rng(13)
    roots = rng.normal(size=(k, d, d))
    covariances = roots @ roots.transpose(0, 2, 1) / d
    return Gaussians(1.5 * rng.normal(size=(k, d)), covariances, np.full(k, 1 / k))


def embeddings(n: int, random_state: int, noise: float = 0.1) -> Dataset:
    """Unit vectors of 128 columns about eight directions, as networks give them."""
    rng = np.random.default_rng(random_state)
    y = np.arange(n) % len(DIRECTIONS)
    x = DIRECTIONS[y] + rng.normal(0, noise, (n, DIRECTIONS.shape[1]))
    return built_in(x / np.linalg.norm(x, axis=1, keepdims=True), y, "embeddings")


# --- discrete and mixed tables ------------------------------------------------------------------

LEVELS = np.arange(1, 6)  # of a rating
# The mean rating of 14 questions by three kinds of people: the last kind is indifferent.
OPINIONS = np.array([[4.5] * 7 + [1.5] * 7, [1.5] * 7 + [4.5] * 7, [3.0] * 14])
RATES = np.array([[12, 12, 12, 4, 4, 4, 2, 2, 6], [4, 4, 4, 12, 12, 12, 2, 2, 6], [4] * 8 + [6]])
CENTRES_MIXED = np.array([[0.0, 0.0], [6.0, 0.0], [3.0, 5.2]])
CATEGORIES = np.array([[0.8, 0.1, 0.1], [0.1, 0.8, 0.1], [0.1, 0.1, 0.8]])  # of each class
UNTOLD = 4  # levels of a category that tells nothing


def rating_chances() -> np.ndarray:
    """Of each level: (classes, questions, levels); the further from the mean, the rarer."""
    chances = np.exp(-((LEVELS - OPINIONS[..., None]) ** 2) / 2)
    return np.asarray(chances / chances.sum(-1, keepdims=True))


def ratings(n: int, random_state: int) -> Dataset:
    """Whole numbers from 1 to 5."""
    rng = np.random.default_rng(random_state)
    y = np.arange(n) % len(OPINIONS)
    return built_in(1.0 + _levels(rng, rating_chances()[y]), y, "ratings")


def likeliest_rater(x: np.ndarray) -> np.ndarray:
    chances = rating_chances()[:, np.arange(x.shape[1]), x.astype(int) - 1]
    return np.asarray(np.log(chances).sum(-1).argmax(0))


def counts(n: int, random_state: int) -> Dataset:
    """Poisson counts of three profiles; the last columns tell nothing, or little."""
    y = np.arange(n) % len(RATES)
    return built_in(np.random.default_rng(random_state).poisson(RATES[y]).astype(float), y)


def likeliest_profile(x: np.ndarray) -> np.ndarray:
    return np.asarray((x @ np.log(RATES).T - RATES.sum(1)).argmax(1))


def mixed_table(n: int, random_state: int) -> Dataset:
    """Three numbers and two categories as columns of 0 and 1; one of each kind tells nothing."""
    rng = np.random.default_rng(random_state)
    y = np.arange(n) % len(CENTRES_MIXED)
    numbers = CENTRES_MIXED[y] + rng.normal(size=(n, 2))
    told = np.eye(CATEGORIES.shape[1])[_levels(rng, CATEGORIES[y])]
    untold = np.eye(UNTOLD)[rng.integers(0, UNTOLD, n)]
    return built_in(np.c_[numbers, told, rng.normal(size=n), untold], y, "mixed")


def likeliest_of_mixed(x: np.ndarray) -> np.ndarray:
    near = -((x[:, None, :2] - CENTRES_MIXED) ** 2).sum(-1) / 2
    return np.asarray((near + x[:, 2:5] @ np.log(CATEGORIES).T).argmax(1))


def rounded(data: Dataset) -> Dataset:
    """Whole numbers: many points are equal."""
    return built_in(np.round(data.x), data.y, data.name)


def _levels(rng: np.random.Generator, chances: Floats) -> np.ndarray:
    """A level from the chances of each, (..., levels) -> (...)."""
    ends = np.cumsum(chances, axis=-1)[..., :-1]
    return np.asarray((rng.uniform(size=(*chances.shape[:-1], 1)) > ends).sum(-1))


def real_table(name: str, n: int, random_state: int) -> Dataset:
    """A table that comes with scikit-learn: iris, wine or breast_cancer; all of it."""
    import sklearn.datasets

    content: Any = getattr(sklearn.datasets, f"load_{name}")()
    return built_in(content.data, content.target, name)
