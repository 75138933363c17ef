"""The tables of docs/results, from the rows in docs/results/rows. The prose is written by hand.

python docs/make_results.py                      writes every table of every page again
python docs/make_results.py collect NAME OUT     first takes the rows of a run in OUT, with the
                                                 commit that is checked out
python docs/make_results.py join NAME OUT        the same, into the existing rows NAME.csv
python docs/make_results.py check                names the rows that this code would change, with
                                                 exit code 1

ROWS.json keeps numbers of brief fits beside the rows, and `check` repeats these fits. Rows without
such numbers are outdated, and their page says so. The rows of `landscape` take no time: they are
made again with the tables.

A page has two kinds of blocks, each ended by `<!-- end -->`:

<!-- table EXPERIMENT ROWS K OPTIONS -->    table K of the experiment from rows/ROWS.csv
<!-- provenance -->                         a line for each file of rows: seeds, minutes, commits

ROWS may be several files, joined by commas. Options are NAME="VALUE", lists are joined by `|`:

where="column:cell|cell"    only lines with these cells
pivot="column:other"        a column for each cell of `column`, filled from `other`
columns="name|name"         these columns, in this order
plain="yes"                 numbers without their ranges and deviations
csv="file.csv"              the table becomes this file, and the page links it

Pictures that need models are copied by hand.
"""

from __future__ import annotations

import csv
import io
import json
import re
import shlex
import subprocess
import sys
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "benchmarks"))
from fixed_fits import numbers_like
from gedilearn.errors import InputError
from gedilearn.io import read_json, read_json_lines, write_json, write_text
from gedilearn.paper import landscape, sensitivity
from gedilearn.paper.runner import CONFIG, ROWS, changed, key_of
from gedilearn.paper.table import Row, Table

RESULTS = ROOT / "docs" / "results"
COMPARISONS = ("shapes", "density")  # modules of benchmarks
BLOCK = re.compile(r"<!-- ((?:table|provenance).*?) -->\n.*?<!-- end -->", re.DOTALL)
SPREAD = re.compile(r" \([^()]* to [^()]*\)| ± [0-9.]+")
DIGITS = 6  # of numbers in rows
# By how much numbers of one fit differ between processors. Sinkhorn's rounds differ by more.
TOLERANCE, SWAV_TOLERANCE = 0.002, 0.05

# --- rows ---------------------------------------------------------------------------------------


def read_rows(file: Path) -> list[Row]:
    """Rows of a CSV file: an empty cell is None, a word stays a word, all else is JSON."""
    with open(file, newline="", encoding="utf-8") as lines:
        return [{name: _value(text) for name, text in row.items()} for row in csv.DictReader(lines)]


def _value(text: str) -> Any:
    try:
        return json.loads(text) if text else None
    except ValueError:
        return text


def rows_as_csv(rows: list[Row]) -> str:
    heads = list(dict.fromkeys(name for row in rows for name in row))
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(heads)
    writer.writerows([_cell(row.get(name)) for name in heads] for row in rows)
    return text.getvalue()


def _cell(value: Any) -> str:
    """Numbers are cut to a few digits, which are enough for any table."""
    if value is None or isinstance(value, str):
        return value or ""
    short = json.loads(
        json.dumps(value), parse_float=lambda text: float(f"{float(text):.{DIGITS}g}")
    )
    return json.dumps(short)


def collect(name: str, out: str | Path, results: Path = RESULTS) -> list[Path]:
    """Copy the rows and configs of all runs in `out`, under the names of their folders."""
    taken = []
    for config in sorted(Path(out).rglob(CONFIG)):
        if rows := read_json_lines(config.parent / ROWS):
            place = Path(name) / config.parent.relative_to(out)
            taken.append(_write(place, rows, [], read_json(config), results))
    if not taken:
        raise InputError(f"{out} holds no rows: gedi reproduce {name} --out {out}")
    return taken


def join(name: str, out: str | Path, results: Path = RESULTS) -> Path:
    """Add the rows of all runs in `out` to one file; they replace rows of the same key."""
    place = results / "rows" / name
    configs = sorted(Path(out).rglob(CONFIG))
    rows = [row for config in configs for row in read_json_lines(config.parent / ROWS)]
    if not rows:
        raise InputError(f"{out} holds no rows")
    return _write(
        Path(name), rows, read_rows(Path(f"{place}.csv")), read_json(Path(f"{place}.json")), results
    )


