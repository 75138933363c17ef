"""`gedi data get` and `gedi data list`: options and help pages."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gedilearn.cli.plainly import plainly

data_sets = typer.Typer(no_args_is_help=True, rich_markup_mode=None)

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON on stdout, and nothing else.")]
Quiet = Annotated[
    bool, typer.Option("--quiet", "-q", help="Print only errors (and the JSON, if asked for).")
]


@data_sets.callback()
def data() -> None:
    """Fetch published image sets, and list them."""


@data_sets.command("get")
@plainly
def data_get(
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="The name of a set; see gedi data list.")
    ],
    directory: Annotated[
        Path | None,
        typer.Option(
            "--from",
            metavar="DIR",
            help="Take the published files from this folder instead of from the network.",
        ),
    ] = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Fetch a published image set, check it, and keep it for use by its name.

    It is kept in $GEDI_CACHE, or else in $XDG_CACHE_HOME/gedi-learn or ~/.cache/gedi-learn. An
    interrupted download goes on where it broke off.

    \b
    gedi data get cifar10
    gedi data get mnist --from ~/Downloads
    gedi fit mnist:test --clusters 10
    """
    from gedilearn.cli.datasets import get
    from gedilearn.output import Screen

    get(name, directory, Screen(as_json, quiet))


@data_sets.command("list")
@plainly
def data_list(as_json: AsJson = False) -> None:
    """List the image sets that can be fetched, and which are on this machine.

    \b
    gedi data list
    """
    from gedilearn.cli.datasets import listing
    from gedilearn.output import Screen

    listing(Screen(as_json))
