"""`gedi evaluate`: options and help page."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import Annotated

import typer

from gedilearn.cli.data_commands import AsJson, Quiet
from gedilearn.cli.plainly import plainly

evaluation = typer.Typer(rich_markup_mode=None)


class Protocol(str, Enum):
    """Linear probes; a test holds them against those of `evaluation`."""

    fast = "fast"
    paper = "paper"
    none = "none"


@evaluation.command()
@plainly
def evaluate(
    run: Annotated[
        Path,
        typer.Argument(
            metavar="RUN", help="A run directory written by gedi fit, or a model.safetensors file."
        ),
    ],
    test: Annotated[
        str | None,
        typer.Option(
            metavar="DATA",
            help="Data to measure on; if not given, the test images of a fetched set, or else the "
            "training data, and the result says so.",
        ),
    ] = None,
    ood: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=DATA",
            help="Data outside, to tell from the test data; NAME= may be left out. Repeatable.",
        ),
    ] = None,
    train: Annotated[
        str | None,
        typer.Option(metavar="DATA", help="The training data, if it is not where it was."),
    ] = None,
    probe: Annotated[
        Protocol,
        typer.Option(
            help="Linear probe: fast (logistic regression), paper (its protocol, slow) or none."
        ),
    ] = Protocol.fast,
    samples: Annotated[
        int,
        typer.Option(metavar="N", min=0, help="How many samples to draw; 0 for none."),
    ] = 500,
    steps: Annotated[
        int, typer.Option(metavar="N", min=0, help="Langevin steps of each sample, from noise.")
    ] = 500,
    inception: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="The weight file of FID; without it, another Frechet distance under its own name.",
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
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Measure a fitted model on test data.

    Clusters against labels, points outside, features, samples: a table, evaluation.json,
    evaluation.md and pictures. Labels, where the data has them, are used here only, after the fit.
    docs/metrics.md says what each number means.

    \b
    gedi evaluate gedi-runs/mnist-1 --ood svhn:test
    gedi evaluate gedi-runs/points-1 --test more.csv --ood others=elsewhere.csv --samples 0
    """
    from gedilearn.cli import evaluate_actions
    from gedilearn.output import Screen

    evaluate_actions.evaluate(
        run,
        test,
        ood or [],
        train,
        {"probe": probe.value, "n_samples": samples, "steps": steps, "weights": inception},
        out,
        Screen(as_json, quiet),
    )
