"""Tables on a terminal and as Markdown; the verdict on a number of the paper."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from gedilearn.paper import table

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
    "score (floor)": table.pair("nmi", "floor", 1),
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
    assert table.ranged("nmi")(nothing) == table.pair("nmi", "floor", 1)(nothing) == ""


def test_a_rounded_zero_has_no_sign():
    assert table.number(-0.001, 2) == "0.00" and table.number(-0.006, 2) == "-0.01"


def test_findings_count_modes_recoveries_divergence_and_certificates():
    good = {"modes": [], "bound_gap": 0.001, "certified": True, "nmi": 1.0, "recoveries": 0}
    good |= {"stopped": "certified", "verdict": "certified"}
    rows = [
        good,
        good | {"nmi": 0.5, "recoveries": 2},
        good
        | {"certified": False, "bound_gap": 0.3, "verdict": "training diverged at iteration 9"},
        good | {"certified": False, "modes": ["cluster collapse"], "stopped": "diverged"},
    ]
    assert table.findings(rows, false_below=0.95) == (
        "cluster collapse 1/4, recovered 1/4, diverged 2/4, uncertified 1/4: bound gap 0.300, "
        "certified 2/4, falsely so 1/4"
    )
