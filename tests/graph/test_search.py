"""Nearest neighbours against all pairwise distances."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import pairwise_distances

from gedilearn.graph.neighbours import nearest_neighbours


@pytest.mark.parametrize("d", [3, 30])
def test_the_nearest_of_few_and_of_many_columns_are_the_exact_ones(d: int) -> None:
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
