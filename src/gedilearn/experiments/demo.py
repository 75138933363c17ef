"""The tour: three data sets clustered with the defaults, in less than a minute on a laptop."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from gedilearn import panels
from gedilearn.data.dataset import Dataset
from gedilearn.data.load import load
from gedilearn.errors import InputError
from gedilearn.estimator import GEDI
from gedilearn.evaluation.clustering import clustering_scores
from gedilearn.experiments import table
from gedilearn.io import plain, write_json
from gedilearn.report.page import write_report
from gedilearn.training.run import RunDirectory

Row = dict[str, Any]
SETS = {"moons": 2, "circles": 2, "digits": 10}  # and their clusters
SEED = 0
LABELS = "The true labels were used only after training, to compute NMI and AMI (1 is perfect)."
GAP = (
    "The gap is the distance in nats to the best clustering that Proposition 1 allows, measured "
    "without labels: below the tolerance of {tol:g}, the clusters are certified as confident, "
    "invariant and in the prior's proportions."
)


def run(out: Path, console: Console, *, max_iter: int | None = None) -> list[Row]:
    """Cluster all sets, each in its own run directory under `out`, and print one table.

    `out` must be new or empty. `max_iter` shortens the training, for a quick look.
    """
    if out.is_file() or (out.exists() and any(out.iterdir())):
        raise InputError(f"{out} exists already: choose another folder, or remove it")
    rows, seen = [], []
    for name, n_clusters in SETS.items():
        data = load(name)
        size = " x ".join(str(n) for n in data.x.shape)
        _say(console, f"{data.name} ({size}, {n_clusters} clusters) ... ", end="")
        model = GEDI(n_clusters, random_state=SEED, max_iter=max_iter)
        model.fit_run(data.x, out / data.name, {"source": data.source, "name": data.name})
        write_report(out / data.name)
        row: Row = dict(plain(_row(data, model, out / data.name)))
        rows.append(row)
        seen.append((data, model.labels_))
        _say(console, f"{row['verdict']}, {row['iterations']} iterations, {row['seconds']:.1f} s")
    write_json(out / "demo.json", rows)
    _overview(out / "overview.png", rows, seen)
    table.Table("", COLUMNS, [[row] for row in rows]).show(console)
    _say(console, LABELS)
    _say(console, GAP.format(tol=model.settings_.training.tol))
    report = RunDirectory(out / "<data>").report
    _say(console, f"Figures and reports: {out / 'overview.png'}, {report}")
    return rows


def _row(data: Dataset, model: GEDI, run_dir: Path) -> Row:
    """One line of the table: the only place that sees the true labels."""
    assert data.y is not None
    scores, modes = clustering_scores(data.y, model.labels_), model.diagnosis_.failure_modes
    head = model.grade_
    return {
        "data": data.name,
        "n_samples": len(data.x),
        "n_clusters": model.settings_.n_clusters,
        "nmi": scores["nmi"],
        "ami": scores["ami"],
        "gap": model.certificate_gap_,
        "certified": model.converged_,
        "failure_modes": list(modes),
        "verdict": ": ".join([head, ", ".join(modes)]) if modes else head,
        "iterations": model.n_iter_,
        "seconds": round(model.seconds_, 2),
        "run": str(run_dir),
    }


def _colour(group: table.Group) -> str:
    return "green" if group[0]["certified"] else "yellow"


COLUMNS = (
    table.label("data"),
    table.Column("clusters", lambda group: str(group[0]["n_clusters"])),
    table.statistic("NMI", "nmi"),
    table.statistic("AMI", "ami"),
    table.statistic("gap", "gap", digits=4),
    table.Column("verdict", lambda group: str(group[0]["verdict"]), words=True, style=_colour),
    table.statistic("seconds", "seconds", digits=1),
)


def _overview(path: Path, rows: list[Row], seen: list[tuple[Dataset, np.ndarray]]) -> None:
    """All sets side by side, points in the colours of their clusters."""
    title = "gedi demo: clusters found without labels (colours), network and settings by default"
    fig = panels.new_figure(4.7 * len(rows), 4.9, title)
    all_axes = fig.subplots(1, len(rows), squeeze=False)[0]
    for axes, row, (data, labels) in zip(all_axes, rows, seen, strict=True):
        panels.project(axes, data.x, labels, row["n_clusters"], standardise=True)
        if data.x.shape[1] == 2:
            axes.set_aspect("equal", adjustable="datalim")
        words = f"{row['data']}: NMI {row['nmi']:.3f}\n{row['verdict']}"
        axes.set_title(words, fontsize=11, parse_math=False)
    panels.save(fig, path)


def _say(console: Console, words: str, end: str = "\n") -> None:
    """Plain text: a path may look like markup."""
    console.print(words, end=end, markup=False, highlight=False, soft_wrap=True)
