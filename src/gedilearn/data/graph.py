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
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import torch

from gedilearn.data.neighbours import nearest
from gedilearn.errors import InputError
from gedilearn.threads import ONE_AT_A_TIME

if TYPE_CHECKING:
    import scipy.sparse

Floats = npt.NDArray[Any]
Ints = npt.NDArray[np.int32]

# Walks up to 2**5 steps are walked step by step, each on its own; only longer ones are spliced
# from shorter ones. Splicing one-step tables would be cheaper, but the same few sampled steps
# would then be walked again and again: on thin shapes their chance preferences add up to a drift.
_WALKED_LEVELS = 6
_MAX_LOOKUPS = 1 << 26  # steps of all walks of a level; of many nodes fewer levels are walked

# The scale of a place is the distance to this neighbour, and no link weighs less than that.
LOCAL = 7
LEAST = 1e-12

# Fewer neighbours, at which clusters may be components of the graph, and the share of the points
# that may then be in others.
FEWER = (7, 5, 4, 3)
STRAYS = 0.05

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
    home, place: (n,), (nodes,): where not every point is a node (`data.landmarks`), the node of
        each point and the point of each node; walks begin and end at points.
    """

    ends: torch.Tensor
    radius: torch.Tensor
    n_neighbors: int
    n_components: int
    traces: tuple[float, ...]
    graph: scipy.sparse.csr_matrix
    home: torch.Tensor | None = None
    place: torch.Tensor | None = None

    @property
    def longest(self) -> int:
        """Number of steps of the longest tabled walk."""
        return 1 << (self.ends.shape[0] - 1)

    def to(self, device: torch.device) -> WalkTables:
        """The same tables on another device."""
        names = ("ends", "radius", "home", "place")
        there = {name: getattr(self, name) for name in names}
        return replace(self, **{name: t.to(device) for name, t in there.items() if t is not None})


def neighbour_graph(
    x: Floats, n_neighbors: int, random_state: int = 0
) -> tuple[scipy.sparse.csr_matrix, Floats]:
    """The weighted graph of the nearest neighbours of ``x`` (n, d), and every k-th distance (n,).

    i and j are linked when either is among the other's k nearest. A link weighs
    exp(-d^2 / (s_i s_j)), where d is its length and s the distance of a point to its `LOCAL`-th
    neighbour (self-tuning spectral clustering, Zelnik-Manor and Perona 2004): a long link of a
    dense place weighs little, one of the same length between scattered points much. No link weighs
    less than `LEAST`, and k is capped at n - 1. Of many points in many dimensions the neighbours
    are approximate (see `gedilearn.data.neighbours`).
    """
    return _weighted(*_neighbours(x, n_neighbors, random_state), n_neighbors)


def _neighbours(x: Floats, n_neighbors: int, random_state: int) -> tuple[Floats, Ints]:
    """As many as the graph needs, and the scale of a place."""
    x = _points(x)
    if n_neighbors < 1:
        raise InputError(f"n_neighbors={n_neighbors}: the graph needs at least 1 neighbour a point")
    with ONE_AT_A_TIME:
        return nearest(x, min(max(n_neighbors, LOCAL), len(x) - 1), random_state)


def _weighted(
    distance: Floats, neighbour: Ints, n_neighbors: int
) -> tuple[scipy.sparse.csr_matrix, Floats]:
    from scipy.sparse import csr_matrix

    n, found = distance.shape
    distance = np.asarray(distance, np.float64)
    k = min(n_neighbors, found)
    radius, scale = distance[:, k - 1], distance[:, min(LOCAL, found) - 1]
    distance, neighbour = distance[:, :k], neighbour[:, :k]
    weight = _link_weights(distance, scale[:, None], scale[neighbour])
    row_starts = np.arange(0, n * k + 1, k)
    links = csr_matrix((weight.ravel(), neighbour.ravel(), row_starts), shape=(n, n))
    return csr_matrix(links.maximum(links.T)), radius


def _link_weights(distance: Floats, scale: Floats, other: Floats) -> Floats:
    area = np.maximum(scale * other, np.finfo(np.float64).tiny)
    return np.asarray(np.maximum(np.exp(-(distance**2) / area), LEAST))


def with_rests(graph: scipy.sparse.csr_matrix, n_neighbors: int) -> scipy.sparse.csr_matrix:
    """The graph for walks that now and then rest: every node is also linked to itself.

    As strongly as to one of its neighbours on average. Otherwise walks on bipartite graphs would
    alternate for ever.
    """
    from scipy.sparse import csr_matrix, diags

    degree = np.asarray(graph.sum(axis=1)).ravel()
    return csr_matrix(graph + diags(degree / n_neighbors))


def walk_tables(
    x: Floats,
    n_clusters: int,
    *,
    n_neighbors: int = 10,
    width: int = 64,
    max_levels: int = 22,
    random_state: int = 0,
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

    With many points the tables are narrower than ``width`` (see `_MAX_BYTES`).
    """
    x = _points(x)
    if n_clusters < 1:
        raise InputError(f"n_clusters={n_clusters}: the walks need at least 1 cluster")
    if width < 2:
        raise InputError(f"width={width}: splicing walks needs at least 2 end points a node")
    if not 1 <= max_levels <= 31:
        raise InputError(f"max_levels={max_levels}: give 1 to 31 (walks of 2**(levels-1) steps)")
    graph, radius, k, n_components = joined_graph(x, n_clusters, n_neighbors, random_state)
    graph = with_rests(graph, k)

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
    if not 0 <= steps < 1 << levels:
        raise InputError(
            f"steps={steps}: these tables of {levels} levels hold walks of 0 to "
            f"{(1 << levels) - 1} steps; raise max_levels for longer ones"
        )
    node = index.long() if tables.home is None else tables.home[index]
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


