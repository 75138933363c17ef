"""Decimal points and decimal commas: which of them the numbers of a column have.

3,14 and 1.234,5 can be read in one way only. 1.234 and 1,234 can be read in two: there the other
columns of the file decide, or the user. docs/tables.md has the rule.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from gedilearn.data.cells import bare, cell, is_grouped, number, stands_for_nothing
from gedilearn.data.dialects import Dialect
from gedilearn.errors import InputError

MARKS = (".", ",")
ENOUGH = 100  # cells after which a mark that does not read all of them is not tried any more


@dataclass
class Look:
    """What the cells of a column look like, each mark taken for the decimal one.

    count: of cells that are not missing, while there is a mark that reads all of them
    read: how many of them are numbers with this mark
    grouped, long: the marks before which some have digits in groups of three, and some four digits
        or more in a row
    twofold: the first cell that is another number with each mark
    """

    count: int = 0
    read: dict[str, int] = field(default_factory=lambda: dict.fromkeys(MARKS, 0))
    grouped: set[str] = field(default_factory=set)
    long: set[str] = field(default_factory=set)
    twofold: str = ""

    @classmethod
    def of(cls, cells: Iterable[str]) -> Look:
        """Of a whole column."""
        look = cls()
        for text in cells:
            look.see(text)
        return look

    def see(self, text: str) -> None:
        """Look at one cell more."""
        left: tuple[str, ...] = MARKS
        if self.count >= ENOUGH:
            left = tuple(mark for mark in MARKS if self.read[mark] == self.count)
        found = cell(text) if left else None
        if found is None or stands_for_nothing(found):
            return
        self.count += 1
        found = bare(found)[0]
        if len(left) == 1:
            self.read[left[0]] += number(found, left[0]) is not None
            return
        if found.isdecimal():  # most whole numbers: no mark at all
            for mark in MARKS:
                self.read[mark] += 1
                self.long |= {mark} if len(found) > 3 else set()
            return
        values = {mark: number(found, mark) for mark in MARKS}
        for mark, value in values.items():
            if value is None:
                continue
            self.read[mark] += 1
            if is_grouped(found, mark):
                self.grouped.add(mark)
            elif len(found.partition(mark)[0].lstrip("+-")) > 3:
                self.long.add(mark)
        two = {repr(value) for value in values.values()}  # by name, for NaN is not NaN
        if None not in values.values() and len(two) > 1 and not self.twofold:
            self.twofold = found

    @property
    def depends(self) -> bool:
        """Whether it matters which mark is taken."""
        return len(self.marks()) == 1 or bool(self.twofold)

    def marks(self) -> list[str]:
        """Those that make numbers of all cells.

        If both do, and differ, one by which some numbers have their digits in groups and others
        have not is left out.
        """
        found = [mark for mark in MARKS if self.read[mark] == self.count]
        if len(found) > 1 and self.twofold:
            even = [mark for mark in found if mark not in self.grouped & self.long]
            found = even or found
        return found


def decimals(
    looks: Sequence[Look], dialect: Dialect, names: Sequence[str], path: Path
) -> tuple[list[str], set[str]]:
    """The decimal mark of each column, and the marks of all columns where it matters."""
    if dialect.decimal is not None:
        settled = [dialect.decimal] * len(looks)
    else:
        told = {look.marks()[0] for look in looks if len(look.marks()) == 1}
        settled = [
            _own(look) or _settled(look, told, dialect, f"{path}: column {name!r}")
            for look, name in zip(looks, names, strict=True)
        ]
    pairs = zip(settled, looks, strict=True)
    return settled, {mark for mark, look in pairs if look.depends and mark in look.marks()}


def _own(look: Look) -> str | None:
    """What a column says by itself; None if it can be read in two ways."""
    marks = look.marks()
    if len(marks) == 2:
        return None if look.twofold else "."
    # One that is not all numbers is text, but what is no number among them is to be named.
    return marks[0] if marks else max(MARKS, key=lambda mark: look.read[mark])


def _settled(look: Look, told: set[str], dialect: Dialect, where: str) -> str:
    """The mark of a column that can be read in two ways."""
    if dialect.separator == ",":
        return "."
    if len(told) == 1:
        return next(iter(told))
    if not told and dialect.separator == "\t" and "." in look.twofold:
        return "."
    point, comma = (f"{number(look.twofold, mark):.12g}" for mark in MARKS)
    raise InputError(
        f"{where}: {look.twofold!r} may be {point} or {comma}; say which by the decimal mark, "
        "--decimal point or --decimal comma"
    )
