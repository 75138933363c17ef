"""The rows of an experiment: made one by one, kept in a folder, shown as a table.

A row is one fit, named by its (data, method, seed), in plain JSON values.
"""

from __future__ import annotations

import importlib.metadata
import json
from collections.abc import Callable, Collection, Iterable, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from gedilearn import __version__
from gedilearn.errors import InputError
from gedilearn.settings import Settings, suggestion
from gedilearn.training.checkpoint import write_text
from gedilearn.training.rundir import read_lines

Row = dict[str, Any]
Key = tuple[str, str, int]
N_POINTS = 1000
FRESH = 1_000_000  # added to the seed of the points that are scored

# --- making -------------------------------------------------------------------------------------


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

    With `out`, rows are appended to out/rows.jsonl as they come, and those that are there already
    are not run again. `tell` gets each new row and how many are still to come.
    """
    from joblib import Parallel, delayed

    if workers < 1:
        raise InputError(f"workers={workers}: at least 1 process is needed")
    done = {} if out is None else {_key(row): row for row in _reopen(out, _config(n, settings))}
    missing = [key for key in wanted if key not in done]
    fits = (delayed(fit)(*key, n, settings or {}) for key in missing)
    for left, row in zip(
        range(len(missing) - 1, -1, -1),
        Parallel(n_jobs=workers, return_as="generator", batch_size=1)(fits),
        strict=True,
    ):
        done[_key(row)] = row
        if out is not None:
            with open(out / "rows.jsonl", "a", encoding="utf-8") as file:
                file.write(json.dumps(row) + "\n")
        if tell is not None:
            tell(row, left)
    return [done[key] for key in wanted]


def check_names(kind: str, names: Iterable[str], known: Collection[str]) -> None:
    """Refuse a name that is not known."""
    for name in names:
        if name not in known:
            raise InputError(f"unknown {kind} {name!r}{suggestion(name, known)}")


def _key(row: Row) -> Key:
    return row["data"], row["method"], row["seed"]


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
