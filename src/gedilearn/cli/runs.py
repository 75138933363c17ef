"""Fitted models, and new data for them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from gedilearn.cli.data import (
    Rows,
    image_options,
    image_options_of_run,
    lasting,
    load_source,
    read,
    resume_command,
    tell_dialect,
    text_options,
)
from gedilearn.cli.output import Screen
from gedilearn.data.arrays import as_numbers
from gedilearn.data.dataset import Dataset, fingerprint
from gedilearn.data.load import is_folder, is_table, load_table
from gedilearn.data.sources import split_for_testing
from gedilearn.data.tables import written
from gedilearn.errors import InputError
from gedilearn.estimator import GEDI
from gedilearn.training.run import Config, RunDirectory, open_model, read_config


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

    def read(
        self,
        data: str | None,
        size: str | None,
        skip_broken: bool,
        screen: Screen,
        separator: str | None = None,
        decimal: str | None = None,
    ) -> Rows:
        """New data for the model, or the data of the fit.

        Columns are those of the fit, found by their names. Images of a folder are resized as they
        were for the fit, unless `size` says otherwise. A text is read as it looks, whatever that of
        the fit looked like, unless `separator` and `decimal` say otherwise.
        """
        options, text = image_options(size, skip_broken), text_options(separator, decimal)
        if data is None:
            if self.config and (size is not None or skip_broken or text):
                raise InputError(
                    "--size, --skip-broken, --separator and --decimal are for DATA: give it, or "
                    "leave them out"
                )
            return load_source(self.path, self.config, None, "give DATA", screen)
        if size is None:
            options["size"] = image_options_of_run(self.config, data).get("size")
        rows = self._read(data, screen, text, **options)
        given = rows.x.shape[1:]
        if is_folder(data) and len(self.shape) == 3 and self.shape[1:] != given[1:]:
            sides = f"{self.shape[2]}x{self.shape[1]}"
            raise InputError(
                f"{data}: images of {given[2]}x{given[1]} pixels, but {self.path} was fitted to "
                f"{sides}; give --size {sides}"
            )
        return rows

    def _read(
        self,
        data: str,
        screen: Screen,
        text: dict[str, Any],
        label: str | None = None,
        **options: Any,
    ) -> Rows:
        """Any data, its columns those of the fit; how a text is written is said."""
        columns = self.model.columns_
        if columns is None or not is_table(data) or options.get("size"):
            options |= text
            dataset = read(data, screen, **options, columns=self.columns, label_column=label)
            rows = Rows.of(dataset)
        else:
            rows = Rows.of(load_table(data, text=columns.text, label_column=label, **text))
        tell_dialect(rows, screen)
        return rows

    def columns_of(self, points: Any) -> dict[str, Any]:
        """Vectors, or rows of a table, column by column."""
        if self.model.columns_ is not None:
            return {name: written(points[name]) for name in points.columns}
        names = self.columns or [f"x{k + 1}" for k in range(points.shape[1])]
        return dict(zip(names, points.T, strict=True))

    def points(self, rows: Rows) -> Dataset:
        """The same as points, for `model.on_points()`."""
        if self.model.columns_ is None:
            return Dataset(rows.name, np.asarray(rows.x), rows.y, rows.columns, rows.source)
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
        self,
        trained: Dataset | None,
        train: str | None,
        test: str | None,
        screen: Screen,
        text: dict[str, Any],
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
            return self.points(self._read(test, screen, text, label, **options))
        except InputError:
            if label is None:
                raise
        # New points need not have labels.
        return self.points(self._read(test, screen, text, **options))

    def read_outside(self, data: str, screen: Screen, text: dict[str, Any]) -> Dataset:
        """Other data; images of a folder with sizes of their own are read in the model's size."""
        try:
            return self.points(self._read(data, screen, text if is_table(data) else {}))
        except InputError:
            if not is_folder(data) or len(self.shape) != 3:
                raise
        _, height, width = self.shape
        screen.message(f"{data}: read at {width}x{height} pixels")
        return read(data, screen, size=(height, width))
