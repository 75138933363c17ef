"""Data for the commands, and the folder of a run: read and refused without waiting for torch."""

from __future__ import annotations

import itertools
import os
import shlex
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gedilearn.cli.app import Screen
from gedilearn.cli.rows import Rows
from gedilearn.data.dataset import Dataset
from gedilearn.data.dialects import DECIMALS, SEPARATORS, mark
from gedilearn.data.image_folder import SkippedImages
from gedilearn.data.load import is_folder, is_name, is_table, load, load_table
from gedilearn.data.table import Table
from gedilearn.data.tables import TABLE_SUFFIXES
from gedilearn.errors import InputError
from gedilearn.io import YAML, as_path, check_size
from gedilearn.settings import checked, nested

if TYPE_CHECKING:
    import numpy as np

    from gedilearn.data.columns import Columns
    from gedilearn.training.run import Config

# --- reading data -------------------------------------------------------------------------------


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
    given = {"separator": separator, "decimal": decimal}
    known = {"separator": SEPARATORS, "decimal": DECIMALS}
    return {name: mark(text, known[name], name) for name, text in given.items() if text is not None}


def image_options_of_run(config: Config | None, data: str) -> dict[str, Any]:
    """For `load`: as the folder of a run was read, if `data` is a folder."""
    if not is_folder(data) or config is None:
        return {}
    return {"size": config.data.size, "broken": config.data.broken}


def read(data: str, screen: Screen, **options: Any) -> Dataset:
    """`load`; on stderr, the images that were left out, or a file that the name does not mean."""
    if is_name(data) and Path(data).exists():
        screen.message(f"{data}: the built-in or fetched set; what lies here is ./{data}")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("ignore")
        warnings.simplefilter("always", SkippedImages)
        dataset = load(data, shared=True, **options)
    for warning in caught:
        screen.message(" ".join(str(warning.message).split()))
    return dataset


def read_rows(
    data: str,
    screen: Screen,
    *,
    label_column: str | None = None,
    as_text: bool = False,
    text: dict[str, Any],
    **images: Any,
) -> Rows:
    """Data for a fit: a table with columns of any type, or whatever else `load` reads."""
    if not is_table(data) or images.get("size") or images.get("broken", "refuse") != "refuse":
        return Rows.of(read(data, screen, label_column=label_column, **images, **text))
    expected = (label_column,) if label_column else ()
    table = load_table(data, expected=expected, as_text=as_text, shared=True, **text)
    return Rows.of_table(data, table, label_column)


def read_typed(
    data: str,
    screen: Screen,
    values: dict[str, Any],
    label_column: str | None,
    text: dict[str, Any],
    **images: Any,
) -> tuple[Rows, Columns | None]:
    """Data for a fit with nested settings, and how its columns become points, if they must.

    How the table is written and what its columns were taken for is said on stderr.
    text: see `text_options`
    """
    asked = bool(values.get("table"))
    rows = read_rows(data, screen, label_column=label_column, as_text=asked, text=text, **images)
    if not isinstance(rows.x, Table):
        if asked:
            raise InputError(f"{data}: columns are chosen of tables, {', '.join(TABLE_SUFFIXES)}")
        return rows, None
    from gedilearn.data.columns import Columns  # and scikit-learn with it

    columns = Columns.of(rows.x, checked(values).table, data)
    if columns is None:
        tell_dialect(rows, screen)
        return rows, None
    n_used, n_all = len(columns.used), len(columns.all)
    written = f"; {rows.dialect}" if rows.dialect else ""
    screen.message(f"{data}: {len(rows.x)} rows, {n_used} of {n_all} columns are used{written}")
    for line in columns.lines():
        screen.message(f"  {line}")
    if any("taken for" in each.reason for each in columns.all):
        screen.message("  to change it: --numeric, --categorical, --id-column, --drop, --columns")
    if columns.ids and not asked:  # digits that a number would not keep
        rows = read_rows(data, screen, label_column=label_column, as_text=True, text=text)
    return rows, columns


def tell_dialect(rows: Rows, screen: Screen) -> None:
    """How a table is written, on stderr, where that is not as usual."""
    if rows.dialect:
        screen.message(f"{rows.source}: {rows.dialect}")


def read_points(
    data: str, screen: Screen, given: dict[str, Any], text: dict[str, Any], **images: Any
) -> tuple[np.ndarray, dict[str, Any]]:
    """Data as an array, and the settings to fit it with: rows of a table are scaled already."""
    rows, columns = read_typed(data, screen, nested(given), None, text, **images)
    if columns is None:
        return rows.x.matrix() if isinstance(rows.x, Table) else rows.x, {}
    points = columns.transform(rows.x, data)
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
    described = config.data if config else None
    source = data or (described.source if described else None)
    if source is None:
        kind = "" if config else "is a model file, which "
        raise InputError(f"{run} {kind}does not name its data: {remedy}")
    if data is None and not is_name(source) and not Path(source).exists():
        raise InputError(f"the data of {run} is no longer at {source}: {remedy}")
    options = image_options_of_run(config, source)
    label = described.label_column if described else None
    text: dict[str, Any] = {}
    if described and is_table(source):
        text = text_options(described.separator, described.decimal)
    if described and described.table and is_table(source):
        table = load_table(source, expected=described.table, as_text=True, **text)
        rows = Rows.of_table(source, table, label)
        return replace(rows, x=rows.x.select(described.table, source))
    columns = columns or (described.columns if described else None)
    return Rows.of(read(source, screen, **options, **text, label_column=label, columns=columns))


def lasting(data: str) -> str:
    """What finds the data again from another folder."""
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
