"""The rows of an experiment: made cell by cell, kept in a folder, shown as a table.

A row is one result, named by its (data, method, seed), in plain JSON values.
"""

from __future__ import annotations

import importlib.metadata
import json
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from rich.console import Console
from rich.table import Table

from gedilearn import __version__
from gedilearn.errors import InputError, suggestion
from gedilearn.settings import Settings, assign, build
from gedilearn.training.run_directory import read_lines
from gedilearn.writing import write_text

if TYPE_CHECKING:
    from gedilearn.estimator import GEDI

Row = dict[str, Any]
Key = tuple[str, str, int]
N_POINTS = 1000
FRESH = 1_000_000  # added to the seed of the points that are scored

# --- making -------------------------------------------------------------------------------------


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


def collect(
    wanted: Sequence[Key],
    fit: Callable[[str, str, int, int, dict[str, Any]], Row],
    out: Path | None,
    n: int,
    settings: dict[str, Any] | None,
    workers: int = 1,
    tell: Callable[[Row, int], None] | None = None,
) -> list[Row]:
    """The row `fit(data, method, seed, n, settings)` of every key wanted, in their order.

    As `collect_cells`, with cells of a single seed and row.
    """
    cells = [Cell(data, method, (seed,), (method,)) for data, method, seed in wanted]
    return collect_cells(cells, partial(_alone, fit), out, n, settings, workers, tell)


def collect_cells(
    cells: Sequence[Cell],
    fit: Callable[[str, str, tuple[int, ...], int, dict[str, Any]], list[Row]],
    out: Path | None,
    n: int,
    settings: dict[str, Any] | None,
    workers: int = 1,
    tell: Callable[[Row, int], None] | None = None,
) -> list[Row]:
    """The rows `fit(data, method, seeds, n, settings)` of every cell, in their order.

    With `out`, rows are appended to out/rows.jsonl as they come, and a seed whose rows are all
    there is not run again: `fit` is asked for the others of its cell only. `tell` gets each new
    row and how many are still to come.

    Cells are spread over `workers` processes by joblib. A caller who chooses a backend with
    `joblib.parallel_config`, for instance Ray's or Dask's with `n_jobs`, spreads them over a
    cluster by the same function: leave `workers` at 1, which stands for the number chosen there.
    """
    if workers < 1:
        raise InputError(f"workers={workers}: at least 1 process is needed")
    done = {} if out is None else {_key(row): row for row in _reopen(out, _config(n, settings))}
    missing = [rest for cell in cells if (rest := _rest(cell, done)) is not None]
    left = sum(key not in done for cell in missing for key in cell.expected())
    for rows in _as_they_come(missing, fit, n, settings or {}, workers):
        for row in rows:
            if _key(row) in done:
                continue
            done[_key(row)] = row
            left -= 1
            if out is not None:
                with open(out / "rows.jsonl", "a", encoding="utf-8") as file:
                    file.write(json.dumps(row) + "\n")
            if tell is not None:
                tell(row, left)
    return [done[key] for cell in cells for key in cell.expected()]


def _alone(
    fit: Callable[[str, str, int, int, dict[str, Any]], Row],
    data: str,
    method: str,
    seeds: tuple[int, ...],
    n: int,
    settings: dict[str, Any],
) -> list[Row]:
    return [fit(data, method, seed, n, settings) for seed in seeds]


def _rest(cell: Cell, done: Collection[Key]) -> Cell | None:
    """The cell with the seeds that lack a row."""
    seeds = tuple(s for s in cell.seeds if any((cell.data, r, s) not in done for r in cell.rows))
    return cell._replace(seeds=seeds) if seeds else None


def _as_they_come(
    cells: Sequence[Cell],
    fit: Callable[[str, str, tuple[int, ...], int, dict[str, Any]], list[Row]],
    n: int,
    settings: dict[str, Any],
    workers: int,
) -> Iterator[list[Row]]:
    """The rows of each cell as soon as it is done, so that an interruption loses little."""
    from joblib import Parallel, delayed, effective_n_jobs
    from joblib.parallel import get_active_backend

    jobs = None if workers == 1 else workers
    fits = [delayed(fit)(cell.data, cell.method, cell.seeds, n, settings) for cell in cells]
    if get_active_backend()[0].supports_return_generator:
        # In any order: a slow cell must not hold back the rows of others.
        yield from Parallel(n_jobs=jobs, return_as="generator_unordered", batch_size=1)(fits)
        return
    size = effective_n_jobs(jobs)
    for start in range(0, len(fits), size):
        yield from Parallel(n_jobs=jobs, batch_size=1)(fits[start : start + size])


def check_names(kind: str, names: Iterable[str], known: Collection[str]) -> None:
    """Refuse a name that is not known."""
    for name in names:
        if name not in known:
            raise InputError(f"unknown {kind} {name!r}{suggestion(name, known)}")


