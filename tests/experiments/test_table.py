"""Tables on a terminal and as Markdown; the verdict on a number of the paper."""

from __future__ import annotations

import io
import math

import numpy as np
import pytest
from rich.console import Console
from scipy import stats

from gedilearn.experiments import table
from gedilearn.experiments.table import Published, difference, interval, judge

ROWS = [
    {"data": data, "method": method, "seed": seed, "nmi": nmi, "floor": 0.5}
    for data, method, values in (
        ("moons", "a", (0.2, 0.9, 0.4)),
        ("moons", "b", (1.0, 1.0, 1.0)),
        ("rings", "a", (0.1, None, None)),
    )
    for seed, nmi in enumerate(values)
]
COLUMNS = {
    "data": table.label("data"),
    "method": table.label("method", {"a": "Method A"}),
    "seeds": table.seeds,
    "score": table.ranged("nmi"),
    "score (floor)": table.beside("nmi", "floor", 1),
}


@pytest.fixture
def made():
    groups = table.grouped(ROWS, data=("rings",), method=("b",))
    return table.make("Scores", COLUMNS, groups, wide=("score (floor)",))


def test_markdown_has_every_column_and_sets_numbers_to_the_right(made):
    assert made.markdown().splitlines() == [
        "| data | method | seeds | score | score (floor) |",
        "| --- | --- | ---: | ---: | ---: |",
        "| rings | Method A | 3 | 0.100 | 0.1 (0.5) |",
        "| moons | b | 3 | 1.000 | 1.0 (0.5) |",
        "| moons | Method A | 3 | 0.400 (0.200 to 0.900) | 0.4 (0.5) |",
    ]


def test_a_terminal_gets_the_columns_that_it_has_room_for(made):
    console = Console(file=io.StringIO(), width=80)
    console.print(made.grid())
    title, head, *lines = console.file.getvalue().splitlines()
    assert title.strip() == "Scores" and head.split() == ["data", "method", "seeds", "score"]
    assert [line.split()[0] for line in lines] == ["rings", "moons", "moons"]


def test_a_table_without_lines_is_empty():
    assert table.Table("", []).markdown() == "|  |\n|  |\n"


def test_values_that_are_missing_leave_a_cell_empty():
    nothing = [{"nmi": None}, {}]
    assert table.ranged("nmi")(nothing) == table.beside("nmi", "floor", 1)(nothing) == ""


def test_a_rounded_zero_has_no_sign():
    assert table.number(-0.001, 2) == "0.00" and table.number(-0.006, 2) == "-0.01"


def test_findings_count_modes_recoveries_divergence_and_certificates():
    good = {"modes": [], "gap": 0.001, "certified": True, "nmi": 1.0, "recoveries": 0}
    good |= {"stopped": "certified", "verdict": "certified"}
    rows = [
        good,
        good | {"nmi": 0.5, "recoveries": 2},
        good | {"certified": False, "gap": 0.3, "verdict": "training diverged at iteration 9"},
        good | {"certified": False, "modes": ["cluster collapse"], "stopped": "diverged"},
    ]
    assert table.findings(rows, false_below=0.95) == (
        "cluster collapse 1/4, recovered 1/4, diverged 2/4, uncertified 1/4: gap 0.300, "
        "certified 2/4, falsely so 1/4"
    )


# --- verdicts


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


def test_where_nothing_varies_it_is_a_point_and_the_papers_rounding():
    assert interval([1.0] * 5, Published(0.98, 0.0)) == pytest.approx((0.015, 0.025))


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


def test_the_interval_is_shown_with_its_signs():
    assert difference([1.0] * 5, Published(0.83, 0.12)) == "-0.002 to +0.342"
    assert difference([1.0], Published(0.83, 0.12)) == ""
    assert difference([math.inf] * 5, Published(0.8, 0.1)) == ""
