"""GEDI with its defaults against four methods of scikit-learn, on data of known clusters.

Every fit is one row: (data, method, seed). The points that are scored are drawn anew from the same
source where the method can label them; SpectralClustering and HDBSCAN cannot, so they are scored on
the points they were fitted to, and so is every method on the digits, of which there are no more.
"""

from __future__ import annotations

import statistics
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console

from gedilearn.errors import InputError
from gedilearn.experiments.rows import (
    FRESH,
    N_POINTS,
    Row,
    check_names,
    collect,
    markdown_table,
    results_page,
    show_table,
)
from gedilearn.experiments.shape_sets import FAMILIES, NAMES, RIVALS, SHAPES, build
from gedilearn.training.run_directory import plain

SOLVED = 0.99  # NMI
FALSE = 0.95  # a certificate with a lower NMI is a false one

# --- running ------------------------------------------------------------------------------------


def run(
    seeds: Sequence[int],
    data: Sequence[str] | None = None,
    methods: Sequence[str] | None = None,
    workers: int = 1,
    out: Path | None = None,
    *,
    n: int = N_POINTS,
    settings: dict[str, Any] | None = None,
    tell: Callable[[Row, int], None] | None = None,
) -> list[Row]:
    """One row for each (data, method, seed), in plain JSON values; None for data or methods is all.

    With `out`, rows are appended to out/rows.jsonl as they come, and those that are there already
    are not run again. `n` points a set; `settings` are further arguments of GEDI; `tell` gets each
    new row and how many are still to come.
    """
    return collect(plan(seeds, data, methods), fit, out, n, settings, workers, tell)


def plan(
    seeds: Sequence[int], data: Sequence[str] | None = None, methods: Sequence[str] | None = None
) -> list[tuple[str, str, int]]:
    """All (data, method, seed) asked for, seed by seed, so that every set has some rows early."""
    check_names("data set", data or (), SHAPES)
    check_names("method", methods or (), FAMILIES)
    keys = [
        (name, method, seed)
        for seed in seeds
        for name in SHAPES
        for method in (*SHAPES[name].gedi, *RIVALS)
        if (data is None or name in data) and (methods is None or method.split()[0] in methods)
    ]
    if not keys:
        raise InputError("nothing to run: give at least one seed, data set and method")
    return keys


def fit(data: str, method: str, seed: int, n: int, settings: dict[str, Any]) -> Row:
    """Fit one method to one set and score it, with one thread."""
    import lightning_fabric  # noqa: F401  # otherwise the first fit is charged with importing it
    from sklearn.metrics import adjusted_mutual_info_score, normalized_mutual_info_score
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped, unused-ignore]

    shape = SHAPES[data]
    train = shape.draw(n, seed)
    fresh = shape.draw(n, seed + FRESH) if shape.fresh else train
    model = build(method, shape, seed, settings)
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # on graphs in several pieces, which is as it should be
        started = time.perf_counter()
        model.fit(train.x)
        seconds = time.perf_counter() - started
        predicts = hasattr(model, "predict")
        scored = fresh if predicts else train
        labels = model.predict(scored.x) if predicts else model[-1].labels_
    nmi = float(normalized_mutual_info_score(scored.y, labels))
    own = method.split()[0] == "gedi"
    row = {
        "data": data,
        "method": method,
        "seed": seed,
        "scored": "training" if scored is train else "fresh",
        "nmi": nmi,
        "ami": float(adjusted_mutual_info_score(scored.y, labels)),
        "bayes_nmi": None,
        "found": len(set(labels.tolist())),
        "gap": model.certificate_gap_ if own else None,
        "certified": bool(model.converged_) if own else None,
        "false_certificate": bool(model.converged_) and nmi < FALSE if own else None,
        "seconds": round(seconds, 3),
        "iterations": model.n_iter_ if own else None,
    }
    if shape.best is not None:
        row["bayes_nmi"] = float(normalized_mutual_info_score(scored.y, shape.best(scored.x)))
    return dict(plain(row))


