"""The rows of an experiment: made cell by cell, in several processes, and stored in a folder.

A row is one result, named by its (data, method, seed), in plain JSON values. An experiment is a
function of a `Runner` and of the options of `gedi reproduce` that it takes; it makes rows, and
returns the tables to print.
"""

from __future__ import annotations

import importlib.metadata
import json
import re
import warnings
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from gedilearn import __version__
from gedilearn.errors import InputError, suggestion
from gedilearn.io import plain, read_json, read_json_lines, reading, write_text
from gedilearn.paper.table import Row, Table
from gedilearn.settings import assign, resolve, settings_type

if TYPE_CHECKING:
    from gedilearn.estimator import GEDI

Key = tuple[str, str, int]
Options = dict[str, Any]
Fit = Callable[["Cell", int, Options], list[Row]]
ROWS, CONFIG = "rows.jsonl", "config.json"
REMEDY = "restore it, or choose another folder"


class Cell(NamedTuple):
    """The unit of work: one method on one set with one seed.

    `rows` are the methods that its rows name, if it is not the method alone.
    """

    data: str
    method: str
    seed: int
    rows: tuple[str, ...] = ()

    def keys(self) -> list[Key]:
        return [(self.data, name, self.seed) for name in self.rows or (self.method,)]


@dataclass
class Runner:
    """Makes the rows of an experiment, and writes its files.

    With one job, cells run where `joblib.parallel_config` of the caller says.

    Attributes
    ----------
    out: a folder; rows are appended to its rows.jsonl as they come, and are not made again
    jobs: processes; None is one a core where each has one thread, else one
    say: gets lines on the progress
    """

    out: Path
    jobs: int | None = 1
    say: Callable[[str], None] = lambda line: None

    def within(self, name: str, options: Row | None = None) -> Runner:
        """The same for a folder below: rows of different settings are never mixed."""
        words = "-".join([name, *changed(options or {})])
        return replace(self, out=self.out / re.sub(r"[^\w.=-]+", "-", words))

    def rows(
        self,
        cells: Sequence[Cell],
        fit: Fit,
        n: int,
        settings: Options | None = None,
        threads: int | None = None,
    ) -> list[Row]:
        """The rows `fit(cell, n, settings)` of every cell, in their order.

        A cell whose rows are all in the folder is not run again. `threads` limits each process.
        """
        from joblib import Parallel, cpu_count, delayed

        if not cells:
            raise InputError("nothing to run: give at least one seed, data set and method")
        done = _reopen(self.out, _config(n, settings))
        keys = [key for cell in cells for key in cell.keys()]  # noqa: SIM118
        missing = [cell for cell in cells if not done.keys() >= set(cell.keys())]
        calls = [delayed(_rows_of)(fit, cell, n, settings or {}, threads) for cell in missing]
        jobs = min(self.jobs or (cpu_count() if threads == 1 else 1), len(calls))
        work = Parallel(jobs if jobs > 1 else None, return_as="generator_unordered", batch_size=1)
        # In any order: a slow cell must not hold back the rows of others.
        for rows in work(calls):
            for row in rows:
                if key_of(row) not in done:
                    done[key_of(row)] = row
                    self._keep(row, sum(key not in done for key in keys))
        return [done[key] for key in keys]

    def _keep(self, row: Row, left: int) -> None:
        with open(self.out / ROWS, "a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")
        self.say(f"{row['data']}, {row['method']}, seed {row['seed']} ({left} to go)")

    def finish(
        self, name: str, rows: Sequence[Row], tables: Callable[[Sequence[Row]], list[Table]]
    ) -> list[Table]:
        """The tables of the rows, which are written to the folder."""
        with reading(self.out / ROWS, REMEDY):  # rows of an earlier run may be damaged
            made = tables(rows)
        text = "\n".join(f"{table.title}\n\n{table.markdown()}" for table in made)
        self.out.mkdir(parents=True, exist_ok=True)
        write_text(self.out / f"{name}.md", text)
        self.say(f"written: {self.out / name}.md")
        return made


def _rows_of(fit: Fit, cell: Cell, n: int, settings: Options, threads: int | None) -> list[Row]:
    """The rows of a cell in plain values; warnings are dropped, the verdict is in the rows."""
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped, unused-ignore]

    with threadpool_limits(threads), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return [dict(plain(row)) for row in fit(cell, n, settings)]


def key_of(row: Row) -> Key:
    return row["data"], row["method"], row["seed"]


# --- options of several experiments -------------------------------------------------------------


def chosen(kind: str, names: Collection[str] | None, known: Collection[str]) -> list[str]:
    """The given names, in the order of the known ones; None stands for all."""
    for name in names or ():
        if name not in known:
            raise InputError(f"unknown {kind} {name!r}{suggestion(name, known)}")
    return [name for name in known if names is None or name in names]


def changed(options: Row) -> list[str]:
    """The difference of a run from its preset, for names of folders and titles."""
    changes = (options.get("changes") or {}).items()
    return [f"{name}={v if isinstance(v, str) else json.dumps(v)}" for name, v in changes]


def with_changes(values: Options, shape: tuple[int, ...], options: Row) -> Options:
    """Nested settings with the given changes; bad ones are refused at once.

    shape: of the data, vectors or images
    """
    for path, value in (options.get("changes") or {}).items():
        assign(values, path, value)
    resolve(values, shape)
    return values


def seeded(values: Options, seed: int) -> Options:
    return values | {"training": values.get("training", {}) | {"seed": seed}}


def outcome(model: GEDI) -> Row:
    """The end of a training, without labels: the part of a row that all experiments share."""
    verdict = model.verdict_
    diverged = str(verdict.figures.get("divergence", ""))
    return {
        "bound_gap": model.bound_gap_,
        "certified": bool(model.certified_),
        "verdict": f"{verdict.headline} {diverged}".strip(),
        "modes": list(model.diagnosis_.failure_modes),
        "stopped": model.stopped_,
        "recoveries": model.n_recoveries_,
        "iterations": model.n_iter_,
    }


# --- the folder ---------------------------------------------------------------------------------


def _config(n: int, settings: Options | None) -> Options:
    """Facts that all rows of one folder have in common."""
    packages = ("torch", "scikit-learn", "numpy")
    versions = {name: importlib.metadata.version(name) for name in packages}
    return {
        "n": n,
        "settings": settings or {},
        "defaults": json.loads(settings_type()().model_dump_json()),
        "versions": {"gedi-learn": __version__} | versions,
    }


def _reopen(out: Path, config: Options) -> dict[Key, Row]:
    """The rows in `out` so far; a folder of other settings or versions is refused, not mixed."""
    rows, file = out / ROWS, out / CONFIG
    out.mkdir(parents=True, exist_ok=True)
    if file.exists():
        found = read_json(file, REMEDY)
        with reading(file, REMEDY):
            other = [name for name in config if found[name] != json.loads(json.dumps(config[name]))]
        if other:
            raise InputError(f"{out} holds rows with other {other[0]}: choose another folder")
    elif rows.exists():
        raise InputError(f"{out} holds rows but no {CONFIG}: choose another folder")
    write_text(file, json.dumps(config, indent=2) + "\n")
    with reading(rows, REMEDY):
        found = {key_of(row): row for row in read_json_lines(rows)}
    # A line that a crash cut short would spoil the next one.
    write_text(rows, "".join(json.dumps(row) + "\n" for row in found.values()))
    return found
