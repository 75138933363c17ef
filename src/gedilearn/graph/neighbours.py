"""The neighbour graph of vectors: distance features, nearest neighbours, the weighted graph.

The network sees the data as they are. The graph and all that is built on it use distance features.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from gedilearn.data.arrays import TWO_VALUED, unit_rows
from gedilearn.errors import InputError
from gedilearn.ranks import ONE_AT_A_TIME

if TYPE_CHECKING:
    import scipy.sparse


Floats = npt.NDArray[Any]
Ints = npt.NDArray[Any]

# --- distance features ---------------------------------------------------------------------------

# Deviations from a column's mean beyond which a feature grows as the logarithm.
REACH = 3.0

# Kurtosis of a Gaussian.
GAUSSIAN = 3.0

STREAM = 0x5EED

# Above this many values, features are float32 and computed from this many values at a time.
SINGLE = 4_000_000
# Many rows have equal values by chance. There, a column with at least this share of distinct values
# is continuous.
DISTINCT = 0.9


def distance_features(x: Floats, random_state: int = 0, metric: str = "euclidean") -> Floats:
    """The features between which distances are taken.  x: (n, d), standardised -> (n, d).

    float64; of very many values float32, a few columns at a time. With the metric 'cosine', the
    rows at length 1.
    """
    if metric == "cosine":
        return unit_rows(x).astype(np.float32)
    rng = own_stream(random_state)
    if x.size <= SINGLE:
        return limit_tails(dequantise(np.asarray(x, np.float64), rng))
    features, step = np.empty(x.shape, np.float32), max(1, SINGLE // len(x))
    for start in range(0, x.shape[1], step):
        part = slice(start, start + step)
        columns = np.array(x[:, part], np.float64, order="F")
        features[:, part] = limit_tails(dequantise(columns, rng, DISTINCT))
    return features


def own_stream(random_state: int) -> np.random.Generator:
    """A generator that is independent of data made with the same seed."""
    return np.random.Generator(np.random.PCG64((random_state, STREAM)))


def dequantise(x: Floats, rng: np.random.Generator, distinct: float = 1.0) -> Floats:
    """Repeated values, each drawn uniformly from the cell around its value.  (n, d) -> (n, d).

    Columns with at least the share `distinct` of different values stay as they are.

    Ratings and rounded numbers take few values, and a neighbour graph would read the space between
    these as clusters. The cell of a value reaches half way to the next value on each side, and the
    cells leave no space. How often each value occurs may still show clusters. A value that occurs
    once stays where it is. Copies of a whole row move no farther apart than neighbouring values.
    """
    x = x.copy(order="K")
    for column in x.T:
        ordered = np.sort(column)  # much faster than `unique` with all that is needed below
        if 1 + (ordered[1:] != ordered[:-1]).sum() >= distinct * len(column):
            continue
        values, which, counts = np.unique(column, return_inverse=True, return_counts=True)
        if len(values) < 2:
            continue
        size = column.std()
        middles = (values[1:] + values[:-1]) / 2
        low = np.r_[2 * values[0] - middles[0], middles]
        high = np.r_[middles, 2 * values[-1] - middles[-1]]
        repeated = counts[which] > 1
        place = rng.random(int(repeated.sum()))
        own = which[repeated]
        column[repeated] = low[own] + place * (high - low)[own]
        size = min(size, TWO_VALUED) if len(values) == 2 else size
        column[:] = (column - column.mean()) * (size / column.std())
    return x


def limit_tails(x: Floats) -> Floats:
    """Columns with heavy tails, shrunk.  (n, d) -> (n, d).

    Otherwise heavy tails, outliers and nearly constant columns (a pixel at the edge) would decide
    about the nearest neighbours. Beyond `REACH` deviations a column grows as the logarithm. A
    column with a larger kurtosis than a Gaussian is multiplied by the ratio of the two. Neither
    step depends on units or makes two values equal.
    """
    mean, deviation = x.mean(0), x.std(0)
    standard = (x - mean) / np.maximum(deviation, np.finfo(np.float64).tiny)
    beyond = np.maximum(np.abs(standard) - REACH, 0.0)
    limited = np.sign(standard) * (np.minimum(np.abs(standard), REACH) + np.log1p(beyond))
    kurtosis = (standard**4).mean(0)
    return np.asarray(limited * deviation * (GAUSSIAN / np.maximum(kurtosis, GAUSSIAN)))


# --- nearest neighbours --------------------------------------------------------------------------

# The search is exact, by scikit-learn. In few columns its k-d tree takes about n log n operations.
# In many columns an exact search computes all n**2 distances; a graph has at most 50,000 nodes
# (`graph.walks`), which bounds them. Memory is linear in n.

# In more columns than these, in single precision, distances are products; so many at a time.
BY_PRODUCTS, BLOCK = 64, 20_000_000

# Neighbours of one search that serves all graphs and trees of the same points.
SHARED = 15


class Neighbours(NamedTuple):
    """The nearest neighbours of each point, the nearest first; smaller k use the first columns."""

    distance: Floats  # (n, k)
    neighbour: Ints  # (n, k)


def nearest_neighbours(x: Floats, n_neighbors: int) -> Neighbours:
    """The `n_neighbors` nearest of each point of ``x`` (n, d), and at least `LOCAL` of them.

    A point is not its own neighbour; its duplicates are.
    """
    from sklearn.neighbors import NearestNeighbors

    k = min(max(n_neighbors, LOCAL), len(x) - 1)
    if x.dtype == np.float32 and x.shape[1] > BY_PRODUCTS:
        return _by_products(x, k)
    x = as_points(x)
    # Without arguments, kneighbors leaves out each point by its index and not by its distance, and
    # keeps duplicates.
    with ONE_AT_A_TIME:
        return Neighbours(*NearestNeighbors(n_neighbors=k, n_jobs=1).fit(x).kneighbors())


def _by_products(x: Floats, k: int) -> Neighbours:
    """The k nearest of each row of x (n, d), from products of blocks of rows."""
    import torch

    rows = torch.from_numpy(x)
    squares, step = rows.square().sum(1), max(1, BLOCK // len(x))
    parts = []
    for begin in range(0, len(x), step):
        block = rows[begin : begin + step]
        apart = torch.addmm(squares[None], block, rows.T, alpha=-2)
        own = torch.arange(len(block))
        apart[own, begin + own] = torch.inf
        nearest = apart.topk(k, largest=False).indices
        near = (rows[nearest] - block[:, None]).norm(dim=2)  # exactly 0 for equal rows
        order = near.argsort(dim=1, stable=True)
        parts.append((near.gather(1, order).double(), nearest.gather(1, order)))
    distance, neighbour = (torch.cat(part).numpy() for part in zip(*parts, strict=True))
    return Neighbours(distance, neighbour)


def as_points(x: Floats) -> Floats:
    """Points (n, d) with n >= 2 and d >= 1, in double precision."""
    x = np.asarray(x, dtype=np.float64)
    if x.ndim != 2 or len(x) < 2 or x.shape[1] < 1:
        raise InputError(f"x of shape {x.shape}: the neighbour graph needs (n >= 2 points, d >= 1)")
    return x


# --- the weighted graph --------------------------------------------------------------------------

# The local scale of a point is the distance to this neighbour. No link weighs less than `LEAST`.
LOCAL = 7
LEAST = 1e-12

# Smaller numbers of neighbours to try, and the largest share of points outside of large components.
FEWER = (7, 5, 4, 3)
OUTSIDE = 0.05


def knn_graph(
    x: Floats, n_neighbors: int, neighbours: Neighbours | None = None
) -> tuple[scipy.sparse.csr_matrix, Floats]:
    """The weighted graph of the nearest neighbours of ``x`` (n, d), and every k-th distance (n,).

    i and j are linked when either is among the other's k nearest. A link of length d weighs
    exp(-d^2 / (s_i s_j)), where s is the distance of a point to its `LOCAL`-th neighbour
    (self-tuning spectral clustering, Zelnik-Manor and Perona 2004). The same length thus weighs
    less in a dense place than in a sparse one. k is capped at n - 1. `neighbours` of an earlier
    search are used as they are.
    """
    from scipy.sparse import csr_matrix

    distance, neighbour = neighbours or nearest_neighbours(x, n_neighbors)
    n, found = distance.shape
    distance = np.asarray(distance, np.float64)
    k = min(n_neighbors, found)
    radius, scale = distance[:, k - 1], distance[:, min(LOCAL, found) - 1]
    distance, neighbour = distance[:, :k], neighbour[:, :k]
    area = np.maximum(scale[:, None] * scale[neighbour], np.finfo(np.float64).tiny)
    weight = np.maximum(np.exp(-(distance**2) / area), LEAST)
    row_starts = np.arange(0, n * k + 1, k)
    links = csr_matrix((weight.ravel(), neighbour.ravel(), row_starts), shape=(n, n))
    return csr_matrix(links.maximum(links.T)), radius


def connected_graph(
    x: Floats, n_clusters: int, n_neighbors: int, neighbours: Neighbours | None = None
) -> tuple[scipy.sparse.csr_matrix, Floats, int, int]:
    """The graph of at most ``n_clusters`` components, the radius, the k used, and the components.

    An unnecessary link may connect two clusters. So k is lowered from ``n_neighbors`` to the
    largest one of `FEWER` at which the number of large components is the number of clusters. If
    there is none, k stays as given. The smallest components beyond ``n_clusters`` are then linked
    to their nearest neighbours: outliers, and groups of fewer than k points.
    """
    from scipy.sparse.csgraph import connected_components

    found = neighbours or nearest_neighbours(x, n_neighbors)
    fewer = [k for k in FEWER if k < n_neighbors]
    for k in (n_neighbors, *fewer, n_neighbors):  # the given one again, if no other fits
        graph, radius = knn_graph(x, k, found)
        label = connected_components(graph, directed=False)[1]
        # Large: at least a tenth of an even share of the points.
        large = np.bincount(label) >= len(label) / (10 * n_clusters)
        if large.sum() == n_clusters and (~large[label]).mean() <= OUTSIDE:
            break
    n_components = min(int(label.max()) + 1, n_clusters)
    graph = connect_components(x, graph, n_clusters, k)
    return graph, radius, min(k, len(x) - 1), n_components


def connect_components(
    x: Floats, graph: scipy.sparse.csr_matrix, most: int, n_links: int
) -> scipy.sparse.csr_matrix:
    """The graph of x (n, d), with links added until it has at most `most` components.

    The smallest components are linked to their nearest larger ones by `shortest_links`. These links
    have the largest weight, 1: nothing shows that a small group is a cluster. Up to half of the
    components are linked in one round, and thousands of them take about ten searches.
    """
    from scipy.sparse import csr_matrix
    from scipy.sparse.csgraph import connected_components

    n_components, label = connected_components(graph, directed=False)
    links = []
    while n_components > most:
        names, sizes = np.unique(label, return_counts=True)
        n_joined = min(n_components - most, n_components // 2)
        smallest = names[np.argsort(sizes, kind="stable")[:n_joined]]
        merged = np.arange(len(names))
        for here, there, _ in shortest_links(x, label, smallest, n_links):
            merged[label[here[0]]] = label[there[0]]
            links.append((here, there))
        label = np.unique(merged[label], return_inverse=True)[1]
        n_components -= n_joined
    if not links:
        return graph
    start, stop = map(np.concatenate, zip(*links, strict=True))
    added = csr_matrix((np.ones(len(start)), (start, stop)), shape=graph.shape)
    return csr_matrix(graph.maximum(added).maximum(added.T))


def shortest_links(
    x: Floats, label: Ints, groups: Ints, n_links: int
) -> Iterator[tuple[Ints, Ints, Floats]]:
    """From each of the groups to the nearest group outside of them: starts, stops, lengths.

    A link joins a point to its nearest one outside; the ``n_links`` shortest are given, so that a
    bridge is about as wide as the neighbourhood of a point.  x: (n, d), label: (n,).
    """
    from sklearn.neighbors import NearestNeighbors

    inside = np.isin(label, groups)
    here, there = np.flatnonzero(inside), np.flatnonzero(~inside)
    here = here[np.argsort(label[here], kind="stable")]
    with ONE_AT_A_TIME:
        search = NearestNeighbors(n_neighbors=1, n_jobs=1).fit(x[there])
        length, nearest = (found[:, 0] for found in search.kneighbors(x[here]))
    nearest = there[nearest]
    cuts = np.flatnonzero(np.diff(label[here])) + 1
    for own in np.split(np.arange(len(here)), cuts):
        towards = own[label[nearest[own]] == label[nearest[own[length[own].argmin()]]]]
        chosen = towards[np.argsort(length[towards], kind="stable")[:n_links]]
        yield here[chosen], nearest[chosen], length[chosen]


def lazy_walk_graph(graph: scipy.sparse.csr_matrix, n_neighbors: int) -> scipy.sparse.csr_matrix:
    """The graph of lazy walks: every node is also linked to itself.

    This link weighs as much as the mean link to a neighbour. Without it walks on a bipartite graph
    would alternate forever.
    """
    from scipy.sparse import csr_matrix, diags

    degree = np.asarray(graph.sum(axis=1)).ravel()
    return csr_matrix(graph + diags(degree / n_neighbors))