# --- showing ------------------------------------------------------------------------------------


def summary(rows: Sequence[Row]) -> list[Row]:
    """One row for each (data, method) over its seeds, in the order of SHAPES."""
    pairs = {(r["data"], r["method"]): None for r in rows}
    order = list(SHAPES)
    found = []
    for data, method in sorted(pairs, key=lambda pair: order.index(pair[0])):
        group = [r for r in rows if (r["data"], r["method"]) == (data, method)]
        nmi = [r["nmi"] for r in group]
        own = group[0]["certified"] is not None
        best = group[0]["bayes_nmi"] is not None
        found.append(
            {
                "data": data,
                "method": method,
                "scored": group[0]["scored"],
                "seeds": len(group),
                "solved": sum(v >= SOLVED for v in nmi),
                "median_nmi": statistics.median(nmi),
                "min_nmi": min(nmi),
                "median_ami": statistics.median(r["ami"] for r in group),
                "bayes_nmi": statistics.median(r["bayes_nmi"] for r in group) if best else None,
                "certified": sum(r["certified"] for r in group) if own else None,
                "false": sum(r["false_certificate"] for r in group) if own else None,
                "seconds": statistics.median(r["seconds"] for r in group),
            }
        )
    return found


HEADS = (
    "data", "method", f"NMI >= {SOLVED:g}", "median NMI", "min NMI", "median AMI",
    "best possible NMI", "certified", "false certificates", "seconds",
)  # fmt: skip
NOTES = (
    "Median, minimum and counts are over the seeds; each seed draws the data anew.",
    "Scored on fresh points of the same source; rows marked * on the training points, because the "
    "method cannot label new points, or because there are no more (digits, iris, wine, "
    "breast-cancer).",
    "Best possible NMI: that of the likeliest cluster under the true density, where it is known.",
    f"Certified: gap below the tolerance; a certificate with NMI < {FALSE:g} counts as false.",
    "All methods get standardised columns (the others of the digits raw pixels, which share one "
    "unit). All but HDBSCAN are told the number of clusters; its noise points count as one more.",
    "KMeans and GaussianMixture take the best of ten starts; SpectralClustering works on nearest "
    "neighbours; all else is as scikit-learn has it. Seconds are those of the fit, on one thread.",
)


def _cells(rows: Sequence[Row]) -> Iterator[list[str]]:
    for r in summary(rows):
        star = "*" if r["scored"] == "training" else ""
        yield [
            r["data"],
            NAMES[r["method"]] + star,
            f"{r['solved']}/{r['seeds']}",
            *(f"{r[name]:.3f}" for name in ("median_nmi", "min_nmi", "median_ami")),
            "" if r["bayes_nmi"] is None else f"{r['bayes_nmi']:.3f}",
            "" if r["certified"] is None else f"{r['certified']}/{r['seeds']}",
            "" if r["false"] is None else str(r["false"]),
            f"{r['seconds']:.2f}",
        ]


def markdown(rows: Sequence[Row]) -> str:
    """The summary and what its columns mean, as Markdown."""
    return markdown_table(HEADS, _cells(rows), NOTES)


# Short enough for 80 columns, without the AMI.
SHORT_HEADS = ("data", "method", "solved", "median", "min", "best", "cert.", "false", "s")


def show(rows: Sequence[Row], console: Console) -> None:
    """Print the summary."""
    title = f"NMI: solved (>= {SOLVED:g}), median, minimum, best possible"
    cells = [line[:5] + line[6:] for line in _cells(rows)]
    show_table(title, SHORT_HEADS, cells, NOTES, console)


def page(out: Path) -> str:
    """The results page, as Markdown, from the rows in `out`: how they were made, and the table."""
    return results_page(out, "shapes", "Shapes: GEDI beside scikit-learn", SHAPES, markdown)
