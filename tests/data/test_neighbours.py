"""Approximate neighbours against all pairwise distances."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.metrics import pairwise_distances

from gedilearn.data import graph as neighbours
from gedilearn.data.graph import descent_neighbours, nearest, tree_neighbours
from gedilearn.data.walks import walk_tables

Array = NDArray[Any]
Search = Callable[[Array, int, int], tuple[Array, Array]]

# Slow, because every process compiles it anew for half a minute.
SEARCHES = [
    pytest.param(tree_neighbours, 0.9, id="trees"),
    pytest.param(descent_neighbours, 0.97, id="descent", marks=pytest.mark.slow),
]


def clusters(n: int, d: int, seed: int) -> tuple[Array, NDArray[np.int64]]:
    rng = np.random.default_rng(seed)
    label = rng.integers(0, 5, n)
    return 2 * rng.normal(size=(5, d))[label] + rng.normal(size=(n, d)), label


def skip_without_extra(search: Search) -> None:
    if search is descent_neighbours:
        pytest.importorskip("pynndescent", reason='needs pip install "gedi-learn[large]"')


@pytest.mark.parametrize(("search", "least"), SEARCHES)
def test_nearly_all_nearest_are_found_at_their_distances(search: Search, least: float) -> None:
    skip_without_extra(search)
    for seed in range(3):
        x, _ = clusters(3_000, 20, seed)
        distance, index = search(x, 10, seed)
        all_distances = pairwise_distances(x)
        np.testing.assert_allclose(distance, np.take_along_axis(all_distances, index, 1), rtol=1e-3)
        assert (np.diff(distance, axis=1) >= 0).all()
        np.fill_diagonal(all_distances, np.inf)
        true = np.argpartition(all_distances, 10, axis=1)[:, :10]
        found = (index[:, :, None] == true[:, None]).any(axis=2)
        assert found.mean() > least


@pytest.mark.parametrize(("search", "least"), SEARCHES)
def test_a_point_is_not_its_own_neighbour_but_its_duplicates_are(
    search: Search, least: float
) -> None:
    skip_without_extra(search)
    x = np.repeat(clusters(700, 20, 0)[0], 3, axis=0)
    distance, index = search(x, 6, 0)
    assert (index != np.arange(len(x))[:, None]).all()
    assert all(len(set(row)) == 6 for row in index.tolist())
    heap = np.arange(len(x)) // 3
    assert ((heap[index] == heap[:, None]).sum(axis=1) == 2).mean() > least
    assert (distance[:, 1] < 1e-3).mean() > least


def test_without_the_extra_large_data_still_get_a_graph_and_one_line_of_warning(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(neighbours, "EXACT_COST", 1)
    monkeypatch.setattr(neighbours.importlib.util, "find_spec", lambda name: None)
    x, label = clusters(3_000, 20, 0)
    with pytest.warns(UserWarning, match=r'pip install "gedi-learn\[large\]"') as caught:
        tables = walk_tables(x, 5)
    assert "\n" not in str(caught[0].message)
    # Single steps stay in the cluster as often as those along the exact graph.
    monkeypatch.undo()
    exact = walk_tables(x, 5)
    stay = [(label[t.ends[0].numpy()] == label[:, None]).mean() for t in (tables, exact)]
    assert abs(stay[0] - stay[1]) < 0.02


@pytest.mark.slow
def test_with_the_extra_large_data_are_searched_by_descent_in_silence(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    skip_without_extra(descent_neighbours)
    monkeypatch.setattr(neighbours, "EXACT_COST", 1)
    x, _ = clusters(2_000, 20, 0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        _, index = nearest(x, 10, 3)
    np.testing.assert_array_equal(index, descent_neighbours(x, 10, 3)[1])


def test_few_dimensions_or_few_points_are_searched_exactly(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for n, d, cost in ((2_000, 10, 1), (2_000, 30, 2_000**2 * 80)):
        monkeypatch.setattr(neighbours, "EXACT_COST", cost)
        x, _ = clusters(n, d, 0)
        distance, index = nearest(x, 5)
        expected = np.sort(pairwise_distances(x), axis=1)[:, 1:6]
        np.testing.assert_allclose(distance, expected, rtol=1e-6)
        assert index.shape == (n, 5)


def test_neighbours_by_products_are_the_exact_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    x = np.random.default_rng(0).normal(size=(300, 20)) + 100.0  # far from 0
    x[7] = x[8]
    monkeypatch.setattr(neighbours, "_BLOCK", 300 * 64)
    monkeypatch.setattr(neighbours, "MANY_COLUMNS", 20)
    monkeypatch.setattr(neighbours, "MANY_POINTS", 300)
    distance, index = neighbours.nearest(x, 10)
    expected, exact = neighbours.exact_neighbours(x, 10)
    both = np.isin(exact, (7, 8))  # which of two equal points comes first is chance
    np.testing.assert_array_equal(index[~both], exact[~both])
    np.testing.assert_allclose(distance, expected, atol=1e-6)
    assert distance.dtype == np.float64 and index[7, 0] == 8
    distance, index = neighbours.nearest(x.astype(np.float32), 299)
    assert index.shape == (300, 299)
