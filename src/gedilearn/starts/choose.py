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
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from gedilearn.data.arrays import pair_counts
from gedilearn.graph.neighbours import (
    LEAST,
    SHARED,
    Neighbours,
    bridged,
    find_neighbours,
    neighbour_graph,
    own_stream,
)
from gedilearn.graph.walks import nearest_of
from gedilearn.progress import SILENT, Progress
from gedilearn.ranks import ONE_AT_A_TIME
from gedilearn.starts.classes import Classes
from gedilearn.starts.spectral import FLAT, pivoted_clusters, slow_modes
from gedilearn.starts.tree import GINI, cut, merged, spanning_tree

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

    labels: (n,) in 0..n_clusters-1; corrected by the known classes of some points.
    cut: the share of a cluster's links, by weight, that leave it, on average.
    stability: the mean adjusted mutual information with the same method's clusterings of parts of
        the data; 1 is complete agreement.
    parts: (n, parts) the labels that the method gives the points of each part; -1 outside of it.
    method: what found it.
    rivals: for each other method that might have been chosen: its cut and stability.
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


@dataclass(frozen=True, eq=False)
class Part:
    """Some of the points, or all, with what methods find of them once for every number."""

    rows: Ints  # (m,)
    points: Floats  # (m, d)
    neighbours: Neighbours  # among themselves
    most: int  # clusters
    found: dict[Any, Any] = field(default_factory=dict)

    def once(self, make: Callable[..., Any], *given: Any) -> Any:
        """What `make` gives for this part, made at the first call."""
        key = (make, *given)
        if key not in self.found:
            self.found[key] = make(self, *given)
        return self.found[key]


def choose_start(
    x: Floats,
    n_clusters: int,
    random_state: int = 0,
    progress: Progress = SILENT,
    known: Neighbours | None = None,
    classes: Classes | None = None,
) -> Start:
    """The best start for points x (n, d), as distances see them.

    Neighbours that are `known` are not sought again. It agrees with known `classes` of points.
    """
    n, most = len(x), max(MOST_POINTS, MOST_EACH * n_clusters)
    if n <= most:
        parts = parts_of(x, n_clusters, random_state, known)
        return best_start(parts, n_clusters, random_state, progress, classes)
    chosen = np.sort(own_stream(random_state).choice(n, most, replace=False))
    landmarks = np.asarray(x[chosen], np.float64)
    nearest = nearest_of(landmarks, x)
    classes = classes and classes.for_nodes(nearest, most)
    start = choose_start(landmarks, n_clusters, random_state, progress, classes=classes)
    return start.for_points(nearest)


def parts_of(
    x: Floats, most: int, random_state: int, known: Neighbours | None = None
) -> list[Part]:
    """All points x (n, d), and after them parts of them, for at most so many clusters."""
    rng = own_stream(random_state)
    size = max(round(SHARE * len(x)), min(most + 1, len(x)))
    drawn = (np.sort(rng.choice(len(x), size, replace=False)) for _ in range(PARTS))
    whole = Part(np.arange(len(x)), x, known or find_neighbours(x, SHARED), most)
    return [whole, *(Part(k, x[k], find_neighbours(x[k], SHARED), most) for k in drawn)]


def best_start(
    parts: list[Part],
    n_clusters: int,
    random_state: int,
    progress: Progress = SILENT,
    classes: Classes | None = None,
) -> Start:
    """The best start for the first of the parts."""
    whole, *others = parts
    graph, starts = whole.once(_graph, NEIGHBOURS), list[Start]()

    def score(start: Start) -> float:
        return start.score + (classes.support(start.labels, n_clusters) if classes else 0.0)

    for done, (name, method) in enumerate(METHODS.items()):
        progress.step(done, len(METHODS), name)
        labels = method(whole, n_clusters, random_state)
        if labels is None:
            continue
        same = next((one for one in starts if are_same(labels, one.labels)), None)
        if same is not None and same.stability >= STEADY:
            continue
        start = Start(labels, cut_share(graph, labels), 1.0, labels[:, None], name)
        if starts and score(start) < max(map(score, starts)):
            continue  # it could not be chosen, however stable it is
        start = _examined(start, method, others, random_state)
        if same is None or start.stability > same.stability:
            starts = [one for one in starts if one is not same] + [start]
    best = max(starts, key=score)
    rivals = {one.method: (one.cut, one.stability) for one in starts if one is not best}
    best = replace(best, rivals=rivals)
    if classes is None:
        return best
    return replace(best, labels=classes.corrected(best.labels, graph, n_clusters))


