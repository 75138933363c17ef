"""Clusters from a minimum spanning tree, with a bound on how unequal their sizes become.

After Genie (Gagolewski, Bartoszuk and Cena, Information Sciences 363, 2016). As in single linkage,
the shortest edge of the tree merges two clusters. While the Gini index of the sizes is above a
bound, the shortest edge at a smallest cluster is taken instead.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np

from gedilearn.graph.neighbours import (
    SHARED,
    Floats,
    Ints,
    Neighbours,
    nearest_neighbours,
    shortest_links,
)

GINI = 0.3  # the bound that the authors recommend


def spanning_tree(x: Floats, neighbours: Neighbours | None = None) -> Ints:
    """Edges (n - 1, 2) of a minimum spanning tree of x (n, d), the shortest first.

    It is the tree of the nearest neighbours, if their graph is connected. Otherwise the shortest
    edge from each component to another one is added, until one component is left (Boruvka).
    `neighbours` of an earlier search are used as they are.
    """
    from scipy.sparse import coo_matrix, csr_matrix
    from scipy.sparse.csgraph import connected_components, minimum_spanning_tree

    def graph(start: Ints, stop: Ints, length: Floats) -> Any:
        # A sparse matrix has no edge of length 0.
        length = np.maximum(length, np.finfo(np.float64).tiny)
        return csr_matrix((length, (start, stop)), shape=(n, n))

    n = len(x)
    found = neighbours or nearest_neighbours(x, SHARED)
    distance, index = (part[:, :SHARED] for part in found)
    start = np.repeat(np.arange(n), index.shape[1])
    tree = minimum_spanning_tree(graph(start, index.ravel(), distance.ravel()))
    while tree.nnz < n - 1:
        component = connected_components(tree, directed=False)[1]
        smaller = np.argsort(np.bincount(component))[:-1]  # they reach the largest one too
        links = [link for name in smaller for link in shortest_links(x, component, name, 1)]
        tree = minimum_spanning_tree(tree + graph(*map(np.concatenate, zip(*links, strict=True))))
    edges = coo_matrix(tree)
    order = np.argsort(edges.data, kind="stable")
    return np.asarray(np.c_[edges.row, edges.col][order])


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
