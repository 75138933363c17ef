"""Effect sizes against loops and scikit-learn, words, and columns that alone make the clusters."""

from __future__ import annotations

import math
from datetime import date

import numpy as np
import pytest
from sklearn.feature_selection import f_classif

from gedilearn.explanation import compare as module
from gedilearn.explanation.compare import Difference, compare


def made(seed: int = 0, n: int = 300) -> tuple[np.ndarray, np.ndarray]:
    """Rows of four columns on very different scales, and labels of three clusters."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 3, n)
    x = rng.normal(size=(n, 4)) * (1, 1e-6, 1e5, 2) + (0, 5, 1e9, -3)
    x[:, 0] += 2 * (labels == 1)
    x[:, 2] -= 3e5 * (labels == 0)
    x[labels == 2, 3] = 0.1 * x[labels == 2, 3] - 2.7
    return x, labels


def differences(x, labels, names=None, c=3, meanings=None) -> list[tuple[Difference, ...]]:
    names = names or [f"column {j}" for j in range(x.shape[1])]
    return compare(x, names, labels, c, meanings or {})[0]


def by_hand(x: np.ndarray, labels: np.ndarray, k: int, j: int) -> tuple[float, float, float, float]:
    """Cohen's d with the textbook's pooled variance, means, and the ratio of the deviations."""
    inside, outside = x[labels == k, j], x[labels != k, j]
    n, m = len(inside), len(outside)
    pooled = ((n - 1) * inside.var(ddof=1) + (m - 1) * outside.var(ddof=1)) / (n + m - 2)
    effect = (inside.mean() - outside.mean()) / math.sqrt(pooled)
    return effect, inside.mean(), outside.mean(), inside.std() / outside.std()


def test_differences_are_those_of_a_loop_over_clusters_and_columns(monkeypatch):
    x, labels = made()
    monkeypatch.setattr(module, "WORTH", 0.0)  # every column is named
    for k, found in enumerate(differences(x, labels, list("abcd"))):
        assert {d.column for d in found} == set("abcd")
        for d in found:
            expected = by_hand(x, labels, k, "abcd".index(d.column))
            np.testing.assert_allclose((d.effect, d.mean, d.others, d.spread), expected, rtol=1e-6)
        effects = [abs(d.effect) for d in found]
        assert effects == sorted(effects, reverse=True)


def test_the_columns_tried_first_are_those_of_the_largest_analysis_of_variance(monkeypatch):
    x, labels = made(1)
    seen: list[np.ndarray] = []
    monkeypatch.setattr(module, "_sufficient", lambda *arguments: seen.append(arguments[-1]))
    differences(x, labels)
    f, _ = f_classif(x - x.mean(0), labels)
    expected = f * (3 - 1) / (len(x) - 3)
    np.testing.assert_allclose(seen[0] / (1 - seen[0]), expected, rtol=1e-5)


def test_only_columns_worth_a_word_are_named_the_strongest_first():
    found = differences(*made(), ["income", "noise", "visits", "width"])
    assert [d.words for d in found[1]] == ["higher income", "higher visits"]
    assert found[0][0].words == "much lower visits"
    assert "narrower range of width" in [d.words for d in found[2]]
    assert all(d.column != "noise" for own in found for d in own)


@pytest.mark.parametrize(
    ("name", "inside", "outside", "words"),
    [
        ("income", [8.5, 9.5, 10.5], [1.5, 2.5, 3.5], "much higher income"),
        ("age", [1, 2, 3], [2, 3, 4], "lower age"),
        ("smoker", [1, 1, 1, 0], [0, 0, 1, 0], "more often smoker"),
        ("smoker", [1, 1, 1, 1], [0, 0, 0, 0], "always smoker"),
        ("smoker", [0, 0, 0, 0], [0, 1, 1, 0], "never smoker"),
    ],
)
def test_words_fit_what_a_column_holds(name, inside, outside, words):
    x = np.array([*inside, *outside], float)[:, None]
    labels = np.array([0] * len(inside) + [1] * len(outside))
    assert [d.words for d in differences(x, labels, [name], 2)[0]] == [words]


def test_a_column_that_is_the_cluster_has_an_infinite_effect_and_exact_means():
    labels = np.arange(1000) % 3
    x = np.stack([labels == 0, np.full(1000, 7.0)], 1).astype(float)
    found = differences(x, labels, ["flag", "constant"])
    (flag,) = found[0]
    assert (flag.column, flag.effect, flag.others) == ("flag", math.inf, 0)
    assert flag.mean == pytest.approx(1)
    assert all(d.column == "flag" for own in found for d in own)


@pytest.mark.parametrize(("factor", "shift"), [(1e200, 0.0), (1e-200, 0.0), (1.0, 1e6)])
def test_huge_offsets_and_scales_change_no_effect(factor, shift):
    x, labels = made(2)
    pairs = zip(differences(x, labels), differences(x * factor + shift, labels), strict=True)
    for own, other in pairs:
        assert [d.column for d in own] == [d.column for d in other]
        np.testing.assert_allclose([d.effect for d in own], [d.effect for d in other], rtol=1e-3)


def test_unused_clusters_and_one_that_holds_all_have_no_differences():
    x, labels = made(3)
    assert differences(x, np.zeros_like(labels), c=2) == [(), ()]


def test_a_column_that_alone_makes_the_clusters_is_found():
    rng = np.random.default_rng(0)
    secret = rng.uniform(0, 6, 900)
    labels = secret.astype(int) % 3  # six ranges of it, two for each cluster
    x = np.column_stack([rng.normal(size=(900, 60)), secret * 1e7])
    names = [*(f"noise {j}" for j in range(60)), "secret"]
    (found,) = compare(x, names, labels, 3, {})[1]
    assert found.column == "secret" and 0.95 < found.ami <= 1


def test_no_column_alone_makes_clusters_of_two_columns_or_of_noise_or_if_it_is_the_only_one():
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, (400, 2))
    for labels in ((x[:, 0] * x[:, 1] > 0).astype(int), rng.integers(0, 4, 400)):
        assert compare(x, "ab", labels, 4, {})[1] == []
    assert compare(x[:, :1], "a", (x[:, 0] > 0).astype(int), 2, {})[1] == []


def test_shares_with_gaps_filled_in_are_shares_and_have_no_range():
    labels = np.repeat([0, 1, 2], 50)
    rng = np.random.default_rng(0)
    red = np.where(rng.random(150) < 0.2, 0.4, labels == 1)  # a missing cell is the share of all
    rare = np.where(labels == 0, rng.random(150) < 0.06, rng.random(150) < 0.01)
    x = np.column_stack([red, rare, rng.normal(size=150)])
    found = differences(x, labels, ["colour=red", "town=a", "b"], 3, {0: "share", 1: "share"})
    assert [d.words for d in found[1]] == ["much more often colour=red"]
    assert not any("range" in d.words for one in found for d in one)


def test_dates_times_and_shares_are_said_and_shown_in_their_own_units():
    rng = np.random.default_rng(0)
    labels = np.repeat([0, 1], 50)
    first = date(2024, 3, 1).toordinal() - date(1970, 1, 1).toordinal()
    joined = first + 100 * labels + rng.normal(size=100)
    arrival = np.where(labels == 1, 24 + rng.normal(size=100), 18.5)  # around midnight
    x = np.c_[joined, (rng.random(100) < 0.2) | (labels == 1), arrival]
    found = differences(x, labels, ["joined", "smoker", "arrival"], 2, {0: "date", 2: "time"})[1]
    words = {"much later joined", "always smoker", "much later arrival"}
    assert {d.words for d in found} == words
    shown = {d.column: d for d in found}
    assert shown["joined"].shown(first + 0.9) == "2024-03-01"
    assert shown["arrival"].shown(24.26) == "00:16" and shown["arrival"].shown(18.5) == "18:30"
    smoker = shown["smoker"]
    assert smoker.kind == "share" and smoker.shown(smoker.others) == f"{x[:50, 1].mean():.0%}"
