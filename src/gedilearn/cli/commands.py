"""The commands with their options and help pages.

Only what the help pages need is imported here; the work is done in `actions`, which brings torch
along and is imported when a command runs.
"""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import Annotated

import typer

from gedilearn import __version__
from gedilearn.cli.data_commands import AsJson, Quiet, data_sets
from gedilearn.cli.evaluate_commands import evaluation
from gedilearn.cli.image_commands import image_runs
from gedilearn.cli.plainly import plainly
from gedilearn.cli.toy_commands import toys

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
reproduce = typer.Typer(no_args_is_help=True, rich_markup_mode=None)
app.add_typer(reproduce, name="reproduce")
app.add_typer(data_sets, name="data")
app.add_typer(evaluation)
reproduce.add_typer(toys)
reproduce.add_typer(image_runs)


class Kind(str, Enum):
    """Scores of a point, higher for more typical ones."""

    log_density = "log_density"
    gradient_norm = "gradient_norm"
    confidence = "confidence"


class Objective(str, Enum):
    """What to train with; a test holds it against the setting `method`."""

    gedi = "gedi"
    no_gen = "no-gen"
    no_inv = "no-inv"
    no_unif = "no-unif"
    jem = "jem"
    swav = "swav"
    barlow = "barlow"
    dino = "dino"
    deepcluster = "deepcluster"


class Where(str, Enum):
    """Devices to train on."""

    auto = "auto"
    cpu = "cpu"
    cuda = "cuda"


Data = Annotated[
    str,
    typer.Argument(
        metavar="DATA",
        help="A .npy, .npz, .csv, .tsv or .parquet file, a folder of images, the name of a "
        "built-in set (moons, circles, digits), or of a fetched one (see gedi data list).",
    ),
]
Run = Annotated[
    Path,
    typer.Argument(
        metavar="RUN", help="A run directory written by gedi fit, or a model.safetensors file."
    ),
]
OutFile = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="Write here instead of to the screen: .csv, .npy or .json. Never overwrites.",
    ),
]
Size = Annotated[
    str | None,
    typer.Option(
        metavar="WxH",
        help="Resize the images of a folder to this many pixels, as 32x32, or 32 for both sides; "
        "a run that was fitted with it needs it no more.",
    ),
]
SkipBroken = Annotated[
    bool,
    typer.Option(
        "--skip-broken",
        help="Leave out the files of a folder of images that cannot be read, and name them.",
    ),
]


def _version(wanted: bool) -> None:
    if wanted:
        print(f"gedi-learn {__version__}")
        raise typer.Exit


@app.callback()
def gedi(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_version, is_eager=True, help="Print the version."),
    ] = False,
) -> None:
    """Cluster unlabelled data with a neural network, and say whether to trust the result.

    \b
    gedi fit points.csv --clusters 3
    gedi predict gedi-runs/points-1 more.csv --out clusters.csv
    """


@app.command()
@plainly
def fit(
    data: Data,
    clusters: Annotated[
        int, typer.Option("--clusters", "-k", metavar="K", help="How many clusters, 2 or more.")
    ],
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="RUN",
            help="The run directory, new or empty; gedi-runs/NAME-1 (or the next free number) if "
            "not given.",
        ),
    ] = None,
    preset: Annotated[
        str, typer.Option(metavar="NAME", help="Settings to start from; see gedi presets.")
    ] = "default",
    method: Annotated[
        Objective | None,
        typer.Option(help="The objective: GEDI, one of its ablations, or a baseline."),
    ] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="NAME=VALUE",
            help="Change one setting, with its value in YAML; may be repeated. See gedi settings.",
        ),
    ] = None,
    label_column: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="A column of true labels: not used in training, compared with the clusters "
            "afterwards.",
        ),
    ] = None,
    seed: Annotated[
        int | None, typer.Option(metavar="N", help="Seed of all randomness; 0 if not given.")
    ] = None,
    inits: Annotated[
        int | None,
        typer.Option(metavar="N", help="Initialisations trained at once; the best is kept."),
    ] = None,
    device: Annotated[Where | None, typer.Option(help="Where to train.")] = None,
    size: Size = None,
    skip_broken: SkipBroken = False,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Cluster DATA and give a verdict on the result.

    Trains a network and writes a run directory. It holds the model, the cluster of each row
    (labels.csv), the settings, and all that gedi resume needs to continue after an interruption.

    \b
    gedi fit moons --clusters 2
    gedi fit iris.csv -k 3 --label-column species --out runs/iris
    gedi fit x.npy -k 10 --inits 4 --set training.max_iter=5000 --set weights.inv=20
    gedi fit photographs -k 5 --size 32x32 --skip-broken
    """
    from gedilearn.cli import actions
    from gedilearn.cli.runs import Pictures
    from gedilearn.output import Screen

    options = {
        "method": method.value if method else None,
        "training.seed": seed,
        "training.n_init": inits,
        "device.accelerator": device.value if device else None,
    }
    pictures, screen = Pictures.asked(size, skip_broken), Screen(as_json, quiet)
    actions.fit(data, clusters, out, preset, set_ or [], options, label_column, pictures, screen)


@app.command()
@plainly
def choose(
    data: Data,
    most: Annotated[
        int, typer.Option("--max", metavar="K", help="The largest number of clusters to try.")
    ] = 10,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", help="Also write choose.json and choose.png there. Never overwrites."
        ),
    ] = None,
    seed: Annotated[int, typer.Option(metavar="N", help="Seed of all randomness.")] = 0,
    size: Size = None,
    skip_broken: SkipBroken = False,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Recommend a number of clusters for DATA, without labels.

    Fits every number from 2 on, from two seeds each, and compares what vouches for the results.
    If no number stands out, it says so.

    \b
    gedi choose points.csv
    gedi choose points.csv --max 6 --out choice
    """
    from gedilearn.cli import choosing
    from gedilearn.cli.runs import Pictures
    from gedilearn.output import Screen

    pictures = Pictures.asked(size, skip_broken)
    choosing.choose(data, most, out, seed, pictures, Screen(as_json, quiet))


