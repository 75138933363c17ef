"""How results leave the command line: tables, CSV, JSON, and new files.

Results go to stdout; all that is said about them goes to stderr, so that a pipe carries only data.
As in all files with commands, heavy imports wait.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from numbers import Integral, Real
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gedilearn.errors import InputError
from gedilearn.io import (
    csv_text,
    is_first_process,
    json_text,
    printable,
    refuse_existing,
    replacing,
    write_json,
    write_text,
)
from gedilearn.progress import Progress, shown

if TYPE_CHECKING:
    import numpy as np
    from rich.console import Console

ENDINGS = (".csv", ".parquet", ".npy", ".json")
ROWS_SHOWN = 10


@dataclass(frozen=True)
class Result:
    """One value or more for each row, in the forms that they are given out in."""

    columns: dict[str, np.ndarray]  # (n,) each: CSV, and the table on a terminal
    array: np.ndarray  # (n, ...): .npy
    content: dict[str, Any]  # JSON

    def rows(self, most: int | None = None) -> Iterator[tuple[Any, ...]]:
        """Row by row, as in CSV."""
        shown = (_dates_as_text(values[:most]) for values in self.columns.values())
        return zip(*shown, strict=True)

    def write(self, out: Path) -> None:
        """Write a new file in the form that its ending names."""
        ending = out.suffix.lower()
        if ending == ".npy":
            import numpy as np

            with replacing(out, new=True) as temporary, open(temporary, "wb") as file:
                np.save(file, self.array, allow_pickle=False)
        elif ending == ".json":
            write_json(out, self.content, None, new=True)
        elif ending == ".parquet":
            _write_parquet(out, self.columns)
        else:
            write_csv(out, list(self.columns), self.rows())


@dataclass(frozen=True)
class Screen:
    """What a person or a program sees; silent on all ranks but the first."""

    json: bool = False
    quiet: bool = False

    def message(self, text: str) -> None:
        """One line on stderr."""
        if not self.quiet and is_first_process():
            print(text, file=sys.stderr)

    def progress(self) -> AbstractContextManager[Progress]:
        """What tells the phases of the work; a program that reads JSON is told none."""
        seen = not self.json or sys.stderr.isatty()
        return shown(seen and not self.quiet and is_first_process())

    def content(self, content: dict[str, Any]) -> None:
        """JSON on stdout; it is a result that was asked for, so `quiet` does not hold it back."""
        if is_first_process():
            print(json_text(content))

    def table(
        self, heads: Sequence[str], rows: Iterable[Sequence[str]], lines: Sequence[str] = ()
    ) -> None:
        """A table on stdout and sentences below it."""
        if not self.quiet and is_first_process():
            _print_table(heads, rows, lines)

    def show(
        self,
        content: dict[str, Any],
        heads: Sequence[str],
        rows: Iterable[Sequence[str]],
        lines: Sequence[str] = (),
    ) -> None:
        """A result: `content` as JSON if that was asked for, or else a table."""
        if self.json:
            self.content(content)
        else:
            self.table(heads, rows, lines)

    def words(self, content: dict[str, Any], text: str) -> None:
        """A result in words: `content` as JSON if that was asked for, or else the text.

        Names of columns in it may hold anything.
        """
        if self.json:
            self.content(content)
        elif not self.quiet and is_first_process():
            print(printable(text))

    def give(self, result: Result, out: Path | None) -> None:
        """To the file `out`, or else to stdout: JSON, a short table, or CSV in a pipe."""
        if not is_first_process():
            return
        n = len(result.array)
        if out is not None:
            result.write(out)
            self.message(f"{n} rows written to {out}")
            if self.json:
                self.content({"out": str(out), "rows": n})
        elif self.json or sys.stdout.isatty():
            more = n - ROWS_SHOWN
            lines = [f"... and {more} more rows: --out FILE keeps all"] if more > 0 else []
            rows = ([_short(value) for value in row] for row in result.rows(ROWS_SHOWN))
            self.show(result.content, list(result.columns), rows, lines)
        else:
            sys.stdout.write(csv_text(list(result.columns), result.rows()))


def print_list(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """All rows on stdout: a table on a terminal, CSV in a pipe."""
    if sys.stdout.isatty():
        _print_table(heads, rows, overflow="fold")
    else:
        sys.stdout.write(csv_text(heads, rows))


def check_out(out: Path | None) -> Path | None:
    """Refuse, before any work, a file that could not be written in the end."""
    if out is None:
        return None
    if out.suffix.lower() not in ENDINGS:
        raise InputError(f"--out {out}: unknown ending {out.suffix!r}; write {', '.join(ENDINGS)}")
    refuse_existing(out)
    if not out.parent.is_dir():
        raise InputError(f"--out {out}: there is no folder {out.parent}")
    return out


def new_files(folder: Path | None, *names: str) -> list[Path]:
    """Files to write into a folder that can be made; none without one, and never an old one."""
    if folder is None:
        return []
    there = next(each for each in (folder, *folder.parents) if each.exists())
    if not there.is_dir():
        raise InputError(f"--out {folder}: {there} is not a folder")
    files = [folder / name for name in names]
    for file in files:
        refuse_existing(file)
    return files


def write_new(path: Path, text: str) -> None:
    """Write one of the `new_files`, into its folder, which is made."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_text(path, text, new=True)


def make_console() -> Console:
    """Text as it is: names of files and columns may hold what rich takes for markup."""
    from rich.console import Console

    return Console(markup=False, highlight=False, emoji=False)


def write_columns(path: Path, columns: dict[str, np.ndarray]) -> None:
    """A file of CSV anew."""
    rows = zip(*map(_dates_as_text, columns.values()), strict=True)
    write_csv(path, list(columns), rows, new=False)


def write_csv(
    path: Path, heads: Sequence[str], rows: Iterable[Sequence[Any]], *, new: bool = True
) -> None:
    """A new file, or a file anew."""
    write_text(path, csv_text(heads, rows), new=new)


def _print_table(
    heads: Sequence[str],
    rows: Iterable[Sequence[str]],
    lines: Sequence[str] = (),
    overflow: Any = "ellipsis",
) -> None:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    console = make_console()
    table = Table(box=SIMPLE_HEAD, show_header=any(heads), pad_edge=False)
    for head in heads:
        table.add_column(head, overflow=overflow)
    for row in rows:
        table.add_row(*row)
    console.print(table)
    for line in lines:
        console.print(line, soft_wrap=True)


def _write_parquet(out: Path, columns: dict[str, np.ndarray]) -> None:
    """A new file; missing cells are missing there too."""
    from gedilearn.data.tables import arrow

    pa, pq = arrow(out)
    arrays = {name: pa.array(values, from_pandas=True) for name, values in columns.items()}
    with replacing(out, new=True) as temporary:
        pq.write_table(pa.table(arrays), temporary)


def _dates_as_text(values: np.ndarray) -> np.ndarray:
    if values.dtype.kind != "M":
        return values
    import numpy as np

    from gedilearn.data.tables import word

    moments = values.astype("M8[us]").astype(object)
    return np.array([None if each is None else word(each) for each in moments], dtype=object)


def _short(value: Any) -> str:
    is_whole = not isinstance(value, Real) or isinstance(value, Integral)
    return str(value) if is_whole else f"{value:.4g}"
