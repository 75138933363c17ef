"""What the commands on the paper's synthetic experiments do. Imports torch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from gedilearn.cli.output import Screen, csv_text, make_console
from gedilearn.cli.tables import going_on, names, teller
from gedilearn.errors import InputError
from gedilearn.experiments import pictures, toy_tables
from gedilearn.experiments import sensitivity as grid
from gedilearn.experiments import toy as table
from gedilearn.experiments.rows import Row
from gedilearn.writing import write_text

DEFAULT_OUT = Path("gedi-runs") / "toy"


def toy(
    preset: str,
    seeds: int,
    methods: str | None,
    data: str | None,
    workers: int,
    out: Path | None,
    iterations: int | None,
    screen: Screen,
) -> None:
    """Table, CSV, Markdown and figure of NMI; names have commas between them."""
    folder = table.folder(out or DEFAULT_OUT, preset, iterations)

    def run() -> list[Row]:
        return table.run(
            range(seeds),
            names(data),
            names(methods),
            workers,
            folder,
            preset=preset,
            iterations=iterations,
            tell=teller(screen),
        )

    _finish("toy", run, toy_tables, folder, screen)


def sensitivity(
    preset: str,
    seeds: int,
    data: str | None,
    workers: int,
    out: Path | None,
    iterations: int | None,
    screen: Screen,
) -> None:
    """Table, CSV, Markdown and heat maps over the weights."""
    folder = table.folder(out or DEFAULT_OUT, preset, iterations) / "sensitivity"

    def run() -> list[Row]:
        return grid.run(
            range(seeds),
            names(data),
            workers,
            folder,
            preset=preset,
            iterations=iterations,
            tell=teller(screen),
        )

    _finish("sensitivity", run, grid, folder, screen)


def picture(
    name: str,
    methods: str | None,
    data: str | None,
    out: Path | None,
    asked: dict[str, Any],
    screen: Screen,
) -> None:
    """The picture `name` of `pictures`."""
    if not 0 <= asked["seed"] < 2**31:
        raise InputError(f"--seed {asked['seed']}: give a number from 0 to 2**31 - 1")
    folder = table.folder(out or DEFAULT_OUT, asked["preset"], asked["iterations"])
    draw = {"labels": pictures.labels, "generation": pictures.generation}[name]
    with going_on():
        path = draw(folder, names(data), names(methods), tell=screen.message, **asked)
    print(path)


def _finish(
    name: str, run: Callable[[], list[Row]], shown: ModuleType, folder: Path, screen: Screen
) -> None:
    """Run, write all that is made of the rows, and show the table."""
    with going_on():
        rows = run()
    write_text(folder / f"{name}.csv", _csv(rows))
    write_text(folder / f"{name}.md", shown.markdown(rows))
    shown.figure(rows, folder / f"{name}.png")
    shown.show(rows, make_console())
    files = ", ".join(f"{name}.{end}" for end in ("csv", "md", "png"))
    screen.message(f"written in {folder}: rows.jsonl, {files}")


def _csv(rows: Sequence[Row]) -> str:
    """One line a row; several failure modes share a field."""
    lines = [[_field(value) for value in row.values()] for row in rows]
    return csv_text(list(rows[0]), lines)


def _field(value: Any) -> Any:
    return "; ".join(value) if isinstance(value, list) else value
