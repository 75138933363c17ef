"""Options that several commands share, and the data, results and folders that they name.

As in all files with commands, heavy imports wait.
"""

from __future__ import annotations

import csv
import itertools
import os
import shlex
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from typer import Argument, Option

from gedilearn.errors import InputError
from gedilearn.io import as_path, yaml_value

if TYPE_CHECKING:
    import numpy as np

    from gedilearn.cli.app import Screen
    from gedilearn.data.columns import Columns
    from gedilearn.data.dataset import Dataset
    from gedilearn.estimator import GEDI
    from gedilearn.training.run import Config
    from gedilearn.verdict.outputs import Outputs

# --- options ------------------------------------------------------------------------------------


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
Probe = Literal["fast", "paper", "none"]
Seed = Annotated[int, Option(metavar="N", min=0, max=2**32 - 1, help="Seed of the random numbers.")]
_STEPS = "Langevin steps of each sample; 20 if not given, or 500 without a base density."
Steps = Annotated[int | None, Option(metavar="N", min=0, help=_STEPS)]
_SET = "Change a setting (see gedi settings); may be repeated."
Changes = Annotated[list[str] | None, Option("--set", metavar="NAME=VALUE", help=_SET)]
_OOD = "Other data, which the model should score as unusual; may be repeated."
Outside = Annotated[list[str] | None, Option(metavar="[NAME=]DATA", help=_OOD)]
_KEEP = "Also write the columns of DATA."
KeepColumns = Annotated[bool, Option("--keep-columns", help=_KEEP)]
_OUTLIERS = (
    "Give cluster -1 to outliers, and write why they are. LEVEL is the expected share of false "
    "alarms among them, for example 0.05."
)
Outliers = Annotated[float | None, Option(metavar="LEVEL", min=0.001, max=0.5, help=_OUTLIERS)]
_SIZE = "Resize the images of a folder to this many pixels, for example 64x32, or 32 for 32x32."
Size = Annotated[str | None, Option(metavar="WxH", help=_SIZE)]
_BROKEN = "Leave out images that cannot be read, and list their names."
SkipBroken = Annotated[bool, Option("--skip-broken", help=_BROKEN)]
_SEPARATOR = "The separator of cells in a .csv, .tsv or .txt file; detected if not given."
_DECIMAL = "The decimal mark in a .csv, .tsv or .txt file; a point if not given."
_ID = "The column with the IDs of the rows: not used, but written with the clusters."
_VERBOSE = "Also print the kind of each column."
Names = list[str] | None


def _names_option(words: str) -> Any:
    return Option(metavar="NAMES", help=f"{words}. Separate names by commas, or repeat the option.")


@dataclass(frozen=True)
class FileOptions:
    """Options for reading new data for a fitted model."""

    skip_broken: SkipBroken = False
    separator: Annotated[
        str | None, Option(metavar="[comma|semicolon|tab|bar]", help=_SEPARATOR)
    ] = None
    decimal: Annotated[str | None, Option(metavar="[point|comma]", help=_DECIMAL)] = None

    def load_arguments(self) -> dict[str, Any]:
        """Arguments of `load`."""
        broken = "skip" if self.skip_broken else "refuse"
        return {"broken": broken, "separator": self.separator, "decimal": self.decimal}


