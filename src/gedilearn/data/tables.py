"""Tables: files and frames as pandas data frames, their columns as points, and points as rows.

pandas is imported by the functions that need it: a fit of an array does without.
"""

from __future__ import annotations

import codecs
import contextlib
import csv
import json
import math
import warnings
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from pydantic import BaseModel, ConfigDict, FiniteFloat, TypeAdapter, model_validator

from gedilearn.data.arrays import TWO_VALUED, Scaling, listing, row_listing
from gedilearn.errors import InputError, closest
from gedilearn.io import check_file, check_size
from gedilearn.settings import Kind
from gedilearn.settings import TableOptions as Options

if TYPE_CHECKING:
    import pandas as pd

# --- files --------------------------------------------------------------------------------------

USUAL = {".csv": ",", ".tsv": "\t", ".txt": "\t"}  # separator of a file, by how its name ends
TABLE_SUFFIXES = (*USUAL, ".parquet")
SEPARATORS = {"comma": ",", "semicolon": ";", "tab": "\t", "bar": "|"}
DECIMALS = {"point": ".", "comma": ","}
# Beside those that pandas knows in files, the mark of the UCI repository, a dash and a point.
MISSING = ["", "NA", "N/A", "n/a", "NaN", "nan", "NULL", "null", "None", "n.a.", "?", "-", "."]

_CELL, _COLUMN = 8, 20_000  # bytes that count for the limit: a cell, and a column in a network
_FIRST = 200  # rows that show how a file is written


def read_table(
    path: Path,
    separator: str | None = None,
    decimal: str | None = None,
    text: Collection[str] = (),
    expected: Collection[str] = (),
) -> tuple[pd.DataFrame, bool]:
    """A table with columns of any type, and whether the file has names for them.

    separator: of a text; None: as its first rows show; decimal: its mark, None: a point
    text: columns whose cells are kept as they are written, 01 as 01
    expected: names that, if the first row has them all, make it a header
    """
    if path.suffix.lower() == ".parquet":
        content, named = _read_parquet(path), True
    else:
        content, named = _read_text(path, separator, decimal or ".", set(text), set(expected))
    if not content.size:
        raise InputError(f"{path}: no rows or no columns; give at least one of each")
    frame = as_frame(content)
    assert frame is not None
    frame.attrs["source"] = str(path)
    return frame, named


def mark(given: str, known: dict[str, str], option: str) -> str:
    """A separator or decimal mark by its name, or as it is."""
    found = known.get(given, given)
    if found not in known.values():
        raise InputError(f"--{option} {given!r}: give one of {', '.join(known)}")
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
    names = [cell if named and cell else f"column {k + 1}" for k, cell in enumerate(first)]
    names = distinct(names)
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
    if decimal == ",":  # in columns that have words among the numbers
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
        found = list(islice((row for row in rows if "".join(row).strip() or row[1:]), _FIRST))
    if not found:
        raise InputError(f"{path}: the file holds only blank lines; write it again")
    return found


def _separator(path: Path, encoding: str, decimal: str) -> str:
    """The mark by which the first rows have the same number of cells, two or more.

    If there is none, the only mark in the first row, or the usual one.
    """
    names = {sign: name for name, sign in SEPARATORS.items() if sign != decimal}
    rows = {sign: _first_rows(path, encoding, sign) for sign in names}
    present = [sign for sign in names if len(rows[sign][0]) > 1]
    regular = [sign for sign in present if len({len(row) for row in rows[sign]}) == 1]
    if len(regular) > 1:
        choices = [names[sign] for sign in regular]
        raise InputError(
            f"{path}: its cells may be separated by {' or '.join(choices)}; say which, as in "
            f"--separator {choices[0]}"
        )
    found, usual = regular or present, USUAL[path.suffix.lower()]
    return found[0] if len(found) == 1 else usual if usual != decimal else ";"


def _is_number(cell: str) -> bool:
    """With a decimal point or a decimal comma."""
    try:
        float(cell.replace(",", "."))
    except ValueError:
        return False
    return "_" not in cell


