"""Random walks on the k-nearest-neighbour graph of the data, stored as tables of end points.

The views x' of a point x can be the ends of t-step walks from x. Long walks depend only on the
slowest modes of the graph, which are its clusters. Short walks see local detail. Training needs
walks of many lengths from any point at any time. They are sampled once: a table of ``width`` end
points per node for each length 1, 2, 4, 8, ... Memory is ``levels * n * width`` integers. With many
nodes the tables are narrower. No n x n matrix is formed.
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


# Walks of up to 2**5 steps are walked step by step, independently. Longer ones are spliced from
# shorter ones. Splicing one-step tables would be cheaper, but would reuse few sampled steps: on
# thin shapes their random preferences add up to a drift.
_WALKED_LEVELS = 6
_MAX_LOOKUPS = 1 << 26  # steps of all walks of a level; with many nodes fewer levels are walked

# Sampled ends of single steps for every node, and for all nodes together.
_STEPS = 128
_MAX_STEPS = 3_200_000

# Sampled walks of a level, but at least 32 for every node, which traces need.
_MAX_WALKS = 4_000_000
_LEAST_SAMPLED = 32

# The tables hold at most this many bytes, or 8 end points per node and level if that is more. A
# view needs one end point, and with many nodes each is drawn less often.
_MAX_BYTES = 256_000_000
_LEAST_KEPT = 8


@dataclass(frozen=True, eq=False)
class WalkTables:
    """Sampled end points of random walks from every node.

    ends: (levels, n, width) int32, ``ends[j, i]`` are end points of 2**j-step walks from node i.
    radius: (n,) float32, distance from point i to its k-th neighbour (0 among duplicates): the
        scale of detail around i. Links between components do not change it.
    n_neighbors: the k that was used.
    n_components: connected components of the graph; a walk never leaves its own.
    traces: for each level the trace of the walk matrix P**(2**j), the expected number of returns
        summed over the nodes. It counts the modes that a walk of that length distinguishes. Exact
        at level 0, estimated above (see `return_trace`).
    graph: the graph of the walks, in which every node is also linked to itself.
    node, place: (n,), (nodes,): the node of each point and the point of each node, where not every
        point is a node (`find_nodes`). Walks begin and end at points.
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
        """Number of steps of the longest walk in the tables."""
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

    The graph has at most ``n_clusters`` components (`connected_graph`). The length of walks is
    doubled until the trace of the walk matrix is at most ``n_clusters + 0.5``, or until there are
    ``max_levels`` lengths. Then about as many modes as clusters survive. The trace falls towards
    the number of components, so the first rule holds after enough doublings.

    Where clusters touch, fewer modes than clusters may survive, and training would never leave the
    uniform prediction. The longest length at which `surviving_modes` counts ``n_clusters`` is then
    the last.

    With many points the tables are narrower than ``width`` (see `_MAX_BYTES`). `neighbours` of an
    earlier search are used as they are.
    """
    x = as_points(x)
    graph, radius, k, n_components = connected_graph(x, n_clusters, n_neighbors, neighbours)
    graph = lazy_walk_graph(graph, k)

    width = min(width, max(_LEAST_SAMPLED, _MAX_WALKS // len(x)))
    kept = min(width, max(_LEAST_KEPT, _MAX_BYTES // (4 * max_levels * len(x))))
    walks = _doubling_walks(graph, width, random_state)
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


def resample(tables: WalkTables, random_state: int) -> WalkTables:
    """New walks of the same lengths on the same graph."""
    levels, _, width = tables.ends.shape
    walks = _doubling_walks(tables.graph, max(width, _LEAST_SAMPLED), random_state)
    ends = np.stack([ends[:, :width] for ends in itertools.islice(walks, levels)])
    return replace(tables, ends=torch.from_numpy(ends).to(tables.ends.device))


def _doubling_walks(
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

    The sum of 2u**2 - u**4 over the eigenvalues u of P**t, which is 1 at u = 1, 0.44 at 1/2 and
    0.02 at 0.1. INV amplifies the modes above 1/2 and damps the others.
    """
    return 2 * traces[1] - traces[2]