def _points(x: Floats) -> Floats:
    x = np.asarray(x, dtype=np.float64)
    if x.ndim != 2 or len(x) < 2 or x.shape[1] < 1:
        raise InputError(f"x of shape {x.shape}: the neighbour graph needs (n >= 2 points, d >= 1)")
    return x


def joined_graph(
    x: Floats, n_clusters: int, n_neighbors: int, random_state: int = 0
) -> tuple[scipy.sparse.csr_matrix, Floats, int, int]:
    """Graph of at most ``n_clusters`` components, the radius, the k used, and the components.

    Every needless link may join what should stay apart. So k is lowered from ``n_neighbors`` to the
    largest one (`FEWER`) at which just as many components as clusters are large; if there is none,
    k stays as asked for. Components beyond ``n_clusters``, the smallest ones, are bridged to their
    nearest neighbours: strays, or groups too small for k neighbours of their own.
    """
    from scipy.sparse.csgraph import connected_components

    asked = None
    found = _neighbours(x, n_neighbors, random_state)
    for k in dict.fromkeys((n_neighbors, *(k for k in FEWER if k < n_neighbors))):
        graph, radius = _weighted(*found, k)
        n_components, label = connected_components(graph, directed=False)
        asked = asked or (graph, radius, k, label)
        sizes = np.bincount(label)
        large = sizes >= len(x) / (10 * n_clusters)
        if large.sum() == n_clusters and sizes[~large].sum() <= STRAYS * len(x):
            break
    else:
        assert asked is not None
        graph, radius, k, label = asked
    n_components = min(int(label.max()) + 1, n_clusters)
    return bridged(x, graph, n_clusters, k), radius, min(k, len(x) - 1), n_components


def bridged(
    x: Floats, graph: scipy.sparse.csr_matrix, most: int, n_links: int
) -> scipy.sparse.csr_matrix:
    """The graph of x (n, d) with at most so many components: the smallest ones are bridged."""
    from scipy.sparse.csgraph import connected_components

    n_components, label = connected_components(graph, directed=False)
    if n_components <= most:
        return graph
    with ONE_AT_A_TIME:
        return _bridged(x, graph, label, most, n_links)


def _bridged(
    x: Floats, graph: scipy.sparse.csr_matrix, label: Ints, n_components: int, n_links: int
) -> scipy.sparse.csr_matrix:
    """Join the smallest components to their nearest larger ones until ``n_components`` are left.

    The ``n_links`` shortest links to that neighbour are added, so that a bridge is about as wide
    as the neighbourhood of a point; they weigh as much as any link can, for nothing says that a
    small group stands for itself. Up to half of the components are joined in one round, so that
    thousands of groups of duplicates take some ten searches.
    """
    from scipy.sparse import csr_matrix
    from sklearn.neighbors import NearestNeighbors

    label = label.copy()
    starts, stops = [], []
    while True:
        names, sizes = np.unique(label, return_counts=True)
        excess = len(names) - n_components
        if excess <= 0:
            break
        small = names[np.argsort(sizes, kind="stable")[: min(excess, len(names) // 2)]]
        inside = np.isin(label, small)
        here, there = np.flatnonzero(inside), np.flatnonzero(~inside)
        here = here[np.argsort(label[here], kind="stable")]
        search = NearestNeighbors(n_neighbors=1, n_jobs=1).fit(x[there])
        distance, nearest_one = (found[:, 0] for found in search.kneighbors(x[here]))
        nearest_one = there[nearest_one]
        cuts = np.flatnonzero(np.diff(label[here])) + 1
        for group in np.split(np.arange(len(here)), cuts):
            other = label[nearest_one[group[distance[group].argmin()]]]
            towards = group[label[nearest_one[group]] == other]
            chosen = towards[np.argsort(distance[towards], kind="stable")[:n_links]]
            starts.append(here[chosen])
            stops.append(nearest_one[chosen])
            label[here[group]] = other
    start, stop = np.concatenate(starts), np.concatenate(stops)
    links = csr_matrix((np.ones(len(start)), (start, stop)), shape=graph.shape)
    return csr_matrix(graph.maximum(links).maximum(links.T))


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
