"""Random walks on the k-nearest-neighbour graph of the data, stored as tables of end points.

The views x' of a point x can be the ends of t-step walks from x. Long walks forget everything but
the few slowest modes of the graph, which are its clusters; short walks see local detail. Training
needs walks of many lengths from any point at any moment, so they are sampled once and looked up
later: a table of ``width`` end points a node for each length 1, 2, 4, 8, ... Memory is
``levels * n * width`` integers, and fewer columns are kept of many nodes; no n x n matrix is ever
formed.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch

from gedilearn.data.arrays import evenly_spaced, rows_at_once
from gedilearn.graph.neighbours import (
    SHARED,
    Floats,
    Ints,
    Neighbours,
    as_points,
    connected_graph,
    lazy_walk_graph,
    nearest_neighbours,
    own_stream,
)
from gedilearn.ranks import ONE_AT_A_TIME, by_shares

if TYPE_CHECKING:
    import scipy.sparse


# Walks up to 2**5 steps are walked step by step, each on its own; only longer ones are spliced
# from shorter ones. Splicing one-step tables would be cheaper, but the same few sampled steps
# would then be walked again and again: on thin shapes their chance preferences add up to a drift.
_WALKED_LEVELS = 6
_MAX_LOOKUPS = 1 << 26  # steps of all walks of a level; of many nodes fewer levels are walked

# Ends of single steps that are looked up for every node; of many nodes fewer, this many in all.
_STEPS = 128
_MAX_STEPS = 3_200_000

# Of many nodes fewer walks are sampled: this many a level, but 32 a node, for the traces' sake.
_MAX_WALKS = 4_000_000
_LEAST_SAMPLED = 32

# And of those, fewer are kept: the tables hold at most this many bytes, or 8 end points a node and
# level where that is more. A view needs one end point, and each of many nodes is drawn less often.
_MAX_BYTES = 256_000_000
_LEAST_KEPT = 8


@dataclass(frozen=True, eq=False)
class WalkTables:
    """Sampled end points of random walks from every node.

    ends: (levels, n, width) int32, ``ends[j, i]`` are end points of 2**j-step walks from node i.
    radius: (n,) float32, distance from point i to its k-th neighbour (0 among duplicates), for the
        k asked for: the scale of detail around i, which joining far groups does not change.
    n_neighbors: the k finally used.
    n_components: connected components of the graph; a walk never leaves its own.
    traces: for each level the trace of the walk matrix P**(2**j), the expected number of returns
        summed over the nodes. It counts the modes that a walk of that length still tells apart.
        Exact at level 0, estimated above (see `return_trace`).
    graph: what the walks are on, every node linked to itself too.
    node, place: (n,), (nodes,): where not every point is a node (`data.landmarks`), the node of
        each point and the point of each node; walks begin and end at points.
    """

    ends: torch.Tensor
    radius: torch.Tensor
    n_neighbors: int
    n_components: int
    traces: tuple[float, ...]
    graph: scipy.sparse.csr_matrix
    node: torch.Tensor | None = None
    place: torch.Tensor | None = None

    @property
    def longest(self) -> int:
        """Number of steps of the longest tabled walk."""
        return 1 << (self.ends.shape[0] - 1)

    def to(self, device: torch.device) -> WalkTables:
        """The same tables on another device."""
        names = ("ends", "radius", "node", "place")
        there = {name: getattr(self, name) for name in names}
        return replace(self, **{name: t.to(device) for name, t in there.items() if t is not None})


def walk_tables(
    x: Floats,
    n_clusters: int,
    *,
    n_neighbors: int = 10,
    width: int = 64,
    max_levels: int = 22,
    random_state: int = 0,
    neighbours: Neighbours | None = None,
) -> WalkTables:
    """Tables of random walks on the neighbour graph of the standardised data ``x`` (n, d).

    The graph is made connected enough first: at most ``n_clusters`` components. Then walks are
    doubled in length until the trace of the walk matrix is at most ``n_clusters + 0.5``, that is
    until hardly more modes than clusters survive, or until there are ``max_levels`` lengths. The
    trace falls towards the number of components, which is at most ``n_clusters``, so given enough
    levels the first rule always ends it.

    Where clusters touch, that may be too long: fewer modes than clusters survive, and training
    would never leave the uniform prediction. The longest length at which `surviving_modes` counts
    ``n_clusters`` is kept then.

    With many points the tables are narrower than ``width`` (see `_MAX_BYTES`). Neighbours that are
    `known` are not sought again.
    """
    x = as_points(x)
    graph, radius, k, n_components = connected_graph(x, n_clusters, n_neighbors, neighbours)
    graph = lazy_walk_graph(graph, k)

    width = min(width, max(_LEAST_SAMPLED, _MAX_WALKS // len(x)))
    kept = min(width, max(_LEAST_KEPT, _MAX_BYTES // (4 * max_levels * len(x))))
    walks = _longer_and_longer(graph, width, random_state)
    last = next(walks)
    ends = [last[:, :kept].copy()]
    traces = [float((graph.diagonal() / np.asarray(graph.sum(axis=1)).ravel()).sum())]

    def lengthen() -> None:
        nonlocal last
        traces.append(return_trace(last))
        last = next(walks)
        ends.append(last[:, :kept].copy())

    while traces[-1] > n_clusters + 0.5 and len(ends) < max_levels:
        lengthen()
    levels = len(ends)
    if n_components < n_clusters:
        lengthen()
        lengthen()
        while levels > 1 and surviving_modes(traces[levels - 1 : levels + 2]) < n_clusters - 0.25:
            levels -= 1
    return WalkTables(
        ends=torch.from_numpy(np.stack(ends[:levels])),
        radius=torch.from_numpy(radius.astype(np.float32)),
        n_neighbors=k,
        n_components=n_components,
        traces=tuple(traces[:levels]),
        graph=graph,
    )


def redrawn(tables: WalkTables, random_state: int) -> WalkTables:
    """Other walks of the same lengths on the same graph."""
    levels, _, width = tables.ends.shape
    walks = _longer_and_longer(tables.graph, max(width, _LEAST_SAMPLED), random_state)
    ends = np.stack([ends[:, :width] for ends in itertools.islice(walks, levels)])
    return replace(tables, ends=torch.from_numpy(ends).to(tables.ends.device))


def _longer_and_longer(
    graph: scipy.sparse.csr_matrix, width: int, random_state: int
) -> Iterator[Ints]:
    """Ends (n, width) of walks of 1, 2, 4, ... steps."""
    rng = np.random.default_rng(random_state)
    last = _walk(graph, 1, width, rng)
    for level in itertools.count(1):
        yield last
        walked = level < _WALKED_LEVELS and last.size << level <= _MAX_LOOKUPS
        last = _walk(graph, 1 << level, width, rng) if walked else _double(last, rng)


def surviving_modes(traces: Sequence[float]) -> float:
    """About how many eigenvalues of P**t exceed 1/2, from the traces at t, 2t and 4t.

    The sum over the eigenvalues u of P**t of 2u**2 - u**4, which is 1 at u = 1, 0.44 at 1/2 and
    0.02 at 0.1: INV amplifies the modes above 1/2 and damps the others.
    """
    return 2 * traces[1] - traces[2]


def draw(
    tables: WalkTables,
    index: torch.Tensor,
    steps: int,
    generator: torch.Generator,
) -> torch.Tensor:
    """Ends of walks of exactly ``steps`` steps from the points ``index`` (any shape, int64).

    ``steps`` is split into powers of two; for each, the walk jumps to a random end point in that
    level's table at the node it has reached. ``steps=0`` stays.
    """
    levels, _, width = tables.ends.shape
    node = index.long() if tables.node is None else tables.node[index]
    for level in range(levels):
        if steps >> level & 1:
            column = torch.randint(
                width, node.shape, generator=generator, device=tables.ends.device
            )
            node = tables.ends[level, node, column].long()
    return node if tables.place is None else tables.place[node]


def return_trace(ends: Ints) -> float:
    """Estimate tr(P**2t) from ``ends`` (n, width), end points of t-step walks.

    tr(P**2t) = sum over i, k of P**t(i, k) P**t(k, i): count the pairs of walks that run i -> k
    and k -> i. There are width**2 of them for each two nodes, so the standard error is about
    sqrt(2 tr) / width, where counting the returns of 2t-step walks gives sqrt(tr / width): 0.03
    against 0.2 at trace 2 and width 64. A walk is never paired with itself (i = k), which makes
    the estimate unbiased for independent walks. Pairs of walks from one node that meet would, by
    reversibility, serve as well, but they also meet where spliced walks share a piece, and so
    overestimate the trace of long walks.
    """
    from scipy.sparse import csr_matrix

    n, width = ends.shape
    row_starts = np.arange(0, ends.size + 1, width)
    # A sorted copy: sum_duplicates works in place, and is much slower on unsorted rows.
    there = np.sort(ends, axis=1).ravel()
    count = csr_matrix((np.ones(ends.size, np.int32), there, row_starts), shape=(n, n))
    count.sum_duplicates()
    back = count.diagonal().astype(np.float64)
    there_and_back = count.multiply(count.T).sum(dtype=np.float64) - back @ back
    return float(there_and_back / width**2 + back @ (back - 1.0) / (width * (width - 1)))


def _walk(graph: scipy.sparse.csr_matrix, steps: int, width: int, rng: np.random.Generator) -> Ints:
    """Ends (n, width) of independent walks, each step along a link drawn by its weight."""
    n = graph.shape[0]
    ends = _one_step(graph, rng)
    node = np.repeat(np.arange(n, dtype=np.int32), width)
    for _ in range(steps):
        node = ends[node, rng.integers(ends.shape[1], size=node.size, dtype=np.int32)]
    return node.reshape(n, width)


def _one_step(graph: scipy.sparse.csr_matrix, rng: np.random.Generator) -> Ints:
    """Ends of one step from every node, (n, `_STEPS`), in proportion to the links' weights.

    Evenly spaced places in the sum of a node's weights, from a random one on: each link comes as
    often as its weight says, rounded up or down, so walks that look their steps up here have no
    preferences of chance.
    """
    n = graph.shape[0]
    number = int(np.clip(_MAX_STEPS // n, 16, _STEPS))
    total = np.cumsum(graph.data)
    upto = np.r_[0.0, total][graph.indptr]  # the weight of the links of all nodes before
    place = (np.arange(number) + rng.random((n, 1))) / number
    drawn = upto[:-1, None] + place * np.diff(upto)[:, None]
    link = np.searchsorted(total, drawn.ravel(), "right").reshape(n, number)
    first, last = graph.indptr[:-1, None], graph.indptr[1:, None] - 1
    return np.asarray(graph.indices[np.clip(link, first, last)])


def _double(ends: Ints, rng: np.random.Generator) -> Ints:
    """Splice walks of length t into walks of length 2t: (n, width) to (n, width).

    Column w at node i goes on, from the end of its own walk, with a walk in column w + s_i, where
    s_i != 0 is random. The shift keeps a walk from being its own second half, and two walks of
    one node from sharing theirs, so the first splice of independent walks is unbiased. Further
    splices meet pieces they have used with a chance of order 1/width. Walks from different nodes
    do share pieces: averages over nodes stay right and vary a little more.
    """
    n, width = ends.shape
    shift = rng.integers(1, width, size=(n, 1))
    return np.asarray(ends[ends, (np.arange(width) + shift) % width])


# --- landmarks ------------------------------------------------------------------------------------
#
# A part of very many points stands for all: nodes of the walks' graph, and who is nearest to whom.
#
# Searching neighbours and walking grow faster than the number of points, and what they tell does
# not: beyond some size, more points only show the same clusters more densely. So the graph has a
# random part of the points as its nodes; every other point starts its walks at the node nearest to
# it.


# Of more points than these, or than so many a cluster, the graph has this many as nodes.
MOST_NODES, NODES_EACH = 50_000, 100
# Largest number of pairs of which all distances are taken to find the nearest landmarks.
ALL_PAIRS = 500_000_000
# Beyond, a k-d tree is searched in up to so many columns. In more it visits most of its leaves.
LOW_DIMENSION = 10
# There, landmarks lie in cells, and a point looks at those of so many cells around its own.
CELLS = 8


class Nodes(NamedTuple):
    """The nodes of the walks' graph, as distances see them."""

    points: Floats  # (nodes, d)
    neighbours: Neighbours


