"""`gedi reproduce toy`, `labels`, `generation` and `sensitivity`: options and help pages."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

toys = typer.Typer(rich_markup_mode=None)

Preset = Annotated[
    str, typer.Option(metavar="NAME", help="One of default, paper/toy, paper/toy-literal.")
]
Seeds = Annotated[int, typer.Option(metavar="N", help="Seeds 0 to N-1.")]
Seed = Annotated[int, typer.Option(metavar="N", help="The seed of data and training.")]
Methods = Annotated[
    str | None,
    typer.Option(
        metavar="A,B",
        help="Only these of jem,barlow,swav,no-unif,no-inv,no-gen,gedi (which are all) and "
        "dino,deepcluster (which are not in the paper).",
    ),
]
Sets = Annotated[
    str | None, typer.Option(metavar="A,B", help="Only these of moons,circles; both otherwise.")
]
Workers = Annotated[int, typer.Option(metavar="N", help="Trainings at once, a process each.")]
Out = Annotated[
    Path | None,
    typer.Option(
        metavar="DIR",
        help="Where results are kept, in a folder for each preset; gedi-runs/toy if not given.",
    ),
]
Shorter = Annotated[
    int | None,
    typer.Option(
        "--iterations",
        metavar="N",
        min=1,
        help="Shorten the training to N iterations, for a quick look; the results say so.",
    ),
]


@toys.command()
def toy(
    preset: Preset = "default",
    seeds: Seeds = 5,
    methods: Methods = None,
    data: Sets = None,
    workers: Workers = 1,
    out: Out = None,
    iterations: Shorter = None,
) -> None:
    """The paper's NMI on moons and circles.

    Every method, several seeds, beside the paper's numbers: a table, toy.csv, toy.md and toy.png.
    After an interruption the same command goes on where it was.

    \b
    gedi reproduce toy --seeds 2 --methods gedi,no-gen
    gedi reproduce toy --preset paper/toy --workers 2
    """
    from gedilearn.cli import toy_actions
    from gedilearn.cli.output import Screen

    toy_actions.toy(preset, seeds, methods, data, workers, out, iterations, Screen())


@toys.command()
def labels(
    preset: Preset = "default",
    seed: Seed = 0,
    methods: Methods = None,
    data: Sets = None,
    out: Out = None,
    iterations: Shorter = None,
) -> None:
    """The paper's picture of predicted clusters.

    The truth and every method on moons and circles, as labels.png. Models are kept and shared with
    gedi reproduce toy and generation.

    \b
    gedi reproduce labels --preset paper/toy --seed 1
    """
    from gedilearn.cli import toy_actions
    from gedilearn.cli.output import Screen

    asked = {"seed": seed, "preset": preset, "iterations": iterations}
    toy_actions.picture("labels", methods, data, out, asked, Screen())


@toys.command()
def generation(
    preset: Preset = "default",
    seed: Seed = 0,
    methods: Methods = None,
    data: Sets = None,
    out: Out = None,
    iterations: Shorter = None,
    steps: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=1,
            help="Langevin steps of each sample; if not given, as many as let it travel across "
            "the data.",
        ),
    ] = None,
) -> None:
    """The paper's picture of generated points.

    Real points and 500 samples of every method on moons and circles, as generation.png. Models are
    kept and shared with gedi reproduce toy and labels.

    \b
    gedi reproduce generation --methods jem,gedi
    """
    from gedilearn.cli import toy_actions
    from gedilearn.cli.output import Screen

    asked = {"seed": seed, "preset": preset, "iterations": iterations, "steps": steps}
    toy_actions.picture("generation", methods, data, out, asked, Screen())


@toys.command()
def sensitivity(
    preset: Preset = "default",
    seeds: Seeds = 5,
    data: Sets = None,
    workers: Workers = 1,
    out: Out = None,
    iterations: Shorter = None,
) -> None:
    """The paper's heat maps over the weights of INV and PRIOR.

    NMI and gap for weights of 0 to 50 each: a table, sensitivity.csv, .md and .png. After an
    interruption the same command goes on where it was. The 20,000 iterations of paper/toy take
    hours for 360 runs.

    \b
    gedi reproduce sensitivity --seeds 1 --data moons --iterations 500
    """
    from gedilearn.cli import toy_actions
    from gedilearn.cli.output import Screen

    toy_actions.sensitivity(preset, seeds, data, workers, out, iterations, Screen())