def _is_code(cell: str) -> bool:
    """Whether a number would lose a zero."""
    return cell.strip()[:1] == "0" and cell.strip()[1:2].isdigit()


def _is_header(first: Sequence[str], below: Sequence[Sequence[str]], expected: set[str]) -> bool:
    filled = [cell for cell in first if cell]
    if (expected and expected <= set(first)) or not any(map(_is_number, filled)):
        return bool(filled)
    # A data frame without names writes its columns as 0, 1, 2, ...: a header, not a point.
    counting = len(first) > 1 and first[-len(filled) :] == [str(k) for k in range(len(filled))]
    others = below[0] if below else first
    return counting and (len(filled) >= 10 or not all(cell.strip().isdigit() for cell in others))


def arrow(path: Path | str) -> tuple[Any, Any]:
    """pyarrow and its part for Parquet, if they are installed."""
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError as error:
        words = f'{path}: needs pyarrow; pip install "gedi-learn[parquet]"'
        raise InputError(words) from error
    return pa, pq


def _read_parquet(path: Path) -> pd.DataFrame:
    """As written by pandas, polars or pyarrow; without the index of a data frame."""
    pa, pq = arrow(path)
    with path.open("rb") as handle:
        head = pq.ParquetFile(handle)
        schema, about = head.schema_arrow, head.metadata
        n, width = about.num_rows, len(schema.names)
        check_size(width * _COLUMN, f"{path}: {width} columns")
        check_size(n * width * _CELL, f"{path}: {n} rows of {width} columns")
        groups = (about.row_group(g) for g in range(about.num_row_groups))
        check_size(sum(group.total_byte_size for group in groups), f"{path}: unpacked")
        # Text as a list of words and their numbers: a long word may stand in many rows.
        words = [field.name for field in schema if field.type in (pa.string(), pa.large_string())]
        frame = pq.ParquetFile(handle, read_dictionary=words).read().to_pandas()
    for k in np.flatnonzero(frame.columns.isin(words)):
        frame.isetitem(k, frame.iloc[:, k].astype(object))
    return frame


# --- frames -------------------------------------------------------------------------------------


def as_frame(X: Any) -> pd.DataFrame | None:
    """The data frame in a frame of any library, None if `X` is none.

    Names are text, each once. A column whose cells are vectors of one length becomes as many
    columns: e[0], e[1], ... Cells are numbers, truth values, moments, times of day (durations since
    midnight), categories or text.
    """
    if not (hasattr(X, "__arrow_c_stream__") and hasattr(X, "columns")):
        return None
    import pandas as pd

    if not isinstance(X, pd.DataFrame):
        X = arrow("a frame that is not of pandas")[0].table(X).to_pandas()
    columns: dict[str, Any] = {}
    for k, name in enumerate(distinct(list(map(str, X.columns)))):
        cells = X.iloc[:, k].reset_index(drop=True)
        vectors = _vectors(cells)
        if vectors is None:
            columns[name] = _settled(cells)
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


def source(frame: pd.DataFrame) -> str:
    """The file that a frame is from, or X."""
    return str(frame.attrs.get("source", "X"))


def check_names(names: Collection[str], known: Collection[str], where: str) -> None:
    """Refuse names of columns that are not known."""
    if missing := [name for name in names if name not in known]:
        near = closest(missing[0], known)
        hint = f"did you mean {near!r}?" if near else f"there are {listing(list(known), 6)}"
        raise InputError(f"{where}: no column {listing([*map(repr, missing)], 6)} ({hint})")


def distinct(names: Sequence[str]) -> list[str]:
    """Names of which no two are alike: as in pandas, the second of those called x is x.1."""
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


def _settled(cells: pd.Series) -> pd.Series:
    import pandas as pd

    kind = pd.api.types.infer_dtype(cells, skipna=True)
    if cells.dtype.kind in "iuf":
        return cells
    if kind == "categorical":
        return cells.cat.rename_categories([word(value) for value in cells.cat.categories])
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


