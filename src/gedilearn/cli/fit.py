"""Commands that fit: `fit`, `grade`, `resume`."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Option

from gedilearn.cli import data as inputs
from gedilearn.cli.app import Screen, app, cell, csv_of, interruptible, table
from gedilearn.errors import InputError
from gedilearn.io import is_first_process, write_text
from gedilearn.registry import METHODS

if TYPE_CHECKING:
    from gedilearn.data.dataset import Dataset
    from gedilearn.estimator import GEDI
    from gedilearn.explanation import Profile
    from gedilearn.progress import Progress

MOST_CLUSTERS, MOST_WORDS = 12, 3  # printed, and of the columns that define each
OutRun = Annotated[
    Path | None,
    Option(metavar="RUN", help="Folder for the run, new or empty; gedi-runs/NAME-1 if not given."),
]
Seed = Annotated[
    int | None, Option(metavar="N", help="Seed of the random numbers; 0 if not given.")
]


@app.command()
def fit(
    data: inputs.Data,
    clusters: Annotated[
        int | None,
        Option(
            *("--clusters", "-k"),
            metavar="K",
            min=2,
            help="Number of clusters; chosen from 2 to 10, without labels, if not given.",
        ),
    ] = None,
    out: OutRun = None,
    preset: Annotated[
        str, Option(metavar="NAME", help="A set of settings; see gedi settings --presets.")
    ] = "default",
    method: Annotated[
        str | None,
        Option(
            metavar=f"[{'|'.join(METHODS)}]",
            help="Training objective: gedi, gedi without one term (no-...), or another method.",
        ),
    ] = None,
    set_: inputs.Changes = None,
    label_column: Annotated[
        str | None,
        Option(metavar="NAME", help="The column with true labels, to compare the clusters with."),
    ] = None,
    class_column: Annotated[
        str | None,
        Option(
            metavar="NAME",
            help="The column with the classes of some rows, empty in the others. Each class is a "
            "cluster; with a larger -k there are further clusters.",
        ),
    ] = None,
    seed: Seed = None,
    outliers: inputs.Outliers = None,
    *,
    reading: inputs.FitOptions,
    screen: Screen,
) -> None:
    """Cluster DATA and print a verdict on the result.

    Prints the clusters, what defines each, and a verdict: whether to trust them, and why. Writes a
    run directory: the model, the cluster of each row (labels.csv), the settings, and a checkpoint
    for gedi resume. Columns of a table may be numbers, dates, times, truth values, categories or
    IDs, and cells may be missing. The kind of each column is detected; -v prints it.

    \b
    gedi fit customers.csv
    gedi fit moons --clusters 2
    gedi fit iris.csv -k 3 --label-column species --out runs/iris
    gedi fit customers.csv --class-column segment
    gedi fit customers.csv -k 4 --drop notes --categorical zip --id-column customer
    gedi fit customers.csv --outliers 0.05
    gedi fit kunden.csv -k 4 --separator semicolon --decimal comma
    gedi fit x.npy -k 10 --set training.n_init=4 --set weights.inv=20
    gedi fit photographs -k 5 --size 32x32 --skip-broken
    """
    changed = inputs.changes(set_)
    if "n_clusters" in changed:
        raise InputError(f"--set n_clusters={changed['n_clusters']}: use --clusters")
    options = {"method": method, "training.seed": seed, "n_clusters": clusters}
    changed |= {name: value for name, value in options.items() if value is not None}
    labels = {"label_column": label_column, "class_column": class_column}
    _fit(data, out, preset, changed, labels, reading, screen, outliers=outliers)


@app.command()
def grade(
    data: inputs.Data,
    label_column: Annotated[
        str | None, Option(metavar="NAME", help="The column with the labels to grade.")
    ] = None,
    out: OutRun = None,
    set_: inputs.Changes = None,
    seed: Seed = None,
    *,
    reading: inputs.FitOptions,
    screen: Screen,
) -> None:
    """Grade clusters that another method or a person made.

    A network learns the labels; the verdict is that of gedi fit, about these labels. Rows with an
    empty label or -1 are left out. The run directory has for each row the trust in its label, and
    the label that the network suggests (labels.csv).

    \b
    gedi grade customers.csv --label-column segment
    gedi report gedi-runs/customers-1 --open
    """
    changed = {"weights.gen": 0.0, "training.seed": seed or 0} | inputs.changes(set_)
    _fit(data, out, "default", changed, {"class_column": label_column}, reading, screen, True)


def _fit(
    data: str,
    out: Path | None,
    preset: str,
    changed: dict[str, Any],
    labels: dict[str, str | None],
    reading: inputs.FitOptions,
    screen: Screen,
    graded: bool = False,
    outliers: float | None = None,
) -> None:
    """Fit with `changed` settings, and print the result."""
    from gedilearn.presets import preset as preset_values
    from gedilearn.settings import AUTO, assign, checked, flat

    class_column = labels.pop("class_column")
    changed |= reading.settings(changed.get("table.kinds"), class_column)
    values = preset_values(preset, changed.get("method"))
    for name, value in changed.items():
        assign(values, name, value)
    settings = checked(values)
    arguments = reading.load_arguments() | labels
    with screen.progress() as progress:
        progress.phase(f"reading {data}")
        rows, columns = inputs.read_for_fit(data, screen, values, arguments, reading.verbose)
        from gedilearn.estimator import GEDI
        from gedilearn.training.run import RunDirectory

        classes = None
        if class_column is not None or graded:
            rows, classes = inputs.labelled(rows, class_column, graded)
        number = AUTO if classes is None and "n_clusters" not in values else None
        model = GEDI(number, random_state=settings.training.seed, settings=flat(values))
        described = inputs.describe(data, arguments, rows, columns is not None)
        described["class_column"] = class_column
        if outliers is not None:
            if not settings.has_base:
                raise InputError(f"--outliers {outliers}: this fit learns no density")
            described["outliers"] = outliers
        with (
            inputs.run_folder(out, rows.name, settings.device.devices) as run,
            interruptible(f"continue with {inputs.resume_command(run)}", RunDirectory(run).config),
        ):
            model.fit_run(rows.x, run, described, progress, columns, classes)
            _write_labels(model, rows, run, progress, screen)
    _show(model, rows.y, data, run, screen)


@app.command()
def resume(
    run: inputs.RunFolder,
    data: Annotated[
        str | None, Option(metavar="DATA", help="The data of the fit, if it was moved.")
    ] = None,
    *,
    screen: Screen,
) -> None:
    """Continue an interrupted fit, or print a finished one.

    The fit continues from its checkpoint. The result is the same as without the interruption.

    \b
    gedi resume gedi-runs/points-1
    gedi resume gedi-runs/points-1 --data /new/place/points.csv
    """
    from gedilearn.estimator import GEDI
    from gedilearn.training.run import RunDirectory, read_config

    config, files = read_config(run), RunDirectory(run)
    finished = files.model.exists() and files.summary.exists()
    source = data or config.data.source
    if finished and (files.labels.exists() or not source):
        screen.message(f"{run} is finished already")
        _show(GEDI.load(files.model), None, source, run, screen)
        return
    with screen.progress() as progress:
        progress.phase(f"reading {source}")
        rows = inputs.read_source(run, config, data, "give it with --data DATA", screen)
        if config.data.columns:
            from pandas import DataFrame

            rows = replace(rows, x=DataFrame(rows.x, columns=config.data.columns))
        classes = None
        if config.labelled:
            rows, classes = inputs.labelled(rows, config.data.class_column, config.graded)
        with interruptible(f"continue with {inputs.resume_command(run)}"):
            model = GEDI.resume(run, rows.x, classes=classes, progress=progress)
            _write_labels(model, rows, run, progress, screen)
    _show(model, rows.y, source, run, screen)


def _write_labels(
    model: GEDI, rows: Dataset, run: Path, progress: Progress, screen: Screen
) -> None:
    """Write the cluster of each row; -1 for outliers, if the config has a level for them."""
    from gedilearn.training.run import RunDirectory, read_config

    if is_first_process():
        progress.phase("writing the result")
        outliers = read_config(run).data.outliers
        outputs, training = model.outputs(), model.result_.training
        suggested = training.labels if training and len(model.disputed_) else None
        columns = inputs.output_columns(model, outputs, rows.x, outliers, screen, suggested)
        write_text(RunDirectory(run).labels, csv_of(inputs.results(rows, model, columns)))


def _show(model: GEDI, y: Any, source: str | None, run: Path, screen: Screen) -> None:
    """Print the clusters, the verdict and the next commands, or all details as JSON.

    y: labels to compare the clusters with; source: the data of the fit
    """
    from gedilearn.evaluation.clustering import clustering_scores
    from gedilearn.explanation import read_profile
    from gedilearn.training.run import RunDirectory, read_config

    if not is_first_process():
        return
    content = model.summary() | {"run": str(run)}
    if model.columns_ is not None:
        content["columns"] = {column.name: column.kind for column in model.columns_.all}
    verdict, figures = model.verdict_, dict(model.verdict_.figures)
    if y is not None:
        scores = clustering_scores(y, model.labels_)
        content |= {name: scores[name] for name in ("nmi", "ami")}
        figures |= {f"{name.upper()} with the labels": scores[name] for name in ("nmi", "ami")}
    profiles = read_profile(RunDirectory(run)).clusters
    shape = (len(model.labels_), *model.point_shape_)
    screen.show(
        content,
        f"{source or run}: {inputs.size_words(shape, model.columns_)}",
        *_clusters(content["clusters"], profiles, model.names_),
        verdict.text(read_config(run).command(source)),
        table(("", ""), [(name, cell(value)) for name, value in figures.items()]),
        *_next_commands(run, source),
    )


def _clusters(
    rows: list[dict[str, Any]], profiles: Sequence[Profile], names: Sequence[str]
) -> list[Any]:
    """A table of the largest clusters, in their order."""
    largest = sorted(profiles, key=lambda profile: -profile.size)[:MOST_CLUSTERS]
    shown = sorted(profile.cluster for profile in largest)
    columns = {
        "cluster": [names[k].removeprefix("cluster ") for k in shown],
        "rows": [cell(rows[k]["size"]) for k in shown],
        "share": [f"{rows[k]['share']:.0%}" for k in shown],
        "trust": [cell(rows[k].get("trust")) for k in shown],
        "what defines it": [profiles[k].short_words(MOST_WORDS) for k in shown],
    }
    columns = {head: cells for head, cells in columns.items() if any(cells)}
    parts = [table(list(columns), zip(*columns.values(), strict=True))]
    left = len(profiles) - len(shown)
    return parts + [f"and {left} smaller clusters"] * bool(left)


def _next_commands(run: Path, source: str | None) -> list[str]:
    folder, ending = shlex.quote(str(run)), Path(source or "").suffix
    commands = {
        f"gedi report {folder} --open": "the report, with figures",
        f"gedi explain {folder}": "what defines each cluster, in numbers",
        f"gedi predict {folder} new{ending or '-data'}": "the clusters of new rows",
    }
    width = max(map(len, commands))
    lines = [f"  {command:{width}}  # {purpose}" for command, purpose in commands.items()]
    return [f"The cluster of each row is in {run / 'labels.csv'}. To see more:", *lines]
