"""What the term GEN buys: GEDI with its defaults and with w_gen=0, on what a density is good for.

Every fit is one row: (data, method, seed). Two density estimators of scikit-learn, fitted to the
same training points, are the yardsticks; real points in place of samples are the floor.
"""

from __future__ import annotations

import statistics
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from gedilearn.data.arrays import Scaling
from gedilearn.errors import InputError
from gedilearn.evaluation.ood import auroc
from gedilearn.experiments.gen_sets import CASES, Case, Points
from gedilearn.experiments.rows import (
    N_POINTS,
    Row,
    check_names,
    collect,
    markdown_table,
    results_page,
    show_table,
)
from gedilearn.training.run_directory import plain

N_SAMPLES = 500
FLOOR = 1e-3  # added to the variances of GaussianMixture: a digit has fewer images than needed
GEDI_, ABLATED, REAL = "gedi", "gedi w_gen=0", "real"
NAMES = {
    GEDI_: "GEDI",
    ABLATED: "GEDI, w_gen=0",
    "gmm": "GaussianMixture",
    "kde": "KernelDensity",
    REAL: "real points",
}

# --- measuring ----------------------------------------------------------------------------------


def squared_mmd(samples: np.ndarray, real: np.ndarray) -> float:
    """The unbiased estimate of the squared maximum mean discrepancy; may be below 0.

    The kernel is Gaussian with a quarter of the median distance between the `real` points as its
    deviation, so that all samples held against the same points are measured alike.
    """
    from scipy.spatial.distance import cdist, pdist

    # `pdist` leaves out each point's distance to itself, which is what makes this unbiased.
    return (
        _mean_kernel(pdist(samples), real)
        + _mean_kernel(pdist(real), real)
        - 2 * _mean_kernel(cdist(samples, real), real)
    )


def mmd_of_strangers(real: np.ndarray) -> float:
    """The squared MMD of samples that are far from all `real` points and from one another.

    Samples that reach it share nothing with the data at the scale of the kernel, and how far off
    they are cannot be told: in many dimensions that is soon so.
    """
    from scipy.spatial.distance import pdist

    return _mean_kernel(pdist(real), real)


def _mean_kernel(distances: np.ndarray, real: np.ndarray) -> float:
    from scipy.spatial.distance import pdist

    width = np.median(pdist(real)) / 4
    return float(np.exp(-((distances / width) ** 2) / 2).mean())


# --- methods: fit, score_samples and sample, and predict where there are clusters ----------------


class Yardstick:
    """A density estimator of scikit-learn, on columns standardised as GEDI does it."""

    def __init__(self, estimator: Any, draw: Callable[[int], np.ndarray]) -> None:
        self.estimator = estimator
        self.draw = draw

    def fit(self, x: np.ndarray) -> None:
        self.scaling = Scaling.fit(x)
        self.estimator.fit(self._scaled(x))

    def score_samples(self, x: np.ndarray) -> np.ndarray:
        return np.asarray(self.estimator.score_samples(self._scaled(x)))

    def sample(self, n: int) -> np.ndarray:
        return self.scaling.undo(self.draw(n))

    def _scaled(self, x: np.ndarray) -> np.ndarray:
        # Covariances of 64 columns are not positive definite in single precision.
        return self.scaling.apply(x).astype(np.float64)


class Real:
    """Nothing learned: training points in place of samples, the true density where it is known."""

    def __init__(self, case: Case) -> None:
        if case.joint is not None:
            joint = case.joint
            self.score_samples = lambda x: np.logaddexp.reduce(joint(x), axis=1)
            self.predict = lambda x: joint(x).argmax(1)

    def fit(self, x: np.ndarray) -> None:
        self.x = x

    def sample(self, n: int) -> np.ndarray:
        return self.x[:n]


def build(method: str, case: Case, seed: int, settings: dict[str, Any]) -> Any:
    """A method not yet fitted."""
    from sklearn.mixture import GaussianMixture
    from sklearn.neighbors import KernelDensity

    from gedilearn.estimator import GEDI

    if method == REAL:
        return Real(case)
    if method == "gmm":
        gmm = GaussianMixture(10, reg_covar=FLOOR, random_state=seed)
        return Yardstick(gmm, lambda n: gmm.sample(n)[0])
    if method == "kde":
        kde = KernelDensity(bandwidth="scott")
        return Yardstick(kde, lambda n: kde.sample(n, random_state=seed))
    ablation = {"w_gen": 0.0} if method == ABLATED else {}
    return GEDI(case.n_clusters, random_state=seed, **(settings | ablation))


# --- running ------------------------------------------------------------------------------------


def run(
    seeds: Sequence[int],
    data: Sequence[str] | None = None,
    out: Path | None = None,
    settings: dict[str, Any] | None = None,
    n: int = N_POINTS,
    tell: Callable[[Row, int], None] | None = None,
) -> list[Row]:
    """One row for each (data, method, seed), in plain JSON values; None for data is all.

    `settings` are further arguments of GEDI; `n`, `out` and `tell` as in `rows.collect`.
    """
    check_names("data set", data or (), CASES)
    names = [name for name in CASES if data is None or name in data]
    keys = [(name, method, seed) for seed in seeds for name in names for method in NAMES]
    if not keys:
        raise InputError("nothing to run: give at least one seed and data set")
    return collect(keys, fit, out, n, settings, tell=tell)


