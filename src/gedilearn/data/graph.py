"""The weighted graph of nearest neighbours, and how it is kept from falling apart."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from gedilearn.data.neighbours import nearest
from gedilearn.errors import InputError
from gedilearn.threads import ONE_AT_A_TIME

if TYPE_CHECKING:
    import scipy.sparse

Floats = npt.NDArray[Any]
Ints = npt.NDArray[np.int32]

# The scale of a place is the distance to this neighbour, and no link weighs less than that.
LOCAL = 7
LEAST = 1e-12

# Fewer neighbours, at which clusters may be components of the graph, and the share of the points
# that may then be in others.
FEWER = (7, 5, 4, 3)
STRAYS = 0.05


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
    x = as_points(x)
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


def as_points(x: Floats) -> Floats:
    """Points (n, d) of which a graph can be made, in double precision."""
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
        large = are_large(label, n_clusters)
        if large.sum() == n_clusters and (~large[label]).mean() <= STRAYS:
            break
    else:
        assert asked is not None
        graph, radius, k, label = asked
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


def with_rests(graph: scipy.sparse.csr_matrix, n_neighbors: int) -> scipy.sparse.csr_matrix:
    """The graph for walks that now and then rest: every node is also linked to itself.

    As strongly as to one of its neighbours on average. Otherwise walks on bipartite graphs would
    alternate for ever.
    """
    from scipy.sparse import csr_matrix, diags

    degree = np.asarray(graph.sum(axis=1)).ravel()
    return csr_matrix(graph + diags(degree / n_neighbors))
