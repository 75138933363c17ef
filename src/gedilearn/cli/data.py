"""`gedi data get` and `gedi data list`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gedilearn.cli.app import AsJson, Quiet, app
from gedilearn.cli.output import Screen

data_sets = typer.Typer(no_args_is_help=True, rich_markup_mode=None)
app.add_typer(data_sets, name="data")

HEADS = ("name", "what", "train", "test", "shape", "MB", "here")  # must fit into 80 columns


@data_sets.callback()
def data() -> None:
    """Fetch published image sets, and list them."""


@data_sets.command("get")
def get(
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
    import json

    from gedilearn.data import published

    screen = Screen(as_json, quiet)
    path = published.get(name, directory, screen.message)
    if screen.json:
        described = json.loads((path / "set.json").read_text(encoding="utf-8"))
        screen.content(described | {"path": str(path)})


@data_sets.command("list")
def list_sets(as_json: AsJson = False) -> None:
    """List the image sets that can be fetched, and which are on this machine.

    \b
    gedi data list
    """
    from gedilearn.data.published import cache_root, is_cached
    from gedilearn.data.sources import SOURCES, SPLITS

    screen, sets, rows = Screen(as_json), [], []
    for source in SOURCES.values():
        counts = {split: part.count for split, part in source.splits.items()}
        size, here = sum(file.size for file in source.downloads), is_cached(source.name)
        sets.append(
            {
                "name": source.name,
                "about": source.about,
                "counts": counts,
                "shape": list(source.shape),
                "classes": source.classes,
                "download_bytes": size,
                "cached": here,
            }
        )
        shown = [str(counts.get(split, "-")) for split in SPLITS]
        shape, megabytes = "x".join(map(str, source.shape)), f"{size / 1e6:.0f}"
        rows.append((source.name, source.about, *shown, shape, megabytes, "yes" if here else "no"))
    if screen.json:
        screen.content({"cache": str(cache_root()), "sets": sets})
    else:
        screen.table(HEADS, rows, [f"kept in {cache_root()}"])
