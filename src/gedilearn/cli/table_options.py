"""The options for tables, which several commands have, and the settings that they stand for.

As in all files with commands, heavy imports wait.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable
from typing import Annotated, Any

import typer

from gedilearn.errors import InputError

_LIST = "separated by commas; may be repeated."

Columns = Annotated[
    list[str] | None,
    typer.Option(metavar="NAMES", help=f"Of a table, use these columns alone: {_LIST}"),
]
Drop = Annotated[
    list[str] | None,
    typer.Option(metavar="NAMES", help=f"Of a table, leave out these columns: {_LIST}"),
]
IdColumn = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="The column of a table that names its rows: not used, but written beside clusters.",
    ),
]
Categorical = Annotated[
    list[str] | None,
    typer.Option(metavar="NAMES", help=f"Take these columns for categories: {_LIST}"),
]
Numeric = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAMES", help=f"Take these columns for numbers, also if they look like IDs: {_LIST}"
    ),
]
Impute = Annotated[
    str | None,
    typer.Option(
        metavar="[median|mean|most_frequent]", help="What missing numbers, dates and times become."
    ),
]
Separator = Annotated[
    str | None,
    typer.Option(
        metavar="[comma|semicolon|tab|bar]",
        help="What stands between the cells of a .csv, .tsv or .txt file; found out if not given.",
    ),
]
Decimal = Annotated[
    str | None,
    typer.Option(
        metavar="[point|comma]",
        help="The decimal mark in a .csv, .tsv or .txt file; found out if not given.",
    ),
]
KeepColumns = Annotated[
    bool,
    typer.Option(
        "--keep-columns", help="Write the columns of the table beside the clusters, as they were."
    ),
]


def table_settings(
    columns: list[str] | None,
    drop: list[str] | None,
    id_column: str | None,
    categorical: list[str] | None,
    numeric: list[str] | None,
    impute: str | None,
    kinds: dict[str, str] | None = None,
) -> dict[str, Any]:
    """The settings that the options stand for, by dotted name; `kinds` are those of --set."""
    asked = [("drop", "drop", name) for name in _names(drop)]
    asked += [("id-column", "id", name) for name in ([id_column] if id_column else [])]
    asked += [("categorical", "category", name) for name in _names(categorical)]
    asked += [("numeric", "number", name) for name in _names(numeric)]
    found: dict[str, str] = {}
    for option, kind, name in asked:
        if found.setdefault(name, kind) != kind:
            raise InputError(f"--{option} {name}: another option takes it for {found[name]}")
    settings: dict[str, Any] = {}
    if columns is not None:
        settings["table.columns"] = _names(columns)
    if found:
        settings["table.kinds"] = dict(kinds or {}) | found
    if impute is not None:
        settings["table.impute"] = impute
    return settings


def _names(given: Iterable[str] | None) -> list[str]:
    """a,b and "a,b",c, as in a line of CSV."""
    return [name.strip() for line in given or () for name in next(csv.reader([line]), []) if name]
