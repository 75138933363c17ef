"""Tables, from files and from memory, as pandas data frames with typed cells.

pandas is imported by the functions that need it: a fit of an array does without.
"""

from __future__ import annotations

import codecs
import contextlib
import csv
import warnings
from collections import Counter
from collections.abc import Collection, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from gedilearn.data.arrays import listing
from gedilearn.errors import InputError, Parameter, closest
from gedilearn.io import check_file, check_size

if TYPE_CHECKING:
    import pandas as pd

# --- files --------------------------------------------------------------------------------------

USUAL_SEPARATORS = {".csv": ",", ".tsv": "\t", ".txt": "\t"}
TABLE_SUFFIXES = (*USUAL_SEPARATORS, ".parquet")
MARKS = {
    "separator": {"comma": ",", "semicolon": ";", "tab": "\t", "bar": "|"},
    "decimal": {"point": ".", "comma": ","},
}
# In files also those of pandas. The last three: the UCI repository, a dash, a point.
MISSING = ["", "NA", "N/A", "n/a", "NaN", "nan", "NULL", "null", "None", "n.a.", "?", "-", "."]

_CELL, _COLUMN = 8, 20_000  # bytes counted towards the limit: of a cell, and of a network's input
_SAMPLE = 200  # the first rows, which show the separator and the header


def read_table(
    path: Path,
    separator: str | None = None,
    decimal: str | None = None,
    text: Collection[str] = (),
    expected: Collection[str] = (),
) -> tuple[pd.DataFrame, bool]:
    """A table with columns of any type, and whether the file has names for them.

    separator, decimal: a name in `MARKS` or the mark itself; None: detected, and a point
    text: columns to read as text, with 01 as 01
    expected: if the first row has all these names, it is the header
    """
    separator, decimal = _mark("separator", separator), _mark("decimal", decimal) or "."
    if path.suffix.lower() == ".parquet":
        content, named = _read_parquet(path), True
    else:
        content, named = _read_text(path, separator, decimal, set(text), set(expected))
    if not content.size:
        raise InputError(f"{path}: no rows or no columns; give at least one of each")
    frame = as_frame(content)
    assert frame is not None
    frame.attrs["source"] = str(path)
    return frame, named


def _mark(parameter: str, given: str | None) -> str | None:
    known = MARKS[parameter]
    found = known.get(given, given) if given else None
    if found and found not in known.values():
        raise InputError(Parameter(parameter, given), f": give one of {', '.join(known)}")
    return found


def _read_text(
    path: Path, separator: str | None, decimal: str, text: set[str], expected: set[str]
) -> tuple[pd.DataFrame, bool]:
    import pandas as pd

    encoding = _encoding(path)
    separator = separator or _separator(path, encoding, decimal)
    rows = _first_rows(path, encoding, separator)
    first = [cell.strip() for cell in rows[0]]
    check_size(len(first) * _COLUMN, f"{path}: {len(first)} columns")
    named = _is_header(first, rows[1:], expected)
    names = unique_names(
        [cell if named and cell else f"column {k + 1}" for k, cell in enumerate(first)]
    )
    text |= {name for row in rows for name, cell in zip(names, row, strict=False) if _is_code(cell)}
    with warnings.catch_warnings():
        warnings.simplefilter("error", pd.errors.ParserWarning)  # rows longer than the first
        frame = pd.read_csv(
            path,
            sep=separator,
            decimal=decimal,
            encoding=encoding,
            header=0 if named else None,
            names=names,
            index_col=False,
            dtype=dict.fromkeys(text & set(names), str),
            na_values=MISSING,
            skipinitialspace=True,
            low_memory=False,
            compression=None,
        )
    if decimal == ",":  # in columns with words among the numbers
        frame = frame.replace(r"^([+-]?\d+),(\d+)$", r"\1.\2", regex=True)
    if len(names) > 1:  # a spreadsheet may add empty rows
        frame = frame.loc[: frame.last_valid_index()]
    return frame, named


def _encoding(path: Path) -> str:
    """UTF-16 if its mark is at the start, UTF-8, or else Windows-1252, which includes Latin-1."""
    check_file(path)
    with path.open("rb") as file:
        if file.read(2) in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE):
            return "utf-16"
    with contextlib.suppress(UnicodeDecodeError), path.open(encoding="utf-8") as text:
        while text.read(2**20):
            pass
        return "utf-8-sig"
    return "cp1252"


