"""The initial clustering: several methods compete, and evidence without labels decides.

No method finds every kind of cluster. Slow modes of the weighted graph find connected groups, at
two scales. A tree finds thin and uneven shapes. A Gaussian mixture and k-means find overlapping
clusters. Two measurements compare candidates without labels. The first is the share of the graph's
weight that they cut: INV counts it for certain predictions and walks of one step. The second is
their agreement with the clusters that the same method finds in subsamples.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from gedilearn.data.arrays import pair_counts
from gedilearn.graph.neighbours import (
    LEAST,
    SHARED,
    Floats,
    Ints,
    Neighbours,
    connect_components,
    knn_graph,
    nearest_neighbours,
    own_stream,
)
from gedilearn.graph.walks import nearest_landmark
from gedilearn.ranks import ONE_AT_A_TIME, fitting
from gedilearn.starts.classes import Classes
from gedilearn.starts.spectral import FLAT, pivoted_clusters, slow_modes
from gedilearn.starts.tree import GINI, cut, merge_order, spanning_tree

if TYPE_CHECKING:
    import scipy.sparse

# Neighbours of the graph that measures all candidates, and of a sparser one for thin shapes.
NEIGHBOURS, FEW = 10, 5
# Of more points than these, or than so many per cluster, a random sample is clustered. Each other
# point has the label of the nearest point of the sample.
MOST_POINTS, MOST_EACH = 5_000, 60
# The number of subsamples, and their share of the points.
SUBSAMPLES, SHARE = 4, 0.8
# Of methods that find the same clusters, the most stable one represents all. Above this stability
# no further method with the same clusters is run on subsamples.
STEADY = 0.99
# The method of a start that is the vote of several networks.
VOTE = "vote"
# A mixture estimates covariances: it needs this many points per cluster and column.
POINTS_EACH = 5
# Scores compare ratios of cuts above `LEAST_CUT`, and the fourth root of 1 - stability. Chosen on
# about 50 sets made for it (docs/how-it-trains.md).
LEAST_CUT, LEAST_DOUBT, WEIGHT = 0.002, 0.02, 0.25


@dataclass(frozen=True)
class Start:
    """An initial clustering of the points, and the evidence for it.

    labels: (n,) in 0..n_clusters-1; corrected by the known classes of some points.
    cut: the share of a cluster's links, by weight, that leave it; the mean over clusters.
    stability: the mean adjusted mutual information with the same method's clusterings of the
        subsamples; 1 is complete agreement.
    subsamples: (n, subsamples) the labels that the method gives the points of each subsample; -1
        for points outside of it.
    method: the name of the method.
    rivals: the cut and stability of each other candidate that could have won.
    """

    labels: Ints
    cut: float
    stability: float
    subsamples: Ints
    method: str
    rivals: dict[str, tuple[float, float]] = field(default_factory=dict)

    @classmethod
    def of_vote(cls, voted: Ints) -> Start:
        """From the labels on which several networks agree, and those of each: (n, 1 + networks).

        The networks take the place of the subsamples.
        """
        labels, each = voted[:, 0].astype(np.int64), voted[:, 1:]
        agreement = stability(labels[:MOST_POINTS], each[:MOST_POINTS])
        return cls(labels, 0.0, agreement, each, VOTE)

    def for_points(self, index: Ints) -> Start:
        """The same for other points; `index` gives each the row whose labels it takes."""
        return replace(self, labels=self.labels[index], subsamples=self.subsamples[index])

    @property
    def score(self) -> float:
        """Higher is better."""
        doubt = 1 + LEAST_DOUBT - self.stability
        return -float(np.log(self.cut + LEAST_CUT) + WEIGHT * np.log(doubt))


@dataclass(frozen=True, eq=False)
class Subsample:
    """Some or all of the points, with a cache of what every number of clusters needs."""

    rows: Ints  # (m,)
    points: Floats  # (m, d)
    neighbours: Neighbours  # within the subsample
    most: int  # the largest number of clusters
    cache: dict[Any, Any] = field(default_factory=dict)

    def cached(self, make: Callable[..., Any], *arguments: Any) -> Any:
        """make(self, *arguments), computed at the first call."""
        key = (make, *arguments)
        if key not in self.cache:
            self.cache[key] = make(self, *arguments)
        return self.cache[key]


def choose_start(
    x: Floats,
    n_clusters: int,
    random_state: int = 0,
    neighbours: Neighbours | None = None,
    classes: Classes | None = None,
    most: int | None = None,
) -> Start:
    """The best initial clustering of distance features x (n, d).

    `neighbours` are those of x, if they were searched before. Known `classes` of some points
    correct the labels. `most` is the largest number of clusters that was compared, if several were.
    """
    subsamples, nearest = subsamples_of(x, most or n_clusters, random_state, neighbours)
    if nearest is None:
        return best_start(subsamples, n_clusters, random_state, classes)
    classes = classes and classes.for_nodes(nearest, len(subsamples[0].points))
    start = best_start(subsamples, n_clusters, random_state, classes)
    return start.for_points(nearest)


def subsamples_of(
    x: Floats, most: int, random_state: int, neighbours: Neighbours | None = None
) -> tuple[list[Subsample], Ints | None]:
    """Points with distance features x (n, d), and then random subsamples of them.

    They serve for up to `most` clusters. Of many points a sample is taken; the second value is
    then the nearest point of the sample to each point, (n,).
    """
    size, nearest = max(MOST_POINTS, MOST_EACH * most), None
    if len(x) > size:
        chosen = np.sort(own_stream(random_state).choice(len(x), size, replace=False))
        sample = np.asarray(x[chosen], np.float64)
        nearest, neighbours, x = nearest_landmark(sample, x), None, sample
    rng = own_stream(random_state)
    size = max(round(SHARE * len(x)), min(most + 1, len(x)))
    drawn = [np.sort(rng.choice(len(x), size, replace=False)) for _ in range(SUBSAMPLES)]
    whole = Subsample(np.arange(len(x)), x, neighbours or nearest_neighbours(x, SHARED), most)
    parts = [Subsample(k, x[k], nearest_neighbours(x[k], SHARED), most) for k in drawn]
    return [whole, *parts], nearest


def best_start(
    subsamples: list[Subsample],
    n_clusters: int,
    random_state: int,
    classes: Classes | None = None,
) -> Start:
    """The best initial clustering of the first subsample, which holds all points."""
    whole, *others = subsamples
    graph, starts = whole.cached(_graph, NEIGHBOURS), list[Start]()

    def score(start: Start) -> float:
        return start.score + (classes.support(start.labels, n_clusters) if classes else 0.0)

    for name, method in METHODS.items():
        labels = method(whole, n_clusters, random_state)
        if labels is None:
            continue
        same = next((one for one in starts if same_partition(labels, one.labels)), None)
        if same is not None and same.stability >= STEADY:
            continue
        start = Start(labels, cut_share(graph, labels), 1.0, labels[:, None], name)
        if starts and score(start) < max(map(score, starts)):
            continue  # it cannot win, however stable it is
        start = _with_stability(start, method, others, random_state)
        if same is None or start.stability > same.stability:
            starts = [one for one in starts if one is not same] + [start]
    best = max(starts, key=score)
    rivals = {one.method: (one.cut, one.stability) for one in starts if one is not best}
    best = replace(best, rivals=rivals)
    if classes is None:
        return best
    return replace(best, labels=classes.corrected(best.labels, graph, n_clusters))


def _with_stability(
    start: Start, method: Method, subsamples: list[Subsample], random_state: int
) -> Start:
    n_clusters = int(start.labels.max()) + 1
    found = np.full((len(start.labels), len(subsamples)), -1, np.int32)
    for k, subsample in enumerate(subsamples):
        labels = method(subsample, n_clusters, random_state)
        if labels is not None:
            found[subsample.rows, k] = labels
    return replace(start, stability=stability(start.labels, found), subsamples=found)


# --- measures of a clustering --------------------------------------------------------------------


def stability(labels: Ints, subsamples: Ints) -> float:
    """The mean adjusted mutual information of labels (n,) with those of subsamples (n, subsamples).

    0 without subsamples.
    """
    inside = [(labels[own >= 0], own[own >= 0]) for own in subsamples.T if (own >= 0).any()]
    return float(np.mean([adjusted_mutual_info(*both) for both in inside])) if inside else 0.0


def recurrence(labels: Ints, subsamples: Ints) -> Floats:
    """The share of subsamples (n, subsamples) in which each point keeps its label (n,): (n,).

    Only those that hold the point count; 1 for a point that is in none.
    """
    again, drawn = np.zeros(len(labels)), (subsamples >= 0).sum(axis=1)
    for own in subsamples.T:
        inside = own >= 0
        if inside.any():
            there, here = own[inside], labels[inside]
            n_labels = int(max(there.max(), here.max())) + 1
            again[inside] += best_assignment(there, here, n_labels)[there] == here
    return np.where(drawn > 0, again / np.maximum(drawn, 1), 1.0)


def cut_share(graph: scipy.sparse.csr_matrix, labels: Ints) -> float:
    """The share of a cluster's links, by weight, that leave it: the mean over the clusters."""
    return float(np.nanmean(cut_shares(graph, labels)))


