"""The sets of `shapes.py`, by families: made up, real, and without any structure.

A set is drawn from n and random_state, as those of `plane_sets`. Seeds draw other points
from the same source: centres, profiles and curves are the same for all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

import plane_sets as plane
from gedilearn.data import toy
from gedilearn.data.dataset import Dataset

THIN = 300  # points of a thin shape, at most
EACH = 40  # points a cluster, at least, where there are many
BACKGROUND = 0.1  # share of noise points
NOISY = 0.1
Floats = npt.NDArray[np.floating[Any]]
Draw = Callable[[np.random.Generator, int], np.ndarray]  # (generator, m) -> points (m, d)
Source = Callable[..., Dataset]  # of n and random_state
NOT_SCORED = -1  # the label of a point that belongs to no cluster
TURN = 2 * np.pi
GOLDEN = (3 - 5**0.5) / 2  # of a turn


def built_in(x: np.ndarray, y: np.ndarray | None, name: str = "drawn") -> Dataset:
    return Dataset(name=name, x=x, y=y, columns=None, source="built-in")


# --- pieces -------------------------------------------------------------------------------------


def along(*strokes: Any, width: float) -> Draw:
    """Evenly along strokes, each through its nodes (nodes, d), with normal noise of this width."""
    nodes = [np.asarray(stroke, dtype=float) for stroke in strokes]
    starts = np.concatenate([stroke[:-1] for stroke in nodes])
    steps = np.concatenate([np.diff(stroke, axis=0) for stroke in nodes])
    lengths = np.linalg.norm(steps, axis=1)

    def draw(rng: np.random.Generator, m: int) -> np.ndarray:
        step = rng.choice(len(steps), m, p=lengths / lengths.sum())
        x = starts[step] + rng.uniform(size=(m, 1)) * steps[step]
        return np.asarray(x + rng.normal(0, width, x.shape))

    return draw


def ball(centre: Sequence[float], radius: float) -> Draw:
    """Evenly in a ball of any dimension: an interval, a disc, a ball."""

    def draw(rng: np.random.Generator, m: int) -> np.ndarray:
        away = _directions(rng, m, len(centre)) * rng.uniform(size=(m, 1)) ** (1 / len(centre))
        return np.asarray(centre + radius * away)

    return draw


def shell(centre: Sequence[float], radius: float, width: float) -> Draw:
    """Evenly on a sphere, with normal noise."""

    def draw(rng: np.random.Generator, m: int) -> np.ndarray:
        x = centre + radius * _directions(rng, m, len(centre))
        return np.asarray(x + rng.normal(0, width, x.shape))

    return draw


def diamond(centre: Sequence[float], radius: float) -> Draw:
    """Evenly in a square that stands on a corner."""
    turn = np.array([[1.0, 1.0], [-1.0, 1.0]]) / 2

    def draw(rng: np.random.Generator, m: int) -> np.ndarray:
        return np.asarray(centre + radius * rng.uniform(-1, 1, (m, 2)) @ turn)

    return draw


def blob(centre: Sequence[float], deviation: float) -> Draw:
    """Normal, the same in every direction."""
    return lambda rng, m: np.asarray(centre + deviation * rng.normal(size=(m, len(centre))))


def mixed(piece: Draw, other: Draw, share: float) -> Draw:
    """One piece, and another that holds a share of the points."""

    def draw(rng: np.random.Generator, m: int) -> np.ndarray:
        second = round(share * m)
        return np.concatenate([piece(rng, m - second), other(rng, second)])

    return draw


def _directions(rng: np.random.Generator, m: int, d: int) -> np.ndarray:
    away = rng.normal(size=(m, d))
    return np.asarray(away / np.linalg.norm(away, axis=1, keepdims=True))


# --- nodes of curves ----------------------------------------------------------------------------


def arc(
    start: float = 0,
    end: float = 1,
    centre: Sequence[float] = (0, 0),
    radii: tuple[float, float] = (1, 1),
) -> np.ndarray:
    """From one angle to another, in turns; the radius grows from the first to the second."""
    part = np.linspace(0, 1, 200)
    angle = TURN * (start + (end - start) * part)
    radius = radii[0] + (radii[1] - radii[0]) * part
    return np.asarray(centre + radius[:, None] * np.stack([np.cos(angle), np.sin(angle)], axis=1))


def wave(height: float, end: float) -> np.ndarray:
    """A sine line from 0 to `end`."""
    x = np.linspace(0, end, 200)
    return np.stack([x, height + np.sin(x)], axis=1)


def sunflower(k: int) -> np.ndarray:
    """Points that fill a disc evenly, about 1.7 apart, as the seeds of a sunflower do: (k, 2)."""
    place = np.arange(k) + 0.5
    angle = TURN * GOLDEN * place
    return np.asarray(np.sqrt(place)[:, None] * np.stack([np.cos(angle), np.sin(angle)], axis=1))


# --- sets ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Pieces:
    """A cluster for each piece; shares are equal unless they are given."""

    clusters: Sequence[Draw]
    shares: Sequence[float] = ()

    def __call__(self, n: int, random_state: int) -> Dataset:
        rng = np.random.default_rng(random_state)
        y = labels(n, self.shares or [1.0] * len(self.clusters))
        drawn = [draw(rng, int((y == k).sum())) for k, draw in enumerate(self.clusters)]
        order = rng.permutation(n)
        return built_in(np.concatenate(drawn)[order], y[order])


@dataclass(frozen=True, eq=False)
class Gaussians:
    """Clusters of known density: centres (k, d), covariances (k, d, d), shares (k,)."""

    centres: Floats
    covariances: Floats
    shares: Floats

    @classmethod
    def of(cls, centres: Any, deviations: Any = 1.0, shares: Any = 1.0) -> Gaussians:
        """The same in every direction; one deviation and share for all, or one for each."""
        centres = np.asarray(centres, dtype=float)
        k, d = centres.shape
        squares = np.broadcast_to(np.square(np.asarray(deviations, dtype=float)), k)
        each = np.broadcast_to(np.asarray(shares, dtype=float), k)
        return cls(centres, squares[:, None, None] * np.eye(d), each / each.sum())

    def __call__(self, n: int, random_state: int) -> Dataset:
        rng = np.random.default_rng(random_state)
        y = rng.permutation(labels(n, self.shares))
        spread = np.linalg.cholesky(self.covariances)[y]
        noise = rng.normal(size=(n, self.centres.shape[1]))
        return built_in(self.centres[y] + np.einsum("nij,nj->ni", spread, noise), y)

    def most_likely(self, x: Floats) -> np.ndarray:
        """The cluster of highest posterior probability: (n, d) -> (n,)."""
        each = plane.log_density_of_gaussians(x, self.centres, self.covariances)
        return np.asarray((each + np.log(self.shares)).argmax(1))


def labels(n: int, shares: Any) -> np.ndarray:
    """Labels (n,) in order, in numbers that are as near to the shares as whole numbers can be."""
    ends = np.cumsum(shares) / np.sum(shares)
    return np.asarray(np.searchsorted(ends[:-1], (np.arange(n) + 0.5) / n))


def with_background(source: Source, share: float) -> Source:
    """A share of the points anywhere in the box of the others; they belong to no cluster."""

    def draw(n: int, random_state: int) -> Dataset:
        strays = round(share * n)
        data = source(n=n - strays, random_state=random_state)
        assert data.y is not None
        # Another stream than that of the source, which began with the seed itself.
        rng = np.random.default_rng([random_state, strays])
        low, high = data.x.min(0), data.x.max(0)
        x = np.concatenate([data.x, rng.uniform(low, high, (strays, data.x.shape[1]))])
        return built_in(x, np.concatenate([data.y, np.full(strays, NOT_SCORED)]))

    return draw


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
    x = plane.BLOBS_4.draw(n, random_state).x
    strays = n // 50
    x[:strays] = rng.uniform(-57, 63, (strays, 2))
    return built_in(x, plane.BLOBS_4.most_likely(x), "outliers")


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
    "far": lambda data: plane.moved(data, 1000, 1e6),
    "rotated": lambda data: plane.rotated(data, 0.7),
    "axes": lambda data: plane.stretched(data, 100),
}
UNBALANCED = {"moons-80-20": (0.8, 0.2), "moons-95-5": (0.95, 0.05)}
BLOBS = {"blobs-4": plane.BLOBS_4, "blobs-7": plane.BLOBS_7, "anisotropic": plane.ANISOTROPIC}
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
        "rings": Shape(3, plane.rings),
        "spirals": Shape(2, plane.spirals),
        **{
            name: Shape(len(blobs.centres), blobs.draw, best=blobs.most_likely)
            for name, blobs in BLOBS.items()
        },
        "moons-noisy": Shape(
            2, partial(toy.moons, noise=NOISY), best=partial(plane.most_likely_moon, noise=NOISY)
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
        "outliers": Shape(4, outliers, best=plane.BLOBS_4.most_likely),
        "moons-in-noise": in_noise(Shape(2, toy.moons)),
        "rings-in-noise": in_noise(Shape(3, plane.rings)),
        "blobs-in-noise": in_noise(Shape(7, plane.BLOBS_7.draw, best=plane.BLOBS_7.most_likely)),
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
        "blobs-rounded": Shape(
            4, plane.BLOBS_4.draw, best=plane.BLOBS_4.most_likely, changed=rounded
        ),
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
