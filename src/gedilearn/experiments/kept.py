"""Rows that were kept, and how they were made: what pages of results are written from.

A run keeps rows.jsonl and config.json in its folder. The documentation keeps the same as FOLDER.csv
and FOLDER.json under `docs/results/rows`, so that its pages can be made again from a clone.
"""

from __future__ import annotations

import csv
import io
import json
import shlex
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from gedilearn.errors import InputError
from gedilearn.experiments.runner import (
    CONFIG,
    KMEANS,
    OTHER,
    ROWS,
    Row,
    assignments,
    read_config,
    read_rows,
)
from gedilearn.io import csv_text, read_text, reading, write_json, write_text

DIGITS = 6  # of numbers in the documentation's rows


class Kept(NamedTuple):
    """What a folder holds: the rows, and the config that they have in common.

    `shown` is where its pictures are under the names that a page has for them; None if they are in
    the folder of the run.
    """

    folder: Path
    rows: list[Row]
    config: dict[str, Any]
    shown: Path | None = None

    @property
    def seeds(self) -> list[int]:
        return sorted({row["seed"] for row in self.rows})

    @property
    def sets(self) -> set[str]:
        return {row["data"] for row in self.rows}

    def picture(self, file: str, name: str) -> Path:
        """A file of the run that a page shows under this name."""
        return self.folder / file if self.shown is None else self.shown / name

    def made_by(
        self,
        command: str,
        facts: Sequence[str],
        *,
        data: Collection[str] = (),
        methods: Collection[str] = (),
        names: Mapping[str, str] | None = None,
        more: str = "",
    ) -> str:
        """The command and its options, the seeds, facts, versions and commits, as Markdown.

        `data` and `methods` are those that are run if no others are asked for, where the command
        has such an option; methods that have `names` but lack some of the seeds are named.
        """
        settings = self.config["settings"]
        command += f" --seeds {self.seeds[-1] + 1}"
        command += self._option("data", data) + self._option("methods", methods)
        if (iterations := settings.get("iterations")) is not None:
            command += f" --iterations {iterations}"
        for assignment in assignments(settings.get("changes")):
            more += f" --set {shlex.quote(assignment)}"
        fewer = []
        for method, name in (names or {}).items():
            own = {row["seed"] for row in self.rows if row["method"] == method}
            if 0 < len(own) < len(self.seeds):
                fewer.append(f"{name} {len(own)}")
        some = f" (not all of them for every method: {', '.join(fewer)})" if fewer else ""
        versions = [f"{name} {version}" for name, version in self.config["versions"].items()]
        seeds = f"Seeds {', '.join(map(str, self.seeds))}{some}"
        said = "; ".join([seeds, *facts, ", ".join([*versions, *self._commits()])])
        return f"    gedi reproduce {command}{more}\n\n{said}."

    def _option(self, name: str, usual: Collection[str]) -> str:
        """`--data A,B` or `--methods A,B` for what the rows are about, if it is not the usual."""
        there = [row[name.removesuffix("s")] for row in self.rows]
        asked = dict.fromkeys([*(value for value in usual if value in there), *there])
        named = [value for value in asked if KMEANS not in value]
        return "" if not usual or named == list(usual) else f" --{name} {','.join(named)}"

    def _commits(self) -> list[str]:
        return sorted({f"commit {row['commit']}" for row in self.rows if row.get("commit")})

    def write(self, folder: Path) -> None:
        """Keep it as folder.csv and folder.json, with numbers of a few digits."""
        folder.parent.mkdir(parents=True, exist_ok=True)
        write_text(_beside(folder, ".csv"), rows_as_csv([_shorter(row) for row in self.rows]))
        write_json(_beside(folder, ".json"), self.config, indent=1)


def kept_in(root: Path, pattern: str = "*", command: str = "") -> list[Kept]:
    """What is kept as root/pattern, by runs or in the documentation; as root for the pattern ''.

    In the documentation root is results/rows/NAME, and pictures are in `results`. Where there is
    nothing, the `command` that makes some is named.
    """
    folders = sorted(root.glob(pattern)) if pattern else [root]
    found = [kept for folder in folders for kept in _of_run(folder)]
    for file in sorted(root.glob(f"{pattern}.csv")) if pattern else [_beside(root, ".csv")]:
        config = file.with_suffix(".json")
        if file.exists() and config.exists():
            rows, shown = rows_of_csv(file), root.parent.parent
            found.append(Kept(file.with_suffix(""), rows, read_config(config), shown))
    if command and not found:
        raise InputError(f"{root} holds no rows: gedi reproduce {command} --out {root}")
    return sorted(found, key=lambda kept: kept.folder)


def runs_in(root: Path) -> list[Kept]:
    """All that runs kept in a folder and those below it."""
    return [kept for file in sorted(root.rglob(CONFIG)) for kept in _of_run(file.parent)]


def _of_run(folder: Path) -> list[Kept]:
    """What a run kept in a folder, if it did."""
    config, rows = folder / CONFIG, read_rows(folder / ROWS)
    return [Kept(folder, rows, read_config(config))] if config.exists() and rows else []


def _beside(folder: Path, ending: str) -> Path:
    return folder.with_name(folder.name + ending)


# --- rows as CSV --------------------------------------------------------------------------------


def rows_as_csv(rows: Sequence[Row]) -> str:
    """One line a row: words as they are, nothing for None, and all else as JSON."""
    heads = list(dict.fromkeys(name for row in rows for name in row))
    return csv_text(heads, ([_cell(row.get(name)) for name in heads] for row in rows))


def rows_of_csv(path: Path) -> list[Row]:
    """The rows that `rows_as_csv` wrote."""
    with reading(path, OTHER):
        lines = csv.DictReader(io.StringIO(read_text(path), newline=""))
        return [{name: _value(text) for name, text in line.items()} for line in lines]


def _cell(value: Any) -> str:
    """A word that would be read as something else is JSON too."""
    if value is None:
        return ""
    return (
        value if isinstance(value, str) and value and _value(value) is value else json.dumps(value)
    )


def _value(text: str) -> Any:
    if not text:
        return None
    try:
        return json.loads(text)
    except ValueError:
        return text


def _shorter(value: Any) -> Any:
    """Numbers with a few digits: enough for any table, and a third of the size."""
    if isinstance(value, float):
        return float(f"{value:.{DIGITS}g}")
    if isinstance(value, dict):
        return {name: _shorter(part) for name, part in value.items()}
    return [_shorter(part) for part in value] if isinstance(value, list) else value
