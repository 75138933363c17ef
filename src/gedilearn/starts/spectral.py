"""A start from the slowest modes of walks on the weighted neighbour graph."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    import scipy.sparse

Floats = npt.NDArray[Any]
Ints = npt.NDArray[Any]

# In up to this many columns a graph is so nearly flat that its matrix is factorised with few new
# entries; then modes are found however close together they are.
FLAT = 10
# A shift just above the largest eigenvalue, which is 1.
SHIFT = 1 + 1e-5
# Up to this many nodes a dense matrix is as fast.
DENSE = 200
# Links so weak that the parts of a graph that they join have modes as if they were apart.
APART = 1e-8


def slow_modes(
    graph: scipy.sparse.csr_matrix, n_modes: int, flat: bool, random_state: int = 0
) -> tuple[Floats, Floats]:
    """The largest eigenvalues of the walk on the graph, descending, and their modes (n, n_modes).

    The walk D^-1 W and the symmetric D^-1/2 W D^-1/2 have the same eigenvalues; a mode of the first
    is one of the second times D^-1/2.
    """
    from scipy.sparse import csc_matrix, diags

    root = np.sqrt(np.asarray(graph.sum(axis=1)).ravel())
    symmetric = csc_matrix(diags(1 / root) @ graph @ diags(1 / root))
    start = np.random.default_rng(random_state).uniform(-1, 1, len(root))
    if flat or len(root) <= DENSE:
        values, vectors = _largest(symmetric, n_modes, start, SHIFT)
    else:
        values, vectors = _by_parts(symmetric, n_modes, start)
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
    except ArpackError:  # too close together: the shift sets them apart, roughly
        many = min(n - 1, 4 * n_modes + 40)
        values, vectors = eigsh(symmetric, n_modes, sigma=SHIFT, v0=start, ncv=many, tol=1e-3)
    return values, vectors


def _by_parts(
    symmetric: scipy.sparse.csc_matrix, n_modes: int, start: Floats
) -> tuple[Floats, Floats]:
    """The modes of each part of a graph that falls apart, the largest parts first.

    Every part has an eigenvalue 1, and without a shift the iteration misses most of those that are
    equal.
    """
    from scipy.sparse.csgraph import connected_components

    n_parts, part = connected_components(symmetric > APART, directed=False)
    largest = np.argsort(-np.bincount(part), kind="stable")[:n_modes]
    each = max(n_modes - n_parts + 1, 1)
    values, vectors = [], []
    for name in largest:
        own = np.flatnonzero(part == name)
        found, modes = _largest(symmetric[own][:, own], min(each, len(own)), start[own], None)
        values.append(found)
        vectors.append(np.zeros((len(part), len(found))))
        vectors[-1][own] = modes
    return np.concatenate(values), np.hstack(vectors)


def pivoted_clusters(modes: Floats) -> Ints:
    """Labels (n,) from modes (n, k): rows that stand for k clusters are found by a pivoted QR.

    The modes are turned so that these rows become the axes, as nearly as a rotation can; each point
    belongs to the axis that is largest in it (Damle, Minden and Ying, Information and Inference 8,
    2019). Unlike k-means there, it starts from nothing random.
    """
    from scipy.linalg import polar, qr

    k = modes.shape[1]
    _, _, rows = qr(modes.T, mode="economic", pivoting=True)
    turn = polar(modes[rows[:k]].T)[0]
    return np.asarray(np.abs(modes @ turn).argmax(axis=1))