def draw(
    tables: WalkTables,
    index: torch.Tensor,
    steps: int,
    generator: torch.Generator,
) -> torch.Tensor:
    """Ends of walks of exactly ``steps`` steps from the points ``index`` (any shape, int64).

    ``steps`` is split into powers of two. For each, the walk moves to a random end point in the
    table of that level, at the node it has reached. With ``steps=0`` it stays.
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

    tr(P**2t) = sum over i, k of P**t(i, k) P**t(k, i): count the pairs of walks i -> k and k -> i.
    There are width**2 of them for each two nodes, and the standard error is about sqrt(2 tr) /
    width. Counting the returns of 2t-step walks gives sqrt(tr / width): 0.2 instead of 0.03 at
    trace 2 and width 64. A walk is never paired with itself (i = k), which makes the estimate
    unbiased for independent walks. By reversibility, pairs of walks from one node that meet could
    be counted too. But spliced walks that share a piece also meet, which overestimates the trace.
    """
    from scipy.sparse import csr_matrix

    n, width = ends.shape
    row_starts = np.arange(0, ends.size + 1, width)
    # A sorted copy: sum_duplicates works in place and is much slower on unsorted rows.
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

    Evenly spaced places in the cumulative weights of a node, from a random one on (systematic
    sampling). Each link occurs in proportion to its weight, rounded up or down.
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

    The walk in column w at node i continues from its end with the walk in column w + s_i there,
    where s_i != 0 is random. With this shift no walk is its own second half, and no two walks of
    one node share theirs: the first splice of independent walks is unbiased. Later splices reuse a
    piece with a probability of order 1/width. Walks from different nodes share pieces: averages
    over nodes stay right and vary a little more.
    """
    n, width = ends.shape
    shift = rng.integers(1, width, size=(n, 1))
    return np.asarray(ends[ends, (np.arange(width) + shift) % width])


# --- landmarks ------------------------------------------------------------------------------------
#
# The cost of neighbours and walks grows faster than the number of points. Above some size, more
# points only show the same clusters more densely. So the nodes of the graph are a random sample of
# the points. Every other point starts its walks at the nearest node.


# The largest number of nodes, and the least number for each cluster.
MOST_NODES, NODES_EACH = 50_000, 100
# Up to this many pairs, all distances are computed to find the nearest landmarks.
ALL_PAIRS = 500_000_000
# Above, a k-d tree is searched in up to so many columns. In more it visits most of its leaves.
LOW_DIMENSION = 10
# There, landmarks are divided into cells, and a point searches those of its nearest cells.
CELLS = 8


class Nodes(NamedTuple):
    """The nodes of the graph: all points, or a random sample of very many."""

    points: Floats  # (nodes, d): their distance features
    neighbours: Neighbours
    # Of a sample: (nodes,) which points they are, and (n,) the nearest node of each point.
    sample: Ints | None = None
    nearest: Ints | None = None


def n_nodes(n: int, n_clusters: int) -> int:
    """How many of n points are nodes of the graph."""
    return min(n, max(MOST_NODES, NODES_EACH * n_clusters))


def find_nodes(
    x: Floats, n_clusters: int, n_neighbors: int, random_state: int = 0, shared: bool = False
) -> Nodes:
    """The nodes of the graph of points, for up to `n_clusters`.  x: (n, d) distance features.

    `shared`: all ranks call this at the same time and divide the points among them.
    """
    most, wanted = n_nodes(len(x), n_clusters), max(n_neighbors, SHARED)
    if most == len(x):
        points = np.ascontiguousarray(x)
        return Nodes(points, nearest_neighbours(points, wanted))
    sample = np.sort(own_stream(random_state).choice(len(x), most, replace=False))
    points = np.asarray(x[sample], np.float64)
    neighbours, nearest = nearest_neighbours(points, wanted), nearest_landmark(points, x, shared)
    nearest[sample] = np.arange(most)
    return Nodes(points, neighbours, sample, nearest)


def node_tables(nodes: Nodes, n_clusters: int, **options: Any) -> WalkTables:
    """Walks from all points on the graph of the nodes; `options` are those of `walk_tables`."""
    tables = walk_tables(nodes.points, n_clusters, neighbours=nodes.neighbours, **options)
    if nodes.sample is None or nodes.nearest is None:
        return tables
    node, place = torch.from_numpy(nodes.nearest), torch.from_numpy(nodes.sample)
    return replace(tables, radius=tables.radius[node], node=node, place=place)


def nearest_landmark(landmarks: Floats, x: Floats, shared: bool = False) -> Ints:
    """The nearest landmark of each point.  (m, d), (n, d) -> (n,).

    The search is approximate for many points in many columns. `shared`: all ranks call this at the
    same time and divide the points among them.
    """
    if len(x) * len(landmarks) <= ALL_PAIRS:
        return _by_all_pairs(landmarks, x)
    find = _by_cells(landmarks, x.dtype) if x.shape[1] > LOW_DIMENSION else _by_tree(landmarks)

    def of_rows(rows: slice) -> torch.Tensor:
        return torch.from_numpy(find(np.ascontiguousarray(x[rows])))

    found = torch.zeros(len(x), dtype=torch.int64)
    return by_shares(found, rows_at_once(x), of_rows, shared).numpy()


def _by_all_pairs(landmarks: Floats, x: Floats) -> Ints:
    from sklearn.metrics import pairwise_distances_argmin

    with ONE_AT_A_TIME:
        return np.asarray(pairwise_distances_argmin(x, landmarks))


def _by_tree(landmarks: Floats) -> Callable[[Floats], Ints]:
    from scipy.spatial import KDTree

    tree = KDTree(landmarks)
    return lambda x: np.asarray(tree.query(x)[1])


def _by_cells(landmarks: Floats, dtype: np.dtype[Any]) -> Callable[[Floats], Ints]:
    """Of m landmarks, about sqrt(m) are centres of cells, with about sqrt(m) landmarks in each."""
    from sklearn.metrics import pairwise_distances

    landmarks = np.ascontiguousarray(landmarks, dtype)
    centres = landmarks[evenly_spaced(len(landmarks), math.isqrt(len(landmarks)))]
    cell = _by_all_pairs(centres, landmarks)
    members = np.split(np.argsort(cell, kind="stable"), np.cumsum(np.bincount(cell))[:-1])
    around = np.argsort(pairwise_distances(centres), axis=1)[:, :CELLS]
    candidates = [np.concatenate([members[k] for k in near]) for near in around]

    def find(x: Floats) -> Ints:
        found = np.empty(len(x), np.int64)
        cell = _by_all_pairs(centres, x)
        for name in np.unique(cell):
            own = np.flatnonzero(cell == name)
            there = candidates[name]
            found[own] = there[_by_all_pairs(landmarks[there], x[own])]
        return found

    return find
