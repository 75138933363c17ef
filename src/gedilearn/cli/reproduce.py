"""`gedi demo`, and `gedi reproduce`: the tables and figures of the paper and the documentation.

Each experiment of `registry.EXPERIMENTS` is a command. Those that come with the library have
options of their own, below; one that was registered from outside has `--seeds` and `--out`.
"""

from __future__ import annotations

import re
from contextlib import nullcontext
from enum import Enum
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from gedilearn.cli.app import Changes, Outside, Probe, Seed, app, changes, interruptible, outside
from gedilearn.cli.asked import (
    RIVALS,
    Backend,
    Iterations,
    Methods,
    Names,
    Number,
    Out,
    Preset,
    Seeds,
    Sets,
    SomeSets,
    Workers,
)
from gedilearn.cli.output import Screen, make_console, new_files, write_new
from gedilearn.errors import InputError
from gedilearn.registry import EXPERIMENTS

ROOT = Path("gedi-runs")
RENAMED = {"gen": "density"}  # earlier names
# How large a run is; a test holds it against those of the experiment.
Scale = Enum("Scale", {"paper": "paper", "small": "small", "default": "default"}, type=str)


class Experiments(TyperGroup):
    """The commands of this file, and one for each experiment that was registered from outside."""

    def list_commands(self, ctx: Any) -> list[str]:
        own = super().list_commands(ctx)
        return [*own, *(name for name in EXPERIMENTS if name not in own)]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if (new := RENAMED.get(cmd_name)) is not None:
            raise InputError(f"gedi reproduce {cmd_name} is called gedi reproduce {new} now")
        own = super().get_command(ctx, cmd_name)
        return _registered(cmd_name) if own is None and cmd_name in EXPERIMENTS else own


def _registered(name: str) -> Any:
    """The command of an experiment that has no options of its own."""
    alone = typer.Typer(add_completion=False, rich_markup_mode=None)

    def command(seeds: Seeds = 5, out: Out = None) -> None:
        _table(name, out or ROOT / name, range(seeds))

    example = f"\b\ngedi reproduce {name} --seeds 2 --out {name}"
    alone.command(name, help=f"{EXPERIMENTS[name].about}\n\n{example}")(command)
    return typer.main.get_command(alone)


reproduce = typer.Typer(cls=Experiments, no_args_is_help=True, rich_markup_mode=None)
app.add_typer(reproduce, name="reproduce")


@reproduce.callback()
def tables() -> None:
    """Compute a table of the paper, or of the documentation, again.

    After an interruption, the same command goes on where it was.
    """


# --- commands -----------------------------------------------------------------------------------


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
    from gedilearn.cli.data import run_folder
    from gedilearn.experiments.demo import run

    with run_folder(out, "demo") as folder:
        run(folder, make_console())


@reproduce.command()
def toy(
    preset: Preset = "default",
    seeds: Seeds = 5,
    methods: Methods = None,
    data: Sets = None,
    workers: Workers = 1,
    backend: Backend = None,
    out: Out = None,
    iterations: Iterations = None,
    set_: Changes = None,
) -> None:
    """The paper's NMI on moons and circles.

    Every method, several seeds, beside the paper's numbers: a table, toy.csv, toy.md and toy.png.

    \b
    gedi reproduce toy --seeds 2 --methods gedi,no-gen
    gedi reproduce toy --preset paper/toy --workers 2
    gedi reproduce toy --preset paper/toy-literal --set training.on_divergence=recover
    """
    options = {"preset": preset, "iterations": iterations, "changes": changes(set_)}
    asked = (range(seeds), _names(data), _names(methods))
    folder = _folder(out or ROOT / "toy", preset, options)
    _table("toy", folder, *asked, runs=(workers, backend), **options)


@reproduce.command()
def labels(
    preset: Preset = "default",
    seed: Seed = 0,
    methods: Methods = None,
    data: Sets = None,
    out: Out = None,
    iterations: Iterations = None,
    set_: Changes = None,
) -> None:
    """The paper's picture of predicted clusters.

    The truth and every method on moons and circles, as labels.png. Models are kept and shared with
    gedi reproduce toy and generation.

    \b
    gedi reproduce labels --preset paper/toy --seed 1
    """
    options = {"preset": preset, "iterations": iterations, "changes": changes(set_)}
    _picture("labels", out, options, data=_names(data), methods=_names(methods), seed=seed)


