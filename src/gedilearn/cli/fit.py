"""`gedi fit`, `resume` and `choose`, and the lists of what can be set: `settings`, `presets`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gedilearn.cli.app import (
    AsJson,
    Changes,
    Data,
    Quiet,
    RunFolder,
    Seed,
    Size,
    SkipBroken,
    app,
    changes,
    interruptible,
)
from gedilearn.cli.output import Screen, csv_text, json_text, new_files, print_list
from gedilearn.errors import InputError
from gedilearn.registry import METHODS
from gedilearn.writing import write_text

if TYPE_CHECKING:
    import numpy as np

    from gedilearn.data.dataset import Dataset
    from gedilearn.estimator import GEDI


@app.command()
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
        str | None,
        typer.Option(
            metavar=f"[{'|'.join(METHODS)}]",
            help="The objective: GEDI, one of its ablations, or a baseline.",
        ),
    ] = None,
    set_: Changes = None,
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
    device: Annotated[
        str | None,
        typer.Option(
            metavar="[auto|cpu|cuda|mps]", help="Where to train; auto takes a GPU if there is one."
        ),
    ] = None,
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
    from gedilearn.cli.runs import Pictures, describe, free_run, read, resume_command
    from gedilearn.estimator import GEDI
    from gedilearn.presets import preset as preset_values
    from gedilearn.settings import assign, resolve
    from gedilearn.training.run_directory import RunDirectory

    changed = changes(set_)
    if "n_clusters" in changed:
        raise InputError(f"--set n_clusters={changed['n_clusters']}: say it with --clusters")
    if clusters < 2:
        raise InputError(f"--clusters {clusters}: clustering needs at least 2")
    options = {
        "n_clusters": clusters,
        "method": method,
        "training.seed": seed,
        "training.n_init": inits,
        "device.accelerator": device,
    }
    values = preset_values(preset, method)
    for name, value in (changed | {n: v for n, v in options.items() if v is not None}).items():
        assign(values, name, value)
    screen, pictures = Screen(as_json, quiet), Pictures.asked(size, skip_broken)
    dataset = read(data, pictures, screen, label_column=label_column)
    settings = resolve(values, dataset.x.shape)
    run = out or free_run(dataset.name, settings)
    model = GEDI.from_settings(settings, verbose=screen.interactive)
    with interruptible(f"continue with {resume_command(run)}", RunDirectory(run).config):
        model.fit_run(dataset.x, run, describe(data, label_column, pictures, dataset))
        _finish(model, dataset, run, screen)


@app.command()
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
    seed: Seed = 0,
    size: Size = None,
    skip_broken: SkipBroken = False,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Recommend a number of clusters for DATA, without labels.

    Fits every number from 2 on, from two seeds each, and compares the gaps to the optimum, the
    agreement of the two fits and the clusters that stay unused. If no number stands out, it says
    so.

    \b
    gedi choose points.csv
    gedi choose points.csv --max 6 --out choice
    """
    from gedilearn.cli.runs import Pictures, read
    from gedilearn.selection import choose_n_clusters

    screen, pictures = Screen(as_json, quiet), Pictures.asked(size, skip_broken)
    if most < 2:
        raise InputError(f"--max {most}: clustering needs at least 2")
    files = new_files(out, "choose.json", "choose.png")
    x = read(data, pictures, screen).x

    def tell(row: dict[str, Any]) -> None:
        state = "certified" if row["certified"] else "not certified"
        k, gap, seconds = row["n_clusters"], row["gap"], row["seconds"]
        screen.message(f"{k} clusters: gap {gap:.4f} nats, {state} ({seconds:.1f} s)")

    try:
        choice = choose_n_clusters(x, most, random_state=seed, on_row=tell)
    except InputError as error:
        raise InputError(str(error).replace("max_clusters=", "--max ")) from None
    if files:
        from gedilearn.report.figures import choice_figure

        write_text(files[0], json_text(choice.to_json(), indent=1) + "\n", new=True)
        choice_figure(choice, files[1])
    if screen.json:
        screen.content(choice.to_json() | ({"out": str(out)} if files else {}))
        return
    shown = {
        "clusters": ("n_clusters", "{}"),
        "gap (nats)": ("gap", "{:.4f}"),
        "certified": ("certified", "{}"),
        "stability": ("stability", "{:.2f}"),
        "unused": ("unused", "{}"),
        "score": ("score", "{:.2f}"),
        "rank": ("rank", "{}"),
        "seconds": ("seconds", "{:.1f}"),
    }
    words = [row | {"certified": "yes" if row["certified"] else "no"} for row in choice.rows]
    rows = [[form.format(row[name]) for name, form in shown.values()] for row in words]
    written = [f"written: {file}" for file in files]
    screen.table(list(shown), rows, ["", choice.recommendation, *written])


