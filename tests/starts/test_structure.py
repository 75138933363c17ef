"""The test for structure: silent on data without any, not on clusters."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import ks_2samp
from sklearn.datasets import make_blobs, make_moons

from gedilearn.data.graph import distance_points, neighbour_graph
from gedilearn.starts import structure
from gedilearn.starts.structure import Structure, unimodal

Array = NDArray[np.float64]
Rng = np.random.Generator


def checked(x: Array, n_clusters: int, seed: int = 0) -> Structure:
    """As in training: standardised."""
    return structure.examine_structure((x - x.mean(axis=0)) / x.std(axis=0), n_clusters, seed)


def category(rng: Rng, levels: int) -> Array:
    return np.eye(levels)[rng.integers(0, levels, N)]


N = 150
STRUCTURELESS: dict[str, Callable[[Rng], Array]] = {
    "a Gaussian": lambda r: r.normal(size=(N, 2)),
    "a square": lambda r: r.random((N, 2)),
    "exponentials": lambda r: r.exponential(size=(N, 2)),
    "heavy tails": lambda r: r.standard_t(3, size=(N, 3)),
    "a thin cloud": lambda r: r.normal(size=(N, 2)) @ np.array([[1.0, 0.95], [0.0, 0.3]]),
    "ten columns": lambda r: r.normal(size=(N, 10)),
    "three coins": lambda r: r.integers(0, 2, (N, 3)).astype(float),
    "two dice": lambda r: r.integers(1, 7, (N, 2)).astype(float),
    "rounded numbers": lambda r: r.normal(size=(N, 2)).round(),
    "categories": lambda r: np.hstack([category(r, 3), category(r, 4), r.normal(size=(N, 1))]),
}


@pytest.mark.parametrize("name", STRUCTURELESS)
def test_none_is_found_where_there_is_none(name: str) -> None:
    found = [
        checked(STRUCTURELESS[name](np.random.default_rng(seed)), n_clusters, seed).found
        for seed, n_clusters in ((0, 2), (1, 3))
    ]
    assert found == [False, False]


@pytest.mark.parametrize("n_clusters", [2, 3])
def test_clusters_are_structure(n_clusters: int) -> None:
    blobs = make_blobs(N, centers=n_clusters, cluster_std=0.7, random_state=3)[0]
    result = checked(blobs, n_clusters)
    assert result.found and result.t > result.threshold and result.factor > 2


def test_moons_are_structure_though_no_column_shows_it() -> None:
    x = make_moons(N, noise=0.05, random_state=0)[0]
    assert checked(x, 2).found
    rng = np.random.default_rng(0)
    shuffled = np.column_stack([rng.permutation(column) for column in x.T])
    assert not checked(shuffled, 2).found


def test_the_step_is_the_ratio_of_two_dense_eigenvalues_and_large_at_the_right_number() -> None:
    x = make_blobs(N, centers=[[0, 0], [5, 0], [0, 5]], random_state=0)[0]
    x = (x - x.mean(axis=0)) / x.std(axis=0)
    weights = neighbour_graph(distance_points(x), 10)[0].toarray()
    speeds = 1 - np.sort(np.linalg.eigvals(weights / weights.sum(axis=1)[:, None]).real)[::-1]
    steps = [structure.examine_structure(x, n_clusters).step for n_clusters in (3, 4)]
    assert steps == pytest.approx([speeds[3] / speeds[2], speeds[4] / speeds[3]], rel=1e-4)
    assert steps[0] > 3 * steps[1]


def test_about_one_in_a_hundred_structureless_sets_passes_for_structured() -> None:
    draws = [np.random.default_rng(100 + seed).normal(size=(60, 2)) for seed in range(20)]
    found = sum(structure.examine_structure(x, 2, seed).found for seed, x in enumerate(draws))
    assert found <= 2


def test_structure_needs_both_the_error_rate_and_the_factor() -> None:
    assert Structure(t=4.0, factor=2.0, threshold=3.0, step=1.0).found
    assert not Structure(t=2.9, factor=2.0, threshold=3.0, step=1.0).found
    assert not Structure(t=4.0, factor=1.2, threshold=3.0, step=1.0).found
    # Student's t with 7 degrees of freedom, 8 references: one in a hundred is above 2.998.
    assert checked(np.random.default_rng(0).normal(size=(30, 2)), 2).threshold == pytest.approx(
        2.998, abs=1e-3
    )


def test_of_many_points_some_are_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []

    def counted(x: Array, modes: int) -> list[float]:
        seen.append(x.shape)
        return [0.0] * modes

    monkeypatch.setattr(structure, "log_speeds", counted)
    rng = np.random.default_rng(0)
    structure.examine_structure(rng.normal(size=(5000, 2)), 2)
    assert set(seen) == {(600, 2)} and len(seen) == 1 + 3 * 8
    seen.clear()
    structure.examine_structure(rng.normal(size=(5000, 2)), 50)
    assert set(seen) == {(1000, 2)}
    seen.clear()
    structure.examine_structure(rng.normal(size=(200, 70)), 2)
    assert set(seen) == {(200, 50)}  # the leading principal directions


# --- references ----------------------------------------------------------------------------------


def heights(column: Array) -> Array:
    quantiles, values = unimodal(column)
    return np.asarray(np.diff(quantiles) / np.diff(values))


def draws(column: Array, n: int) -> Array:
    return np.asarray(np.interp(np.random.default_rng(1).random(n), *unimodal(column)))


def test_a_column_of_two_peaks_has_one_in_the_reference() -> None:
    rng = np.random.default_rng(0)
    for seed in range(5):
        column = np.r_[rng.normal(size=150), rng.normal(8, 1, 150 + 30 * seed)]
        steps = np.diff(heights(column))
        signs = np.sign(steps[np.abs(steps) > 1e-9])
        assert (np.diff(signs) <= 0).all()  # up, then down, never up again


@pytest.mark.parametrize("name", ["exponential", "normal", "uniform"])
def test_a_column_of_one_peak_stays_as_it_is(name: str) -> None:
    column = getattr(np.random.default_rng(0), name)(size=1000)
    assert ks_2samp(draws(column, 1000), column).pvalue > 0.05


def test_many_columns_beside_a_category_are_looked_at_by_their_leading_directions(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The category keeps its columns, and the references whole rows of it."""
    rng, seen = np.random.default_rng(0), []
    told = np.eye(3)[rng.integers(0, 3, 150)]
    x = np.column_stack([rng.normal(size=(150, 200)), told, rng.normal(size=(150, 100))])
    speeds = structure.log_speeds

    def look(points: NDArray[np.float64], modes: int) -> list[float]:
        seen.append(points)
        return speeds(points, modes)

    monkeypatch.setattr(structure, "log_speeds", look)
    structure.examine_structure(x, 3)
    assert {points.shape for points in seen} == {(150, structure.MOST_COLUMNS + 3)}
    category = distance_points(x)[:, 200:203]
    np.testing.assert_array_equal(seen[0][:, -3:], category)
    rows = {tuple(row) for row in category}
    assert all({tuple(row) for row in points[:, -3:]} <= rows for points in seen[1:])
