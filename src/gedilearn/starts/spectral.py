"""Clusters from the slowest modes of walks on the weighted neighbour graph."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from gedilearn.graph.neighbours import Floats, Ints

if TYPE_CHECKING:
    import scipy.sparse

# In up to this many columns the factors of the graph's matrix are sparse. A shifted solver then
# finds modes with nearly equal eigenvalues.
FLAT = 10
# A shift just above the largest eigenvalue, which is 1.
SHIFT = 1 + 1e-5
# Up to this many nodes a dense matrix is as fast.
DENSE = 200
# Weaker links are ignored: the modes of the components that they join do not change.
WEAK = 1e-8


def slow_modes(
    graph: scipy.sparse.csr_matrix, n_modes: int, flat: bool, random_state: int = 0
) -> tuple[Floats, Floats]:
    """The largest eigenvalues of the walk on the graph, descending, and their modes (n, n_modes).

    The walk D^-1 W and the symmetric D^-1/2 W D^-1/2 have the same eigenvalues. A mode of the walk
    is an eigenvector of the symmetric matrix times D^-1/2. `flat`: see `FLAT`.
    """
    from scipy.sparse import csc_matrix, diags

    root = np.sqrt(np.asarray(graph.sum(axis=1)).ravel())
    symmetric = csc_matrix(diags(1 / root) @ graph @ diags(1 / root))
    start = np.random.default_rng(random_state).uniform(-1, 1, len(root))
    if flat or len(root) <= DENSE:
        values, vectors = _largest(symmetric, n_modes, start, SHIFT)
    else:
        values, vectors = _by_components(symmetric, n_modes, start)
    order = np.argsort(-values, kind="stable")[:n_modes]
    return values[order], vectors[:, order] / root[:, None]


def _largest(
    symmetric: scipy.sparse.csc_matrix, n_modes: int, start: Floats, shift: float | None
) -> tuple[Floats, Floats]:
    from scipy.sparse.linalg import ArpackError, eigsh

    n = symmetric.shape[0]
    if n_modes >= n - 1 or n <= DENSE:
        values, vectors = np.linalg.eigh(symmetric.toarray())
        return values[-n_modes:], vectors[:, -n_modes:]
    try:
        which = "LA" if shift is None else "LM"
        values, vectors = eigsh(symmetric, n_modes, which=which, sigma=shift, v0=start)
    except ArpackError:  # eigenvalues too close together: the shift separates them, roughly
        many = min(n - 1, 4 * n_modes + 40)
        values, vectors = eigsh(symmetric, n_modes, sigma=SHIFT, v0=start, ncv=many, tol=1e-3)
    return values, vectors


def _by_components(
    symmetric: scipy.sparse.csc_matrix, n_modes: int, start: Floats
) -> tuple[Floats, Floats]:
    """The modes of each component of the graph, the largest components first.

    Every component has an eigenvalue 1. Without a shift the solver misses most equal eigenvalues.
    """
    from scipy.sparse.csgraph import connected_components

    n_components, component = connected_components(symmetric > WEAK, directed=False)
    largest = np.argsort(-np.bincount(component), kind="stable")[:n_modes]
    each = max(n_modes - n_components + 1, 1)
    values, vectors = [], []
    for name in largest:
        own = np.flatnonzero(component == name)
        found, modes = _largest(symmetric[own][:, own], min(each, len(own)), start[own], None)
        values.append(found)
        vectors.append(np.zeros((len(component), len(found))))
        vectors[-1][own] = modes
    return np.concatenate(values), np.hstack(vectors)


def pivoted_clusters(modes: Floats) -> Ints:
    """Labels (n,) from modes (n, k), by a pivoted QR decomposition.

    It finds one row for each of k clusters. The modes are rotated until these rows are as close to
    the axes as a rotation allows. Each point belongs to the axis of its largest coordinate (Damle,
    Minden and Ying, Information and Inference 8, 2019). Unlike k-means, this is deterministic.
    """
    from scipy.linalg import polar, qr

    k = modes.shape[1]
    _, _, rows = qr(modes.T, mode="economic", pivoting=True)
    turn = polar(modes[rows[:k]].T)[0]
    return np.asarray(np.abs(modes @ turn).argmax(axis=1))