def _write(place: Path, rows: list[Row], others: list[Row], config: Row, results: Path) -> Path:
    """Write new rows with this commit; `others` keep theirs."""
    rows = [{**row, "commit": commit()} for row in rows]
    fits = config.get("fits", {}) | numbers_like(str(place), rows)
    file = results / "rows" / place
    file.parent.mkdir(parents=True, exist_ok=True)
    latest = {(*key_of(row), *changed(row)): row for row in [*others, *rows]}
    write_text(Path(f"{file}.csv"), rows_as_csv(list(latest.values())))
    write_json(Path(f"{file}.json"), config | {"fits": fits}, indent=1)
    return file


@cache
def commit() -> str:
    """The commit of this repository; '+' says that files differed from it."""
    command = ["git", "describe", "--always", "--exclude=*", "--abbrev=12", "--dirty=+"]
    return subprocess.check_output(command, cwd=ROOT, text=True).strip()


def check(results: Path = RESULTS) -> list[str]:
    """The fits of rows whose numbers are different now."""
    old = []
    for file in sorted((results / "rows").rglob("*.json")):
        place = str(file.relative_to(results / "rows").with_suffix(""))
        before = read_json(file).get("fits")
        if before is None:  # outdated: the page says so
            continue
        now = numbers_like(place, read_rows(file.with_suffix(".csv")))
        old += [f"{place}: {name}" for name in before | now if not _same(name, before, now)]
    if (rows := results / "rows" / "landscape.csv").exists():
        tables = [landscape.tables(found) for found in (read_rows(rows), landscape.measure())]
        old += ["landscape"] if tables[0] != tables[1] else []
    return old


def _same(name: str, before: dict[str, Any], now: dict[str, Any]) -> bool:
    tolerance = SWAV_TOLERANCE if name.startswith("swav") else TOLERANCE
    old, new = (np.array(found.get(name, [])) for found in (before, now))
    return old.shape == new.shape and np.allclose(new, old, rtol=tolerance, atol=tolerance / 10)


# --- pages --------------------------------------------------------------------------------------


def page(file: Path, results: Path = RESULTS) -> str:
    """The text of a page with all its blocks made again."""

    def again(found: re.Match[str]) -> str:
        return f"<!-- {found[1]} -->\n\n{block(found[1], results)}\n<!-- end -->"

    return BLOCK.sub(again, file.read_text(encoding="utf-8"))


def block(text: str, results: Path = RESULTS) -> str:
    """The content of a block: a table, or a link to it."""
    kind, *words = shlex.split(text)
    if kind == "provenance":
        return provenance(results / "rows")
    table, options = table_of(words, results)
    if file := options.get("csv"):
        columns = ", ".join(table.lines[0])
        return f"[{file}]({file}): {len(table.lines)} lines with the columns {columns}.\n"
    old = {place: outdated(results / "rows" / place) for place in places_of(words)}
    names = ", ".join(place for place, note in old.items() if note)
    note = "".join(old.values())
    if names and len(old) > 1:
        note = f"Outdated: {names} ([provenance](provenance.md)).\n\n"
    return note + table.markdown()


def table_of(words: list[str], results: Path = RESULTS) -> tuple[Table, dict[str, str]]:
    """The table that a block describes, and its options."""
    experiment, _, k, *given = words
    options = dict(word.split("=", 1) for word in given)
    module = experiment if experiment in COMPARISONS else f"gedilearn.paper.{experiment}"
    lines: list[dict[str, str]] = []
    for place in places_of(words):
        rows = read_rows(results / "rows" / f"{place}.csv")
        settings = {"preset": str(rows[0].get("preset"))}
        found = import_module(module).tables(rows)[int(k)].lines
        lines += [settings | dict(line) for line in found]
    if text := options.get("where"):
        column, cells = text.split(":")
        lines = [line for line in lines if line[column] in cells.split("|")]
    if "plain" in options:
        lines = [{head: SPREAD.sub("", cell) for head, cell in line.items()} for line in lines]
    names = [name for name in options.get("columns", "").split("|") if name]
    if text := options.get("pivot"):
        lines = pivoted(lines, *text.split(":"), names)
    heads = names or [head for head in lines[0] if head != "preset"]
    return Table("", [{head: line.get(head, "") for head in heads} for line in lines]), options


