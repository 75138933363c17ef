"""What the estimator is given: arrays, tensors, tables and data frames, as arrays of numbers."""

from __future__ import annotations

import copy
import warnings
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np
import torch
from sklearn.utils.validation import check_is_fitted, validate_data
from torch import Tensor

from gedilearn.arguments import Arguments
from gedilearn.data.arrays import Scaling, as_numbers, check_same_shape, of_tensor
from gedilearn.data.columns import Columns
from gedilearn.data.frames import as_table, of_rows
from gedilearn.data.scratch import is_mapped
from gedilearn.data.table import Meaning, Table, check_no_infinity
from gedilearn.errors import InputError
from gedilearn.sampling.langevin import Box
from gedilearn.training.environment import check_memory

Self = TypeVar("Self", bound="Inputs")


class LeftOut(UserWarning):
    """Says which columns of a data frame were left out, and why."""


class Inputs(Arguments):
    """Checks data, and keeps how the columns of a table are read: `columns_`, None for numbers."""

    columns_: Columns | None
    feature_names_in_: np.ndarray
    point_shape_: tuple[int, ...]
    scaling_: Scaling
    box_: Box

    def validate(self, X: Any, reset: bool = False) -> np.ndarray:
        """X as an array of numbers, or one line that says what is wrong with it.

        Its columns must be those seen in `fit`, unless `reset`. The columns of a table or a data
        frame that are not all numbers are encoded, see `data.columns`.
        """
        if isinstance(X, Tensor):
            X = of_tensor(X, "X")
        if type(X) is dict:  # some sparse matrices are dicts too
            raise InputError("X is a dict: make a data frame of it, as pandas.DataFrame(X)")
        table = as_table(X)
        if reset:
            self.columns_ = None
            if table is not None and len(table):
                self.columns_ = Columns.of(table, self.table_options(table.shape))
        columns = getattr(self, "columns_", None)
        if columns is not None:
            return self._encoded(X, table, columns, reset)
        # Columns of vectors are several, and lazy frames have no shape.
        if table is not None and (table is X or getattr(X, "shape", None) != table.shape):
            return self._plain(table, reset)
        return self._checked(X, reset)

    def on_points(self: Self) -> Self:
        """The same model for rows of a table that are encoded already."""
        columns = getattr(self, "columns_", None)
        if columns is None:
            return self
        model = copy.copy(self)
        model.columns_ = None
        model.n_features_in_ = columns.width
        model.feature_names_in_ = np.array(columns.names, dtype=object)
        return model

    def scaling(self, data: np.ndarray, kind: str) -> Scaling:
        """Between the units of validated data and those of the network."""
        if not is_mapped(data):
            check_memory(f"X of shape {data.shape}, scaled,", 4 * data.size, "data")
        columns = getattr(self, "columns_", None)
        return Scaling.of(data, kind) if columns is None else columns.scaling(data, kind)

    def feature_names(self) -> list[str] | None:
        """Those of the columns seen in `fit`, if they had any."""
        return self.feature_names_in_.tolist() if hasattr(self, "feature_names_in_") else None

    def encoded_names(self) -> list[str] | None:
        """Those of the columns that the network sees: of a category, one for each level."""
        columns = getattr(self, "columns_", None)
        return self.feature_names() if columns is None else columns.names

    def meanings(self) -> dict[int, Meaning]:
        """Which of the columns that the network sees are shares, dates or times of day."""
        columns = getattr(self, "columns_", None)
        return {} if columns is None else columns.meanings

    def prepare(self, X: Any) -> Tensor:
        """New data in the network's units, checked."""
        check_is_fitted(self)
        array = self.validate(X)
        check_same_shape(array, self.point_shape_, "X")
        return torch.from_numpy(self.scaling_.apply(array)).to(self.box_.low.dtype)

    def _encoded(self, X: Any, table: Table | None, columns: Columns, reset: bool) -> np.ndarray:
        if reset:
            self.n_features_in_ = len(columns.all)
            self.feature_names_in_ = np.array(columns.inputs, dtype=object)
            left_out = columns.lines()[-1]
            if left_out.startswith("left out") and not isinstance(X, Table):
                warnings.warn(f"X: {left_out}", LeftOut, stacklevel=4)
        elif table is None:  # rows without names have the columns of the fit
            table = of_rows(X, columns.inputs)
        if table is None:
            raise InputError(
                f"X has no names of columns, and not the {len(columns.all)} columns of the fit: "
                "give a data frame"
            )
        if len(table) < (2 if reset else 1):
            raise InputError(
                f"Found array with {len(table)} sample(s), too few (shape={table.shape})"
            )
        return as_numbers(columns.transform(table), "X")

    def _plain(self, table: Table, reset: bool) -> np.ndarray:
        """Numbers alone; their names are kept, and in new data looked for."""
        names, source = getattr(self, "feature_names_in_", None), table.source or "X"
        if not reset and names is not None and table.named:
            table = table.select(names.tolist(), source)
        for name, column in zip(table.names, table.columns, strict=True):
            gaps = int(column.missing.sum())
            if column.kind not in ("number", "boolean") or gaps:
                where = f"{source}: column {name!r}"
                typed = column.as_kind("number", where)
                rows = np.flatnonzero(typed.missing).tolist()
                if rows:
                    raise InputError(
                        f"{where} has {len(rows)} missing cells, the first in row "
                        f"{rows[0]} (counted from 0), but those of the fit had none; fill them in"
                    )
        if table.block is None:
            numbers = tuple(column.as_kind("number", source) for column in table.columns)
            for name, column in zip(table.names, numbers, strict=True):
                check_no_infinity(column, f"{source}: column {name!r}")
            table = replace(table, columns=numbers)
        with warnings.catch_warnings():  # that an array has no names
            warnings.simplefilter("ignore", UserWarning)
            array = self._checked(table.matrix(), reset, source)
        if reset and table.named:
            self.feature_names_in_ = np.array(table.names, dtype=object)
        return array

    def _checked(self, X: Any, reset: bool, source: str = "X") -> np.ndarray:
        """By scikit-learn's rules."""
        try:
            array = validate_data(
                self,
                X,
                reset=reset,
                dtype="numeric",
                allow_nd=True,
                ensure_all_finite=False,
                ensure_min_samples=2 if reset else 1,
            )
        except ValueError as error:
            raise InputError(" ".join(str(error).split())) from None
        return as_numbers(array, source)