def _examined(start: Start, method: Method, parts: list[Part], random_state: int) -> Start:
    """The start with its evidence from parts of the data."""
    n_clusters = int(start.labels.max()) + 1
    found = np.full((len(start.labels), len(parts)), -1, np.int32)
    for k, part in enumerate(parts):
        again = method(part, n_clusters, random_state)
        if again is not None:
            found[part.rows, k] = again
    return replace(start, stability=stability(start.labels, found), parts=found)


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
    """Adjusted mutual information: 1 for the same clusters, about 0 for unrelated ones.

    As scikit-learn's, whose checks of labels take most of its time.
    """
    from sklearn.metrics.cluster import expected_mutual_information

    if are_same(labels, others):
        return 1.0

    def entropy(count: Ints) -> float:
        share = count[count > 0] / len(labels)
        return float(-(share * np.log(share)).sum())

    table = pair_counts(labels, others)
    table = table[table.any(1)][:, table.any(0)]
    both = entropy(table.sum(1)) + entropy(table.sum(0))
    expected = expected_mutual_information(table, len(labels))
    return float((both - entropy(table) - expected) / (both / 2 - expected))


def are_same(labels: Ints, others: Ints) -> bool:
    """Whether labels (n,) are of the same clusters, by whatever names."""
    table = pair_counts(labels, others) > 0
    return bool(table.sum() == table.any(0).sum() == table.any(1).sum())


def matched(labels: Ints, others: Ints) -> Ints:
    """`labels`, (n,), renamed so that as many points as possible have the label in `others`."""
    from scipy.optimize import linear_sum_assignment

    size = int(max(labels.max(), others.max())) + 1
    table = pair_counts(labels, others, (size, size))
    rows, columns = linear_sum_assignment(table, maximize=True)
    names = np.empty(size, np.int64)
    names[rows] = columns
    return np.asarray(names[labels])


# --- methods: (a part, n_clusters, seed) -> labels, or None if it cannot --------------------------

Method = Callable[..., "Ints | None"]


def _graph(part: Part, n_neighbors: int) -> scipy.sparse.csr_matrix:
    return neighbour_graph(part.points, n_neighbors, known=part.neighbours)[0]


def _slow_modes(part: Part, n_neighbors: int, seed: int, joined: int) -> Floats:
    """As many as may be asked for, of a graph of at most `joined` components."""
    graph = bridged(part.points, part.once(_graph, n_neighbors), joined, n_neighbors)
    return slow_modes(graph, part.most, part.points.shape[1] <= FLAT, seed)[1]


def _n_components(part: Part, n_neighbors: int) -> int:
    from scipy.sparse.csgraph import connected_components

    return int(connected_components(part.once(_graph, n_neighbors), directed=False)[0])


def _modes(part: Part, n_clusters: int, seed: int, n_neighbors: int = NEIGHBOURS) -> Ints | None:
    joined = min(part.once(_n_components, n_neighbors), n_clusters)
    return pivoted_clusters(part.once(_slow_modes, n_neighbors, seed, joined)[:, :n_clusters])


def _merged(part: Part) -> Ints:
    return merged(spanning_tree(part.points, part.neighbours), GINI)


def _tree(part: Part, n_clusters: int, seed: int) -> Ints | None:
    with ONE_AT_A_TIME:
        return cut(part.once(_merged), n_clusters)


def _mixture(part: Part, n_clusters: int, seed: int) -> Ints | None:
    from sklearn.mixture import GaussianMixture

    x = part.points
    if len(x) < POINTS_EACH * n_clusters * x.shape[1]:
        return None
    mixture = GaussianMixture(n_clusters, reg_covar=1e-4, random_state=seed)
    with ONE_AT_A_TIME, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of convergence: it need not be the best mixture
        return np.asarray(mixture.fit_predict(x))


def _means(part: Part, n_clusters: int, seed: int) -> Ints | None:
    from sklearn.cluster import KMeans

    with ONE_AT_A_TIME, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of fewer distinct points than clusters
        return np.asarray(KMeans(n_clusters, n_init=3, random_state=seed).fit_predict(part.points))


METHODS: dict[str, Method] = {
    "slow modes": _modes,
    "slow modes, fewer neighbours": partial(_modes, n_neighbors=FEW),
    "tree": _tree,
    "Gaussian mixture": _mixture,
    "k-means": _means,
}
