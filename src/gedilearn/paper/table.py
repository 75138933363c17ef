"""Tables of results: made of groups of rows, shown on a terminal and as Markdown.

A group of rows, for instance the seeds of one method on one set, is a line of a table.
"""

from __future__ import annotations

import json
import statistics
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gedilearn.verdict.monitor import CLUSTERS, PERMUTATION, REPRESENTATION

if TYPE_CHECKING:
    from rich.table import Table as Grid

Row = dict[str, Any]
Group = Sequence[Row]
Text = Callable[[Group], str]  # a cell, from the rows of its line

# --- tables -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Table:
    """Lines of cells by the heads of their columns; `wide` columns are in Markdown alone."""

    title: str
    lines: Sequence[Mapping[str, str]]
    wide: Collection[str] = ()

    def _is_numeric(self, head: str) -> bool:
        return all(not line[head] or line[head][0] in "+-.0123456789" for line in self.lines)

    def markdown(self) -> str:
        heads = list(self.lines[0]) if self.lines else []
        rule = ["---:" if self._is_numeric(head) else "---" for head in heads]
        cells = [heads, rule, *([line[head] for head in heads] for line in self.lines)]
        return "".join(f"| {' | '.join(line)} |\n" for line in cells)

    def grid(self) -> Grid:
        """For a terminal."""
        from rich.table import Table as Grid

        heads = [head for head in (self.lines or [{}])[0] if head not in self.wide]
        grid = Grid(title=self.title, box=None, pad_edge=False, padding=(0, 1, 0, 0))
        for head in heads:
            grid.add_column(head, justify="right" if self._is_numeric(head) else "left")
        for line in self.lines:
            grid.add_row(*(line[head] for head in heads))
        return grid


def make(
    title: str, columns: Mapping[str, Text], groups: Sequence[Group], wide: Collection[str] = ()
) -> Table:
    """A line for each group, a cell for each column."""
    lines = [{head: cell(group) for head, cell in columns.items()} for group in groups]
    return Table(title, lines, wide)


def grouped(rows: Group, **by: Iterable[Any]) -> list[list[Row]]:
    """Rows with the same values of these names, in the order of the values given for each name.

    Other values follow, in the order of the rows.
    """
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        groups.setdefault(tuple(row[name] for name in by), []).append(row)
    orders = [list(dict.fromkeys([*by[name], *(row[name] for row in rows)])) for name in by]

    def place(key: tuple[Any, ...]) -> list[int]:
        return [order.index(value) for order, value in zip(orders, key, strict=True)]

    return [groups[key] for key in sorted(groups, key=place)]


# --- cells --------------------------------------------------------------------------------------


def number(value: float, digits: int) -> str:
    """-0.00 would look like a mistake."""
    return f"{round(value, digits) + 0.0:.{digits}f}"


def values(group: Group, name: str) -> list[float]:
    """The numbers of a group that are there."""
    return [float(row[name]) for row in group if row.get(name) is not None]


def label(name: str, titles: Mapping[str, str] | None = None) -> Text:
    """The value that all rows of a group have in common."""
    return lambda group: (titles or {}).get(group[0][name], str(group[0][name]))


def seeds(group: Group) -> str:
    return str(len({row["seed"] for row in group}))


def statistic(
    name: str, digits: int = 3, of: Callable[[Sequence[float]], float] = statistics.median
) -> Text:
    """One number over the seeds; nothing where there are none."""

    def cell(group: Group) -> str:
        found = values(group, name)
        return number(of(found), digits) if found else ""

    return cell


def ranged(name: str, digits: int = 3) -> Text:
    """Median (least to greatest) over the seeds."""
    cells = [statistic(name, digits, of) for of in (statistics.median, min, max)]

    def cell(group: Group) -> str:
        middle, low, high = (each(group) for each in cells)
        return f"{middle} ({low} to {high})" if low != high else middle

    return cell


def pair(name: str, other: str, digits: int) -> Text:
    """Median of one number (and of another to compare it with)."""
    first, second = statistic(name, digits), statistic(other, digits)
    return lambda group: f"{first(group)} ({second(group)})" if first(group) else ""


def findings(group: Group, false_below: float | None = None) -> str:
    """The outcomes of several seeds in words.

    With `false_below`, certificates of a lower NMI are counted as false.
    """
    modes = Counter(mode for row in group for mode in row["modes"])
    gaps = [float(row["bound_gap"]) for row in group if not row["certified"] and not row["modes"]]
    counts = {mode: modes[mode] for mode in (REPRESENTATION, CLUSTERS, PERMUTATION)}
    counts["recovered"] = sum(row["recoveries"] > 0 for row in group)
    # It may have come back by itself, which the verdict tells.
    counts["diverged"] = sum(
        row["stopped"] == "diverged" or "training diverged" in row["verdict"] for row in group
    )
    counts["uncertified"] = len(gaps)
    counts["certified"] = sum(row["certified"] for row in group)
    if false_below is not None:
        counts["falsely so"] = sum(row["certified"] and row["nmi"] < false_below for row in group)
    words = {name: f"{name} {count}/{len(group)}" for name, count in counts.items() if count}
    if gaps:
        words["uncertified"] += f": bound gap {statistics.median(gaps):.3f}"
    return ", ".join(words.values())


# The paper's numbers.
PAPER: dict[str, Any] = json.loads(Path(__file__).with_name("paper.json").read_text("utf-8"))
