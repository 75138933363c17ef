"""Where training begins: several clusterings compete, evidence without labels decides.

No method finds every kind of cluster. Slow modes of the weighted graph find what hangs together, at
two scales; a tree finds thin and uneven shapes; a Gaussian mixture and k-means find what overlaps.
Two things tell good ones from bad ones without labels: how little of the graph's weight they cut,
which is what INV counts for certain predictions and walks of one step, and how well they agree with
the clusterings that the same method finds in parts of the data.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from gedilearn.data.graph import (
    LEAST,
    SHARED,
    Neighbours,
    bridged,
    find_neighbours,
    neighbour_graph,
    own_stream,
)
from gedilearn.data.walks import nearest_of
from gedilearn.progress import SILENT, Progress
from gedilearn.ranks import ONE_AT_A_TIME
from gedilearn.starts.known import Known
from gedilearn.starts.spectral import FLAT, spectral_clusters
from gedilearn.starts.tree import tree_clusters

if TYPE_CHECKING:
    import scipy.sparse

Floats = npt.NDArray[Any]
Ints = npt.NDArray[Any]

# Neighbours of the graph on which all are judged, and of a sparser one, which thin shapes need.
NEIGHBOURS, FEW = 10, 5
# Of more points than these, or than so many a cluster, evenly many are drawn; the others have the
# label of the nearest of them.
MOST_POINTS, MOST_EACH = 5_000, 60
# Parts of the data, and their size: a clustering should not depend on a fifth of the points.
PARTS, SHARE = 4, 0.8
# Where methods find the same clusters, the steadiest of them speaks for all; from here on none is
# asked any more.
STEADY = 0.99
# A mixture has covariances to estimate: points for each of its clusters and columns.
POINTS_EACH = 5
# What is cut is compared by ratios, above this share of the weight; disagreement counts by its
# fourth root. Chosen on about 50 sets drawn for it (docs/how-it-trains.md).
LEAST_CUT, LEAST_DOUBT, WEIGHT = 0.002, 0.02, 0.25


@dataclass(frozen=True)
class Start:
    """A clustering of the points, and what speaks for it.

    labels: (n,) in 0..n_clusters-1; corrected by classes that are known of some points.
    cut: the share of a cluster's links, by weight, that leave it, on average.
    stability: the mean adjusted mutual information with the same method's clusterings of parts of
        the data; 1 is complete agreement.
    parts: (n, parts) the labels that the method gives the points of each part; -1 outside of it.
    method: what found it.
    rivals: for each other method: its cut and stability.
    """

    labels: Ints
    cut: float
    stability: float
    parts: Ints
    method: str
    rivals: dict[str, tuple[float, float]] = field(default_factory=dict)

    def for_points(self, index: Ints) -> Start:
        """The same for points that have the labels of others: those with these numbers."""
        return replace(self, labels=self.labels[index], parts=self.parts[index])

    @property
    def score(self) -> float:
        """Higher is better."""
        doubt = 1 + LEAST_DOUBT - self.stability
        return -float(np.log(self.cut + LEAST_CUT) + WEIGHT * np.log(doubt))


class Part(NamedTuple):
    """Some of the points."""

    rows: Ints  # (m,)
    points: Floats  # (m, d)
    neighbours: Neighbours  # among themselves


def choose_start(
    x: Floats,
    n_clusters: int,
    random_state: int = 0,
    progress: Progress = SILENT,
    known: Neighbours | None = None,
    classes: Known | None = None,
) -> Start:
    """The best start for points x (n, d), as distances see them.

    Neighbours that are `known` are not sought again. It agrees with known `classes` of points.
    """
    n, most = len(x), max(MOST_POINTS, MOST_EACH * n_clusters)
    if n <= most:
        known = known or find_neighbours(x, SHARED)
        return _choose(x, known, n_clusters, random_state, progress, classes)
    chosen = np.sort(own_stream(random_state).choice(n, most, replace=False))
    landmarks = np.asarray(x[chosen], np.float64)
    nearest = nearest_of(landmarks, x)
    classes = classes and classes.for_nodes(nearest, most)
    start = choose_start(landmarks, n_clusters, random_state, progress, classes=classes)
    return start.for_points(nearest)


def _choose(
    x: Floats,
    neighbours: Neighbours,
    n_clusters: int,
    random_state: int,
    progress: Progress,
    classes: Known | None,
) -> Start:
    graph = neighbour_graph(x, NEIGHBOURS, known=neighbours)[0]
    rng = own_stream(random_state)
    size = max(round(SHARE * len(x)), min(n_clusters + 1, len(x)))
    drawn = (np.sort(rng.choice(len(x), size, replace=False)) for _ in range(PARTS))
    parts = [Part(k, x[k], find_neighbours(x[k], SHARED)) for k in drawn]
    starts: list[Start] = []
    for done, (name, method) in enumerate(METHODS.items()):
        progress.step(done, len(METHODS), name)
        labels = method(x, neighbours, n_clusters, random_state)
        if labels is None:
            continue
        same = next((one for one in starts if agreement(labels, one.labels) == 1.0), None)
        if same is not None and same.stability >= STEADY:
            continue
        start = _examined(name, method, labels, graph, parts, random_state)
        if same is None or start.stability > same.stability:
            starts = [one for one in starts if one is not same] + [start]

    def score(start: Start) -> float:
        return start.score + (classes.support(start.labels, n_clusters) if classes else 0.0)

    best = max(starts, key=score)
    rivals = {one.method: (one.cut, one.stability) for one in starts if one is not best}
    best = replace(best, rivals=rivals)
    if classes is None:
        return best
    return replace(best, labels=classes.held(best.labels, graph, n_clusters))


def _examined(
    name: str,
    method: Method,
    labels: Ints,
    graph: scipy.sparse.csr_matrix,
    parts: list[Part],
    random_state: int,
) -> Start:
    """A clustering with its evidence."""
    n_clusters = int(labels.max()) + 1
    found = np.full((len(labels), len(parts)), -1, np.int32)
    for part, (index, points, neighbours) in enumerate(parts):
        again = method(points, neighbours, n_clusters, random_state)
        if again is not None:
            found[index, part] = again
    return Start(labels, cut_share(graph, labels), stability(labels, found), found, name)


def stability(labels: Ints, parts: Ints) -> float:
    """The mean adjusted mutual information of labels (n,) with those of parts (n, parts) of them.

    0 if there are no parts.
    """
    inside = [(labels[part >= 0], part[part >= 0]) for part in parts.T if (part >= 0).any()]
    return float(np.mean([agreement(*both) for both in inside])) if inside else 0.0


def kept(labels: Ints, parts: Ints) -> Floats:
    """The share of the parts (n, parts) in which each point has its label (n,) again: (n,).

    1 where a point is in no part.
    """
    again, seen = np.zeros(len(labels)), (parts >= 0).sum(axis=1)
    for part in parts.T:
        inside = part >= 0
        if inside.any():
            again[inside] += matched(part[inside], labels[inside]) == labels[inside]
    return np.where(seen > 0, again / np.maximum(seen, 1), 1.0)


def cut_share(graph: scipy.sparse.csr_matrix, labels: Ints) -> float:
    """The share of a cluster's links, by weight, that leave it: the mean over the clusters."""
    return float(np.nanmean(cut_shares(graph, labels)))


