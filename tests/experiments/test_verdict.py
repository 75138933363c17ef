"""What counts as reproduced: the interval beside scipy's, and the rule on examples."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from gedilearn.experiments.verdict import Published, interval, judge, shown, too_wide


def spread(mean, deviation, n):
    """n numbers with this mean and this deviation of their own."""
    steps = np.linspace(-1, 1, n)
    return list(mean + deviation * steps / steps.std())


@pytest.mark.parametrize("n", [2, 5, 20])
def test_the_interval_is_scipys_for_two_samples(n):
    ours, theirs = np.random.default_rng(n).random(n), np.random.default_rng(n + 1).random(5)
    paper = Published(theirs.mean(), theirs.std(), rounding=0.0)
    limits = stats.ttest_ind(ours, theirs, equal_var=False).confidence_interval(0.95)
    assert interval(list(ours), paper) == pytest.approx((limits.low, limits.high))


def test_zero_is_at_its_end_where_scipys_test_is_at_five_percent():
    """The test knows means, deviations and numbers alone, as the interval does."""
    ours, deviation = spread(0.5, 0.2, 8), 0.3 * math.sqrt(5 / 4)

    def p_value(mean):
        own = (np.mean(ours), np.std(ours, ddof=1), len(ours))
        return stats.ttest_ind_from_stats(*own, mean, deviation, 5, equal_var=False).pvalue

    least, most = interval(ours, Published(0.5, 0.3, rounding=0.0))
    assert p_value(0.5 + least) == pytest.approx(0.05) == pytest.approx(p_value(0.5 + most))


def test_without_a_deviation_in_the_paper_it_is_that_of_our_seeds():
    ours = spread(0.4, 0.1, 6)
    limits = stats.ttest_1samp(ours, 0.45).confidence_interval(0.95)
    expected = (limits.low - 0.45 - 0.005, limits.high - 0.45 + 0.005)
    assert interval(ours, Published(0.45)) == pytest.approx(expected)


def test_where_nothing_varies_it_is_a_point_and_the_papers_rounding():
    assert interval([1.0] * 5, Published(0.98)) == pytest.approx((0.015, 0.025))


@pytest.mark.parametrize(
    ("ours", "paper", "expected"),
    [
        (spread(0.36, 0.36, 2), (0.83, 0.12), "undecided: fewer than 5 seeds"),
        (spread(0.36, 0.36, 5), (0.83, 0.12), "undecided"),
        (spread(0.36, 0.36, 20), (0.83, 0.12), "worse"),
        (spread(0.83, 0.36, 5), (0.83, 0.12), "undecided"),  # the same mean is not enough
        (spread(0.83, 0.00, 9), (0.83, 0.12), "undecided"),  # the paper's spread is too wide
        (spread(1.00, 0.00, 5), (0.83, 0.12), "undecided"),
        (spread(1.00, 0.00, 5), (1.00, 0.01), "reproduced"),
        (spread(0.93, 0.00, 5), (1.00, 0.01), "reproduced"),  # less, but by less than the margin
        (spread(0.95, 0.05, 5), (1.00, 0.01), "undecided"),
        (spread(0.95, 0.05, 20), (1.00, 0.01), "reproduced"),  # more seeds tell
        (spread(0.80, 0.05, 5), (1.00, 0.01), "worse"),
        (spread(0.98, 0.05, 5), (0.00, 0.00), "better"),
        (spread(0.20, 0.00, 5), (0.00, 0.00), "better"),  # both fail, but not alike
        (spread(0.20, 0.40, 5), (0.00, 0.00), "undecided"),
        ([1.0] * 4, (1.00, 0.01), "undecided: fewer than 5 seeds"),
        ([1.0] * 4 + [math.nan], (1.00, 0.01), "undecided: not finite"),
    ],
)
def test_the_rule_on_examples(ours, paper, expected):
    assert judge(ours, Published(*paper)) == expected


def test_no_spread_of_ours_makes_a_pass_of_what_had_failed():
    for mean in (0.5, 0.7, 0.85, 0.95):
        said = [judge(spread(mean, s, 5), Published(1.0, 0.01)) for s in np.linspace(0, 1, 50)]
        passed = [verdict == "reproduced" for verdict in said]
        assert passed == sorted(passed, reverse=True)


def test_less_may_be_better():
    assert judge([150.0] * 5, Published(197, rounding=0.5), 19.7, low=True) == "better"
    assert judge([250.0] * 5, Published(197, rounding=0.5), 19.7, low=True) == "worse"


def test_the_interval_is_shown_with_its_signs():
    assert shown([1.0] * 5, Published(0.83, 0.12)) == "-0.002 to +0.342"
    assert shown([1.0], Published(0.83, 0.12)) == shown([math.inf] * 5, Published(0.8)) == ""


def test_a_number_is_too_wide_by_the_papers_runs_alone():
    half = stats.t.ppf(0.975, 4) / 2  # of the deviation: the square root of n is that of n - 1
    edge = (0.1 - 0.005) / half
    assert too_wide(Published(0.5, edge + 1e-6)) and not too_wide(Published(0.5, edge - 1e-6))
