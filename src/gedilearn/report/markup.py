"""HTML from values. What comes from files passes through `text`: a name may be markup."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape
from typing import Any

from gedilearn.report.run import number

# A column of a table: its title and the class of its cells.
Column = tuple[str, str]
TEXT, NUMBER, LONG, STATE, KIND = "", "number", "long", "state", "kind"
UNKNOWN = "not finite"


def text(value: Any) -> str:
    """Text from anywhere, harmless in an element or an attribute."""
    return escape(str(value), quote=True)


def digits(value: Any, most: int = 4) -> str:
    """A number in as many digits, without powers of ten where people write none."""
    as_number = number(value)
    if not math.isfinite(as_number):
        return UNKNOWN
    if as_number == round(as_number) and abs(as_number) < 1e9:
        return f"{as_number:,.0f}"
    if 1e4 <= abs(as_number) < 1e9:
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
    """99.9% is not 100%."""
    value = 100 * number(share)
    if not math.isfinite(value):
        return UNKNOWN
    shown = f"{value:.0f}" if abs(value) >= 10 else f"{value:.1f}"
    if value < 100 and shown == "100":
        shown = "99.9" if value >= 99.9 else f"{value:.1f}"
    return f"{shown.removesuffix('.0')}%"


def table(columns: Sequence[Column], rows: Sequence[Sequence[Any]], name: str) -> str:
    """A table of whatever the cells are, as text; one too wide for its place is scrolled there."""
    if not rows:
        return "<p>None.</p>"
    titles = (
        f'<th scope="col" class="{kind if kind == NUMBER else TEXT}">{text(title)}</th>'
        for title, kind in columns
    )
    kinds = [kind for _, kind in columns]
    body = "\n".join(f"<tr>{''.join(map(_cell, kinds, row))}</tr>" for row in rows)
    top = f"<thead><tr>{''.join(titles)}</tr></thead>" if any(title for title, _ in columns) else ""
    return scrolled(f"<table>{top}<tbody>{body}</tbody></table>", name)


def scrolled(content: str, name: str) -> str:
    """What may be wider than a phone; the keyboard reaches it, to scroll it."""
    return (
        f'<div class="scroll" role="region" aria-label="{text(name)}" tabindex="0">{content}</div>'
    )


def folded(title: str, content: str, kind: str = "") -> str:
    """Shown when it is asked for, without a script."""
    return (
        f'<details class="{kind}"><summary>{text(title)}</summary>'
        f'<div class="inside">{content}</div></details>'
    )


def _cell(kind: str, value: Any) -> str:
    if kind == STATE:
        kind = "good" if value == "ok" else "bad"
    return f'<td class="{kind}">{text(value)}</td>'
