"""Effect sizes against loops and scipy, words, and columns that alone make the clusters."""

from __future__ import annotations

import math

import numpy as np
import pytest

from gedilearn.explanation import columns
from gedilearn.explanation.columns import Columns, compare, numeric, reproducing


def made(seed: int = 0, n: int = 300) -> tuple[np.ndarray, np.ndarray]:
    """Rows of four columns on very different scales, and labels of three clusters."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 3, n)
    x = rng.normal(size=(n, 4)) * (1, 1e-6, 1e5, 2) + (0, 5, 1e9, -3)
    x[:, 0] += 2 * (labels == 1)
    x[:, 2] -= 3e5 * (labels == 0)
    x[labels == 2, 3] = 0.1 * x[labels == 2, 3] - 2.7
    return x, labels


def by_hand(x: np.ndarray, labels: np.ndarray, k: int, j: int) -> tuple[float, float, float, float]:
    """Cohen's d with the textbook's pooled variance, means, and the ratio of the deviations."""
    inside, outside = x[labels == k, j], x[labels != k, j]
    n, m = len(inside), len(outside)
    pooled = ((n - 1) * inside.var(ddof=1) + (m - 1) * outside.var(ddof=1)) / (n + m - 2)
    effect = (inside.mean() - outside.mean()) / math.sqrt(pooled)
    return effect, inside.mean(), outside.mean(), inside.std() / outside.std()


def test_differences_are_those_of_a_loop_over_clusters_and_columns(monkeypatch):
    x, labels = made()
    monkeypatch.setattr(columns, "WORTH", 0.0)  # every column is named
    monkeypatch.setattr(columns, "_BLOCK_VALUES", 2 * len(x))  # in two blocks
    found = compare(numeric(x, list("abcd")), labels, 3).differences
    for k in range(3):
        assert {d.column for d in found[k]} == set("abcd")
        for d in found[k]:
            numbers = (d.effect, d.mean, d.others, d.spread)
            expected = by_hand(x, labels, k, "abcd".index(d.column))
            np.testing.assert_allclose(numbers, expected, rtol=1e-6)
        effects = [abs(d.effect) for d in found[k]]
        assert effects == sorted(effects, reverse=True)


def test_the_share_explained_is_that_of_an_analysis_of_variance():
    from sklearn.feature_selection import f_classif

    x, labels = made(1)
    explained = compare(numeric(x, None), labels, 3).explained
    f, _ = f_classif(x - x.mean(0), labels)
    n, c = len(x), 3
    np.testing.assert_allclose(explained / (1 - explained), f * (c - 1) / (n - c), rtol=1e-5)


def test_only_columns_worth_a_word_are_named_the_strongest_first():
    x, labels = made()
    found = compare(numeric(x, ["income", "noise", "visits", "width"]), labels, 3).differences
    assert [d.words for d in found[1]] == ["higher income", "higher visits"]
    assert found[0][0].words == "much lower visits"
    assert "narrower range of width" in [d.words for d in found[2]]
    assert all(d.column != "noise" for own in found for d in own)


@pytest.mark.parametrize(
    ("name", "inside", "outside", "words"),
    [
        ("income", [8.5, 9.5, 10.5], [1.5, 2.5, 3.5], "much higher income"),
        ("income", [1.5, 2.5, 3.5], [2.2, 3.2, 4.2], "lower income"),
        ("visits", [1, 2, 3], [2, 3, 4], "fewer visits"),
        ("visits", [20, 21, 22], [2, 3, 4], "far more visits"),
        ("status", [20, 21, 22], [2, 3, 4], "much higher status"),
        ("age", [1, 2, 3], [2, 3, 4], "lower age"),
        ("smoker", [1, 1, 1, 0], [0, 0, 1, 0], "more often smoker"),
        ("smoker", [1, 1, 1, 1], [0, 0, 0, 0], "always smoker"),
        ("smoker", [0, 0, 0, 0], [0, 1, 1, 0], "never smoker"),
    ],
)
def test_words_fit_what_a_column_holds(name, inside, outside, words):
    x = np.array([*inside, *outside], float)[:, None]
    labels = np.array([0] * len(inside) + [1] * len(outside))
    (found, _) = compare(numeric(x, [name]), labels, 2).differences
    assert [d.words for d in found] == [words]


def test_a_column_that_is_the_cluster_has_an_infinite_effect_and_exact_means():
    labels = np.arange(1000) % 3
    x = np.stack([labels == 0, np.full(1000, 7.0)], 1).astype(float)
    found = compare(numeric(x, ["flag", "constant"]), labels, 3).differences
    (flag,) = found[0]
    assert (flag.column, flag.effect, flag.others) == ("flag", math.inf, 0)
    assert flag.mean == pytest.approx(1)
    assert all(d.column == "flag" for own in found for d in own)


def test_huge_offsets_and_scales_change_no_effect():
    x, labels = made(2)
    found = compare(numeric(x, None), labels, 3).differences
    for factor, shift in ((1e200, 0.0), (1e-200, 0.0), (1.0, 1e6)):
        again = compare(numeric(x * factor + shift, None), labels, 3).differences
        for own, other in zip(found, again, strict=True):
            assert [d.column for d in own] == [d.column for d in other]
            np.testing.assert_allclose(
                [d.effect for d in own], [d.effect for d in other], rtol=1e-3
            )


def test_unused_clusters_and_one_that_holds_all_have_no_differences():
    x, labels = made(3)
    assert compare(numeric(x, None), np.zeros_like(labels), 2).differences == [(), ()]


def test_columns_without_names_have_numbers_and_images_have_no_columns():
    assert list(numeric(np.zeros((3, 2)), None).names) == ["column 0", "column 1"]
    assert numeric(np.zeros((3, 1, 4, 4)), None) is None


def test_a_column_that_alone_makes_the_clusters_is_found():
    rng = np.random.default_rng(0)
    secret = rng.uniform(0, 6, 900)
    labels = secret.astype(int) % 3  # six ranges of it, two for each cluster
    x = np.column_stack([rng.normal(size=(900, 60)), secret * 1e7])
    names = [*(f"noise {j}" for j in range(60)), "secret"]
    table = Columns(names, x)
    found = reproducing(table, labels, compare(table, labels, 3).explained)
    assert [name for name, _ in found] == ["secret"]
    assert 0.95 < found[0][1] <= 1


def test_no_column_alone_makes_clusters_of_two_columns_or_of_noise():
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, (400, 2))
    for labels in ((x[:, 0] * x[:, 1] > 0).astype(int), rng.integers(0, 4, 400)):
        table = numeric(x, None)
        assert reproducing(table, labels, compare(table, labels, 4).explained) == []


def test_the_only_column_is_no_finding():
    x = np.arange(20.0)[:, None]
    table = numeric(x, None)
    labels = (x[:, 0] > 9).astype(int)
    assert reproducing(table, labels, compare(table, labels, 2).explained) == []


def test_shares_with_gaps_filled_in_are_shares_and_have_no_range():
    labels = np.repeat([0, 1, 2], 50)
    rng = np.random.default_rng(0)
    red = np.where(rng.random(150) < 0.2, 0.4, labels == 1)  # a missing cell is the share of all
    rare = np.where(labels == 0, rng.random(150) < 0.06, rng.random(150) < 0.01)
    x = np.column_stack([red, rare, rng.normal(size=150)])
    names = ["colour=red", "town=a", "b"]
    found = compare(numeric(x, names, {0: "share", 1: "share"}), labels, 3).differences
    assert [d.words for d in found[1]] == ["much more often colour=red"]
    assert not any("range" in d.words for one in found for d in one)


def test_times_are_earlier_or_later_and_shown_as_minutes_of_the_day():
    labels = np.repeat([0, 1], 50)
    rng = np.random.default_rng(0)
    night = 24 + rng.normal(size=100)  # around midnight
    x = np.column_stack([np.where(labels == 1, night, 18.5), rng.normal(size=100)])
    found = compare(numeric(x, ["arrival", "b"], {0: "time"}), labels, 2).differences[1]
    assert found[0].words == "much later arrival"
    assert found[0].shown(24.26) == "00:16" and found[0].shown(found[0].others) == "18:30"


def test_dates_are_earlier_or_later_and_shown_as_days_and_shares_in_percent():
    from datetime import date

    rng = np.random.default_rng(0)
    labels = np.repeat([0, 1], 50)
    first = date(2024, 3, 1).toordinal() - date(1970, 1, 1).toordinal()
    x = np.c_[first + 100 * labels + rng.normal(size=100), (rng.random(100) < 0.2) | (labels == 1)]
    found = compare(numeric(x, ["joined", "smoker"], {0: "date"}), labels, 2).differences[1]
    assert [d.words for d in found] == ["much later joined", "always smoker"]
    joined, smoker = found
    assert joined.kind == "date" and joined.shown(first + 0.9) == "2024-03-01"
    assert smoker.kind == "share" and smoker.shown(smoker.mean) == "100%"
    assert smoker.shown(smoker.others) == f"{x[:50, 1].mean():.0%}"
