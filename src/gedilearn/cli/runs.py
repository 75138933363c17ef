"""Runs and their data: fitted models, the data that a run was fitted to, new data for it."""

from __future__ import annotations

import itertools
import os
import shlex
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from gedilearn.cli.output import Screen
from gedilearn.cli.rows import Rows
from gedilearn.data.arrays import as_numbers
from gedilearn.data.columns import Columns
from gedilearn.data.dataset import Dataset, fingerprint
from gedilearn.data.image_folder import SkippedImages
from gedilearn.data.load import is_folder, is_name, is_table, load, load_table
from gedilearn.data.sources import split_for_testing
from gedilearn.data.table import Table
from gedilearn.data.tables import TABLE_SUFFIXES
from gedilearn.errors import InputError
from gedilearn.estimator import GEDI
from gedilearn.files import YAML, as_path, check_size
from gedilearn.settings import nested, resolve
from gedilearn.training.config import Config, read_config
from gedilearn.training.model_file import open_model
from gedilearn.training.run_directory import RunDirectory

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


def image_options_of_run(config: Config | None, data: str) -> dict[str, Any]:
    """For `load`: as the folder of a run was read, if `data` is a folder."""
    if not is_folder(data) or config is None:
        return {}
    return {"size": config.data.size, "broken": config.data.broken}