def places_of(words: list[str]) -> list[str]:
    return words[1].split(",")


def pivoted(
    lines: list[dict[str, str]], column: str, value: str, names: list[str]
) -> list[dict[str, str]]:
    """One line for all lines that agree in `names`, with their `value` under their `column`."""
    joined: dict[tuple[str, ...], dict[str, str]] = {}
    for line in lines:
        common = {name: line[name] for name in names if name in line}
        # A star marks scores on the training points.
        joined.setdefault(tuple(common.values()), common)[line[column].rstrip("*")] = line[value]
    return list(joined.values())


def outdated(place: Path) -> str:
    """A sentence, if this code gives other numbers than the rows."""
    config = Path(f"{place}.json")
    if not config.exists() or "fits" in read_json(config):
        return ""
    return f"Outdated (computed with commit {commits(read_rows(Path(f'{place}.csv')))}).\n\n"


def commits(rows: list[Row]) -> str:
    return ", ".join(sorted({str(row["commit"]) for row in rows if row.get("commit")}))


def provenance(folder: Path) -> str:
    """A line for each file of rows."""
    files = sorted(folder.rglob("*.json"))
    lines = [made(file.with_suffix(""), folder) for file in files]
    versions = {json.dumps(read_json(file)["versions"]) for file in files}
    words = [" ".join(pair) for found in sorted(versions) for pair in json.loads(found).items()]
    return f"{Table('', lines).markdown()}\nMinutes are those of one core. Made with {', '.join(words)}.\n"


def made(place: Path, folder: Path) -> dict[str, str]:
    """Seeds, size of the training data, minutes and commits of the rows of a file."""
    rows, config = read_rows(Path(f"{place}.csv")), read_json(Path(f"{place}.json"))
    minutes = sum(row["seconds"] + (row.get("evaluation_seconds") or 0) for row in rows) / 60
    name = place.relative_to(folder).as_posix()
    return {
        "rows": f"[{name}]({folder.name}/{name}.csv)",
        "number": str(len(rows)),
        "seeds": ranges(sorted({row["seed"] for row in rows})),
        "trained on": f"{config['n']:,}",
        "minutes": f"{minutes:.0f}",
        "state": "current" if "fits" in config else "outdated",
        "commits": commits(rows),
    }


def ranges(numbers: list[int]) -> str:
    """0, 1, 2, 7 as "0 to 2, 7"."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return ", ".join(str(r[0]) if len(r) == 1 else f"{r[0]} to {r[-1]}" for r in runs)


def csv_files(results: Path = RESULTS) -> dict[Path, str]:
    """The tables that pages link as CSV files."""
    files = {}
    for file in sorted(results.glob("*.md")):
        for found in BLOCK.finditer(file.read_text(encoding="utf-8")):
            kind, *words = shlex.split(found[1])
            if kind == "table" and any(word.startswith("csv=") for word in words):
                table, options = table_of(words, results)
                files[results / options["csv"]] = rows_as_csv([dict(line) for line in table.lines])
    return files


def main() -> None:
    if sys.argv[1:2] == ["check"]:
        sys.exit("\n".join(f"other numbers now: {name}" for name in check()) or None)
    if sys.argv[1:2] == ["collect"]:
        collect(*sys.argv[2:4])
    if sys.argv[1:2] == ["join"]:
        join(*sys.argv[2:4])
    write_text(RESULTS / "rows" / "landscape.csv", rows_as_csv(landscape.measure()))
    for file in sorted(RESULTS.glob("*.md")):
        write_text(file, page(file))
    for file, text in csv_files().items():
        write_text(file, text)
    for rows in sorted((RESULTS / "rows" / "toy").glob("*/sensitivity.csv")):
        sensitivity.figure(read_rows(rows), RESULTS / f"sensitivity-{rows.parent.name}.png")


if __name__ == "__main__":
    try:
        main()
    except InputError as error:
        raise SystemExit(f"error: {error}") from None
