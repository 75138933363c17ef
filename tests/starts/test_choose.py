"""The initial clustering: what is chosen, by what evidence, and on data of odd sizes."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.datasets import make_blobs, make_circles, make_moons
from sklearn.metrics import adjusted_mutual_info_score

from gedilearn.graph.neighbours import knn_graph
from gedilearn.starts import choose
from gedilearn.starts.choose import (
    METHODS,
    Start,
    adjusted_mutual_info,
    best_assignment,
    best_start,
    choose_start,
    cut_share,
    recurrence,
    same_partition,
    stability,
    subsamples_of,
)

Array = NDArray[np.float64]
FAR = np.array([[0.0, 0.0], [10.0, 0.0], [0.0, 10.0]])


def three_blobs(n: int = 240, seed: int = 0) -> tuple[Array, NDArray[np.int64]]:
    x, y = make_blobs(n, centers=FAR, random_state=seed)
    return x, y


EASY = {
    "blobs": (*three_blobs(), 3),
    "moons": (*make_moons(300, noise=0.04, random_state=0), 2),
    "circles": (*make_circles(300, factor=0.4, noise=0.03, random_state=0), 2),
    "sizes of 270 and 30": (
        *make_blobs([270, 30], centers=FAR[:2], random_state=0),
        2,
    ),
}


@pytest.mark.parametrize("name", EASY)
def test_connected_clusters_are_found_and_found_again_in_every_subsample(name: str) -> None:
    x, y, n_clusters = EASY[name]
    start = choose_start(x, n_clusters)
    assert adjusted_mutual_info_score(start.labels, y) == pytest.approx(1)
    assert start.stability == pytest.approx(1)
    assert (recurrence(start.labels, start.subsamples) == 1).all()
    assert start.cut < 0.01
    assert start.method in METHODS and start.method not in start.rivals


def test_without_clusters_subsamples_disagree() -> None:
    x = np.random.default_rng(0).normal(size=(300, 2))
    start = choose_start(x, 4)
    assert start.stability < 0.85
    assert 0 < recurrence(start.labels, start.subsamples).mean() < 1 and start.cut > 0.02


def test_of_methods_that_find_the_same_the_most_stable_is_chosen(monkeypatch) -> None:
    x, y = three_blobs()
    calls = []

    def finds(name: str, steady: float):
        """The true clusters of all points; in subsamples, some wrong labels."""

        def method(subsample: choose.Subsample, n_clusters: int, seed: int) -> NDArray[np.int64]:
            calls.append(name)
            points = subsample.points
            labels = np.array([int(np.abs(FAR - point).sum(1).argmin()) for point in points])
            if len(points) < len(x):
                labels[int(steady * len(points)) :] = 0
            return labels

        return method

    own = {"shaky": finds("shaky", 0.6), "steady": finds("steady", 1.0), "last": finds("last", 1.0)}
    monkeypatch.setattr(choose, "METHODS", own)
    start = choose_start(x, 3)
    assert adjusted_mutual_info_score(start.labels, y) == pytest.approx(1)
    assert (start.method, start.stability, start.rivals) == ("steady", 1.0, {})
    assert calls.count("last") == 1  # not run on subsamples: a stable method found the same


def test_a_score_rises_with_stability_and_falls_with_the_cut() -> None:
    def score(cut: float, stability: float) -> float:
        return Start(np.zeros(2, int), cut, stability, np.zeros((2, 4), int), "any").score

    assert score(0.01, 0.9) > score(0.02, 0.9)
    assert score(0.01, 0.95) > score(0.01, 0.9)
    # The documented rule: ratios of cuts above 0.002, and the fourth root of 1.02 - stability.
    ratio = (0.022 / 0.012) * (0.12 / 0.07) ** 0.25
    assert score(0.01, 0.95) - score(0.02, 0.9) == pytest.approx(np.log(ratio))


def test_the_cut_is_the_share_of_a_clusters_weight_that_leaves_it() -> None:
    x = np.random.default_rng(0).normal(size=(50, 2))
    graph, labels = knn_graph(x, 5)[0], np.random.default_rng(1).integers(0, 3, 50)
    weights = graph.toarray()
    shares = [
        weights[labels == k][:, labels != k].sum() / weights[labels == k].sum() for k in range(3)
    ]
    assert cut_share(graph, labels) == pytest.approx(np.mean(shares))
    alone = np.zeros(50, int)
    alone[7] = 2  # one point counts as much as a large cluster, a cluster without points not at all
    leaving = weights[7].sum() / (weights.sum() - weights[7].sum())
    assert cut_share(graph, alone) == pytest.approx((1 + leaving) / 2)
    assert cut_share(graph, np.zeros(50, int)) == 0


def test_adjusted_mutual_info_is_that_of_scikit_learn() -> None:
    rng = np.random.default_rng(0)
    for k, others in itertools.product((1, 2, 5), (1, 3, 60)):
        labels = rng.integers(0, k, 60)
        other = np.where(rng.random(60) < 0.5, labels, rng.integers(0, others, 60))
        expected = adjusted_mutual_info_score(labels, other)
        assert adjusted_mutual_info(labels, other) == pytest.approx(expected, abs=1e-12)
        renamed = (labels + 1) % k
        assert adjusted_mutual_info(labels, renamed) == 1.0 and same_partition(labels, renamed)
        assert same_partition(labels, other) == (expected == pytest.approx(1))


def test_shared_subsamples_change_no_number_of_clusters() -> None:
    for x in (
        EASY["moons"][0],
        three_blobs(90)[0],
        np.random.default_rng(0).normal(size=(250, 12)),
    ):
        subsamples, _ = subsamples_of(x, 6, 0)
        for k in range(2, 7):
            shared, alone = best_start(subsamples, k, 0), choose_start(x, k)
            np.testing.assert_array_equal(shared.labels, alone.labels)
            np.testing.assert_array_equal(shared.subsamples, alone.subsamples)
            assert list(shared.rivals) == list(alone.rivals)
            assert [*shared.rivals.values()] == [
                pytest.approx(one) for one in alone.rivals.values()
            ]


@pytest.mark.parametrize("k", [2, 3, 5])
def test_the_chosen_start_is_the_best_of_all_methods_run_on_all_subsamples(k: int) -> None:
    rng = np.random.default_rng(0)
    for x in (EASY["moons"][0], three_blobs(90)[0], rng.normal(size=(200, 3))):
        (whole, *subsamples), _ = subsamples_of(x, k, 0)
        graph, scores = knn_graph(x, choose.NEIGHBOURS)[0], {}
        for name, method in METHODS.items():
            labels = method(whole, k, 0)
            found = np.full((len(x), len(subsamples)), -1)
            for i, own in enumerate(subsamples):
                found[own.rows, i] = method(own, k, 0)
            own = Start(labels, cut_share(graph, labels), stability(labels, found), found, name)
            scores[name] = own.score
        best = best_start([whole, *subsamples], k, 0)
        assert best.score == pytest.approx(max(scores.values())) == scores[best.method]
        assert set(best.rivals) < set(METHODS)


def test_the_best_assignment_is_that_of_all_permutations() -> None:
    rng = np.random.default_rng(0)
    for _ in range(10):
        labels, others = rng.integers(0, 4, (2, 40))
        best = max((np.array(p)[labels] == others).sum() for p in itertools.permutations(range(4)))
        renamed = best_assignment(labels, others, 4)[labels]
        assert (renamed == others).sum() == best
        assert adjusted_mutual_info_score(renamed, labels) == pytest.approx(1)


def test_points_between_clusters_have_a_low_recurrence() -> None:
    # Two clouds that overlap: doubt belongs to the points between them.
    x = np.random.default_rng(0).normal(size=(300, 2))
    x[:150, 0] += 2.5
    start = choose_start(x, 2)
    share = recurrence(start.labels, start.subsamples)
    assert set(np.round(12 * share)) <= set(range(13))  # of at most 4 subsamples: k/4, k/3, k/2
    doubtful = np.abs(x[share < 1, 0] - 1.25)
    assert 0 < len(doubtful) < 150 and doubtful.mean() < np.abs(x[:, 0] - 1.25).mean()


def test_other_labels_are_compared_with_the_same_subsamples() -> None:
    x, y = three_blobs()
    start = choose_start(x, 3)
    assert start.stability == stability(start.labels, start.subsamples)
    spoilt = np.where(x[:, 0] > 0, start.labels, (start.labels + 1) % 3)
    wrong = recurrence(spoilt, start.subsamples) < 1
    assert stability(spoilt, start.subsamples) < 0.9
    assert wrong.any() and not wrong[spoilt == start.labels].any()
    assert stability(y, np.full((len(y), 4), -1)) == 0  # no method for subsamples so small


def test_of_many_points_a_sample_is_clustered_and_the_others_take_the_nearest_label(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(choose, "MOST_POINTS", 200)
    x, y = three_blobs(2000)
    start = choose_start(x, 3)
    assert len(start.labels) == len(start.subsamples) == 2000
    assert adjusted_mutual_info_score(start.labels, y) == pytest.approx(1)


@pytest.mark.parametrize(
    ("x", "n_clusters"),
    [
        (np.repeat(FAR, 20, axis=0), 3),
        (np.repeat(FAR, 20, axis=0), 5),
        (np.zeros((30, 2)), 2),
        (np.random.default_rng(0).normal(size=(4, 2)), 3),
        (np.random.default_rng(0).normal(size=(5, 2)), 4),
        (np.random.default_rng(0).normal(size=(3, 1)), 2),
        (np.random.default_rng(0).normal(size=(4, 50)), 2),
    ],
    ids=["heaps", "more clusters than heaps", "one heap", "4", "5", "3", "wide"],
)
@pytest.mark.filterwarnings("error")
def test_few_or_equal_points_have_a_start_too(x: Array, n_clusters: int) -> None:
    start = choose_start(x, n_clusters)
    assert start.labels.shape == (len(x),) and start.subsamples.shape == (len(x), choose.SUBSAMPLES)
    assert start.labels.min() >= 0 and start.labels.max() < n_clusters
    assert np.isfinite(start.score) and 0 <= start.cut <= 1
