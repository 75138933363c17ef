"""The columns of a table as points: gaps filled, categories encoded, and the way back.

The work is that of scikit-learn's transformers; what they measured is kept as plain JSON, from
which the same transformers are made again, so that new rows are treated as those of the fit.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from pydantic import BaseModel, ConfigDict, FiniteFloat, TypeAdapter
from sklearn.impute import SimpleImputer
from sklearn.preprocessing import OneHotEncoder

from gedilearn.data.arrays import Scaling, listing
from gedilearn.data.kinds import MOST_CATEGORIES, RARE, RAW, USED, Decided, decide, is_plain
from gedilearn.data.metric import TWO_VALUED
from gedilearn.data.table import DAYS, Column, Meaning, Table, check_no_infinity
from gedilearn.errors import InputError
from gedilearn.settings import Kind
from gedilearn.settings import Table as Options

OTHERS = "(other)"  # what all rare categories are called
LEAST_GAP = 2.0  # hours without any time of day in which the day may begin


class OneColumn(BaseModel):
    """What is kept of a column.

    fill: what a missing cell becomes, in each of the columns that it is encoded as
    categories: those that have a column of their own; others: whether there is one for all others
    whole: whether all numbers were whole, all dates without a time of day, all times whole minutes
    begins: the hour at which the day of a column of times begins
    words: for truth values that were text, what false and true were called
    unit: what stood beside its numbers: $, %, kg
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
    begins: FiniteFloat = 0.0
    words: tuple[str, str] | None = None
    unit: str = ""
    days_first: bool | None = None
    reason: str = ""
    missing: int = 0
    distinct: int = 0

    @property
    def width(self) -> int:
        """How many columns it is encoded as."""
        return len(self.fill)

    @property
    def names(self) -> list[str]:
        """Of the columns that it is encoded as."""
        if self.kind != "category":
            return [self.name] * self.width
        ends = [*self.categories, *([OTHERS] if self.others else [])]
        return [f"{self.name}={end}" for end in ends]

    @cached_property
    def encoder(self) -> OneHotEncoder:
        """Made anew from the categories: each twice, and a rare one that stands for the others."""
        values = [[name] for name in self.categories for _ in range(2)]
        # Longer than any category, so it is none of them.
        rare = "".join(self.categories) + OTHERS
        return _encoder(2).fit(np.array(values + [[rare]] * self.others, dtype=object))


_KEPT = TypeAdapter(tuple[OneColumn, ...])


