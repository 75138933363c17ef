"""Options that several commands share, and the values they stand for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from typer import Argument, Option

from gedilearn import io
from gedilearn.errors import InputError

if TYPE_CHECKING:
    from gedilearn.data.dataset import Dataset

ENDINGS = (".csv", ".parquet", ".npy", ".json")


def _check_out(out: Path | None) -> Path | None:
    """Refuse a file that could not be written in the end, before any work."""
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


def _check_run(run: Path) -> Path:
    if not run.exists():
        raise InputError(f"{run} is not a run directory: no such folder")
    return run


_DATA = (
    "A .csv, .tsv, .txt, .parquet, .npy or .npz file, a folder of images, a built-in set "
    "(moons, circles, digits), or a downloaded set (see gedi data list)."
)
_RUN = "A run directory written by gedi fit"
Data = Annotated[str, Argument(metavar="DATA", help=_DATA)]
Run = Annotated[
    Path, Argument(metavar="RUN", callback=_check_run, help=f"{_RUN}, or a model.safetensors file.")
]
RunFolder = Annotated[Path, Argument(metavar="RUN", callback=_check_run, help=f"{_RUN}.")]
OutFile = Annotated[
    Path | None,
    Option(metavar="FILE", callback=_check_out, help="A new .csv, .parquet, .npy or .json."),
]
Size = Annotated[
    str | None, Option(metavar="WxH", help="Resize images of a folder, to 64x32 pixels, say.")
]
SkipBroken = Annotated[
    bool, Option("--skip-broken", help="Leave out, and list, images that cannot be read.")
]
Probe = Literal["fast", "paper", "none"]
Seed = Annotated[int, Option(metavar="N", min=0, max=2**32 - 1, help="Seed of the random numbers.")]
Steps = Annotated[
    int | None,
    Option(metavar="N", min=0, help="Langevin steps; 20, or 500 without a base density."),
]
Changes = Annotated[
    list[str] | None,
    Option("--set", metavar="NAME=VALUE", help="Change a setting; may be repeated."),
]
Outside = Annotated[
    list[str] | None, Option(metavar="[NAME=]DATA", help="Foreign data to detect; may be repeated.")
]
AsJson = Annotated[bool, Option("--json", help="Print the result as JSON.")]
Quiet = Annotated[
    bool, Option("--quiet", "-q", help="Print no tables and no messages, only errors.")
]


def changes(given: Sequence[str] | None) -> dict[str, Any]:
    """The settings of `--set NAME=VALUE`, by dotted name."""
    from yaml import YAMLError

    values = {}
    for assignment in given or []:
        name, equals, text = assignment.partition("=")
        if not equals:
            raise InputError(f"--set {assignment}: write it as name=value")
        try:
            values[name] = io.yaml_value(text)
        except YAMLError:
            raise InputError(f"--set {assignment}: the value is not valid YAML") from None
    return values


def outside(given: Sequence[str] | None, read: Callable[[str], Dataset]) -> dict[str, Dataset]:
    """The data sets of `--ood [NAME=]DATA`, by name."""
    sets: dict[str, Dataset] = {}
    for text in given or []:
        name, equals, data = text.partition("=")
        if not equals or Path(text).exists():
            name, data = "", text
        if not data:
            raise InputError(f"--ood {text}: write it as NAME=DATA, or DATA alone")
        dataset = read(data)
        name = name or dataset.name
        if name in sets:
            raise InputError(f"--ood {text}: there are two sets called {name}; write NAME=DATA")
        sets[name] = dataset
    return sets
