"""The comparisons in benchmarks: sets as they should be, and a row of each kind."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
from scipy.special import ive
from scipy.stats import multivariate_normal

from gedilearn.data.toy import NOISE, circles, moons
from gedilearn.io import read_json_lines
from gedilearn.paper.runner import Runner

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
if not BENCHMARKS.exists():
    pytest.skip("the benchmarks are not part of this installation", allow_module_level=True)
sys.path.insert(0, str(BENCHMARKS))

import density  # noqa: E402
import mixed_tables  # noqa: E402
import plane_sets as plane  # noqa: E402
import shapes  # noqa: E402
from shape_sets import NOT_SCORED, SHAPES  # noqa: E402

QUICK = {"training.max_iter": 10, "density.iterations": 5}


@pytest.mark.parametrize("name", SHAPES)
def test_a_set_has_the_clusters_that_it_says(name):
    shape = SHAPES[name]
    data = shape.draw(200, 3)
    assert np.array_equal(data.x, shape.draw(200, 3).x)
    assert (data.y is None) == shape.structureless
    if data.y is not None:
        assert set(np.unique(data.y)) - {NOT_SCORED} == set(range(shape.n_clusters))
    if shape.best is not None:
        known = data.y != NOT_SCORED
        assert (shape.best(data.x[known]) == data.y[known]).mean() > 0.9


def test_shapes_scores_every_method_and_grades_the_structureless(tmp_path):
    asked = ["moons", "uniform-square"], ["gedi", "kmeans", "spectral"]
    tables = shapes.run(Runner(tmp_path), [0], *asked, n=100, settings=QUICK)
    rows = read_json_lines(tmp_path / "rows.jsonl")
    assert [(r["data"], r["method"]) for r in rows] == [
        *(("moons", "gedi"), ("moons", "kmeans"), ("moons", "spectral"), ("uniform-square", "gedi"))
    ]
    assert [r["scored"] for r in rows[:3]] == ["fresh", "fresh", "training"]
    assert rows[2]["ami"] > 0.5 > rows[1]["ami"] and rows[3]["ami"] is None
    assert [len(table.lines) for table in tables] == [3, 1, 4]


def test_controls_are_rows_of_their_own_and_the_start_has_no_network(tmp_path):
    asked = ["moons"], ["start", "noise-views", "kmeans-columns"]
    shapes.run(Runner(tmp_path), [0], *asked, n=100, settings=QUICK)
    rows = {r["method"]: r for r in read_json_lines(tmp_path / "rows.jsonl")}
    assert set(rows) == set(asked[1])
    assert rows["start"]["ami"] > 0.5 > rows["kmeans-columns"]["ami"]
    assert rows["start"]["bound_gap"] is None and rows["noise-views"]["bound_gap"] is not None
    assert {r["scored"] for r in rows.values()} == {"training", "fresh"}


def test_density_measures_every_method_beside_the_truth(tmp_path):
    tables = density.run(Runner(tmp_path), [0], ["mixture"], n=120, settings=QUICK)
    rows = {r["method"]: r for r in read_json_lines(tmp_path / "rows.jsonl")}
    assert set(rows) == {"gedi", "base", "gmm", "kde", "real"}
    assert rows["real"]["rank_fresh"] == pytest.approx(1)
    assert max(rows["gmm"]["above"], rows["kde"]["above"]) == 0
    assert [len(table.lines) for table in tables] == [5, 5, 1]


def test_samples_from_the_same_source_have_no_discrepancy():
    rng = np.random.default_rng(0)
    real, same, other = rng.normal(size=(3, 300, 2)) + np.array([[[0.0]], [[0.0]], [[3.0]]])
    assert abs(density.squared_mmd(same, real)) < 0.01 < density.squared_mmd(other, real)


# --- sets in the plane


def test_rings_without_noise_have_radius_one_two_three():
    data = plane.rings(300, noise=0.0)
    np.testing.assert_allclose(np.hypot(*data.x.T), data.y + 1)
    assert np.bincount(data.y).tolist() == [100, 100, 100]


def test_moved_rotated_and_stretched_sets_keep_their_labels_and_shape():
    data = circles(100)
    far, turned, long = (
        plane.moved(data, 1000, 1e6),
        plane.rotated(data, 0.7),
        plane.stretched(data, 100),
    )
    np.testing.assert_allclose((far.x - 1e6) / 1000, data.x, atol=1e-9)
    as_complex = data.x @ [1, 1j] * np.exp(0.7j)
    np.testing.assert_allclose(turned.x @ [1, 1j], as_complex)
    np.testing.assert_allclose(long.x / [1, 100], data.x)
    for changed in (far, turned, long):
        np.testing.assert_array_equal(changed.y, data.y)


@pytest.mark.parametrize("blobs", [plane.BLOBS_7, plane.ANISOTROPIC], ids=lambda b: b.name)
def test_the_density_of_blobs_is_that_of_equally_likely_gaussians(blobs):
    x = np.random.default_rng(0).uniform(-5, 5, (50, 2))
    each = [multivariate_normal(c, blobs.covariance).logpdf(x) for c in blobs.centres]
    expected = np.transpose(each) - np.log(len(blobs.centres))
    np.testing.assert_allclose(blobs.joint_log_density(x), expected, rtol=1e-9)


def log_density_of_ring(x, radius, noise):
    """In closed form, with a Bessel function."""
    r = np.hypot(*x.T)
    bessel = np.log(ive(0, r * radius / noise**2))
    return bessel - (r - radius) ** 2 / (2 * noise**2) - np.log(2 * np.pi * noise**2)


@pytest.mark.parametrize(
    ("curves", "radii"), [(plane.ring_curves, (1, 2, 3)), (plane.circle_curves, (1, 0.5))]
)
def test_the_density_near_a_circle_is_that_of_the_closed_form(curves, radii):
    x = np.random.default_rng(0).uniform(-3.2, 3.2, (200, 2))
    found = plane.log_density_near(x, curves(), NOISE)
    near = [log_density_of_ring(x, radius, NOISE) for radius in radii]
    # Far away the nearest node counts alone, and lies a little further off than the circle.
    close = np.exp(np.transpose(near)) > 1e-9
    assert close.sum() > 20
    np.testing.assert_allclose(found[close], np.transpose(near)[close], atol=1e-6)


SMEARED = [
    (moons, plane.moon_curves, NOISE),
    (plane.spirals, plane.spiral_curves, plane.SPIRAL_NOISE),
]


@pytest.mark.parametrize(("draw", "curves", "noise"), SMEARED)
def test_the_density_near_a_curve_integrates_to_one_and_is_that_of_the_points(draw, curves, noise):
    x = np.concatenate(curves())
    low, high = x.min(0) - 5 * noise, x.max(0) + 5 * noise
    axes = [np.arange(a, b, noise) for a, b in zip(low, high, strict=True)]
    grid = np.stack(np.meshgrid(*axes), -1).reshape(-1, 2)
    density = np.exp(plane.log_density_near(grid, curves(), noise))
    np.testing.assert_allclose(density.sum(0) * noise**2, 1, rtol=1e-5)
    data = draw(4000, random_state=7)
    for k, mean in enumerate(np.transpose(density) @ grid * noise**2):
        points = data.x[data.y == k]
        np.testing.assert_allclose(points.mean(0), mean, atol=0.05)
        # The mean log density of points is minus its entropy.
        entropy = -(density[:, k] * np.log(density[:, k] + 1e-300)).sum() * noise**2
        found = plane.log_density_near(points, curves(), noise)[:, k].mean()
        assert found == pytest.approx(-entropy, abs=0.05)


@pytest.mark.parametrize("name", mixed_tables.TABLES)
def test_rows_of_a_mixed_table_keep_its_rules_and_shuffled_columns_do_not(name):
    draw, n = mixed_tables.TABLES[name]
    real = draw(n, 0)
    assert not any(each.any() for each in mixed_tables.broken(name, real, real).values())
    rng = np.random.default_rng(0)
    shuffled = real.apply(lambda column: rng.permutation(column.to_numpy()))
    found = mixed_tables.broken(name, real, shuffled)
    assert all(found[kind].mean() > 0.1 for kind in {"pairs", "order", "sums"} & set(found))
    numbers = real.select_dtypes("number").columns
    moved = mixed_tables.broken(name, real, real.assign(**{k: real[k] - 1e3 for k in numbers}))
    assert moved["range"].mean() > 0.9
