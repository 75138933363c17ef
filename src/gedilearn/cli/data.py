"""Data for the commands: the options for tables, reading, and the results beside the rows.

As in all files with commands, heavy imports wait.
"""

from __future__ import annotations

import csv
import itertools
import os
import shlex
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gedilearn.errors import InputError
from gedilearn.io import YAML, as_path, check_size

if TYPE_CHECKING:
    import numpy as np

    from gedilearn.cli.app import Screen
    from gedilearn.data.dataset import Dataset
    from gedilearn.data.tables import Columns as Encoding
    from gedilearn.estimator import GEDI
    from gedilearn.training.run import Config

# --- options ------------------------------------------------------------------------------------

_LIST = "separated by commas; may be repeated."

Columns = Annotated[
    list[str] | None,
    typer.Option(metavar="NAMES", help=f"Of a table, use these columns alone: {_LIST}"),
]
Drop = Annotated[
    list[str] | None,
    typer.Option(metavar="NAMES", help=f"Of a table, leave out these columns: {_LIST}"),
]
IdColumn = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="The column of a table that names its rows: not used, but written beside clusters.",
    ),
]
Categorical = Annotated[
    list[str] | None,
    typer.Option(metavar="NAMES", help=f"Take these columns for categories: {_LIST}"),
]
Numeric = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAMES", help=f"Take these columns for numbers, also if they look like IDs: {_LIST}"
    ),
]
Impute = Annotated[
    str | None,
    typer.Option(
        metavar="[median|mean|most_frequent]", help="What missing numbers, dates and times become."
    ),
]
Separator = Annotated[
    str | None,
    typer.Option(
        metavar="[comma|semicolon|tab|bar]",
        help="What stands between the cells of a .csv, .tsv or .txt file; found out if not given.",
    ),
]
Decimal = Annotated[
    str | None,
    typer.Option(
        metavar="[point|comma]",
        help="The decimal mark in a .csv, .tsv or .txt file; a point if not given.",
    ),
]
KeepColumns = Annotated[
    bool,
    typer.Option(
        "--keep-columns", help="Write the columns of the table beside the clusters, as they were."
    ),
]


def table_settings(
    columns: list[str] | None,
    drop: list[str] | None,
    id_column: str | None,
    categorical: list[str] | None,
    numeric: list[str] | None,
    impute: str | None,
    kinds: dict[str, str] | None = None,
) -> dict[str, Any]:
    """The settings that the options stand for, by dotted name; `kinds` are those of --set."""
    asked = [("drop", "drop", name) for name in _names(drop)]
    asked += [("id-column", "id", name) for name in ([id_column] if id_column else [])]
    asked += [("categorical", "category", name) for name in _names(categorical)]
    asked += [("numeric", "number", name) for name in _names(numeric)]
    found: dict[str, str] = {}
    for option, kind, name in asked:
        if found.setdefault(name, kind) != kind:
            raise InputError(f"--{option} {name}: another option takes it for {found[name]}")
    settings: dict[str, Any] = {}
    if columns is not None:
        settings["table.columns"] = _names(columns)
    if found:
        settings["table.kinds"] = dict(kinds or {}) | found
    if impute is not None:
        settings["table.impute"] = impute
    return settings


def _names(given: Iterable[str] | None) -> list[str]:
    """a,b and "a,b",c, as in a line of CSV."""
    return [name.strip() for line in given or () for name in next(csv.reader([line]), []) if name]


# --- reading ------------------------------------------------------------------------------------

# Names of our own columns.
OWN = ("row", "path", "cluster", "probability", "outlier", "trust")


