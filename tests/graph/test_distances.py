"""Distance features."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import kstest, kurtosis

from gedilearn.data.arrays import TWO_VALUED
from gedilearn.graph.neighbours import dequantise, distance_features, limit_tails


def rng() -> np.random.Generator:
    return np.random.default_rng(0)


# --- repeated values -----------------------------------------------------------------------------


def test_six_repeated_values_become_uniform_over_their_cells() -> None:
    values = rng().integers(1, 7, 3000).astype(float)
    column = dequantise(values[:, None], rng())[:, 0]
    assert len(np.unique(column)) == 3000
    assert column.mean() == pytest.approx(0, abs=1e-9)
    assert column.std() == pytest.approx(values.std())  # as large as it was
    # Six cells of equal width, half a step beyond the first and the last value.
    low, high = column.min(), column.max()
    assert kstest((column - low) / (high - low), "uniform").pvalue > 0.01


def test_a_column_of_two_values_has_a_smaller_deviation() -> None:
    x = np.c_[rng().integers(0, 2, 1000), rng().integers(0, 3, 1000)].astype(float)
    x = (x - x.mean(axis=0)) / x.std(axis=0)
    np.testing.assert_allclose(dequantise(x, rng()).std(axis=0), [TWO_VALUED, 1.0])
    np.testing.assert_allclose(dequantise(x / 10, rng()).std(axis=0), [0.1, 0.1])


def test_the_same_seed_gives_the_same_features_and_the_data_is_not_changed() -> None:
    x = rng().integers(0, 3, (100, 2)).astype(float)
    before = x.copy()
    np.testing.assert_array_equal(distance_features(x, 3), distance_features(x, 3))
    assert not np.array_equal(distance_features(x, 3), distance_features(x, 4))
    np.testing.assert_array_equal(x, before)


# --- tails ---------------------------------------------------------------------------------------


def test_an_outlier_does_not_decide_about_nearest_neighbours() -> None:
    data = np.c_[rng().random(400), rng().normal(size=400), rng().random(400)]
    data[7, 1] = 1e4
    limited = limit_tails(data)
    mean, deviation = data.mean(axis=0), data.std(axis=0)
    # Uniform columns have a kurtosis of 1.8, below a Gaussian's: they only lose their mean.
    np.testing.assert_allclose(limited[:, [0, 2]], (data - mean)[:, [0, 2]])
    shorter = 3 / kurtosis(data[:, 1], fisher=False)
    assert shorter < 0.01
    away = (data[7, 1] - mean[1]) / deviation[1]
    expected = (3 + np.log(1 + away - 3)) * deviation[1] * shorter
    assert limited[7, 1] == pytest.approx(expected)
    inside = np.arange(400) != 7
    np.testing.assert_allclose(limited[inside, 1], (data - mean)[inside, 1] * shorter)


# --- very many -----------------------------------------------------------------------------------


def test_features_of_very_many_points_are_the_same_in_single_precision(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    x = rng().normal(size=(500, 5))
    x[:, 1] = rng().integers(0, 6, 500)
    x[:, 2] **= 3
    x = (x - x.mean(axis=0)) / x.std(axis=0)
    expected = distance_features(x)
    monkeypatch.setattr("gedilearn.graph.neighbours.SINGLE", 1000)
    got = distance_features(x)
    assert got.dtype == np.float32
    np.testing.assert_allclose(got, expected, atol=1e-5)


def test_few_equal_values_among_very_many_stay() -> None:
    x = rng().normal(size=(1000, 1))
    x[1] = x[0]
    np.testing.assert_array_equal(dequantise(x, rng(), distinct=0.9), x)
    assert (dequantise(x, rng())[:2] != x[:2]).all()
