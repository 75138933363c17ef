"""The sets of `gedi reproduce shapes`: what is drawn, and what is known of it."""

from __future__ import annotations

import numpy as np
import pytest

from gedilearn.experiments import shape_pieces, shape_sets, shape_tables
from gedilearn.experiments.shape_sets import FAMILIES, SHAPES

N = 500  # the rarest cluster then has some 20 points
ALL = pytest.mark.parametrize("name", SHAPES)


@ALL
def test_a_set_is_finite_and_has_its_clusters(name: str) -> None:
    shape = SHAPES[name]
    data = shape.draw(N, 0)
    assert data.x.ndim == 2 and data.x.dtype == np.float64 and np.isfinite(data.x).all()
    assert (np.ptp(data.x, axis=0) > 0).all() or name == "digits"  # whose edges are blank
    assert (data.y is None) == shape.structureless
    if data.y is not None:
        assert data.y.shape == (len(data.x),)
        clusters = set(np.unique(data.y)) - {shape_pieces.NOT_SCORED}
        assert clusters == set(range(shape.n_clusters))


@ALL
def test_a_seed_draws_its_own_points_and_the_same_ones_again(name: str) -> None:
    shape = SHAPES[name]
    first, again, other = (shape.draw(N, seed).x for seed in (3, 3, 4))
    assert np.array_equal(first, again)
    assert first.shape == other.shape
    assert np.array_equal(first, other) != shape.fresh


@pytest.mark.parametrize("name", [name for name, shape in SHAPES.items() if shape.best])
def test_the_likeliest_cluster_is_mostly_the_true_one(name: str) -> None:
    shape = SHAPES[name]
    data = shape.draw(N, 0)
    assert data.y is not None and shape.best is not None
    known = data.y != shape_pieces.NOT_SCORED
    assert (shape.best(data.x[known]) == data.y[known]).mean() > 0.95


def test_families_have_names_of_their_own_and_share_no_set() -> None:
    assert not set(FAMILIES) & set(SHAPES)
    assert [name for sets in FAMILIES.values() for name in sets] == list(SHAPES)


def test_thin_shapes_have_few_points_and_many_clusters_have_enough() -> None:
    assert {len(SHAPES[name].draw(1000, 0).x) for name in FAMILIES["thin"]} == {300}
    for name in FAMILIES["many"]:
        y = SHAPES[name].draw(80, 0).y
        assert y is not None and np.bincount(y).min() >= 40


@pytest.mark.parametrize(("name", "ratio"), [("blobs-2-1", 2), ("blobs-5-1", 5), ("arcs-3-1", 3)])
def test_unequal_clusters_have_the_ratio_of_their_name(name: str, ratio: int) -> None:
    y = SHAPES[name].draw(2000, 0).y
    assert y is not None
    sizes = np.bincount(y)
    assert sizes.max() / sizes.min() == pytest.approx(ratio, rel=0.01)


def test_whole_numbers_come_as_near_to_shares_as_they_can() -> None:
    counts = np.bincount(shape_pieces.labels(10, (5, 3, 1)))
    assert counts.tolist() == [6, 3, 1]  # of 5.6, 3.3 and 1.1


def test_one_point_in_ten_is_noise_in_the_box_of_the_others() -> None:
    data = SHAPES["rings-in-noise"].draw(1000, 0)
    assert data.y is not None
    stray = data.y == shape_pieces.NOT_SCORED
    assert stray.sum() == 100
    away = np.linalg.norm(data.x, axis=1)
    off = np.abs(away - np.clip(np.round(away), 1, 3)) > 0.3
    assert off[stray].mean() > 0.2 and not off[~stray].any()
    assert (np.abs(data.x[stray]) <= np.abs(data.x[~stray]).max(0)).all()


def test_points_lie_evenly_along_strokes_whatever_their_lengths() -> None:
    draw = shape_pieces.along([(0, 0), (1, 0)], [(0, 5), (0, 6), (2, 6)], width=0.0)
    x = draw(np.random.default_rng(0), 40_000)
    low, upright = x[:, 1] == 0, (x[:, 1] > 0) & (x[:, 1] < 6)
    assert low.mean() == pytest.approx(1 / 4, abs=0.01)
    assert upright.mean() == pytest.approx(1 / 4, abs=0.01)
    assert np.quantile(x[low, 0], 0.3) == pytest.approx(0.3, abs=0.02)


@pytest.mark.parametrize("d", [1, 2, 5])
def test_a_ball_is_filled_evenly(d: int) -> None:
    x = shape_pieces.ball([1.0] * d, 2.0)(np.random.default_rng(0), 20_000)
    away = np.linalg.norm(x - 1.0, axis=1)
    assert away.max() <= 2
    assert (away < 1).mean() == pytest.approx(0.5**d, abs=0.01)


