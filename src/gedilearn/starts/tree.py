"""A start from a tree: points joined along a minimum spanning tree, sizes kept from diverging.

After Genie (Gagolewski, Bartoszuk and Cena, Information Sciences 363, 2016): the shortest edge of
the tree joins two clusters, as in single linkage; but while the sizes of the clusters are more
unequal than a bound on their Gini index allows, the shortest edge at a smallest cluster does.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import numpy.typing as npt

from gedilearn.graph.neighbours import SHARED, Neighbours, find_neighbours

Floats = npt.NDArray[Any]
Ints = npt.NDArray[Any]

GINI = 0.3  # the bound that its authors recommend


def spanning_tree(x: Floats, known: Neighbours | None = None) -> Ints:
    """Edges (n - 1, 2) of a minimum spanning tree of x (n, d), the shortest first.

    That of the nearest neighbours, where it holds together; groups that are apart are then joined,
    each by the shortest edge to another one, until there is one. `known` neighbours are not sought
    again.
    """
    from scipy.sparse import coo_matrix, csr_matrix
    from scipy.sparse.csgraph import connected_components, minimum_spanning_tree

    n = len(x)
    distance, index = (part[:, :SHARED] for part in known or find_neighbours(x, SHARED))
    k = index.shape[1]
    # An edge of length 0 would be none.
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
        bridges, across = _bridges(x, group)
        edges.append(bridges)
        lengths.append(across)
    order = np.argsort(np.concatenate(lengths), kind="stable")
    return np.asarray(np.concatenate(edges)[order])


def _bridges(x: Floats, group: Ints) -> tuple[Ints, Floats]:
    """The shortest edge from each group to the others, none that would close a ring."""
    from scipy.sparse import coo_matrix, csr_matrix
    from scipy.sparse.csgraph import minimum_spanning_tree
    from sklearn.neighbors import NearestNeighbors

    best: dict[tuple[int, int], tuple[float, int, int]] = {}
    names, sizes = np.unique(group, return_counts=True)
    for name in names[np.argsort(sizes)][:-1]:  # the largest is reached from the others
        here, there = np.flatnonzero(group == name), np.flatnonzero(group != name)
        search = NearestNeighbors(n_neighbors=1, n_jobs=1).fit(x[there])
        distance, found = (one[:, 0] for one in search.kneighbors(x[here]))
        k = int(distance.argmin())
        other = there[found[k]]
        pair = (min(name, group[other]), max(name, group[other]))
        best[pair] = min(best.get(pair, (np.inf, 0, 0)), (distance[k], here[k], other))
    pairs = np.array(list(best))
    length = np.array([max(one[0], np.finfo(np.float64).tiny) for one in best.values()])
    between = csr_matrix((length, (pairs[:, 0], pairs[:, 1])), shape=(len(names), len(names)))
    kept = coo_matrix(minimum_spanning_tree(between))
    chosen = [best[pair] for pair in zip(kept.row.tolist(), kept.col.tolist(), strict=True)]
    return np.array([one[1:] for one in chosen]), np.array([one[0] for one in chosen])


def merged(edges: Ints, gini: float) -> Ints:
    """Edges (n - 1, 2), the shortest first, in the order in which they join points and clusters."""
    n, order = len(edges) + 1, []
    parent, size = list(range(n)), [1] * n
    ends = edges.tolist()
    free = [True] * len(ends)
    sizes = Counter({1: n})
    spread = 0  # the sum of |size - size'| over all pairs of clusters

    def root(point: int) -> int:
        while parent[point] != point:
            parent[point] = parent[parent[point]]
            point = parent[point]
        return point

    def away(one: int) -> int:
        return sum(count * abs(one - other) for other, count in sizes.items())

    def at_a_smallest(edge: int) -> bool:
        return free[edge] and least in (size[root(ends[edge][0])], size[root(ends[edge][1])])

    shortest = searched = 0
    least = 1
    for left in range(n, 1, -1):
        while not free[shortest]:
            shortest += 1
        edge = shortest
        if spread > gini * (left - 1) * n:
            if least != min(sizes):  # an edge passed over may be at a smallest cluster now
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
            spread -= away(gone)
        size[one] += size[other]
        parent[other] = one
        spread += away(size[one])
        sizes[size[one]] += 1
    return edges[order]


def cut(edges: Ints, n_clusters: int) -> Ints:
    """The clusters that are left before the last ordered edges (n - 1, 2) join them: (n,)."""
    from scipy.sparse import csr_matrix
    from scipy.sparse.csgraph import connected_components

    n = len(edges) + 1
    start, stop = edges[: n - n_clusters].T
    links = csr_matrix((np.ones(len(start)), (start, stop)), shape=(n, n))
    return np.asarray(connected_components(links, directed=False)[1])
