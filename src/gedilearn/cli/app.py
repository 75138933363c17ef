"""What all commands share: the app, errors, options, and how results leave the command line.

`@app.command()` adds a command, here or from outside. Nothing heavy is imported at the top of this
file or of those with commands, so that help pages do not wait for torch: a command imports what it
needs when it runs.

Results go to stdout; all that is said about them goes to stderr, so that a pipe carries only data.
"""

from __future__ import annotations

import csv
import errno
import io
import json
import logging
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum
from numbers import Integral, Real
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from gedilearn import __version__
from gedilearn.errors import InputError
from gedilearn.writing import refuse_existing, replacing, write_text

if TYPE_CHECKING:
    import numpy as np
    from rich.console import Console

    from gedilearn.data.dataset import Dataset

ENDINGS = (".csv", ".npy", ".json")
ROWS_SHOWN = 10


# --- the app ------------------------------------------------------------------------------------


class Commands(TyperGroup):
    """Runs a command so that errors which a person can mend are one line, without a traceback.

    Bad input and a full disk exit with code 2, Ctrl-C with 130; anything else is a bug, and its
    traceback is shown.
    """

    def invoke(self, ctx: Any) -> Any:
        logging.disable(logging.INFO)  # the launcher's remarks on how many processes there are
        try:
            with warnings.catch_warnings():
                if not sys.warnoptions:
                    warnings.simplefilter("ignore")  # what matters is in the verdict
                result = super().invoke(ctx)
            sys.stdout.flush()
            return result
        except InputError as error:
            _stop(f"error: {error}", 2)
        except OSError as error:
            if error.errno == errno.EPIPE:  # the reader of our output left, as in `| head`
                raise
            _stop(f"error: {_in_words(error)}", 2)
        except KeyboardInterrupt as interrupt:
            _stop(f"interrupted: {interrupt}" if str(interrupt) else "interrupted", 130)
        finally:
            logging.disable(logging.NOTSET)


def _stop(line: str, code: int) -> None:
    print(" ".join(line.split()), file=sys.stderr)
    raise typer.Exit(code) from None


def _in_words(error: OSError) -> str:
    if error.strerror and error.filename:
        return f"{error.filename}: {error.strerror[0].lower()}{error.strerror[1:]}"
    return error.strerror or str(error)


@contextmanager
def interruptible(how_to_continue: str, begun: Path | None = None) -> Iterator[None]:
    """Ctrl-C says how to continue, if the file `begun` is there."""
    try:
        yield
    except KeyboardInterrupt:
        if begun is None or begun.exists():
            raise KeyboardInterrupt(how_to_continue) from None
        raise


app = typer.Typer(
    cls=Commands,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def main() -> None:
    """The entry point of the command `gedi`."""
    app(prog_name="gedi")


def _version(wanted: bool) -> None:
    if wanted:
        print(f"gedi-learn {__version__}")
        raise typer.Exit


@app.callback()
def gedi(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_version, is_eager=True, help="Print the version."),
    ] = False,
) -> None:
    """Cluster unlabelled data with a neural network, and say whether to trust the result.

    \b
    gedi fit points.csv --clusters 3
    gedi predict gedi-runs/points-1 more.csv --out clusters.csv
    """


# --- options of several commands ----------------------------------------------------------------


def _check_seed(seed: int) -> int:
    if not 0 <= seed < 2**32:
        raise InputError(f"--seed {seed}: give a number from 0 to 2**32 - 1")
    return seed


class Probe(str, Enum):
    """Linear probes; a test holds them against those of the evaluation."""

    fast = "fast"
    paper = "paper"
    none = "none"


Data = Annotated[
    str,
    typer.Argument(
        metavar="DATA",
        help="A .npy, .npz, .csv, .tsv or .parquet file, a folder of images, the name of a "
        "built-in set (moons, circles, digits), or of a fetched one (see gedi data list).",
    ),
]
Run = Annotated[
    Path,
    typer.Argument(
        metavar="RUN", help="A run directory written by gedi fit, or a model.safetensors file."
    ),
]
RunFolder = Annotated[
    Path, typer.Argument(metavar="RUN", help="A run directory written by gedi fit.")
]
OutFile = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="Write here instead of to the screen: .csv, .npy or .json. Never overwrites.",
    ),
]
Size = Annotated[
    str | None,
    typer.Option(
        metavar="WxH",
        help="Resize the images of a folder to this width and height in pixels, as 32x32, or 32 "
        "for both. A run keeps the size that it was fitted with.",
    ),
]
SkipBroken = Annotated[
    bool,
    typer.Option(
        "--skip-broken",
        help="Leave out the files of a folder of images that cannot be read, and name them.",
    ),
]
Seed = Annotated[
    int, typer.Option(metavar="N", callback=_check_seed, help="Seed of all randomness.")
]
Changes = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="NAME=VALUE",
        help="Change one setting, with its value in YAML; may be repeated. See gedi settings.",
    ),
]
Outside = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME=DATA",
        help="Other data, to measure how well it is told from the test data: anything that gedi "
        "fit reads. NAME= may be left out. May be repeated.",
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON on stdout, and nothing else.")]
Quiet = Annotated[
    bool, typer.Option("--quiet", "-q", help="Print only errors (and the JSON, if asked for).")
]


