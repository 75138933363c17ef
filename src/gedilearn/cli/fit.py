"""`gedi fit` and `gedi resume`."""

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
    Size,
    SkipBroken,
    app,
    changes,
    interruptible,
    loading_torch,
)
from gedilearn.cli.data import (
    Categorical,
    Columns,
    Decimal,
    Drop,
    IdColumn,
    Impute,
    KeepColumns,
    Numeric,
    Separator,
    table_settings,
)
from gedilearn.cli.output import Screen, write_columns
from gedilearn.errors import InputError
from gedilearn.io import is_first_process
from gedilearn.registry import METHODS

if TYPE_CHECKING:
    from gedilearn.cli.data import Rows
    from gedilearn.estimator import GEDI
    from gedilearn.progress import Progress


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
    columns: Columns = None,
    drop: Drop = None,
    id_column: IdColumn = None,
    categorical: Categorical = None,
    numeric: Numeric = None,
    impute: Impute = None,
    separator: Separator = None,
    decimal: Decimal = None,
    keep_columns: KeepColumns = False,
    size: Size = None,
    skip_broken: SkipBroken = False,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Cluster DATA and give a verdict on the result.

    Trains a network and writes a run directory. It holds the model, the cluster of each row
    (labels.csv), the settings, and all that gedi resume needs to continue after an interruption.
    The columns of a table may be numbers, dates, times, truth values, categories and IDs, with
    missing cells; what each was taken for is said. Cells may be separated by semicolons or tabs,
    and numbers may have decimal commas. docs/tables.md has the rules.

    \b
    gedi fit moons --clusters 2
    gedi fit iris.csv -k 3 --label-column species --out runs/iris
    gedi fit customers.csv -k 4 --drop notes --categorical zip --id-column customer
    gedi fit kunden.csv -k 4 --separator semicolon --decimal comma
    gedi fit x.npy -k 10 --inits 4 --set training.max_iter=5000 --set weights.inv=20
    gedi fit photographs -k 5 --size 32x32 --skip-broken
    """
    from gedilearn.cli.data import (
        describe,
        image_options,
        read_typed,
        resume_command,
        run_folder,
        text_options,
    )
    from gedilearn.presets import preset as preset_values
    from gedilearn.settings import assign, checked, resolve
    from gedilearn.training.run import RunDirectory

    changed = changes(set_)
    kinds = changed.get("table.kinds")
    given = table_settings(columns, drop, id_column, categorical, numeric, impute, kinds)
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
    for name, value in (
        changed | given | {n: v for n, v in options.items() if v is not None}
    ).items():
        assign(values, name, value)
    screen, images = Screen(as_json, quiet), image_options(size, skip_broken)
    text = text_options(separator, decimal)
    checked(values)
    if out is not None and is_first_process():
        RunDirectory(out).refuse_used()
    with screen.progress() as progress:
        progress.phase(f"reading {data}")
        rows, typed = read_typed(data, screen, values, label_column, text, **images)
        loading_torch(progress)
        from gedilearn.estimator import GEDI

        settings = resolve(values, (len(rows.x), typed.width) if typed else rows.x.shape)
        model = GEDI.from_settings(settings)
        processes = settings.device.devices if settings.device.num_nodes == 1 else "many"
        with (
            run_folder(out, rows.name, processes) as run,
            interruptible(f"continue with {resume_command(run)}", RunDirectory(run).config),
        ):
            described = describe(data, label_column, text, images, rows, typed is not None)
            model.fit_run(rows.x, run, described, progress, typed)
            _write_labels(model, rows, run, progress, keep_columns)
    _show(model, rows.y, run, screen)


@app.command()
def resume(
    run: RunFolder,
    data: Annotated[
        str | None,
        typer.Option(metavar="DATA", help="Where the data is now, if it was moved."),
    ] = None,
    keep_columns: KeepColumns = False,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Continue an interrupted fit from its checkpoint.

    The result is that of a fit without interruption. A finished run is only shown again.

    \b
    gedi resume gedi-runs/points-1
    gedi resume gedi-runs/points-1 --data /new/place/points.csv
    """
    from gedilearn.cli.data import load_source, resume_command
    from gedilearn.training.run import RunDirectory, read_config

    config, files, screen = read_config(run), RunDirectory(run), Screen(as_json, quiet)
    finished = files.model.exists() and files.summary.exists()
    if finished and (files.labels.exists() or not (data or config.data.source)):
        from gedilearn.estimator import GEDI

        screen.message(f"{run} is finished already")
        _show(GEDI.load(files.model), None, run, screen)
        return
    with screen.progress() as progress:
        progress.phase("reading the data again")
        rows = load_source(run, config, data, "give it with --data DATA", screen)
        loading_torch(progress)
        from gedilearn.estimator import GEDI

        with interruptible(f"continue with {resume_command(run)}"):
            model = GEDI.resume(run, rows.x, progress=progress)
            _write_labels(model, rows, run, progress, keep_columns)
    _show(model, rows.y, run, screen)


def _write_labels(model: GEDI, rows: Rows, run: Path, progress: Progress, keep: bool) -> None:
    """Write the cluster of each row."""
    from gedilearn.cli.data import found
    from gedilearn.training.run import RunDirectory

    if is_first_process():
        progress.phase("labels")
        columns = rows.results(model, found(model, rows.x, model.labels_), keep)
        write_columns(RunDirectory(run).labels, columns)


def _show(model: GEDI, y: Any, run: Path, screen: Screen) -> None:
    """The result in a short table and in words, or as JSON."""
    if not is_first_process():
        return
    from gedilearn.evaluation.clustering import clustering_scores

    summary = model.summary()
    scores = {} if y is None else clustering_scores(y, model.labels_)
    agreement = {name: scores[name] for name in ("nmi", "ami") if scores}
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
    content = summary | agreement | {"run": str(run)}
    if model.columns_ is not None:
        content["columns"] = {each.name: each.kind for each in model.columns_.all}
    screen.show(content, ("", ""), rows, [*lines, f"run directory: {run}"])
