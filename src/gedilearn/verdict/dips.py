"""Density dips between clusters, and the links that clusters cut.

The log-density at a point is -d log r, where r is the distance to its k-th neighbour and d the
intrinsic dimension of the distance features. On a link, r is the largest of the length of the link
and the radii of its two ends (the mutual reachability of HDBSCAN). The density dip of two clusters
is the lower of their median log-densities minus that of the best link between them, in nats. A dip
of 1 means that the density between them is e times lower than inside either. Clusters that no link
joins are disconnected.

A dip is evidence for two clusters. Clusters of different density or in many columns may have none.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gedilearn.graph.neighbours import (
    Floats,
    Ints,
    Neighbours,
    knn_graph,
    nearest_neighbours,
    own_stream,
)
from gedilearn.starts.choose import cut_shares

# The neighbour whose distance is the radius of a point, and the number of neighbours with links.
NEIGHBOURS, LINKS = 10, 20
# The best link of two clusters is the third best: one or two points between them join nothing.
BEST = 3
# The number of rows that are measured, and the least of each cluster, if it has them.
MOST_POINTS, LEAST_EACH = 4_000, 60
# Above so many columns, points are projected to their principal directions: one for each cluster,
# and at least so many. In many columns all distances are alike.
MOST_COLUMNS, LEAST_COLUMNS = 10, 3


class Separation(NamedTuple):
    """Density dips between clusters, and their cuts."""

    dip: Floats  # (clusters, clusters), symmetric, in nats; infinite where no link joins them
    cut: Floats  # (clusters,): the share of links, by weight, that leave it; nan without points


def separation(x: Floats, labels: Ints, n_clusters: int) -> Separation:
    """Of distance features x (n, d) with labels (n,)."""
    if x.shape[1] > MOST_COLUMNS:
        x = principal_coordinates(x, max(n_clusters, LEAST_COLUMNS))
    neighbours = nearest_neighbours(x, LINKS)
    at_points, links, on_links = log_densities(neighbours, x.shape[1])
    graph = knn_graph(x, NEIGHBOURS, neighbours)[0]
    cut = cut_shares(graph, labels, n_clusters)
    return Separation(density_dips(at_points, links, on_links, labels, n_clusters), cut)


def density_dips(
    at_points: Floats, links: Ints, on_links: Floats, labels: Ints, n_clusters: int
) -> Floats:
    """The density dip of each two clusters: (clusters, clusters).

    at_points: (n,) and on_links: (m,) are log-densities; links: (m, 2).
    """
    own = [at_points[labels == k] for k in range(n_clusters)]
    core = np.array([np.median(values) if len(values) else -np.inf for values in own])
    pair = np.sort(labels[links], axis=1) @ (n_clusters, 1)
    order = np.lexsort((-on_links, pair))
    names, first, count = np.unique(pair[order], return_index=True, return_counts=True)
    best = on_links[order][first + np.minimum(count, BEST) - 1]
    one, other = names // n_clusters, names % n_clusters
    dip = np.full((n_clusters, n_clusters), np.inf)
    dip[one, other] = dip[other, one] = np.minimum(core[one], core[other]) - best
    np.fill_diagonal(dip, np.inf)
    return dip


def log_densities(neighbours: Neighbours, columns: int) -> tuple[Floats, Ints, Floats]:
    """At the points (n,), and on the links (m, 2) between them (m,), each link once."""
    distance, index = neighbours
    n, k = distance.shape
    distance = np.maximum(distance, 1e-12)
    radius = distance[:, min(NEIGHBOURS, k) - 1]
    links = np.stack([np.repeat(np.arange(n), k), index.ravel()], axis=1)
    reach = np.maximum(distance.ravel(), radius[links].max(axis=1))
    names, once = np.unique(np.sort(links, axis=1) @ (n, 1), return_index=True)
    d = intrinsic_dimension(distance[:, :NEIGHBOURS], columns)
    links = np.stack([names // n, names % n], axis=1)
    return -d * np.log(radius), links, -d * np.log(reach[once])


def intrinsic_dimension(distance: Floats, columns: int) -> float:
    """Of points with these distances (n, k) to their neighbours: between 1 and the columns.

    The estimate of Levina and Bickel (2004), with the mean over points of its inverse.
    """
    k = distance.shape[1]
    growth = np.log(distance[:, -1:] / distance[:, :-1]).mean() if k > 1 else 0.0
    return float(np.clip(1 / growth if growth > 0 else 1.0, 1.0, columns))


def stratified_rows(labels: Ints, random_state: int) -> Ints:
    """About `MOST_POINTS` rows, at least `LEAST_EACH` of each cluster that has them; or all."""
    n = len(labels)
    if n <= MOST_POINTS:
        return np.arange(n)
    rng, chosen = own_stream(random_state), []
    for name in np.unique(labels):
        rows = np.flatnonzero(labels == name)
        size = max(LEAST_EACH, MOST_POINTS * len(rows) // n)
        chosen.append(rng.choice(rows, min(size, len(rows)), replace=False))
    return np.sort(np.concatenate(chosen))


def principal_coordinates(x: Floats, most: int) -> Floats:
    """Coordinates in the directions of largest variance.  (n, d) -> (n, at most `most`)."""
    from sklearn.decomposition import PCA

    n, d = x.shape
    solver = "covariance_eigh" if d <= n else "arpack"
    principal = PCA(min(most, d, n - 1), svd_solver=solver, random_state=0)
    return np.asarray(principal.fit_transform(np.asarray(x, np.float64)))
