"""The sets of `gedi reproduce shapes`, by families: made up, real, and without any structure.

A set is drawn from n and random_state, as those of `data.toy`. Seeds draw other points from the
same source: centres, profiles and curves are the same for all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from gedilearn.data import toy
from gedilearn.data.dataset import Dataset
from gedilearn.experiments.shape_pieces import (
    Draw,
    Gaussians,
    Pieces,
    Source,
    along,
    arc,
    ball,
    blob,
    built_in,
    diamond,
    mixed,
    shell,
    sunflower,
    wave,
    with_background,
)
from gedilearn.experiments.shape_tables import (
    DIRECTIONS,
    counts,
    embeddings,
    likeliest_of_mixed,
    likeliest_of_mixture,
    likeliest_profile,
    likeliest_rater,
    mixed_table,
    mixture_50,
    own_covariances,
    ratings,
    real_table,
    rounded,
)

THIN = 300  # points of a thin shape, at most
EACH = 40  # points a cluster, at least, where there are many
BACKGROUND = 0.1  # share of noise points
NOISY = 0.1


@dataclass(frozen=True)
class Shape:
    """A source of data, and what is known of it.

    A point of the label NOT_SCORED belongs to no cluster. A structureless set has no labels at all;
    `n_clusters` is then what is asked for.
    """

    n_clusters: int
    source: Source
    prior: tuple[float, ...] | None = None  # the true shares, where they are given too
    best: Callable[[np.ndarray], np.ndarray] | None = None  # x -> the likeliest cluster
    changed: Callable[[Dataset], Dataset] = lambda data: data
    fresh: bool = True  # whether more points can be drawn
    units: bool = True  # columns may have units of their own: standardised for every method
    least: int = 0  # points, whatever is asked for
    most: int | None = None
    structureless: bool = False

    def draw(self, n: int, seed: int) -> Dataset:
        n = max(n, self.least)
        n = n if self.most is None else min(n, self.most)
        return self.changed(self.source(n=n, random_state=seed))


# --- points that are not as they should be ------------------------------------------------------

CENTRES_TAILS = np.array([[0.0, 0.0], [12.0, 0.0], [6.0, 10.0]])
REPEATS = 5


def outliers(n: int, random_state: int) -> Dataset:
    """Four blobs, and one point in fifty anywhere in a box of twenty times their width.

    The label of an outlier is the blob it is likeliest to come from.
    """
    rng = np.random.default_rng(random_state)
    x = toy.BLOBS_4.draw(n, random_state).x
    strays = n // 50
    x[:strays] = rng.uniform(-57, 63, (strays, 2))
    return built_in(x, toy.BLOBS_4.most_likely(x), "outliers")


def duplicates(n: int, random_state: int) -> Dataset:
    """Moons of which every point comes five times, all but the same."""
    rng = np.random.default_rng(random_state)
    moons = toy.moons(max(n // REPEATS, 2), random_state=random_state)
    assert moons.y is not None
    x = np.repeat(moons.x, REPEATS, axis=0)
    x = x + rng.normal(0, 1e-4, x.shape)
    return built_in(x, np.repeat(moons.y, REPEATS), "duplicates")


def heavy_tails(n: int, random_state: int) -> Dataset:
    """Three clusters of Student's t with two degrees of freedom: no variance."""
    rng = np.random.default_rng(random_state)
    y = np.arange(n) % len(CENTRES_TAILS)
    return built_in(CENTRES_TAILS[y] + rng.standard_t(2, (n, 2)), y, "heavy-tails")


def graded(rng: np.random.Generator, m: int, side: int) -> np.ndarray:
    """Half a plane whose density falls to nothing at its edge, in proportion to the distance."""
    return np.stack([side * np.sqrt(rng.uniform(size=m)), rng.uniform(-1, 1, m)], axis=1)


def right_of_edge(x: np.ndarray) -> np.ndarray:
    return np.asarray(x[:, 0] > 0)


# --- without structure --------------------------------------------------------------------------


def one_hot(rng: np.random.Generator, m: int) -> np.ndarray:
    """Three categories that know nothing of each other."""
    return np.concatenate([np.eye(k)[rng.integers(0, k, m)] for k in (2, 3, 4)], axis=1)


def unlabelled(draw: Draw, n: int, random_state: int) -> Dataset:
    return built_in(np.asarray(draw(np.random.default_rng(random_state), n), dtype=float), None)


