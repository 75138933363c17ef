"""The tables of `shapes` are what their descriptions say."""

from __future__ import annotations

import numpy as np
import pytest

from gedilearn.experiments import table_sets as tables
from gedilearn.experiments.shape_sets import SHAPES


def test_only_the_first_twenty_columns_of_the_mixture_tell_the_clusters() -> None:
    data = tables.mixture_50(2000, 0)
    means = np.stack([data.x[data.y == k].mean(0) for k in range(4)])
    assert data.x.shape == (2000, 50)
    assert np.abs(means[:, :20] - tables.CENTRES_20).max() < 0.3
    assert np.abs(means[:, 20:]).max() < 0.3
    assert (tables.likeliest_of_mixture(data.x) == data.y).mean() > 0.99


def test_one_point_in_fifty_is_an_outlier() -> None:
    data = tables.outliers(1000, 0)
    far = (data.x < -5).any(1) | (data.x > 11).any(1)
    assert 10 <= far.sum() <= 20
    assert not far[20:].any()


def test_duplicates_come_in_fives_that_share_their_label() -> None:
    data = tables.duplicates(100, 0)
    groups = data.x.reshape(20, 5, 2)
    assert (groups.max(1) - groups.min(1)).max() < 1e-3
    assert (data.y.reshape(20, 5) == data.y.reshape(20, 5)[:, :1]).all()


def test_tails_are_heavy_about_the_centres() -> None:
    data = tables.heavy_tails(30_000, 0)
    away = data.x - tables.CENTRES_TAILS[data.y]
    assert np.abs(np.median(away, axis=0)).max() < 0.05
    # Of Student's t with two degrees of freedom, 0.98 % lies beyond 10; of a Gaussian, nothing.
    assert np.mean(np.abs(away) > 10) == pytest.approx(0.0098, abs=0.002)


@pytest.mark.parametrize(("name", "shape"), [("iris", (150, 4)), ("breast-cancer", (569, 30))])
def test_real_tables_are_whole_whatever_number_is_asked_for(name: str, shape: object) -> None:
    assert SHAPES[name].draw(10, 3).x.shape == shape