def _first_rows(path: Path, encoding: str, separator: str) -> list[list[str]]:
    with path.open(encoding=encoding, newline="") as file:
        rows = csv.reader(file, delimiter=separator)
        found = list(islice((row for row in rows if "".join(row).strip() or row[1:]), _SAMPLE))
    if not found:
        raise InputError(f"{path}: the file holds only blank lines; write it again")
    return found


def _separator(path: Path, encoding: str, decimal: str) -> str:
    """The mark that splits all first rows into the same number of cells, two or more.

    If there is none: the only mark in the first row, or the usual one. `csv.Sniffer` prefers the
    comma if two marks fit, and takes quadratic time on quoted text.
    """
    names = {sign: name for name, sign in MARKS["separator"].items() if sign != decimal}
    rows = {sign: _first_rows(path, encoding, sign) for sign in names}
    present = [sign for sign in names if len(rows[sign][0]) > 1]
    regular = [sign for sign in present if len({len(row) for row in rows[sign]}) == 1]
    if len(regular) > 1:
        fitting = [names[sign] for sign in regular]
        raise InputError(
            f"{path}: the separator may be {' or '.join(fitting)}; name it, for instance ",
            Parameter("separator", fitting[0]),
        )
    found, usual = regular or present, USUAL_SEPARATORS[path.suffix.lower()]
    return found[0] if len(found) == 1 else usual if usual != decimal else ";"


def is_number(cell: str) -> bool:
    """Whether text is a number, with a decimal point or a decimal comma."""
    try:
        float(cell.replace(",", "."))
    except ValueError:
        return False
    return "_" not in cell


def _is_code(cell: str) -> bool:
    """Whether text is digits that begin with a zero, which a number would lose."""
    return cell.strip()[:1] == "0" and cell.strip()[1:2].isdigit()


def _is_header(first: Sequence[str], below: Sequence[Sequence[str]], expected: set[str]) -> bool:
    filled = [cell for cell in first if cell]
    if (expected and expected <= set(first)) or not any(map(is_number, filled)):
        return bool(filled)
    # A data frame without names writes its columns as 0, 1, 2, ...: a header, not a point.
    counting = len(first) > 1 and first[-len(filled) :] == [str(k) for k in range(len(filled))]
    others = below[0] if below else first
    return counting and (len(filled) >= 10 or not all(cell.strip().isdigit() for cell in others))


def _arrow(what: Path | str) -> tuple[Any, Any]:
    """pyarrow and its part for Parquet, if they are installed."""
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError as error:
        words = f'{what}: needs pyarrow; pip install "gedi-learn[parquet]"'
        raise InputError(words) from error
    return pa, pq


def _read_parquet(path: Path) -> pd.DataFrame:
    """The columns of a file; the index of a data frame is not one."""
    pa, pq = _arrow(path)
    with path.open("rb") as handle:
        head = pq.ParquetFile(handle)
        schema, about = head.schema_arrow, head.metadata
        n, width = about.num_rows, len(schema.names)
        check_size(width * _COLUMN, f"{path}: {width} columns")
        check_size(n * width * _CELL, f"{path}: {n} rows of {width} columns")
        groups = (about.row_group(g) for g in range(about.num_row_groups))
        check_size(sum(group.total_byte_size for group in groups), f"{path}: unpacked")
        # Dictionary encoding of text: a file may repeat a long word in many rows.
        words = [field.name for field in schema if field.type in (pa.string(), pa.large_string())]
        frame = pq.ParquetFile(handle, read_dictionary=words).read().to_pandas()
    for k in np.flatnonzero(frame.columns.isin(words)):
        frame.isetitem(k, frame.iloc[:, k].astype(object))
    return frame


# --- frames -------------------------------------------------------------------------------------


def as_frame(X: Any) -> pd.DataFrame | None:
    """A frame of any library as a pandas data frame; None if `X` is no frame.

    Names are text and unique. A column of vectors of one length becomes the columns e[0], e[1], ...
    Cells are numbers, truth values, dates, times of day (durations since midnight), categories or
    text.
    """
    if not (hasattr(X, "__arrow_c_stream__") and hasattr(X, "columns")):
        return None
    import pandas as pd

    if not isinstance(X, pd.DataFrame):
        X = _arrow("a frame that is not of pandas")[0].table(X).to_pandas()
    columns: dict[str, Any] = {}
    for k, name in enumerate(unique_names(list(map(str, X.columns)))):
        cells = X.iloc[:, k].reset_index(drop=True)
        vectors = _vectors(cells)
        if vectors is None:
            columns[name] = _with_type(cells)
        else:
            check_size(vectors.shape[1] * _COLUMN, f"column {name!r}: {vectors.shape[1]} columns")
            columns |= {f"{name}[{j}]": pd.Series(part) for j, part in enumerate(vectors.T)}
    frame = pd.DataFrame(columns, index=range(len(X)))
    frame.attrs = dict(X.attrs)
    return frame