def word(value: Any) -> str:
    """A cell as text: whole numbers without a point, dates without midnight."""
    if isinstance(value, bool | np.bool_):
        return str(value).lower()
    if isinstance(value, float | np.floating) and float(value).is_integer():
        return str(int(value))
    return str(value).removeprefix("0 days ").removesuffix(" 00:00:00")


def written(cells: pd.Series) -> np.ndarray:
    """As a file should have it: whole numbers without a point, None where missing."""
    if cells.dtype.kind == "M":
        return np.asarray(cells)
    cells = as_text(cells) if cells.dtype.kind == "m" else cells.convert_dtypes()
    return np.asarray(cells.astype(object).where(cells.notna(), None))


# --- cells --------------------------------------------------------------------------------------

DAYS = -719_162, 2_932_896  # since 1970, of the years 1 to 9999
TRUTH = {"false": False, "no": False, "0": False, "true": True, "yes": True, "1": True}
_DATE = r"\d{4}[-/.]\d|\d{1,2}[-/. ]\s?(\d{1,2}[-/.]|[A-Za-z]{3})|[A-Za-z]{3,9}\.? \d{1,2},? \d{4}"
_TIME = r"\d{1,2}:\d{2}(:\d{2}(\.\d+)?)?( ?[AaPp][Mm])?"
_WANTED = {
    "number": "a number",
    "boolean": "true or false",
    "date": "a date",
    "time": "a time of day, as 18:30",
}


def kind_of(cells: pd.Series) -> Kind:
    """By the type of the cells; text and all others are categories."""
    import pandas as pd

    if isinstance(cells.dtype, pd.CategoricalDtype):
        return "category"
    kinds: dict[str, Kind] = {"b": "boolean", "M": "date", "m": "time", "O": "category"}
    return kinds.get(cells.dtype.kind, "number")


def typed(cells: pd.Series) -> pd.Series:
    """Text that is all numbers, truth values, dates or times of day as such; others as they are."""
    if not _is_text(cells):
        return cells
    for kind in _WANTED if cells.notna().any() else ():
        values = _read(cells, kind)
        if values.count() == cells.count():
            return values
    return cells


def as_kind(cells: pd.Series, kind: str, where: str, days_first: bool | None = None) -> pd.Series:
    """Cells as text (of a category) or numbers; the first that cannot be read so is named.

    Truth values are 0 and 1, dates days since 1970, times of day hours.
    days_first: whether 3/1/2024 is in January, None: as the cells look
    """
    if kind == "category":
        return as_text(cells)
    place, own = f"{where}: column {cells.name!r}", kind_of(cells)
    if own == "category" or kind not in ("number", own):
        text = as_text(cells)
        cells = _read(text, kind, days_first)
        for row in np.flatnonzero(cells.isna() & text.notna())[:1]:
            cell = text.iloc[row][:40]
            comma = " (for decimal commas: --decimal comma)" if _is_number(cell) else ""
            raise InputError(
                f"{place}: {cell!r} in row {row} (counted from 0) is not {_WANTED[kind]}{comma}; "
                "mend it, or say what the column is (--categorical, --drop)"
            )
    values = _floats(cells)
    if rows := np.flatnonzero(np.isinf(values)).tolist():
        listed = f"infinite in {row_listing(rows)} (counted from 0)"
        raise InputError(f"{place}: {listed}; mend these cells, or leave them empty")
    return values


def numbers(frame: pd.DataFrame) -> pd.DataFrame:
    """Columns of numbers without gaps as float64; any other is refused by its name."""
    import pandas as pd

    found = {name: as_kind(frame[name], "number", source(frame)) for name in frame.columns}
    for name, values in found.items():
        if rows := np.flatnonzero(values.isna()).tolist():
            place = f"{source(frame)}: column {name!r}: missing in {row_listing(rows)}"
            raise InputError(f"{place} (counted from 0); drop these rows or fill in the cells")
    return pd.DataFrame(found)


def _is_text(cells: pd.Series) -> bool:
    import pandas as pd

    return pd.api.types.infer_dtype(cells, skipna=True) in ("string", "empty")


