"""Commands on fitted models: `predict`, `sample`, `explain`, `evaluate`, `report`."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from typer import Option

from gedilearn.cli import data as inputs
from gedilearn.cli.app import OutFile, Screen, app, cell, table
from gedilearn.errors import InputError
from gedilearn.io import printable

if TYPE_CHECKING:
    from rich.tree import Tree

    from gedilearn.data.dataset import Dataset
    from gedilearn.estimator import GEDI
    from gedilearn.explanation import Explanation
    from gedilearn.training.run import Config

Score = Literal["log_density", "gradient_norm", "confidence", "energy"]

# --- commands -----------------------------------------------------------------------------------


@app.command()
def predict(
    run: inputs.Run,
    data: inputs.Data,
    out: OutFile = None,
    proba: Annotated[bool, Option("--proba", help="Add the probability of every cluster.")] = False,
    score: Annotated[
        Score | None, Option(help="Add a score, which is higher for more typical rows.")
    ] = None,
    outliers: inputs.Outliers = None,
    keep_columns: inputs.KeepColumns = False,
    *,
    reading: inputs.FileOptions,
    screen: Screen,
) -> None:
    """Assign each row of DATA to a cluster.

    Prints a line for each row: its number, its ID or the path of its image, its cluster, the
    probability of this cluster, and the outlier score if the model has a density on a base. Columns
    are found by name, in any order. Images of a folder are resized to the size of the training
    images. A .npy file holds one array: the clusters, the scores (with --score) or the
    probabilities of all clusters (with --proba).

    Scores: log_density is log p(x) in nats, up to a constant if the model has no base density.
    gradient_norm is minus the norm of the gradient of log p(x), the score of the paper. confidence
    is the largest probability p(y|x). energy is the logsumexp of the logits.

    \b
    gedi predict gedi-runs/points-1 more.csv
    gedi predict gedi-runs/points-1 more.csv --proba --out probabilities.csv
    gedi predict gedi-runs/points-1 more.csv --score gradient_norm --out scores.npy
    gedi predict gedi-runs/customers-1 new.csv --keep-columns --out clusters.parquet
    gedi predict gedi-runs/customers-1 new.csv --outliers 0.05
    """
    fitted = Fitted.open(run, screen, reading)
    rows, model = fitted.read(data), fitted.model
    outputs = model.outputs(rows.x)
    results = inputs.output_columns(model, outputs, rows.x, outliers, screen)
    if score == "log_density" and outputs.log_density is not None:
        results[score] = outputs.log_density
    elif score:
        results[score] = model.score_samples(rows.x, score)
    array = results[score or "cluster"]
    if proba:
        array = outputs.probabilities
        results |= {f"p{k}": array[:, k] for k in range(array.shape[1])}
    screen.give(inputs.results(rows, model, results, keep_columns), array, out)


@app.command()
def sample(
    run: inputs.Run,
    number: Annotated[int, Option("--number", "-n", metavar="N", help="Number of points.")] = 64,
    cluster: Annotated[int | None, Option(metavar="K", help="Only points of this cluster.")] = None,
    given: Annotated[
        list[str] | None,
        Option(metavar="COLUMN=VALUE", help="Only rows like this, see above; may be repeated."),
    ] = None,
    steps: inputs.Steps = None,
    seed: inputs.Seed = 0,
    out: OutFile = None,
    *,
    screen: Screen,
) -> None:
    """Generate new points like the training data.

    Each point has its cluster. Points of a model of a table are rows of such a table. A .npy file
    holds the points as numbers, without their clusters. Images need a .npy file.

    --given asks for rows with a value of a column, or with a number from LOW:HIGH, or with a date
    or time from LOW..HIGH. Columns without names are x1, x2 and so on.

    \b
    gedi sample gedi-runs/points-1 -n 1000 --out new.csv
    gedi sample gedi-runs/points-1 -n 10 --cluster 2
    gedi sample gedi-runs/penguins-1 --given species=Adelie --given body_mass_g=4000:5000
    """
    from gedilearn.rows import Refused

    fitted = Fitted.open(run, screen)
    is_image = len(fitted.model.point_shape_) > 1
    if is_image and (out is None or out.suffix.lower() != ".npy"):
        raise InputError("samples of images need a file: --out FILE.npy")
    options: dict[str, Any] = {"cluster": cluster, "steps": steps, "random_state": seed}
    with inputs.printed(Refused, screen):
        points, labels = fitted.model.sample(number, given=inputs.conditions(given), **options)
    columns = {} if is_image else inputs.by_column(points, fitted.columns) | {"cluster": labels}
    array = points if fitted.model.columns_ is None else fitted.model.validate(points)
    screen.give(columns, array, out)


@app.command()
def explain(
    run: inputs.RunFolder,
    levels: Annotated[bool, Option("--levels", help="Show how clusters merge.")] = False,
    *,
    screen: Screen,
) -> None:
    """Show what defines each cluster.

    Lists the size of every cluster, the columns in which it differs from the others or the words of
    its texts, the most similar clusters, and the numbers of its typical, uncertain and unusual rows
    (counted from 0). Warns if one column alone gives the same clusters.

    \b
    gedi explain gedi-runs/points-1
    gedi explain gedi-runs/points-1 --levels
    gedi explain gedi-runs/points-1 --json
    """
    from gedilearn.explanation import read_profile
    from gedilearn.training.run import RunDirectory, read_config

    read_config(run)  # refuses other folders
    explanation = read_profile(RunDirectory(run))
    if levels:
        groups = {str(k): of.tolist() for k, of in explanation.levels().items()}
        content = {"merges": explanation.merges, "groups": groups}
        screen.show(content, _tree(explanation))
        return
    screen.show(explanation.to_json(), str(explanation))


def _tree(explanation: Explanation) -> Tree:
    """The groups of each level, with their rows and words."""
    from rich.tree import Tree

    clusters = explanation.clusters
    tree = Tree(f"{len(clusters)} clusters, {explanation.n_samples:,} rows")
    above, nodes = [0] * len(clusters), {0: tree}
    for groups in explanation.levels().values():
        added: dict[int, Tree] = {}
        for group in range(max(groups) + 1):
            own = [profile for profile in clusters if groups[profile.cluster] == group]
            parent = above[own[0].cluster]
            if above.count(parent) == len(own) < len(clusters):  # as on the level above
                added[group] = nodes[parent]
                continue
            name = f"cluster {own[0].cluster}" if len(own) == 1 else f"{len(own)} clusters"
            words = explanation.words_of(own)
            line = f"{name}, {sum(profile.size for profile in own):,} rows"
            added[group] = nodes[parent].add(printable(f"{line}: {words}" if words else line))
        above, nodes = groups.tolist(), added
    return tree


@app.command()
def evaluate(
    run: inputs.RunFolder,
    test: Annotated[
        str | None, Option(metavar="DATA", help="Test data, with or without labels.")
    ] = None,
    ood: inputs.Outside = None,
    probe: Annotated[
        inputs.Probe, Option(help="Training of the linear classifier; paper is slow.")
    ] = "fast",
    samples: Annotated[int, Option(metavar="N", min=0, help="Number of samples.")] = 500,
    steps: inputs.Steps = None,
    out: Annotated[
        Path | None,
        Option(metavar="DIR", help="Folder for results; RUN/evaluation if not given."),
    ] = None,
    *,
    reading: inputs.FileOptions,
    screen: Screen,
) -> None:
    """Measure a fitted model on test data, with or without labels.

    Checks whether training failed, and compares the clusters with the labels, if there are any.
    Measures how well the model separates other data (--ood) from its own, how well a linear
    classifier works on its features, and how realistic its samples are. Prints a table, and writes
    evaluation.json and pictures of samples. Without --test, the data are the test images of a
    downloaded set, or the training data. docs/metrics.md explains the numbers.

    \b
    gedi evaluate gedi-runs/mnist-1 --ood svhn:test
    gedi evaluate gedi-runs/points-1 --test more.csv --ood others=elsewhere.csv --samples 0
    """
    from gedilearn import evaluation
    from gedilearn.paper.published import split_for_testing
    from gedilearn.training.run import RunDirectory, read_config

    fitted, config = Fitted.open(run, screen, reading), read_config(run)
    folder = out or RunDirectory(run).evaluation
    test = test or split_for_testing(config.data.source)
    test_data = _test_data(fitted, test, config.data.label_column) if test else None
    training_data = _training_data(fitted, run, config, needed=test_data is None)
    data = test_data or training_data
    assert data is not None
    result = evaluation.evaluate(
        fitted.model.on_points(),
        training_data,
        data,
        others=inputs.outside(ood, lambda data: fitted.points(fitted.read(data))),
        n_samples=samples,
        steps=steps,
        probe=probe,
        certificate="views" not in config.objects,  # a function is in no file
        out=folder,
        say=screen.message,
    )
    findings = [
        (each["name"], cell(each["value"]), ("" if each["ok"] else "PROBLEM: ") + each["words"])
        for each in result["certificate"].get("findings", ())
    ]
    rows = [*evaluation.table(result), *findings]
    grid = table(("measure", "value", "meaning"), rows)
    screen.show(result, grid, evaluation.heading(result))
    if not screen.json:
        screen.message(f"written to {folder}: {', '.join(result['files'])}")


def _training_data(fitted: Fitted, run: Path, config: Config, needed: bool) -> Dataset | None:
    """The data of the fit; None if it cannot be found and is not needed."""
    from gedilearn.data.arrays import as_numbers
    from gedilearn.data.dataset import fingerprint

    try:
        rows = inputs.read_source(run, config, None, "give --test DATA", fitted.screen)
    except InputError as error:
        if needed:
            raise
        fitted.screen.message(f"without training data: {error}")
        return None
    data = fitted.points(rows)
    if fingerprint(as_numbers(data.x, data.name)) != config.data.fingerprint:
        fitted.screen.message(f"warning: {data.name} has changed since the fit of {run}")
    return data


def _test_data(fitted: Fitted, test: str, label_column: str | None) -> Dataset:
    """Test data, with labels if it has the column of labels of the fit."""
    try:
        return fitted.points(fitted.read(test, label_column))
    except InputError:
        if label_column is None:
            raise
    return fitted.points(fitted.read(test))


@app.command()
def report(
    run: inputs.RunFolder,
    open_: Annotated[bool, Option("--open", help="Open the page in the browser.")] = False,
    *,
    screen: Screen,
) -> None:
    """Write the report of a run: an HTML page with figures.

    The page is a single file in the run directory, and can be sent to others.

    \b
    gedi report gedi-runs/points-1 --open
    """
    from gedilearn.report.page import write_report

    page = write_report(run)
    screen.show({"report": str(page)}, f"report: {page}")
    if open_:
        import webbrowser

        webbrowser.open(page.absolute().as_uri())


# --- models and their data ----------------------------------------------------------------------


@dataclass(frozen=True)
class Fitted:
    """A fitted model, and the arguments of `load` for its data."""

    model: GEDI
    screen: Screen
    load_arguments: dict[str, Any]

    @classmethod
    def open(cls, path: Path, screen: Screen, reading: inputs.FileOptions | None = None) -> Fitted:
        """The model of a run directory or of a file."""
        from gedilearn.estimator import GEDI
        from gedilearn.training.run import RunDirectory, read_config

        file = path
        if path.is_dir():
            read_config(path)  # refuses other folders
            file = RunDirectory(path).model
            if not file.exists():
                raise InputError(f"{path} is not finished: {inputs.resume_command(path)}")
        return cls(GEDI.load(file), screen, (reading or inputs.FileOptions()).load_arguments())

    @property
    def columns(self) -> list[str] | None:
        """The names of the columns, if they are known and all are numbers."""
        return self.model.feature_names() if self.model.columns_ is None else None

    def read(self, data: str, label: str | None = None) -> Dataset:
        """New data with the columns of the fit."""
        from gedilearn.data.load import is_folder

        encoding, shape = self.model.columns_, self.model.point_shape_
        arguments = dict(self.load_arguments)
        if is_folder(data) and len(shape) == 3:
            arguments["size"] = shape[1:]
        arguments |= {"columns": self.columns} if encoding is None else {"text": encoding.text}
        return inputs.read(data, self.screen, label_column=label, **arguments)

    def points(self, data: Dataset) -> Dataset:
        """The rows as numbers, for `model.on_points()`."""
        import numpy as np

        encoding = self.model.columns_
        if encoding is None:
            return replace(data, x=np.asarray(data.x))
        return replace(data, x=self.model.validate(data.x), columns=tuple(encoding.names))