@dataclass(frozen=True, eq=False)
class Rows:
    """Data for the estimator, and how its rows are called where they came from.

    x: an array or a data frame, as `GEDI` takes it; y: labels, if there are any
    columns: names, if there are any; whole: the table with all its columns
    numbers: of the rows in the source; paths: of images in a folder
    dialect: how a table of text is written, in words, where that is not as usual
    """

    name: str
    source: str
    x: Any
    y: np.ndarray | None
    columns: tuple[str, ...] | None
    numbers: np.ndarray
    whole: Any = None
    paths: tuple[str, ...] | None = None
    dialect: str = ""

    @classmethod
    def of(cls, data: Dataset) -> Rows:
        """Of data as it was loaded."""
        import numpy as np

        numbers = np.arange(len(data.x)) if data.rows is None else data.rows
        named = (data.name, data.source, data.x, data.y, data.columns, numbers)
        return cls(*named, data.frame, data.paths, data.dialect)

    def results(self, model: GEDI, found: dict[str, Any], keep: bool = False) -> dict[str, Any]:
        """Columns to write: IDs of the rows, what was found, and all other columns to `keep`."""
        import numpy as np

        from gedilearn.data.tables import written

        if keep and self.whole is None and self.x.ndim != 2:
            raise InputError(f"{self.source}: --keep-columns is for tables and vectors")
        columns: dict[str, Any] = {"row": self.numbers}
        if self.paths is not None:
            columns["path"] = np.array(self.paths, dtype=object)
        ids = model.columns_.ids if model.columns_ else []
        if self.whole is not None:
            beside = {name: written(self.whole[name]) for name in self.whole.columns}
        elif keep:
            names = self.columns or [f"x{k + 1}" for k in range(self.x.shape[1])]
            beside = dict(zip(names, np.asarray(self.x).T, strict=True))
        else:
            beside = {}
        columns |= {_beside(name): beside[name] for name in ids if name in beside} | found
        rest = [name for name in beside if keep and name not in ids]
        return columns | {_beside(name): beside[name] for name in rest}


def _beside(name: str) -> str:
    """The name of a column of the table beside ours."""
    return f"{name} (table)" if name in OWN else name


def found(model: GEDI, x: Any, labels: np.ndarray | None = None) -> dict[str, np.ndarray]:
    """What a model says of rows: the cluster, its probability, and how far out of place they are.

    The outlier score is minus log p(x), where the model has learnt p(x).
    """
    import numpy as np

    if model.columns_ is not None:  # encoded once
        x, model = model.validate(x), model.on_points()
    columns = {
        "cluster": model.predict(x) if labels is None else labels,
        "probability": model.predict_proba(x).max(1),
    }
    if model.result_.has_density:
        columns["outlier"] = -model.score_samples(x)
    trust = getattr(model, "trust_", None)
    if labels is not None and isinstance(trust, np.ndarray) and len(trust) == len(labels):
        columns["trust"] = trust
    return columns


def image_options(size: str | None, skip_broken: bool) -> dict[str, Any]:
    """For `load`, from --size WIDTHxHEIGHT, or one number for both, and --skip-broken."""
    sides = None
    if size is not None:
        width, _, height = size.lower().partition("x")
        if not (width.isdecimal() and (height or width).isdecimal()) or size[-1] in "xX":
            raise InputError(f"--size {size}: give width and height in pixels, as 32x32 or 32")
        sides = (int(height or width), int(width))
    return {"size": sides, "broken": "skip" if skip_broken else "refuse"}


def text_options(separator: str | None, decimal: str | None) -> dict[str, Any]:
    """For `load`, from --separator and --decimal."""
    from gedilearn.data.tables import DECIMALS, SEPARATORS, mark

    given = {"separator": separator, "decimal": decimal}
    known = {"separator": SEPARATORS, "decimal": DECIMALS}
    return {name: mark(text, known[name], name) for name, text in given.items() if text is not None}


def image_options_of_run(config: Config | None, data: str) -> dict[str, Any]:
    """For `load`: as the folder of a run was read, if `data` is a folder."""
    from gedilearn.data.load import is_folder

    if not is_folder(data) or config is None:
        return {}
    return {"size": config.data.size, "broken": config.data.broken}


def read(data: str, screen: Screen, **options: Any) -> Dataset:
    """`load`; on stderr, the images that were left out, or a file that the name does not mean."""
    from gedilearn.data.image_folder import SkippedImages
    from gedilearn.data.load import is_name, load

    if is_name(data) and Path(data).exists():
        screen.message(f"{data}: the built-in or fetched set; what lies here is ./{data}")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("ignore")
        warnings.simplefilter("always", SkippedImages)
        dataset = load(data, **options)
    for warning in caught:
        screen.message(" ".join(str(warning.message).split()))
    return dataset