@dataclass(frozen=True)
class FitOptions(FileOptions):
    """Options for reading the data of a fit, and for choosing columns of a table."""

    size: Size = None
    columns: Annotated[Names, _names_option("Use these columns of a table only")] = None
    drop: Annotated[Names, _names_option("Do not use these columns of a table")] = None
    id_column: Annotated[str | None, Option(metavar="NAME", help=_ID)] = None
    categorical: Annotated[Names, _names_option("Read these columns as categories")] = None
    numeric: Annotated[
        Names, _names_option("Read these columns as numbers, even if they look like IDs")
    ] = None
    verbose: Annotated[bool, Option("--verbose", "-v", help=_VERBOSE)] = False

    def load_arguments(self) -> dict[str, Any]:
        """Arguments of `load`; --size is WIDTHxHEIGHT, or one number for both."""
        sides = None
        if self.size is not None:
            width, _, height = self.size.lower().partition("x")
            if not (width + (height or width)).isdecimal() or self.size[-1] in "xX":
                raise InputError(f"--size {self.size}: give pixels, for example 64x32 or 32")
            sides = [int(height or width), int(width)]
        return super().load_arguments() | {"size": sides}

    def settings(
        self, set_kinds: Mapping[str, str] | None = None, class_column: str | None = None
    ) -> dict[str, Any]:
        """The settings of these options, by dotted name.

        set_kinds: kinds of columns given by --set; class_column: it holds labels, and is not used
        """
        dropped = [*_names(self.drop), *([class_column] if class_column else [])]
        kinds = dict.fromkeys(dropped, "drop")
        kinds |= dict.fromkeys(_names(self.categorical), "category")
        kinds |= dict.fromkeys(_names(self.numeric), "number")
        kinds |= {self.id_column: "id"} if self.id_column else {}
        settings: dict[str, Any] = {"table.columns": _names(self.columns)}
        settings["table.kinds"] = dict(set_kinds or {}) | kinds if kinds else None
        return {name: value for name, value in settings.items() if value}


def _names(given: Iterable[str] | None) -> list[str]:
    """a,b and "a,b",c, as in a line of CSV."""
    return [name.strip() for line in given or () for name in next(csv.reader([line]), []) if name]


def changes(given: Sequence[str] | None) -> dict[str, Any]:
    """The settings of `--set NAME=VALUE`, by dotted name."""
    from yaml import YAMLError

    values = {}
    for assignment in given or []:
        name, equals, text = assignment.partition("=")
        if not equals:
            raise InputError(f"--set {assignment}: write it as name=value")
        try:
            values[name] = yaml_value(text)
        except YAMLError:
            raise InputError(f"--set {assignment}: the value is not valid YAML") from None
    return values


def conditions(given: Sequence[str] | None) -> dict[str, str]:
    """The columns and values of `--given COLUMN=VALUE`."""
    pairs = {text: text.partition("=") for text in given or []}
    if wrong := [text for text, (_, equals, value) in pairs.items() if not (equals and value)]:
        raise InputError(f"--given {wrong[0]}: write it as COLUMN=VALUE")
    return {column: value for column, _, value in pairs.values()}


def outside(given: Sequence[str] | None, read: Callable[[str], Dataset]) -> dict[str, Dataset]:
    """The data sets of `--ood [NAME=]DATA`, by name."""
    sets: dict[str, Dataset] = {}
    for text in given or []:
        name, equals, data = text.partition("=")
        if not equals or Path(text).exists():
            name, data = "", text
        dataset = read(data)
        name = name or dataset.name
        if name in sets:
            raise InputError(f"--ood {text}: two sets are called {name}; name one with NAME=DATA")
        sets[name] = dataset
    return sets


# --- reading ------------------------------------------------------------------------------------


def read(data: str, screen: Screen, **options: Any) -> Dataset:
    """`load`; prints the names of images that were left out."""
    from gedilearn.data.load import SkippedImages, load

    with printed(SkippedImages, screen):
        return load(data, **options)


