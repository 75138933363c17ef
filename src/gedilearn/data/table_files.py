"""Whole tables from .csv, .tsv, .txt and .parquet files: all columns of any type, with their gaps.

`data.tables` reads those that are numbers alone.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from pathlib import Path

import numpy as np

from gedilearn.data import cells
from gedilearn.data.decimals import Look, decimals
from gedilearn.data.dialects import Dialect
from gedilearn.data.frames import as_table
from gedilearn.data.table import Column, Table, distinct
from gedilearn.data.tables import (
    Head,
    arrow,
    check_extent,
    plain_numbers,
    read_head,
    rows,
)
from gedilearn.errors import InputError
from gedilearn.io import check_size

_WORD = 120  # bytes that a cell takes which is unlike all others of its column, beside its text
_ROWS = 10_000  # after which the size is looked at


def read_whole(
    path: Path,
    expected: Collection[str] = (),
    as_text: bool = False,
    separator: str | None = None,
    decimal: str | None = None,
) -> Table:
    """All columns of a table.

    expected: names that, if the first line of a text has them all, make it a header
    as_text: whether cells of text are kept as they were written, 01 as 01
    separator, decimal: the marks of a text, None: as they look
    """
    if path.suffix.lower() == ".parquet":
        return _of_parquet(path)
    dialect = Dialect.of(path, separator, decimal)
    head = read_head(path, dialect, set(expected))
    names = head.names or [f"column {k + 1}" for k in range(len(head.first))]
    marks = {"."}
    if not as_text and (numbers := plain_numbers(path, dialect, head)) is not None:
        columns = [Column("number", column) for column in numbers.T]
    else:
        columns, looks = _text_columns(path, dialect, head)
        own, marks = decimals(looks, dialect, names, path)
        columns = [replace(each, decimal=mark) for each, mark in zip(columns, own, strict=True)]
    named = head.names is not None and len(set(names)) == len(names)
    return Table(distinct(names), tuple(columns), named, dialect.words(path, marks), str(path))


def _text_columns(path: Path, dialect: Dialect, head: Head) -> tuple[list[Column], list[Look]]:
    """Cell by cell, and what they look like; cells of a column that are alike are one object."""
    width, size = len(head.first), 0
    seen: list[dict[str, str | None]] = [{} for _ in range(width)]
    found: list[list[str | None]] = [[] for _ in range(width)]
    for n, (_, row) in enumerate(rows(path, dialect, head)):
        for known, values, text in zip(seen, found, row, strict=True):
            if text not in known:
                known[text] = cells.cell(text)
                size += _WORD + len(text)
            values.append(known[text])
        if n % _ROWS == 0:
            check_size(size, f"{path}: the cells of its first {n} rows")
    check_size(size, f"{path}: its cells")
    columns = []
    for values in found:
        column = np.empty(len(values), dtype=object)
        column[:] = values
        columns.append(Column("text", column))
    return columns, [Look.of(known) for known in seen]


def _of_parquet(path: Path) -> Table:
    """Parquet, as written by pandas, polars or pyarrow; without what was an index."""
    pa, pq = arrow(path)
    with path.open("rb") as handle:
        head = pq.ParquetFile(handle)
        schema, n_rows = head.schema_arrow, head.metadata.num_rows
        index = set(map(str, (schema.pandas_metadata or {}).get("index_columns", [])))
        names = [name for name in schema.names if name not in index]
        if n_rows == 0 or not names:
            raise InputError(f"{path}: zero {'columns' if n_rows else 'rows'}; give at least one")
        check_extent(path, len(names), n_rows)
        groups = (head.metadata.row_group(g) for g in range(head.metadata.num_row_groups))
        check_size(sum(group.total_byte_size for group in groups), f"{path}: unpacked")
        # Text as a list of words and their numbers: a long word may stand in many rows.
        is_text = (pa.types.is_string, pa.types.is_large_string)
        words = [f.name for f in schema if any(test(f.type) for test in is_text)]
        table = pq.ParquetFile(handle, read_dictionary=words).read()
    kept = [i for i, name in enumerate(table.column_names) if name not in index]
    found = as_table(table.select(kept))
    assert found is not None
    return replace(found, source=str(path))
