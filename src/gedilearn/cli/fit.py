"""Commands that fit: `fit`, `grade`, `resume`."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Option

from gedilearn.cli import data as inputs
from gedilearn.cli.app import Screen, app, csv_of, interruptible, short, table
from gedilearn.errors import InputError
from gedilearn.io import is_first_process, write_text
from gedilearn.registry import METHODS

if TYPE_CHECKING:
    from gedilearn.data.dataset import Dataset
    from gedilearn.estimator import GEDI
    from gedilearn.progress import Progress

MOST_TOLD = 12  # clusters
SHOWN = ("n_samples", "n_clusters", "bound_gap", "iterations", "seconds", "nmi", "ami")
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
            help="Number of clusters; chosen from 2 to 10 by evidence if not given.",
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
            help="The training objective: gedi, gedi without a term, or another method.",
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
            help="The column with the classes of some rows, empty in all others: clusters are "
            "these classes, and further ones if -k is larger.",
        ),
    ] = None,
    seed: Seed = None,
    outliers: inputs.Outliers = None,
    *,
    reading: inputs.FitOptions,
    screen: Screen,
) -> None:
    """Cluster DATA and print a verdict on the result.

    Trains a network and writes a run directory: the model, the cluster of each row (labels.csv),
    the settings, and a checkpoint for gedi resume. The columns of a table may be numbers, dates,
    times, truth values, categories and IDs, and cells may be missing. The kind of each column is
    detected and printed; docs/tables.md has the rules.

    \b
    gedi fit customers.csv
    gedi fit moons --clusters 2
    gedi fit iris.csv -k 3 --label-column species --out runs/iris
    gedi fit customers.csv --class-column segment
    gedi fit customers.csv -k 4 --drop notes --categorical zip --id-column customer
    gedi fit customers.csv --outliers 0.02
    gedi fit kunden.csv -k 4 --separator semicolon --decimal comma
    gedi fit x.npy -k 10 --set training.n_init=4 --set weights.inv=20
    gedi fit photographs -k 5 --size 32x32 --skip-broken
    """
    changed = inputs.changes(set_)
    if "n_clusters" in changed:
        raise InputError(f"--set n_clusters={changed['n_clusters']}: use --clusters")
    given = {"method": method, "training.seed": seed, "n_clusters": clusters}
    changed |= {name: value for name, value in given.items() if value is not None}
    labels = {"label_column": label_column, "class_column": class_column}
    _fit(data, out, preset, changed, labels, reading, screen, outliers=outliers)


@app.command()
def grade(
    data: inputs.Data,
    label_column: Annotated[
        str | None, Option(metavar="NAME", help="The column with the labels to judge.")
    ] = None,
    out: OutRun = None,
    set_: inputs.Changes = None,
    seed: Seed = None,
    *,
    reading: inputs.FitOptions,
    screen: Screen,
) -> None:
    """Judge clusters that were made elsewhere, by another method or by hand.

    A network learns the labels and is held against the data: the verdict is that of gedi fit, on
    these labels. Rows with an empty label or -1 are in no cluster. The run directory has, for each
    row, how far to trust its label, and the label that the network suggests (labels.csv).

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
    """Fit with settings that are `changed`, and print the result."""
    from gedilearn.presets import preset as preset_values
    from gedilearn.settings import AUTO, assign, checked, flat, resolve

    column = labels.pop("class_column")
    changed |= reading.settings(changed.get("table.kinds"), column)
    values = preset_values(preset, changed.get("method"))
    for name, value in changed.items():
        assign(values, name, value)
    checked(values)
    how = reading.how() | labels
    with screen.progress() as progress:
        progress.phase(f"reading {data}")
        rows, typed = inputs.read_for_fit(data, screen, values, how)
        progress.phase("loading torch")
        from gedilearn.estimator import GEDI
        from gedilearn.training.run import RunDirectory

        settings = resolve(values, (len(rows.x), typed.width) if typed else rows.x.shape)
        classes = None
        if column is not None or graded:
            rows, classes = inputs.labelled(rows, column, graded)
        if "n_clusters" in values or not isinstance(settings.prior, str):
            model = GEDI.from_settings(settings)
        else:
            number = AUTO if classes is None else None
            model = GEDI(number, random_state=settings.training.seed, settings=flat(values))
        described = inputs.describe(data, how, rows, typed is not None)
        described["class_column"] = column
        if outliers is not None:
            if not settings.learns_density:
                raise InputError(
                    f"--outliers {outliers}: the fit learns no density to find them by"
                )
            described["outliers"] = outliers
        with (
            inputs.run_folder(out, rows.name, settings.device.devices) as run,
            interruptible(f"continue with {inputs.resume_command(run)}", RunDirectory(run).config),
        ):
            model.fit_run(rows.x, run, described, progress, typed, classes, graded)
            _write_labels(model, rows, run, progress, screen)
    _show(model, rows.y, run, screen)