def cut_shares(graph: scipy.sparse.csr_matrix, labels: Ints, n_clusters: int = 0) -> Floats:
    """The same for each cluster, (clusters,); nan for clusters without points."""
    links = graph.tocoo()
    start, stop = labels[links.row], labels[links.col]
    total = np.bincount(start, links.data, minlength=n_clusters)
    leaving = np.bincount(start, links.data * (start != stop), minlength=n_clusters)
    return np.where(total > 0, leaving / np.maximum(total, LEAST), np.nan)


def adjusted_mutual_info(labels: Ints, others: Ints) -> float:
    """1 for two equal partitions, about 0 for unrelated ones.  (n,), (n,), numbered from 0.

    Equal to scikit-learn's, which spends most of its time on checks of labels.
    """
    from sklearn.metrics.cluster import expected_mutual_information

    if same_partition(labels, others):
        return 1.0

    def entropy(count: Ints) -> float:
        share = count[count > 0] / len(labels)
        return float(-(share * np.log(share)).sum())

    table = pair_counts(labels, others)
    table = table[table.any(1)][:, table.any(0)]
    both = entropy(table.sum(1)) + entropy(table.sum(0))
    expected = expected_mutual_information(table, len(labels))
    return float((both - entropy(table) - expected) / (both / 2 - expected))


