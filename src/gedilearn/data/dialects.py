"""How a table is written as text: its separator, its characters, its decimal mark.

Found out by stated rules, not guessed; what they leave undecided is refused with the option that
decides it. docs/tables.md.
"""

from __future__ import annotations

import codecs
import csv
import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from gedilearn.data.cells import number
from gedilearn.errors import InputError
from gedilearn.io import check_size, most_bytes

USUAL = {".csv": ",", ".tsv": "\t", ".txt": "\t"}  # separator of a file, by how its name ends
SEPARATORS = {"comma": ",", "semicolon": ";", "tab": "\t", "bar": "|"}
DECIMALS = {"point": ".", "comma": ","}

_LINE = 1 / 200  # the share of the limit of `files` that one line of text may have
_FIRST = 20  # records by which a separator is told
_CHUNK = 2**20
# What characters of several bytes are in UTF-8, and the bytes that no text of Windows has.
_UTF8 = re.compile(
    rb"[\xc2-\xdf][\x80-\xbf]|[\xe0-\xef][\x80-\xbf]{2}|[\xf0-\xf4][\x80-\xbf]{3}", re.DOTALL
)
_NAMES = {"cp1252": "Windows-1252", "utf-16": "UTF-16"}  # of what is not as usual
_HIGH = re.compile(rb"[\x80-\xff]")
_NO_TEXT = re.compile(rb"[\x00-\x08\x0b\x0e-\x1f\x7f\x81\x8d\x8f\x90\x9d]")


@dataclass(frozen=True)
class Dialect:
    """How a file of text is read.

    decimal: '.' or ',' where it was asked for, None: as the columns look, see `data.decimals`
    """

    separator: str
    encoding: str = "utf-8-sig"
    decimal: str | None = None

    @classmethod
    def of(cls, path: Path, separator: str | None = None, decimal: str | None = None) -> Dialect:
        """Of a file: as asked for, or else as it looks."""
        encoding, decimal = _encoding(path), decimal and mark(decimal, DECIMALS, "decimal")
        if separator is not None:
            return cls(mark(separator, SEPARATORS, "separator"), encoding, decimal)
        return cls(_separator(path, encoding), encoding, decimal)

    def words(self, path: Path, decimals: set[str]) -> str:
        """What is not as usual, in words; decimals: the marks that numbers were read with."""
        found = []
        if self.separator != USUAL.get(path.suffix.lower()):
            name = next(name for name, each in SEPARATORS.items() if each == self.separator)
            found.append(f"separated by {name}s")
        if "," in decimals:
            found.append("decimal commas" + (" and points" if "." in decimals else ""))
        if self.encoding in _NAMES:
            found.append(f"text in {_NAMES[self.encoding]}")
        return ", ".join(found)


def mark(given: str, known: dict[str, str], option: str) -> str:
    """A mark by its name, or as it is."""
    names = known | {each: each for each in known.values()} | {r"\t": "\t"}
    if given not in names or names[given] not in known.values():
        choice = ", ".join(repr(each) if each != "\t" else "tab" for each in known.values())
        raise InputError(f"--{option} {given!r}: give one of {choice}")
    return names[given]


# --- reading ------------------------------------------------------------------------------------


def lines(path: Path, encoding: str) -> Iterator[str]:
    """The lines of a text, none of which fills the memory."""
    most = int(most_bytes(_LINE))
    with path.open(encoding=encoding, newline="") as handle:
        count = 0
        while line := handle.readline(most + 1):
            count += 1
            check_size(len(line), f"{path}: line {count}", _LINE)
            yield line


def records(path: Path, dialect: Dialect) -> Iterator[tuple[int, int, list[str]]]:
    """First line, last line and cells of every record that is not blank."""
    text = lines(path, dialect.encoding)
    reader = csv.reader(text, delimiter=dialect.separator, strict=True)
    last = 0
    try:
        for cells in reader:
            start, last = last + 1, reader.line_num
            if len(cells) > 1 or "".join(cells).strip() or cells == [""]:
                yield start, last, cells
    except csv.Error as error:
        raise InputError(f"{path}: line {last + 1}: {error}; mend the quotes") from error


