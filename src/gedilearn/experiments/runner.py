"""The rows of an experiment: made cell by cell, in several processes, and kept in a folder.

A row is one result, named by its (data, method, seed), in plain JSON values.
"""

from __future__ import annotations

import importlib.metadata
import json
import statistics
import subprocess
import time
import warnings
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import gedilearn
from gedilearn import __version__
from gedilearn.errors import InputError, suggestion
from gedilearn.experiments.backends import fits_on
from gedilearn.io import plain, read_json, read_json_lines, reading, write_text
from gedilearn.settings import assign, resolve, settings_type
from gedilearn.training.monitor import CLUSTERS, PERMUTATION, REPRESENTATION

if TYPE_CHECKING:
    from gedilearn.estimator import GEDI

Row = dict[str, Any]
Key = tuple[str, str, int]
Options = dict[str, Any]
FitOne = Callable[[str, str, int, int, Options], Row]
Fit = Callable[["Cell", int, Options], list[Row]]
N_POINTS = 1000
FRESH = 1_000_000  # added to the seed of the points that are scored
ROWS, CONFIG = "rows.jsonl", "config.json"
KMEANS = "k-means"  # in the names of rows that come with those of others, unasked

# --- running ------------------------------------------------------------------------------------


class Cell(NamedTuple):
    """What is trained at once: one method on one set, with several seeds.

    `rows` are the methods that its rows name, one a seed each; they can be more than one, where a
    single training answers for several lines of a table.
    """

    data: str
    method: str
    seeds: tuple[int, ...]
    rows: tuple[str, ...]

    def expected(self) -> list[Key]:
        return [(self.data, name, seed) for seed in self.seeds for name in self.rows]

    def without(self, done: Collection[Key]) -> Cell:
        """The cell with those of its seeds that lack a row."""
        lacking = dict.fromkeys(seed for *key, seed in self.expected() if (*key, seed) not in done)
        return self._replace(seeds=tuple(lacking))


@dataclass(frozen=True)
class Runner:
    """Makes the rows of an experiment.

    Cells are spread over processes by joblib, or over a cluster by a backend of it that is named
    (`experiments.backends`) or that a caller has chosen with `joblib.parallel_config`: leave
    `workers` at 1, which then stands for the number of the backend.

    Attributes
    ----------
    out: a folder; rows are appended to its rows.jsonl as they come, and are not made again
    workers: processes
    tell: gets each new row, and how many are still to come
    say: gets lines on how it goes
    backend: the name of one of joblib's, for instance 'dask' or 'ray'; None is joblib's choice
    """

    out: Path | None = None
    workers: int = 1
    tell: Callable[[Row, int], None] = lambda row, left: None
    say: Callable[[str], None] = lambda line: None
    backend: str | None = None

    def rows(
        self,
        wanted: Sequence[Key],
        fit: FitOne,
        n: int,
        settings: Options | None = None,
        threads: int | None = None,
    ) -> list[Row]:
        """The row of every key wanted, in their order.

        `fit(data, method, seed, n, settings)` gives what a row holds beside its key. See
        `rows_of_cells` for `threads`.
        """
        cells = [Cell(data, method, (seed,), (method,)) for data, method, seed in wanted]
        return self.rows_of_cells(cells, partial(_one_by_one, fit), n, settings, threads)

    def rows_of_cells(
        self,
        cells: Sequence[Cell],
        fit: Fit,
        n: int,
        settings: Options | None = None,
        threads: int | None = None,
    ) -> list[Row]:
        """The rows `fit(cell, n, settings)` of every cell, in their order.

        A seed whose rows are all in the folder is not run again: `fit` is asked for the others of
        its cell only. With `threads`, fits in several processes do not compete for cores.
        """
        if not cells:
            raise InputError("nothing to run: give at least one seed, data set and method")
        if self.workers < 1:
            raise InputError(f"workers={self.workers}: at least 1 process is needed")
        with fits_on(self.backend, self.workers):
            return self._rows_of_cells(cells, fit, n, settings, threads)

    def _rows_of_cells(
        self,
        cells: Sequence[Cell],
        fit: Fit,
        n: int,
        settings: Options | None,
        threads: int | None,
    ) -> list[Row]:
        kept = [] if self.out is None else _reopen(self.out, _config(n, settings))
        done = {key_of(row): row for row in kept}
        missing = [rest for cell in cells if (rest := cell.without(done)).seeds]
        left = sum(key not in done for cell in missing for key in cell.expected())
        fits = [(fit, cell, n, settings or {}, threads) for cell in missing]
        for rows in self._as_they_come(fits):
            for row in rows:
                if key_of(row) in done:
                    continue
                if self.out is not None:
                    row |= commit()
                    with open(self.out / ROWS, "a", encoding="utf-8") as file:
                        file.write(json.dumps(row) + "\n")
                done[key_of(row)] = row
                left -= 1
                self.tell(row, left)
        return [done[key] for cell in cells for key in cell.expected()]

    def _as_they_come(self, fits: Sequence[tuple[Any, ...]]) -> Iterator[list[Row]]:
        """The rows of each cell as soon as it is done, so that an interruption loses little."""
        from joblib import Parallel, delayed, effective_n_jobs
        from joblib.parallel import get_active_backend

        jobs = None if self.workers == 1 else min(self.workers, len(fits)) or 1
        calls = [delayed(_rows_of)(*arguments) for arguments in fits]
        if get_active_backend()[0].supports_return_generator:
            # In any order: a slow cell must not hold back the rows of others.
            yield from Parallel(n_jobs=jobs, return_as="generator_unordered", batch_size=1)(calls)
            return
        size = effective_n_jobs(jobs)
        for start in range(0, len(calls), size):
            yield from Parallel(n_jobs=jobs, batch_size=1)(calls[start : start + size])