def n_nodes(n: int, n_clusters: int) -> int:
    """How many of n points are nodes of the walks' graph."""
    return min(n, max(MOST_NODES, NODES_EACH * n_clusters))


def landmark_tables(
    x: Floats, n_clusters: int, *, n_neighbors: int, random_state: int = 0, shared: bool = False
) -> tuple[WalkTables, Nodes]:
    """Walks from all points x (n, d) on a graph of as many as `n_nodes` says, and the nodes.

    Ranks that all do this at the same time may have the points `shared` out among them.
    """
    most = n_nodes(len(x), n_clusters)
    chosen = np.sort(own_stream(random_state).choice(len(x), most, replace=False))
    points = np.ascontiguousarray(x) if most == len(x) else np.asarray(x[chosen], np.float64)
    neighbours = nearest_neighbours(points, max(n_neighbors, SHARED))
    options: Any = {"n_neighbors": n_neighbors, "random_state": random_state}
    tables = walk_tables(points, n_clusters, neighbours=neighbours, **options)
    if most < len(x):
        nearest_node = nearest_landmark(points, x, shared)
        nearest_node[chosen] = np.arange(most)
        node, place = torch.from_numpy(nearest_node), torch.from_numpy(chosen)
        tables = replace(tables, radius=tables.radius[node], node=node, place=place)
    return tables, Nodes(points, neighbours)


def nearest_landmark(landmarks: Floats, x: Floats, shared: bool = False) -> Ints:
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
