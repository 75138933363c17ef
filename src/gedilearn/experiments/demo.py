"""The tour: three data sets clustered with the defaults, in less than a minute on a laptop."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console

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
Reports: {report}"""


def run(out: Path, console: Console, *, max_iter: int | None = None) -> list[Row]:
    """Cluster all sets, each in its own run directory under `out`, and print a line for each.

    `out` must be new or empty. `max_iter` shortens the training, for a quick look.
    """
    if out.is_file() or (out.exists() and any(out.iterdir())):
        raise InputError(f"{out} exists already: choose another folder, or remove it")
    rows = []
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
        _say(
            console,
            "{verdict}, NMI {nmi:.3f}, AMI {ami:.3f}, gap {gap:.4f}, {seconds:.1f} s".format(**row),
        )
    write_json(out / "demo.json", rows)
    report, tol = RunDirectory(out / "<data>").report, model.settings_.training.tol
    _say(console, WORDS.format(tol=tol, report=report))
    return rows


def _say(console: Console, words: str, end: str = "\n") -> None:
    """Plain text: a path may look like markup."""
    console.print(words, end=end, markup=False, highlight=False, soft_wrap=True)
