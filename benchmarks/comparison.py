"""The command line of comparisons with other methods: `shapes.py` and `density.py`."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from pathlib import Path

from rich.console import Console

from gedilearn.errors import InputError
from gedilearn.paper.runner import Runner
from gedilearn.paper.table import Group, Row, Table, Text

Run = Callable[..., list[Table]]  # run(runner, seeds, data, methods)


def main(name: str, run: Run, about: str, seeds: int) -> None:
    """Run a comparison as its options say, and print its tables; rows that exist stay."""
    parser = argparse.ArgumentParser(prog=f"{name}.py", description=about)
    parser.add_argument("--seeds", type=int, default=seeds, metavar="N", help="number of seeds")
    parser.add_argument("--first", type=int, default=0, metavar="N", help="the first seed")
    parser.add_argument("--data", metavar="A,B", help="only these sets or families")
    parser.add_argument("--methods", metavar="A,B", help="only these methods")
    parser.add_argument("--jobs", type=int, metavar="N", help="processes; one a core if not given")
    parser.add_argument("--out", type=Path, default=Path("gedi-runs", name), metavar="DIR")
    options = parser.parse_args()
    runner = Runner(options.out, options.jobs, lambda line: print(line, file=sys.stderr))
    data, methods = (text and text.split(",") for text in (options.data, options.methods))
    try:
        tables = run(runner, range(options.first, options.first + options.seeds), data, methods)
    except InputError as error:
        raise SystemExit(f"error: {error}") from None
    for table in tables:
        Console(markup=False, highlight=False).print(table.grid())


def timed(work: Callable[[], object]) -> float:
    """Seconds."""
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def share(holds: Callable[[Row], bool | None]) -> Text:
    """The number of rows for which it holds; nothing where the question has no answer."""

    def cell(group: Group) -> str:
        found = [holds(row) for row in group]
        return "" if None in found else f"{sum(map(bool, found))}/{len(found)}"

    return cell
