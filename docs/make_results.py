"""The tables of docs/results, from the rows in docs/results/rows; the prose is written by hand.

python docs/make_results.py                      makes every table of every page again
python docs/make_results.py collect NAME OUT     takes over the rows that a run kept in OUT first,
                                                 with the commit that is checked out
python docs/make_results.py join NAME OUT        the same into rows that are there already, NAME.csv
python docs/make_results.py check                names the rows that are of other code than this, if
                                                 there are any, with exit code 1

Beside rows, ROWS.json keeps numbers of brief fits with their settings, which `check` makes again.
Rows without such numbers are of earlier code, and their page says so. Rows of `landscape`, which
take no time, are made anew with the tables.

A table stands between `<!-- table EXPERIMENT ROWS K -->` and `<!-- end -->`: the K-th table of the
experiment from the rows in rows/ROWS.csv. `<!-- made ROWS -->` stands for seeds, versions and
commits, as rows/ROWS.json and the rows have them. Pictures that need models are copied by hand.
"""

from __future__ import annotations

import csv
import io
import json
import re
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
from gedilearn.paper import landscape, sensitivity
from gedilearn.paper.runner import CONFIG, ROWS, changed, key_of
from gedilearn.paper.table import Row
from gedilearn.io import read_json, read_json_lines, write_json, write_text

RESULTS = ROOT / "docs" / "results"
COMPARISONS = ("shapes", "density")  # modules of benchmarks
BLOCK = re.compile(r"<!-- (table|made) (.+?) -->\n.*?<!-- end -->", re.DOTALL)
DIGITS = 6  # of numbers in rows
# By how much numbers of one fit differ between processors; those of Sinkhorn's rounds by more.
APART, SWAV_APART = 0.002, 0.05

# --- rows ---------------------------------------------------------------------------------------


def read_rows(file: Path) -> list[Row]:
    """Rows of CSV: nothing is None, words are as they are, all else is JSON."""
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
    """Numbers have a few digits: enough for any table, and a third of the size."""
    if value is None or isinstance(value, str):
        return value or ""
    short = json.loads(
        json.dumps(value), parse_float=lambda text: float(f"{float(text):.{DIGITS}g}")
    )
    return json.dumps(short)


def collect(name: str, out: str | Path, results: Path = RESULTS) -> list[Path]:
    """Take over the rows and configs of all runs in `out`, under the names of their folders."""
    taken = []
    for config in sorted(Path(out).rglob(CONFIG)):
        if rows := read_json_lines(config.parent / ROWS):
            place = Path(name) / config.parent.relative_to(out)
            taken.append(_write(place, rows, [], read_json(config), results))
    if not taken:
        raise InputError(f"{out} holds no rows: gedi reproduce {name} --out {out}")
    return taken


def join(name: str, out: str | Path, results: Path = RESULTS) -> Path:
    """Take over the rows of all runs in `out` into those of one name, in the place of the same."""
    place = results / "rows" / name
    configs = sorted(Path(out).rglob(CONFIG))
    rows = [row for config in configs for row in read_json_lines(config.parent / ROWS)]
    if not rows:
        raise InputError(f"{out} holds no rows")
    return _write(
        Path(name), rows, read_rows(Path(f"{place}.csv")), read_json(Path(f"{place}.json")), results
    )


def _write(place: Path, rows: list[Row], others: list[Row], config: Row, results: Path) -> Path:
    """Rows of this code, beside others that were there, which keep what is known of their age."""
    rows = [{**row, "commit": commit()} for row in rows]
    fits = config.get("fits", {}) | numbers_like(str(place), rows)
    file = results / "rows" / place
    file.parent.mkdir(parents=True, exist_ok=True)
    known = {(*key_of(row), *changed(row)): row for row in [*others, *rows]}
    write_text(Path(f"{file}.csv"), rows_as_csv(list(known.values())))
    write_json(Path(f"{file}.json"), config | {"fits": fits}, indent=1)
    return file


