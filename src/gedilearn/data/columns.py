"""Columns of a table: their kinds, their encoding as points, and rows decoded from points."""

from __future__ import annotations

import json
import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import cached_property
from hashlib import sha256
from typing import TYPE_CHECKING, Any

import numpy as np
from pydantic import BaseModel, ConfigDict, FiniteFloat, TypeAdapter, model_validator

from gedilearn.data.arrays import TWO_VALUED, Scaling, listing, row_listing
from gedilearn.data.files import as_text, check_names, is_number, is_text, source_of
from gedilearn.data.rules import Rules
from gedilearn.errors import InputError, Parameter, suggestion
from gedilearn.settings import Kind
from gedilearn.settings import TableOptions as Options

if TYPE_CHECKING:
    import pandas as pd

USED = ("number", "boolean", "date", "time", "category")
MOST_CATEGORIES = 20  # of a column, with the one for all rare values
RARE = 0.01  # share of the rows: less frequent categories are rare
OTHERS = "(other)"  # the category for all rare values
MOST_RARE = 300  # rare values that are kept
FEWEST = 20  # numbers that an ID needs to be recognised
ID_NAMES = ("id", "_no", "_nr", "_number", "_key")  # how the names of IDs end
WORDS = 3  # of a cell on average: fewer are no text
REASONS = {"text": "text, which describes the clusters"}  # of kinds that are not used
DAYS = -719_162, 2_932_896  # since 1970: the years 1 to 9999

# --- cells --------------------------------------------------------------------------------------

TRUTH = {"false": False, "no": False, "0": False, "true": True, "yes": True, "1": True}
_DATE = r"\d{4}[-/.]\d|\d{1,2}[-/. ]\s?(\d{1,2}[-/.]|[A-Za-z]{3})|[A-Za-z]{3,9}\.? \d{1,2},? \d{4}"
_TIME = r"\d{1,2}:\d{2}(:\d{2}(\.\d+)?)?( ?[AaPp][Mm])?"
# What text may hold, in the order in which it is tried.
_WORDS: dict[Kind, str] = {
    "number": "a number",
    "boolean": "true or false",
    "date": "a date",
    "time": "a time of day, as 18:30",
}
_KIND_OF_TYPE: dict[str, Kind] = {"b": "boolean", "M": "date", "m": "time", "O": "category"}


