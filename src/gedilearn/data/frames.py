"""Data frames of pandas, polars and pyarrow as tables; none of these libraries is imported.

What is wrong is named by its column. A column whose cells are vectors of one length, as embeddings
are kept, becomes as many columns: e[0], e[1], ...
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from numbers import Integral, Real
from typing import Any
from uuid import UUID

import numpy as np

from gedilearn.data import cells
from gedilearn.data.table import Column, Table, distinct
from gedilearn.data.tables import check_width

_MOST_EXACT = 2**63


def as_table(X: Any) -> Table | None:
    """The table in a data frame, None if `X` is none."""
    if isinstance(X, Table):
        return X
    library = type(X).__module__.partition(".")[0]
    if library == "pandas" and hasattr(X, "iloc") and getattr(X, "ndim", 0) == 2:
        series = [X.iloc[:, k] for k in range(X.shape[1])]
        return _side_by_side(map(str, X.columns), series, _vectors_of_pandas, _of_pandas)
    if library == "polars" and hasattr(X, "collect") and not hasattr(X, "get_columns"):
        X = X.collect()  # a lazy frame
    if library == "polars" and hasattr(X, "get_columns"):
        return _side_by_side(X.columns, X.get_columns(), _vectors_of_series, _of_series)
    if library == "pyarrow" and hasattr(X, "column_names") and hasattr(X, "to_pylist"):
        return _side_by_side(X.column_names, X.columns, _vectors_of_arrow, _of_arrow)
    return None


def of_rows(X: Any, names: Sequence[str]) -> Table | None:
    """The table in an array or a list of rows with these columns, None if it has others."""
    array = np.asarray(X) if isinstance(X, np.ndarray) else np.array(X, dtype=object)
    if array.ndim != 2 or array.shape[1] != len(names):
        return None
    return Table(tuple(names), tuple(_of_objects(column.tolist()) for column in array.T))


def _side_by_side(
    names: Iterable[str],
    sources: Sequence[Any],
    vectors_of: Callable[[Any], np.ndarray | None],
    column_of: Callable[[Any], Column],
) -> Table:
    """The columns of a frame; one of vectors is as many as these have numbers."""
    found: list[tuple[str, Column]] = []
    for name, source in zip(distinct(list(names)), sources, strict=True):
        vectors = vectors_of(source)
        if vectors is None:
            found.append((name, column_of(source)))
            continue
        check_width(f"column {name!r}", vectors.shape[1])
        parts = tuple(f"{name}[{k}]" for k in range(vectors.shape[1]))
        if len(sources) == 1:
            return Table.of_block(parts, vectors)
        found += zip(parts, Table.of_block(parts, vectors).columns, strict=True)
    return Table(distinct([name for name, _ in found]), tuple(column for _, column in found))


def _vectors(cells: Sequence[Any]) -> np.ndarray | None:
    """(n, length); None if they are not vectors of numbers, all of one length."""
    if not all(isinstance(cell, list | tuple | np.ndarray) for cell in cells):
        return None
    try:
        found = np.array(list(map(np.asarray, cells)))
    except ValueError:  # of several lengths
        return None
    return found if found.ndim == 2 and found.size and found.dtype.kind in "iuf" else None


def _vectors_of_pandas(series: Any) -> np.ndarray | None:
    kind = str(series.dtype)
    return _vectors(series.tolist()) if kind == "object" or "list" in kind else None


def _vectors_of_series(series: Any) -> np.ndarray | None:
    """Of polars."""
    return _vectors(series.to_list()) if series.dtype.is_nested() else None


def _vectors_of_arrow(column: Any) -> np.ndarray | None:
    """Without a list of Python's numbers, which would take many times the memory."""
    import pyarrow as pa  # type: ignore[import-untyped, unused-ignore]
    import pyarrow.compute as pc  # type: ignore[import-untyped, unused-ignore]

    types, kind = pa.types, column.type
    is_list = types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind)
    if not is_list or column.null_count or not len(column):
        return None
    if not (types.is_integer(kind.value_type) or types.is_floating(kind.value_type)):
        return None
    lengths, numbers = pc.min_max(pc.list_value_length(column)), pc.list_flatten(column)
    least, most = lengths["min"].as_py(), lengths["max"].as_py()
    if least != most or not least or numbers.null_count:
        return None
    return np.asarray(numbers.to_numpy()).reshape(len(column), -1)


def _of_pandas(series: Any) -> Column:
    dtype = series.dtype
    if isinstance(dtype, np.dtype) and dtype.kind in "iuf":
        return Column("number", series.to_numpy())
    if isinstance(dtype, np.dtype) and dtype.kind == "b":
        return Column("boolean", series.to_numpy().astype(np.float64))
    if isinstance(dtype, np.dtype) and dtype.kind == "M":
        return Column("date", series.to_numpy().astype("M8[us]"))
    if hasattr(dtype, "freq"):  # periods, which begin at a date
        return Column("date", series.dt.to_timestamp().to_numpy().astype("M8[us]"))
    gaps = series.isna().to_numpy()
    values: np.ndarray = series.astype(object).to_numpy().copy()
    values[gaps] = None
    if str(dtype) == "category" and any(_kind(v) not in _KNOWN for v in dtype.categories):
        values[~gaps] = list(map(str, values[~gaps]))  # intervals, as pandas.cut gives them
    column = _of_objects(values.tolist())
    return _category(column) if str(dtype) == "category" else column