def fit(data: str, method: str, seed: int, n: int, settings: dict[str, Any]) -> Row:
    """Fit one method to one set and measure it, with one thread."""
    import lightning_fabric  # noqa: F401  # otherwise the first fit is charged with importing it
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped, unused-ignore]

    case = CASES[data]
    points = case.draw(n, seed)
    model = build(method, case, seed, settings)
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what matters is in the numbers
        started = time.perf_counter()
        model.fit(points.train.x)
        seconds = time.perf_counter() - started
        row = {"data": data, "method": method, "seed": seed, **measure(model, case, points, seed)}
    return dict(plain(row | {"seconds": round(seconds, 3)}))


def measure(model: Any, case: Case, points: Points, seed: int) -> Row:
    """All that can be said of a fitted method; None where it has no such answer."""
    from scipy.stats import spearmanr
    from sklearn.metrics import normalized_mutual_info_score

    from gedilearn.estimator import GEDI

    row: Row = dict.fromkeys(MEASURES)
    fresh, outside = points.fresh.x, points.outside
    own = isinstance(model, GEDI)
    if hasattr(model, "predict"):
        labels = model.predict(fresh)
        row["nmi"] = float(normalized_mutual_info_score(points.fresh.y, labels))
    if hasattr(model, "score_samples"):
        inside, beyond = model.score_samples(fresh), model.score_samples(outside)
        row["auroc"] = auroc(inside, beyond)
        if case.joint is not None:
            for name, x, scores in (("fresh", fresh, inside), ("box", outside, beyond)):
                true = np.logaddexp.reduce(case.joint(x), axis=1)
                row[f"rank_{name}"] = float(spearmanr(scores, true)[0])
    if own:
        norms = [model.score_samples(x, kind="gradient_norm") for x in (fresh, outside)]
        row["auroc_gradient"] = auroc(*norms)
    samples = model.sample(N_SAMPLES, random_state=seed)[0] if own else model.sample(N_SAMPLES)
    row["mmd"] = squared_mmd(samples, fresh)
    if isinstance(model, Real):
        row["mmd_strangers"] = mmd_of_strangers(fresh)
    return row


# --- showing ------------------------------------------------------------------------------------

MEASURES = ("nmi", "rank_fresh", "rank_box", "auroc", "auroc_gradient", "mmd", "mmd_strangers")


def summary(rows: Sequence[Row]) -> list[Row]:
    """One row for each (data, method): of each measure (median, least, greatest) over the seeds."""
    found = []
    for data in CASES:
        for method in NAMES:
            group = [r for r in rows if (r["data"], r["method"]) == (data, method)]
            if not group:
                continue
            line: Row = {"data": data, "method": method, "seeds": len(group)}
            for name in (*MEASURES, "seconds"):
                # float() because a NaN is written as its name.
                values = [float(r[name]) for r in group if r[name] is not None]
                some = (statistics.median(values), min(values), max(values)) if values else None
                line[name] = some
            found.append(line)
    return found


HEADS = (
    "data", "method", "NMI", "rank, fresh", "rank, box", "AUROC, log density",
    "AUROC, gradient norm", "squared MMD x 1000", "of strangers", "seconds",
)  # fmt: skip
SHORT_HEADS = ("data", "method", "NMI", "fresh", "box", "AUROC", "grad.", "MMD", "s")
NOTES = (
    "Median (least to greatest) over the seeds; each seed draws the data anew, and splits the "
    "digits anew into halves for training and measuring. All is measured on fresh points.",
    "Rank: Spearman's correlation of log-density scores with the true log density, on fresh points "
    "and on the uniform ones; only the mixture's is known.",
    "AUROC: fresh points against uniform ones in the training data's box, widened by a quarter of "
    "its width on each side, some of which lie on the data; against held-out digits whose pixels "
    "are shuffled, image by image.",
    f"Squared MMD: unbiased estimate, so it can be below 0, of {N_SAMPLES} samples against the "
    "fresh points; Gaussian kernel, its deviation a quarter of their median distance. The last "
    "line of a set has real training points in place of samples, which is the floor, and the "
    "values of the true density where it is known, which are the best possible.",
    "Of strangers: the squared MMD of samples far from all fresh points and from one another. "
    "Samples that come near it share nothing with the data at the scale of the kernel; clumped "
    "ones can be beyond.",
    f"GaussianMixture has 10 components with {FLOOR:g} added to their variances, KernelDensity has "
    "Scott's bandwidth; both get standardised columns, as GEDI makes them. Seconds are those "
    "of the fit, on one thread.",
)


def _cells(rows: Sequence[Row], spread: bool) -> Iterator[list[str]]:
    def cell(found: tuple[float, float, float] | None, scale: float, digits: int) -> str:
        if found is None:
            return ""
        middle, least, most = (f"{scale * value:.{digits}f}" for value in found)
        return f"{middle} ({least} to {most})" if spread and least != most else middle

    for line in summary(rows):
        words = [line["data"], NAMES[line["method"]]]
        numbers = [cell(line[name], 1, 3) for name in MEASURES[:-2]]
        seconds = "" if line["method"] == REAL else cell(line["seconds"], 1, 2)
        mmd = [cell(line[name], 1000, 2) for name in MEASURES[-2:]]
        yield [*words, *numbers, *mmd, seconds]


def markdown(rows: Sequence[Row]) -> str:
    """The summary and what its columns mean, as Markdown."""
    return markdown_table(HEADS, _cells(rows, spread=True), NOTES)


def show(rows: Sequence[Row], console: Console) -> None:
    """Print the medians."""
    title = "NMI, rank correlation, AUROC, 1000 x squared MMD"
    # 80 columns have no room for the strangers.
    cells = [line[:8] + line[9:] for line in _cells(rows, spread=False)]
    show_table(title, SHORT_HEADS, cells, NOTES, console)


def page(out: Path) -> str:
    """The results page, as Markdown, from the rows in `out`."""
    return results_page(out, "gen", "What GEN buys", CASES, markdown)