@app.command()
def resume(
    run: inputs.RunFolder,
    data: Annotated[
        str | None, Option(metavar="DATA", help="The data of the fit, if it was moved.")
    ] = None,
    *,
    screen: Screen,
) -> None:
    """Continue an interrupted fit from its checkpoint.

    The result is the same as without the interruption. If the run is finished, its result is
    printed again.

    \b
    gedi resume gedi-runs/points-1
    gedi resume gedi-runs/points-1 --data /new/place/points.csv
    """
    from gedilearn.estimator import GEDI
    from gedilearn.training.run import RunDirectory, read_config

    config, files = read_config(run), RunDirectory(run)
    finished = files.model.exists() and files.summary.exists()
    if finished and (files.labels.exists() or not (data or config.data.source)):
        screen.message(f"{run} is finished already")
        _show(GEDI.load(files.model), None, run, screen)
        return
    with screen.progress() as progress:
        progress.phase("reading the data again")
        rows = inputs.read_source(run, config, data, "give it with --data DATA", screen)
        classes = None
        if config.labelled:
            rows, classes = inputs.labelled(rows, config.data.class_column, config.graded)
        with interruptible(f"continue with {inputs.resume_command(run)}"):
            model = GEDI.resume(run, rows.x, classes=classes, progress=progress)
            _write_labels(model, rows, run, progress, screen)
    _show(model, rows.y, run, screen)


def _write_labels(
    model: GEDI, rows: Dataset, run: Path, progress: Progress, screen: Screen
) -> None:
    """Write the cluster of each row; -1 for outliers, if they were asked for."""
    from gedilearn.training.run import RunDirectory, read_config

    if is_first_process():
        progress.phase("labels")
        outliers = read_config(run).data.outliers
        found = inputs.found(model, rows.x, model.labels_, outliers)
        write_text(RunDirectory(run).labels, csv_of(inputs.results(rows, model, found)))
        if outliers is not None:
            screen.message(inputs.outlier_words(found["cluster"]))


def _show(model: GEDI, y: Any, run: Path, screen: Screen) -> None:
    """Print the result: a table and the verdict, or JSON."""
    from gedilearn.evaluation.clustering import clustering_scores
    from gedilearn.explanation import read_profile
    from gedilearn.training.run import RunDirectory

    if not is_first_process():
        return
    content = model.summary() | {"run": str(run)}
    if model.columns_ is not None:
        content["columns"] = {column.name: column.kind for column in model.columns_.all}
    profiles = [each for each in read_profile(RunDirectory(run)).clusters if each.words]
    lines: list[Any] = [
        f"{model.names_[p.cluster]}, {p.size} rows: {p.words}" for p in profiles[:MOST_TOLD]
    ]
    lines += [model.verdict_.text()]
    if y is not None:
        scores = clustering_scores(y, model.labels_)
        content |= {"nmi": scores["nmi"], "ami": scores["ami"]}
        lines.append("NMI and AMI compare the clusters with the labels, which the fit did not use.")
    sizes = [str(size) for size in content["cluster_sizes"]]
    rows = [("sizes", ", ".join(sizes[:MOST_TOLD]) + ", ..." * (len(sizes) > MOST_TOLD))]
    rows += [(name, short(content[name])) for name in SHOWN if name in content]
    if model.class_names_:
        heads = ("cluster", "size", "trust", "place")
        found = [[row.get(k) for k in ("name", *heads[1:])] for row in content["clusters"]]
        shown = [[text if isinstance(text, str) else short(text) for text in row] for row in found]
        lines.insert(0, table(heads, shown))
    for problem in model.diagnosis_.problems:
        mode = f" ({problem.mode})" if problem.mode else ""
        lines.append(f"- {problem.name}: {problem.words}{mode}")
    lines += [f"more: gedi report {shlex.quote(str(run))} --open", f"run directory: {run}"]
    screen.show(content, table(("", ""), rows), *lines)
