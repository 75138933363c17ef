"""Nearest neighbours against all pairwise distances."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import pairwise_distances

from gedilearn.data import graph as neighbours


@pytest.mark.parametrize("d", [3, 30])
def test_the_nearest_of_few_and_of_many_columns_are_the_exact_ones(d: int) -> None:
    x = np.random.default_rng(0).normal(size=(1000, d))
    distance, index = neighbours.nearest(x, 5)
    apart = pairwise_distances(x)
    np.testing.assert_allclose(distance, np.sort(apart, axis=1)[:, 1:6], rtol=1e-6)
    np.testing.assert_allclose(distance, np.take_along_axis(apart, index, 1), rtol=1e-6)


def test_a_point_is_not_its_own_neighbour_but_its_duplicates_are() -> None:
    x = np.repeat(np.random.default_rng(0).normal(size=(100, 20)), 3, axis=0)
    distance, index = neighbours.nearest(x, 6)
    assert (index != np.arange(300)[:, None]).all()
    own = np.arange(300) // 3
    assert ((own[index] == own[:, None]).sum(axis=1) == 2).all()
    assert (distance[:, 1] < 1e-3).all()


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