def cut_shares(graph: scipy.sparse.csr_matrix, labels: Ints, n_clusters: int = 0) -> Floats:
    """Of each cluster, (clusters,); nan for those without points."""
    links = graph.tocoo()
    start, stop = labels[links.row], labels[links.col]
    total = np.bincount(start, links.data, minlength=n_clusters)
    leaving = np.bincount(start, links.data * (start != stop), minlength=n_clusters)
    return np.where(total > 0, leaving / np.maximum(total, LEAST), np.nan)


def agreement(labels: Ints, others: Ints) -> float:
    """Adjusted mutual information: 1 for the same clusters, about 0 for unrelated ones."""
    from sklearn.metrics import adjusted_mutual_info_score

    return float(adjusted_mutual_info_score(labels, others))


def matched(labels: Ints, others: Ints) -> Ints:
    """`labels`, (n,), renamed so that as many points as possible have the label in `others`."""
    from scipy.optimize import linear_sum_assignment

    size = int(max(labels.max(), others.max())) + 1
    table = np.zeros((size, size), np.int64)
    np.add.at(table, (labels, others), 1)
    rows, columns = linear_sum_assignment(table, maximize=True)
    names = np.empty(size, np.int64)
    names[rows] = columns
    return np.asarray(names[labels])


# --- methods: (points, their neighbours, n_clusters, seed) -> labels, or None if it cannot --------

Method = Callable[..., "Ints | None"]


def _modes(
    x: Floats, found: Neighbours, n_clusters: int, seed: int, n_neighbors: int = NEIGHBOURS
) -> Ints | None:
    graph = neighbour_graph(x, n_neighbors, known=found)[0]
    graph = bridged(x, graph, n_clusters, n_neighbors)
    return spectral_clusters(graph, n_clusters, x.shape[1] <= FLAT, seed)


def _tree(x: Floats, found: Neighbours, n_clusters: int, seed: int) -> Ints | None:
    with ONE_AT_A_TIME:
        return tree_clusters(x, n_clusters, known=found)


def _mixture(x: Floats, found: Neighbours, n_clusters: int, seed: int) -> Ints | None:
    from sklearn.mixture import GaussianMixture

    if len(x) < POINTS_EACH * n_clusters * x.shape[1]:
        return None
    mixture = GaussianMixture(n_clusters, reg_covar=1e-4, random_state=seed)
    with ONE_AT_A_TIME, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of convergence: it need not be the best mixture
        return np.asarray(mixture.fit_predict(x))


def _means(x: Floats, found: Neighbours, n_clusters: int, seed: int) -> Ints | None:
    from sklearn.cluster import KMeans

    with ONE_AT_A_TIME, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of fewer distinct points than clusters
        return np.asarray(KMeans(n_clusters, n_init=3, random_state=seed).fit_predict(x))


METHODS: dict[str, Method] = {
    "slow modes": _modes,
    "slow modes, fewer neighbours": partial(_modes, n_neighbors=FEW),
    "tree": _tree,
    "Gaussian mixture": _mixture,
    "k-means": _means,
}
