"""One description of a table, shown on a terminal and as Markdown."""

from __future__ import annotations

import io
import statistics
from dataclasses import replace

import pytest
from rich.console import Console

from gedilearn.errors import InputError
from gedilearn.experiments.table import (
    Column,
    Experiment,
    Page,
    Table,
    beside,
    count,
    grouped,
    label,
    mean_and_deviation,
    number,
    ranged,
    share,
    statistic,
)

ROWS = [
    {"data": data, "method": method, "seed": seed, "nmi": nmi, "floor": 0.5, "good": nmi > 0.5}
    for data, method, values in (
        ("moons", "a", (0.2, 0.9, 0.4)),
        ("moons", "b", (1.0, 1.0, 1.0)),
        ("rings", "a", (0.1, 0.3, None)),
    )
    for seed, nmi in enumerate(values)
    if nmi is not None
]
COLUMNS = [
    label("data"),
    label("method", {"a": "Method A"}),
    ranged("score", "nmi", short="s"),
    Column("seeds", lambda group: str(len(group)), short=""),
]


def table(notes=("A note.",)):
    return Table("Scores", COLUMNS, grouped(ROWS, "data", "method"), notes)


def printed(shown, width=80):
    console = Console(file=io.StringIO(), width=width)
    shown.show(console)
    return console.file.getvalue()


def test_markdown_has_every_column_and_the_notes():
    assert table().markdown().splitlines() == [
        "| data | method | score | seeds |",
        "| --- | --- | ---: | ---: |",
        "| moons | Method A | 0.400 (0.200 to 0.900) | 3 |",
        "| moons | b | 1.000 | 3 |",
        "| rings | Method A | 0.200 (0.100 to 0.300) | 2 |",
        "",
        "- A note.",
    ]


def test_notes_are_below_and_may_be_none():
    assert table(["Another."]).markdown().endswith("\n\n- Another.\n")
    assert table(()).markdown().endswith("| 2 |\n")


def test_a_heading_and_numbers_of_notes_are_in_markdown_and_what_is_not_printed_alone_there():
    shown = replace(table(["One.", "Two."]), heading="Above", numbered=True)
    assert shown.markdown().startswith("Above\n\n| data |")
    assert shown.markdown().endswith("\n\n1. One.\n2. Two.\n")
    assert "1. One." in printed(shown) and "Above" not in printed(shown)
    assert printed(replace(shown, printed=False)) == ""


def test_a_terminal_has_short_heads_brief_cells_and_a_repeated_name_once():
    lines = [line.split() for line in printed(table()).splitlines()]
    assert lines == [
        ["Scores"],
        ["data", "method", "s"],
        ["moons", "Method", "A", "0.400"],
        ["b", "1.000"],
        ["rings", "Method", "A", "0.200"],
        ["A", "note."],
    ]


def test_notes_are_wrapped_at_words():
    lines = printed(table(["word " * 30]), width=40).splitlines()
    assert max(map(len, lines)) <= 40 and all(set(line.split()) == {"word"} for line in lines[-4:])


def test_a_style_colours_a_cell_on_a_terminal_alone():
    column = Column("a", lambda group: "[x]", style=lambda group: "green")
    shown = Table("", [column], [ROWS])
    console = Console(file=io.StringIO(), force_terminal=True, color_system="standard")
    shown.show(console)
    assert "\x1b[32m[x]\x1b[0m" in console.file.getvalue()
    assert "[x]" in shown.markdown() and "\x1b" not in shown.markdown()


@pytest.mark.parametrize(
    ("column", "cell"),
    [
        (statistic("", "nmi", digits=2), "0.40"),
        (statistic("", "nmi", max, digits=1, factor=10), "9.0"),
        (statistic("", "nmi", statistics.fmean), "0.500"),
        (share("", lambda row: row["good"]), "1/3"),
        (share("", lambda row: None), ""),
        (count("", lambda row: row["good"]), "1"),
        (count("", lambda row: None), ""),
        (beside("", "nmi", "floor", 1), "0.4 (0.5)"),
        (Column("", mean_and_deviation("nmi")), "0.50 ± 0.29"),
    ],
)
def test_cells_of_numbers(column, cell):
    assert column.cell(ROWS[:3]) == cell


def test_numbers_that_are_missing_leave_a_cell_empty_and_infinity_is_kept_as_its_name():
    nothing = [{"nmi": None, "floor": None}]
    for column in (statistic("", "nmi"), ranged("", "nmi"), beside("", "nmi", "floor", 1)):
        assert column.cell(nothing) == ""
    assert statistic("", "nmi").cell([*nothing, {"nmi": "inf"}]) == "inf"


def test_nothing_is_minus_zero():
    assert number(-0.0004, 3) == "0.000" and number(-0.0006, 3) == "-0.001"


def test_groups_are_in_the_order_given_or_that_of_the_rows():
    def keys(groups):
        return [(group[0]["data"], group[0]["method"]) for group in groups]

    assert keys(grouped(ROWS, "data", "method", method=("b", "a"))) == [
        ("moons", "b"),
        ("moons", "a"),
        ("rings", "a"),
    ]
    assert keys(grouped(ROWS, "data", "method", data=("rings",)))[0] == ("rings", "a")
    mixed = [ROWS[-1], ROWS[0], ROWS[-2]]
    assert [len(group) for group in grouped(mixed, "data")] == [2, 1]


def test_a_page_shows_the_pictures_that_are_there(tmp_path):
    page = Page(["# Title\n"])
    (tmp_path / "a.png").touch()
    for name in ("a", "b"):
        page.add_picture(f"{name}-1.png", tmp_path / f"{name}.png", f"about {name}", "Words: ")
    page.add("The end.\n\n")
    assert page.text == "# Title\n\nWords: ![about a](a-1.png)\n\nThe end.\n"
    assert page.pictures == {"a-1.png": tmp_path / "a.png"}


def test_the_markdown_of_an_experiment_is_that_of_its_tables(tmp_path):
    two = Experiment("two", lambda *_: ROWS, lambda rows: [table(), table(())])
    assert two.markdown(ROWS) == table().markdown() + "\n" + table(()).markdown()
    with pytest.raises(InputError, match="holds no rows: gedi reproduce two --out"):
        two.page(tmp_path)
