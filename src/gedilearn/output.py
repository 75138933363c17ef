"""How results leave the command line: files that are never overwritten, tables, CSV and JSON.

Results go to stdout; all that is said about them goes to stderr, so that a pipe carries only data.
"""

from __future__ import annotations

import csv
import io
import json
import os
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from gedilearn.errors import InputError
from gedilearn.training.run_directory import is_first_process, plain

ENDINGS = (".csv", ".npy", ".json")
ROWS_SHOWN = 10


@dataclass(frozen=True)
class Result:
    """One value or more for each row, in the forms that they are given out in."""

    columns: dict[str, np.ndarray]  # (n,) each: CSV, and the table on a terminal
    array: np.ndarray  # (n, ...): .npy
    content: dict[str, Any]  # JSON


@dataclass(frozen=True)
class Screen:
    """What a person or a program sees; silent on all ranks but the first."""

    json: bool = False
    quiet: bool = False

    def message(self, text: str) -> None:
        """One line on stderr."""
        if not self.quiet and is_first_process():
            print(text, file=sys.stderr)

    @property
    def interactive(self) -> bool:
        """Whether a progress bar would be seen."""
        return not self.quiet and is_first_process() and sys.stderr.isatty()

    def content(self, content: dict[str, Any]) -> None:
        """JSON on stdout; it is a result that was asked for, so `quiet` does not hold it back."""
        if is_first_process():
            print(json.dumps(plain(content)))

    def table(
        self, heads: Sequence[str], rows: Iterable[Sequence[str]], lines: Sequence[str] = ()
    ) -> None:
        """A table on stdout and sentences below it."""
        if self.quiet or not is_first_process():
            return
        console = make_console()
        table = Table(*heads, box=SIMPLE_HEAD, show_header=any(heads), pad_edge=False)
        for row in rows:
            table.add_row(*row)
        console.print(table)
        for line in lines:
            console.print(line, soft_wrap=True)

    def give(self, result: Result, out: Path | None) -> None:
        """To the file `out`, or else to stdout: JSON, a short table, or CSV in a pipe."""
        if not is_first_process():
            return
        n = len(result.array)
        if out is not None:
            write(out, result)
            self.message(f"{n} rows written to {out}")
            if self.json:
                self.content({"out": str(out), "rows": n})
        elif self.json:
            self.content(result.content)
        elif sys.stdout.isatty():
            shown = [[_short(v) for v in row] for row in _rows(result, ROWS_SHOWN)]
            more = n - len(shown)
            lines = [f"... and {more} more rows: --out FILE keeps all"] if more > 0 else []
            self.table(list(result.columns), shown, lines)
        else:
            sys.stdout.write(csv_text(list(result.columns), _rows(result)))


def make_console() -> Console:
    """Text as it is: names of files and columns may hold what rich takes for markup."""
    return Console(markup=False, highlight=False, emoji=False)


def check_out(out: Path | None, endings: Sequence[str] = ENDINGS) -> None:
    """Refuse, before any work, a file that could not be written in the end."""
    if out is None:
        return
    if out.suffix.lower() not in endings:
        raise InputError(f"--out {out}: unknown ending {out.suffix!r}; write {', '.join(endings)}")
    if out.exists() or out.is_symlink():
        raise InputError(f"--out {out} exists already: choose another name")
    if not out.parent.is_dir():
        raise InputError(f"--out {out}: there is no folder {out.parent}")


def write(out: Path, result: Result) -> None:
    """Write a result in the form that the ending names."""
    ending = out.suffix.lower()
    if ending == ".npy":
        write_new(out, lambda file: np.save(file, result.array, allow_pickle=False))
    elif ending == ".json":
        write_new_text(out, json.dumps(plain(result.content)) + "\n")
    else:
        write_new_text(out, csv_text(list(result.columns), _rows(result)))


def write_new_text(out: Path, text: str) -> None:
    """Write a new text file, whole or not at all."""
    write_new(out, lambda file: file.write(text.encode("utf-8")))


def write_new(out: Path, fill: Callable[[BinaryIO], object]) -> None:
    """Write a new file, whole or not at all; a failure leaves nothing behind."""
    temporary = out.with_name(f".{out.name}.{os.getpid()}.part")
    try:
        with open(temporary, "xb") as file:
            fill(file)
            file.flush()
            os.fsync(file.fileno())
        check_out(out, (out.suffix.lower(),))  # once more: somebody may have been faster
        os.replace(temporary, out)
    except OSError as error:  # a full disk, say, comes without the name of the file
        raise OSError(error.errno, error.strerror or str(error), str(out)) from None
    finally:
        temporary.unlink(missing_ok=True)


def csv_text(heads: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """Numbers are written with as many digits as an exact reading back needs."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(heads)
    writer.writerows(rows)
    return text.getvalue()


def _rows(result: Result, most: int | None = None) -> Iterable[tuple[Any, ...]]:
    return zip(*(values[:most] for values in result.columns.values()), strict=True)


def _short(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float | np.floating) else str(value)
