"""The pages of docs/results: their tables come from the rows, and their pictures exist."""

from __future__ import annotations

import importlib.util
import json
import re
from pathlib import Path

import pytest

from gedilearn.errors import InputError
from gedilearn.paper.runner import Cell, Runner

DOCS = Path(__file__).parents[2] / "docs"
if not DOCS.exists():
    pytest.skip("the documentation is not part of this installation", allow_module_level=True)
RESULTS = DOCS / "results"
PAGES = sorted(RESULTS.glob("*.md"))
REPORTING = [page for page in PAGES if page.stem not in ("index", "provenance")]


@pytest.fixture(scope="module")
def script():
    """docs/make_results.py, which is not part of the library."""
    found = importlib.util.spec_from_file_location("make_results", DOCS / "make_results.py")
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module


@pytest.mark.parametrize("file", PAGES, ids=lambda file: file.stem)
def test_the_tables_of_a_page_come_from_its_rows(script, file):
    """After a change of rows or columns: `make results`."""
    assert script.page(file) == file.read_text(encoding="utf-8")


def test_the_csv_tables_beside_the_pages_come_from_the_rows(script):
    files = script.csv_files()
    assert {file.name for file in files} == {file.name for file in RESULTS.glob("*.csv")}
    for file, text in files.items():
        assert file.read_text(encoding="utf-8") == text, f"{file.name}: run `make results`"


@pytest.mark.parametrize("file", REPORTING, ids=lambda file: file.stem)
def test_a_page_begins_with_its_conclusion_and_one_small_table(file):
    head, _, details = file.read_text(encoding="utf-8").partition("\n## Details\n")
    assert details
    assert len(head.split("\n\n")[1].splitlines()) == 3  # a sentence each
    table = [line for line in head.splitlines() if line.startswith("|")]
    assert sum(line.startswith("| ---") for line in table) == 1
    assert len(table) <= 2 + 12
    assert table[0].count("|") - 1 <= 8


@pytest.mark.parametrize("file", PAGES, ids=lambda file: file.stem)
def test_every_picture_that_a_page_shows_is_there(file):
    for picture in re.findall(r"\]\(([^)]+\.png)\)", file.read_text(encoding="utf-8")):
        assert (file.parent / picture).exists(), f"{file.name} shows {picture}"


def test_a_page_shows_the_papers_numbers_next_to_ours():
    toy, images = ((DOCS / "results" / f"{name}.md").read_text() for name in ("toy", "images"))
    assert "| circles | GEDI | 5 | 1.00 ± 0.01 | 1.00 ± 0.00 |" in toy
    assert "| 0.269 (0.263 to 0.285) | 0.41 (0.31) | 0.45 |" in images  # CIFAR-10, GEDI


@pytest.mark.parametrize(
    "value",
    [
        *("words", "with, commas\nand lines", 'a "quote"', "inf"),
        *(None, True, 0, -3, 0.1, 1e-12),
        *([], ["cluster collapse", 2.5, None], {"svhn": {"n": 3, "log_density": "inf"}}),
    ],
)
def test_a_value_is_read_back_from_csv_as_it_was(script, value, tmp_path):
    rows = [{"data": "moons", "value": value}, {"data": "rings", "value": 1}]
    (tmp_path / "a.csv").write_text(script.rows_as_csv(rows), newline="")
    assert script.read_rows(tmp_path / "a.csv") == rows


def count(cell, n, settings):
    row = {"data": cell.data, "method": "no-gen", "seed": cell.seed, "preset": "paper/toy"}
    return [row | SCORES]


SCORES = {"score": 1 / 3, "seconds": 60.0}


def cells(*seeds):
    return [Cell("moons", "no-gen", seed) for seed in seeds]


def test_collected_rows_keep_the_folders_of_runs_and_six_digits(script, tmp_path):
    Runner(tmp_path / "out" / "default").rows(cells(0, 1, 2), count, 5)
    (place,) = script.collect("toy", tmp_path / "out", tmp_path)
    assert place == tmp_path / "rows" / "toy" / "default"
    assert [r["score"] for r in script.read_rows(Path(f"{place}.csv"))] == [0.333333] * 3
    assert json.loads(Path(f"{place}.json").read_text())["n"] == 5
    made = script.made(place, tmp_path / "rows")
    assert (made["number"], made["seeds"], made["trained on"]) == ("3", "0 to 2", "5")
    assert made["state"] == "current" and script.outdated(place) == ""
    # New rows are added, and replace those of the same key.
    Runner(tmp_path / "more").rows(cells(2, 3), count, 5)
    script.join("toy/default", tmp_path / "more", tmp_path)
    assert script.made(place, tmp_path / "rows")["seeds"] == "0 to 3"


def test_rows_that_this_code_would_change_are_named(script, tmp_path):
    Runner(tmp_path / "out" / "default").rows(cells(0), count, 5)
    (place,) = script.collect("toy", tmp_path / "out", tmp_path)
    file = Path(f"{place}.json")
    kept = json.loads(file.read_text())
    assert script.check(tmp_path) == []
    kept["fits"]["no-gen"][0][0] *= 1.01
    file.write_text(json.dumps(kept))
    assert script.check(tmp_path) == ["toy/default: no-gen"]
    file.write_text(json.dumps(kept | {"fits": {}}))
    assert script.check(tmp_path) == ["toy/default: no-gen"]
    # Rows without fits are outdated, and the page says so.
    del kept["fits"]
    file.write_text(json.dumps(kept))
    assert script.check(tmp_path) == []
    assert script.outdated(place).startswith("Outdated (computed with commit ")
    assert script.made(place, tmp_path / "rows")["state"] == "outdated"


@pytest.mark.slow
def test_no_page_shows_outdated_rows_without_saying_so(script):
    """After a change of results: make the rows again, or delete "fits" beside them."""
    assert script.check() == []


def test_a_folder_without_rows_is_not_collected(script, tmp_path):
    with pytest.raises(InputError, match="holds no rows"):
        script.collect("toy", tmp_path / "nothing", tmp_path / "results")
    assert not (tmp_path / "results").exists()
