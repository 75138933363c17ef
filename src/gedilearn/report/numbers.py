"""Numbers and names from a run directory as people write them."""

from __future__ import annotations

import math
from typing import Any

from gedilearn.io import printable

UNKNOWN = "not finite"


def number(value: Any) -> float:
    """A number as a run directory writes it ('inf' and 'nan' by name); NaN for anything else."""
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        return math.nan


def one_line(text: Any, width: int = 90) -> str:
    """Printable text on one line: names of files may hold anything."""
    shown = printable(str(text)).replace("\n", " ")
    return shown if len(shown) <= width else shown[: width - 1] + "…"


def digits(value: Any, most: int = 4) -> str:
    """A number with at most so many digits, without powers of ten where people write none."""
    as_number = number(value)
    if not math.isfinite(as_number):
        return UNKNOWN
    is_whole = as_number == round(as_number) and abs(as_number) < 1e9
    if is_whole or 1e4 <= abs(as_number) < 1e9:
        return f"{as_number:,.0f}"
    return f"{as_number:.{most}g}"


def beside(a: float, b: float) -> tuple[str, str]:
    """Two numbers with as many digits after the point as their difference needs."""
    largest, apart = max(abs(a), abs(b)), abs(a - b)
    if not (math.isfinite(largest) and 1e-4 <= largest < 1e9):
        return digits(a, 3), digits(b, 3)
    most = max(3 - math.floor(math.log10(largest)), 0)
    places = min(max(2 - math.floor(math.log10(apart)), 0), most) if apart else most
    first, second = (f"{round(v, places) + 0.0:,.{places}f}" for v in (a, b))
    return first, second


def percent(share: Any) -> str:
    """A share in percent; 99.9% is not 100%."""
    value = 100 * number(share)
    if not math.isfinite(value):
        return UNKNOWN
    shown = f"{value:.0f}" if abs(value) >= 10 else f"{value:.1f}"
    if value < 100 and shown == "100":
        shown = "99.9" if value >= 99.9 else f"{value:.1f}"
    return f"{shown.removesuffix('.0')}%"