def frame_of_rows(X: Any, names: Sequence[str]) -> pd.DataFrame | None:
    """The frame of an array or a list of rows with these columns, None if it has others."""
    import pandas as pd

    array = np.asarray(X) if isinstance(X, np.ndarray) else np.array(X, dtype=object)
    fits = array.ndim == 2 and array.shape[1] == len(names)
    return as_frame(pd.DataFrame(array, columns=list(names))) if fits else None


def source_of(frame: pd.DataFrame) -> str:
    """The file that a frame was read from, or X."""
    return str(frame.attrs.get("source", "X"))


def check_names(names: Collection[str], known: Collection[str], where: str) -> None:
    """Refuse names of columns that are not known."""
    if missing := [name for name in names if name not in known]:
        near = closest(missing[0], known)
        hint = f"did you mean {near!r}?" if near else f"there are {listing(list(known), 6)}"
        raise InputError(f"{where}: no column {listing([*map(repr, missing)], 6)} ({hint})")


def unique_names(names: Sequence[str]) -> list[str]:
    """Names without repetition: as in pandas, the second x is x.1."""
    found, seen = [], Counter[str]()
    for name in names:
        found.append(f"{name}.{seen[name]}" if seen[name] else name)
        seen[name] += 1
    return found


def _vectors(cells: pd.Series) -> np.ndarray | None:
    """(n, length) of cells that are vectors of numbers, all of one length; else None."""
    if not len(cells) or not isinstance(cells.iloc[0], list | tuple | np.ndarray):
        return None
    try:
        found = np.array([np.asarray(cell) for cell in cells])
    except ValueError:  # of several lengths
        return None
    return found if found.ndim == 2 and found.size and found.dtype.kind in "iuf" else None


def _with_type(cells: pd.Series) -> pd.Series:
    import pandas as pd

    kind = pd.api.types.infer_dtype(cells, skipna=True)
    if cells.dtype.kind in "iuf":
        return cells
    if kind == "categorical":
        return cells.cat.rename_categories([_cell_text(value) for value in cells.cat.categories])
    if kind in ("integer", "floating", "mixed-integer-float", "decimal"):
        return pd.to_numeric(cells).astype("float64")
    if kind == "boolean":
        return cells.astype("boolean")
    if kind in ("datetime", "datetime64", "date"):
        return pd.to_datetime(cells, utc=True).dt.tz_localize(None)
    if kind in ("timedelta", "timedelta64"):
        return pd.to_timedelta(cells) / pd.Timedelta(days=1)
    if kind == "time":
        return pd.to_timedelta(cells.map(str, na_action="ignore"))
    text = as_text(cells).str.strip()
    return text.mask(text.isin(MISSING))


def is_text(cells: pd.Series) -> bool:
    """Whether all cells that are not missing are text."""
    import pandas as pd

    return pd.api.types.infer_dtype(cells, skipna=True) in ("string", "empty")


def as_text(cells: pd.Series) -> pd.Series:
    """Cells as text, missing ones as they are."""
    return cells if is_text(cells) else cells.astype(object).map(_cell_text, na_action="ignore")


def _cell_text(value: Any) -> str:
    """Whole numbers without a point, dates without midnight."""
    if isinstance(value, bool | np.bool_):
        return str(value).lower()
    if isinstance(value, float | np.floating) and float(value).is_integer():
        return str(int(value))
    return str(value).removeprefix("0 days ").removesuffix(" 00:00:00")


def export_cells(cells: pd.Series) -> np.ndarray:
    """Cells for a file: whole numbers without a point, None where missing."""
    if cells.dtype.kind == "M":
        return np.asarray(cells)
    cells = as_text(cells) if cells.dtype.kind == "m" else cells.convert_dtypes()
    return np.asarray(cells.astype(object).where(cells.notna(), None))