def as_text(cells: pd.Series) -> pd.Series:
    """Cells as text, missing ones as they are."""
    return cells if _is_text(cells) else cells.astype(object).map(word, na_action="ignore")


def _floats(cells: pd.Series) -> pd.Series:
    if cells.dtype.kind == "m":
        return cells / np.timedelta64(1, "h")
    if cells.dtype.kind == "M":
        return (cells - np.datetime64(0, "s")) / np.timedelta64(1, "D")
    return cells.astype("float64")


def _read(text: pd.Series, kind: str, days_first: bool | None = None) -> pd.Series:
    """Text as a kind, missing where a cell is missing or not of this kind."""
    import pandas as pd

    if kind == "number":
        return pd.to_numeric(text, errors="coerce").astype("float64")
    if kind == "boolean":
        return text.str.lower().map(TRUTH).astype("boolean")
    if kind == "time":
        clocks = text.where(text.str.fullmatch(_TIME, na=False))
        found = pd.to_datetime(clocks, format="mixed", errors="coerce")
        return found - found.dt.normalize()
    return _dates(text.where(text.str.match(_DATE, na=False)), days_first)


def _dates(text: pd.Series, days_first: bool | None) -> pd.Series:
    """By ISO 8601, or by one format for all cells.

    1.3.2024 is the first of March; 3/1/2024 too, unless another cell says that days come first.
    `attrs` keeps which of them it was.
    """
    import pandas as pd

    def read(**how: Any) -> pd.Series:
        return pd.to_datetime(text, errors="coerce", utc=True, **how).dt.tz_localize(None)

    found = read(format="ISO8601")
    if found.count() == text.count():
        return found
    if days_first is None:
        days_first = bool(text.str.match(r"\d{1,2}\.|(1[3-9]|[23]\d)[-/ ]").any())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # that a format could not be told
        found = read(dayfirst=days_first)
    found.attrs["days_first"] = days_first
    return found


# --- kinds --------------------------------------------------------------------------------------

USED = ("number", "boolean", "date", "time", "category")
MOST_CATEGORIES = 20  # of a column, the last of which are all others together
RARE = 0.01  # of the rows: a category below that is one of the others
FEWEST = 20  # numbers by which an ID is told
CALLED = ("id", "_no", "_nr", "_number", "_key")  # how the names of IDs end


def _vector(name: str) -> str:
    """The name of the column of vectors that a column like e[0] is from."""
    return name.rpartition("[")[0] or name


def _is_plain(name: str, cells: pd.Series) -> bool:
    """Whether these are numbers without gaps, and no ID."""
    is_number = kind_of(cells) in ("number", "boolean") and not cells.isna().any()
    return is_number and not _looks_like_id(name, cells)


def _use(
    cells: pd.Series, kind: Kind, is_guess: bool, is_chosen: bool, where: str
) -> tuple[Kind, str]:
    """The kind of a column, and for one that is left out, the reason.

    cells: as `as_kind` gives them; is_guess: whether the kind was not asked for
    is_chosen: whether the column was asked for
    """
    values = cells.dropna()
    n = values.nunique()
    if n < 2:
        return "drop", "constant" if n else "empty"
    if kind == "category" and is_guess:
        if n > MOST_CATEGORIES and _read(values, "number").notna().mean() > 0.5:
            as_kind(cells, "number", where)  # refuses the first cell that is no number
        if n == len(values):
            return "id", "no two values alike: taken for an ID"
        if n > len(values) / 2:
            return "drop", f"{n} different values in {len(values)} cells: taken for free text"
    if kind == "category" and values.value_counts().iloc[0] < RARE * len(cells):
        return "drop", f"{n} categories, none in {RARE:.0%} of the rows"
    if kind == "number" and is_guess and not is_chosen:
        if _looks_like_id(str(cells.name), cells):
            return "id", "whole numbers, no two alike: taken for an ID"
        if values.isin((0, 1)).all():
            return "boolean", ""
    return kind, ""