def test_diamonds_meet_at_corners_and_nowhere_else() -> None:
    data = SHAPES["diamonds"].draw(20_000, 0)
    centres = np.array([(x, y) for x in (0, 2) for y in (0, 2)])
    away = np.abs(data.x[:, None] - centres).sum(-1)
    assert away.min(1).max() <= 1
    assert (away.argmin(1) == data.y).all()


def test_linked_rings_pass_through_each_other() -> None:
    data = SHAPES["linked-rings"].draw(2000, 0)
    assert data.y is not None
    flat, upright = (data.x[data.y == k] for k in (0, 1))
    assert np.abs(np.linalg.norm(flat[:, :2], axis=1) - 1).max() < 0.3
    assert np.abs(np.linalg.norm(upright[:, [0, 2]] - (1, 0), axis=1) - 1).max() < 0.3
    assert np.abs(flat[:, 2]).max() < 0.3 and np.abs(upright[:, 1]).max() < 0.3


def test_centres_of_many_clusters_are_apart() -> None:
    centres = shape_pieces.sunflower(100)
    away = np.linalg.norm(centres[:, None] - centres, axis=-1) + 9 * np.eye(100)
    assert away.min() > 1.4 and away.min(1).max() < 2


def test_ratings_and_counts_have_the_means_of_their_classes() -> None:
    ratings, counts = shape_tables.ratings(9000, 0), shape_tables.counts(9000, 0)
    assert set(np.unique(ratings.x)) == {1, 2, 3, 4, 5}
    means = (shape_tables.rating_chances() * shape_tables.LEVELS).sum(-1)
    for k in range(3):
        assert ratings.x[ratings.y == k].mean(0) == pytest.approx(means[k], abs=0.1)
        assert counts.x[counts.y == k].mean(0) == pytest.approx(shape_tables.RATES[k], abs=0.3)


def test_the_mixed_table_has_categories_that_tell_and_others_that_do_not() -> None:
    data = shape_tables.mixed_table(9000, 0)
    means = np.stack([data.x[data.y == k].mean(0) for k in range(3)])
    assert means[:, 2:5] == pytest.approx(shape_tables.CATEGORIES, abs=0.03)
    assert means[:, 5] == pytest.approx(np.zeros(3), abs=0.06)
    assert means[:, 6:] == pytest.approx(np.full((3, 4), 0.25), abs=0.03)


def test_embeddings_are_unit_vectors() -> None:
    x = SHAPES["embeddings-128"].draw(100, 0).x
    assert np.linalg.norm(x, axis=1) == pytest.approx(np.ones(100))


def test_only_the_first_twenty_columns_of_the_mixture_tell_the_clusters() -> None:
    data = shape_tables.mixture_50(2000, 0)
    means = np.stack([data.x[data.y == k].mean(0) for k in range(4)])
    assert data.x.shape == (2000, 50)
    assert np.abs(means[:, :20] - shape_tables.CENTRES_20).max() < 0.3
    assert np.abs(means[:, 20:]).max() < 0.3
    assert (shape_tables.likeliest_of_mixture(data.x) == data.y).mean() > 0.99


def test_one_point_in_fifty_is_an_outlier() -> None:
    data = shape_sets.outliers(1000, 0)
    far = (data.x < -5).any(1) | (data.x > 11).any(1)
    assert 10 <= far.sum() <= 20
    assert not far[20:].any()


def test_duplicates_come_in_fives_that_share_their_label() -> None:
    data = shape_sets.duplicates(100, 0)
    groups = data.x.reshape(20, 5, 2)
    assert (groups.max(1) - groups.min(1)).max() < 1e-3
    assert (data.y.reshape(20, 5) == data.y.reshape(20, 5)[:, :1]).all()


def test_tails_are_heavy_about_the_centres() -> None:
    data = shape_sets.heavy_tails(30_000, 0)
    away = data.x - shape_sets.CENTRES_TAILS[data.y]
    assert np.abs(np.median(away, axis=0)).max() < 0.05
    # Of Student's t with two degrees of freedom, 0.98 % lies beyond 10; of a Gaussian, nothing.
    assert np.mean(np.abs(away) > 10) == pytest.approx(0.0098, abs=0.002)


@pytest.mark.parametrize(("name", "shape"), [("iris", (150, 4)), ("breast-cancer", (569, 30))])
def test_real_tables_are_whole_whatever_number_is_asked_for(name: str, shape: object) -> None:
    assert SHAPES[name].draw(10, 3).x.shape == shape
