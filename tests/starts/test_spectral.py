"""Slow modes against dense eigenvalues, clusters against scikit-learn's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.sparse import block_diag, csr_matrix
from scipy.sparse.csgraph import connected_components
from sklearn.cluster import spectral_clustering
from sklearn.datasets import make_blobs, make_moons
from sklearn.metrics import adjusted_rand_score

from gedilearn.graph.neighbours import knn_graph
from gedilearn.starts.spectral import pivoted_clusters, slow_modes


def cloud(n: int, seed: int = 0) -> Any:
    """The graph of two clouds that touch."""
    x = np.random.default_rng(seed).normal(size=(n, 2))
    x[: n // 2, 0] += 3.0
    return knn_graph(x, 10)[0]


def spectral_clusters(graph: Any, n_clusters: int, flat: bool) -> np.ndarray:
    return pivoted_clusters(slow_modes(graph, n_clusters, flat)[1])


def dense_walk(graph: Any) -> np.ndarray:
    weights = graph.toarray()
    return np.asarray(weights / weights.sum(axis=1, keepdims=True))


@pytest.mark.parametrize("n", [150, 400])
@pytest.mark.parametrize("flat", [True, False])
def test_modes_are_those_of_the_dense_walk_matrix(n: int, flat: bool) -> None:
    graph = cloud(n)
    values, modes = slow_modes(graph, 4, flat)
    walk = dense_walk(graph)
    expected = np.sort(np.linalg.eigvals(walk).real)[::-1][:4]
    np.testing.assert_allclose(values, expected, atol=1e-8)
    np.testing.assert_allclose(walk @ modes, modes * values, atol=1e-7)
    assert values[0] == pytest.approx(1)


@pytest.mark.parametrize("flat", [True, False])
def test_clusters_that_are_components_are_found_exactly(flat: bool) -> None:
    parts = [cloud(n, seed) for seed, n in enumerate((200, 60, 30))]
    graph, label = csr_matrix(block_diag(parts)), np.repeat([0, 1, 2], [200, 60, 30])
    values, _ = slow_modes(graph, 4, flat)
    assert slow_modes(graph, 3, flat)[0] == pytest.approx(np.ones(3))
    assert values[2] == pytest.approx(1) and values[3] < 1 - 1e-3
    assert adjusted_rand_score(spectral_clusters(graph, 3, flat), label) == 1.0


@pytest.mark.parametrize("n_clusters", [2, 3, 5])
def test_clusters_are_those_of_scikit_learn(n_clusters: int) -> None:
    graph = knn_graph(make_moons(300, noise=0.1, random_state=0)[0], 10)[0]
    theirs = spectral_clustering(
        graph, n_clusters=n_clusters, assign_labels="cluster_qr", random_state=0
    )
    ours = spectral_clusters(graph, n_clusters, flat=True)
    assert adjusted_rand_score(ours, theirs) > 0.98  # modes up to the solver's precision


def test_separated_clusters_in_many_columns_are_found() -> None:
    x, y = make_blobs(400, centers=8, n_features=30, random_state=0)
    graph = knn_graph(x, 10)[0]
    assert connected_components(graph)[0] == 8
    for joined in (graph, graph + 1e-12 * knn_graph(x, 60)[0]):  # links that weigh nothing
        assert adjusted_rand_score(spectral_clusters(joined, 8, flat=False), y) == 1.0


def test_more_parts_than_modes_leave_the_largest() -> None:
    parts = [cloud(n, seed) for seed, n in enumerate((30, 200, 25, 60))]
    _, modes = slow_modes(csr_matrix(block_diag(parts)), 2, flat=False)
    inside = [np.abs(modes[a:b]).sum() > 0 for a, b in ((0, 30), (30, 230), (230, 255), (255, 315))]
    assert inside == [False, True, False, True]