def _looks_like_id(name: str, cells: pd.Series) -> bool:
    """Whole numbers of which no two are alike, and that count without gaps or are called IDs."""
    values = np.unique(_floats(cells))
    if not FEWEST <= len(values) == len(cells) or (values != np.round(values)).any():
        return False
    called = name.lower().replace(" ", "_").endswith(CALLED)
    return called or bool(values[-1] - values[0] == len(values) - 1)


def _content(kind: str, cells: pd.Series) -> bytes:
    """Bytes that are equal for equal columns; of categories, whatever they are called."""
    numbers = cells.factorize()[0] if kind == "category" else _floats(cells)
    return kind.encode() + np.asarray(numbers).tobytes()


# --- encoding -----------------------------------------------------------------------------------

OTHERS = "(other)"  # the name of all rare categories


class OneColumn(BaseModel):
    """What is kept of a column.

    fill: what a missing cell becomes, in each of the columns that it is encoded as
    categories: those that have a column of their own; others: whether there is one for all others
    whole: whether all numbers were whole, all dates without a time of day, all times whole minutes
    days_first: whether 3/1/2024 was read as a day of January; None where no date was such text
    reason: why it is left out; missing: how many cells were; distinct: how many values there were
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    kind: Kind
    fill: tuple[FiniteFloat, ...] = ()
    categories: tuple[str, ...] = ()
    others: bool = False
    whole: bool = False
    days_first: bool | None = None
    reason: str = ""
    missing: int = 0
    distinct: int = 0

    @property
    def width(self) -> int:
        """How many columns it is encoded as."""
        return len(self.fill)

    @property
    def levels(self) -> list[str]:
        """The categories, with the one of all others."""
        return [*self.categories, *([OTHERS] if self.others else [])]

    @property
    def names(self) -> list[str]:
        """Of the columns that it is encoded as."""
        is_category = self.kind == "category"
        return [f"{self.name}={level}" for level in self.levels] if is_category else [self.name]

    @model_validator(mode="after")
    def _fits_together(self) -> OneColumn:
        width = len(self.levels) if self.kind == "category" else self.kind in USED
        is_sorted = list(self.categories) == sorted(set(self.categories))
        if self.width != width or not is_sorted or (self.categories and self.kind != "category"):
            raise ValueError(f"{self.name}: kind, categories and fill do not match")
        return self

    @property
    def unit(self) -> float:
        """One unit of the columns of a category or a truth value, which are 0 and 1."""
        levels = 2 if self.kind == "boolean" else max(self.width, 2)
        deviation = math.sqrt((1 - 1 / levels) / levels)  # of each column, if all are as frequent
        return deviation / min(TWO_VALUED, 1 / math.sqrt(self.width))

    def describe(self) -> str:
        """The name, the number of values and of missing cells; or the reason to leave it out."""
        notes = [self.reason] if self.reason else []
        notes += [f"{self.distinct} values"] if self.kind == "category" else []
        notes += [f"{self.missing} missing"] if self.missing and self.distinct else []
        return f"{self.name} ({', '.join(notes)})" if notes else self.name

    def encode(self, cells: pd.Series) -> np.ndarray:
        """(n, width), with the fill in rows that are missing, or of a category that is not known.

        cells: as `as_kind` gives them
        """
        if self.kind == "category":
            codes = cells.map({name: k for k, name in enumerate(self.categories)})
            codes = codes.astype("float64").fillna(-1).to_numpy(dtype=int, copy=True)
            codes[(codes < 0) & cells.notna() & self.others] = len(self.categories)
            return np.asarray(np.vstack([np.eye(self.width), self.fill])[codes])
        return np.asarray(cells.fillna(self.fill[0]))[:, None]

    def decode(self, block: np.ndarray) -> Any:
        """The cells nearest to points (n, width)."""
        if self.kind == "category":
            return np.array(self.levels, dtype=object)[block.argmax(axis=1)]
        values = block[:, 0]
        if self.kind == "boolean":
            return values >= 0.5
        if self.kind == "time":
            hours = np.round(60 * values) / 60 if self.whole else values
            moments = (datetime.min + timedelta(hours=hour % 24) for hour in hours)
            return np.array([moment.time() for moment in moments], dtype=object)
        values = np.round(values) if self.whole else values
        if self.kind == "date":
            days = np.clip(values, *DAYS) * 86_400_000_000
            return np.datetime64(0, "us") + days.astype("m8[us]")
        return values.astype(np.int64) if self.whole and np.abs(values).max() < 2**53 else values


def _measured(kind: Kind, cells: pd.Series, impute: str) -> dict[str, Any]:
    """The fields of a column that is used, but for those of its description."""
    values = cells.dropna()
    if kind == "category":
        return _measured_category(values, math.ceil(RARE * len(cells)), impute)
    steps = np.round(60 * values, 6) if kind == "time" else values
    whole = kind != "boolean" and bool((steps % 1 == 0).all())
    if impute == "most_frequent":
        fill = values.mode().iloc[0]
    else:
        fill = values.median() if impute == "median" and kind != "boolean" else values.mean()
    return {"whole": whole, "fill": (float(fill),)}


def _measured_category(values: pd.Series, least: int, impute: str) -> dict[str, Any]:
    counts = values.value_counts().sort_index()
    kept = counts[counts >= least]
    if len(kept) >= MOST_CATEGORIES:
        kept = kept.sort_values(kind="stable").iloc[1 - MOST_CATEGORIES :].sort_index()
    others = len(kept) < len(counts)
    shares = np.array([*kept, *([len(values) - kept.sum()] if others else [])]) / len(values)
    fill = np.eye(len(shares))[shares.argmax()] if impute == "most_frequent" else shares
    return {"categories": tuple(kept.index), "others": others, "fill": tuple(fill.tolist())}


_KEPT = TypeAdapter(tuple[OneColumn, ...])


@dataclass(frozen=True, eq=False)
class Columns:
    """How the columns of a table become points, and points become rows again."""

    all: tuple[OneColumn, ...]  # in the order of the table

    @classmethod
    def of(cls, frame: pd.DataFrame, options: Options) -> Columns | None:
        """Measured on a frame; None where it is nothing but numbers, which are points already.

        Columns without use are left out, each with a reason.
        """
        where, names = source(frame), list(frame.columns)
        check_names(
            {*(options.columns or ()), *options.kinds}, {*names, *map(_vector, names)}, where
        )
        kinds = {name: options.kinds.get(name, options.kinds.get(_vector(name))) for name in names}
        found = {name: typed(frame[name]) for name in names if kinds[name] is None}
        if options == Options() and all(_is_plain(*each) for each in found.items()):
            return None
        seen: dict[bytes, str] = {}
        cells = (found.get(name, frame[name]) for name in names)
        made = cls(tuple(_one_column(c, kinds[c.name], options, where, seen) for c in cells))
        if not made.used:
            raise InputError(
                f"{where}: no column is of use: {listing([e.describe() for e in made.all], 6)}; "
                "say what they are (--numeric, --categorical, or 'table.kinds'), or add columns"
            )
        return made

    def to_json(self) -> str:
        """All that was measured, as text."""
        return json.dumps([each.model_dump(exclude_defaults=True) for each in self.all])

    @classmethod
    def from_json(cls, text: str) -> Columns:
        """Read what `to_json` wrote; anything else is an `InputError`."""
        try:
            columns = cls(_KEPT.validate_json(text))
        except ValueError as error:
            reason = " ".join(str(error).split())[:200]
            raise InputError(f"columns: not written by Columns.to_json ({reason})") from error
        if not columns.used or len(set(columns.inputs)) != len(columns.all):
            raise InputError("columns: none of use, or two of one name")
        return columns

    @cached_property
    def used(self) -> tuple[OneColumn, ...]:
        """Those that are encoded."""
        return tuple(each for each in self.all if each.kind in USED)

    @property
    def inputs(self) -> list[str]:
        """Names of all columns of the table."""
        return [each.name for each in self.all]

    @property
    def ids(self) -> list[str]:
        """Names of the columns that tell rows apart."""
        return [each.name for each in self.all if each.kind == "id"]

    @property
    def text(self) -> list[str]:
        """Names of the columns whose cells count as they are written."""
        return [each.name for each in self.all if each.kind in ("id", "category")]

    @property
    def width(self) -> int:
        """How many columns the points have."""
        return sum(each.width for each in self.used)

    @property
    def names(self) -> list[str]:
        """Of the columns of the points."""
        return [name for each in self.used for name in each.names]

    @property
    def kinds(self) -> list[Kind]:
        """Of the columns of the points: those of the columns that they encode."""
        return [each.kind for each in self.used for _ in range(each.width)]

    @property
    def left_out(self) -> str:
        """The columns that are not used, with the reasons, in words; '' if there are none."""
        out = [each.describe() for each in self.all if each.kind not in USED]
        return f"left out: {', '.join(out)}" if out else ""

    def lines(self) -> list[str]:
        """What was taken as what, in words: a line for each kind."""
        by_kind = {kind: [e.describe() for e in self.used if e.kind == kind] for kind in USED}
        found = [f"{kind}: {', '.join(those)}" for kind, those in by_kind.items() if those]
        return [*found, self.left_out] if self.left_out else found

    def transform(self, frame: pd.DataFrame) -> np.ndarray:
        """The points of a frame that has the used columns: (n, width), float64."""
        where = source(frame)
        check_names([each.name for each in self.used], frame.columns, where)
        blocks = (
            each.encode(as_kind(frame[each.name], each.kind, where, each.days_first))
            for each in self.used
        )
        return np.hstack(list(blocks))

    def inverse(self, points: np.ndarray) -> pd.DataFrame:
        """The rows nearest to points (n, width): the used columns alone."""
        import pandas as pd

        ends = np.cumsum([each.width for each in self.used])
        blocks = np.split(points, ends[:-1], axis=1)
        pairs = zip(self.used, blocks, strict=True)
        return pd.DataFrame({each.name: each.decode(block) for each, block in pairs})

    def scaling(self, points: np.ndarray, kind: str) -> Scaling:
        """Between the units of the points and the network's.

        Numbers, dates and times have the deviation 1. Categories and truth values have less, so
        that none of them decides alone: if all values of a category were equally frequent, each of
        its columns would have the deviation `TWO_VALUED`, which `data.graph` gives columns of two
        values, or less, so that all of them together vary no more than one number. A rare value
        weighs no more than a frequent one.
        """
        scaling = Scaling.of(points, kind)
        if kind != "standard":
            return scaling
        each_column = [each for each in self.used for _ in range(each.width)]
        is_share = np.array([each.kind in ("category", "boolean") for each in each_column])
        units = np.array([each.unit for each in each_column])
        return replace(scaling, scale=np.where(is_share, units, scaling.scale))


def _one_column(
    cells: pd.Series, asked: Kind | None, options: Options, where: str, seen: dict[bytes, str]
) -> OneColumn:
    """What is kept of a column; it is left out if it says the same as one that was seen.

    asked: the kind that was asked for; cells: as they look
    """
    name = str(cells.name)
    is_chosen = bool({name, _vector(name)} & {*(options.columns or ())})
    if asked in ("drop", "id"):
        return OneColumn(name=name, kind=asked, reason="as asked for")
    if not asked and not is_chosen and options.columns is not None:
        return OneColumn(name=name, kind="drop", reason="not among the columns asked for")
    kind = asked or kind_of(cells)
    cells = as_kind(cells, kind, where)
    kind, reason = _use(cells, kind, asked is None, is_chosen, where)
    if kind in USED:
        first = seen.setdefault(_content(kind, cells), name)
        if first != name and not asked:
            kind, reason = "drop", f"says the same as {first!r}"
    fields = _measured(kind, cells, options.impute) if kind in USED else {}
    return OneColumn(
        name=name,
        kind=kind,
        reason=reason,
        days_first=cells.attrs.get("days_first"),
        missing=int(cells.isna().sum()),
        distinct=cells.nunique(),
        **fields,
    )
