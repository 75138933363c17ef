"""The tour: three data sets clustered with the defaults, in less than a minute on a laptop."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from gedilearn import panels
from gedilearn.data.dataset import Dataset
from gedilearn.data.toy import circles, digits, moons
from gedilearn.errors import InputError
from gedilearn.report.page import write_report
from gedilearn.settings import Settings
from gedilearn.writing import write_text

if TYPE_CHECKING:
    from gedilearn.estimator import GEDI

DEFAULT_OUT = Path("gedi-runs") / "demo"
SETS: tuple[tuple[Callable[[], Dataset], int], ...] = ((moons, 2), (circles, 2), (digits, 10))
SEED = 0
LABELS = "The true labels were used only after training, to compute NMI and AMI (1 is perfect)."
GAP = (
    "The gap is the distance in nats to the best clustering that Proposition 1 allows, measured "
    "without labels: below the tolerance of {tol:g}, the clusters are certified as confident, "
    "invariant and in the prior's proportions."
)

Row = dict[str, Any]


def run(out: Path | None, console: Console, *, max_iter: int | None = None) -> list[dict[str, Any]]:
    """Cluster all sets, each in its own run directory under `out`, and print one table.

    `out` must be new or empty; None takes the first free of gedi-runs/demo, demo-1, ...
    `max_iter` shortens the training, for a quick look.
    """
    out = _free(DEFAULT_OUT) if out is None else Path(out)
    if not _is_free(out):
        raise InputError(f"{out} exists already: choose another folder, or remove it")
    rows, seen = [], []
    for make, n_clusters in SETS:
        data = make()
        size = " x ".join(str(n) for n in data.x.shape)
        _say(console, f"{data.name} ({size}, {n_clusters} clusters) ... ", end="")
        model = _fit(data, n_clusters, out / data.name, max_iter)
        write_report(out / data.name)
        row = _row(data, model, out / data.name)
        rows.append(row)
        seen.append((data, model.labels_))
        _say(console, f"{row['verdict']}, {row['iterations']} iterations, {row['seconds']:.1f} s")
    write_text(out / "demo.json", json.dumps(rows, indent=2) + "\n")
    _overview(out / "overview.png", rows, seen)
    console.print(_table(rows))
    _say(console, LABELS)
    _say(console, GAP.format(tol=Settings().training.tol))
    _say(console, f"Figures and reports: {out}/overview.png, {out}/<data>/report.html")
    return rows


def _fit(data: Dataset, n_clusters: int, run_dir: Path, max_iter: int | None) -> GEDI:
    from gedilearn.estimator import GEDI

    shorter: dict[str, Any] = {} if max_iter is None else {"max_iter": max_iter}
    model = GEDI(n_clusters=n_clusters, random_state=SEED, **shorter)
    return model._fit(data.x, run_dir, {"source": data.source, "name": data.name})


def _row(data: Dataset, model: GEDI, run_dir: Path) -> Row:
    """One line of the table: the only place that sees the true labels."""
    from sklearn.metrics import adjusted_mutual_info_score, normalized_mutual_info_score

    gap, modes = model.certificate_gap_, model.diagnosis_.failure_modes
    head = "certified" if model.converged_ else "not certified"
    return {
        "data": data.name,
        "n_samples": len(data.x),
        "n_clusters": model.settings_.n_clusters,
        "nmi": float(normalized_mutual_info_score(data.y, model.labels_)),
        "ami": float(adjusted_mutual_info_score(data.y, model.labels_)),
        "gap": gap if math.isfinite(gap) else str(gap),  # JSON has no infinity
        "certified": model.converged_,
        "failure_modes": list(modes),
        "verdict": ": ".join([head, ", ".join(modes)]) if modes else head,
        "iterations": model.n_iter_,
        "seconds": round(model.seconds_, 2),
        "run": str(run_dir),
    }


def _table(rows: list[Row]) -> Table:
    table = Table(box=SIMPLE_HEAD)
    table.add_column("data")
    for name in ("clusters", "NMI", "AMI", "gap"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("verdict")
    table.add_column("seconds", justify="right", no_wrap=True)
    for row in rows:
        table.add_row(
            row["data"],
            str(row["n_clusters"]),
            f"{row['nmi']:.3f}",
            f"{row['ami']:.3f}",
            f"{float(row['gap']):.4f}",
            Text(row["verdict"], style="green" if row["certified"] else "yellow"),
            f"{row['seconds']:.1f}",
        )
    return table


def _overview(path: Path, rows: list[Row], seen: list[tuple[Dataset, np.ndarray]]) -> None:
    """All sets side by side, points in the colours of their clusters."""
    title = "gedi demo: clusters found without labels (colours), network and settings by default"
    fig = panels.new_figure(4.7 * len(rows), 4.9, title)
    for axes, row, (data, labels) in zip(
        fig.subplots(1, len(rows), squeeze=False)[0], rows, seen, strict=True
    ):
        panels.project(axes, data.x, labels, row["n_clusters"], standardise=True)
        if data.x.shape[1] == 2:
            axes.set_aspect("equal", adjustable="datalim")
        words = f"{row['data']}: NMI {row['nmi']:.3f}\n{row['verdict']}"
        axes.set_title(words, fontsize=11, parse_math=False)
    panels.save(fig, path)


def _free(path: Path) -> Path:
    """`path`, or the first of path-1, path-2, ... that is not taken."""
    if _is_free(path):
        return path
    numbered = (path.with_name(f"{path.name}-{i}") for i in count(1))
    return next(candidate for candidate in numbered if _is_free(candidate))


def _is_free(path: Path) -> bool:
    """New, or an empty folder."""
    return not path.exists() or (path.is_dir() and not any(path.iterdir()))


def _say(console: Console, words: str, end: str = "\n") -> None:
    """Plain text: a path may look like markup."""
    console.print(words, end=end, markup=False, highlight=False, soft_wrap=True)
