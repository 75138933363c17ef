"""The number of clusters is found where there is one, and not claimed where there is none."""

from __future__ import annotations

import math

import numpy as np
import pytest
from sklearn.datasets import make_blobs, make_moons
from sklearn.metrics import adjusted_rand_score

from gedilearn import GEDI, Choice, choose_n_clusters
from gedilearn.errors import InputError
from gedilearn.selection import rank

CORNERS = np.array([[0.0, 0.0], [6.0, 0.0], [0.0, 6.0], [6.0, 6.0]])


def blobs(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    return make_blobs(n, centers=CORNERS, cluster_std=0.5, random_state=seed)


@pytest.fixture(scope="module")
def choice() -> Choice:
    return choose_n_clusters(blobs(200, 0)[0], 5, random_state=0, max_iter=100)


def test_four_separated_blobs_are_four_clusters_and_the_model_knows_them(choice):
    x, y = blobs(200, 0)
    assert choice.n_clusters == 4 and choice.stands_out
    assert choice.model is choice.models[4]
    assert adjusted_rand_score(y, choice.model.predict(x)) == 1
    assert choice.recommendation.startswith("4 clusters: ")
    assert choice.rows[2]["certified"]


def test_curved_clusters_are_counted():
    x, _ = make_moons(200, noise=0.05, random_state=3)
    choice = choose_n_clusters(x, 3, random_state=1, max_iter=100)
    assert choice.n_clusters == 2 and choice.stands_out


def test_noise_without_clusters_is_said_to_have_none():
    x = np.random.default_rng(0).uniform(size=(200, 2))
    nothing = choose_n_clusters(x, 3, random_state=0, max_iter=50)
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
        assert row["grade"] == model.diagnosis_.graded(4) and row["stability"] == model.stability_
        assert row["apart"] == model.diagnosis_.evidence.groups() and row["seconds"] > 0


def test_the_same_seed_gives_the_same_choice_and_every_row_is_told():
    x, _ = blobs(120, 1)
    seen: list[dict] = []
    a = choose_n_clusters(x, 2, random_state=5, max_iter=50, on_row=seen.append)
    b = choose_n_clusters(x, 2, random_state=5, max_iter=50)
    (first,), (second,) = a.rows, b.rows
    assert first | {"seconds": 0} == second | {"seconds": 0}
    assert [row["n_clusters"] for row in seen] == [2]
    seeds = np.random.RandomState(5).randint(2**31 - 1, size=2).tolist()
    fits = [GEDI(2, w_gen=0.0, max_iter=50, random_state=s).fit(x) for s in seeds]
    agreed = adjusted_rand_score(*(model.labels_ for model in fits))
    assert first["gap"] == min(model.certificate_gap_ for model in fits)
    expected = first["gap"] / math.log(2) + 1 - agreed + first["unused"] / 2
    assert first["score"] == pytest.approx(expected, abs=1e-9)


def row(
    k: int, gap: float, grade: str = "doubtful", stability: float = 1.0, apart: int | None = 2
) -> dict:
    score = gap / math.log(k) + 1 - stability
    return {
        "n_clusters": k, "grade": grade, "gap": gap, "certified": grade == "certified",
        "stability": stability, "apart": apart, "unused": 0, "score": score,
    }  # fmt: skip


def judged(*rows: dict) -> tuple[list[int], bool, str]:
    """The numbers in their order, whether the first is recommended, and the words."""
    _, stands_out, words = rank(list(rows), 0.002)
    return [r["n_clusters"] for r in sorted(rows, key=lambda r: r["rank"])], stands_out, words


def test_the_largest_number_that_is_certified_or_supported_goes_first():
    rows = [row(2, 0.001, "certified"), row(4, 0.0015, "certified"), row(5, 0.003)]
    order, stands_out, words = judged(*rows)
    assert order == [4, 2, 5] and stands_out
    assert words.startswith("4 clusters: certified") and "; 2, which join" in words
    order, stands_out, words = judged(*rows, row(6, 0.3, "supported"))
    assert order == [6, 4, 2, 5] and stands_out
    assert words.startswith("6 clusters, probably: supported") and "; 2, 4, which join" in words


def test_a_small_gap_without_structure_recommends_nothing():
    order, stands_out, words = judged(
        row(2, 0.001, "no structure found"), row(3, 0.5, "no structure found")
    )
    assert order[0] == 2 and not stands_out
    assert words.startswith("No number stands out") and "2 (no structure found)" in words


def test_images_are_ranked_by_gap_and_the_agreement_of_initialisations():
    order, stands_out, words = judged(
        row(2, 0.06, stability=0.2, apart=None),
        row(3, 0.05, apart=None),
        row(4, 3.0, apart=None),
    )
    assert order == [3, 2, 4] and not stands_out
    assert "initialisations agree to 1.00" in words
    nearly = row(3, 0.007, stability=0.5, apart=None)
    assert judged(row(2, 0.06, apart=None), nearly)[:2] == ([3, 2], True)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"max_clusters": 1}, "max_clusters=1: clustering needs at least 2"),
        ({"max_clusters": 41}, "n_clusters=41 for 40 points"),
    ],
)
def test_bad_arguments_are_refused_in_one_line_before_any_fit(arguments, words, monkeypatch):
    monkeypatch.setattr(GEDI, "fit", lambda *_: pytest.fail("fitted"))
    with pytest.raises(InputError, match=words) as caught:
        choose_n_clusters(blobs(40, 0)[0], **arguments)
    assert "\n" not in str(caught.value)


def test_few_distinct_points_are_refused_before_any_fit(monkeypatch):
    monkeypatch.setattr(GEDI, "fit", lambda *_: pytest.fail("fitted"))
    with pytest.raises(InputError, match=r"n_clusters=6, but .* only 4 distinct points"):
        choose_n_clusters(np.repeat(CORNERS, 10, axis=0), 6)
