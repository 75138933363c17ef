"""What made-up sets are drawn from: curves of some width, balls, Gaussians, noise all over."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from gedilearn.data import toy
from gedilearn.data.dataset import Dataset

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
        each = toy.log_density_of_gaussians(x, self.centres, self.covariances)
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
