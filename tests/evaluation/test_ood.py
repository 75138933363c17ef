"""Scores inside and outside: AUROC, FPR at 95% TPR and the curve."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score, roc_curve

from gedilearn.errors import InputError
from gedilearn.evaluation.ood import roc


def scores(seed: int, rounded: bool) -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(seed)
    inside, outside = generator.normal(1.5, 1, 137), generator.normal(0, 1, 90)
    return (inside.round(), outside.round()) if rounded else (inside, outside)


@pytest.mark.parametrize("rounded", [False, True], ids=["distinct", "ties"])
@pytest.mark.parametrize("seed", range(3))
def test_both_figures_equal_a_count_of_pairs_and_a_search_over_all_thresholds(seed, rounded):
    inside, outside = scores(seed, rounded)
    wins = (inside[:, None] > outside) + 0.5 * (inside[:, None] == outside)
    passing = [t for t in inside if np.mean(inside >= t) >= 0.95]
    found = roc(inside, outside)
    assert found.auroc == pytest.approx(wins.mean())
    assert found.fpr95 == pytest.approx(min(np.mean(outside >= t) for t in passing))


@pytest.mark.parametrize("rounded", [False, True], ids=["distinct", "ties"])
def test_both_figures_and_the_curve_equal_those_of_scikit_learn(rounded):
    inside, outside = scores(7, rounded)
    truth, joined = np.repeat([1, 0], [137, 90]), np.r_[inside, outside]
    fpr, tpr, _ = roc_curve(truth, joined, drop_intermediate=False)
    curve = roc(inside, outside)
    assert curve.fpr95 == pytest.approx(fpr[np.argmax(tpr >= 0.95)])
    assert curve.auroc == pytest.approx(roc_auc_score(truth, joined))
    area = (np.diff(curve.fpr) * (curve.tpr[1:] + curve.tpr[:-1]) / 2).sum()
    assert area == pytest.approx(curve.auroc)
    assert (curve.fpr[0], curve.tpr[0], curve.fpr[-1], curve.tpr[-1]) == (0, 0, 1, 1)


@pytest.mark.parametrize("n", [20, 60, 100, 140])
def test_exactly_95_of_100_are_enough(n):
    inside = np.arange(n, dtype=float)
    lowest = n // 20  # the threshold that leaves exactly 5% out
    assert roc(inside, np.array([lowest, lowest - 0.5])).fpr95 == 0.5


def test_separated_scores_are_perfect_and_exchanged_ones_the_worst():
    low, high = np.zeros(10), np.ones(10)
    best, worst = roc(high, low), roc(low, high)
    assert (best.auroc, best.fpr95) == (1.0, 0.0)
    assert (worst.auroc, worst.fpr95) == (0.0, 1.0)


@pytest.mark.parametrize(
    ("inside", "outside", "words"),
    [
        ([1.0, np.nan], [0.0], "scores inside: 1 NaN or infinite value in row 1"),
        ([1.0], [0.0, -np.inf], "scores outside: 1 NaN or infinite value in row 1"),
        ([1.0], [], "scores outside: float64 of shape (0,)"),
        ([[1.0]], [0.0], "scores inside: float64 of shape (1, 1)"),
        (["a"], [0.0], "scores inside: <U1"),
    ],
)
def test_scores_that_are_not_finite_numbers_are_refused_in_one_line(inside, outside, words):
    with pytest.raises(InputError) as error:
        roc(np.array(inside), np.array(outside))
    assert words in str(error.value) and "\n" not in str(error.value)