@reproduce.command()
def generation(
    preset: Preset = "default",
    seed: Seed = 0,
    methods: Methods = None,
    data: Sets = None,
    out: Out = None,
    iterations: Iterations = None,
    steps: Annotated[
        int | None,
        Number(
            help="Langevin steps of each sample; if not given, as many as let it travel across "
            "the data."
        ),
    ] = None,
    set_: Changes = None,
) -> None:
    """The paper's picture of generated points.

    Real points and 500 samples of every method on moons and circles, as generation.png. Models are
    kept and shared with gedi reproduce toy and labels.

    \b
    gedi reproduce generation --methods jem,gedi
    """
    options = {"preset": preset, "iterations": iterations, "changes": changes(set_)}
    asked = {"data": _names(data), "methods": _names(methods), "seed": seed, "steps": steps}
    _picture("generation", out, options, **asked)


@reproduce.command()
def sensitivity(
    preset: Preset = "default",
    seeds: Seeds = 5,
    data: Sets = None,
    workers: Workers = 1,
    backend: Backend = None,
    out: Out = None,
    iterations: Iterations = None,
    set_: Changes = None,
) -> None:
    """The paper's heat maps over the weights of INV and PRIOR.

    NMI and gap for weights of 0 to 50 each: a table, sensitivity.csv, .md and .png. The 20,000
    iterations of paper/toy take hours for 360 runs.

    \b
    gedi reproduce sensitivity --seeds 1 --data moons --iterations 500
    """
    options = {"preset": preset, "iterations": iterations, "changes": changes(set_)}
    folder = _folder(out or ROOT / "toy", preset, options) / "sensitivity"
    _table("sensitivity", folder, range(seeds), _names(data), runs=(workers, backend), **options)


@reproduce.command()
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
        Names(
            help="Only these of jem,barlow,swav,no-gen,gedi; otherwise all, on mnist and digits "
            "the last two."
        ),
    ] = None,
    seeds: Annotated[
        int | None, Number(help="Seeds 0 to N-1; 5 on mnist and digits, else 1.")
    ] = None,
    ood: Outside = None,
    samples: Annotated[
        int | None, Number(min=0, help="Images to generate; 5000 at paper scale, else 500.")
    ] = None,
    steps: Annotated[
        int | None, Number(help="Langevin steps of each; 20, or 500 without a base.")
    ] = None,
    probe: Annotated[
        Probe | None,
        typer.Option(help="The linear classifier; the paper's at paper scale, else the fast one."),
    ] = None,
    weights: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The weights of Inception, for true FID.")
    ] = None,
    out: Out = None,
    iterations: Iterations = None,
    set_: Changes = None,
) -> None:
    """The paper's image tables: clusters, samples, OOD, probe.

    Trains every method and measures it on the test images, beside the paper's numbers: tables,
    images.csv and images.md. The paper's pairs of sets are held against each other when they are
    fetched. An interruption may be in the middle of a training.

    \b
    gedi reproduce images --data mnist
    gedi reproduce images --data cifar10 --scale small --ood textures=dtd/images
    gedi reproduce images --data cifar10 --scale paper --methods gedi
    """
    from gedilearn.data.load import load
    from gedilearn.experiments import images as experiment

    size = scale.value if scale else experiment.default_scale(data)
    asked = (range(seeds or experiment.SCALES[size].seeds), data, size, _names(methods))
    measuring = {"samples": samples, "steps": steps, "probe": probe and probe.value}
    options: dict[str, Any] = {"iterations": iterations, "changes": changes(set_)}
    folder = _folder(out or ROOT / "images", f"{data}-{size}", options)
    options["measuring"] = measuring | {"weights": weights}
    _table("images", folder, *asked, outside(ood, load), **options)


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
    from gedilearn.experiments.kept import rows_as_csv

    files = new_files(out, "landscape.csv", "landscape.md")
    experiment = EXPERIMENTS["landscape"]
    rows = experiment.run([0])
    experiment.show(rows, make_console())
    for file, text in zip(files, (rows_as_csv(rows), experiment.markdown(rows)), strict=False):
        write_new(file, text)
        Screen().message(f"written: {file}")


