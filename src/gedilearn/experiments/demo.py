"""The tour: three data sets clustered with the defaults, in less than a minute on a laptop."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from rich.console import Console

from gedilearn import panels
from gedilearn.data.load import load
from gedilearn.errors import InputError
from gedilearn.estimator import GEDI
from gedilearn.evaluation.clustering import clustering_scores
from gedilearn.experiments.runner import outcome
from gedilearn.experiments.table import Row
from gedilearn.io import plain, write_json
from gedilearn.report.page import write_report
from gedilearn.training.run import RunDirectory

SETS = {"moons": 2, "circles": 2, "digits": 10}  # and their clusters
WORDS = """\
NMI and AMI compare the clusters with the true labels, which training never sees; 1 is perfect.
The gap is the distance in nats to the best clustering that Proposition 1 allows, measured without \
labels: below the tolerance of {tol:g}, the clusters are certified as confident, invariant and in \
the prior's proportions.
Figures and reports: {overview}, {report}"""


def run(out: Path, console: Console, *, max_iter: int | None = None) -> list[Row]:
    """Cluster all sets, each in its own run directory under `out`, and print a line for each.

    `out` must be new or empty. `max_iter` shortens the training, for a quick look.
    """
    if out.is_file() or (out.exists() and any(out.iterdir())):
        raise InputError(f"{out} exists already: choose another folder, or remove it")
    rows, seen = [], []
    for name, n_clusters in SETS.items():
        data = load(name)
        size = " x ".join(str(n) for n in data.x.shape)
        _say(console, f"{name} ({size}, {n_clusters} clusters) ... ", end="")
        model = GEDI(n_clusters, random_state=0, max_iter=max_iter)
        model.fit_run(data.x, out / name, {"source": data.source, "name": name})
        write_report(out / name)
        assert data.y is not None
        scores = clustering_scores(data.y, model.labels_)
        row: Row = {"data": name, "nmi": scores["nmi"], "ami": scores["ami"], "grade": model.grade_}
        row |= outcome(model) | {"seconds": round(model.seconds_, 2)}
        row["verdict"] = ": ".join(filter(None, [model.grade_, ", ".join(row["modes"])]))
        rows.append(dict(plain(row)))
        seen.append((data.x, model.labels_))
        _say(
            console,
            "{verdict}, NMI {nmi:.3f}, AMI {ami:.3f}, gap {gap:.4f}, {seconds:.1f} s".format(**row),
        )
    write_json(out / "demo.json", rows)
    overview = _overview(out / "overview.png", rows, seen)
    report, tol = RunDirectory(out / "<data>").report, model.settings_.training.tol
    _say(console, WORDS.format(tol=tol, overview=overview, report=report))
    return rows


def _overview(path: Path, rows: list[Row], seen: list[tuple[np.ndarray, np.ndarray]]) -> Path:
    """All sets side by side, points in the colours of their clusters."""
    title = "gedi demo: clusters found without labels (colours), network and settings by default"
    fig = panels.new_figure(4.7 * len(rows), 4.9, title)
    all_axes = fig.subplots(1, len(rows), squeeze=False)[0]
    for axes, row, (x, labels) in zip(all_axes, rows, seen, strict=True):
        panels.project(axes, x, labels, SETS[row["data"]], standardise=True)
        if x.shape[1] == 2:
            axes.set_aspect("equal", adjustable="datalim")
        words = f"{row['data']}: NMI {row['nmi']:.3f}\n{row['verdict']}"
        axes.set_title(words, fontsize=11, parse_math=False)
    return panels.save(fig, path)


def _say(console: Console, words: str, end: str = "\n") -> None:
    """Plain text: a path may look like markup."""
    console.print(words, end=end, markup=False, highlight=False, soft_wrap=True)
