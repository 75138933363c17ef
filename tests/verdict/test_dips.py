"""Density dips between clusters: against brute force, and where there are none."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.datasets import make_blobs

from gedilearn.graph.neighbours import nearest_neighbours
from gedilearn.verdict.dips import (
    LEAST_EACH,
    MOST_POINTS,
    intrinsic_dimension,
    principal_coordinates,
    separation,
    stratified_rows,
)

Array = NDArray[np.float64]


def by_hand(x: Array, labels: NDArray[np.int64], n_clusters: int) -> Array:
    """Over all pairs of points, one after another."""
    n = len(x)
    distance = np.array([[np.sqrt(((a - b) ** 2).sum()) for b in x] for a in x])
    ordered = np.sort(distance, axis=1)[:, 1:]
    radius, farthest = ordered[:, 9], ordered[:, 19]
    logs = [np.log(own[9] / r) for own in ordered for r in own[:9]]
    d = min(max(1 / np.mean(logs), 1.0), x.shape[1])
    passed: dict[tuple[int, int], list[float]] = {}
    for i, j in itertools.combinations(range(n), 2):
        if distance[i, j] <= max(farthest[i], farthest[j]) and labels[i] != labels[j]:
            pair = tuple(sorted((int(labels[i]), int(labels[j]))))
            reach = max(distance[i, j], radius[i], radius[j])
            passed.setdefault(pair, []).append(-d * np.log(reach))
    found = np.full((n_clusters, n_clusters), np.inf)
    for (a, b), values in passed.items():
        core = min(np.median(-d * np.log(radius[labels == c])) for c in (a, b))
        found[a, b] = found[b, a] = core - sorted(values)[::-1][:3][-1]
    return found


@pytest.mark.parametrize(("spread", "d"), [(1.0, 2), (2.0, 2), (1.0, 4)])
def test_a_density_dip_is_what_a_search_over_all_pairs_gives(spread: float, d: int) -> None:
    centres = 6 * np.eye(4, d)
    x, y = make_blobs(160, centers=centres[:3], cluster_std=spread, random_state=0)
    np.testing.assert_allclose(separation(x, y, 3).dip, by_hand(x, y, 3))


def test_disconnected_clusters_have_no_link_and_cut_nothing() -> None:
    x, y = make_blobs(200, centers=[[0, 0], [50, 0]], random_state=0)
    found = separation(x, y, 3)
    assert np.isinf(found.dip).all()
    np.testing.assert_array_equal(found.cut, [0, 0, np.nan])


def test_two_clouds_have_a_dip_and_a_cut_through_one_cloud_has_none() -> None:
    rng = np.random.default_rng(0)
    one, two = rng.normal(size=(600, 2)), rng.normal(size=(600, 2))
    two[300:, 0] += 6
    assert separation(one, (one[:, 0] > 0).astype(int), 2).dip[0, 1] < 0.5
    assert separation(two, (two[:, 0] > 3).astype(int), 2).dip[0, 1] > 1


def test_chance_dips_of_a_segment_rarely_reach_one_nat() -> None:
    # The hardest case: few links cross a cut at the widest place of the middle.
    rng, high = np.random.default_rng(0), 0
    for _ in range(100):
        x = np.sort(rng.random(500))
        middle = slice(100, 400)
        cut = 100 + int((x[10:] - x[:-10])[middle].argmax()) + 5
        high += bool(separation(x[:, None], np.arange(500) // cut > 0, 2).dip[0, 1] > 1)
    assert high <= 5


def test_the_intrinsic_dimension_is_that_of_the_surface_and_at_most_the_columns() -> None:
    rng = np.random.default_rng(0)
    plane = rng.random((2000, 2)) @ np.linalg.qr(rng.normal(size=(6, 2)))[0].T
    neighbours = nearest_neighbours(plane, 10)
    assert intrinsic_dimension(neighbours.distance, 6) == pytest.approx(2, abs=0.25)
    assert intrinsic_dimension(neighbours.distance, 1) == 1
    assert intrinsic_dimension(np.ones((5, 10)), 3) == 1


def test_small_clusters_are_among_the_stratified_rows() -> None:
    labels = np.r_[np.zeros(9_900, int), np.ones(80, int), np.full(20, 2)]
    rows = stratified_rows(labels, 0)
    assert len(np.unique(rows)) == len(rows) <= MOST_POINTS + 2 * LEAST_EACH
    np.testing.assert_array_equal(np.bincount(labels[rows])[1:], [60, 20])
    np.testing.assert_array_equal(stratified_rows(labels[-100:], 0), np.arange(100))


@pytest.mark.parametrize("shape", [(40, 12), (20, 60)])
def test_principal_coordinates_are_those_of_a_singular_value_decomposition(
    shape: tuple[int, int],
) -> None:
    x = np.random.default_rng(0).normal(size=shape)
    u, s, _ = np.linalg.svd(x - x.mean(0), full_matrices=False)
    found = principal_coordinates(x, 3)
    np.testing.assert_allclose(np.abs(found), np.abs(u[:, :3] * s[:3]), atol=1e-8)


def test_three_clusters_in_a_few_of_very_many_columns_have_dips() -> None:
    rng, y = np.random.default_rng(0), np.arange(120) % 3
    x = rng.normal(size=(120, 3000))
    x[:, :100] += 2 * rng.normal(size=(3, 100))[y]
    assert separation(x, y, 3).dip.min() > 1