STRUCTURELESS: dict[str, tuple[int, Draw]] = {
    "uniform-square": (2, lambda rng, m: rng.uniform(size=(m, 2))),
    "uniform-disc": (3, ball((0, 0), 1)),
    "uniform-ball-5": (2, ball((0, 0, 0, 0, 0), 1)),
    "segment": (2, along([(0, 0), (3, 1)], width=0)),
    "gaussian-2": (2, lambda rng, m: rng.normal(size=(m, 2))),
    "gaussian-10": (3, lambda rng, m: rng.normal(size=(m, 10))),
    "exponential-1": (2, lambda rng, m: rng.exponential(size=(m, 1))),
    "exponential-2": (2, lambda rng, m: rng.exponential(size=(m, 2))),
    "coins-3": (2, lambda rng, m: rng.integers(0, 2, (m, 3))),
    "dice-2": (2, lambda rng, m: rng.integers(1, 7, (m, 2))),
    "dice-3": (3, lambda rng, m: rng.integers(1, 7, (m, 3))),
    "grid-5": (3, lambda rng, m: rng.integers(0, 5, (m, 2))),
    "gaussian-rounded": (2, lambda rng, m: np.round(rng.normal(size=(m, 2)))),
    "one-hot": (3, one_hot),
}

# --- the families -------------------------------------------------------------------------------

PLAIN = {"moons": toy.moons, "circles": toy.circles}
CHANGES: dict[str, Callable[[Dataset], Dataset]] = {
    "far": lambda data: toy.moved(data, 1000, 1e6),
    "rotated": lambda data: toy.rotated(data, 0.7),
    "axes": lambda data: toy.stretched(data, 100),
}
UNBALANCED = {"moons-80-20": (0.8, 0.2), "moons-95-5": (0.95, 0.05)}
BLOBS = {"blobs-4": toy.BLOBS_4, "blobs-7": toy.BLOBS_7, "anisotropic": toy.ANISOTROPIC}
REAL = {"iris": 3, "wine": 3, "breast-cancer": 2}
RATIOS = (2, 5, 20)
DISCS = (5, 4, 3, 2, 1)  # shares of those inside a ring
MANY = {15: 0.25, 31: 0.3, 50: 0.2, 100: 0.2}  # clusters, and the deviation of each
TILT = np.array([[3.0, 0.0], [0.0, 1.0]]) @ np.array([[0.9, 0.44], [-0.44, 0.9]])
ZIGZAG = np.array([(0, 0), (1, 1), (2, 0), (3, 1), (4, 0)])
LETTERS = (  # L, T, Z, H; a list of strokes each
    [[(0, 2), (0, 0), (1, 0)]],
    [[(2, 2), (3, 2)], [(2.5, 2), (2.5, 0)]],
    [[(4, 2), (5, 2), (4, 0), (5, 0)]],
    [[(6, 2), (6, 0)], [(7, 2), (7, 0)], [(6, 1), (7, 1)]],
)
RING = arc()
FLAT, UPRIGHT = np.insert(RING, 2, 0, axis=1), np.insert(RING + np.array([1, 0]), 1, 0, axis=1)
TETRAHEDRON = ((1, 1, 1), (1, -1, -1), (-1, 1, -1), (-1, -1, 1))
# The nodes of each blob's part of a bridge; its blob stands at the node named first.
CHAIN = {
    (0, 0): [(0, 0), (2.5, 2)],
    (5, 4): [(2.5, 2), (5, 4), (7.5, 2)],
    (10, 0): [(7.5, 2), (10, 0)],
}
PENTAGON = [(2.2 * np.cos(a), 2.2 * np.sin(a)) for a in np.arange(5) * 2 * np.pi / 5]
OVERLAPPING = Gaussians(
    np.array([[0.0, 0.0], [3.0, 0.0], [1.0, 3.0]]),
    np.array([[[1.0, 0.0], [0.0, 0.2]], [[0.2, 0.1], [0.1, 1.2]], [[0.6, -0.4], [-0.4, 0.6]]]),
    np.full(3, 1 / 3),
)
DENSE_AND_SPARSE = Gaussians.of(  # three of many points, five of few
    [(0, 0), (8, 0), (4, 7), (-5, 6), (13, 6), (4, -7), (-6, -5), (14, -5)],
    [0.5] * 3 + [0.9] * 5,
    [10.0] * 3 + [2.0] * 5,
)
WIDE = own_covariances(5, 15)


def drawn(*clusters: Draw, shares: Sequence[float] = (), **known: Any) -> Shape:
    """A cluster for each piece."""
    return Shape(len(clusters), Pieces(clusters, shares), **known)


def gaussian(clusters: Gaussians, **known: Any) -> Shape:
    return Shape(len(clusters.centres), clusters, best=clusters.most_likely, **known)


def in_noise(shape: Shape) -> Shape:
    """The same clusters with noise points all over."""
    return replace(shape, source=with_background(shape.source, BACKGROUND))