def read(data: str, screen: Screen, **options: Any) -> Dataset:
    """`load`, and one line on stderr that names the images left out."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("ignore")
        warnings.simplefilter("always", SkippedImages)
        dataset = load(data, **options)
    for warning in caught:
        screen.message(" ".join(str(warning.message).split()))
    return dataset


def read_rows(
    data: str,
    screen: Screen,
    *,
    label_column: str | None = None,
    as_text: bool = False,
    **images: Any,
) -> Rows:
    """Data for a fit: a table with columns of any type, or whatever else `load` reads."""
    if not is_table(data) or images.get("size") or images.get("broken", "refuse") != "refuse":
        return Rows.of(read(data, screen, label_column=label_column, **images))
    expected = (label_column,) if label_column else ()
    return Rows.of_table(data, load_table(data, expected=expected, as_text=as_text), label_column)


def read_typed(
    data: str, screen: Screen, values: dict[str, Any], label_column: str | None, **images: Any
) -> tuple[Rows, Columns | None]:
    """Data for a fit with nested settings, and how its columns become points, if they must.

    What the columns of a table were taken for is said on stderr.
    """
    asked = bool(values.get("table"))
    rows = read_rows(data, screen, label_column=label_column, as_text=asked, **images)
    if not isinstance(rows.x, Table):
        if asked:
            raise InputError(f"{data}: columns are chosen of tables, {', '.join(TABLE_SUFFIXES)}")
        return rows, None
    columns = Columns.of(rows.x, resolve(values, rows.x.shape).table, data)
    if columns is None:
        return rows, None
    n_used, n_all = len(columns.used), len(columns.all)
    screen.message(f"{data}: {len(rows.x)} rows, {n_used} of {n_all} columns are used")
    for line in columns.lines():
        screen.message(f"  {line}")
    if columns.ids and not asked:  # digits that a number would not keep
        rows = read_rows(data, screen, label_column=label_column, as_text=True)
    return rows, columns


def read_points(
    data: str, screen: Screen, given: dict[str, Any], **images: Any
) -> tuple[np.ndarray, dict[str, Any]]:
    """Data as an array, and the settings to fit it with: rows of a table are scaled already."""
    rows, columns = read_typed(data, screen, nested(given), None, **images)
    if columns is None:
        return rows.x.matrix() if isinstance(rows.x, Table) else rows.x, {}
    points = columns.transform(rows.x, data)
    return columns.scaling(points, "standard").apply(points), {"scaling": "none"}


def describe(
    data: str, label_column: str | None, images: dict[str, Any], rows: Rows, encoded: bool
) -> dict[str, Any]:
    """What a config says of its data, so that `load_source` finds and reads it again."""
    names = list(rows.columns or ())
    check_size(sum(len(name) + 8 for name in names), f"{data}: the names of its columns", YAML)
    described: dict[str, Any] = {
        "source": lasting(data),
        "label_column": label_column,
        "columns": names if names and not encoded and len(set(names)) == len(names) else None,
    }
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
    if described and described.table and is_table(source):
        table = load_table(source, expected=described.table, as_text=True)
        rows = Rows.of_table(source, table, label)
        return replace(rows, x=rows.x.select(described.table, source))
    columns = columns or (described.columns if described else None)
    return Rows.of(read(source, screen, **options, label_column=label, columns=columns))


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


# --- fitted models ------------------------------------------------------------------------------


@dataclass(frozen=True)
class Fitted:
    """A fitted model and what is known of its data.

    path: the run directory or model file as given
    file: the model file
    config: of the run directory; None for a model file
    columns: names of the columns, if known
    objects: arguments of the fit that are in no file
    """

    path: Path
    file: Path
    model: GEDI
    config: Config | None
    columns: list[str] | None
    objects: list[str]

    @classmethod
    def open(cls, path: Path) -> Fitted:
        """The model of a run directory or of a file."""
        file, config = path, None
        if path.is_dir():
            file, config = RunDirectory(path).model, read_config(path)
            if not file.exists():
                raise InputError(f"{path} is not finished: {resume_command(path)}")
        model = GEDI.load(file)
        if config is not None and config.data.shape[1:] != model.point_shape_:
            raise InputError(
                f"{path}: its config is of points {config.data.shape[1:]}, its model of "
                f"{model.point_shape_}: restore the files, or fit anew"
            )
        columns = config.data.columns if config else None
        if columns is None and model.columns_ is None and hasattr(model, "feature_names_in_"):
            columns = model.feature_names_in_.tolist()
        return cls(path, file, model, config, columns, open_model(file)[1].objects)

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of a point."""
        return self.model.point_shape_

    def read(self, data: str | None, size: str | None, skip_broken: bool, screen: Screen) -> Rows:
        """New data for the model, or the data of the fit.

        Columns are those of the fit, found by their names. Images of a folder are resized as they
        were for the fit, unless `size` says otherwise.
        """
        options = image_options(size, skip_broken)
        if data is None:
            if self.config and (size is not None or skip_broken):
                raise InputError(
                    "--size and --skip-broken are for DATA: give it, or leave them out"
                )
            return load_source(self.path, self.config, None, "give DATA", screen)
        if size is None:
            options["size"] = image_options_of_run(self.config, data).get("size")
        rows = self._read(data, screen, **options)
        given = rows.x.shape[1:]
        if is_folder(data) and len(self.shape) == 3 and self.shape[1:] != given[1:]:
            sides = f"{self.shape[2]}x{self.shape[1]}"
            raise InputError(
                f"{data}: images of {given[2]}x{given[1]} pixels, but {self.path} was fitted to "
                f"{sides}; give --size {sides}"
            )
        return rows

    def _read(self, data: str, screen: Screen, label: str | None = None, **options: Any) -> Rows:
        """Any data, its columns those of the fit."""
        columns = self.model.columns_
        if columns is None or not is_table(data) or options.get("size"):
            dataset = read(data, screen, **options, columns=self.columns, label_column=label)
            return Rows.of(dataset)
        names = [each.name for each in columns.used]
        return Rows.of_table(data, load_table(data, expected=names, as_text=True), label)

    def columns_of(self, points: Any) -> dict[str, Any]:
        """Vectors, or rows of a table, column by column."""
        if isinstance(points, Table):
            return {name: points[name].written() for name in points.names}
        names = self.columns or [f"x{k + 1}" for k in range(points.shape[1])]
        return dict(zip(names, points.T, strict=True))

    def points(self, rows: Rows) -> Dataset:
        """The same as points, for `model.on_points()`."""
        if self.model.columns_ is None:
            return Dataset(rows.name, rows.x, rows.y, rows.columns, rows.source)
        x = self.model.validate(rows.x)
        return Dataset(rows.name, x, rows.y, tuple(self.model.columns_.names), rows.source)

    def read_train(self, train: str | None, test: str | None, screen: Screen) -> Dataset | None:
        """What the model was fitted to; None where it cannot be found and is not all there is."""
        if not self.config and train is None and test is not None:
            return None
        remedy = "give it with --train DATA" if self.config else "give --test DATA"
        try:
            data = load_source(self.path, self.config, train, remedy, screen, self.columns)
        except InputError as error:
            if train is not None or test is None:
                raise
            screen.message(f"without training data: {error}")
            return None
        found = self.points(data)
        if self.config and fingerprint(as_numbers(found.x, found.name)) != (
            self.config.data.fingerprint
        ):
            screen.message(
                f"careful: {data.name} is not, or no longer, what {self.path} was fitted to (the "
                "fingerprints differ); what is said of training data holds for other points"
            )
        return found

    def read_test(
        self, trained: Dataset | None, train: str | None, test: str | None, screen: Screen
    ) -> Dataset:
        """What was asked for, the test images of a fetched set, or else the training data."""
        described = self.config.data if self.config else None
        source = train or (described.source if described else None)
        test = test or split_for_testing(source)
        if trained is not None and (test is None or lasting(test) == (source and lasting(source))):
            return trained
        assert test is not None  # without training data, test data was demanded
        options = image_options_of_run(self.config, test)
        label = described.label_column if described else None
        try:
            return self.points(self._read(test, screen, label, **options))
        except InputError:
            if label is None:
                raise
        # New points need not have labels.
        return self.points(self._read(test, screen, **options))

    def read_outside(self, data: str, screen: Screen) -> Dataset:
        """Other data; images of a folder with sizes of their own are read in the model's size."""
        try:
            return self.points(self._read(data, screen))
        except InputError:
            if not is_folder(data) or len(self.shape) != 3:
                raise
        _, height, width = self.shape
        screen.message(f"{data}: read at {width}x{height} pixels")
        return read(data, screen, size=(height, width))
