"""The number of clusters is found where there is one, and not claimed where there is none."""

from __future__ import annotations

import math

import numpy as np
import pytest
from sklearn.datasets import make_blobs, make_moons
from sklearn.metrics import adjusted_rand_score

from gedilearn import GEDI, NumberChoice, choose_n_clusters
from gedilearn.errors import InputError
from gedilearn.verdict.number import Number, best_of

CORNERS = np.array([[0.0, 0.0], [6.0, 0.0], [0.0, 6.0], [6.0, 6.0]])


def blobs(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    return make_blobs(n, centers=CORNERS, cluster_std=0.5, random_state=seed)


@pytest.fixture(scope="module")
def choice() -> NumberChoice:
    return choose_n_clusters(blobs(200, 0)[0], 5, random_state=0, max_iter=100)


def test_four_separated_blobs_are_four_clusters_and_the_model_knows_them(choice):
    x, y = blobs(200, 0)
    assert choice.n_clusters == choice.model.n_clusters_ == 4 and choice.stands_out
    assert adjusted_rand_score(y, choice.model.predict(x)) == 1
    assert choice.model.grade_ == "certified" and choice.numbers[2].reason == "separated"


def test_it_is_what_an_automatic_fit_chooses(choice):
    x = blobs(200, 0)[0]
    asked = {"training.max_clusters": 5}
    model = GEDI("auto", random_state=0, w_gen=0.0, max_iter=100, settings=asked).fit(x)
    assert choice == model.choice_ and [n.n_clusters for n in choice.numbers] == [2, 3, 4, 5]
    assert "model" not in choice.to_json() and choice.to_json()["tried"] == 4
    np.testing.assert_array_equal(choice.model.labels_, model.labels_)


def test_curved_clusters_are_counted():
    x, _ = make_moons(200, noise=0.05, random_state=3)
    choice = choose_n_clusters(x, 3, random_state=1, max_iter=100)
    assert choice.n_clusters == 2 and choice.stands_out


def test_noise_without_clusters_is_said_to_have_none():
    x = np.random.default_rng(0).uniform(size=(200, 2))
    nothing = choose_n_clusters(x, 3, random_state=0, max_iter=50)
    assert not nothing.stands_out and nothing.model.grade_ != "certified"


def test_images_are_fitted_with_every_number_from_two_seeds():
    rng = np.random.default_rng(0)
    x = np.repeat(rng.uniform(size=(2, 1, 8, 8)), 20, axis=0) + 0.05 * rng.normal(
        size=(40, 1, 8, 8)
    )
    choice = choose_n_clusters(x, 3, random_state=5, max_iter=3)
    seeds = np.random.RandomState(5).randint(2**31 - 1, size=2).tolist()
    for k, number in zip((2, 3), choice.numbers, strict=True):
        fits = [GEDI(k, w_gen=0.0, max_iter=3, random_state=s).fit(x) for s in seeds]
        agreed = adjusted_rand_score(*(model.labels_ for model in fits))
        assert number.bound_gap == min(model.bound_gap_ for model in fits)
        assert number.stability == pytest.approx(agreed)
        quality = agreed - number.bound_gap / math.log(k) - number.unused / k
        assert number.quality == (pytest.approx(quality, abs=1e-9), 0)
    assert choice.model.n_clusters_ == choice.n_clusters


def fitted(k: int, gap: float, reason: str | None = None, stability: float = 1.0) -> Number:
    return Number(k, stability, reason, bound_gap=gap, unused=0)


def test_of_images_the_largest_number_that_is_nearly_certified_is_chosen():
    numbers = [fitted(2, 0.001, "bound gap"), fitted(3, 0.007, "bound gap", 0.5), fitted(4, 0.05)]
    choice = best_of(numbers)
    assert choice.n_clusters == 3 and choice.stands_out and choice.alternative == 2
    assert choice.words.endswith("number that is nearly certified; 2 is also supported")


def test_of_images_without_a_certificate_none_is_recommended():
    choice = best_of([fitted(2, 0.06, stability=0.2), fitted(3, 0.05), fitted(4, 3.0)])
    assert choice.n_clusters == 3 and not choice.stands_out and choice.alternative is None
    assert choice.words == "none of 2 to 4 clusters is supported; best fits: 3"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"max_clusters": 1}, "max_clusters=1: clustering needs at least 2"),
        ({"max_clusters": 41}, "max_clusters=41 for 40 points"),
    ],
)
def test_bad_arguments_are_refused_in_one_line_before_any_fit(arguments, words, monkeypatch):
    monkeypatch.setattr(GEDI, "fit_run", lambda *_, **__: pytest.fail("fitted"))
    with pytest.raises(InputError, match=words) as caught:
        choose_n_clusters(blobs(40, 0)[0], **arguments)
    assert "\n" not in str(caught.value)


def test_few_distinct_points_are_refused_before_any_fit(monkeypatch):
    monkeypatch.setattr(GEDI, "fit_run", lambda *_, **__: pytest.fail("fitted"))
    with pytest.raises(InputError, match=r"max_clusters=6, but .* only 4 distinct points"):
        choose_n_clusters(np.repeat(CORNERS, 10, axis=0), 6)
