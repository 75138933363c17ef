"""Tables in memory: named columns of numbers, truth values, dates, times or text, with gaps.

Needs no library of data frames; `data.frames` makes one of any such frame, `data.table_files` reads
one from a file, and `data.columns` makes points of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np

from gedilearn.data import cells
from gedilearn.data.arrays import listing, row_listing
from gedilearn.errors import InputError, suggestion

Raw = Literal["number", "boolean", "date", "time", "text", "other"]
# What the numbers of a column are: shares of rows, days since 1970, hours since midnight.
Meaning = Literal["share", "date", "time"]
_DAY = 86_400_000_000  # microseconds
DAYS = -719_162, 2_932_896  # since 1970, of the years 1 to 9999
_WANTED = {
    "number": "a number",
    "boolean": "true or false",
    "date": "a date",
    "time": "a time of day, as 18:30",
}


@dataclass(frozen=True, eq=False)
class Column:
    """The cells of one column.

    values: (n,) numbers of any type (NaN: missing); truth values 0 and 1, or NaN; dates, to the
        microsecond (NaT: missing); times of day, in hours since midnight (NaN: missing); text, as
        objects (None: missing). Others are of no use to a fit, and kept as text.
    is_category: whether the source says that text, whatever it looks like, names categories
    decimal: the mark by which text that is numbers has its fractions, '.' or ','
    unit: what stood beside the numbers, if they were text: $, %, kg; of others, their type
    days_first: whether 3/1/2024 was read as a day of January; None where no date is such text
    """

    kind: Raw
    values: np.ndarray
    is_category: bool = False
    decimal: str = "."
    unit: str = ""
    days_first: bool | None = None

    def __len__(self) -> int:
        return len(self.values)

    @cached_property
    def missing(self) -> np.ndarray:
        """Which cells are, (n,)."""
        if self.kind in ("text", "other"):
            return np.fromiter((value is None for value in self.values), bool, len(self))
        if self.kind == "date":
            return np.asarray(np.isnat(self.values))
        is_float = self.values.dtype.kind == "f"
        return np.isnan(self.values) if is_float else np.zeros(len(self), bool)

    def typed(self) -> Column:
        """Text that is all numbers, truth values, dates or times of day as such."""
        return self._typed

    @cached_property
    def _typed(self) -> Column:
        if self.kind != "text" or self.is_category or cells.are_codes(self._present):
            return self
        found = (self._read(each) for each in ("number", "boolean", "date", "time", "measure"))
        return next((column for column in found if column is not None), self)

    @cached_property
    def _present(self) -> list[str]:
        """The different cells of text that have a value."""
        known = (value for value in dict.fromkeys(self.values) if value is not None)
        return [value for value in known if not cells.stands_for_nothing(value)]

    def _read(self, kind: str, days_first: bool | None = None) -> Column | None:
        """Text as numbers, truth values ...; None if a cell is none. Measures have a unit."""
        unit, found, present = "", None, self._present
        if kind == "number":
            found = cells.numbers(present, self.decimal)
        elif kind == "measure":
            found, unit = cells.measures(present, self.decimal) or (None, "")
        elif kind == "date":
            dates, days_first = cells.dates(present, days_first) or (None, None)
            if dates is None:
                return None
            gap = np.datetime64("NaT", "us")
            moments = np.array([dates.get(value, gap) for value in self.values], "M8[us]")
            return Column("date", moments, days_first=days_first)
        else:
            found = (cells.truths if kind == "boolean" else cells.times)(present)
        if not found:
            return None
        values = np.array([found.get(value, np.nan) for value in self.values])
        return Column("number" if kind == "measure" else kind, values, unit=unit)  # type: ignore[arg-type]

    def as_kind(self, kind: Raw, where: str, days_first: bool | None = None) -> Column:
        """The same cells, read as another kind; one that cannot be is refused.

        days_first: whether 3/1/2024 is in January, None: as the cells look
        """
        if self.kind == kind:
            return self
        if kind == "text":
            return Column("text", self.text())
        column = self.typed()
        if self.kind == "text":  # by what is wanted, not by what it looks like: 01005 may be 1005
            read = self._read(kind, days_first)
            column = read or (self._read("measure") if kind == "number" else None) or column
            if not self._present:
                column = Column("text", np.full(len(self), None))
        if column.missing.all():
            gaps = np.full(len(self), np.nan)
            return Column(kind, gaps.astype("M8[us]") if kind == "date" else gaps)
        if kind == "number" and column.kind in ("boolean", "date", "time"):
            return Column(kind, column.numbers())
        if kind == "boolean" and column.kind == "number":
            values = column.numbers()
            if np.isin(values[~column.missing], (0, 1)).all():
                return Column(kind, values)
        if kind != column.kind:
            wanted = _WANTED[kind]
            found, row = _misfit(column, kind)
            raise InputError(f"{where}: {found} in row {row} (counted from 0) is not {wanted}")
        return column

    def numbers(self) -> np.ndarray:
        """As numbers, NaN where missing: dates are days since 1970, times hours."""
        if self.kind == "date":
            days = self.values.astype("M8[us]").astype(np.int64) / _DAY
            return np.where(self.missing, np.nan, days)
        return self.values.astype(np.float64)

    def text(self) -> np.ndarray:
        """As text, None where missing: whole numbers without a point, dates without midnight."""
        words = np.empty(len(self), dtype=object)
        for row, (value, gap) in enumerate(zip(self.values, self.missing, strict=True)):
            words[row] = None if gap else _text(value, self.kind)
        return words

    def objects(self) -> np.ndarray:
        """As objects that a person would write: None where missing."""
        if self.kind in ("text", "other"):
            return self.values
        found = np.empty(len(self), dtype=object)
        if self.kind == "date":
            found[:] = self.values.astype("M8[us]").astype(object)
        elif self.kind == "time":
            found[:] = [cells.clock(0.0 if value != value else value) for value in self.values]
        else:
            found[:] = self.values.astype(bool if self.kind == "boolean" else self.values.dtype)
        found[self.missing] = None
        return found

    def written(self) -> np.ndarray:
        """As a file should have it: text as it was, whole numbers without a point."""
        if self.kind in ("boolean", "time"):
            return self.objects()
        if self.kind != "number" or self.values.dtype.kind != "f" or self.missing.any():
            return self.values
        is_whole = (self.values == np.round(self.values)) & (np.abs(self.values) < 2**53)
        return self.values.astype(np.int64) if is_whole.all() else self.values

    def take(self, rows: np.ndarray) -> Column:
        """Some of the cells."""
        return replace(self, values=self.values[rows])


@dataclass(frozen=True, eq=False)
class Table:
    """Columns of one length, each with a name of its own.

    named: whether the names come from the source
    dialect: how a file of text was written, in words, where that is not as usual
    source: the file that it is from, if it is from one
    block: the columns side by side, (n, columns), where they are numbers that lie so
    """

    names: tuple[str, ...]
    columns: tuple[Column, ...]
    named: bool = True
    dialect: str = ""
    source: str = ""
    block: np.ndarray | None = None

    @classmethod
    def of_block(cls, names: tuple[str, ...], block: np.ndarray, source: str = "") -> Table:
        """From numbers, (n, columns), that are not copied."""
        columns = tuple(Column("number", each) for each in block.T)
        return cls(names, columns, source=source, block=block)

    @classmethod
    def of(cls, columns: dict[str, Column]) -> Table:
        """From columns by their names."""
        return cls(tuple(columns), tuple(columns.values()))

    def __len__(self) -> int:
        return len(self.columns[0]) if self.columns else 0

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return len(self), len(self.names)

    @cached_property
    def _places(self) -> dict[str, int]:
        return {name: k for k, name in enumerate(self.names)}

    def __getitem__(self, name: str) -> Column:
        return self.columns[self._places[name]]

    def __contains__(self, name: object) -> bool:
        return name in self._places

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        """The cells as objects, (n, columns)."""
        found = np.empty(self.shape, dtype=object)
        for k, column in enumerate(self.columns):
            found[:, k] = column.objects()
        return found if dtype is None else found.astype(dtype)

    def select(self, names: Sequence[str], where: str) -> Table:
        """Some of the columns, in this order; what is missing is named."""
        gone = [name for name in names if name not in self]
        if gone:
            noun = "column" if len(gone) == 1 else "columns"
            raise InputError(
                f"{where}: no {noun} {listing([repr(name) for name in gone], 6)}"
                f"{suggestion(gone[0], self.names) if len(self.names) < 20 else ''}"
            )
        return self._with(tuple(names), tuple(self[name] for name in names))

    def without(self, name: str | None) -> Table:
        """All columns but one."""
        kept = [each for each in self.names if each != name]
        return self._with(tuple(kept), tuple(self[each] for each in kept))

    def take(self, rows: np.ndarray) -> Table:
        """Some of the rows."""
        return self._with(self.names, tuple(column.take(rows) for column in self.columns))

    def _with(self, names: tuple[str, ...], columns: tuple[Column, ...]) -> Table:
        """Other columns, which do not lie side by side any more."""
        return replace(self, names=names, columns=columns, block=None)

    def matrix(self) -> np.ndarray:
        """All columns as numbers, (n, columns)."""
        if self.block is not None:
            return self.block
        return np.column_stack([column.numbers() for column in self.columns])

    def to_pandas(self) -> Any:
        """A data frame of pandas."""
        import pandas as pd

        columns = {}
        for name, column in zip(self.names, self.columns, strict=True):
            plain = column.kind in ("number", "date") or (
                column.kind == "boolean" and not column.missing.any()
            )
            truth = plain and column.kind == "boolean"
            values = column.values if plain else column.objects()
            columns[name] = values.astype(bool) if truth else values
        return pd.DataFrame(columns)


def distinct(names: Sequence[str]) -> tuple[str, ...]:
    """Names of which no two are alike: of several called x, the second is 'x (2)'."""
    found: dict[str, None] = {}
    for name in names:
        new, number = name, 1
        while new in found:
            number += 1
            new = f"{name} ({number})"
        found[new] = None
    return tuple(found)


def check_no_infinity(column: Column, where: str) -> None:
    """Refuse numbers that are infinite; those that are missing are filled in."""
    if column.kind == "number" and column.values.dtype.kind == "f":
        rows = np.flatnonzero(np.isinf(column.values)).tolist()
        if rows:
            raise InputError(
                f"{where}: infinite in {row_listing(rows)} (counted from 0); mend these cells, or "
                "leave them empty"
            )


def _misfit(column: Column, kind: Raw) -> tuple[str, int]:
    """A cell that is not of this kind, and its row."""
    for row, word in enumerate(column.text()):
        cell = Column("text", np.array([word], object), decimal=column.decimal)
        if word is None or cells.stands_for_nothing(word):
            continue
        if cell.typed().kind != kind:
            return repr(word[:40]), row
    return "a cell", 0


def _text(value: Any, kind: Raw) -> str:
    if kind in ("text", "other"):
        return str(value)
    if kind == "boolean":
        return "true" if value else "false"
    if kind == "date":
        date, time = str(value.astype("M8[us]")).split("T")
        return date if time == "00:00:00.000000" else f"{date} {time.removesuffix('.000000')}"
    if kind == "time":
        return cells.clock(value).isoformat().removesuffix(":00")
    if float(value).is_integer():
        return str(int(value))
    return repr(float(value))
