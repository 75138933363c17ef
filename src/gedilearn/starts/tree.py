"""Clusters from a minimum spanning tree, with a bound on how unequal their sizes become.

After Genie (Gagolewski, Bartoszuk and Cena, Information Sciences 363, 2016). As in single linkage,
the shortest edge of the tree merges two clusters. While the Gini index of the sizes is above a
bound, the shortest edge at a smallest cluster is taken instead.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import numpy.typing as npt

from gedilearn.graph.neighbours import SHARED, Neighbours, nearest_neighbours, shortest_links

Floats = npt.NDArray[Any]
Ints = npt.NDArray[Any]

GINI = 0.3  # the bound that the authors recommend


def spanning_tree(x: Floats, neighbours: Neighbours | None = None) -> Ints:
    """Edges (n - 1, 2) of a minimum spanning tree of x (n, d), the shortest first.

    It is the tree of the nearest neighbours, if their graph is connected. Otherwise the shortest
    edge from each component to another one is added, until one component is left. `neighbours` of
    an earlier search are used as they are.
    """
    from scipy.sparse import coo_matrix, csr_matrix
    from scipy.sparse.csgraph import connected_components, minimum_spanning_tree

    n = len(x)
    found = neighbours or nearest_neighbours(x, SHARED)
    distance, index = (part[:, :SHARED] for part in found)
    k = index.shape[1]
    # A sparse matrix has no edge of length 0.
    length = np.maximum(distance, np.finfo(np.float64).tiny).ravel()
    start = np.repeat(np.arange(n), k)
    forest = coo_matrix(
        minimum_spanning_tree(csr_matrix((length, (start, index.ravel())), shape=(n, n)))
    )
    edges, lengths = [np.c_[forest.row, forest.col]], [forest.data]
    while sum(map(len, edges)) < n - 1:
        joined = np.concatenate(edges)
        links = csr_matrix((np.ones(len(joined)), (joined[:, 0], joined[:, 1])), shape=(n, n))
        _, group = connected_components(links, directed=False)
        added, across = _edges_between(x, group)
        edges.append(added)
        lengths.append(across)
    order = np.argsort(np.concatenate(lengths), kind="stable")
    return np.asarray(np.concatenate(edges)[order])


def _edges_between(x: Floats, group: Ints) -> tuple[Ints, Floats]:
    """The shortest edge from each group to the others, without edges that would close a ring."""
    from scipy.sparse import coo_matrix, csr_matrix
    from scipy.sparse.csgraph import minimum_spanning_tree

    best: dict[tuple[int, int], tuple[float, int, int]] = {}
    names, sizes = np.unique(group, return_counts=True)
    for name in names[np.argsort(sizes)][:-1]:  # the others reach the largest
        ((here, there, length),) = shortest_links(x, group, name, 1)
        pair = (min(name, group[there[0]]), max(name, group[there[0]]))
        edge = (length[0], here[0], there[0])
        best[pair] = min(best.get(pair, edge), edge)
    pairs = np.array(list(best))
    tiny = np.finfo(np.float64).tiny
    least = np.maximum([edge[0] for edge in best.values()], tiny)
    between = csr_matrix((least, (pairs[:, 0], pairs[:, 1])), shape=(len(names), len(names)))
    kept = coo_matrix(minimum_spanning_tree(between))
    chosen = [best[pair] for pair in zip(kept.row.tolist(), kept.col.tolist(), strict=True)]
    return np.array([edge[1:] for edge in chosen]), np.array([edge[0] for edge in chosen])


def merge_order(edges: Ints, gini: float) -> Ints:
    """Edges (n - 1, 2), the shortest first, in the order in which they merge clusters."""
    n, order = len(edges) + 1, []
    parent, size = list(range(n)), [1] * n
    ends = edges.tolist()
    free = [True] * len(ends)
    sizes = Counter({1: n})
    inequality = 0  # the sum of |size - size'| over all pairs of clusters

    def root(point: int) -> int:
        while parent[point] != point:
            parent[point] = parent[parent[point]]
            point = parent[point]
        return point

    def differences(size: int) -> int:
        return sum(count * abs(size - other) for other, count in sizes.items())

    def at_a_smallest(edge: int) -> bool:
        return free[edge] and least in (size[root(ends[edge][0])], size[root(ends[edge][1])])

    shortest = searched = 0
    least = 1
    for left in range(n, 1, -1):
        while not free[shortest]:
            shortest += 1
        edge = shortest
        if inequality > gini * (left - 1) * n:
            if least != min(sizes):  # an edge that was skipped may be at a smallest cluster now
                least, searched = min(sizes), 0
            edge = max(searched, shortest)
            while not at_a_smallest(edge):
                edge += 1
            searched = edge
        free[edge] = False
        order.append(edge)
        one, other = sorted((root(end) for end in ends[edge]), key=lambda point: -size[point])
        for gone in (size[one], size[other]):
            sizes[gone] -= 1
            if not sizes[gone]:
                del sizes[gone]
            inequality -= differences(gone)
        size[one] += size[other]
        parent[other] = one
        inequality += differences(size[one])
        sizes[size[one]] += 1
    return edges[order]


def cut(edges: Ints, n_clusters: int) -> Ints:
    """The `n_clusters` clusters (n,) that the last of the ordered edges (n - 1, 2) would merge."""
    from scipy.sparse import csr_matrix
    from scipy.sparse.csgraph import connected_components

    n = len(edges) + 1
    start, stop = edges[: n - n_clusters].T
    links = csr_matrix((np.ones(len(start)), (start, stop)), shape=(n, n))
    return np.asarray(connected_components(links, directed=False)[1])
