"""The verdicts and tables on moons and circles, from rows that are made up."""

from __future__ import annotations

import io
import statistics

import numpy as np
import pytest
from rich.console import Console

from gedilearn import panels
from gedilearn.experiments import toy, toy_tables
from gedilearn.experiments.toy_tables import EXPERIMENT, PAPER

# As printed: JEM, SwAV, no unif, no inv, no gen, GEDI.
PRINTED_TOY = """
moons 0.00±0.00 0.76±0.36 0.00±0.00 0.11±0.15 0.98±0.00 0.94±0.07
circles 0.00±0.00 0.00±0.00 0.00±0.00 0.22±0.13 0.83±0.12 1.00±0.01
"""


def made_up(nmi, seed=0, **others):
    row = {"data": "moons", "method": "gedi", "seed": seed, "preset": "default"}
    row |= {
        "shortened_to": None,
        "changes": None,
        "nmi": nmi,
        "ami": nmi - 0.001,
        "accuracy": nmi,
        "gap": 0.001,
    }
    row |= {"certified": True, "verdict": "certified", "modes": [], "stopped": "certified"}
    row |= {"recoveries": 0, "iterations": 500, "together": 5, "seconds": 1.0 + seed}
    return row | others


def test_the_summary_is_that_found_by_hand():
    nmi = [1.0, 0.9, 0.2]
    stuck = {"certified": False, "stopped": "budget"}
    rows = [made_up(nmi[0]), made_up(nmi[1], 1), made_up(nmi[2], 2, gap="inf", **stuck)]
    rows[2]["modes"] = ["cluster collapse", "label permutation"]
    (table,) = toy_tables.tables(rows)
    (group,) = table.groups
    line = {column.head: column.cell(group) for column in table.columns}
    assert line["NMI"] == f"{0.7:.2f} ± {np.std(nmi):.2f}"
    assert line["gap"] == "0.0010" and line["seconds"] == "2.0"
    assert line["AMI"] == f"{statistics.fmean(nmi) - 0.001:.2f}"
    assert (line["certified"], line["false certificates"]) == ("2/3", "1")
    assert (line["R"], line["C"], line["P"]) == ("0", "1", "1")
    words = "cluster collapse 1/3, label permutation 1/3, certified 2/3, falsely so 1/3"
    assert toy_tables.reason(group) == words


def test_a_reason_names_runs_that_are_stuck_and_that_diverged():
    rows = [made_up(0.3, s, certified=False, gap=g) for s, g in enumerate((0.5, 0.7, 0.6))]
    rows[0]["stopped"] = "diverged"
    assert toy_tables.reason(rows) == "diverged 1/3, uncertified 3/3: gap 0.600"


def test_markdown_says_what_the_rows_say_and_names_shorter_training():
    lines = EXPERIMENT.markdown([made_up(1.0, s, shortened_to=70) for s in (0, 1)]).splitlines()
    numbers = "1.00 ± 0.00 | 0.94 ± 0.07 | 1.00 | 1.00 | 0.0010 | 2/2 | 0 | 0 | 0 | 0 | 1.5 |"
    assert lines[2] == f"| moons | GEDI | 2 | {numbers}"
    assert "- Preset default, training shortened to 70 iterations." in lines


def test_the_table_fits_a_terminal_of_80_columns():
    rows = [made_up(0.5, s, data="circles", method="barlow k-means", gap=12.3456) for s in range(9)]
    rows += [made_up(0.5, s, data="circles", method="deepcluster", gap=12.3456) for s in range(20)]
    console = Console(file=io.StringIO(), width=80)
    EXPERIMENT.show(rows, console)
    lines = [line.split() for line in console.file.getvalue().splitlines()]
    first = ["circles", "Barlow", "k-means", "9", "0.50", "±", "0.00", "0.50", "12.3456", "9/9"]
    assert first in [line[:10] for line in lines]
    assert "…" not in console.file.getvalue()


def test_the_figure_shows_every_seed_and_the_papers_mean(tmp_path, monkeypatch):
    cells = [(data, method) for data in toy.SETS for method in toy.NAMES]
    rows = [
        made_up((7 * k + 3 * seed) % 20 / 20, seed, data=data, method=method)
        for k, (data, method) in enumerate(cells)
        for seed in range(3)
    ]
    drawn = []
    monkeypatch.setattr(panels, "save", lambda fig, path: drawn.append(fig) or path)
    toy_tables.figure(rows, tmp_path / "toy.png")
    for axes, data in zip(drawn[0].axes, ("moons", "circles"), strict=True):
        dots = [p for c in axes.collections if len(c.get_offsets()) == 3 for p in c.get_offsets()]
        mine = sorted(r["nmi"] for r in rows if r["data"] == data)
        assert sorted(float(y) for _, y in dots) == pytest.approx(mine)
        marks = sorted(float(bars.lines[0].get_ydata()[0]) for bars in axes.containers)
        assert marks == sorted(n.mean for (name, _), n in PAPER.items() if name == data)


# --- the paper's numbers


def test_the_papers_numbers_are_all_there():
    methods = ("jem", "swav", "no-unif", "no-inv", "no-gen", "gedi")
    printed = {}
    for line in PRINTED_TOY.split("\n")[1:3]:
        data, *cells = line.split()
        for method, cell in zip(methods, cells, strict=True):
            printed[data, method] = tuple(float(part) for part in cell.split("±"))
    assert printed == {key: number[:2] for key, number in PAPER.items()}
    assert {(number.runs, number.rounding) for number in PAPER.values()} == {(5, 0.005)}


def test_a_wide_result_and_one_of_few_seeds_are_not_reproduced():
    circles = {"data": "circles", "method": "no-gen"}  # .83 ± .12 in the paper
    wide = [made_up(nmi, seed, **circles) for seed, nmi in enumerate((0.0, 0.72) * 3)]
    assert statistics.pstdev(r["nmi"] for r in wide) == pytest.approx(0.36)
    assert toy_tables.judged(wide) == "worse"
    one = {"data": "circles"}  # 1.00 ± .01
    assert toy_tables.judged([made_up(1.0, s, **one) for s in range(5)]) == "reproduced"
    few = [made_up(1.0, s, **one) for s in range(4)]
    assert toy_tables.judged(few) == "undecided: fewer than 5 seeds"
    assert toy_tables.judged([made_up(1.0, method="dino")]) == "not in the paper"
    short = [made_up(1.0, s, shortened_to=70) for s in range(5)]
    assert toy_tables.judged(short) == "shortened: not comparable"


def test_the_page_names_the_numbers_that_the_papers_own_spread_leaves_open():
    names = "moons SwAV, moons no inv, circles no inv, circles no gen, moons GEDI"
    assert f"wider than ±0.1 for {names}, so that" in toy_tables.RULES[-1]
