"""`gedi reproduce images`: options and help page."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import Annotated

import typer

from gedilearn.cli.app import Changes, Outside, Probe

image_runs = typer.Typer(rich_markup_mode=None)


class Scale(str, Enum):
    """How large a run is."""

    paper = "paper"
    small = "small"
    default = "default"


@image_runs.command()
def images(
    data: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="One of cifar10, cifar100, svhn, mnist (see gedi data get) and digits.",
        ),
    ],
    scale: Annotated[
        Scale | None,
        typer.Option(
            help="The paper's settings, which need a GPU, or small ones for 2 cores (the default "
            "for cifar10, cifar100 and svhn); for mnist and digits the library's own."
        ),
    ] = None,
    methods: Annotated[
        str | None,
        typer.Option(
            metavar="A,B",
            help="Only these of jem,barlow,swav,no-gen,gedi; otherwise all, on mnist and digits "
            "the last two.",
        ),
    ] = None,
    seeds: Annotated[
        int | None,
        typer.Option(metavar="N", min=1, help="Seeds 0 to N-1; 5 on mnist and digits, else 1."),
    ] = None,
    ood: Outside = None,
    samples: Annotated[
        int | None,
        typer.Option(metavar="N", min=0, help="Images to generate; 5000 at paper scale, else 500."),
    ] = None,
    steps: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Langevin steps of each; 500.")
    ] = None,
    probe: Annotated[
        Probe | None,
        typer.Option(help="The linear classifier; the paper's at paper scale, else the fast one."),
    ] = None,
    weights: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="The weights of Inception, for true FID."),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Where results are kept, in a folder for each set and scale; gedi-runs/images if "
            "not given.",
        ),
    ] = None,
    iterations: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=1,
            help="Shorten the training to N iterations, for a quick look; the results say so.",
        ),
    ] = None,
    set_: Changes = None,
) -> None:
    """The paper's image tables: clusters, samples, OOD, probe.

    Trains every method and measures it on the test images, beside the paper's numbers: tables,
    images.csv and images.md. After an interruption the same command goes on where it was, in the
    middle of a training too.

    \b
    gedi reproduce images --data mnist
    gedi reproduce images --data cifar10 --scale small --ood textures=dtd/images
    gedi reproduce images --data cifar10 --scale paper --methods gedi
    """
    from gedilearn.cli import image_actions
    from gedilearn.cli.output import Screen

    measuring = {
        "samples": samples,
        "steps": steps,
        "probe": probe.value if probe else None,
        "weights": weights,
    }
    asked = image_actions.Asked(
        data, scale.value if scale else None, methods, seeds, ood or [], iterations, set_ or []
    )
    image_actions.images(asked, measuring, out, Screen())
