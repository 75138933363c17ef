"""What `gedi demo` and the commands of `gedi reproduce` do. Imports torch."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType
from typing import Any

from rich.console import Console

from gedilearn.cli.output import Screen, csv_text, make_console, new_files
from gedilearn.cli.runs import next_free
from gedilearn.cli.tables import going_on, names, teller
from gedilearn.writing import write_text


def demo(out: Path | None, console: Console | None = None) -> None:
    """A short tour on made-up data."""
    from gedilearn.experiments.demo import run

    run(out or next_free("demo"), console or make_console())


def landscape(out: Path | None, screen: Screen) -> None:
    """Table 1 of the paper."""
    from gedilearn.experiments.landscape import markdown, run, show

    files = new_files(out, "landscape.csv", "landscape.md")
    rows = run()
    if files:
        texts = [csv_text(list(rows[0]), [list(row.values()) for row in rows]), markdown(rows)]
        for file, text in zip(files, texts, strict=True):
            write_text(file, text, new=True)
    show(rows, make_console())
    for file in files:
        screen.message(f"written: {file}")


def shapes(
    seeds: int,
    data: str | None,
    methods: str | None,
    workers: int,
    out: Path | None,
    screen: Screen,
) -> None:
    """The table of shapes; `data` and `methods` are names with commas between them."""
    from gedilearn.experiments import shapes as table

    asked = (range(seeds), names(data), names(methods), workers)
    _reproduce("shapes", table, asked, out, screen)


def gen(seeds: int, data: str | None, out: Path | None, screen: Screen) -> None:
    """The table of what GEN buys; `data` is names with commas between them."""
    from gedilearn.experiments import gen as table

    _reproduce("gen", table, (range(seeds), names(data)), out, screen)


def _reproduce(
    name: str, table: ModuleType, asked: tuple[Any, ...], out: Path | None, screen: Screen
) -> None:
    """Run a table that keeps its rows in a folder, write it there and show it."""
    out = out or Path("gedi-runs") / name
    with going_on():
        rows = table.run(*asked, out=out, tell=teller(screen))
    write_text(out / f"{name}.md", table.markdown(rows))
    table.show(rows, make_console())
    screen.message(f"rows: {out / 'rows.jsonl'}, table: {out / f'{name}.md'}")