@app.command()
def resume(
    run: RunFolder,
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
    from gedilearn.cli.runs import data_section, load_source, resume_command
    from gedilearn.estimator import GEDI
    from gedilearn.training.run_directory import RunDirectory, read_config

    config, files, screen = read_config(run), RunDirectory(run), Screen(as_json, quiet)
    finished = files.model.exists() and files.summary.exists()
    if finished and (files.labels.exists() or not (data or data_section(config).get("source"))):
        screen.message(f"{run} is finished already")
        _show(GEDI.load(files.model), None, run, screen)
        return
    dataset = load_source(run, config, data, "give it with --data DATA", screen)
    with interruptible(f"continue with {resume_command(run)}"):
        model = GEDI.resume(run, dataset.x, verbose=screen.interactive)
        _finish(model, dataset, run, screen)


def _finish(model: GEDI, dataset: Dataset, run: Path, screen: Screen) -> None:
    """Write the clusters and show the result."""
    from gedilearn.training.run_directory import RunDirectory, is_first_process

    if is_first_process():
        confidence = model.score_samples(dataset.x, "confidence")
        rows = zip(range(len(confidence)), model.labels_, confidence, strict=True)
        text = csv_text(("row", "cluster", "confidence"), rows)
        write_text(RunDirectory(run).labels, text)
        _show(model, dataset.y, run, screen)


def _show(model: GEDI, y: np.ndarray | None, run: Path, screen: Screen) -> None:
    """The result in a short table and in words, or as JSON."""
    from gedilearn.evaluation.clustering import clustering_scores

    summary = model.summary()
    scores = {} if y is None else clustering_scores(y, model.labels_)
    agreement = {name: scores[name] for name in ("nmi", "ami") if scores}
    if screen.json:
        screen.content(summary | agreement | {"run": str(run)})
        return
    sizes = summary["cluster_sizes"]
    rows = [
        ("points", f"{summary['n_samples']}"),
        ("clusters", f"{summary['n_clusters']}"),
        ("cluster sizes", ", ".join(map(str, sizes[:12])) + (", ..." if len(sizes) > 12 else "")),
        ("gap", f"{summary['gap']:.4f} nats"),
        ("iterations", f"{summary['iterations']}"),
        ("seconds", f"{summary['seconds']:.1f}"),
    ]
    rows += [(f"{name.upper()} (afterwards)", f"{v:.4f}") for name, v in agreement.items()]
    lines = [model.verdict_]
    if agreement:
        lines.append("NMI and AMI compare with the labels after the fact; the fit never saw them.")
    found = model.diagnosis_.problems
    lines += [f"- {f.name}: {f.words}" + (f" ({f.mode})" if f.mode else "") for f in found]
    screen.table(("", ""), rows, [*lines, f"run directory: {run}"])


@app.command()
def settings() -> None:
    """List every setting, its default and meaning.

    For gedi fit --set NAME=VALUE.

    \b
    gedi settings
    gedi settings | grep sampler
    """
    import json

    from gedilearn.settings import IMAGES, flat, known_paths, settings_type

    defaults = flat(settings_type()().model_dump(mode="json"))
    rows = []
    for path, text in known_paths().items():
        images = json.dumps(IMAGES[path]) if path in IMAGES else ""
        rows.append((path, json.dumps(defaults[path]), images, text))
    print_list(("setting", "default", "for images", "meaning"), rows)


@app.command()
def presets() -> None:
    """List the presets and what each changes.

    For gedi fit --preset NAME.

    \b
    gedi presets
    """
    import json

    from gedilearn.presets import ABOUT, PRESETS
    from gedilearn.settings import flat

    rows = []
    for name, values in PRESETS.items():
        changed = [f"{path}={json.dumps(value)}" for path, value in flat(values).items()]
        rows.append((name, ABOUT[name], " ".join(changed) or "the defaults of gedi settings"))
    print_list(("preset", "about", "settings"), rows)