thin = partial(drawn, most=THIN)
BY_FAMILY: dict[str, dict[str, Shape]] = {
    "plain": {
        **{name: Shape(2, source) for name, source in PLAIN.items()},
        **{
            f"{name}-{how}": Shape(2, source, changed=changed)
            for how, changed in CHANGES.items()
            for name, source in PLAIN.items()
        },
        "rings": Shape(3, toy.rings),
        "spirals": Shape(2, toy.spirals),
        **{
            name: Shape(len(blobs.centres), blobs.draw, best=blobs.most_likely)
            for name, blobs in BLOBS.items()
        },
        "moons-noisy": Shape(
            2, partial(toy.moons, noise=NOISY), best=partial(toy.most_likely_moon, noise=NOISY)
        ),
        "duplicates": Shape(2, duplicates),
        "heavy-tails": Shape(3, heavy_tails),
    },
    "unequal": {
        **{
            name: Shape(2, partial(toy.moons, share=prior[0]), prior)
            for name, prior in UNBALANCED.items()
        },
        **{
            f"blobs-{ratio}-1": gaussian(Gaussians.of([(0, 0), (6, 0), (3, 5)], 0.7, (ratio, 1, 1)))
            for ratio in RATIOS
        },
        "ring-and-discs": drawn(
            along(5 * RING, width=0.15),
            *(ball(c, 0.3 * s**0.5) for c, s in zip(PENTAGON, DISCS, strict=True)),
            shares=(8, *DISCS),
        ),
        "arcs-3-1": drawn(
            along(arc(0, 0.5), width=0.05),
            along(arc(0.5, 1, centre=(1, 0.4)), width=0.1),
            shares=(3, 1),
        ),
        "dense-and-sparse": gaussian(DENSE_AND_SPARSE),
    },
    "thin": {
        "spirals-3": thin(
            *(along(arc(k / 3, k / 3 + 1, radii=(0.2, 1.2)), width=0.015) for k in range(3))
        ),
        "ellipses": thin(*(along(size * RING @ TILT, width=0.05) for size in (1, 2))),
        "zigzags": thin(*(along(ZIGZAG + np.array([0, 1.2 * k]), width=0.05) for k in range(3))),
        "waves": thin(*(along(wave(1.2 * k, 2 * np.pi), width=0.05) for k in range(4))),
        "letters": thin(*(along(*strokes, width=0.04) for strokes in LETTERS)),
    },
    "noise": {
        "outliers": Shape(4, outliers, best=toy.BLOBS_4.most_likely),
        "moons-in-noise": in_noise(Shape(2, toy.moons)),
        "rings-in-noise": in_noise(Shape(3, toy.rings)),
        "blobs-in-noise": in_noise(Shape(7, toy.BLOBS_7.draw, best=toy.BLOBS_7.most_likely)),
    },
    "touching": {
        "touching-discs": drawn(ball((-1, 0), 1), ball((1, 0), 1), best=right_of_edge),
        "half-planes": drawn(partial(graded, side=-1), partial(graded, side=1), best=right_of_edge),
        "covariances": gaussian(OVERLAPPING),
        "diamonds": drawn(*(diamond((x, y), 1) for x in (0, 2) for y in (0, 2))),
        "chain": drawn(
            *(
                mixed(blob(centre, 0.6), along(bridge, width=0.1), 0.08)
                for centre, bridge in CHAIN.items()
            )
        ),
    },
    "many": {
        f"blobs-{k}": gaussian(Gaussians.of(sunflower(k), deviation), least=EACH * k)
        for k, deviation in MANY.items()
    },
    "solid": {
        "linked-rings": drawn(along(FLAT, width=0.05), along(UPRIGHT, width=0.05)),
        "ball-in-shell": drawn(ball((0, 0, 0), 0.6), shell((0, 0, 0), 1.5, width=0.05)),
        "tetrahedron": drawn(*(ball(centre, 2**0.5) for centre in TETRAHEDRON)),
    },
    "wide": {
        "mixture-50": Shape(4, mixture_50, best=likeliest_of_mixture),
        "covariances-15": gaussian(WIDE),
        "embeddings-128": Shape(len(DIRECTIONS), embeddings, units=False),
    },
    "tables": {
        "mixed": Shape(3, mixed_table, best=likeliest_of_mixed),
        "ratings": Shape(3, ratings, best=likeliest_rater),
        "counts": Shape(3, counts, best=likeliest_profile),
        "blobs-rounded": Shape(4, toy.BLOBS_4.draw, best=toy.BLOBS_4.most_likely, changed=rounded),
    },
    "real": {
        "digits": Shape(10, lambda **_: toy.digits(), fresh=False, units=False),
        **{
            name: Shape(k, partial(real_table, name.replace("-", "_")), fresh=False)
            for name, k in REAL.items()
        },
    },
    "structureless": {
        name: Shape(k, partial(unlabelled, draw), structureless=True)
        for name, (k, draw) in STRUCTURELESS.items()
    },
}
FAMILIES = {family: tuple(sets) for family, sets in BY_FAMILY.items()}
SHAPES = {name: shape for sets in BY_FAMILY.values() for name, shape in sets.items()}
