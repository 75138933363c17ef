"""Spanning trees against all pairwise distances, merging against a brute-force Genie."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.sparse.csgraph import connected_components, minimum_spanning_tree
from scipy.spatial.distance import cdist
from sklearn.metrics import adjusted_rand_score

from gedilearn.starts.tree import GINI, cut, merge_order, spanning_tree

Array = NDArray[np.float64]


def blobs(sizes: list[int], distance: float, seed: int = 0) -> tuple[Array, NDArray[np.int64]]:
    label = np.repeat(np.arange(len(sizes)), sizes)
    x = np.random.default_rng(seed).normal(size=(len(label), 2))
    return x + np.c_[distance * label, np.zeros(len(label))], label


def is_a_tree(edges: NDArray[np.int64], n: int) -> bool:
    links = np.zeros((n, n))
    links[edges[:, 0], edges[:, 1]] = 1
    return len(edges) == n - 1 and connected_components(links, directed=False)[0] == 1


def length(x: Array, edges: NDArray[np.int64]) -> float:
    return float(np.linalg.norm(x[edges[:, 0]] - x[edges[:, 1]], axis=1).sum())


def shortest_length(x: Array) -> float:
    """Of all spanning trees, from all pairwise distances; a distance of 0 would be no edge."""
    return float(minimum_spanning_tree(cdist(x, x) + 1.0).sum()) - (len(x) - 1)


SETS = {
    "one cloud": blobs([200], 0.0)[0],
    "groups farther apart than their neighbours reach": blobs([60, 20, 40, 5, 3], 100.0)[0],
    "copies": np.repeat(np.random.default_rng(1).normal(size=(20, 3)), 25, axis=0),
    "an integer grid": np.random.default_rng(2).integers(0, 5, (300, 2)).astype(float),
    "one column": np.random.default_rng(3).normal(size=(100, 1)),
    "two points": np.array([[0.0, 0.0], [1.0, 1.0]]),
}


@pytest.mark.parametrize("name", SETS)
def test_no_spanning_tree_is_shorter(name: str) -> None:
    x = SETS[name]
    edges = spanning_tree(x)
    assert is_a_tree(edges, len(x))
    assert length(x, edges) == pytest.approx(shortest_length(x), abs=1e-8)
    lengths = np.linalg.norm(x[edges[:, 0]] - x[edges[:, 1]], axis=1)
    assert (np.diff(lengths) >= -1e-12).all()


def gini(sizes: list[int]) -> float:
    """Of sizes of clusters: the sum over pairs of their differences, 1 where it is largest."""
    pairs = sum(abs(a - b) for i, a in enumerate(sizes) for b in sizes[:i])
    return pairs / ((len(sizes) - 1) * sum(sizes)) if len(sizes) > 1 else 0.0


def brute_force_genie(x: Array, n_clusters: int, bound: float) -> NDArray[np.int64]:
    """All clusters and all distances between them, at every step."""
    distance = cdist(x, x)
    clusters = [[k] for k in range(len(x))]
    while len(clusters) > n_clusters:
        sizes = [len(own) for own in clusters]
        least = min(sizes) if gini(sizes) > bound else None
        best, pair = np.inf, (0, 0)
        for i, one in enumerate(clusters):
            for j, other in enumerate(clusters[:i]):
                near = distance[np.ix_(one, other)].min()
                allowed = least is None or least in (len(one), len(other))
                if allowed and near < best:
                    best, pair = near, (i, j)
        i, j = pair
        clusters[j] += clusters.pop(i)
    labels = np.empty(len(x), np.int64)
    for k, own in enumerate(clusters):
        labels[own] = k
    return labels


@pytest.mark.parametrize("bound", [0.0, 0.3, 0.7, 1.0])
@pytest.mark.parametrize("seed", [0, 1])
def test_merging_along_the_tree_is_what_genie_does_with_all_distances(
    bound: float, seed: int
) -> None:
    x = blobs([15, 4, 11], 2.5, seed)[0]
    for n_clusters in (2, 3, 5):
        ours = cut(merge_order(spanning_tree(x), bound), n_clusters)
        assert adjusted_rand_score(ours, brute_force_genie(x, n_clusters, bound)) == 1.0


def test_labels_are_numbered_from_0_and_as_many_as_asked_for() -> None:
    x = blobs([10, 10], 3.0)[0]
    for n_clusters in (1, 2, 7, 20):
        labels = cut(merge_order(spanning_tree(x), GINI), n_clusters)
        assert sorted(set(labels)) == list(range(n_clusters))
    edges = np.array([[0, 1], [1, 2]])
    assert cut(merge_order(edges, GINI), 2).tolist() == [0, 0, 1]
