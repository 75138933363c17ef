"""The neighbour graph of points: the points, their nearest neighbours, the weighted graph.

The network sees the data as it is; the graph and all that is built on it see the points between
which distances are taken.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from gedilearn.data.arrays import TWO_VALUED
from gedilearn.errors import InputError
from gedilearn.ranks import ONE_AT_A_TIME

if TYPE_CHECKING:
    import scipy.sparse


Floats = npt.NDArray[Any]
Ints = npt.NDArray[Any]

# --- points --------------------------------------------------------------------------------------

# Deviations from a column's mean beyond which distances hardly grow.
REACH = 3.0

# Kurtosis of a Gaussian.
GAUSSIAN = 3.0

STREAM = 0x5EED

# Of more values than these, the points are float32, and made from so many values at a time.
SINGLE = 4_000_000
# Among so many rows values meet by chance: a column of at least this share of distinct values has
# no gaps to close.
DISTINCT = 0.9


def distance_points(x: Floats, random_state: int = 0) -> Floats:
    """The points between which distances are taken.  x: (n, d), standardised.

    In float64; in float32, a few columns at a time, if there are very many values.
    """
    rng = own_stream(random_state)
    if x.size <= SINGLE:
        return limit_tails(spread(np.asarray(x, np.float64), rng))
    points, step = np.empty(x.shape, np.float32), max(1, SINGLE // len(x))
    for start in range(0, x.shape[1], step):
        part = slice(start, start + step)
        columns = np.array(x[:, part], np.float64, order="F")
        points[:, part] = limit_tails(spread(columns, rng, DISTINCT))
    return points


def own_stream(random_state: int) -> np.random.Generator:
    """Random numbers that data made with the same seed does not share."""
    return np.random.Generator(np.random.PCG64((random_state, STREAM)))


def spread(x: Floats, rng: np.random.Generator, distinct: float = 1.0) -> Floats:
    """Values that repeat, spread evenly over their cells.  (n, d) -> (n, d).

    Columns of which at least the share `distinct` of the values differ stay as they are.

    A coin, a die, a rating, a rounded number: whatever takes few values has gaps between them, and
    a neighbour graph takes gaps for clusters. The cell of a value reaches half way to the next
    values on both sides, so the gaps close and what remains is how often each value comes, which
    may still show clusters. A value that comes once stays where it is. Copies of a whole row move
    apart by no more than the values of other rows are from theirs.
    """
    x = x.copy(order="K")
    for column in x.T:
        ordered = np.sort(column)  # much faster than all that `unique` is asked for below
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
    """Columns that owe their spread to rare values count less.  (n, d) -> (n, d).

    The large values of heavy tails, of outliers and of columns that are nearly always the same (a
    pixel at the edge) would otherwise decide who is whose neighbour. So beyond `REACH` deviations a
    column grows as the logarithm, and it is shortened by the ratio of a Gaussian's kurtosis to its
    own, if that is larger. Neither depends on units, and no two values become one.
    """
    mean, deviation = x.mean(0), x.std(0)
    standard = (x - mean) / np.maximum(deviation, np.finfo(np.float64).tiny)
    beyond = np.maximum(np.abs(standard) - REACH, 0.0)
    limited = np.sign(standard) * (np.minimum(np.abs(standard), REACH) + np.log1p(beyond))
    kurtosis = (standard**4).mean(0)
    return np.asarray(limited * deviation * (GAUSSIAN / np.maximum(kurtosis, GAUSSIAN)))


# --- nearest neighbours --------------------------------------------------------------------------

# The search is exact: by scikit-learn, whose k-d tree needs about n log n operations in few
# dimensions; in many there is no better exact way than all n**2 distances. The nodes of a graph are
# 50,000 of very many points (`data.walks`), which bounds n**2. Memory is linear in n.

# Neighbours that one search finds for all graphs and trees of the same points.
SHARED = 15


class Neighbours(NamedTuple):
    """The nearest neighbours of each point, the nearest first; graphs of a smaller k share them."""

    distance: Floats  # (n, k)
    neighbour: Ints  # (n, k)


def find_neighbours(x: Floats, n_neighbors: int) -> Neighbours:
    """So many of each point of ``x`` (n, d), and at least those that set the scale of a place.

    A point is not its own neighbour, but a duplicate of it is one.
    """
    from sklearn.neighbors import NearestNeighbors

    x = as_points(x)
    k = min(max(n_neighbors, LOCAL), len(x) - 1)
    # Called without arguments, kneighbors leaves out the point itself by its index and not by its
    # distance, so duplicates are proper neighbours of each other.
    with ONE_AT_A_TIME:
        return Neighbours(*NearestNeighbors(n_neighbors=k, n_jobs=1).fit(x).kneighbors())


def as_points(x: Floats) -> Floats:
    """Points (n, d) of which a graph can be made, in double precision."""
    x = np.asarray(x, dtype=np.float64)
    if x.ndim != 2 or len(x) < 2 or x.shape[1] < 1:
        raise InputError(f"x of shape {x.shape}: the neighbour graph needs (n >= 2 points, d >= 1)")
    return x


# --- the weighted graph --------------------------------------------------------------------------

# The scale of a place is the distance to this neighbour, and no link weighs less than that.
LOCAL = 7
LEAST = 1e-12

# Fewer neighbours, at which clusters may be components of the graph, and the share of the points
# that may then be in others.
FEWER = (7, 5, 4, 3)
STRAYS = 0.05


def neighbour_graph(
    x: Floats, n_neighbors: int, known: Neighbours | None = None
) -> tuple[scipy.sparse.csr_matrix, Floats]:
    """The weighted graph of the nearest neighbours of ``x`` (n, d), and every k-th distance (n,).

    i and j are linked when either is among the other's k nearest. A link weighs
    exp(-d^2 / (s_i s_j)), where d is its length and s the distance of a point to its `LOCAL`-th
    neighbour (self-tuning spectral clustering, Zelnik-Manor and Perona 2004): a long link of a
    dense place weighs little, one of the same length between scattered points much. No link weighs
    less than `LEAST`, and k is capped at n - 1. Neighbours that are `known` are not sought again.
    """
    return _weighted(known or find_neighbours(x, n_neighbors), n_neighbors)


def _weighted(neighbours: Neighbours, n_neighbors: int) -> tuple[scipy.sparse.csr_matrix, Floats]:
    from scipy.sparse import csr_matrix

    distance, neighbour = neighbours
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


def joined_graph(
    x: Floats,
    n_clusters: int,
    n_neighbors: int,
    known: Neighbours | None = None,
) -> tuple[scipy.sparse.csr_matrix, Floats, int, int]:
    """Graph of at most ``n_clusters`` components, the radius, the k used, and the components.

    Every needless link may join what should stay apart. So k is lowered from ``n_neighbors`` to the
    largest one (`FEWER`) at which just as many components as clusters are large; if there is none,
    k stays as asked for. Components beyond ``n_clusters``, the smallest ones, are bridged to their
    nearest neighbours: strays, or groups too small for k neighbours of their own.
    """
    from scipy.sparse.csgraph import connected_components

    found = known or find_neighbours(x, n_neighbors)
    fewer = [k for k in FEWER if k < n_neighbors]
    for k in (n_neighbors, *fewer, n_neighbors):  # again the one asked for, if no other fits
        graph, radius = _weighted(found, k)
        label = connected_components(graph, directed=False)[1]
        large = are_large(label, n_clusters)
        if large.sum() == n_clusters and (~large[label]).mean() <= STRAYS:
            break
    n_components = min(int(label.max()) + 1, n_clusters)
    return bridged(x, graph, n_clusters, k), radius, min(k, len(x) - 1), n_components


def are_large(label: Ints, n_parts: int) -> npt.NDArray[np.bool_]:
    """Which components, by the points' labels (n,), are no strays beside so many parts.

    Those with at least a tenth of an even share of the points.
    """
    return np.asarray(np.bincount(label) >= len(label) / (10 * n_parts))


def bridged(
    x: Floats, graph: scipy.sparse.csr_matrix, most: int, n_links: int
) -> scipy.sparse.csr_matrix:
    """The graph of x (n, d) with the smallest components joined until at most so many are left.

    Each is joined to its nearest larger one: the ``n_links`` shortest links to that neighbour are
    added, so that a bridge is about as wide as the neighbourhood of a point; they weigh as much as
    any link can, for nothing says that a small group stands for itself. Up to half of the
    components are joined in one round, so that thousands of groups of duplicates take some ten
    searches.
    """
    from scipy.sparse import csr_matrix
    from scipy.sparse.csgraph import connected_components
    from sklearn.neighbors import NearestNeighbors

    n_components, label = connected_components(graph, directed=False)
    starts, stops = [], []
    while n_components > most:
        names, sizes = np.unique(label, return_counts=True)
        n_joined = min(n_components - most, n_components // 2)
        inside = np.isin(label, names[np.argsort(sizes, kind="stable")[:n_joined]])
        here, there = np.flatnonzero(inside), np.flatnonzero(~inside)
        here = here[np.argsort(label[here], kind="stable")]
        with ONE_AT_A_TIME:
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
        n_components -= n_joined
    if not starts:
        return graph
    start, stop = np.concatenate(starts), np.concatenate(stops)
    links = csr_matrix((np.ones(len(start)), (start, stop)), shape=graph.shape)
    return csr_matrix(graph.maximum(links).maximum(links.T))


def with_rests(graph: scipy.sparse.csr_matrix, n_neighbors: int) -> scipy.sparse.csr_matrix:
    """The graph for walks that now and then rest: every node is also linked to itself.

    As strongly as to one of its neighbours on average. Otherwise walks on bipartite graphs would
    alternate for ever.
    """
    from scipy.sparse import csr_matrix, diags

    degree = np.asarray(graph.sum(axis=1)).ravel()
    return csr_matrix(graph + diags(degree / n_neighbors))
