"""What `gedi reproduce images` does. Imports torch."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from gedilearn.cli.app import changes, outside
from gedilearn.cli.output import Screen, csv_text, make_console
from gedilearn.cli.tables import going_on, names, teller
from gedilearn.data.dataset import Dataset
from gedilearn.data.files import load
from gedilearn.errors import InputError
from gedilearn.experiments import image_tables
from gedilearn.experiments import images as table
from gedilearn.experiments.image_sets import OWN_SETS
from gedilearn.experiments.rows import Row
from gedilearn.writing import write_text

DEFAULT_OUT = Path("gedi-runs") / "images"


@dataclass(frozen=True)
class Asked:
    """The options that say what to run, as they were given."""

    data: str
    scale: str | None
    methods: str | None
    seeds: int | None
    ood: list[str]
    iterations: int | None
    assignments: list[str]


def images(asked: Asked, measuring: dict[str, Any], out: Path | None, screen: Screen) -> None:
    """Tables, CSV and Markdown; of `measuring`, what is None is left to the scale."""
    scale = asked.scale or ("default" if asked.data in OWN_SETS else "small")
    seeds = asked.seeds or (5 if scale == "default" else 1)
    table.plan(asked.data, scale, range(seeds), names(asked.methods))  # refused before data is read
    folder = table.folder(out or DEFAULT_OUT, asked.data, scale, asked.iterations)
    given = {name: value for name, value in measuring.items() if value is not None}
    with going_on():
        rows = table.run(
            asked.data,
            scale,
            range(seeds),
            names(asked.methods),
            outside(asked.ood, read_images),
            folder,
            iterations=asked.iterations,
            changes=changes(asked.assignments),
            measuring=replace(table.default_measuring(scale), **given),
            tell=teller(screen),
            say=screen.message,
        )
    write_text(folder / "images.csv", _csv(rows))
    write_text(folder / "images.md", image_tables.markdown(rows))
    image_tables.show(rows, make_console())
    screen.message(f"written in {folder}: rows.jsonl, images.csv, images.md, runs, evaluations")


def read_images(source: str) -> Dataset:
    """Data outside for `--ood`."""
    dataset = load(source)
    if dataset.x.ndim != 4:
        raise InputError(f"--ood {source}: vectors, not images; give a set or folder of images")
    return dataset


def _csv(rows: Sequence[Row]) -> str:
    """One line a row; what has parts of its own is JSON."""
    return csv_text(list(rows[0]), [[_field(value) for value in row.values()] for row in rows])


def _field(value: Any) -> Any:
    return json.dumps(value) if isinstance(value, list | dict) else value