def changes(given: Sequence[str] | None) -> dict[str, Any]:
    """The settings of `--set NAME=VALUE`, by dotted name."""
    import yaml

    found = {}
    for assignment in given or []:
        name, equals, text = assignment.partition("=")
        if not equals:
            raise InputError(f"--set {assignment}: write it as name=value")
        try:
            found[name] = yaml.safe_load(text)
        except yaml.YAMLError:
            raise InputError(f"--set {assignment}: the value is not valid YAML") from None
    return found


def outside(given: Sequence[str] | None, read: Callable[[str], Dataset]) -> dict[str, Dataset]:
    """The data of `--ood NAME=DATA` by name; DATA alone has a name of its own."""
    found: dict[str, Dataset] = {}
    for text in given or []:
        name, equals, data = text.partition("=")
        if not equals or Path(text).exists():
            name, data = "", text
        if equals and not data:
            raise InputError(f"--ood {text}: write it as NAME=DATA, or DATA alone")
        dataset = read(data)
        name = name or dataset.name
        if name in found:
            raise InputError(f"--ood {text}: there are two sets called {name}; write NAME=DATA")
        found[name] = dataset
    return found


# --- output -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Result:
    """One value or more for each row, in the forms that they are given out in."""

    columns: dict[str, np.ndarray]  # (n,) each: CSV, and the table on a terminal
    array: np.ndarray  # (n, ...): .npy
    content: dict[str, Any]  # JSON

    def rows(self, most: int | None = None) -> Iterator[tuple[Any, ...]]:
        """Row by row, as in CSV."""
        return zip(*(values[:most] for values in self.columns.values()), strict=True)

    def write(self, out: Path) -> None:
        """Write a new file in the form that its ending names."""
        ending = out.suffix.lower()
        if ending == ".npy":
            import numpy as np

            with replacing(out, new=True) as temporary, open(temporary, "wb") as file:
                np.save(file, self.array, allow_pickle=False)
        elif ending == ".json":
            write_text(out, json_text(self.content) + "\n", new=True)
        else:
            write_text(out, csv_text(list(self.columns), self.rows()), new=True)


@dataclass(frozen=True)
class Screen:
    """What a person or a program sees; silent on all ranks but the first."""

    json: bool = False
    quiet: bool = False

    def message(self, text: str) -> None:
        """One line on stderr."""
        if not self.quiet and _is_first_process():
            print(text, file=sys.stderr)

    @property
    def interactive(self) -> bool:
        """Whether a progress bar would be seen."""
        return not self.quiet and _is_first_process() and sys.stderr.isatty()

    def content(self, content: dict[str, Any]) -> None:
        """JSON on stdout; it is a result that was asked for, so `quiet` does not hold it back."""
        if _is_first_process():
            print(json_text(content))

    def table(
        self, heads: Sequence[str], rows: Iterable[Sequence[str]], lines: Sequence[str] = ()
    ) -> None:
        """A table on stdout and sentences below it."""
        if not self.quiet and _is_first_process():
            _print_table(heads, rows, lines)

    def give(self, result: Result, out: Path | None) -> None:
        """To the file `out`, or else to stdout: JSON, a short table, or CSV in a pipe."""
        if not _is_first_process():
            return
        n = len(result.array)
        if out is not None:
            result.write(out)
            self.message(f"{n} rows written to {out}")
            if self.json:
                self.content({"out": str(out), "rows": n})
        elif self.json:
            self.content(result.content)
        elif sys.stdout.isatty():
            more = n - ROWS_SHOWN
            lines = [f"... and {more} more rows: --out FILE keeps all"] if more > 0 else []
            rows = ([_short(value) for value in row] for row in result.rows(ROWS_SHOWN))
            self.table(list(result.columns), rows, lines)
        else:
            sys.stdout.write(csv_text(list(result.columns), result.rows()))


def print_list(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """All rows on stdout: a table on a terminal, CSV in a pipe."""
    if sys.stdout.isatty():
        _print_table(heads, rows, overflow="fold")
    else:
        sys.stdout.write(csv_text(heads, rows))


def check_out(out: Path | None) -> None:
    """Refuse, before any work, a file that could not be written in the end."""
    if out is None:
        return
    if out.suffix.lower() not in ENDINGS:
        raise InputError(f"--out {out}: unknown ending {out.suffix!r}; write {', '.join(ENDINGS)}")
    refuse_existing(out)
    if not out.parent.is_dir():
        raise InputError(f"--out {out}: there is no folder {out.parent}")


def new_files(folder: Path | None, *names: str) -> list[Path]:
    """Files to write into a folder, which is made; none without a folder, and never an old one."""
    if folder is None:
        return []
    files = [folder / name for name in names]
    for file in files:
        refuse_existing(file)
    folder.mkdir(parents=True, exist_ok=True)
    return files


def make_console() -> Console:
    """Text as it is: names of files and columns may hold what rich takes for markup."""
    from rich.console import Console

    return Console(markup=False, highlight=False, emoji=False)


def csv_text(heads: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """Numbers are written with as many digits as an exact reading back needs."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(heads)
    writer.writerows(rows)
    return text.getvalue()


def json_text(content: Any, indent: int | None = None) -> str:
    """JSON, with infinities by name."""
    from gedilearn.training.run_directory import plain

    return json.dumps(plain(content), indent=indent)


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


def _is_first_process() -> bool:
    from gedilearn.training.run_directory import is_first_process  # imports torch

    return is_first_process()


def _short(value: Any) -> str:
    is_whole = not isinstance(value, Real) or isinstance(value, Integral)
    return str(value) if is_whole else f"{value:.4g}"
