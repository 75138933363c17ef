"""Neighbours against all pairwise distances, walks against dense powers of their matrix."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from scipy.sparse.csgraph import connected_components
from sklearn.metrics import pairwise_distances

from gedilearn.errors import InputError
from gedilearn.graph import walks as walks_module
from gedilearn.graph.neighbours import (
    connected_graph,
    knn_graph,
    lazy_walk_graph,
    nearest_neighbours,
)
from gedilearn.graph.walks import draw, return_trace, walk_tables
from helpers import SEEDED

Array = NDArray[np.float64]


def ring(n: int, seed: int = 0) -> Array:
    """A thin ring: it mixes slowly, so walks of neighbouring lengths differ visibly."""
    rng = np.random.default_rng(seed)
    angle = rng.uniform(0, 2 * np.pi, n)
    return np.c_[np.cos(angle), np.sin(angle)] + 0.02 * rng.normal(size=(n, 2))


def groups(sizes: list[int], distance: float, seed: int = 0) -> tuple[Array, NDArray[np.int64]]:
    rng = np.random.default_rng(seed)
    label = np.repeat(np.arange(len(sizes)), sizes)
    return rng.normal(size=(len(label), 2)) + distance * label[:, None], label


def link_weights(x: Array, k: int) -> Array:
    """The dense weights, from all pairwise distances and without the sparse code."""
    distance = pairwise_distances(x)
    np.fill_diagonal(distance, np.inf)
    near = np.zeros(distance.shape, dtype=bool)
    np.put_along_axis(near, np.argsort(distance, axis=1)[:, :k], True, axis=1)
    weight = np.zeros(distance.shape)
    scale = np.sort(distance, axis=1)[:, 6]
    for i, j in zip(*np.nonzero(near | near.T), strict=True):
        weight[i, j] = np.exp(-(distance[i, j] ** 2) / (scale[i] * scale[j]))
    return weight


def walk_matrix(x: Array, k: int) -> Array:
    """The dense P: a walk stays as often as it takes one of k links on average."""
    weight = link_weights(x, k)
    weight += np.diag(weight.sum(axis=1) / k)
    return weight / weight.sum(axis=1, keepdims=True)


def drawn_distribution(
    x: Array, k: int, steps: list[int], seeds: range, width: int, repeats: int
) -> dict[int, Array]:
    """For each number of steps the (n, n) frequencies of ends, averaged over fresh tables."""
    n = len(x)
    start = torch.arange(n)[:, None].expand(n, repeats)
    counts = {t: np.zeros((n, n)) for t in steps}
    for seed in seeds:
        tables = walk_tables(x, 1, n_neighbors=k, width=width, random_state=seed)
        generator = torch.Generator().manual_seed(seed)
        for t in steps:
            pair = start * n + draw(tables, start, t, generator)
            counts[t] += torch.bincount(pair.flatten(), minlength=n * n).view(n, n).numpy()
    return {t: count / (len(seeds) * repeats) for t, count in counts.items()}


def mean_total_variation(p: Array, q: Array) -> float:
    return float(0.5 * np.abs(p - q).sum(axis=1).mean())


def expected_total_variation(p: Array, samples: float) -> float:
    """Mean TV between p and frequencies of that many draws: E|N(0, s)| = s sqrt(2 / pi)."""
    return float(np.sqrt(p * (1 - p) / (2 * np.pi * samples)).sum(axis=1).mean())


@pytest.mark.parametrize("d", [3, 30])
def test_neighbours_in_few_and_many_columns_are_exact(d: int) -> None:
    x = np.random.default_rng(0).normal(size=(1000, d))
    distance, index = nearest_neighbours(x, 8)
    apart = pairwise_distances(x)
    np.testing.assert_allclose(distance, np.sort(apart, axis=1)[:, 1:9], rtol=1e-6)
    np.testing.assert_allclose(distance, np.take_along_axis(apart, index, 1), rtol=1e-6)


def test_a_point_is_not_its_own_neighbour_but_its_duplicates_are() -> None:
    x = np.repeat(np.random.default_rng(0).normal(size=(100, 20)), 3, axis=0)
    distance, index = nearest_neighbours(x, 8)
    assert (index != np.arange(300)[:, None]).all()
    own = np.arange(300) // 3
    assert ((own[index] == own[:, None]).sum(axis=1) == 2).all()
    assert (distance[:, 1] < 1e-3).all()


@pytest.mark.parametrize("k", [4, 7, 12])
def test_links_weigh_by_their_length_in_units_of_both_local_scales(k: int) -> None:
    x = np.random.default_rng(0).normal(size=(80, 3))
    graph, radius = knn_graph(x, k)
    np.testing.assert_allclose(graph.toarray(), link_weights(x, k), rtol=1e-10)
    np.testing.assert_allclose(radius, np.sort(pairwise_distances(x), axis=1)[:, k])


def test_lazy_walks_stay_as_often_as_they_take_one_of_k_links() -> None:
    x = np.random.default_rng(0).normal(size=(80, 3))
    graph = lazy_walk_graph(knn_graph(x, 7)[0], 7).toarray()
    np.testing.assert_allclose(graph / graph.sum(axis=1, keepdims=True), walk_matrix(x, 7))
    np.testing.assert_allclose(np.diag(graph) / graph.sum(axis=1), 1 / 8)


@pytest.mark.parametrize(
    ("n", "steps", "seeds", "width", "repeats"),
    [(60, [1, 2, 3, 5, 8], 8, 2048, 4096), (100, [64, 128, 256], 40, 128, 512)],
    ids=["walked", "spliced"],
)
def test_walks_follow_the_matrix_power_of_exactly_that_many_steps(
    n: int, steps: list[int], seeds: int, width: int, repeats: int
) -> None:
    x, k = ring(n), 4
    p = walk_matrix(x, k)
    assert connected_components(p)[0] == 1
    drawn = drawn_distribution(x, k, steps, range(seeds), width, repeats)
    for t in steps:
        exact = np.linalg.matrix_power(p, t)
        # Two sources of noise: the table's columns, at most once for each level passed, and the
        # draws from them. Spliced walks from one node are as good as independent ones.
        passed = bin(t).count("1")
        samples = seeds / (passed / width + 1 / repeats)
        # The mean over the nodes of the TV is within a few per cent of its expectation.
        tolerance = 1.1 * expected_total_variation(exact, samples)
        assert mean_total_variation(drawn[t], exact) < tolerance
        for wrong in (t - 1, t + 1) if t < 64 else (t // 2, 2 * t):
            other = np.linalg.matrix_power(p, wrong)
            assert mean_total_variation(drawn[t], other) > 1.5 * tolerance


def test_traces_agree_with_the_eigenvalues_and_lengthening_stops_at_the_first_low_one() -> None:
    x, width = ring(150), 64
    eigenvalue = np.linalg.eigvals(walk_matrix(x, 6)).real
    runs = [walk_tables(x, 1, n_neighbors=6, width=width, random_state=s) for s in range(8)]
    for tables in runs:
        assert len(tables.traces) == tables.ends.shape[0]
        assert tables.traces[-1] <= 1.5 < min(tables.traces[:-1])
    levels = min(len(tables.traces) for tables in runs)
    assert 2 ** (levels - 1) > 64  # spliced walks are among them
    for j in range(levels):
        exact = (eigenvalue**2**j).sum()
        estimate = np.mean([tables.traces[j] for tables in runs])
        error = np.sqrt(2 * exact) / width / np.sqrt(len(runs))
        # 4 standard errors, and 1 % for spliced walks, which are not quite independent.
        assert abs(estimate - exact) < 4 * error + (0.01 * exact if j > 6 else 0)


def test_the_estimate_of_a_trace_equals_a_loop_and_changes_no_table() -> None:
    n, width = 12, 5
    ends = np.random.default_rng(0).integers(0, n, (n, width)).astype(np.int32)
    before = ends.copy()
    estimate = return_trace(ends)
    np.testing.assert_array_equal(ends, before)
    expected = 0.0
    for i in range(n):
        for k in range(n):
            pairs = [
                ends[i, v] == k and ends[k, w] == i
                for v in range(width)
                for w in range(width)
                if (i, v) != (k, w)
            ]
            expected += np.mean(pairs)
    assert estimate == pytest.approx(expected)


def test_walks_stay_in_their_component() -> None:
    x, label = groups([70, 50], 100.0)
    tables = walk_tables(x, 2)
    assert tables.n_components == 2
    assert tables.n_neighbors == 10
    assert (label[tables.ends.numpy()] == label[None, :, None]).all()
    # The trace's limit is the number of components, within 4 standard errors.
    assert abs(tables.traces[-1] - 2) < 0.5 + 4 * np.sqrt(2 * 2.5) / 64


def test_fewer_neighbours_are_taken_where_clusters_are_then_components() -> None:
    # Two rings, one above the other: along them points are 1 apart; between them it is 2.6.
    angle, radius = np.arange(60) * (2 * np.pi / 60), 60 / (2 * np.pi)
    one = np.c_[radius * np.cos(angle), radius * np.sin(angle), np.zeros(60)]
    x = np.r_[one, one + np.array([0.0, 0.0, 2.6])]
    for k in (10, 7, 5):
        assert connected_components(knn_graph(x, k)[0])[0] == 1
    graph, reach, k, n_components = connected_graph(x, 2, 10)
    assert (k, n_components) == (4, 2)
    label = connected_components(graph)[1]
    assert len(set(label[:60])) == len(set(label[60:])) == 1
    np.testing.assert_allclose(reach, np.sort(pairwise_distances(x), axis=1)[:, 4])
    # No fewer neighbours give as many components: k stays as given.
    assert connected_graph(x, 3, 10)[2:] == (10, 1)
    assert connected_graph(x, 2, 3)[2:] == (3, 2)


def test_tables_of_many_points_are_narrower(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    x = ring(500)
    full = walk_tables(x, 1, n_neighbors=6)
    assert full.ends.shape[2] == 64
    monkeypatch.setattr(walks_module, "_MAX_WALKS", 500 * 40)
    monkeypatch.setattr(walks_module, "_MAX_BYTES", 4 * 22 * 500 * 10 + 1)
    small = walk_tables(x, 1, n_neighbors=6)
    assert small.ends.shape[1:] == (500, 10)
    assert small.ends.numel() * 4 <= walks_module._MAX_BYTES
    # The traces come from 40 walks a node, not from 10: 5 standard errors of both estimates.
    levels = min(len(full.traces), len(small.traces))
    for one, other in zip(full.traces[:levels], small.traces[:levels], strict=True):
        assert abs(one - other) < 5 * np.sqrt(2 * one) * np.hypot(1 / 40, 1 / 64)
    monkeypatch.setattr(walks_module, "_MAX_BYTES", 1)
    assert walk_tables(x, 1, n_neighbors=6).ends.shape[2] == 8


def test_identical_points_and_fewer_points_than_neighbours_have_walks() -> None:
    same = walk_tables(np.ones((30, 3)), 2)
    assert same.n_components <= 2
    assert (same.radius == 0).all()
    few = walk_tables(np.array([[0.0], [1.0], [3.0]]), 2, n_neighbors=10)
    assert few.n_neighbors == 2
    assert few.traces == (pytest.approx(1.0),)
    assert few.longest == 1
    np.testing.assert_allclose(few.radius.numpy(), [3.0, 2.0, 3.0])


@pytest.mark.parametrize("shape", [(5,), (1, 2)])
def test_points_without_a_graph_are_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(InputError, match="shape"):
        walk_tables(np.zeros(shape), 2)


def test_a_small_group_is_linked_to_its_nearest_large_one() -> None:
    rng = np.random.default_rng(0)
    groups_of_60 = [rng.normal(size=(60, 2)) + np.array([100.0 * k, 0]) for k in range(2)]
    small = np.array([[10.0, 0.0], [10.1, 0.0], [10.0, 0.1], [10.1, 0.1], [10.0, 0.2], [10.1, 0.2]])
    tables = walk_tables(np.vstack([*groups_of_60, small]), 2, n_neighbors=5)
    assert (tables.n_neighbors, tables.n_components) == (5, 2)
    ends = draw(tables, torch.arange(120, 126).repeat(200), tables.longest, SEEDED).numpy()
    assert (ends < 60).any() and not ((ends >= 60) & (ends < 120)).any()


@pytest.mark.parametrize("n", [30, 700])
def test_neighbours_from_products_are_those_of_all_pairwise_distances(
    n: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gedilearn.graph.neighbours.BLOCK", 100 * n)  # several blocks
    x = np.random.default_rng(0).normal(size=(n, 96)).astype(np.float32)
    x[1] = x[0]  # duplicates are neighbours of each other
    found = nearest_neighbours(x, 8)
    apart = pairwise_distances(x.astype(np.float64))
    np.fill_diagonal(apart, np.inf)
    nearest = np.sort(apart, axis=1)[:, : found.distance.shape[1]]
    assert found.distance == pytest.approx(nearest, abs=1e-4)
    own = np.take_along_axis(apart, found.neighbour, axis=1)
    assert own == pytest.approx(nearest, abs=1e-4)
    assert found.neighbour[0, 0] == 1 and found.neighbour[1, 0] == 0
