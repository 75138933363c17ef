"""Cells of text: which are missing, and which are numbers, truth values, dates or times."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime, time, timedelta
from typing import Any, TypeVar

import numpy as np

# Most of what pandas takes for missing, and the mark of the UCI repository.
MISSING = frozenset(["", "NA", "N/A", "n/a", "#N/A", "<NA>", "NaT", "NULL", "null", "None", "?"])
MISSING |= {"#DIV/0!", "#NAME?", "#NUM!", "#REF!", "#VALUE!"}  # what Excel could not compute
# What may be a category, but stands for a missing cell among numbers, truth values, dates or times.
NO_VALUE = frozenset(["-", "--", "\u2013", "\u2014", ".", "n.a.", "none", "missing", "unknown"])
TRUTH = ({"false", "true"}, {"no", "yes"}, {"f", "t"}, {"n", "y"})  # the first of a pair is false
# 6:45, 18:30:05.25, 6:45 PM and 6 pm.
_CLOCK = (
    r"(?P<hour>\d{1,2})(?::(?P<minute>\d{2})(?::(?P<seconds>\d{2})(?:\.(?P<part>\d{1,9}))?)?)?"
    r"(?:\s?(?P<half>[AaPp])\.?[Mm]\.?)?"
)
_MONTHS = (
    *("january", "february", "march", "april", "may", "june"),
    *("july", "august", "september", "october", "november", "december"),
)
_TIME = re.compile(_CLOCK)
_DATE = re.compile(
    r"(?:(?P<year>\d{4})(?P<s>[-/.])(?P<month>\d{1,2})(?P=s)(?P<day>\d{1,2})"
    r"|(?P<first>\d{1,2})(?P<mark>[-/.])(?P<second>\d{1,2})(?P=mark)(?P<last>\d{4}|(?<=[/.])\d{2})"
    r"|(?P<of>\d{1,2})[-. ]\s?(?P<name>[A-Za-z]{3,9})\.?[-, ]\s?(?P<in>\d{4}|(?<=-)\d{2})"
    r"|(?P<us>[A-Za-z]{3,9})\.? (?P<at>\d{1,2}), (?P<when>\d{4}))"
    rf"(?:[T ]{_CLOCK}\s?(?P<zone>Z|[+-]\d{{2}}:?\d{{2}})?)?"
)
# Numbers whose digits are in groups of three. Between these, blanks (also those of typesetting),
# apostrophes, or the one of point and comma that is not the decimal mark.
_GROUPED = {
    decimal: re.compile(
        rf"[+-]?[1-9]\d{{0,2}}(?P<mark>[ \u00a0\u2009\u202f'\u2019{other}])\d{{3}}"
        rf"(?:(?P=mark)\d{{3}})*(?P<rest>[{decimal}]\d*)?"
    )
    for decimal, other in ((".", ","), (",", "."))
}
# A number with its unit: money before it, or money, a percent sign or a word behind it.
_MONEY = (
    r"(?:[A-Z]{0,2}[$\u00a3\u00a5\u20ac\u20b9]|AUD|BRL|CAD|CHF|CNY|CZK|DKK|EUR|GBP|HUF|INR|JPY|KRW|"
    r"MXN|NOK|PLN|SEK|TRY|USD|ZAR)"
)
_MEASURE = re.compile(
    rf"(?P<sign>[+-]?)(?P<before>{_MONEY})?\s?(?P<digits>[+-]?\d(?:[\d.,'\u2019\s]*\d)?)\s?"
    r"(?P<after>[^\W\d_][^\d]{0,9}|[%\u2030\u00b0$\u00a3\u00a5\u20ac\u20b9][^\d]{0,3})?"
)
CODE = 5  # the fewest digits of a code
Value = TypeVar("Value")


def cell(text: str) -> str | None:
    """The text of a cell without blanks around it, None where it is missing."""
    text = text.strip()
    return None if text in MISSING or text.lower() in ("nan", "-nan") else text


def number(text: str, decimal: str = ".") -> float | None:
    """The value of a cell, NaN when it is missing, None when it is text.

    decimal: the mark before its fraction, '.' or ','
    """
    text = _signed(text.strip())
    if decimal == "," and "." in text:
        return _grouped(text, decimal)
    try:
        return None if "_" in text else float(text.replace(decimal, ".") or "nan")
    except ValueError:
        return _grouped(text, decimal)


def bare(text: str) -> tuple[str, str]:
    """A number without its unit, and the unit: $ 5 and 5 $ have the same. Other text as it is."""
    text = text.strip()
    if text[:1].isdigit() and text[-1:].isdigit():  # most numbers: there is no room for a unit
        return text, ""
    text = _signed(text)
    match = _MEASURE.fullmatch(text)
    if match is None or bool(match["before"]) == bool(match["after"]):
        return text, ""
    return match["sign"] + match["digits"], (match["before"] or match["after"]).strip()


def is_grouped(text: str, decimal: str) -> bool:
    """Whether the digits of a number are in groups of three."""
    return _GROUPED[decimal].fullmatch(_signed(text.strip())) is not None


def stands_for_nothing(text: str) -> bool:
    """Whether a cell among numbers, truth values, dates or times is missing: see `NO_VALUE`."""
    return text.lower() in NO_VALUE


def are_codes(cells: Sequence[str]) -> bool:
    """Whether all are as many digits, five or more, and some begin with 0, as 01005."""
    if not cells or len(cells[0]) < CODE or not any(text[0] == "0" for text in cells):
        return False
    return all(len(text) == len(cells[0]) and text.isdecimal() for text in cells)


def _signed(text: str) -> str:
    """(1,200), as accountants write it, with its sign."""
    return f"-{text[1:-1]}" if text[:1] == "(" and text[-1:] == ")" else text


def _grouped(text: str, decimal: str) -> float | None:
    match = _GROUPED[decimal].fullmatch(text)
    if match is None:
        return None
    fraction = match["rest"] or ""
    whole = text.removesuffix(fraction).replace(match["mark"], "")
    return float(whole + fraction.replace(decimal, "."))


def numbers(cells: Iterable[str], decimal: str = ".") -> dict[str, float] | None:
    """The numbers of these cells, None if one of them is none."""
    found = _all(cells, lambda text: number(text, decimal))
    return None if found is None or any(value != value for value in found.values()) else found


def measures(cells: Iterable[str], decimal: str = ".") -> tuple[dict[str, float], str] | None:
    """The numbers of cells that have one unit, and the unit; None if they are no such cells."""
    parts = {text: bare(text) for text in cells}
    units = {unit for _, unit in parts.values()}
    if len(units) != 1 or units == {""}:
        return None
    found = numbers((digits for digits, _ in parts.values()), decimal)
    if found is None:
        return None
    return {text: found[digits] for text, (digits, _) in parts.items()}, units.pop()


def truths(cells: Iterable[str]) -> dict[str, float] | None:
    """0 for false, 1 for true; None unless all are words of one pair, such as yes and no."""
    lower = {text: text.lower() for text in cells}
    for pair in TRUTH:
        if lower and set(lower.values()) <= pair:
            true = max(pair)  # t, true, y and yes come last in the alphabet too
            return {text: float(word == true) for text, word in lower.items()}
    return None


def dates(
    cells: Iterable[str], days_first: bool | None = None
) -> tuple[dict[str, np.datetime64], bool | None] | None:
    """The dates of these cells, and whether days come first in them; None if one of them is none.

    2024-03-01 and 2024/3/1, with or without a time of day; 1.3.2024 is the first of March. 3/1/2024
    is too, unless a number above 12, or `days_first`, says that days come first. Years of two
    digits, as in 3/1/24, are those from 1969 to 2068. Months may have English names: 1 Mar 2024,
    1-Mar-24, March 1, 2024.
    """
    matches = _all(cells, _DATE.fullmatch)
    if not matches:
        return None
    found = [match.group("first", "mark", "second") for match in matches.values()]
    numeric = [(int(a), mark, int(b)) for a, mark, b in found if a]
    if not numeric:
        days_first = None
    elif days_first is None:
        days_first = all(mark == "." for _, mark, _ in numeric) or any(a > 12 for a, *_ in numeric)
    try:
        return {text: _date(match, bool(days_first)) for text, match in matches.items()}, days_first
    except (ValueError, OverflowError):  # the 30th of February
        return None


def _date(match: re.Match[str], days_first: bool) -> np.datetime64:
    part = match.groupdict()
    if part["year"]:
        year, month, day = part["year"], part["month"], part["day"]
    elif part["first"]:
        year, month, day = part["last"], part["first"], part["second"]
        month, day = (day, month) if days_first else (month, day)
    else:
        year, day = part["in"] or part["when"], part["of"] or part["at"]
        month = _month(part["name"] or part["us"])
    century = 0 if len(year) == 4 else 2000 if int(year) < 69 else 1900
    when = datetime(century + int(year), int(month), int(day))
    if part["hour"]:
        when = datetime.combine(when, _time(match))
    if part["zone"] and part["zone"] != "Z":
        sign, digits = part["zone"][0], part["zone"][1:].replace(":", "")
        ahead = timedelta(hours=int(digits[:2]), minutes=int(digits[2:]))
        when = when - ahead if sign == "+" else when + ahead
    return np.datetime64(when, "us")


def _month(name: str) -> int:
    """By its English name, or three letters or more of it; 0 if it is none."""
    found = (k for k, word in enumerate(_MONTHS, 1) if word.startswith(name.lower()))
    return next(found, 0)


def times(cells: Iterable[str]) -> dict[str, float] | None:
    """The times of day of these cells, in hours since midnight; None if one of them is none."""
    matches = _all(cells, _TIME.fullmatch)
    if not matches:
        return None
    try:
        return {text: hours(_time(match)) for text, match in matches.items()}
    except ValueError:  # 25:10
        return None


def hours(when: time) -> float:
    """Since midnight."""
    micro = when.second * 1_000_000 + when.microsecond
    return when.hour + when.minute / 60 + micro / 3_600_000_000


def clock(hours: float) -> time:
    """The time of day so many hours after midnight, to the microsecond."""
    seconds, micro = divmod(round(hours * 3_600_000_000) % 86_400_000_000, 1_000_000)
    return time(seconds // 3600, seconds // 60 % 60, seconds % 60, micro)


def _time(match: re.Match[str]) -> time:
    part = match.groupdict()
    hour = int(part["hour"])
    if part["half"]:
        if not 1 <= hour <= 12:
            raise ValueError("there is no such hour before or after noon")
        hour = hour % 12 + (12 if part["half"] in "Pp" else 0)
    elif part["minute"] is None:
        raise ValueError("a number of hours alone is no time of day")
    micro = int(f"{part['part'] or '':0<6}"[:6])
    return time(hour, int(part["minute"] or 0), int(part["seconds"] or 0), micro)


def _all(cells: Iterable[str], read: Callable[[str], Value | None]) -> dict[str, Value] | None:
    """What `read` gives for each cell, None as soon as it gives None for one."""
    found: dict[str, Any] = {}
    for text in cells:
        value = read(text)
        if value is None:
            return None
        found[text] = value
    return found