IN_MEMORY = Runner()


def _rows_of(fit: Fit, cell: Cell, n: int, settings: Options, threads: int | None) -> list[Row]:
    """The rows of a cell in plain values; warnings are dropped, what matters is in the rows."""
    import lightning_fabric  # noqa: F401 # not while a clock runs
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped, unused-ignore]

    with threadpool_limits(threads), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return [dict(plain(row)) for row in fit(cell, n, settings)]


def _one_by_one(fit: FitOne, cell: Cell, n: int, settings: Options) -> list[Row]:
    rows = []
    for seed in cell.seeds:
        row = fit(cell.data, cell.method, seed, n, settings)
        rows.append({"data": cell.data, "method": cell.method, "seed": seed} | row)
    return rows


def key_of(row: Row) -> Key:
    return row["data"], row["method"], row["seed"]


# --- what is run --------------------------------------------------------------------------------


def chosen(
    kind: str,
    asked: Collection[str] | None,
    known: Collection[str],
    groups: Mapping[str, Collection[str]] | None = None,
) -> list[str]:
    """Those of the known names that are asked for, in their own order; None stands for all.

    The name of a group stands for all names in it.
    """
    if asked is None:
        return list(known)
    groups = groups or {}
    for name in asked:
        if name not in known and name not in groups:
            raise InputError(f"unknown {kind} {name!r}{suggestion(name, [*known, *groups])}")
    wanted = {each for name in asked for each in groups.get(name, (name,))}
    return [name for name in known if name in wanted]


def timed(work: Callable[[], object]) -> float:
    """How many seconds it takes."""
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def adjusted(
    values: Options, iterations: int | None, changes: Options | None, shape: tuple[int, ...]
) -> Options:
    """Nested settings, shortened and changed as asked; what is wrong is said before anything runs.

    `iterations` of each stage at most, with a warm-up that takes its share of them; `changes` by
    their dotted names; `shape` of the data, vectors or images.
    """
    if iterations is not None:
        whole = resolve(values, shape)
        share = min(iterations / whole.training.max_iter, 1)
        assign(values, "training.max_iter", iterations)
        assign(values, "density.iterations", min(whole.density.iterations, iterations))
        assign(values, "optimizer.warmup", int(share * whole.optimizer.warmup))
    for path, value in (changes or {}).items():
        assign(values, path, value)
    resolve(values, shape)
    return values


def shortened(iterations: int | None, changes: Options | None = None) -> str:
    """How a run differs from its preset, named wherever results are shown."""
    words = [] if iterations is None else [f"training shortened to {iterations} iterations"]
    return "".join(f", {part}" for part in [*words, *assignments(changes)])


def assignments(changes: Options | None) -> list[str]:
    """Settings as they are given to `--set`."""
    return [
        f"{name}={value if isinstance(value, str) else json.dumps(value)}"
        for name, value in (changes or {}).items()
    ]


# --- how a training ended -----------------------------------------------------------------------


