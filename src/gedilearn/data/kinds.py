"""What the columns of a table are: numbers, truth values, dates, times, categories, or of no use.

The rules are for tables as people have them; `settings.Table` goes before them. docs/tables.md.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass

import numpy as np

from gedilearn.data import cells
from gedilearn.data.table import Column, Raw, Table, check_no_infinity
from gedilearn.errors import InputError, suggestion
from gedilearn.settings import Kind
from gedilearn.settings import Table as Options

USED = ("number", "boolean", "date", "time", "category")
RAW: dict[str, Raw] = {
    "number": "number",
    "boolean": "boolean",
    "date": "date",
    "time": "time",
    "category": "text",
}

MOST_CATEGORIES = 20  # of a column, the last of which are all others together
RARE = 0.01  # of the rows: a category below that is one of the others
FEWEST = 20  # numbers by which an ID is told
_ID = re.compile(r"(?:^|[^a-z])(?:id|uuid|guid|index|key|nr|no)$|^unnamed|^row(?:number|num)?$")
_CAMEL = re.compile(r"(?<=[a-z])(?=[A-Z])")


@dataclass(frozen=True, eq=False)
class Decided:
    """A column, what it is, and for one that is left out, why."""

    name: str
    kind: Kind
    column: Column  # as that kind
    reason: str = ""


def decide(table: Table, options: Options, where: str) -> list[Decided]:
    """Say what each column of a table is; columns without use are left out with a reason."""
    options = _by_parts(table, options)
    _check_names(table, options, where)
    decided: list[Decided] = []
    for name, raw in zip(table.names, table.columns, strict=True):
        place, kind = f"{where}: column {name!r}", options.kinds.get(name)
        if options.columns is not None and name not in options.columns and kind is None:
            decided.append(Decided(name, "drop", raw, "not among the columns asked for"))
        elif kind in ("drop", "id"):
            decided.append(Decided(name, kind, raw, "as asked for"))
        else:
            asked = options.columns is not None and name in options.columns
            decided.append(_decide(name, raw, kind, asked, place))
    return _without_doubles(decided, set(options.kinds))


def is_plain(table: Table, options: Options) -> bool:
    """Whether all columns are numbers without gaps or IDs: points as they are."""
    if options != Options():
        return False
    for name, raw in zip(table.names, table.columns, strict=True):
        column = raw.typed()
        is_number = column.kind == "number" or (column.kind == "boolean" and column is raw)
        if not is_number or column.missing.any():
            return False
        if table.named and column.kind == "number" and _looks_like_id(name, column):
            return False
    return True


def _by_parts(table: Table, options: Options) -> Options:
    """The columns e[0], e[1], ... for what is asked of a column e of vectors."""

    def parts(name: str) -> list[str]:
        found = [] if name in table else [n for n in table.names if n.startswith(f"{name}[")]
        return found or [name]

    columns, kinds = options.columns, options.kinds
    return options.model_copy(
        update={
            "columns": columns and tuple(part for name in columns for part in parts(name)),
            "kinds": {part: kind for name, kind in kinds.items() for part in parts(name)},
        }
    )


def _check_names(table: Table, options: Options, where: str) -> None:
    for name in (*(options.columns or ()), *options.kinds):
        if name not in table:
            raise InputError(f"{where}: no column {name!r}{suggestion(name, table.names)}")


def _decide(name: str, raw: Column, asked_kind: Kind | None, asked: bool, where: str) -> Decided:
    if raw.kind == "other":
        raise InputError(
            f"{where} holds {raw.unit} objects: neither numbers, text, dates nor vectors of one "
            f"length; leave it out (--drop, or 'table.kinds': {{{name!r}: 'drop'}})"
        )
    if asked_kind is not None:
        column, kind = raw.as_kind(RAW[asked_kind], where), asked_kind
    else:
        column = raw.typed()
        kind = "category" if column.kind == "text" else column.kind  # type: ignore[assignment]
    check_no_infinity(column, where)
    present = int((~column.missing).sum())
    if not present:
        return Decided(name, "drop", column, "empty")
    values = column.values[~column.missing]
    n_distinct = len(set(values.tolist()))
    if n_distinct == 1:
        gaps = len(column) - present
        words = f"constant, {gaps} missing" if gaps else "constant"
        return Decided(name, "drop", column, words)
    if kind == "category":
        if asked_kind is None:
            _check_few_typos(column, n_distinct, where)
            if present == n_distinct:
                return Decided(name, "id", column, "no two values alike: taken for an ID")
            if n_distinct > present / 2:
                words = f"{n_distinct} different values in {present} cells: taken for free text"
                return Decided(name, "drop", column, words)
        if not _frequent(values, len(column)):
            words = f"{n_distinct} categories, none in {RARE:.0%} of the rows"
            return Decided(name, "drop", column, words)
    elif asked_kind is None and not asked and kind == "number":
        if _looks_like_id(name, column):
            return Decided(name, "id", column, "whole numbers, no two alike: taken for an ID")
        if set(values.tolist()) == {0, 1}:
            return Decided(name, "boolean", Column("boolean", column.numbers()))
    return Decided(name, kind, column)


def _looks_like_id(name: str, column: Column) -> bool:
    """Whole numbers of which no two are alike, and that count, are called IDs or spread evenly.

    Numbers that are measured may all differ too, but they crowd around something.
    """
    if column.missing.any() or column.unit or len(column) < FEWEST:
        return False
    values = column.values
    low, high = float(values.min()), float(values.max())
    if high - low < len(values) - 1 or not np.isfinite([low, high]).all():
        return False
    if values.dtype.kind == "f" and not (values == np.round(values)).all():
        return False
    in_order = np.sort(values)
    if (in_order[1:] == in_order[:-1]).any():
        return False
    counts = high - low == len(values) - 1
    words = _CAMEL.sub(" ", name).lower().replace("_", " ").strip()
    return counts or bool(_ID.search(words)) or _spreads_evenly(in_order)


def _spreads_evenly(values: np.ndarray) -> bool:
    """Whether sorted values look drawn evenly between the smallest and the largest.

    The largest difference between the two distribution functions, as Kolmogorov and Smirnov
    measure it, is below what even numbers exceed once in 20 times; few numbers say too little.
    """
    n = len(values)
    if n < 10 * FEWEST:
        return False
    at = (values - values[0]) / (values[-1] - values[0])
    ranks = np.arange(n + 1) / n
    largest = max((ranks[1:] - at).max(), (at - ranks[:-1]).max())
    return bool(largest < 1.36 / np.sqrt(n))


def _check_few_typos(column: Column, n_distinct: int, where: str) -> None:
    """Refuse text, or another unit, in a column of numbers, unless so few values are names."""
    present = {
        row: value
        for row, value in enumerate(column.values)
        if value is not None and not cells.stands_for_nothing(value)
    }
    if (
        column.is_category
        or n_distinct <= MOST_CATEGORIES
        or cells.are_codes(list(present.values()))
    ):
        return
    parts = {value: cells.bare(value) for value in present.values()}
    units = {
        value: unit
        for value, (digits, unit) in parts.items()
        if cells.number(digits, column.decimal) is not None
    }
    usual, count = Counter(map(units.get, present.values())).most_common(1)[0]
    others = [(row, value) for row, value in present.items() if units.get(value) != usual]
    if usual is None or count <= len(others) or not others:
        return
    row, value = others[0]
    wrong = "not a number" if value not in units or not usual else f"not in {usual}"
    raise InputError(
        f"{where}: {value[:40]!r} in row {row} (counted from 0) is {wrong}, as most of its cells "
        "are; mend it or leave it empty, take the column for categories (--categorical) or leave "
        "it out (--drop)"
    )


def _frequent(values: np.ndarray, n_rows: int) -> list[str]:
    counts = np.unique(values.astype(str), return_counts=True)
    return [name for name, n in zip(*counts, strict=True) if n >= RARE * n_rows]


def _without_doubles(decided: list[Decided], asked: set[str]) -> list[Decided]:
    """Columns that say the same as an earlier one are left out: they would count twice."""
    seen: dict[bytes, str] = {}
    kept = []
    for each in decided:
        if each.kind in USED:
            first = seen.setdefault(_content(each), each.name)
            if first != each.name and each.name not in asked:
                same = "the same as" if each.kind != "category" else "says the same as"
                each = Decided(each.name, "drop", each.column, f"{same} {first!r}")
        kept.append(each)
    return kept


def _content(each: Decided) -> bytes:
    """Bytes that are equal for equal columns; of categories, whatever they are called."""
    if each.kind != "category":
        return b"numbers" + each.column.numbers().tobytes()
    places: dict[str | None, int] = {None: -1}
    codes = [places.setdefault(value, len(places)) for value in each.column.values]
    return b"categories" + np.array(codes).tobytes()
