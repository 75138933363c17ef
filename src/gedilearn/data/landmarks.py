"""A part of very many points stands for all: nodes of the walks' graph, and who is nearest to whom.

Searching neighbours and walking grow faster than the number of points, and what they tell does not:
beyond some size, more points only show the same clusters more densely. So the graph has a random
part of the points as its nodes; every other point starts its walks at the node nearest to it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from gedilearn.data.arrays import evenly_spaced, rows_at_once
from gedilearn.data.metric import own_stream
from gedilearn.data.neighbours import LOW_DIMENSION
from gedilearn.data.walks import WalkTables, walk_tables
from gedilearn.ranks import by_shares
from gedilearn.threads import ONE_AT_A_TIME

Floats = npt.NDArray[Any]
Ints = npt.NDArray[Any]

# Of more points than these, or than so many a cluster, the graph has this many as nodes.
MOST_NODES, NODES_EACH = 50_000, 100
# Largest number of pairs of which all distances are taken to find the nearest landmarks.
ALL_PAIRS = 500_000_000
# Beyond, landmarks lie in cells, and a point looks at those of so many cells around its own.
CELLS = 8


def n_nodes(n: int, n_clusters: int) -> int:
    """How many of n points are nodes of the walks' graph."""
    return min(n, max(MOST_NODES, NODES_EACH * n_clusters))


def landmark_tables(
    x: Floats, n_clusters: int, *, n_neighbors: int, random_state: int = 0, shared: bool = False
) -> tuple[WalkTables, Floats]:
    """Walks from all points x (n, d) on a graph of as many as `n_nodes` says, and the nodes.

    Ranks that all do this at the same time may have the points `shared` out among them.
    """
    most = n_nodes(len(x), n_clusters)
    options: dict[str, int] = {"n_neighbors": n_neighbors, "random_state": random_state}
    if most == len(x):
        x = np.ascontiguousarray(x)
        return walk_tables(x, n_clusters, **options), x
    chosen = np.sort(own_stream(random_state).choice(len(x), most, replace=False))
    nodes = np.asarray(x[chosen], np.float64)
    tables = walk_tables(nodes, n_clusters, **options)
    home = nearest_of(nodes, x, shared)
    home[chosen] = np.arange(most)
    at = torch.from_numpy(home)
    place = torch.from_numpy(chosen)
    return replace(tables, radius=tables.radius[at], home=at, place=place), nodes


def nearest_of(landmarks: Floats, x: Floats, shared: bool = False) -> Ints:
    """The nearest landmark of each point.  (m, d), (n, d) -> (n,).

    Of many points in many columns it may be one that is nearly as near. Ranks that all ask the same
    at the same time may have the points `shared` out among them.
    """
    if len(x) * len(landmarks) <= ALL_PAIRS:
        return _of_all(landmarks, x)
    find = _by_cells(landmarks, x.dtype) if x.shape[1] > LOW_DIMENSION else _by_tree(landmarks)

    def of_rows(rows: slice) -> torch.Tensor:
        return torch.from_numpy(find(np.ascontiguousarray(x[rows])))

    found = torch.zeros(len(x), dtype=torch.int64)
    return by_shares(found, rows_at_once(x), of_rows, shared).numpy()


def _of_all(landmarks: Floats, x: Floats) -> Ints:
    from sklearn.metrics import pairwise_distances_argmin

    with ONE_AT_A_TIME:
        return np.asarray(pairwise_distances_argmin(x, landmarks))


def _by_tree(landmarks: Floats) -> Callable[[Floats], Ints]:
    from scipy.spatial import KDTree

    tree = KDTree(landmarks)

    def find(x: Floats) -> Ints:
        return np.asarray(tree.query(x)[1])

    return find


def _by_cells(landmarks: Floats, dtype: np.dtype[Any]) -> Callable[[Floats], Ints]:
    """By cells around some of the landmarks: each holds about as many as there are cells."""
    from sklearn.metrics import pairwise_distances

    landmarks = np.ascontiguousarray(landmarks, dtype)
    centres = landmarks[evenly_spaced(len(landmarks), math.isqrt(len(landmarks)))]
    cell = _of_all(centres, landmarks)
    members = np.split(np.argsort(cell, kind="stable"), np.cumsum(np.bincount(cell))[:-1])
    around = np.argsort(pairwise_distances(centres), axis=1)[:, :CELLS]
    candidates = [np.concatenate([members[k] for k in near]) for near in around]

    def find(x: Floats) -> Ints:
        found = np.empty(len(x), np.int64)
        cell = _of_all(centres, x)
        for name in np.unique(cell):
            own = np.flatnonzero(cell == name)
            there = candidates[name]
            found[own] = there[_of_all(landmarks[there], x[own])]
        return found

    return find
