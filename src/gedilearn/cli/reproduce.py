"""`gedi demo`, and `gedi reproduce NAME`: the tables and figures of the paper.

An experiment is a function of `registry.EXPERIMENTS`: its parameters are the options that it takes.
"""

from __future__ import annotations

import inspect
from functools import partial
from pathlib import Path
from typing import Annotated, Any

from typer import Argument, Option

from gedilearn.cli.app import Screen, app, interruptible, make_console
from gedilearn.cli.options import Changes, Outside, Probe, Quiet, changes, outside
from gedilearn.errors import InputError
from gedilearn.registry import EXPERIMENTS

ROOT = Path("gedi-runs")
COMPARISONS = ("shapes", "density")  # earlier names, outside the library now
Count: Any = partial(Option, metavar="N", min=1, max=1_000_000)
Text: Any = partial(Option, metavar="NAME")
Names: Any = partial(Option, metavar="A,B")


@app.command()
def demo(
    out: Annotated[
        Path | None, Option(metavar="RUN", help="The run directory, else gedi-runs/demo-1.")
    ] = None,
    quiet: Quiet = False,
) -> None:
    """Show on made-up data what this is about.

    \b
    gedi demo
    """
    from gedilearn.cli.data import run_folder
    from gedilearn.experiments.demo import run

    with run_folder(out, "demo") as folder:
        run(folder, make_console(quiet))


@app.command()
def reproduce(
    name: Annotated[str, Argument(metavar="NAME", help="One of the names above.")],
    data: Annotated[str | None, Names(help="Only these sets; of images one, as mnist.")] = None,
    methods: Annotated[str | None, Names(help="Only these methods, as jem,gedi.")] = None,
    preset: Annotated[str | None, Text(help="default, paper/toy or paper/toy-literal.")] = None,
    scale: Annotated[str | None, Text(help="Of images: paper (needs a GPU) or small.")] = None,
    seeds: Annotated[int | None, Count(help="Seeds 0 to N-1.")] = None,
    seed: Annotated[int | None, Count(min=0, max=2**32 - 1, help="Seed of a picture.")] = None,
    iterations: Annotated[int | None, Count(help="Shorten the training, for a quick look.")] = None,
    set_: Changes = None,
    ood: Outside = None,
    samples: Annotated[int | None, Count(min=0, help="Images to generate.")] = None,
    steps: Annotated[int | None, Count(help="Langevin steps of each sample.")] = None,
    probe: Annotated[Probe | None, Option(help="The linear classifier of images.")] = None,
    weights: Annotated[
        Path | None, Option(metavar="FILE", help="The weights of Inception, for true FID.")
    ] = None,
    jobs: Annotated[int, Count("--jobs", "--workers", help="Fits at once, a process each.")] = 1,
    out: Annotated[
        Path | None, Option(metavar="DIR", help="Where results are kept, else gedi-runs.")
    ] = None,
    quiet: Quiet = False,
) -> None:
    """Compute a table or a figure of the paper again.

    \b
    landscape     Theorem 1 and Table 1: the terms against the failure modes
    toy           NMI of every method on moons and circles
    labels        the picture of predicted clusters
    generation    the picture of generated points
    sensitivity   the heat maps over the weights of INV and PRIOR
    images        the tables on images: --data cifar10, cifar100, svhn, mnist or digits

    After an interruption, the same command goes on where it was; runs of other settings have other
    folders. docs/results explains the columns. toy also takes the methods dino, deepcluster, ebclr.

    \b
    gedi reproduce toy --preset paper/toy-literal --seeds 20 --methods gedi --jobs 2
    gedi reproduce images --data cifar10 --scale small --ood textures=dtd/images
    """
    if name in COMPARISONS:
        where = f"python benchmarks/{name}.py, in the repository"
        raise InputError(f"gedi reproduce {name}: no part of the library any more; run {where}")
    asked: dict[str, Any] = {"preset": preset, "scale": scale, "seed": seed, "samples": samples}
    asked |= {"iterations": iterations, "steps": steps, "weights": weights, "probe": probe}
    asked |= {"changes": changes(set_), "ood": ood, "seeds": seeds and range(seeds)}
    asked |= {"data": _names(data), "methods": _names(methods)}
    given = {option: value for option, value in asked.items() if value not in (None, {})}
    experiment, screen = EXPERIMENTS[name], Screen(quiet=quiet)
    taken = [each for each in inspect.signature(experiment).parameters if each in asked]
    if other := [_option(each) for each in given if each not in taken]:
        options = ", ".join(map(_option, taken)) or "--out"
        raise InputError(f"gedi reproduce {name} takes no {other[0]}; it takes {options}")
    if ood:
        from gedilearn.data.load import load

        given["ood"] = outside(ood, load)
    from gedilearn.experiments.runner import Runner

    folder = "toy" if name in ("labels", "generation", "sensitivity") else name  # shared models
    runner = Runner(out or ROOT / folder, jobs, screen.message)
    with interruptible("the same command goes on from here"):
        tables = experiment(runner, **given)
    for table in tables:
        table.show(make_console(quiet))


def _option(parameter: str) -> str:
    return "--set" if parameter == "changes" else f"--{parameter}"


def _names(text: str | None) -> list[str] | None:
    """Names with commas between them."""
    return None if text is None else [name.strip() for name in text.split(",") if name.strip()]
