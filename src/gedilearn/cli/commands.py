"""`gedi demo` and `gedi reproduce`: options and help pages."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gedilearn.cli.app import app
from gedilearn.cli.image_commands import image_runs
from gedilearn.cli.toy_commands import toys

reproduce = typer.Typer(no_args_is_help=True, rich_markup_mode=None)
app.add_typer(reproduce, name="reproduce")
reproduce.add_typer(toys)
reproduce.add_typer(image_runs)


@app.command()
def demo(
    out: Annotated[
        Path | None,
        typer.Option(metavar="RUN", help="The run directory; gedi-runs/demo-1 if not given."),
    ] = None,
) -> None:
    """Show on made-up data what this is about.

    \b
    gedi demo
    """
    from gedilearn.cli import actions

    actions.demo(out)


@reproduce.command()
def landscape(
    out: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Also write landscape.csv and landscape.md there."),
    ] = None,
) -> None:
    """Table 1: the terms against the failure modes.

    Measures which term of the loss penalises which failure mode.

    \b
    gedi reproduce landscape --out tables
    """
    from gedilearn.cli import actions
    from gedilearn.cli.output import Screen

    actions.landscape(out, Screen())


@reproduce.command()
def shapes(
    seeds: Annotated[int, typer.Option(metavar="N", help="Seeds 0 to N-1.")] = 20,
    data: Annotated[
        str | None,
        typer.Option(metavar="A,B", help="Only these sets, as moons,circles,rings; all otherwise."),
    ] = None,
    methods: Annotated[
        str | None,
        typer.Option(metavar="A,B", help="Only these of gedi,kmeans,gmm,spectral,hdbscan."),
    ] = None,
    workers: Annotated[int, typer.Option(metavar="N", help="Fits at once, a process each.")] = 1,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Where rows are kept, with the table as shapes.md; gedi-runs/shapes if not given.",
        ),
    ] = None,
) -> None:
    """GEDI with its defaults beside methods of scikit-learn.

    On moons, circles, rings, spirals, blobs and digits, seed by seed. After an interruption the
    same command goes on where it was.

    \b
    gedi reproduce shapes --seeds 2 --data moons,rings
    gedi reproduce shapes --workers 2 --out tables/shapes
    """
    from gedilearn.cli import actions
    from gedilearn.cli.output import Screen

    actions.shapes(seeds, data, methods, workers, out, Screen())


@reproduce.command()
def gen(
    seeds: Annotated[int, typer.Option(metavar="N", help="Seeds 0 to N-1.")] = 3,
    data: Annotated[
        str | None,
        typer.Option(metavar="A,B", help="Only these of mixture,moons,circles,digits."),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Where rows are kept, with the table as gen.md; gedi-runs/gen if not given.",
        ),
    ] = None,
) -> None:
    """What GEN buys: GEDI with and without it.

    Clusters, density, detection of outliers and samples, beside two density estimators of
    scikit-learn. After an interruption the same command goes on where it was.

    \b
    gedi reproduce gen --seeds 1 --data mixture
    """
    from gedilearn.cli import actions
    from gedilearn.cli.output import Screen

    actions.gen(seeds, data, out, Screen())


@reproduce.callback()
def tables() -> None:
    """Compute a table of the paper, or of the documentation, again."""
