"""The number of clusters is found where there is one, and not claimed where there is none."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.sparse.csgraph import connected_components
from sklearn.datasets import make_blobs, make_circles, make_moons
from sklearn.metrics import adjusted_rand_score

from gedilearn import GEDI, Choice, choose_n_clusters
from gedilearn.data.graph import neighbour_graph
from gedilearn.errors import InputError
from gedilearn.selection import _order, _words, slow_modes
from helpers import gedi

CORNERS = np.array([[0.0, 0.0], [6.0, 0.0], [0.0, 6.0], [6.0, 6.0]])


def blobs(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    return make_blobs(n, centers=CORNERS, cluster_std=0.5, random_state=seed)


@pytest.fixture(scope="module")
def choice() -> Choice:
    return choose_n_clusters(blobs(200, 0)[0], 5, random_state=0, max_iter=300)


@pytest.fixture(scope="module")
def nothing() -> Choice:
    x = np.random.default_rng(0).uniform(size=(300, 2))
    return choose_n_clusters(x, 4, random_state=0, max_iter=300)


def test_four_separated_blobs_are_four_clusters_and_the_model_knows_them(choice):
    x, y = blobs(200, 0)
    assert choice.n_clusters == 4 and choice.stands_out
    assert choice.model is choice.models[4]
    assert adjusted_rand_score(y, choice.model.predict(x)) == 1
    assert choice.recommendation.startswith("4 clusters: ") and "Runner-up" in choice.recommendation
    assert choice.rows[2]["certified"]


@pytest.mark.parametrize(
    ("x", "expected"),
    [
        (make_moons(300, noise=0.05, random_state=3)[0], 2),
        (make_circles(300, factor=0.5, noise=0.05, random_state=3)[0], 2),
    ],
    ids=["moons", "circles"],
)
def test_curved_clusters_are_counted(x, expected):
    choice = choose_n_clusters(x, 3, random_state=1, max_iter=500)
    assert choice.n_clusters == expected and choice.stands_out


def test_noise_without_clusters_is_said_to_have_none(nothing):
    assert not nothing.stands_out
    assert nothing.recommendation.startswith("No number stands out")
    assert not any(row["certified"] for row in nothing.rows)


def test_rows_agree_with_their_models(choice):
    assert [row["n_clusters"] for row in choice.rows] == [2, 3, 4, 5]
    assert sorted(row["rank"] for row in choice.rows) == [1, 2, 3, 4]
    for row in choice.rows:
        model = choice.models[row["n_clusters"]]
        assert row["gap"] == model.certificate_gap_
        assert row["unused"] == row["n_clusters"] - sum(
            size >= 200 / row["n_clusters"] / 10 for size in np.bincount(model.labels_)
        )
        assert -1 <= row["stability"] <= 1 and row["seconds"] > 0


def test_the_same_seed_gives_the_same_choice_and_stability_is_that_of_two_separate_fits():
    x, _ = blobs(120, 1)
    seen: list[dict] = []
    a = choose_n_clusters(x, 3, random_state=5, max_iter=100, on_row=seen.append)
    b = choose_n_clusters(x, 3, random_state=5, max_iter=100)
    strip = [{k: v for k, v in row.items() if k != "seconds"} for row in b.rows]
    assert [{k: v for k, v in row.items() if k != "seconds"} for row in a.rows] == strip
    assert [row["n_clusters"] for row in seen] == [2, 3]
    seeds = np.random.RandomState(5).randint(2**31 - 1, size=2).tolist()
    labels = [
        gedi(3, w_gen=0.0, max_iter=100, random_state=s, **{"views.n_neighbors": k}).fit(x).labels_
        for s, k in zip(seeds, (10, 7), strict=True)
    ]
    assert b.rows[1]["stability"] == pytest.approx(adjusted_rand_score(*labels))


def row(k: int, gap: float, certified: bool = False, stability: float = 1.0) -> dict:
    score = gap / math.log(k) + 1 - stability
    return {
        "n_clusters": k, "gap": gap, "certified": certified, "stability": stability, "unused": 0,
        "score": score,
    }  # fmt: skip


def ranked(*rows: dict) -> list[dict]:
    return sorted(rows, key=lambda r: _order(r, 0.002))


def test_the_finest_certified_number_goes_first_and_the_coarser_one_is_named():
    order = ranked(row(2, 0.001, True), row(3, 0.003), row(4, 0.0015, True), row(5, 0.003))
    assert [r["n_clusters"] for r in order] == [4, 2, 5, 3]
    words = _words(order, None, 0.002)
    assert "finest of several certified numbers (2, 4)" in words and "Runner-up: 2" in words


def test_a_stray_point_keeps_a_number_recommended_but_not_as_certified():
    order = ranked(row(2, 0.06), row(3, 0.007, stability=0.5), row(4, 1.0))
    assert [r["n_clusters"] for r in order] == [3, 2, 4]
    assert _words(order, 3, 0.002).startswith("3 clusters, probably: none of 2 to 4 is certified")


def test_far_from_a_certificate_gap_and_stability_rank_but_nothing_is_recommended():
    order = ranked(row(2, 0.06, stability=0.2), row(3, 0.05), row(4, 3.0))
    assert [r["n_clusters"] for r in order] == [3, 2, 4]
    words = _words(order, None, 0.002)
    assert words.startswith("No number stands out") and "The least bad is 3" in words


def test_slow_modes_count_groups_apart_or_joined_by_some_links_and_none_in_noise():
    x, _ = blobs(400, 2)
    assert slow_modes(x / x.std(0), 8) == 4
    joined, _ = make_blobs(900, centers=CORNERS[:3], cluster_std=0.8, random_state=0)
    assert connected_components(neighbour_graph(joined, 160)[0])[0] == 1
    assert slow_modes(joined / joined.std(0), 8, n_neighbors=160) == 3
    assert slow_modes(np.random.default_rng(0).uniform(size=(600, 2)), 8) is None


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"max_clusters": 1}, "max_clusters=1: clustering needs at least 2"),
        ({"max_clusters": 41}, "max_clusters=41 for 40 points"),
        ({"n_init": 1}, "n_init=1: stability"),
        ({"n_clusters": 3}, "n_clusters: not an argument"),
        ({"max_itr": 3}, "max_itr: not an argument"),
    ],
)
def test_bad_arguments_are_refused_in_one_line_before_any_fit(arguments, words, monkeypatch):
    monkeypatch.setattr(GEDI, "fit", lambda *_: pytest.fail("fitted"))
    with pytest.raises(InputError, match=words) as caught:
        choose_n_clusters(blobs(40, 0)[0], **arguments)
    assert "\n" not in str(caught.value)


def test_few_distinct_points_are_refused_before_any_fit(monkeypatch):
    monkeypatch.setattr(GEDI, "fit", lambda *_: pytest.fail("fitted"))
    with pytest.raises(InputError, match=r"max_clusters=6, but .* only 4 distinct points"):
        choose_n_clusters(np.repeat(CORNERS, 10, axis=0), 6)