@app.command()
@plainly
def resume(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="The run directory.")],
    data: Annotated[
        str | None,
        typer.Option(metavar="DATA", help="Where the data is now, if it was moved."),
    ] = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Continue an interrupted fit from its checkpoint.

    The result is that of a fit without interruption. A finished run is only shown again.

    \b
    gedi resume gedi-runs/points-1
    gedi resume gedi-runs/points-1 --data /new/place/points.csv
    """
    from gedilearn.cli import actions
    from gedilearn.output import Screen

    actions.resume(run, data, Screen(as_json, quiet))


@app.command()
@plainly
def predict(
    run: Run,
    data: Data,
    out: OutFile = None,
    proba: Annotated[
        bool, typer.Option("--proba", help="Also the probability of every cluster.")
    ] = False,
    size: Size = None,
    skip_broken: SkipBroken = False,
    as_json: AsJson = False,
) -> None:
    """Give each row of DATA its cluster.

    The confidence is the probability of that cluster. Columns are found by their names if the
    model knows them, in any order. A .npy file holds the clusters alone, or with --proba the
    matrix of probabilities.

    \b
    gedi predict gedi-runs/points-1 more.csv
    gedi predict gedi-runs/points-1 more.csv --proba --out probabilities.csv
    """
    from gedilearn.cli import actions
    from gedilearn.cli.runs import Pictures
    from gedilearn.output import Screen

    pictures = Pictures.asked(size, skip_broken)
    actions.predict(run, data, out, proba, pictures, Screen(as_json))


@app.command()
@plainly
def score(
    run: Run,
    data: Data,
    kind: Annotated[
        Kind,
        typer.Option(
            help="log_density: log p(x) up to a constant; gradient_norm: minus the norm of its "
            "gradient, to find points unlike the training data; confidence: the largest p(y|x)."
        ),
    ] = Kind.log_density,
    out: OutFile = None,
    size: Size = None,
    skip_broken: SkipBroken = False,
    as_json: AsJson = False,
) -> None:
    """Say how typical each row of DATA is, higher for more.

    \b
    gedi score gedi-runs/points-1 more.csv
    gedi score gedi-runs/points-1 more.csv --kind gradient_norm --out scores.npy
    """
    from gedilearn.cli import actions
    from gedilearn.cli.runs import Pictures
    from gedilearn.output import Screen

    pictures = Pictures.asked(size, skip_broken)
    actions.score(run, data, kind.name, out, pictures, Screen(as_json))


@app.command()
@plainly
def sample(
    run: Run,
    number: Annotated[int, typer.Option("--number", "-n", help="How many points.")] = 64,
    steps: Annotated[int, typer.Option(help="Langevin steps for each point.")] = 500,
    seed: Annotated[int, typer.Option(help="Seed of all randomness.")] = 0,
    out: OutFile = None,
    as_json: AsJson = False,
) -> None:
    """Generate new points like the training data.

    Each comes with its cluster. A .npy file holds the points alone; images can only be written so.

    \b
    gedi sample gedi-runs/points-1 -n 1000 --out new.csv
    """
    from gedilearn.cli import actions
    from gedilearn.output import Screen

    actions.sample(run, number, steps, seed, out, Screen(as_json))


@app.command()
@plainly
def diagnose(
    run: Run,
    data: Annotated[
        str | None,
        typer.Argument(metavar="DATA", help="Data to look at; that of the fit if not given."),
    ] = None,
    size: Size = None,
    skip_broken: SkipBroken = False,
    as_json: AsJson = False,
) -> None:
    """Say whether a clustering is to be trusted.

    Lists each finding on the failure modes of such training, then the verdict.

    \b
    gedi diagnose gedi-runs/points-1
    gedi diagnose gedi-runs/points-1 more.csv --json
    """
    from gedilearn.cli import actions
    from gedilearn.cli.runs import Pictures
    from gedilearn.output import Screen

    actions.diagnose(run, data, Pictures.asked(size, skip_broken), Screen(as_json))


@app.command()
@plainly
def report(run: Run, quiet: Quiet = False) -> None:
    """Draw the figures of a run and write its report, a page for the browser.

    Both come from the run directory alone, and are written into it.

    \b
    gedi report gedi-runs/points-1
    """
    from gedilearn.cli import actions
    from gedilearn.output import Screen

    actions.report(run, Screen(False, quiet))


@app.command()
@plainly
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
@plainly
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
    from gedilearn.output import Screen

    actions.landscape(out, Screen())


@reproduce.command()
@plainly
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
    from gedilearn.output import Screen

    actions.shapes(seeds, data, methods, workers, out, Screen())


@reproduce.command()
@plainly
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
    from gedilearn.output import Screen

    actions.gen(seeds, data, out, Screen())


@reproduce.callback()
def tables() -> None:
    """Compute a table of the paper, or of the documentation, again."""


@app.command()
@plainly
def settings() -> None:
    """List every setting, its default and meaning.

    For gedi fit --set NAME=VALUE.

    \b
    gedi settings
    gedi settings | grep sampler
    """
    from gedilearn.cli.listings import show_settings

    show_settings()


@app.command()
@plainly
def presets() -> None:
    """List the presets and what each changes.

    For gedi fit --preset NAME.

    \b
    gedi presets
    """
    from gedilearn.cli.listings import show_presets

    show_presets()


def main() -> None:
    """The entry point of the command `gedi`."""
    app(prog_name="gedi")