def same_partition(labels: Ints, others: Ints) -> bool:
    """Whether labels (n,) give the same clusters, up to their numbers."""
    table = pair_counts(labels, others) > 0
    return bool(table.sum() == table.any(0).sum() == table.any(1).sum())


def best_assignment(labels: Ints, others: Ints, n_labels: int) -> Ints:
    """For each of `n_labels` labels its own one of `others`, for most points in common.

    Labels beyond the number of others get numbers beyond the last of them.
    """
    from scipy.optimize import linear_sum_assignment

    shape = (n_labels, max(n_labels, int(others.max()) + 1))
    counts = pair_counts(labels, others, shape)
    return np.asarray(linear_sum_assignment(counts, maximize=True)[1])


# --- methods: (subsample, n_clusters, seed) -> labels, or None where it does not apply ------------

Method = Callable[..., "Ints | None"]


def _graph(subsample: Subsample, n_neighbors: int) -> scipy.sparse.csr_matrix:
    return knn_graph(subsample.points, n_neighbors, subsample.neighbours)[0]


def _slow_modes(subsample: Subsample, n_neighbors: int, seed: int, joined: int) -> Floats:
    """The modes for all numbers of clusters, of the graph with at most `joined` components."""
    x, graph = subsample.points, subsample.cached(_graph, n_neighbors)
    graph = connect_components(x, graph, joined, n_neighbors)
    return slow_modes(graph, subsample.most, x.shape[1] <= FLAT, seed)[1]


def _modes(
    subsample: Subsample, n_clusters: int, seed: int, n_neighbors: int = NEIGHBOURS
) -> Ints | None:
    from scipy.sparse.csgraph import connected_components

    graph = subsample.cached(_graph, n_neighbors)
    joined = min(connected_components(graph, directed=False)[0], n_clusters)
    modes = subsample.cached(_slow_modes, n_neighbors, seed, joined)
    return pivoted_clusters(modes[:, :n_clusters])


def _merge_order(subsample: Subsample) -> Ints:
    return merge_order(spanning_tree(subsample.points, subsample.neighbours), GINI)


def _tree(subsample: Subsample, n_clusters: int, seed: int) -> Ints | None:
    with ONE_AT_A_TIME:
        return cut(subsample.cached(_merge_order), n_clusters)


def _mixture(subsample: Subsample, n_clusters: int, seed: int) -> Ints | None:
    from sklearn.mixture import GaussianMixture

    x = subsample.points
    if len(x) < POINTS_EACH * n_clusters * x.shape[1]:
        return None
    with fitting():
        mixture = GaussianMixture(n_clusters, reg_covar=1e-4, random_state=seed)
        return np.asarray(mixture.fit_predict(x))


def _means(subsample: Subsample, n_clusters: int, seed: int) -> Ints | None:
    from gedilearn.methods.method import k_means

    return np.asarray(k_means(subsample.points, n_clusters, 3, seed).labels_)


METHODS: dict[str, Method] = {
    "slow modes": _modes,
    "slow modes, fewer neighbours": partial(_modes, n_neighbors=FEW),
    "tree": _tree,
    "Gaussian mixture": _mixture,
    "k-means": _means,
}