# --- finding out --------------------------------------------------------------------------------


def _separator(path: Path, encoding: str) -> str:
    """The mark by which the first records have the same number of cells, two or more.

    If several are such marks, the one by which the others stand only within numbers, below the
    first record. If none is, the table has one column, or is damaged: then the mark that is usual
    for the file, or that the first record alone has, so that what is wrong can be named. Columns of
    numbers with blanks between them are refused: 1 234 may also be one number.
    """
    usual = USUAL.get(path.suffix.lower(), ",")
    found: dict[str, list[list[str]]] = {}
    in_first: list[str] = []
    for separator in SEPARATORS.values():
        try:
            in_order = records(path, Dialect(separator, encoding))
            rows = [cells for _, _, cells in islice(in_order, _FIRST)]
        except InputError:  # its quotes are at odds with this mark
            continue
        widths = [len(cells) for cells in rows]
        if rows and widths[0] > 1:
            in_first.append(separator)
            if len(set(widths)) == 1:
                found[separator] = rows
    if len(found) > 1:
        clear = [each for each in found if _others_within_numbers(each, found)]
        found = {each: found[each] for each in clear} if len(clear) == 1 else found
    if len(found) > 1:
        names = [name for name, each in SEPARATORS.items() if each in found]
        raise InputError(
            f"{path}: its cells may be separated by {' or '.join(names)}; say which, as in "
            f"--separator {names[0]}"
        )
    if found:
        return next(iter(found))
    if not in_first and _has_blanks_between_numbers(path, encoding):
        raise InputError(
            f"{path}: its cells seem to be separated by blanks; write it with commas, or say that "
            "it is one column with --separator comma"
        )
    return in_first[0] if len(in_first) == 1 else usual


def _has_blanks_between_numbers(path: Path, encoding: str) -> bool:
    """Whether all of the first records have the same number of cells between blanks, of numbers."""
    first = islice(records(path, Dialect(",", encoding)), _FIRST)
    rows = [" ".join(cells).split() for _, _, cells in first]
    numbers = rows[1:] or rows
    return (
        len({len(row) for row in rows}) == 1
        and len(rows[0]) > 1
        and all(is_number(cell) for row in numbers for cell in row)
    )


def _others_within_numbers(separator: str, found: dict[str, list[list[str]]]) -> bool:
    others = set(found) - {separator}
    rows = found[separator][1:] or found[separator]
    doubtful = [cell for row in rows for cell in row if others & set(cell)]
    return all(is_number(cell) for cell in doubtful)


def is_number(cell: str) -> bool:
    """Whether a cell is a number, with a decimal point or a decimal comma."""
    return any(number(cell, each) is not None for each in DECIMALS.values())


def _encoding(path: Path) -> str:
    """UTF-16 if its mark is at the start, UTF-8, or else Windows-1252, which has Latin-1 in it.

    A text is of Windows if it is not UTF-8, has no bytes that mean nothing there, and fewer
    characters of UTF-8 than other bytes beyond ASCII; with more it is UTF-8 that was damaged.
    """
    start = next(_chunks(path), b"")
    if start.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "utf-16"
    if b"\0" in start[:2]:
        raise InputError(f"{path}: text in UTF-16 without a mark at its start; save it in UTF-8")
    decoder = codecs.getincrementaldecoder("utf-8")()
    try:
        for chunk in _chunks(path):
            decoder.decode(chunk)
        decoder.decode(b"", final=True)
        return "utf-8-sig"
    except UnicodeDecodeError as error:
        reason = error
    n_utf8 = n_others = 0
    for chunk in _chunks(path):
        if _NO_TEXT.search(chunk):
            raise reason
        rest, n_found = _UTF8.subn(b"", chunk)
        n_utf8, n_others = n_utf8 + n_found, n_others + len(_HIGH.findall(rest))
    if n_utf8 >= n_others:
        raise reason
    return "cp1252"


def _chunks(path: Path) -> Iterator[bytes]:
    with path.open("rb") as handle:
        yield from iter(lambda: handle.read(_CHUNK), b"")