def _key(row: Row) -> Key:
    return row["data"], row["method"], row["seed"]


def adjusted(
    values: dict[str, Any],
    iterations: int | None,
    changes: dict[str, Any] | None,
    images: bool = False,
) -> dict[str, Any]:
    """Nested settings, shortened and changed as asked; what is wrong is said before anything runs.

    `iterations` of each stage at most, with a warm-up that takes its share of them; `changes` by
    their dotted names.
    """
    if iterations is not None:
        whole = build(values, images)
        share = min(iterations / whole.training.max_iter, 1)
        assign(values, "training.max_iter", iterations)
        assign(values, "density.iterations", min(whole.density.iterations, iterations))
        assign(values, "optimizer.warmup", int(share * whole.optimizer.warmup))
    for path, value in (changes or {}).items():
        assign(values, path, value)
    build(values, images)
    return values


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


def _config(n: int, settings: dict[str, Any] | None) -> dict[str, Any]:
    """All that the rows of one folder have in common."""
    packages = ("gedi-learn", "torch", "scikit-learn", "numpy")
    return {
        "n": n,
        "settings": settings or {},
        "defaults": json.loads(Settings().model_dump_json()),
        "versions": {name: _version(name) for name in packages},
    }


def _version(package: str) -> str:
    if package == "gedi-learn":
        return __version__
    return importlib.metadata.version(package)


def _reopen(out: Path, config: dict[str, Any]) -> list[Row]:
    """The rows in `out` so far; a folder of other settings or versions is refused, not mixed."""
    rows, file = out / "rows.jsonl", out / "config.json"
    out.mkdir(parents=True, exist_ok=True)
    if file.exists():
        found = json.loads(file.read_text(encoding="utf-8"))
        for name, value in json.loads(json.dumps(config)).items():
            if found.get(name) != value:
                raise InputError(f"{out} holds rows with other {name}: choose another folder")
    elif rows.exists():
        raise InputError(f"{out} holds rows but no config.json: choose another folder")
    write_text(file, json.dumps(config, indent=2) + "\n")
    kept = read_lines(rows)
    # A line that a crash cut short would spoil the next one.
    write_text(rows, "".join(json.dumps(row) + "\n" for row in kept))
    return kept


# --- showing ------------------------------------------------------------------------------------


def markdown_table(
    heads: Sequence[str], cells: Iterable[Sequence[str]], notes: Iterable[str]
) -> str:
    """A table whose first two columns are words, and what its columns mean, as Markdown."""
    lines = [heads, ["---"] * 2 + ["---:"] * (len(heads) - 2), *cells]
    table = ["| " + " | ".join(line) + " |" for line in lines]
    return "\n".join([*table, "", *(f"- {note}" for note in notes), ""])


def show_table(
    title: str,
    heads: Sequence[str],
    cells: Iterable[Sequence[str]],
    notes: Iterable[str],
    console: Console,
) -> None:
    """Print the same; the name of a set stands on the first of its lines only."""
    table = Table(title=title, box=None, pad_edge=False, padding=(0, 1, 0, 0))
    for i, head in enumerate(heads):
        table.add_column(head, justify="left" if i < 2 else "right", no_wrap=True)
    last = ""
    for data, *others in cells:
        table.add_row("" if data == last else data, *others)
        last = data
    console.print(table)
    for note in notes:
        console.print(note, style="dim", soft_wrap=True)


def results_page(
    out: Path,
    name: str,
    title: str,
    sets: Iterable[str],
    markdown: Callable[[Sequence[Row]], str],
) -> str:
    """The page of the experiment `name` from the rows in `out`: how they were made, the table."""
    if not (out / "rows.jsonl").exists() or not (out / "config.json").exists():
        raise InputError(f"{out} holds no rows: gedi reproduce {name} --out {out}")
    rows = read_lines(out / "rows.jsonl")
    config = json.loads((out / "config.json").read_text(encoding="utf-8"))
    seeds = sorted({row["seed"] for row in rows})
    there = [known for known in sets if any(row["data"] == known for row in rows)]
    options = "" if there == list(sets) else f" --data {','.join(there)}"
    changed = ", ".join(f"{key}={value!r}" for key, value in config["settings"].items())
    versions = ", ".join(f"{package} {version}" for package, version in config["versions"].items())
    return "\n".join(
        [
            f"# {title}",
            "",
            f"Made by `make results-{name}` from {len(rows)} rows, one a fit, of",
            "",
            f"    gedi reproduce {name} --seeds {max(seeds) + 1}{options}",
            "",
            f"Seeds {', '.join(map(str, seeds))}; {config['n']} points a set (digits: 1797); GEDI "
            f"with {changed or 'its defaults'}; {versions}.",
            "",
            markdown(rows),
        ]
    )
