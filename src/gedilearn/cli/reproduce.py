"""`gedi reproduce NAME`: the tables and figures of the paper.

An experiment is a function of `registry.EXPERIMENTS`: its parameters are the options that it takes.
"""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any

from typer import Argument, Option

from gedilearn.cli.app import Screen, app, interruptible
from gedilearn.cli.data import Changes, Outside, changes, outside
from gedilearn.errors import InputError
from gedilearn.registry import EXPERIMENTS

ROOT = Path("gedi-runs")
FOLDERS = dict.fromkeys(("labels", "generation", "sensitivity"), "toy")  # with shared models
Count: Any = partial(Option, metavar="N", min=1, max=1_000_000)
Text: Any = partial(Option, metavar="NAME")
Names: Any = partial(Option, metavar="A,B")


@dataclass(frozen=True)
class ReproduceOptions:
    """Options by the names of the parameters of experiments; None if not given."""

    data: Annotated[str | None, Names(help="Only these data sets; images need one.")] = None
    methods: Annotated[str | None, Names(help="Only these methods, for example jem,gedi.")] = None
    preset: Annotated[
        str | None, Text(help="default, alike/random, alike/start, paper/toy or paper/toy-literal.")
    ] = None
    scale: Annotated[
        str | None, Text(help="For images: paper, paper-signed (for GPUs), small, default.")
    ] = None
    seeds: Annotated[int | None, Count(help="Number of seeds.")] = None
    first: Annotated[int, Count(min=0, help="The first seed.")] = 0
    seed: Annotated[int | None, Count(min=0, max=2**32 - 1, help="Seed of a figure.")] = None
    changes: Changes = None
    ood: Outside = None
    samples: Annotated[int | None, Count(min=0, help="Number of images to generate.")] = None
    steps: Annotated[int | None, Count(help="Langevin steps of each sample.")] = None
    dry_run: Annotated[
        bool | None, Option("--dry-run", help="For images: say what a run needs and takes.")
    ] = None

    def given(self) -> dict[str, Any]:
        """The values of the options that are given."""
        values = vars(self) | {"data": _names(self.data), "methods": _names(self.methods)}
        if values.pop("first") and not self.seeds:
            raise InputError("--first: give the number of seeds too: --seeds N")
        seeds = self.seeds and range(self.first, self.first + self.seeds)
        values |= {"seeds": seeds, "changes": changes(self.changes)}
        return {name: value for name, value in values.items() if value not in (None, {})}


@app.command()
def reproduce(
    name: Annotated[str, Argument(metavar="NAME", help="One of the names above.")],
    jobs: Annotated[
        int | None, Count(help="Fits at the same time; one per core if not given (images: 1).")
    ] = None,
    out: Annotated[
        Path | None, Option(metavar="DIR", help="Folder for results; in gedi-runs if not given.")
    ] = None,
    *,
    options: ReproduceOptions,
    screen: Screen,
) -> None:
    """Compute a table or figure of the paper.

    \b
    landscape     Theorem 1 and Table 1: which term penalises which failure mode
    toy           NMI of every method on moons and circles
    labels        figure of the predicted clusters on moons and circles
    generation    figure of generated points on moons and circles
    sensitivity   heat maps over the weights of INV and PRIOR
    images        tables on images: --data cifar10, cifar100, svhn, mnist or digits

    After an interruption, the same command continues. Each choice of settings has a folder of its
    own. docs/results explains the columns. Three methods of toy run only if they are named: dino,
    deepcluster, ebclr.

    \b
    gedi reproduce toy --preset paper/toy-literal --seeds 20 --methods gedi --jobs 2
    gedi reproduce images --data cifar10 --scale small --ood textures=dtd/images
    gedi reproduce images --data cifar10 --scale paper --dry-run
    """
    experiment, arguments = EXPERIMENTS[name], options.given()
    parameters = [p for p in inspect.signature(experiment).parameters if hasattr(options, p)]
    if other := [_option(each) for each in arguments if each not in parameters]:
        listed = ", ".join(map(_option, parameters)) or "--out"
        raise InputError(f"gedi reproduce {name} has no option {other[0]}; it has {listed}")
    if options.ood:
        from gedilearn.data.load import load

        arguments["ood"] = outside(options.ood, load)
    from gedilearn.paper.runner import Runner

    runner = Runner(out or ROOT / FOLDERS.get(name, name), jobs, screen.message)
    with interruptible("the same command continues"):
        tables = experiment(runner, **arguments)
    content = [{"title": table.title, "lines": table.lines} for table in tables]
    screen.show(content, *(table.grid() for table in tables))


def _option(parameter: str) -> str:
    return "--set" if parameter == "changes" else f"--{parameter.replace('_', '-')}"


def _names(text: str | None) -> list[str] | None:
    """Names with commas between them."""
    return None if text is None else [name.strip() for name in text.split(",") if name.strip()]
