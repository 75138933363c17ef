"""What densities are measured on: points to learn from, fresh ones, and others from elsewhere.

All methods get the same columns, standardised on the training points; so their log densities are in
the same units. Where the true density is known, it is in these units too.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np

from gedilearn.data import toy
from gedilearn.data.arrays import Scaling
from gedilearn.data.dataset import Dataset
from gedilearn.experiments.runner import FRESH
from gedilearn.experiments.shape_sets import SHAPES

TRAINED_ON = 0.65  # share of a table's rows
NOISE = 0.1  # deviations of a column; values of tables and pixels repeat, which have no density
Joint = Callable[[np.ndarray], np.ndarray]  # x -> log p(x, y): (n, d) -> (n, clusters)
LogDensity = Callable[[np.ndarray], np.ndarray]  # x -> log p(x): (n, d) -> (n,)
Outside = Callable[[np.ndarray, np.random.Generator], np.ndarray]

# --- a mixture of known density -----------------------------------------------------------------

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


def joint_of_mixture(x: np.ndarray) -> np.ndarray:
    """log p(x, y) of the mixture: (n, 2) -> (n, 4)."""
    each = toy.log_density_of_gaussians(x, MEANS, COVARIANCES)
    return np.asarray(each - np.log(len(MEANS)))


def joint_near(curves: Callable[[], list[np.ndarray]], noise: float) -> Joint:
    """log p(x, y) of equally likely curves with noise."""

    def joint(x: np.ndarray) -> np.ndarray:
        found = toy.log_density_near(x, curves(), noise)
        return np.asarray(found - np.log(found.shape[1]))

    return joint


# --- what one seed sees -------------------------------------------------------------------------


class Points(NamedTuple):
    """Points in units of the standardised columns."""

    train: np.ndarray  # (n, d)
    fresh: np.ndarray  # (m, d), of the same source, not seen in training
    labels: np.ndarray  # (m,): the true cluster of each fresh point
    outside: np.ndarray  # of another source
    truth: LogDensity | None  # where it is known


@dataclass(frozen=True)
class Case:
    """A source of data, and how a seed draws points from it."""

    n_clusters: int
    draw: Callable[[int, int], Points]


def of_source(source: Callable[[int, int], Dataset], joint: Joint) -> Callable[[int, int], Points]:
    """As many fresh points as training points, and uniform ones in a box around them."""

    def draw(n: int, seed: int) -> Points:
        train, fresh = source(n, seed), source(n, seed + FRESH)
        scaling = Scaling.fit(train.x)
        z, fresh_z = _scaled(scaling, train.x), _scaled(scaling, fresh.x)
        rng = np.random.default_rng(seed + 2 * FRESH)
        low, high = widened_box(z, 1 / 4)
        outside = rng.uniform(low, high, z.shape)

        def truth(x: np.ndarray) -> np.ndarray:
            found = np.logaddexp.reduce(joint(scaling.undo(x)), axis=1)
            return np.asarray(found + np.log(scaling.scale).sum())

        assert fresh.y is not None
        return Points(z, fresh_z, fresh.y, outside, truth)

    return draw


def of_rows(
    source: Callable[[], Dataset], share: float, outside: Outside
) -> Callable[[int, int], Points]:
    """All rows of a source, whatever `n` is, split anew into training and fresh ones.

    Columns that do not vary among the training rows are left out.
    """

    def draw(n: int, seed: int) -> Points:
        data = source()
        assert data.y is not None
        rng = np.random.default_rng(seed)
        order = rng.permutation(len(data.x))
        rows, others = np.split(order, [int(np.ceil(share * len(order)))])
        train, fresh = data.x[rows], data.x[others]
        scaling, used = Scaling.fit(train), train.max(0) > train.min(0)
        train, fresh, elsewhere = (
            z + rng.normal(0, NOISE, z.shape)
            for z in (_scaled(scaling, x)[:, used] for x in (train, fresh, outside(fresh, rng)))
        )
        return Points(train, fresh, data.y[others], elsewhere, None)

    return draw


def widened_box(x: np.ndarray, share: float) -> tuple[np.ndarray, np.ndarray]:
    """The corners of the box around points, wider by a share of its width on each side."""
    low, high = x.min(0), x.max(0)
    return low - share * (high - low), high + share * (high - low)


def _scaled(scaling: Scaling, x: np.ndarray) -> np.ndarray:
    """In double precision: covariances of many columns are not positive definite in single."""
    return np.asarray((x - scaling.offset) / scaling.scale)


def _shuffled(axis: int) -> Outside:
    return lambda x, rng: rng.permuted(x, axis=axis)


# --- the sets -----------------------------------------------------------------------------------

JOINTS: dict[str, Joint] = {
    "blobs-7": toy.BLOBS_7.joint_log_density,
    "anisotropic": toy.ANISOTROPIC.joint_log_density,
    "moons": joint_near(toy.moon_curves, toy.NOISE),
    "circles": joint_near(toy.circle_curves, toy.NOISE),
    "rings": joint_near(toy.ring_curves, toy.NOISE),
    "spirals": joint_near(toy.spiral_curves, toy.SPIRAL_NOISE),
}
TABLES = ("iris", "wine", "breast-cancer")
CASES = {
    "mixture": Case(4, of_source(mixture, joint_of_mixture)),
    **{
        name: Case(SHAPES[name].n_clusters, of_source(SHAPES[name].draw, joint))
        for name, joint in JOINTS.items()
    },
    **{
        name: Case(
            SHAPES[name].n_clusters,
            of_rows(partial(SHAPES[name].draw, 0, 0), TRAINED_ON, _shuffled(0)),
        )
        for name in TABLES
    },
    "digits": Case(10, of_rows(toy.digits, 0.5, _shuffled(1))),
}