def outcome(model: GEDI) -> Row:
    """How a training ended, without labels: the part of a row that all experiments share."""
    return {
        "gap": model.certificate_gap_,
        "certified": bool(model.converged_),
        "verdict": model.verdict_,
        "modes": list(model.diagnosis_.failure_modes),
        "stopped": model.stopped_,
        "recoveries": model.n_recoveries_,
        "iterations": model.n_iter_,
    }


def diverged(row: Row) -> bool:
    """Whether training diverged, and no guard brought it back; it may have come back by itself."""
    return row["stopped"] == "diverged" or "training diverged" in row["verdict"]


def findings(group: Sequence[Row], false_below: float | None = None) -> str:
    """The outcomes of several seeds in words.

    With `false_below`, certificates of a lower NMI are counted as false.
    """
    modes = Counter(mode for row in group for mode in row["modes"])
    gaps = [float(row["gap"]) for row in group if not row["certified"] and not row["modes"]]
    counts = {mode: modes[mode] for mode in (REPRESENTATION, CLUSTERS, PERMUTATION)}
    counts["recovered"] = sum(row["recoveries"] > 0 for row in group)
    counts["diverged"] = sum(map(diverged, group))
    counts["uncertified"] = len(gaps)
    counts["certified"] = sum(row["certified"] for row in group)
    if false_below is not None:
        false = [row for row in group if row["certified"] and row["nmi"] < false_below]
        counts["falsely so"] = len(false)
    words = {name: f"{name} {count}/{len(group)}" for name, count in counts.items() if count}
    if gaps:
        words["uncertified"] += f": gap {statistics.median(gaps):.3f}"
    return ", ".join(words.values())


# --- the folder ---------------------------------------------------------------------------------


def _config(n: int, settings: Options | None) -> Options:
    """All that the rows of one folder have in common."""
    packages = ("torch", "scikit-learn", "numpy")
    versions = {name: importlib.metadata.version(name) for name in packages}
    return {
        "n": n,
        "settings": settings or {},
        "defaults": json.loads(settings_type()().model_dump_json()),
        "versions": {"gedi-learn": __version__} | versions,
    }


@lru_cache(maxsize=1)
def commit(package: Path = Path(gedilearn.__file__).parent) -> dict[str, str]:
    """The commit of this code, if it lies in a git work tree; '+' says that files were changed."""

    def git(*arguments: str) -> str:
        command = ["git", "-C", str(package), *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()

    try:
        git("ls-files", "--error-unmatch", "__init__.py")  # not a copy in the tree of others
        changed = git("status", "--porcelain", "--", ".")
        return {"commit": git("rev-parse", "--short=12", "HEAD") + "+" * bool(changed)}
    except (OSError, subprocess.CalledProcessError):
        return {}


def _reopen(out: Path, config: Options) -> list[Row]:
    """The rows in `out` so far; a folder of other settings or versions is refused, not mixed.

    Rows of several commits may stand in one folder: each names its own, and the config the last.
    """
    rows, file = out / ROWS, out / CONFIG
    out.mkdir(parents=True, exist_ok=True)
    if file.exists():
        found = read_config(file)
        for name, value in json.loads(json.dumps(config)).items():
            if found.get(name) != value:
                raise InputError(f"{out} holds rows with other {name}: choose another folder")
    elif rows.exists():
        raise InputError(f"{out} holds rows but no {CONFIG}: choose another folder")
    write_text(file, json.dumps(config | commit(), indent=2) + "\n")
    kept = read_rows(rows)
    # A line that a crash cut short would spoil the next one.
    write_text(rows, "".join(json.dumps(row) + "\n" for row in kept))
    return kept


OTHER = "restore it, or choose another folder"


def read_config(file: Path) -> Options:
    """What `_config` gave."""
    config: Options = read_json(file, OTHER)
    with reading(file, OTHER):
        if not all(isinstance(config[name], dict) for name in ("settings", "versions")):
            raise ValueError("no settings or versions")
    return config


def read_rows(file: Path) -> list[Row]:
    """The whole rows of a folder, each with the key that names it."""
    rows: list[Row] = read_json_lines(file)
    with reading(file, OTHER):
        for row in rows:
            data, method, seed = key_of(row)
            if not (isinstance(data, str) and isinstance(method, str) and isinstance(seed, int)):
                raise ValueError(f"no row has the key {key_of(row)}")
    return rows