def read_typed(
    data: str,
    screen: Screen,
    values: dict[str, Any],
    label_column: str | None,
    text: dict[str, Any],
    **images: Any,
) -> tuple[Rows, Encoding | None]:
    """Data for a fit with nested settings, and how its columns become points, if they must.

    How the table is written and what its columns were taken for is said on stderr.
    text: see `text_options`
    """
    from gedilearn.data.load import is_table, load_table
    from gedilearn.data.tables import TABLE_SUFFIXES, Columns, numbers
    from gedilearn.settings import checked

    if not is_table(data) or images.get("size") or images.get("broken", "refuse") != "refuse":
        if values.get("table"):
            raise InputError(f"{data}: columns are chosen of tables, {', '.join(TABLE_SUFFIXES)}")
        return Rows.of(read(data, screen, label_column=label_column, **images, **text)), None
    options = checked(values).table
    as_text = [name for name, kind in options.kinds.items() if kind in ("category", "id")]
    rows = Rows.of(load_table(data, label_column=label_column, text=as_text, **text))
    columns = Columns.of(rows.x, options)
    if columns is None:
        tell_dialect(rows, screen)
        points = numbers(rows.x)
        return replace(rows, x=points if rows.columns else points.to_numpy()), None
    n_used, n_all = len(columns.used), len(columns.all)
    written = f"; {rows.dialect}" if rows.dialect else ""
    screen.message(f"{data}: {len(rows.x)} rows, {n_used} of {n_all} columns are used{written}")
    for line in columns.lines():
        screen.message(f"  {line}")
    if any("taken for" in each.reason for each in columns.all):
        screen.message("  to change it: --numeric, --categorical, --id-column, --drop, --columns")
    return rows, columns


def tell_dialect(rows: Rows, screen: Screen) -> None:
    """How a table is written, on stderr, where that is not as usual."""
    if rows.dialect:
        screen.message(f"{rows.source}: {rows.dialect}")


def read_points(
    data: str, screen: Screen, given: dict[str, Any], text: dict[str, Any], **images: Any
) -> tuple[np.ndarray, dict[str, Any]]:
    """Data as an array, and the settings to fit it with: rows of a table are scaled already."""
    import numpy as np

    from gedilearn.settings import nested

    rows, columns = read_typed(data, screen, nested(given), None, text, **images)
    if columns is None:
        return np.asarray(rows.x), {}
    points = columns.transform(rows.x)
    return columns.scaling(points, "standard").apply(points), {"scaling": "none"}


def describe(
    data: str,
    label_column: str | None,
    text: dict[str, Any],
    images: dict[str, Any],
    rows: Rows,
    encoded: bool,
) -> dict[str, Any]:
    """What a config says of its data, so that `load_source` finds and reads it again."""
    from gedilearn.data.load import is_folder

    names = list(rows.columns or ())
    check_size(sum(len(name) + 8 for name in names), f"{data}: the names of its columns", YAML)
    described: dict[str, Any] = {
        "source": lasting(data),
        "label_column": label_column,
        "columns": names if names and not encoded and len(set(names)) == len(names) else None,
    }
    described |= text
    if encoded:
        described["table"] = names
    if is_folder(data):
        described |= images | {"size": images["size"] and list(images["size"])}
    return described


def load_source(
    run: Path,
    config: Config | None,
    data: str | None,
    remedy: str,
    screen: Screen,
    columns: list[str] | None = None,
) -> Rows:
    """The data that a run was fitted to, at its old place or at `data`."""
    from gedilearn.data.load import is_name, is_table, load_table

    described = config.data if config else None
    source = data or (described.source if described else None)
    if source is None:
        kind = "" if config else "is a model file, which "
        raise InputError(f"{run} {kind}does not name its data: {remedy}")
    if data is None and not is_name(source) and not Path(source).exists():
        raise InputError(f"the data of {run} is no longer at {source}: {remedy}")
    options = image_options_of_run(config, source) | {"label_column": None}
    if described:
        options["label_column"] = described.label_column
        if is_table(source):
            options |= text_options(described.separator, described.decimal)
    if config and config.data.table and is_table(source):
        kinds = config.settings.get("table", {}).get("kinds", {})
        as_text = [name for name, kind in kinds.items() if kind in ("category", "id")]
        return Rows.of(load_table(source, names=config.data.table, text=as_text, **options))
    columns = columns or (described.columns if described else None)
    return Rows.of(read(source, screen, **options, columns=columns))


def lasting(data: str) -> str:
    """What finds the data again from another folder."""
    from gedilearn.data.load import is_name

    return data if is_name(data) else str(as_path(data).absolute())


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