@contextmanager
def printed(category: type[Warning], screen: Screen) -> Iterator[None]:
    """Print warnings of this category, and no others."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("ignore")
        warnings.simplefilter("always", category)
        yield
    for warning in caught:
        screen.message(" ".join(str(warning.message).split()))


def read_for_fit(
    data: str,
    screen: Screen,
    values: dict[str, Any],
    arguments: dict[str, Any],
    verbose: bool = False,
) -> tuple[Dataset, Columns | None]:
    """Data for a fit, and the encoding of its columns if they are not all numbers.

    values: nested settings; arguments: those of `load`; verbose: prints the kind of each column
    """
    from gedilearn.data.columns import Columns, numeric_frame
    from gedilearn.data.files import TABLE_SUFFIXES
    from gedilearn.data.load import is_table
    from gedilearn.settings import checked

    if not is_table(data) and values.get("table"):
        raise InputError(f"{data}: options for columns need a table, {', '.join(TABLE_SUFFIXES)}")
    table = checked(values).table
    dataset = read(data, screen, text=_text_columns(table.kinds), **arguments)
    columns = None
    if dataset.frame is not None and (columns := Columns.of(dataset.x, table)) is None:
        points = numeric_frame(dataset.x)
        dataset = replace(dataset, x=points if dataset.columns else points.to_numpy())
    if verbose and columns is not None:
        for line in columns.lines():
            screen.message(line)
        screen.message("to change it: --numeric, --categorical, --id-column, --drop, --columns")
    return dataset, columns


def size_words(shape: tuple[int, ...], columns: Columns | None) -> str:
    """What was read: '344 rows, 6 of 8 columns used (1 ID, 1 constant left out)'."""
    n, *point = shape
    if len(point) == 3:
        return f"{n:,} images of {point[2]} x {point[1]} pixels"
    if columns is None or len(columns.used) == len(columns.all):
        return f"{n:,} rows, {len(columns.all) if columns else point[0]:,} columns"
    left_out = [each for each in columns.all if each not in columns.used]
    counts = {"ID": sum(each.kind == "id" for each in left_out)}
    counts["text"] = sum(each.kind == "text" for each in left_out)
    counts["constant"] = sum(each.kind == "drop" and each.distinct == 1 for each in left_out)
    counts["other"] = len(left_out) - sum(counts.values())
    words = [f"{count} {name}{'s' * (count > 1)}" for name, count in counts.items() if count]
    used = f"{len(columns.used)} of {len(columns.all)} columns used"
    return f"{n:,} rows, {used} ({', '.join(words)} left out)"


def _text_columns(kinds: Mapping[str, str]) -> list[str]:
    return [name for name, kind in kinds.items() if kind in ("category", "text", "id")]


def describe(
    data: str, arguments: dict[str, Any], dataset: Dataset, is_encoded: bool
) -> dict[str, Any]:
    """The entry on data in a config, by which `read_source` reads it again.

    arguments: those of `load`
    """
    from gedilearn.data.load import is_name

    names = list(dataset.columns or ())
    source = data if is_name(data) else str(as_path(data).absolute())
    given = {name: value for name, value in arguments.items() if value not in (None, "refuse")}
    described: dict[str, Any] = {"source": source} | given
    if given.get("size"):
        described["size"] = list(given["size"])
    if is_encoded:
        described["table"] = names
    elif names and len(set(names)) == len(names):
        described["columns"] = names
    return described


def read_source(
    run: Path, config: Config, data: str | None, remedy: str, screen: Screen
) -> Dataset:
    """The data that a run was fitted to, at its old place or at `data`."""
    from gedilearn.data.load import is_name

    recorded, source = config.data, data or config.data.source
    if source is None:
        raise InputError(f"{run} does not name its data: {remedy}")
    if data is None and not is_name(source) and not Path(source).exists():
        raise InputError(f"the data of {run} is no longer at {source}: {remedy}")
    same = {"label_column", "size", "broken", "separator", "decimal"}
    arguments = recorded.model_dump(include=same)
    arguments["columns"] = recorded.table or recorded.columns
    if recorded.table is not None:
        arguments["text"] = _text_columns(config.settings.get("table", {}).get("kinds", {}))
    return read(source, screen, **arguments)


def labelled(data: Dataset, column: str | None, graded: bool = False) -> tuple[Dataset, Any]:
    """The labels in a column of a table, or those that come with arrays and folders.

    If they are `graded`, rows without a label are left out.
    """
    import numpy as np

    from gedilearn.starts.classes import Classes

    labels: Any = data.y
    if column is not None:
        assert data.frame is not None
        labels = data.frame[column].to_numpy(object)
    if labels is None:
        raise InputError(f"{data.source}: no labels; name their column with --label-column")
    classes = Classes.of(labels, len(data.x), graded)
    if not graded:
        return data, classes
    rows = classes.rows
    whole = isinstance(data.x, np.ndarray)
    x = data.x[rows] if whole else data.x.iloc[rows].reset_index(drop=True)
    frame = None if data.frame is None else data.frame.iloc[rows].reset_index(drop=True)
    paths = data.paths and tuple(data.paths[k] for k in rows)
    numbers = rows if data.rows is None else data.rows[rows]
    return replace(data, x=x, y=None, frame=frame, paths=paths, rows=numbers), classes.labelled


# --- results ------------------------------------------------------------------------------------

# Names of our own columns.
OWN = (
    *("row", "path", "cluster", "name", "suggested", "probability"),
    *("outlier", "pvalue", "reason", "trust"),
)


def results(
    data: Dataset, model: GEDI, outputs: dict[str, Any], keep: bool = False
) -> dict[str, Any]:
    """Columns to write: IDs of the rows, the model's outputs, and all other columns to `keep`."""
    import numpy as np

    if keep and data.frame is None and data.x.ndim != 2:
        raise InputError(f"{data.source}: --keep-columns is for tables and vectors")
    numbers = np.arange(len(data.x)) if data.rows is None else data.rows
    columns: dict[str, Any] = {"row": numbers}
    if data.paths is not None:
        columns["path"] = np.array(data.paths, dtype=object)
    ids = model.columns_.ids if model.columns_ else []
    whole = data.x if data.frame is None else data.frame
    table = by_column(whole, data.columns) if keep or ids else {}

    def from_table(names: Iterable[str]) -> dict[str, Any]:
        return {f"{name} (table)" if name in OWN else name: table[name] for name in names}

    columns |= from_table(name for name in ids if name in table)
    return columns | outputs | from_table(name for name in table if keep and name not in ids)


