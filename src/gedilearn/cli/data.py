"""Options that several commands share, and the data, results and folders they stand for.

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
_STEPS = "Langevin steps of each sample; by default 20, or 500 for a model without a base density."
Steps = Annotated[int | None, Option(metavar="N", min=0, help=_STEPS)]
_SET = "Change a setting (see gedi settings); may be repeated."
Changes = Annotated[list[str] | None, Option("--set", metavar="NAME=VALUE", help=_SET)]
_OOD = "Other data, which the model should find unusual; may be repeated."
Outside = Annotated[list[str] | None, Option(metavar="[NAME=]DATA", help=_OOD)]
_KEEP = "Also write the columns of DATA beside the clusters."
KeepColumns = Annotated[bool, Option("--keep-columns", help=_KEEP)]
_OUTLIERS = (
    "Label the rows with the lowest density -1: at most this share of the training rows, such as "
    "0.02."
)
Outliers = Annotated[float | None, Option(metavar="SHARE", min=0, max=0.5, help=_OUTLIERS)]
_SIZE = "Resize the images of a folder to this many pixels, for example 64x32, or 32 for 32x32."
Size = Annotated[str | None, Option(metavar="WxH", help=_SIZE)]
_BROKEN = "Leave out images that cannot be read, and list their names."
SkipBroken = Annotated[bool, Option("--skip-broken", help=_BROKEN)]
_SEPARATOR = "The mark between the cells of a .csv, .tsv or .txt file; detected if not given."
_DECIMAL = "The decimal mark in a .csv, .tsv or .txt file; a point if not given."
_ID = "The column with the IDs of the rows: not used, but written beside the clusters."
Names = list[str] | None


def _names_option(words: str) -> Any:
    return Option(metavar="NAMES", help=f"{words}. Separate names by commas, or repeat the option.")


@dataclass(frozen=True)
class FileOptions:
    """How new data for a fitted model is read."""

    skip_broken: SkipBroken = False
    separator: Annotated[
        str | None, Option(metavar="[comma|semicolon|tab|bar]", help=_SEPARATOR)
    ] = None
    decimal: Annotated[str | None, Option(metavar="[point|comma]", help=_DECIMAL)] = None

    def how(self) -> dict[str, Any]:
        """Arguments of `load`."""
        broken = "skip" if self.skip_broken else "refuse"
        return {"broken": broken, "separator": self.separator, "decimal": self.decimal}


@dataclass(frozen=True)
class FitOptions(FileOptions):
    """How data for a fit is read, and which columns of a table are used."""

    size: Size = None
    columns: Annotated[Names, _names_option("Use these columns of a table only")] = None
    drop: Annotated[Names, _names_option("Do not use these columns of a table")] = None
    id_column: Annotated[str | None, Option(metavar="NAME", help=_ID)] = None
    categorical: Annotated[Names, _names_option("Read these columns as categories")] = None
    numeric: Annotated[
        Names, _names_option("Read these columns as numbers, even if they look like IDs")
    ] = None

    def how(self) -> dict[str, Any]:
        """Arguments of `load`; --size is WIDTHxHEIGHT, or one number for both."""
        sides = None
        if self.size is not None:
            width, _, height = self.size.lower().partition("x")
            if not (width + (height or width)).isdecimal() or self.size[-1] in "xX":
                words = "give width and height in pixels, as 32x32 or 32"
                raise InputError(f"--size {self.size}: {words}")
            sides = [int(height or width), int(width)]
        return super().how() | {"size": sides}

    def settings(
        self, kinds: Mapping[str, str] | None = None, classes: str | None = None
    ) -> dict[str, Any]:
        """The settings that the options stand for, by dotted name; `kinds` are those of --set.

        classes: a column that holds labels, and is no feature
        """
        found = dict.fromkeys([*_names(self.drop), *([classes] if classes else [])], "drop")
        found |= dict.fromkeys(_names(self.categorical), "category")
        found |= dict.fromkeys(_names(self.numeric), "number")
        found |= {self.id_column: "id"} if self.id_column else {}
        settings: dict[str, Any] = {"table.columns": _names(self.columns)}
        settings["table.kinds"] = dict(kinds or {}) | found if found else None
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
            raise InputError(f"--ood {text}: there are two sets called {name}; write NAME=DATA")
        sets[name] = dataset
    return sets


# --- reading ------------------------------------------------------------------------------------


def read(data: str, screen: Screen, **options: Any) -> Dataset:
    """`load`, with the names of images that were left out on stderr."""
    from gedilearn.data.load import SkippedImages, load

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("ignore")
        warnings.simplefilter("always", SkippedImages)
        dataset = load(data, **options)
    for warning in caught:
        screen.message(" ".join(str(warning.message).split()))
    return dataset


def read_for_fit(
    data: str, screen: Screen, values: dict[str, Any], how: dict[str, Any]
) -> tuple[Dataset, Columns | None]:
    """Data for a fit with nested settings, and how its columns become points, if they must.

    The kinds of the columns are printed on stderr. how: arguments of `load`
    """
    from gedilearn.data.columns import Columns, numeric_frame
    from gedilearn.data.files import TABLE_SUFFIXES
    from gedilearn.data.load import is_table
    from gedilearn.settings import checked

    if not is_table(data) and values.get("table"):
        raise InputError(f"{data}: columns are chosen of tables, {', '.join(TABLE_SUFFIXES)}")
    table = checked(values).table
    dataset = read(data, screen, text=_text_columns(table.kinds), **how)
    if dataset.frame is None:
        return dataset, None
    columns = Columns.of(dataset.x, table)
    if columns is None:
        points = numeric_frame(dataset.x)
        return replace(dataset, x=points if dataset.columns else points.to_numpy()), None
    n_used, n_all = len(columns.used), len(columns.all)
    screen.message(f"{data}: {len(dataset.x)} rows, {n_used} of {n_all} columns are used")
    for line in columns.lines():
        screen.message(f"  {line}")
    if any("taken for" in each.reason for each in columns.all):
        screen.message("  to change it: --numeric, --categorical, --id-column, --drop, --columns")
    return dataset, columns


def _text_columns(kinds: Mapping[str, str]) -> list[str]:
    return [name for name, kind in kinds.items() if kind in ("category", "id")]


def describe(data: str, how: dict[str, Any], dataset: Dataset, encoded: bool) -> dict[str, Any]:
    """The entry on data in a config, so that `read_source` finds and reads it again.

    how: arguments of `load`
    """
    from gedilearn.data.load import is_name

    names = list(dataset.columns or ())
    source = data if is_name(data) else str(as_path(data).absolute())
    given = {name: value for name, value in how.items() if value not in (None, "refuse")}
    described: dict[str, Any] = {"source": source} | given
    if given.get("size"):
        described["size"] = list(given["size"])
    if encoded:
        described["table"] = names
    elif names and len(set(names)) == len(names):
        described["columns"] = names
    return described


def read_source(
    run: Path, config: Config, data: str | None, remedy: str, screen: Screen
) -> Dataset:
    """The data that a run was fitted to, at its old place or at `data`."""
    from gedilearn.data.load import is_name

    was, source = config.data, data or config.data.source
    if source is None:
        raise InputError(f"{run} does not name its data: {remedy}")
    if data is None and not is_name(source) and not Path(source).exists():
        raise InputError(f"the data of {run} is no longer at {source}: {remedy}")
    how = was.model_dump(include={"label_column", "size", "broken", "separator", "decimal"})
    how["columns"] = was.table or was.columns
    if was.table is not None:
        how["text"] = _text_columns(config.settings.get("table", {}).get("kinds", {}))
    return read(source, screen, **how)


def labelled(data: Dataset, column: str | None, graded: bool = False) -> tuple[Dataset, Any]:
    """The labels in a column of a table, or those that come with arrays and folders.

    If they are `graded`, rows without a label are left out.
    """
    import numpy as np

    from gedilearn.grading import labelled_rows
    from gedilearn.starts.classes import Classes

    labels: Any = data.y
    if column is not None:
        assert data.frame is not None
        labels = data.frame[column].to_numpy(object)
    if labels is None:
        raise InputError(f"{data.source}: no labels; name their column with --label-column")
    if not graded:
        return data, labels
    rows = labelled_rows(Classes.of(labels, len(data.x), graded))
    whole = isinstance(data.x, np.ndarray)
    x = data.x[rows] if whole else data.x.iloc[rows].reset_index(drop=True)
    frame = None if data.frame is None else data.frame.iloc[rows].reset_index(drop=True)
    paths = data.paths and tuple(data.paths[k] for k in rows)
    numbers = rows if data.rows is None else data.rows[rows]
    return replace(data, x=x, y=None, frame=frame, paths=paths, rows=numbers), labels[rows]


# --- results ------------------------------------------------------------------------------------

# Names of our own columns.
OWN = ("row", "path", "cluster", "name", "probability", "outlier", "trust", "suggested")


def results(
    data: Dataset, model: GEDI, found: dict[str, Any], keep: bool = False
) -> dict[str, Any]:
    """Columns to write: IDs of the rows, what was found, and all other columns to `keep`."""
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

    def beside(names: Iterable[str]) -> dict[str, Any]:
        return {f"{name} (table)" if name in OWN else name: table[name] for name in names}

    others = [name for name in table if keep and name not in ids]
    return columns | beside(name for name in ids if name in table) | found | beside(others)


def by_column(x: Any, names: Sequence[str] | None) -> dict[str, Any]:
    """Vectors, or rows of a table, column by column."""
    from gedilearn.data.files import export_cells

    if hasattr(x, "columns"):
        return {name: export_cells(x[name]) for name in x.columns}
    return dict(zip(names or [f"x{k + 1}" for k in range(x.shape[1])], x.T, strict=True))


def found(
    model: GEDI, x: Any, labels: np.ndarray | None = None, outliers: float | None = None
) -> dict[str, np.ndarray]:
    """The cluster of each row, its probability, and the outlier score.

    The outlier score is minus log p(x), where the model has learnt p(x). The rows of the fit, with
    its `labels`, also have their trust. At most the share `outliers` of the rows of the fit have
    the cluster -1, and other rows that are as unlikely.
    """
    import numpy as np

    trust, names = getattr(model, "trust_", None), np.array([*model.names_, ""])
    if model.columns_ is not None:  # encoded once
        x, model = model.validate(x), model.on_points()
    unlikely = -model.score_samples(x) if model.result_.has_density else None
    cluster = model.predict(x, outliers) if labels is None else labels
    if labels is not None and outliers is not None and unlikely is not None:
        least = np.sort(unlikely)[::-1][int(outliers * len(labels))]
        cluster = np.where(unlikely > least, -1, labels)
    columns = {"cluster": cluster}
    if model.class_names_:
        columns["name"] = names[cluster]  # none of outliers
    if labels is not None and len(model.disputed_):
        columns["suggested"] = names[model.predict(x)]
    columns["probability"] = model.predict_proba(x).max(1)
    if unlikely is not None:
        columns["outlier"] = unlikely
    if labels is not None and trust is not None and len(trust) == len(labels):
        columns["trust"] = trust
    return columns


def outlier_words(labels: np.ndarray) -> str:
    return f"{(labels == -1).sum()} of {len(labels)} rows are outliers: their cluster is -1"


# --- run directories ----------------------------------------------------------------------------


@contextmanager
def run_folder(out: Path | None, name: str, processes: int | str = 1) -> Iterator[Path]:
    """The folder asked for, or gedi-runs/NAME-1, or the next number that is free.

    A free one is made here, so that no other process takes it, and removed if nothing came of it.
    """
    if out is not None:
        yield out
        return
    if processes != 1 or "RANK" in os.environ:
        raise InputError("several processes train together: name their folder with --out RUN")
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
    """What continues a run, for a shell."""
    return f"gedi resume {shlex.quote(str(run))}"
