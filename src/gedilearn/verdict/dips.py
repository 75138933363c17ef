"""Whether clusters are apart: how far the density falls between them, and what they cut.

The log density at a point is -d log r, with r the distance to its k-th neighbour and d the
dimension of the points as neighbours see it. On a link between two neighbours it is that of the
largest of both radii and the length of the link (the mutual reachability of HDBSCAN): the density
that one has to pass through. The prominence of two clusters is the lower of their median log
densities less that of the best link between them, in nats: 1 says that the density between them is
e times lower than inside either. Clusters that no link joins are separated by a gap.

Dips prove clusters, but clusters of unlike density, or in many columns, may have none.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from gedilearn.graph.neighbours import Neighbours, knn_graph, nearest_neighbours, own_stream
from gedilearn.starts.choose import cut_shares

Floats = npt.NDArray[Any]
Ints = npt.NDArray[Any]

# The neighbour that sets the density at a point, and how many of them are links.
NEIGHBOURS, LINKS = 10, 20
# Single points between clusters do not join them: of the links of two clusters, this one counts.
BEST = 3
# Points looked at; of each cluster at least so many, if it has them.
MOST_POINTS, LEAST_EACH = 4_000, 60
# Of more columns than these, the principal directions that vary most: one for each cluster, and at
# least so many. In many columns all distances are alike.
MOST_COLUMNS, LEAST_COLUMNS = 10, 3


class Separation(NamedTuple):
    """How far clusters are apart."""

    prominence: Floats  # (clusters, clusters), symmetric; infinite where no link joins them
    cut: Floats  # (clusters,): the share of its links, by weight, that leave it; nan: no points


def separation(x: Floats, labels: Ints, n_clusters: int) -> Separation:
    """Of points x (n, d), as distances see them, with labels (n,)."""
    if x.shape[1] > MOST_COLUMNS:
        x = leading(x, max(n_clusters, LEAST_COLUMNS))
    neighbours = nearest_neighbours(x, LINKS)
    level, links, passed = log_densities(neighbours, x.shape[1])
    graph = knn_graph(x, NEIGHBOURS, neighbours)[0]
    cut = cut_shares(graph, labels, n_clusters)
    return Separation(prominences(level, links, passed, labels, n_clusters), cut)


def prominences(
    level: Floats, links: Ints, passed: Floats, labels: Ints, n_clusters: int
) -> Floats:
    """Of each two clusters: (clusters, clusters).

    level: (n,), log densities of the points; links: (m, 2), passed: (m,), log densities on them.
    """
    own = [level[labels == k] for k in range(n_clusters)]
    core = np.array([np.median(values) if len(values) else -np.inf for values in own])
    pair = np.sort(labels[links], axis=1) @ (n_clusters, 1)
    order = np.lexsort((-passed, pair))
    names, first, count = np.unique(pair[order], return_index=True, return_counts=True)
    best = passed[order][first + np.minimum(count, BEST) - 1]
    one, other = names // n_clusters, names % n_clusters
    found = np.full((n_clusters, n_clusters), np.inf)
    found[one, other] = found[other, one] = np.minimum(core[one], core[other]) - best
    np.fill_diagonal(found, np.inf)
    return found


def log_densities(neighbours: Neighbours, columns: int) -> tuple[Floats, Ints, Floats]:
    """At the points (n,), and on the links (m, 2) between them (m,), each link once."""
    distance, index = neighbours
    n, k = distance.shape
    distance = np.maximum(distance, 1e-12)
    radius = distance[:, min(NEIGHBOURS, k) - 1]
    links = np.stack([np.repeat(np.arange(n), k), index.ravel()], axis=1)
    reach = np.maximum(distance.ravel(), radius[links].max(axis=1))
    names, once = np.unique(np.sort(links, axis=1) @ (n, 1), return_index=True)
    d = dimension(distance[:, :NEIGHBOURS], columns)
    links = np.stack([names // n, names % n], axis=1)
    return -d * np.log(radius), links, -d * np.log(reach[once])


def dimension(distance: Floats, columns: int) -> float:
    """Of points with these distances (n, k) to their neighbours: from 1 to the columns.

    The estimate of Levina and Bickel (2004), with the mean over points taken of its inverse.
    """
    k = distance.shape[1]
    growth = np.log(distance[:, -1:] / distance[:, :-1]).mean() if k > 1 else 0.0
    return float(np.clip(1 / growth if growth > 0 else 1.0, 1.0, columns))


def stratified(labels: Ints, random_state: int) -> Ints:
    """Rows of about `MOST_POINTS` points, or of all, in which small clusters are present too."""
    n = len(labels)
    if n <= MOST_POINTS:
        return np.arange(n)
    rng, chosen = own_stream(random_state), []
    for name in np.unique(labels):
        rows = np.flatnonzero(labels == name)
        size = max(LEAST_EACH, MOST_POINTS * len(rows) // n)
        chosen.append(rng.choice(rows, min(size, len(rows)), replace=False))
    return np.sort(np.concatenate(chosen))


def leading(x: Floats, most: int) -> Floats:
    """Coordinates in the principal directions that vary most.  (n, d) -> (n, at most `most`)."""
    centred = np.asarray(x, np.float64) - x.mean(axis=0)
    if x.shape[1] > len(x):  # the same coordinates, up to signs, from the smaller product
        values, vectors = np.linalg.eigh(centred @ centred.T)
        return np.asarray(vectors[:, -most:] * np.sqrt(np.maximum(values[-most:], 0)))
    return np.asarray(centred @ np.linalg.eigh(centred.T @ centred)[1][:, -most:])