def _of_series(series: Any) -> Column:
    """Of polars."""
    if series.dtype.is_numeric() and not series.dtype.is_decimal() and not series.null_count():
        return Column("number", series.to_numpy())
    column = _of_objects(series.to_list())
    is_category = str(series.dtype).partition("(")[0] in ("Categorical", "Enum")
    return _category(column) if is_category else column


def _of_arrow(column: Any) -> Column:
    """A column of a table of pyarrow."""
    import pyarrow as pa  # type: ignore[import-untyped, unused-ignore]

    types, kind = pa.types, column.type
    if types.is_integer(kind) and not column.null_count:
        return Column("number", column.to_numpy())
    if types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind):
        return Column("number", column.cast(pa.float64(), safe=False).to_numpy())
    if types.is_boolean(kind):
        return Column("boolean", column.cast(pa.uint8()).cast(pa.float64()).to_numpy())
    if types.is_timestamp(kind) or types.is_date(kind):
        zone = getattr(kind, "tz", None)
        moments = column.cast(pa.timestamp("us", zone), safe=False)
        return Column("date", moments.to_numpy().astype("M8[us]"))
    if types.is_dictionary(kind):
        found: list[Any] = []
        for chunk in column.chunks:  # a long word may stand in many rows
            known = chunk.dictionary.to_pylist()
            found += [None if i is None else known[i] for i in chunk.indices.to_pylist()]
        return _of_objects(found)
    return _of_objects(column.to_pylist())


def _category(column: Column) -> Column:
    return Column("text", column.text(), is_category=True)


def _of_objects(values: Sequence[Any]) -> Column:
    """From Python's objects; where they are of several kinds, they are text."""
    values = [None if _is_missing(value) else value for value in values]
    present = [value for value in values if value is not None]
    kinds = {_kind(value) for value in present}
    if unknown := next((kind for kind in kinds if kind not in _KNOWN), None):
        written = [None if value is None else str(value) for value in values]
        return Column("other", np.array(written, dtype=object), unit=unknown)
    if kinds == {"boolean"}:
        return Column("boolean", _floats(values))
    if kinds == {"number"}:
        whole = all(isinstance(value, Integral) for value in present)
        if whole and len(present) == len(values) and max(map(abs, present)) < _MOST_EXACT:
            return Column("number", np.array(values, dtype=np.int64))
        return Column("number", _floats(values))
    if kinds == {"duration"}:
        days = [None if v is None else _duration(v) for v in values]
        return Column("number", _floats(days))
    if kinds == {"time"}:
        hours = [None if v is None else cells.hours(v) for v in values]
        return Column("time", _floats(hours))
    if kinds == {"date"}:
        gap = np.datetime64("NaT", "us")
        return Column("date", np.array([gap if v is None else _date(v) for v in values], "M8[us]"))
    words = np.empty(len(values), dtype=object)
    words[:] = [None if v is None else cells.cell(_word(v)) for v in values]
    return Column("text", words)


_KNOWN = ("boolean", "number", "duration", "date", "time", "text")


def _kind(value: Any) -> str:
    if isinstance(value, bool | np.bool_):
        return "boolean"
    if isinstance(value, Real | Decimal):
        return "number"
    if isinstance(value, timedelta | np.timedelta64):
        return "duration"
    if isinstance(value, date | np.datetime64):
        return "date"
    if isinstance(value, time):
        return "time"
    if isinstance(value, str | UUID):
        return "text"
    return type(value).__name__


def _is_missing(value: Any) -> bool:
    """None, NaN, NaT and pandas's NA, which alone are not equal to themselves."""
    if value is None:
        return True
    if not isinstance(value, Real | Decimal | date | timedelta | np.generic):
        return type(value).__name__ in ("NAType", "NaTType")
    return bool(value != value)


def _floats(values: Sequence[Any]) -> np.ndarray:
    return np.array([np.nan if value is None else float(value) for value in values])


def _duration(value: Any) -> float:
    """In days."""
    return float(np.timedelta64(value) / np.timedelta64(1, "D"))


def _date(value: Any) -> np.datetime64:
    if isinstance(value, datetime) and value.tzinfo is not None:
        value = value.astimezone(timezone.utc).replace(tzinfo=None)
    return np.datetime64(value, "us")


def _word(value: Any) -> str:
    """As text; a whole number the same, whether it is a float because others are missing."""
    is_whole = isinstance(value, float) and value.is_integer()
    return str(int(value)) if is_whole else str(value)