def by_column(x: Any, names: Sequence[str] | None) -> dict[str, Any]:
    """Vectors, or rows of a table, column by column."""
    from gedilearn.data.files import export_cells

    if hasattr(x, "columns"):
        return {name: export_cells(x[name]) for name in x.columns}
    return dict(zip(names or [f"x{k + 1}" for k in range(x.shape[1])], x.T, strict=True))


def output_columns(
    model: GEDI,
    outputs: Outputs,
    x: Any,
    level: float | None,
    screen: Screen,
    suggested: np.ndarray | None = None,
) -> dict[str, np.ndarray]:
    """The columns of the model's outputs for rows x: cluster, probability, outlier score, trust.

    level: at which outliers have the cluster -1, with p-values and the first reason
    suggested: (n,) the labels of the network, where the clusters are given labels
    """
    import numpy as np

    if model.result_.density is not None or level is not None:
        scores, z = model.result_.unusual(model.prepare(x))
    if level is not None:
        named = model.result_.subsamples.outliers(z, level).numpy()
        outputs = outputs.of(np.where(named, -1, outputs.labels))
        words = f"{named.sum()} of {len(named)} rows are outliers: their cluster is -1"
        screen.message(words)

    names = np.array([*model.names_, ""])  # '' for outliers, whose cluster is -1
    columns: dict[str, np.ndarray] = {"cluster": outputs.labels}
    if model.class_names_:
        columns["name"] = names[outputs.labels]
    if suggested is not None:
        columns["suggested"] = names[suggested]
    columns["probability"] = outputs.probabilities.max(1)
    if model.result_.density is not None:
        columns["outlier"] = scores.double().numpy()
    if level is not None:
        pvalues = model.result_.subsamples.pvalues(scores).double().numpy()
        columns |= {"pvalue": pvalues, "reason": np.full(len(named), "", object)}
        if model.rules_ is not None and named.any():
            each = model.outlier_reasons(x[named] if hasattr(x, "dtype") else x.loc[named], 1)
            columns["reason"][named] = ["; ".join(map(str, why)) for why in each]
    if outputs.trust is not None:
        columns["trust"] = outputs.trust
    return columns


# --- run directories ----------------------------------------------------------------------------


@contextmanager
def run_folder(out: Path | None, name: str, processes: int | str = 1) -> Iterator[Path]:
    """The folder `out`, or gedi-runs/NAME-1, or the next number that is free.

    A free one is created here, before another process can, and removed if it stays empty.
    """
    if out is not None:
        yield out
        return
    if processes != 1 or "RANK" in os.environ:
        raise InputError("several processes share a folder: name it with --out RUN")
    root = Path("gedi-runs")
    root.mkdir(exist_ok=True)
    for number in itertools.count(1):
        path = root / f"{name or 'run'}-{number}"
        with suppress(FileExistsError):
            path.mkdir()
            break
    try:
        yield path
    finally:
        with suppress(OSError):  # not empty
            path.rmdir()
            root.rmdir()


def resume_command(run: Path) -> str:
    """The command that continues a run, for a shell."""
    return f"gedi resume {shlex.quote(str(run))}"