@cache
def commit() -> str:
    """The commit of this repository; '+' says that files were changed, before rows were."""
    command = ["git", "describe", "--always", "--exclude=*", "--abbrev=12", "--dirty=+"]
    return subprocess.check_output(command, cwd=ROOT, text=True).strip()


def check(results: Path = RESULTS) -> list[str]:
    """Fits of rows that give other numbers now."""
    old = []
    for file in sorted((results / "rows").rglob("*.json")):
        place = str(file.relative_to(results / "rows").with_suffix(""))
        before = read_json(file).get("fits")
        if before is None:  # the page says that they are old
            continue
        now = numbers_like(place, read_rows(file.with_suffix(".csv")))
        old += [f"{place}: {name}" for name in before | now if not _same(name, before, now)]
    if (rows := results / "rows" / "landscape.csv").exists():
        tables = [landscape.tables(found) for found in (read_rows(rows), landscape.measure())]
        old += ["landscape"] if tables[0] != tables[1] else []
    return old


def _same(name: str, before: dict[str, Any], now: dict[str, Any]) -> bool:
    apart = SWAV_APART if name.startswith("swav") else APART
    old, new = (np.array(found.get(name, [])) for found in (before, now))
    return old.shape == new.shape and np.allclose(new, old, rtol=apart, atol=apart / 10)


# --- pages --------------------------------------------------------------------------------------


def block(kind: str, words: list[str], results: Path = RESULTS) -> str:
    """The content of a block, from the rows that it names."""
    if kind == "made":
        return made(results / "rows" / words[0])
    experiment, place, k = words
    module = experiment if experiment in COMPARISONS else f"gedilearn.paper.{experiment}"
    rows = read_rows(results / "rows" / f"{place}.csv")
    return str(import_module(module).tables(rows)[int(k)].markdown())


def made(place: Path) -> str:
    """Seeds, points, minutes, versions and commits."""
    rows, config = read_rows(Path(f"{place}.csv")), read_json(Path(f"{place}.json"))
    seeds = sorted({row["seed"] for row in rows})
    minutes = sum(row["seconds"] + (row.get("evaluation_seconds") or 0) for row in rows) / 60
    versions = [f"{name} {version}" for name, version in config["versions"].items()]
    commits = sorted({f"commit {row['commit']}" for row in rows if row.get("commit")})
    if "fits" not in config:
        commits.append("**of earlier code**")
    return (
        f"{len(rows)} rows; seeds {', '.join(map(str, seeds))}; {config['n']} points or images to "
        f"train on; {minutes:.0f} minutes on one core; {', '.join([*versions, *commits])}.\n"
    )


def page(file: Path, results: Path = RESULTS) -> str:
    """The text of a page with all its blocks made again."""

    def again(found: re.Match[str]) -> str:
        kind, words = found.group(1), found.group(2)
        return f"<!-- {kind} {words} -->\n\n{block(kind, words.split(), results)}\n<!-- end -->"

    return BLOCK.sub(again, file.read_text(encoding="utf-8"))


def main() -> None:
    if sys.argv[1:2] == ["check"]:
        sys.exit("\n".join(f"rows of other code: {name}" for name in check()) or None)
    if sys.argv[1:2] == ["collect"]:
        collect(*sys.argv[2:4])
    if sys.argv[1:2] == ["join"]:
        join(*sys.argv[2:4])
    write_text(RESULTS / "rows" / "landscape.csv", rows_as_csv(landscape.measure()))
    for file in sorted(RESULTS.glob("*.md")):
        write_text(file, page(file))
    for rows in sorted((RESULTS / "rows" / "toy").glob("*/sensitivity.csv")):
        sensitivity.figure(read_rows(rows), RESULTS / f"sensitivity-{rows.parent.name}.png")


if __name__ == "__main__":
    try:
        main()
    except InputError as error:
        raise SystemExit(f"error: {error}") from None