@dataclass(frozen=True, eq=False)
class Columns:
    """How the columns of a table become points, and points become rows again."""

    all: tuple[OneColumn, ...]  # in the order of the table

    # --- making and keeping ------------------------------------------------------------------

    @classmethod
    def of(cls, table: Table, options: Options, where: str = "X") -> Columns | None:
        """Measured on a table; None where it is nothing but numbers, which are points already."""
        return None if is_plain(table, options) else cls.fit(table, options, where)

    @classmethod
    def fit(cls, table: Table, options: Options, where: str = "X") -> Columns:
        """Measured on a table."""
        if len(table) < 2:
            raise InputError(f"{where}: 1 row, or sample; clustering needs at least 2")
        decided = decide(table, options, where)
        columns = cls(
            tuple(
                _fitted(each, raw, options.impute)
                for each, raw in zip(decided, table.columns, strict=True)
            )
        )
        if not columns.used:
            reasons = [f"{each.name!r} ({each.reason})" for each in columns.all]
            raise InputError(
                f"{where}: no column is of use: {listing(reasons, 6)}; say what they are "
                "(--numeric, --categorical, or 'table.kinds'), or add columns"
            )
        return columns

    def to_json(self) -> str:
        """All that was measured, as text."""
        kept = [each.model_dump(exclude_defaults=True) for each in self.all]
        return json.dumps(kept)

    @classmethod
    def from_json(cls, text: str) -> Columns:
        """Read what `to_json` wrote; anything else is an `InputError`."""
        try:
            columns = cls(_KEPT.validate_json(text))
        except ValueError as error:
            reason = " ".join(str(error).split())[:200]
            raise InputError(f"columns: not written by Columns.to_json ({reason})") from error
        sound = all(_is_sound(each) for each in columns.all)
        names = [each.name for each in columns.all]
        if not columns.used or not sound or len(set(names)) != len(names):
            raise InputError("columns: names, categories and fills do not match")
        return columns

    # --- what they are -----------------------------------------------------------------------

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
    def width(self) -> int:
        """How many columns the points have."""
        return sum(each.width for each in self.used)

    @property
    def names(self) -> list[str]:
        """Of the columns of the points."""
        return [name for each in self.used for name in each.names]

    @property
    def meanings(self) -> dict[int, Meaning]:
        """Which columns of the points are shares, dates or times of day."""
        known: dict[str, Meaning] = {"category": "share", "boolean": "share"}
        known |= {"date": "date", "time": "time"}
        kinds = [each.kind for each in self.used for _ in range(each.width)]
        return {j: known[kind] for j, kind in enumerate(kinds) if kind in known}

    def lines(self) -> list[str]:
        """What was taken as what, in words: a line for each kind."""
        found = []
        for kind in USED:
            if those := [_words(each) for each in self.used if each.kind == kind]:
                found.append(f"{kind}: {', '.join(those)}")
        out = [f"{each.name} ({each.reason})" for each in self.all if each.kind not in USED]
        return [*found, f"left out: {', '.join(out)}"] if out else found

    # --- there and back ----------------------------------------------------------------------

    def transform(self, table: Table, where: str = "") -> np.ndarray:
        """The points of a table that has the used columns: (n, width), float64."""
        where = where or table.source or "X"
        gone = [each.name for each in self.used if each.name not in table]
        table = table.select(gone or [each.name for each in self.used], where)
        blocks = []
        for each, raw in zip(self.used, table.columns, strict=True):
            place = f"{where}: column {each.name!r}"
            column = raw.as_kind(RAW[each.kind], place, each.days_first)
            check_no_infinity(column, place)
            if column.unit and column.unit != each.unit:
                fitted = f"in {each.unit}" if each.unit else "without a unit"
                raise InputError(f"{place}: in {column.unit}, but those of the fit were {fitted}")
            blocks.append(_encoded(each, column))
        fills = [fill for each in self.used for fill in each.fill]
        imputer = SimpleImputer(strategy="mean").fit(np.array([fills]))
        return np.asarray(imputer.transform(np.hstack(blocks)), dtype=np.float64)

    def inverse(self, points: np.ndarray) -> Table:
        """The rows nearest to points (n, width): the used columns alone."""
        columns, start = {}, 0
        for each in self.used:
            columns[each.name] = _decoded(each, points[:, start : start + each.width])
            start += each.width
        return Table.of(columns)

    def scaling(self, points: np.ndarray, kind: str) -> Scaling:
        """Between the units of the points and the network's.

        Numbers, dates and times have the deviation 1. Categories and truth values have less, so
        that none of them decides alone: if all values of a category were equally frequent, each of
        its columns would have the deviation `TWO_VALUED`, which `data.metric` gives columns of two
        values, or less, so that all of them together vary no more than one number. A rare value
        weighs no more than a frequent one.
        """
        scaling = Scaling.of(points, kind)
        if kind != "standard":
            return scaling
        scale, start = scaling.scale.copy(), 0
        for each in self.used:
            if each.kind in ("category", "boolean"):
                scale[start : start + each.width] = _unit(each)
            start += each.width
        return replace(scaling, scale=scale)


def _unit(each: OneColumn) -> float:
    """What is one unit of the columns of a category or a truth value, which are 0 and 1."""
    levels = 2 if each.kind == "boolean" else max(each.width, 2)
    deviation = math.sqrt((1 - 1 / levels) / levels)  # of each column, if all are as frequent
    return deviation / min(TWO_VALUED, 1 / math.sqrt(each.width))


def _encoder(least: int) -> OneHotEncoder:
    return OneHotEncoder(
        handle_unknown="infrequent_if_exist",
        min_frequency=least,
        max_categories=MOST_CATEGORIES,
        sparse_output=False,
    )