@dataclass(frozen=True, eq=False)
class Cells:
    """The cells of a column, read once, as one kind.

    values: text for a category, else float64: truth values are 0 and 1, dates are days since 1970,
        times of day are hours since midnight
    has_numbers: whether the column holds numbers or truth values, not words such as yes and no
    """

    name: str
    kind: Kind
    values: pd.Series
    has_numbers: bool = False

    @classmethod
    def read(
        cls, cells: pd.Series, where: str, kind: Kind | None = None, days_first: bool | None = None
    ) -> Cells:
        """Cells of this kind. The first cell that is not of this kind is refused.

        kind: None: that of the cells' type, or the first kind that all text can be read as
        days_first: whether 3/1/2024 is in January; None: detected
        """
        name, own = str(cells.name), _KIND_OF_TYPE.get(cells.dtype.kind, "number")
        place = f"{where}: column {name!r}"
        if kind is None:
            kind, cells = _guess(cells, place) if is_text(cells) else (own, cells)
        elif kind != "category" and (own == "category" or kind not in ("number", own)):
            text = as_text(cells)
            cells = _parse(text, kind, days_first)
            _check_parsed(text, cells, kind, place)
        if kind == "category":
            return cls(name, kind, as_text(cells))
        values = _as_floats(cells)
        if rows := np.flatnonzero(np.isinf(values)).tolist():
            listed = f"infinite in {row_listing(rows)} (counted from 0)"
            raise InputError(f"{place}: {listed}; fix these cells, or leave them empty")
        return cls(name, kind, values, kind == "number" or own == kind == "boolean")

    @cached_property
    def present(self) -> pd.Series:
        """The values without the missing ones."""
        return self.values.dropna()

    @cached_property
    def counts(self) -> pd.Series:
        """How often each value occurs."""
        return self.present.value_counts(sort=False)

    @cached_property
    def is_id(self) -> bool:
        """Whether these are distinct whole numbers that count without gaps or are called IDs."""
        values = np.unique(self.values)
        if not FEWEST <= len(values) == len(self.values) or (values != np.round(values)).any():
            return False
        called = self.name.lower().replace(" ", "_").endswith(ID_NAMES)
        return called or bool(values[-1] - values[0] == len(values) - 1)

    @property
    def is_plain(self) -> bool:
        """Whether these are numbers without gaps, and no ID."""
        return self.has_numbers and len(self.present) == len(self.values) and not self.is_id

    def content(self, kind: Kind) -> bytes:
        """A checksum, the same for equal columns and for categories that are only renamed."""
        values = self.values.factorize()[0] if kind == "category" else self.values
        return sha256(kind.encode() + np.asarray(values).tobytes()).digest()

    def use(self, is_guess: bool, is_chosen: bool) -> tuple[Kind, str]:
        """The kind that the column is used as, or `id` or `drop` with the reason.

        is_guess: whether the kind was detected; is_chosen: whether the column is named in `columns`
        """
        n, filled = len(self.counts), len(self.present)
        if n < 2:
            return "drop", "constant" if n else "empty"
        if self.kind == "category":
            words = self.counts.index.str.count(r"\S+").to_numpy().mean()
            if is_guess and n > filled / 2 and words >= WORDS:
                return "text", REASONS["text"]
            if is_guess and n == filled:
                return "id", "no two values alike: taken for an ID"
            if is_guess and n > filled / 2:
                return "drop", f"{n} different values in {filled} cells: taken for free text"
            if self.counts.max() < RARE * len(self.values):
                return "drop", f"{n} categories, none in {RARE:.0%} of the rows"
        if self.kind == "number" and is_guess and not is_chosen:
            if self.is_id:
                return "id", "whole numbers, no two alike: taken for an ID"
            if self.counts.index.isin((0, 1)).all():
                return "boolean", ""
        return self.kind, ""


def _guess(text: pd.Series, place: str) -> tuple[Kind, pd.Series]:
    """The first kind that all text can be read as, and the cells of this kind."""
    found = {}
    for kind in _WORDS:
        found[kind] = _parse(text, kind)
        if found[kind].count() == text.count():
            return kind, found[kind]
    if found["number"].count() > text.count() / 2 and text.nunique() > MOST_CATEGORIES:
        _check_parsed(text, found["number"], "number", place)
    return "category", text


def _check_parsed(text: pd.Series, parsed: pd.Series, kind: Kind, place: str) -> None:
    """Refuse the first cell that is not of this kind."""
    for row in np.flatnonzero(parsed.isna() & text.notna())[:1]:
        cell = text.iloc[row][:40]
        decimal = ("; for decimal commas: ", Parameter("decimal", "comma"))
        raise InputError(
            f"{place}: {cell!r} in row {row} (counted from 0) is not {_WORDS[kind]}",
            *(decimal if is_number(cell) else ()),
            "; fix the cell, or set the column's type in the fit: ",
            Parameter("table.kinds", {str(text.name): "category"}),
        )


def _parse(text: pd.Series, kind: Kind, days_first: bool | None = None) -> pd.Series:
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
    return _parse_dates(text.where(text.str.match(_DATE, na=False)), days_first)


def _parse_dates(text: pd.Series, days_first: bool | None) -> pd.Series:
    """By ISO 8601, or by one format for all cells.

    1.3.2024 is the first of March; 3/1/2024 too, unless another cell says that days come first.
    `attrs` keeps which of them it was.
    """
    import pandas as pd

    def parsed(**options: Any) -> pd.Series:
        return pd.to_datetime(text, errors="coerce", utc=True, **options).dt.tz_localize(None)

    found = parsed(format="ISO8601")
    if found.count() == text.count():
        return found
    if days_first is None:
        days_first = bool(text.str.match(r"\d{1,2}\.|(1[3-9]|[23]\d)[-/ ]").any())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # the format is not detected
        found = parsed(dayfirst=days_first)
    found.attrs["days_first"] = days_first
    return found


