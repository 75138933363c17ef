"""The app, errors in one line, and the output of the commands.

`@app.command()` adds a command, here or from outside. Nothing heavy is imported at the top of a
file with commands, because help pages must not wait for torch: a command imports what it needs
when it runs.

Results go to stdout. Messages and errors go to stderr: a pipe carries only data.
"""

from __future__ import annotations

import errno
import logging
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, fields, is_dataclass
from functools import wraps
from importlib.util import find_spec
from inspect import Parameter, Signature, signature
from numbers import Integral, Real
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer
from typer import Option
from typer.core import TyperGroup

from gedilearn import __version__, io
from gedilearn.errors import InputError
from gedilearn.errors import Parameter as LibraryParameter
from gedilearn.progress import Progress, shown

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd
    from rich.table import Table
    from rich.tree import Tree

# --- the app ------------------------------------------------------------------------------------


class Commands(TyperGroup):
    """Commands whose errors are one line without a traceback, if the user can fix them.

    Bad input and a full disk exit with code 2, Ctrl-C with 130. Any other error is a bug, and its
    traceback is shown.
    """

    def invoke(self, ctx: Any) -> Any:
        if hasattr(sys.stdout, "reconfigure"):  # file names need not be text
            sys.stdout.reconfigure(errors="backslashreplace")
        try:
            result = super().invoke(ctx)
            sys.stdout.flush()
            return result
        except InputError as error:
            words = "".join(p if isinstance(p, str) else option(p) for p in error.parts)
            _stop(f"error: {words}", 2)
        except OSError as error:
            if error.errno == errno.EPIPE:  # the reader of a pipe left, as in `| head`
                raise
            place, reason = error.filename, error.strerror or str(error)
            where = f"{place}: " if place else ""
            _stop(f"error: {where}{reason[:1].lower()}{reason[1:]}", 2)
        except KeyboardInterrupt as interrupt:
            _stop(f"interrupted: {interrupt}" if str(interrupt) else "interrupted", 130)


# Options that are called otherwise than the parameters of the library, and those of a kind.
OPTIONS = {"n_clusters": "clusters", "max_clusters": "max", "n_samples": "number"}
OPTIONS |= {"broken": "skip-broken", "directory": "from"}
KINDS = {"category": "categorical", "number": "numeric", "id": "id-column", "drop": "drop"}


def option(parameter: LibraryParameter) -> str:
    """The option that stands for a parameter or a setting of the library, with its value."""
    name, value = parameter.name, parameter.value
    if name == "table.kinds":
        return " ".join(f"--{KINDS[kind]} {_word(column)}" for column, kind in value.items())
    if "." in name:
        return f"--set {name}={_word(value)}"
    if name == "size" and value is not None:  # (height, width)
        value = "x".join(map(str, reversed(value)))
    own = f"--{OPTIONS.get(name, name.replace('_', '-'))}"
    return own if value is None or name == "broken" else f"{own} {_word(value)}"


def _word(value: object) -> str:
    """A value for a shell."""
    text = str(value)
    return text if all(c.isalnum() or c in "._-" for c in text) else repr(text)


def _stop(line: str, code: int) -> None:
    print(" ".join(line.split()), file=sys.stderr)
    raise typer.Exit(code) from None


@contextmanager
def interruptible(hint: str, needed: Path | None = None) -> Iterator[None]:
    """Make Ctrl-C print how to continue; only if the file `needed` exists, where one is named."""
    try:
        yield
    except KeyboardInterrupt:
        if needed is None or needed.exists():
            raise KeyboardInterrupt(hint) from None
        raise


class App(typer.Typer):
    """Commands whose parameters may be groups of options: dataclasses, an option for each field."""

    def command(self, *names: Any, **others: Any) -> Callable[[Any], Any]:
        register = super().command(*names, **others)

        def decorate(function: Any) -> Any:
            register(_with_groups(function))
            return function

        return decorate


def _with_groups(function: Callable[..., None]) -> Callable[..., None]:
    """The same function of the fields of its groups, for typer."""
    groups: dict[str, Any] = {}
    options: list[Parameter] = []
    for parameter in signature(function, eval_str=True).parameters.values():
        group = parameter.annotation
        if is_dataclass(group):
            groups[parameter.name], types = group, get_type_hints(group, include_extras=True)
            options += [
                parameter.replace(name=each.name, default=each.default, annotation=types[each.name])
                for each in fields(group)
            ]
        else:
            options.append(parameter)

    @wraps(function)
    def run(**values: Any) -> None:
        for name, group in groups.items():
            values[name] = group(**{each.name: values.pop(each.name) for each in fields(group)})
        function(**values)

    in_any_order = [each.replace(kind=Parameter.KEYWORD_ONLY) for each in options]
    run.__signature__ = Signature(in_any_order)  # type: ignore[attr-defined]
    run.__annotations__ = {each.name: each.annotation for each in options}
    return run