def _fitted(each: Decided, raw: Column, impute: str) -> OneColumn:
    """What is to be kept of a column."""
    column = each.column
    present = ~column.missing
    kept = OneColumn(
        name=each.name,
        kind=each.kind,
        unit=column.unit,
        days_first=column.days_first,
        reason=each.reason,
        missing=int((~present).sum()),
        distinct=len(set(column.values[present].tolist())),
    )
    if each.kind not in USED:
        return kept
    if each.kind == "category":
        least = max(1, math.ceil(RARE * len(column)))
        encoder = _encoder(least).fit(column.values[present][:, None])
        rare = encoder.infrequent_categories_[0]
        rare = set() if rare is None else set(rare)
        names = tuple(str(name) for name in encoder.categories_[0] if name not in rare)
        kept = kept.model_copy(update={"categories": names, "others": bool(rare)})
        kept = kept.model_copy(update={"fill": (0.0,) * (len(names) + bool(rare))})
    else:
        begins = _begin_of_day(column.numbers()[present]) if each.kind == "time" else 0.0
        words = _truth_words(each, raw)
        kept = kept.model_copy(update={"fill": (0.0,), "words": words, "begins": begins})
    block = _encoded(kept, column)
    strategy = impute
    if each.kind in ("category", "boolean"):
        strategy = "mean"
        if impute == "most_frequent":  # of whole rows of the block: one category
            rows, counts = np.unique(block[present], axis=0, return_counts=True)
            block = rows[[counts.argmax()]]
    fill = SimpleImputer(strategy=strategy).fit(block).statistics_
    numbers = column.numbers()[present] if each.kind != "category" else np.zeros(1)
    steps = np.round(60 * numbers, 6) if each.kind == "time" else numbers
    whole = each.kind in ("number", "date", "time") and bool((steps == np.round(steps)).all())
    return kept.model_copy(update={"fill": tuple(map(float, fill)), "whole": whole})


def _begin_of_day(hours: np.ndarray) -> float:
    """Midnight, unless times lie on both sides of it and the widest gap between them is elsewhere.

    Then the middle of that gap: a night from 22:00 to 4:00 is not cut in two.
    """
    at = np.unique(hours)
    gaps = np.append(at[1:], at[0] + 24) - at  # the last one is that around midnight
    widest = int(gaps.argmax())
    if gaps[widest] < max(LEAST_GAP, gaps[-1] + 1e-9):
        return 0.0
    return float(at[widest] + gaps[widest] / 2)


def _truth_words(each: Decided, raw: Column) -> tuple[str, str] | None:
    """What false and true were called in a column of text."""
    if each.kind != "boolean" or raw.kind != "text":
        return None
    found = {value: str(text) for value, text in zip(each.column.values, raw.values, strict=True)}
    return found.get(0.0, "false"), found.get(1.0, "true")


def _encoded(each: OneColumn, column: Column) -> np.ndarray:
    """(n, width), NaN in rows that are missing, or of a category that is not known."""
    if each.kind == "time":
        return ((column.numbers() - each.begins) % 24 + each.begins)[:, None]
    if each.kind != "category":
        return column.numbers()[:, None]
    known = set(each.categories)
    gaps = np.array([v is None or (v not in known and not each.others) for v in column.values])
    values = np.where(column.missing, each.categories[0] if known else OTHERS, column.values)
    block = np.asarray(each.encoder.transform(values[:, None].astype(object)), dtype=np.float64)
    block[gaps] = np.nan
    return block


def _decoded(each: OneColumn, block: np.ndarray) -> Column:
    if each.kind == "category":
        names = np.array([*each.categories, *([OTHERS] if each.others else [])], dtype=object)
        return Column("text", names[block.argmax(axis=1)])
    values = block[:, 0]
    if each.kind == "boolean":
        truth = values >= 0.5
        if each.words:
            return Column("text", np.array(each.words, dtype=object)[truth.astype(int)])
        return Column("boolean", truth.astype(np.float64))
    if each.kind == "time":
        return Column("time", (np.round(60 * values) / 60 if each.whole else values) % 24)
    values = np.round(values) if each.whole else values
    if each.kind == "number":
        return Column("number", values)
    days = np.clip(values, *DAYS)
    return Column("date", np.datetime64(0, "us") + (days * 86_400_000_000).astype("m8[us]"))


def _is_sound(each: OneColumn) -> bool:
    """Whether what a file says of a column fits together."""
    if each.kind not in USED:
        return not each.fill
    if each.kind != "category":
        return each.width == 1 and not each.categories
    distinct = len(set(each.categories)) == len(each.categories)
    ordered = list(each.categories) == sorted(each.categories)
    return distinct and ordered and 1 <= each.width == len(each.categories) + each.others


def _words(each: OneColumn) -> str:
    notes = []
    if each.unit:
        notes.append(f"in {each.unit}")
    if each.kind == "category":
        notes.append(f"{each.distinct} values")
    if each.missing:
        notes.append(f"{each.missing} missing")
    return f"{each.name} ({', '.join(notes)})" if notes else each.name