def _as_floats(cells: pd.Series) -> pd.Series:
    if cells.dtype.kind == "m":
        return cells / np.timedelta64(1, "h")
    if cells.dtype.kind == "M":
        return (cells - np.datetime64(0, "s")) / np.timedelta64(1, "D")
    return cells.astype("float64")


def numeric_frame(frame: pd.DataFrame) -> pd.DataFrame:
    """Columns of numbers without gaps as float64; any other is refused by its name."""
    import pandas as pd

    where = source_of(frame)
    found = {name: Cells.read(frame[name], where, "number").values for name in frame.columns}
    for name, values in found.items():
        if rows := np.flatnonzero(values.isna()).tolist():
            place = f"{where}: column {name!r}: missing in {row_listing(rows)}"
            raise InputError(f"{place} (counted from 0); drop these rows or fill in the cells")
    return pd.DataFrame(found)


# --- one column ---------------------------------------------------------------------------------


class Column(BaseModel):
    """What a fit keeps of a column.

    fill: the value of a missing cell, for each encoded column
    categories: those with an encoded column
    rare: the most frequent of all others, which share one encoded column, and their numbers of rows
    whole: whether all numbers were whole, all dates without a time of day, all times whole minutes
    days_first: whether 3/1/2024 was read as a day of January; None without dates of this form
    reason: why the column is left out
    missing: the number of missing cells; distinct: the number of different values
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    kind: Kind
    fill: tuple[FiniteFloat, ...] = ()
    categories: tuple[str, ...] = ()
    rare: tuple[tuple[str, int], ...] = ()
    whole: bool = False
    days_first: bool | None = None
    reason: str = ""
    missing: int = 0
    distinct: int = 0

    @classmethod
    def of(cls, cells: Cells, kind: Kind, reason: str, impute: str) -> Column:
        """Measured on cells that are used as this kind; with a reason, the column is left out."""
        measured: dict[str, Any] = {}
        if kind == "category":
            measured = _measured_category(cells, impute)
        elif kind in USED:
            measured = _measured_number(cells, kind, impute)
        missing = len(cells.values) - len(cells.present)
        measured |= {"days_first": cells.values.attrs.get("days_first"), "missing": missing}
        return cls(
            name=cells.name, kind=kind, reason=reason, distinct=len(cells.counts), **measured
        )

    @property
    def width(self) -> int:
        """The number of encoded columns."""
        return len(self.fill)

    @property
    def levels(self) -> list[str]:
        """The categories, and `OTHERS` if there is one for rare values."""
        return [*self.categories, *([OTHERS] if self.rare else [])]

    @property
    def names(self) -> list[str]:
        """Names of the encoded columns."""
        is_category = self.kind == "category"
        return [f"{self.name}={level}" for level in self.levels] if is_category else [self.name]

    @model_validator(mode="after")
    def _fits_together(self) -> Column:
        width = len(self.levels) if self.kind == "category" else self.kind in USED
        is_sorted = list(self.categories) == sorted(set(self.categories))
        if self.width != width or not is_sorted or (self.categories and self.kind != "category"):
            raise ValueError(f"{self.name}: kind, categories and fill do not match")
        return self

    @property
    def unit(self) -> float:
        """The scale of the encoded columns of a category or a truth value, which are 0 and 1."""
        levels = 2 if self.kind == "boolean" else max(self.width, 2)
        deviation = math.sqrt(
            (1 - 1 / levels) / levels
        )  # of a column, if all levels are equally frequent
        return deviation / min(TWO_VALUED, 1 / math.sqrt(self.width))

    def describe(self) -> str:
        """The name, with the number of values and of missing cells, or why it is left out."""
        notes = [self.reason] if self.reason else []
        notes += [f"{self.distinct} values"] if self.kind == "category" else []
        notes += [f"{self.missing} missing"] if self.missing and self.distinct else []
        return f"{self.name} ({', '.join(notes)})" if notes else self.name

    def values(self, cells: pd.Series) -> np.ndarray:
        """Cells as numbers (n,): categories as codes of the levels, then of the rare ones.

        NaN where a cell is missing, or of an unknown category without rare ones.
        """
        if self.kind != "category":
            return np.asarray(cells, dtype=np.float64)
        names = [*self.categories, *(name for name, _ in self.rare)]
        codes = cells.map({name: k for k, name in enumerate(names)}).astype("float64")
        unknown = codes.isna() & cells.notna() & bool(self.rare)
        return np.where(unknown, len(names), codes)

    def value(self, cell: Any) -> float:
        """One cell as a number, or one line that says why it is none."""
        import pandas as pd

        read = Cells.read(pd.Series([cell], name=self.name), "given", self.kind, self.days_first)
        value, names = self.values(read.values)[0], [*self.categories, *(n for n, _ in self.rare)]
        if np.isnan(value) or (self.kind == "category" and value >= len(names)):
            hint = suggestion(str(cell), names) if names else ""
            raise InputError(f"given: column {self.name!r} has no value {cell!r}{hint}")
        return float(value)

    def encode(self, values: np.ndarray) -> np.ndarray:
        """The points (n, width) of values (n,); NaN becomes the fill."""
        if self.kind == "category":
            codes = np.where(np.isnan(values), self.width, np.minimum(values, self.width - 1))
            return np.asarray(np.vstack([np.eye(self.width), self.fill])[codes.astype(int)])
        return np.where(np.isnan(values), self.fill[0], values)[:, None]

    def nearest(self, block: np.ndarray) -> np.ndarray:
        """The values (n,) nearest to points (n, width); NaN for a rare category."""
        if self.kind != "category":
            return block[:, 0]
        codes = block.argmax(axis=1)
        return np.where(codes < len(self.categories), codes, np.nan)

    def cells(self, values: np.ndarray) -> Any:
        """The cells of values (n,) without missing ones; NaN is `OTHERS`."""
        if self.kind == "category":
            names = [*self.categories, *(name for name, _ in self.rare), OTHERS]
            codes = np.nan_to_num(values, nan=len(names) - 1).astype(int)
            return np.array(names, dtype=object)[codes]
        if self.kind == "boolean":
            return values >= 0.5
        if self.kind == "time":
            hours = np.round(60 * values) / 60 if self.whole else values
            moments = (datetime.min + timedelta(hours=hour % 24) for hour in hours)
            return np.array([moment.time() for moment in moments], dtype=object)
        values = np.round(values) if self.whole else values
        if self.kind == "date":
            days = np.clip(values, *DAYS) * 86_400_000_000
            return np.datetime64(0, "us") + np.round(days).astype("m8[us]")
        return values.astype(np.int64) if self.whole and np.abs(values).max() < 2**53 else values


def _measured_number(cells: Cells, kind: Kind, impute: str) -> dict[str, Any]:
    values = cells.present
    steps = np.round(60 * values, 6) if kind == "time" else values
    whole = kind != "boolean" and bool((steps % 1 == 0).all())
    if impute == "most_frequent":
        fill = values.mode().iloc[0]
    else:
        fill = values.median() if impute == "median" and kind != "boolean" else values.mean()
    return {"whole": whole, "fill": (float(fill),)}


def _measured_category(cells: Cells, impute: str) -> dict[str, Any]:
    counts = cells.counts.sort_index()
    kept = counts[counts >= math.ceil(RARE * len(cells.values))]
    if len(kept) >= MOST_CATEGORIES:
        kept = kept.sort_values(kind="stable").iloc[1 - MOST_CATEGORIES :].sort_index()
    rare = counts.drop(kept.index).sort_values(ascending=False, kind="stable")
    n = len(cells.present)
    shares = np.array([*kept, *([rare.sum()] if len(rare) else [])]) / n
    fill = np.eye(len(shares))[shares.argmax()] if impute == "most_frequent" else shares
    named = tuple((str(name), int(count)) for name, count in rare.iloc[:MOST_RARE].items())
    return {"categories": tuple(kept.index), "rare": named, "fill": tuple(fill.tolist())}


# --- all columns --------------------------------------------------------------------------------

_ALL = TypeAdapter(tuple[Column, ...])


@dataclass(frozen=True, eq=False)
class Columns:
    """The encoding of a table as points, and the decoding of points as rows."""

    all: tuple[Column, ...]  # in the order of the table

    @classmethod
    def of(cls, frame: pd.DataFrame, options: Options) -> Columns | None:
        """Measured on a frame; None for a frame of plain numbers, which are points already.

        Columns that are not useful are left out, each with a reason.
        """
        where, names = source_of(frame), list(frame.columns)
        given = {*(options.columns or ()), *options.kinds}
        check_names(given, {*names, *map(_vector, names)}, where)
        asked = {n: options.kinds.get(n, options.kinds.get(_vector(n))) for n in names}
        vectors = {_vector(n) for n in names} - set(names)
        asked |= {n: "text" for n in names if not asked[n] and vectors_of(n) in vectors}
        chosen = [n for n in names if not {n, _vector(n)}.isdisjoint(options.columns or ())]
        if options.columns is not None:
            asked |= {n: "drop" for n in names if not asked[n] and n not in chosen}
        out = {n: kind for n, kind in asked.items() if kind in ("drop", "id", "text")}
        cells = {n: Cells.read(frame[n], where, asked[n]) for n in names if n not in out}
        if options == Options() and not out and all(each.is_plain for each in cells.values()):
            return None
        reasons = {n: REASONS.get(kind, "as asked for") for n, kind in out.items()}
        columns = {n: Column(name=n, kind=out[n], reason=reasons[n]) for n in out}
        seen: dict[bytes, str] = {}
        for name, each in cells.items():
            kind, reason = each.use(asked[name] is None, name in chosen)
            if kind in USED:
                first = seen.setdefault(each.content(kind), name)
                if first != name and not asked[name]:
                    kind, reason = "drop", f"says the same as {first!r}"
            columns[name] = Column.of(each, kind, reason, options.impute)
        made = cls(tuple(columns[name] for name in names))
        if not made.used:
            raise InputError(
                f"{where}: no column is of use: {listing([e.describe() for e in made.all], 6)}; "
                "add columns, or set the type of one, for instance ",
                Parameter("table.kinds", {names[-1]: "number"}),
            )
        return made

    @classmethod
    def plain(cls, names: Sequence[str]) -> Columns:
        """Columns of numbers, which are points already."""
        return cls(tuple(Column(name=name, kind="number", fill=(0.0,)) for name in names))

    def to_json(self) -> str:
        """All measured values, as text."""
        return json.dumps([each.model_dump(exclude_defaults=True) for each in self.all])

    @classmethod
    def from_json(cls, text: str) -> Columns:
        """Read what `to_json` wrote; anything else is an `InputError`."""
        try:
            columns = cls(_ALL.validate_json(text))
        except ValueError as error:
            reason = " ".join(str(error).split())[:200]
            raise InputError(f"columns: not written by Columns.to_json ({reason})") from error
        if not columns.used or len(set(columns.inputs)) != len(columns.all):
            raise InputError("columns: none of use, or two of one name")
        return columns

    @cached_property
    def used(self) -> tuple[Column, ...]:
        """The columns that are encoded."""
        return tuple(each for each in self.all if each.kind in USED)

    @property
    def inputs(self) -> list[str]:
        """Names of all columns of the table."""
        return [each.name for each in self.all]

    @property
    def ids(self) -> list[str]:
        """Names of the columns that are written beside the clusters: IDs and text."""
        return [each.name for each in self.all if each.kind in ("id", "text")]

    def texts(self, frame: pd.DataFrame) -> list[str] | None:
        """The cells of the first column of text, '' where missing; None if there is none."""
        for each in self.all:
            if each.kind == "text" and each.name in frame:
                return list(as_text(frame[each.name]).fillna(""))
        return None

    @property
    def text(self) -> list[str]:
        """Names of the columns that must be read as text."""
        return [each.name for each in self.all if each.kind in ("id", "text", "category")]

    @property
    def width(self) -> int:
        """The number of columns of the points."""
        return sum(each.width for each in self.used)

    @property
    def names(self) -> list[str]:
        """Names of the columns of the points."""
        return [name for each in self.used for name in each.names]

    @property
    def kinds(self) -> list[Kind]:
        """For each column of the points, the kind of the column that it encodes."""
        return [each.kind for each in self.used for _ in range(each.width)]

    @property
    def left_out(self) -> str:
        """One line on the columns that are not used, with the reasons; '' if there are none."""
        out = [each.describe() for each in self.all if each.kind not in USED]
        return f"left out: {', '.join(out)}" if out else ""

    def lines(self) -> list[str]:
        """A line for each kind with its columns, and one on those left out."""
        by_kind = {kind: [e.describe() for e in self.used if e.kind == kind] for kind in USED}
        found = [f"{kind}: {', '.join(those)}" for kind, those in by_kind.items() if those]
        return [*found, self.left_out] if self.left_out else found

    def values(self, frame: pd.DataFrame) -> np.ndarray:
        """The used columns of a frame as numbers: (n, q), see `Column.values`."""
        where = source_of(frame)
        check_names([each.name for each in self.used], frame.columns, where)
        read = (
            Cells.read(frame[each.name], where, each.kind, each.days_first) for each in self.used
        )
        pairs = zip(self.used, read, strict=True)
        return np.stack([each.values(cells.values) for each, cells in pairs], axis=1)

    def encode(self, values: np.ndarray) -> np.ndarray:
        """The points of values: (n, q) -> (n, width), float64."""
        pairs = zip(self.used, values.T, strict=True)
        return np.hstack([each.encode(own) for each, own in pairs])

    def transform(self, frame: pd.DataFrame) -> np.ndarray:
        """The points of a frame with at least the used columns: (n, width), float64."""
        return self.encode(self.values(frame))

    def nearest(self, points: np.ndarray) -> np.ndarray:
        """The values nearest to points: (n, width) -> (n, q)."""
        ends = np.cumsum([each.width for each in self.used])
        pairs = zip(self.used, np.split(points, ends[:-1], axis=1), strict=True)
        return np.stack([each.nearest(block) for each, block in pairs], axis=1)

    def frame(self, values: np.ndarray) -> pd.DataFrame:
        """The rows of values (n, q) without missing ones, with the used columns."""
        import pandas as pd

        pairs = zip(self.used, values.T, strict=True)
        return pd.DataFrame({each.name: each.cells(own) for each, own in pairs})

    def rules(self, values: np.ndarray) -> Rules:
        """What all rows of values (n, q) keep."""
        levels = {
            k: (len(each.categories), tuple(count for _, count in each.rare))
            for k, each in enumerate(self.used)
            if each.kind == "category"
        }
        return Rules.of(values, [each.kind for each in self.used], levels)

    def scaling(self, points: np.ndarray, kind: str | tuple[float, float]) -> Scaling:
        """Between the units of the points and the network's.

        Numbers, dates and times have the deviation 1. Categories and truth values have less: no
        category decides alone. With equally frequent values, each column of a category has the
        deviation `TWO_VALUED`, the most that `graph.neighbours` gives columns of two values, and
        less if all its columns would vary more than one number together. A rare value weighs no
        more than a frequent one.
        """
        scaling = Scaling.of(points, kind)
        if kind != "standard":
            return scaling
        is_share = np.isin(self.kinds, ("category", "boolean"))
        units = np.array([each.unit for each in self.used for _ in range(each.width)])
        return replace(scaling, scale=np.where(is_share, units, scaling.scale))


def _vector(name: str) -> str:
    """The name of the column of vectors that a column like e[0] is from."""
    return name.rpartition("[")[0] or name


def vectors_of(text: str) -> str:
    """The name of the column of vectors that `gedi data embed` makes of a column of text."""
    return f"{text} vector"
