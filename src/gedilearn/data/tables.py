"""Tables of numbers: .csv, .tsv, .txt and .parquet. What is wrong is named by line and column.

`data.table_files` reads tables of any columns.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from gedilearn.data.arrays import as_labels, listing, row_listing
from gedilearn.data.cells import number
from gedilearn.data.dataset import Dataset
from gedilearn.data.decimals import Look, decimals
from gedilearn.data.dialects import USUAL, Dialect, is_number, lines, records
from gedilearn.errors import InputError, closest
from gedilearn.io import check_file, check_size, most_bytes

TABLE_SUFFIXES = (*USUAL, ".parquet")

# What counts for the limit of `files`: bytes of a cell, and of a column (its weights in a network
# and what is kept of them while training).
_CELL, _COLUMN = 8, 20_000
_ROWS = 20  # by which the fast way is chosen


class Head(NamedTuple):
    """What the first records of a table say about the rest."""

    names: tuple[str, ...] | None
    first: tuple[str, ...]
    line: int
    last_line: int

    def column(self, index: int) -> str:
        return f"{self.names[index]!r}" if self.names else str(index + 1)


def rows(path: Path, dialect: Dialect, head: Head) -> Iterator[tuple[int, list[str]]]:
    """First line and cells of every record but the header; all have as many as the first.

    Records at the end that have separators alone are left out: spreadsheets write such.
    """
    width, empty = len(head.first), []
    for line, _, cells in records(path, dialect):
        if head.names and line == head.line:
            continue
        if len(cells) != width:
            raise InputError(
                f"{path}: line {line} has {len(cells)} cells, line {head.line} has {width}; "
                "give every row the same number, or name the separator (--separator)"
            )
        if width > 1 and not any(map(str.strip, cells)):
            empty.append((line, cells))
            continue
        yield from empty
        empty = []
        yield line, cells


def check_width(path: Path | str, n_columns: int) -> None:
    """Refuse a table that is too wide, before it is read."""
    check_size(n_columns * _COLUMN, f"{path}: {n_columns} columns")


def check_extent(path: Path, n_columns: int, n_rows: int) -> None:
    """Refuse a table that is too wide or too large, before it is read."""
    check_width(path, n_columns)
    check_size(n_rows * n_columns * _CELL, f"{path}: {n_rows} rows of {n_columns} columns")


def _count_lines(path: Path) -> int:
    with path.open("rb") as handle:
        return sum(piece.count(b"\n") for piece in iter(lambda: handle.read(2**20), b"")) + 1


def _is_header(first: Sequence[str], second: Sequence[str], expected: set[str]) -> bool:
    if expected and expected <= set(first):
        return True
    filled = [cell for cell in first if cell]
    if filled and not any(map(is_number, filled)):
        return True
    # A data frame without names writes its columns as 0, 1, 2, ...: a header, not a point.
    counting = len(first) > 1 and list(filled) == [str(index) for index in range(len(filled))]
    counting = counting and (list(first) == filled or list(first[1:]) == filled)
    return counting and (len(filled) >= 10 or not all(cell.strip().isdigit() for cell in second))


def read_head(path: Path, dialect: Dialect, expected: set[str]) -> Head:
    found = records(path, dialect)
    top = next(found, None)
    if top is None:
        raise InputError(f"{path}: the file holds only blank lines; write it again")
    line, last_line, cells = top
    first = tuple(cell.strip() for cell in cells)
    below = next(found, None)
    if below is not None:
        is_header = _is_header(first, below[2], expected)
    elif is_header := not any(is_number(cell) for cell in first if cell):
        raise InputError(f"{path}: zero rows below the header; give at least one")
    # A cell takes at least two bytes of text, so that most files need not be counted.
    may_be_large = _CELL * check_file(path) / 2 > most_bytes()
    check_extent(path, len(first), _count_lines(path) if may_be_large else 1)
    names = tuple(cell or f"column {index + 1}" for index, cell in enumerate(first))
    return Head(names if is_header else None, first, line, last_line)


def _select(
    path: Path,
    names: Sequence[str] | None,
    first: Sequence[str],
    label_column: str | None,
    columns: Sequence[str] | None,
) -> tuple[list[int], int | None]:
    """Where the features are, and the label: `columns` in their order, else all but the label.

    names: of all columns, where the table has them; first: its first record
    """
    label = None if label_column is None else label_index(path, names or first, label_column)
    rest = [index for index in range(len(first)) if index != label]
    if not rest:
        beside = "" if label is None else " beside the labels"
        raise InputError(f"{path}: zero columns{beside}; give at least one")
    if columns is None:
        return rest, label
    if names is None:
        if len(rest) != len(columns):
            raise InputError(
                f"{path}: {len(rest)} columns without names, expected {len(columns)}: "
                f"{listing(columns, 6)}"
            )
        return rest, label
    places = {name: index for index, name in enumerate(names)}
    missing = [repr(name) for name in columns if name not in places]
    if missing:
        noun = "column" if len(missing) == 1 else "columns"
        raise InputError(f"{path}: no {noun} {listing(missing, 6)}; there are {listing(names, 6)}")
    counts = Counter(names)
    doubled = [repr(name) for name in columns if counts[name] > 1]
    if doubled:
        raise InputError(f"{path}: more than one column is named {listing(doubled, 6)}; rename")
    return [places[name] for name in columns], label


def label_index(path: Path, names: Sequence[str], label_column: str) -> int:
    found = [index for index, name in enumerate(names) if name == label_column]
    if len(found) == 1:
        return found[0]
    if found:
        raise InputError(f"{path}: {len(found)} columns are named {label_column!r}; rename")
    near = closest(label_column, names)
    hint = f"did you mean {near!r}?" if near else f"there are {listing(names, 6)}"
    raise InputError(f"{path}: no column is named {label_column!r}; {hint}")


def read_table(
    path: Path,
    label_column: str | None,
    columns: Sequence[str] | None,
    separator: str | None = None,
    decimal: str | None = None,
) -> Dataset:
    """Numbers in columns; `label_column` becomes y, `columns` (else all others) are the features.

    A file of text may have a header or none; separator, decimal: its marks, None: as they look.
    """
    if path.suffix.lower() == ".parquet":
        return _read_parquet(path, label_column, columns)
    dialect = Dialect.of(path, separator, decimal)
    head = read_head(path, dialect, {label_column} if label_column else set(columns or ()))
    features, label = _select(path, head.names, head.first, label_column, columns)
    names = tuple(head.names[index] for index in features) if head.names else None
    labels: np.ndarray | list[str]
    marks = {"."}
    if (table := plain_numbers(path, dialect, head)) is None:
        own, marks = _marks(path, dialect, head, features)
        x, labels = _parse_cells(path, dialect, head, own, label)
    else:
        x, labels = table[:, features], table[:, label or 0]
    y = None if label is None else as_labels(labels, str(path))
    return replace(Dataset.checked(path, x, y, names), dialect=dialect.words(path, marks))


def plain_numbers(path: Path, dialect: Dialect, head: Head) -> np.ndarray | None:
    """The fast way, for finite numbers with decimal points only; None where it does not do."""
    if not _has_points(path, dialect):
        return None
    skip, text = head.last_line if head.names else 0, lines(path, dialect.encoding)
    try:
        x = np.loadtxt(text, delimiter=dialect.separator, skiprows=skip, comments=None, ndmin=2)
    except InputError:
        raise
    except ValueError:
        return None
    return x if x.shape[1] == len(head.first) and np.isfinite(x).all() else None


def _has_points(path: Path, dialect: Dialect) -> bool:
    """Whether numbers that can be read with decimal points are to be read so.

    If the separator does not say it, a number among the first rows must.
    """
    if dialect.decimal is not None or dialect.separator in ",\t":
        return dialect.decimal != ","
    found = (cells for _, _, cells in islice(records(path, dialect), _ROWS))
    return any(Look.of([cell]).marks() == ["."] for cells in found for cell in cells)


def _marks(
    path: Path, dialect: Dialect, head: Head, features: list[int]
) -> tuple[dict[int, str], set[str]]:
    """The decimal mark of each feature, and of all where it matters."""
    looks = {index: Look() for index in features}
    for _, cells in rows(path, dialect, head):
        for index, look in looks.items():
            look.see(cells[index])
    names = [head.column(index) for index in features]
    own, all_marks = decimals(list(looks.values()), dialect, names, path)
    return dict(zip(features, own, strict=True)), all_marks


def _parse_cells(
    path: Path, dialect: Dialect, head: Head, marks: dict[int, str], label: int | None
) -> tuple[np.ndarray, list[str]]:
    """Cell by cell, so that what is wrong can be named by line and column.

    marks: the decimal mark of each feature
    """
    numbers, labels = array("d"), []
    good, bad = Counter[int](), Counter[int]()  # cells of each column
    first_bad: tuple[int, int, str] | None = None
    missing = Counter[int]()  # cells of each line
    first_missing = 0  # its column
    for line, cells in rows(path, dialect, head):
        if label is not None:
            labels.append(cells[label].strip())
            if labels[-1].lower() in ("", "nan"):
                raise InputError(f"{path}: line {line} has no label in column {head.column(label)}")
        for index, mark in marks.items():
            value = number(cells[index], mark)
            if value is None:
                bad[index] += 1
                first_bad = first_bad or (line, index, cells[index])
            elif np.isfinite(value):
                good[index] += 1
            else:
                first_missing = first_missing if missing else index
                missing[line] += 1
            numbers.append(np.nan if value is None else value)
    if text := [head.column(index) for index in marks if bad[index] > good[index]]:
        _refuse_columns(path, text)
    if first_bad:
        line, index, cell = first_bad
        hint = "if line 1 is a header, no name in it may be a number" if line == 1 else "mend it"
        place = f"line {line}, column {head.column(index)}"
        raise InputError(f"{path}: {place}: {cell[:40]!r} is not a number; {hint}")
    if count := missing.total():
        raise InputError(
            f"{path}: {count} missing or infinite cell{'' if count == 1 else 's'} in "
            f"{row_listing(list(missing))} (line numbers in the file), first in column "
            f"{head.column(first_missing)}; drop these rows or fill in the values"
        )
    return np.frombuffer(numbers, dtype=np.float64).reshape(-1, len(marks)), labels


def _refuse_columns(path: Path, columns: Sequence[str]) -> None:
    noun = "column" if len(columns) == 1 else "columns"
    raise InputError(
        f"{path}: {noun} {listing(columns, 6)} not numbers but text or the like; encode as numbers "
        "or drop, or name one as label_column"
    )


def _read_parquet(path: Path, label_column: str | None, columns: Sequence[str] | None) -> Dataset:
    """Parquet, as written by pandas, polars or pyarrow."""
    pa, pq = arrow(path)
    types = pa.types
    kinds = (types.is_integer, types.is_floating, types.is_boolean, types.is_decimal)
    with path.open("rb") as handle:
        head = pq.ParquetFile(handle)
        schema, n_rows = head.schema_arrow, head.metadata.num_rows
        index = set(map(str, (schema.pandas_metadata or {}).get("index_columns", [])))
        kept = [
            i for i, name in enumerate(schema.names) if name not in index or name == label_column
        ]
        names = [schema.names[i] for i in kept]
        features, label = _select(path, names, names, label_column, columns)
        is_number = [any(test(schema.field(i).type) for test in kinds) for i in kept]
        if n_rows == 0:
            raise InputError(f"{path}: zero rows; give at least one")
        if text := [repr(names[k]) for k in features if not is_number[k]]:
            _refuse_columns(path, text)
        check_extent(path, len(features), n_rows)
        groups = (head.metadata.row_group(g) for g in range(head.metadata.num_row_groups))
        check_size(sum(group.total_byte_size for group in groups), f"{path}: unpacked")
        read = dict.fromkeys(names[k] for k in [*features, *([] if label is None else [label])])
        # Labels of text as a list of words and their numbers: a long word may stand in many rows.
        is_text = label is not None and types.is_string(schema.field(kept[label]).type)
        words = [names[label]] if label is not None and is_text else []
        table = pq.ParquetFile(handle, read_dictionary=words).read(columns=list(read))
    in_order = [i for name in read for i in schema.get_all_field_indices(name)]
    if table.num_columns != len(in_order):
        raise ValueError("columns within columns")
    places = {i: place for place, i in enumerate(in_order)}

    def column(k: int) -> Any:
        return table.column(places[kept[k]])

    def numbers(k: int) -> Any:
        return column(k).cast(pa.float64(), safe=False).to_numpy()

    x = np.column_stack([numbers(k) for k in features])
    chosen = tuple(names[k] for k in features)
    if label is None:
        return Dataset.checked(path, x, None, chosen)
    if missing := column(label).null_count:
        raise InputError(f"{path}: {missing} rows without a label; drop them")
    values = numbers(label) if is_number[label] else _words(column(label))
    return Dataset.checked(path, x, as_labels(values, str(path)), chosen)


def arrow(path: Path) -> tuple[Any, Any]:
    """pyarrow and its part for such files, if they are installed."""
    try:
        import pyarrow as pa  # type: ignore[import-untyped, unused-ignore]
        import pyarrow.parquet as pq  # type: ignore[import-untyped, unused-ignore]
    except ImportError as error:
        raise InputError(
            f'{path}: .parquet needs pyarrow; pip install "gedi-learn[parquet]"'
        ) from error
    return pa, pq


def _words(column: Any) -> list[str]:
    """The text in a column of parquet, where it is the same also the same object."""
    found: list[str] = []
    for chunk in column.chunks:
        if hasattr(chunk, "dictionary"):
            known = [str(value) for value in chunk.dictionary.to_pylist()]
            found += [known[i] for i in chunk.indices.to_pylist()]
        else:
            found += [str(value) for value in chunk.to_pylist()]
    return found
