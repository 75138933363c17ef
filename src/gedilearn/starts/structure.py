"""Is there any structure? The data's slow modes beside those of data that has none.

Clusters make walks on the neighbour graph slow: with c clusters, the c-th mode hardly decays. But
any finite set has slow modes, thin and long ones above all. So the same mode is looked at in
references of the same size whose columns are spread as those of the data, but for one thing: each
column has a single peak. In one family the columns are independent, in another they have the rank
correlations of the data, in a third it is principal directions that are independent and have one
peak. Structure is what makes the data slower than all three.

Columns keep their skew, their tails and their edges in the references, so that none of these counts
as structure; gaps and several peaks in a column do.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from gedilearn.data.graph import (
    are_large,
    bridged,
    distance_points,
    neighbour_graph,
    one_hot_blocks,
    own_stream,
)
from gedilearn.progress import SILENT, Progress
from gedilearn.starts.choose import NEIGHBOURS
from gedilearn.starts.spectral import FLAT, slow_modes

Floats = npt.NDArray[Any]
Ints = npt.NDArray[Any]

# Looked at: at most so many points, or so many a cluster, and references of each family.
MOST_POINTS, MOST_EACH, REFERENCES = 600, 20, 8
# Chance that data like a family of references passes for structured, by Student's t; and how much
# slower the data must be at least, for no family is quite like any data.
ERROR, FACTOR = 0.01, 1.25
# So many times slower is apart, though references on a line, which nearly break, vary as much.
APART = 1_000
# Points in a bin of a column's histogram, at least; bins; and how many of them may be the peak.
BIN, MOST_BINS, PEAKS = 10, 25, 5
# Of more columns than these, as many principal directions.
MOST_COLUMNS = 50


class Structure(NamedTuple):
    """How much slower the c-th mode of the data is than in structureless references.

    t: over the families, the least (mean log speed of the references - that of the data), in
        standard errors of one more reference.
    factor: how many times slower the data is than the slowest family, at least.
    threshold: the t that at most `ERROR` of structureless sets exceed.
    step: how many times faster the next mode decays.
    """

    t: float
    factor: float
    threshold: float
    step: float

    @property
    def found(self) -> bool:
        return (self.t > self.threshold and self.factor > FACTOR) or self.factor > APART


def examine_structure(
    x: Floats, n_clusters: int, random_state: int = 0, progress: Progress = SILENT
) -> Structure:
    """Hold points x (n, d), standardised, against structureless references.

    Columns of a category belong together: the references have whole rows of them as in the data,
    independent of all else. Of many others, their leading principal directions are looked at.
    """
    from scipy.stats import t as student

    rng = own_stream(random_state)
    most = max(MOST_POINTS, MOST_EACH * n_clusters)
    if len(x) > most:
        x = x[np.sort(rng.choice(len(x), most, replace=False))]
    joint = [block for block in one_hot_blocks(x) if len(block) > 1]
    x = distance_points(x, random_state)
    others = np.setdiff1d(np.arange(x.shape[1]), np.concatenate([*joint, np.zeros(0, int)]))
    if len(others) > MOST_COLUMNS:
        leading = _leading(x[:, others])
        ends = leading.shape[1] + np.cumsum([0, *map(len, joint)])
        x = np.column_stack([leading, *(x[:, block] for block in joint)])
        joint = [np.arange(*pair) for pair in itertools.pairwise(ends)]
    mode = min(n_clusters, max(len(x) - 2, 1))
    own, following = log_speeds(x, mode + 1)[-2:]
    t, slower = math.inf, math.inf
    margins = [unimodal(column) for column in x.T]
    families = (_joined(margins, len(x)), _joined(margins, len(x), _rank_root(x)), _directions(x))
    for family, draw in enumerate(families):
        speeds: list[float] = []
        for _ in range(REFERENCES):
            done = family * REFERENCES + len(speeds)
            progress.step(done, len(families) * REFERENCES)
            reference = draw(rng)
            for block in joint:
                reference[:, block] = x[rng.integers(len(x), size=len(x))][:, block]
            speeds.append(log_speeds(reference, mode)[-1])
        speeds = sorted(speeds)
        speeds[0] = speeds[1]  # one that fell apart by chance would hide any difference
        error = float(np.std(speeds, ddof=1)) * math.sqrt(1 + 1 / REFERENCES)
        t = min(t, (float(np.mean(speeds)) - own) / max(error, 1e-9))
        slower = min(slower, float(np.mean(speeds)) - own)
    threshold = float(student.ppf(1 - ERROR, REFERENCES - 1))
    return Structure(t, math.exp(min(slower, 50.0)), threshold, math.exp(following - own))


def log_speeds(x: Floats, modes: int) -> list[float]:
    """log(1 - eigenvalue) of the slowest modes of the walk, the slowest first."""
    from scipy.sparse.csgraph import connected_components

    graph = neighbour_graph(x, min(NEIGHBOURS, len(x) - 1))[0]
    # A few strays are no cluster: what is apart counts only if it is large.
    large = int(are_large(connected_components(graph, directed=False)[1], modes).sum())
    if large >= modes:
        return [math.log(1e-9)] * modes
    graph = bridged(x, graph, max(large, 1), NEIGHBOURS)
    values, _ = slow_modes(graph, modes, x.shape[1] <= FLAT)
    return [math.log(max(1 - float(value), 1e-9)) for value in values]


def unimodal(column: Floats) -> tuple[Floats, Floats]:
    """The distribution with one peak that is nearest to a column: (quantiles, values) of points.

    The heights of a histogram of equally many points a bin, made to rise up to the peak and to fall
    behind it by isotonic regression; the peak is that of the highest bins where the squared error
    is least.
    """
    from sklearn.isotonic import isotonic_regression

    n_bins = int(np.clip(len(column) // BIN, 1, MOST_BINS))
    edges = np.unique(np.quantile(column, np.linspace(0, 1, n_bins + 1)))
    if len(edges) == 1:
        return np.array([0.0, 1.0]), np.repeat(edges, 2)
    counts, edges = np.histogram(column, edges)
    width = np.diff(edges)
    height = counts / width
    best, least = height, math.inf
    for peak in np.argsort(-height, kind="stable")[:PEAKS]:
        rising = isotonic_regression(height[: peak + 1], sample_weight=width[: peak + 1])
        falling = isotonic_regression(height[peak:], sample_weight=width[peak:], increasing=False)
        fit = np.r_[rising[:-1], max(rising[-1], falling[0]), falling[1:]]
        error = float((width * (fit - height) ** 2).sum())
        if error < least:
            best, least = fit, error
    upto = np.r_[0.0, np.cumsum(best * width)]
    return upto / upto[-1], edges


# --- families of references: each gives as many points as the data has, with one peak a column ----

Margin = tuple[Floats, Floats]  # as `unimodal` gives it
Draw = Callable[[np.random.Generator], Floats]


def _joined(margins: list[Margin], n: int, root: Floats | None = None) -> Draw:
    """n points of columns that are independent, or joined by normal scores with this root of
    their correlations, which hold for columns of any distribution.
    """
    from scipy.special import ndtr

    def draw(rng: np.random.Generator) -> Floats:
        scores = rng.normal(size=(n, len(margins)))
        places = ndtr(scores if root is None else scores @ root.T)
        columns = [np.interp(u, *margin) for u, margin in zip(places.T, margins, strict=True)]
        return np.column_stack(columns)

    return draw


def _rank_root(x: Floats) -> Floats:
    """A root of the correlations of the columns' normal scores: (d, d)."""
    from scipy.special import ndtri
    from scipy.stats import rankdata

    scores = ndtri((rankdata(x, axis=0) - 0.5) / len(x))
    scores = (scores - scores.mean(axis=0)) / np.maximum(scores.std(axis=0), 1e-9)
    values, vectors = np.linalg.eigh(scores.T @ scores / len(x))
    return np.asarray(vectors * np.sqrt(np.maximum(values, 0)))


def _leading(x: Floats) -> Floats:
    """Coordinates along the `MOST_COLUMNS` leading principal directions.  (n, d) -> (n, m)."""
    _, _, turn = np.linalg.svd(x - x.mean(axis=0), full_matrices=False)
    return np.asarray(x @ turn[:MOST_COLUMNS].T)


def _directions(x: Floats) -> Draw:
    """Independent principal directions: a thin cloud in any direction stays thin."""
    mean = x.mean(axis=0)
    _, _, turn = np.linalg.svd(x - mean, full_matrices=False)
    independent = _joined([unimodal(column) for column in ((x - mean) @ turn.T).T], len(x))
    return lambda rng: np.asarray(independent(rng) @ turn + mean)