@reproduce.command()
def shapes(
    seeds: Seeds = 20,
    data: Annotated[str | None, Names(help="Only these sets or families; all otherwise.")] = None,
    methods: Annotated[str | None, Names(help=RIVALS)] = None,
    workers: Workers = 1,
    backend: Backend = None,
    out: Out = None,
) -> None:
    """The clusters of GEDI beside those of other methods.

    Sets are plain, unequal, thin, noise, touching, many, solid, wide, tables, real or
    structureless, where a certificate is a false one; GEDI goes without its density.

    \b
    gedi reproduce shapes --seeds 2 --data moons,structureless --out tables/shapes
    """
    asked = (range(seeds), _names(data), _names(methods))
    _table("shapes", out or ROOT / "shapes", *asked, runs=(workers, backend))


@reproduce.command()
def density(
    seeds: Seeds = 5,
    data: SomeSets = None,
    workers: Workers = 1,
    backend: Backend = None,
    out: Out = None,
) -> None:
    """How good the density is that GEDI learns.

    The likelihood of fresh points beside two density estimators of scikit-learn and the true
    density; detection of outliers, samples, normaliser and clusters.

    \b
    gedi reproduce density --seeds 1 --data mixture,moons
    """
    _table("density", out or ROOT / "density", range(seeds), _names(data), runs=(workers, backend))


# --- what they do -------------------------------------------------------------------------------


def _table(
    name: str,
    folder: Path,
    *asked: Any,
    runs: tuple[int, str | None] = (1, None),
    **options: Any,
) -> None:
    """Run an experiment, write what is made of its rows into the folder, and show the tables.

    `runs`: workers and backend.
    """
    from gedilearn.experiments.runner import OTHER, ROWS, Runner
    from gedilearn.io import reading

    experiment, screen = EXPERIMENTS[name], Screen()
    made: list[dict[str, Any]] = []

    def tell(row: dict[str, Any], left: int) -> None:
        made.append(row)
        nmi = f" NMI {row['nmi']:.3f}," if row.get("nmi") is not None else ""
        seconds = f" {row['seconds']:.1f} s" if "seconds" in row else ""
        words = f"{row['data']}, {row['method']}, seed {row['seed']}:{nmi}{seconds}"
        screen.message(f"{words} ({left} to go)")

    with interruptible("the same command goes on from here", folder / ROWS):
        runner = Runner(folder, runs[0], tell, screen.message, runs[1])
        rows = experiment.run(*asked, runner=runner, **options)
    if not rows:
        raise InputError(f"the experiment {name} gave no rows")
    # Rows that were read may be damaged in any field; what is wrong with new ones is a bug.
    with reading(folder / ROWS, OTHER) if len(made) < len(rows) else nullcontext():
        written = experiment.write(rows, folder)
        experiment.show(rows, make_console())
    there = [ROWS] if (folder / ROWS).exists() else []
    screen.message(f"written in {folder}: {', '.join(there + written)}")


def _picture(name: str, out: Path | None, options: dict[str, Any], **asked: Any) -> None:
    """Draw a picture of `toy_pictures`, and print where it is."""
    from gedilearn.experiments import toy_pictures

    folder = _folder(out or ROOT / "toy", options["preset"], options)
    wanted = toy_pictures.Asked(folder, **options, **asked, tell=Screen().message)
    with interruptible("the same command goes on from here"):
        print(toy_pictures.PICTURES[name](wanted))


def _folder(root: Path, name: str, options: dict[str, Any]) -> Path:
    """Rows of other settings are never mixed."""
    from gedilearn.experiments.runner import assignments

    iterations = options["iterations"]
    shorter = [] if iterations is None else [f"{iterations}-iterations"]
    words = "-".join([name, *shorter, *assignments(options["changes"])])
    return root / re.sub(r"[^\w.=-]+", "-", words)


def _names(text: str | None) -> list[str] | None:
    """Names with commas between them; None stands for all."""
    return None if text is None else [name.strip() for name in text.split(",") if name.strip()]
