"""Commands on fitted models: `predict`, `score`, `sample`, `diagnose`, `evaluate`."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import Annotated

import typer

from gedilearn.cli.app import (
    AsJson,
    Data,
    OutFile,
    Outside,
    Probe,
    Quiet,
    Run,
    Seed,
    Size,
    SkipBroken,
    app,
    outside,
)
from gedilearn.cli.data import Decimal, KeepColumns, Separator
from gedilearn.cli.output import Result, Screen
from gedilearn.errors import InputError


class Kind(str, Enum):
    """Scores of a point, higher for more typical ones; a test holds them against the estimator."""

    log_density = "log_density"
    gradient_norm = "gradient_norm"
    confidence = "confidence"
    energy = "energy"


@app.command()
def predict(
    run: Run,
    data: Data,
    out: OutFile = None,
    proba: Annotated[
        bool, typer.Option("--proba", help="Also give the probability of every cluster.")
    ] = False,
    keep_columns: KeepColumns = False,
    size: Size = None,
    skip_broken: SkipBroken = False,
    separator: Separator = None,
    decimal: Decimal = None,
    as_json: AsJson = False,
) -> None:
    """Give each row of DATA its cluster.

    Beside the cluster come the number of the row, its ID or the path of its image, the probability
    of that cluster and, where the density was learnt, an outlier score, minus log p(x). Columns are
    found by their names if the model knows them, in any order. A .csv file need not be written as
    that of the fit was. A .npy file holds the clusters alone, or with --proba the matrix of
    probabilities.

    \b
    gedi predict gedi-runs/points-1 more.csv
    gedi predict gedi-runs/points-1 more.csv --proba --out probabilities.csv
    gedi predict gedi-runs/customers-1 new.csv --keep-columns --out clusters.parquet
    """
    from gedilearn.cli.data import found
    from gedilearn.cli.runs import Fitted

    screen, fitted = Screen(as_json), Fitted.open(run)
    rows, model = fitted.read(data, size, skip_broken, screen, separator, decimal), fitted.model
    said = found(model, rows.x)
    told = rows.results(model, {})
    content = {name: values.tolist() for name, values in (told | said).items()}
    content["labels"] = content.pop("cluster")
    array = said["cluster"]
    if proba:
        array = model.predict_proba(rows.x)
        said |= {f"p{k}": array[:, k] for k in range(array.shape[1])}
        content["probabilities"] = array.tolist()
    screen.give(Result(rows.results(model, said, keep_columns), array, content), out)


@app.command()
def score(
    run: Run,
    data: Data,
    kind: Annotated[
        Kind,
        typer.Option(
            help="log_density: log p(x) in nats, up to a constant without a base; gradient_norm: "
            "minus the norm of its gradient, the paper's score; confidence: the largest p(y|x); "
            "energy: the paper's log p(x), up to a constant."
        ),
    ] = Kind.log_density,
    out: OutFile = None,
    size: Size = None,
    skip_broken: SkipBroken = False,
    separator: Separator = None,
    decimal: Decimal = None,
    as_json: AsJson = False,
) -> None:
    """Say how typical each row of DATA is, higher for more.

    \b
    gedi score gedi-runs/points-1 more.csv
    gedi score gedi-runs/points-1 more.csv --kind gradient_norm --out scores.npy
    """
    from gedilearn.cli.runs import Fitted

    screen, fitted = Screen(as_json), Fitted.open(run)
    rows = fitted.read(data, size, skip_broken, screen, separator, decimal)
    scores = fitted.model.score_samples(rows.x, kind.value)
    table = rows.results(fitted.model, {kind.value: scores})
    screen.give(Result(table, scores, {"kind": kind.value, "scores": scores.tolist()}), out)


@app.command()
def sample(
    run: Run,
    number: Annotated[
        int, typer.Option("--number", "-n", metavar="N", help="How many points.")
    ] = 64,
    cluster: Annotated[
        int | None, typer.Option(metavar="K", help="Points of this cluster alone.")
    ] = None,
    steps: Annotated[
        int | None,
        typer.Option(metavar="N", help="Langevin steps for each point; 20, or 500 without a base."),
    ] = None,
    seed: Seed = 0,
    out: OutFile = None,
    as_json: AsJson = False,
) -> None:
    """Generate new points like the training data.

    Each comes with its cluster. Of a table they are rows with its columns. A .npy file holds the
    points alone, those of a table encoded as numbers; images can only be written so.

    \b
    gedi sample gedi-runs/points-1 -n 1000 --out new.csv
    gedi sample gedi-runs/points-1 -n 10 --cluster 2
    """
    from gedilearn.cli.runs import Fitted

    fitted = Fitted.open(run)
    is_image = len(fitted.shape) > 1
    if is_image and (out is None or out.suffix.lower() != ".npy"):
        raise InputError("samples of images need a file: --out FILE.npy")
    points, labels = fitted.model.sample(number, cluster=cluster, steps=steps, random_state=seed)
    table = {}
    if not is_image:
        table = fitted.columns_of(points) | {"cluster": labels}
    is_table = fitted.model.columns_ is not None
    array = fitted.model.validate(points) if is_table else points
    rows = points.to_numpy(dtype=object) if is_table else points
    content = {"points": rows.tolist(), "labels": labels.tolist()}
    Screen(as_json).give(Result(table, array, content), out)


@app.command()
def diagnose(
    run: Run,
    data: Annotated[
        str | None,
        typer.Argument(metavar="DATA", help="Data to look at; that of the fit if not given."),
    ] = None,
    size: Size = None,
    skip_broken: SkipBroken = False,
    separator: Separator = None,
    decimal: Decimal = None,
    as_json: AsJson = False,
) -> None:
    """Say whether a clustering is to be trusted.

    Lists what was found on each way in which such training can fail, then the verdict.

    \b
    gedi diagnose gedi-runs/points-1
    gedi diagnose gedi-runs/points-1 more.csv --json
    """
    from gedilearn.cli.runs import Fitted

    screen, fitted = Screen(as_json), Fitted.open(run)
    if "views" in fitted.objects:
        raise InputError(f"{run} was fitted with a function as views: diagnose it in Python")
    x = fitted.read(data, size, skip_broken, screen, separator, decimal).x
    diagnosis = fitted.model.diagnose(x)
    rows = [
        (f.name, f"{f.value:.4g}", f"{f.threshold:g}", "yes" if f.ok else "NO", f.words)
        for f in diagnosis.findings
    ]
    content = diagnosis.to_json() | {"n_samples": len(x)}
    screen.show(content, ("finding", "value", "threshold", "ok", ""), rows, [diagnosis.verdict])


@app.command()
def evaluate(
    run: Run,
    test: Annotated[
        str | None,
        typer.Option(
            metavar="DATA",
            help="Data to measure on; if not given, the test images of a fetched set, or else the "
            "training data, and the result says so.",
        ),
    ] = None,
    ood: Outside = None,
    train: Annotated[
        str | None,
        typer.Option(metavar="DATA", help="The training data, if it is not where it was."),
    ] = None,
    probe: Annotated[
        Probe,
        typer.Option(
            help="Linear classifier on the features: fast (logistic regression), paper (the "
            "paper's protocol, slow) or none."
        ),
    ] = Probe.fast,
    samples: Annotated[
        int,
        typer.Option(metavar="N", min=0, help="How many points to generate; 0 for none."),
    ] = 500,
    steps: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=0,
            help="Langevin steps for each sample; 20, or 500 without a base.",
        ),
    ] = None,
    inception: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="The weights of Inception, for FID; without them, another Frechet distance is "
            "measured under its own name.",
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Folder for evaluation.json, evaluation.md and pictures, replaced if they are "
            "there; RUN/evaluation if not given.",
        ),
    ] = None,
    separator: Separator = None,
    decimal: Decimal = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Measure a fitted model on test data.

    Compares clusters with labels, tells other data from the test data, classifies by the features
    and generates points. Prints a table and writes evaluation.json, evaluation.md and pictures.
    Labels, where the data has them, are used here only, after the fit. docs/metrics.md says what
    each number means.

    \b
    gedi evaluate gedi-runs/mnist-1 --ood svhn:test
    gedi evaluate gedi-runs/points-1 --test more.csv --ood others=elsewhere.csv --samples 0
    """
    from gedilearn import evaluation
    from gedilearn.cli.data import text_options
    from gedilearn.cli.runs import Fitted
    from gedilearn.training.run import RunDirectory

    screen, fitted = Screen(as_json, quiet), Fitted.open(run)
    text = text_options(separator, decimal)
    out = out or RunDirectory(fitted.file.parent).evaluation
    trained = fitted.read_train(train, test, screen)
    tested = fitted.read_test(trained, train, test, screen, text)
    result = evaluation.evaluate(
        fitted.model.on_points(),
        trained,
        tested,
        others=outside(ood, lambda data: fitted.read_outside(data, screen, text)),
        n_samples=samples,
        steps=steps,
        probe=probe.value,
        weights=inception,
        # Views that were a function are in no file.
        certificate="views" not in fitted.objects,
        buffer=evaluation.read_buffer(run, fitted.model, screen.message) if run.is_dir() else None,
        out=out,
        tell=screen.message,
    )
    rows, lines = evaluation.table(result), evaluation.sentences(result)
    screen.show(result, ("measure", "value", "beside it"), rows, lines)
    if not screen.json:
        screen.message(f"written in {out}: {', '.join(result['files'])}")
