"""What all commands share: the app, errors in one line, and options that several of them have.

`@app.command()` adds a command, here or from outside. Nothing heavy is imported at the top of this
file or of those with commands, so that help pages do not wait for torch: a command imports what it
needs when it runs.
"""

from __future__ import annotations

import errno
import io
import logging
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from gedilearn import __version__
from gedilearn.cli.output import check_out
from gedilearn.errors import InputError

if TYPE_CHECKING:
    from gedilearn.data.dataset import Dataset
    from gedilearn.progress import Progress

# --- the app ------------------------------------------------------------------------------------


class Commands(TyperGroup):
    """Runs a command so that errors which a person can mend are one line, without a traceback.

    Bad input and a full disk exit with code 2, Ctrl-C with 130; anything else is a bug, and its
    traceback is shown.
    """

    def invoke(self, ctx: Any) -> Any:
        logging.disable(logging.INFO)  # the launcher's remarks on how many processes there are
        if isinstance(sys.stdout, io.TextIOWrapper):  # names of files need not be text
            sys.stdout.reconfigure(errors="backslashreplace")
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


def _check_run(run: Path) -> Path:
    if not run.exists():
        raise InputError(f"{run} is not a run directory: no such folder")
    return run


class Probe(str, Enum):
    """Linear probes; a test holds them against those of the evaluation."""

    fast = "fast"
    paper = "paper"
    none = "none"


Data = Annotated[
    str,
    typer.Argument(
        metavar="DATA",
        help="A .csv, .tsv, .txt, .parquet, .npy or .npz file, a folder of images, the name of a "
        "built-in set (moons, circles, digits), or of a fetched one (see gedi data list).",
    ),
]
Run = Annotated[
    Path,
    typer.Argument(
        metavar="RUN",
        callback=_check_run,
        help="A run directory written by gedi fit, or a model.safetensors file.",
    ),
]
RunFolder = Annotated[
    Path,
    typer.Argument(metavar="RUN", callback=_check_run, help="A run directory written by gedi fit."),
]
OutFile = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        callback=check_out,
        help="Write here instead of to the screen: .csv, .parquet, .npy or .json. Never "
        "overwrites.",
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


def loading_torch(progress: Progress) -> None:
    """Say that torch comes next, which takes seconds where it is not there yet."""
    if "torch" not in sys.modules:
        progress.phase("loading torch", at_once=True)


def changes(given: Sequence[str] | None) -> dict[str, Any]:
    """The settings of `--set NAME=VALUE`, by dotted name."""
    from yaml import YAMLError

    from gedilearn.io import yaml_value

    found = {}
    for assignment in given or []:
        name, equals, text = assignment.partition("=")
        if not equals:
            raise InputError(f"--set {assignment}: write it as name=value")
        try:
            found[name] = yaml_value(text)
        except YAMLError:
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
