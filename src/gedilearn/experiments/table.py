"""Tables of results: described once, shown on a terminal and as Markdown.

A table is a list of columns and a list of groups of rows: a group, for instance the seeds of one
method on one set, is a line. An `Experiment` is what `gedi reproduce NAME` runs, and the tables
that it makes of its rows.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gedilearn.experiments.kept import kept_in, rows_as_csv
from gedilearn.experiments.runner import Row
from gedilearn.io import write_text
from gedilearn.presets import CHOSEN

if TYPE_CHECKING:
    from rich.console import Console

Group = Sequence[Row]
Text = Callable[[Group], str]  # the cell of a line, from the rows of its group
Holds = Callable[[Row], bool | None]
WHOLE = {"digits": 1797, "iris": 150, "wine": 178, "breast-cancer": 569}  # rows; there are no more
MADE = "Made by `make results` from `rows/{}`; nothing on this page is typed by hand."

# --- columns ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Column:
    """One column: what stands above it, and how its cells are made.

    Attributes
    ----------
    head: in Markdown
    cell: the text of a group
    short: the head on a terminal of 80 columns; None for `head`, '' to leave the column out
    brief: the text of a group on a terminal; None for `cell`
    words: whether cells are words, set to the left; a name that repeats the line above is left out
        on a terminal
    style: of the cell on a terminal, as rich names it
    """

    head: str
    cell: Text
    short: str | None = None
    brief: Text | None = None
    words: bool = False
    style: Text | None = None


def number(value: float, digits: int) -> str:
    """-0.00 would look like a mistake."""
    return f"{round(value, digits) + 0.0:.{digits}f}"


def values(group: Group, name: str) -> list[float]:
    """The numbers of a group that are there; what is not finite is kept as its name."""
    return [float(row[name]) for row in group if row[name] is not None]


def label(name: str, titles: Mapping[str, str] | None = None) -> Column:
    """A column of names: what all rows of a group have in common."""
    known = titles or {}
    return Column(name, lambda group: known.get(group[0][name], str(group[0][name])), words=True)


def statistic(
    head: str,
    name: str,
    of: Callable[[Sequence[float]], float] = statistics.median,
    *,
    short: str | None = None,
    digits: int = 3,
    factor: float = 1,
) -> Column:
    """One number over the seeds; nothing where there are none."""

    def cell(group: Group) -> str:
        found = values(group, name)
        return number(factor * of(found), digits) if found else ""

    return Column(head, cell, short)


def ranged(
    head: str, name: str, *, short: str | None = None, digits: int = 3, factor: float = 1
) -> Column:
    """Median (least to greatest) over the seeds; on a terminal the median alone."""
    middle, least, most = (
        statistic(head, name, of, digits=digits, factor=factor).cell
        for of in (statistics.median, min, max)
    )

    def cell(group: Group) -> str:
        low, high = least(group), most(group)
        return f"{middle(group)} ({low} to {high})" if low != high else middle(group)

    return Column(head, cell, short, brief=middle)


def beside(head: str, name: str, other: str, digits: int, short: str | None = None) -> Column:
    """Median of one number (and of what to compare it with); on a terminal the first alone."""
    first, second = (statistic(head, n, digits=digits).cell for n in (name, other))

    def cell(group: Group) -> str:
        return f"{first(group)} ({second(group)})" if first(group) else ""

    return Column(head, cell, short, brief=first)


def count(head: str, holds: Holds, *, short: str | None = None, of: str = "") -> Column:
    """For how many rows it holds; nothing where the question has no answer."""

    def cell(group: Group) -> str:
        found = [holds(row) for row in group]
        return "" if None in found else f"{sum(map(bool, found))}{of.format(len(found))}"

    return Column(head, cell, short)


def share(head: str, holds: Holds, *, short: str | None = None) -> Column:
    """The same, of how many rows."""
    return count(head, holds, short=short, of="/{}")


def mean_and_deviation(name: str) -> Text:
    """Of the seeds themselves, not an estimate for others."""

    def cell(group: Group) -> str:
        found = values(group, name)
        return f"{statistics.fmean(found):.2f} ± {statistics.pstdev(found):.2f}"

    return cell


def seeds() -> Column:
    """How many seeds a line is of."""
    return Column("seeds", lambda group: str(len({row["seed"] for row in group})), "n")


# --- tables -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Table:
    """Columns, and the groups of rows that are its lines.

    Attributes
    ----------
    title: on a terminal
    columns, groups: see above
    notes: sentences below
    heading: in Markdown, above
    numbered: whether the notes are
    printed: whether it is shown on a terminal; if not, it is in Markdown alone
    """

    title: str
    columns: Sequence[Column]
    groups: Sequence[Group]
    notes: Sequence[str] = ()
    heading: str = ""
    numbered: bool = False
    printed: bool = True

    def markdown(self) -> str:
        lines = [
            [column.head for column in self.columns],
            ["---" if column.words else "---:" for column in self.columns],
            *([column.cell(group) for column in self.columns] for group in self.groups),
        ]
        table = ["| " + " | ".join(line) + " |" for line in lines]
        above = [self.heading, ""] if self.heading else []
        below = ["", *bullets(self.notes, self.numbered)] if self.notes else []
        return "\n".join([*above, *table, *below, ""])

    def show(self, console: Console) -> None:
        """Print it in few columns: short heads, brief cells, a repeated name once."""
        if not self.printed:
            return
        from rich.table import Table as Grid
        from rich.text import Text as Styled

        columns = [column for column in self.columns if column.short != ""]
        grid = Grid(title=self.title, box=None, pad_edge=False, padding=(0, 1, 0, 0))
        for column in columns:
            head = column.head if column.short is None else column.short
            grid.add_column(head, justify="left" if column.words else "right", no_wrap=True)
        above = [""] * len(columns)
        for group in self.groups:
            cells = [(column.brief or column.cell)(group) for column in columns]
            shown = list(cells)
            for k, column in enumerate(columns):
                if not column.words or cells[k] != above[k]:
                    break
                shown[k] = ""
            styles = [column.style(group) if column.style else "" for column in columns]
            grid.add_row(*map(Styled, shown, styles))
            above = cells
        console.print(grid)
        for note in bullets(self.notes, self.numbered, bullet=""):
            console.print(note, style="dim", highlight=False)


def bullets(notes: Sequence[str], numbered: bool = False, bullet: str = "- ") -> list[str]:
    """A line for each note."""
    return [(f"{k}. " if numbered else bullet) + note for k, note in enumerate(notes, 1)]


def grouped(rows: Sequence[Row], *by: str, **orders: Iterable[Any]) -> list[list[Row]]:
    """Rows that have the same values of these names together, in the order of the values.

    The order of a name's values is that given, method=("gedi", "jem"), or else that in the rows.
    """
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        groups.setdefault(tuple(row[name] for name in by), []).append(row)
    known = [dict.fromkeys([*orders.get(name, ()), *(row[name] for row in rows)]) for name in by]
    places = [{value: k for k, value in enumerate(of_name)} for of_name in known]

    def place(key: tuple[Any, ...]) -> list[int]:
        return [of_name[value] for of_name, value in zip(places, key, strict=True)]

    return [groups[key] for key in sorted(groups, key=place)]


# --- experiments --------------------------------------------------------------------------------


Draw = Callable[[Sequence[Row], Path], Path]


@dataclass(frozen=True)
class Page:
    """A page of results: paragraphs, and what it shows, by the names there.

    Attributes
    ----------
    parts: paragraphs, as Markdown
    pictures: files that a run wrote
    figures: what is drawn from rows alone, into a file
    """

    parts: list[str]
    pictures: dict[str, Path] = field(default_factory=dict)
    figures: dict[str, Callable[[Path], Path]] = field(default_factory=dict)

    def add(self, *parts: str) -> None:
        self.parts.extend(parts)

    def add_picture(self, name: str, file: Path, about: str, words: str = "") -> None:
        """Show a file, if it is there, under words of its own."""
        if file.exists():
            self.pictures[name] = file
            self.add(f"{words}![{about}]({name})")

    def add_figure(self, name: str, draw: Draw, rows: Sequence[Row], about: str) -> None:
        """Show what is drawn from rows."""
        self.figures[name] = partial(draw, rows)
        self.add(f"![{about}]({name})")

    @property
    def text(self) -> str:
        """All of it, as Markdown."""
        return "\n\n".join(part.strip("\n") for part in self.parts) + "\n"


@dataclass(frozen=True)
class Experiment:
    """What `gedi reproduce NAME` runs and shows; an entry of `registry.EXPERIMENTS`.

    Attributes
    ----------
    name: on the command line
    run: run(seeds, runner=runner) -> rows, with options of its own; `runner.rows` keeps rows in a
        folder as they come, and goes on after an interruption
    tables: the tables that are made of the rows
    about: one line for the help page of the command that is made for it
    title: of the page of results
    sets: the data sets, if the command has an option for them
    figure: (rows, path) draws a picture
    preset: whose settings it uses; the page says what they were chosen on
    own_page: folder -> page, in place of how the rows were made, and the tables
    """

    name: str
    run: Callable[..., list[Row]]
    tables: Callable[[Sequence[Row]], Sequence[Table]]
    about: str = ""
    title: str = ""
    sets: Collection[str] = ()
    figure: Draw | None = None
    preset: str | None = None
    own_page: Callable[[Path], Page] | None = None

    def show(self, rows: Sequence[Row], console: Console) -> None:
        """Print the tables."""
        for table in self.tables(rows):
            table.show(console)

    def markdown(self, rows: Sequence[Row]) -> str:
        """The tables, and what their columns mean."""
        return "\n".join(table.markdown() for table in self.tables(rows))

    def write(self, rows: Sequence[Row], folder: Path) -> list[str]:
        """Write rows and tables, and the picture if there is one; the names of the files."""
        folder.mkdir(parents=True, exist_ok=True)
        files = [folder / f"{self.name}.{ending}" for ending in ("csv", "md", "png")]
        write_text(files[0], rows_as_csv(rows))
        write_text(files[1], self.markdown(rows))
        if self.figure is not None:
            self.figure(rows, files[2])
        return [file.name for file in files if file.exists()]

    def page(self, out: Path) -> Page:
        """The page of results, from the rows in `out`."""
        if self.own_page is not None:
            return self.own_page(out)
        (kept,) = kept_in(out, "", self.name)
        changed = ", ".join(f"{key}={value!r}" for key, value in kept.config["settings"].items())
        whole = [f"{name}: {n}" for name, n in WHOLE.items() if name in kept.sets]
        facts = [
            f"{kept.config['n']} points a set" + (f" ({', '.join(whole)})" if whole else ""),
            f"GEDI with {changed or 'its defaults'}",
        ]
        return Page(
            [
                f"# {self.title or self.name}",
                f"{MADE.format(self.name + '.csv')} {len(kept.rows)} rows, one a fit, of",
                kept.made_by(self.name, facts, data=self.sets),
                *([CHOSEN[self.preset]] if self.preset else []),
                self.markdown(kept.rows),
            ]
        )