app = App(
    cls=Commands,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def main() -> None:
    """The entry point of the command `gedi`."""
    logging.disable(logging.INFO)  # Fabric's remarks on the number of processes
    if not sys.warnoptions:
        warnings.simplefilter("ignore")  # the verdict says what matters
    app(prog_name="gedi")


def _version(is_given: bool) -> None:
    if is_given:
        print(f"gedi-learn {__version__}")
        raise typer.Exit


@app.callback()
def gedi(
    version: Annotated[
        bool, Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Cluster unlabelled data with a neural network, and report whether to trust the clusters.

    \b
    gedi fit points.csv --clusters 3
    gedi predict gedi-runs/points-1 more.csv --out clusters.csv
    """


# --- output -------------------------------------------------------------------------------------

ENDINGS = (".csv", ".parquet", ".npy")


def check_out(out: Path | None) -> Path | None:
    """Refuse a file that cannot be written, before any work."""
    if out is None:
        return None
    if out.suffix.lower() not in ENDINGS:
        raise InputError(f"--out {out}: unknown ending {out.suffix!r}; use {', '.join(ENDINGS)}")
    if out.suffix.lower() == ".parquet" and find_spec("pyarrow") is None:
        raise InputError(f"--out {out}: needs pyarrow; pip install 'gedi-learn[parquet]'")
    io.refuse_existing(out)
    if not out.parent.is_dir():
        raise InputError(f"--out {out}: there is no folder {out.parent}")
    return out


_OUT = "Write the result to this new file: .csv, .parquet or .npy."
OutFile = Annotated[Path | None, Option(metavar="FILE", callback=check_out, help=_OUT)]


@dataclass(frozen=True)
class Screen:
    """Results and messages of a command; only the first of several processes prints."""

    json: Annotated[bool, Option("--json", help="Print the result as JSON.")] = False
    quiet: Annotated[
        bool, Option("--quiet", "-q", help="Print no tables and no messages, only errors.")
    ] = False

    def message(self, text: str) -> None:
        """Print one line on stderr."""
        if not self.quiet and io.is_first_process():
            print(text, file=sys.stderr)

    def progress(self) -> AbstractContextManager[Progress]:
        """The display of the phases of the work; none for a program that reads JSON."""
        return shown(not self.json and not self.quiet and io.is_first_process())

    def show(self, content: Any, *parts: str | Table | Tree) -> None:
        """Print a result: `content` with --json, otherwise tables and text."""
        if not io.is_first_process():
            return
        if self.json:
            print(io.json_text(content))
        elif not self.quiet:
            from rich.console import Console

            # Text is printed as it is: names of files and columns may look like markup.
            console = Console(markup=False, highlight=False, emoji=False)
            for part in parts:
                if isinstance(part, str):
                    console.print(io.printable(part), soft_wrap=True)
                else:
                    console.print(part)

    def give(self, columns: dict[str, Any], array: np.ndarray, out: Path | None) -> None:
        """Write one row of results for each row of data.

        To the file `out`, or to stdout as JSON or CSV.
        columns: (n,) each; array: (n, ...), for .npy
        """
        if not io.is_first_process():
            return
        if out is not None:
            _write_result(out, columns, array)
            self.message(f"{len(array)} rows written to {out}")
            if self.json:
                print(io.json_text({"out": str(out), "rows": len(array)}))
        elif self.json:
            print(io.json_text(frame(columns).to_dict("list")))
        else:
            sys.stdout.write(csv_of(columns))


def table(heads: Sequence[str], rows: Iterable[Iterable[str]]) -> Table:
    """A table for a terminal; columns of numbers are aligned to the right."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    lines = [[io.printable(text) for text in row] for row in rows]
    grid = Table(box=SIMPLE_HEAD, show_header=any(heads), pad_edge=False)
    for k, head in enumerate(heads):
        texts = [line[k] for line in lines if line[k]]
        are_numbers = all(text.lstrip("-")[:1].isdigit() for text in texts)
        grid.add_column(head, justify="right" if are_numbers else "left")
    for line in lines:
        grid.add_row(*line)
    return grid


def _write_result(out: Path, columns: dict[str, Any], array: np.ndarray) -> None:
    """Write a new file in the format of its ending."""
    import numpy as np

    ending = out.suffix.lower()
    with io.replacing(out, new=True) as temporary, open(temporary, "wb") as file:
        if ending == ".npy":
            np.save(file, array, allow_pickle=False)
        elif ending == ".parquet":
            frame(columns).to_parquet(file, index=False)
        else:
            file.write(csv_of(columns).encode())


def frame(columns: dict[str, Any]) -> pd.DataFrame:
    """The columns as a data frame."""
    import pandas as pd

    return pd.DataFrame(columns)


def csv_of(columns: dict[str, Any]) -> str:
    """Numbers have as many digits as an exact reading back needs."""
    return str(frame(columns).to_csv(index=False, lineterminator="\n"))


def cell(value: Any) -> str:
    """A value in a table: at most three digits of a fraction, '' for None."""
    if value is None or isinstance(value, str | bool) or not isinstance(value, Real):
        return "" if value is None else str(value)
    return f"{value:,}" if isinstance(value, Integral) else io.digits(float(value), 3)
