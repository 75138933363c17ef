"""How good the density is that GEDI learns: the likelihood of fresh points, and what else it gives.

Every row is one (data, method, seed). All methods of a set and seed are run together, because their
likelihoods are compared point by point. Two density estimators of scikit-learn, fitted to the same
points, are the references; the true density is the best possible, where it is known, and real
points in place of samples are the floor of the MMD.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
from scipy.spatial.distance import cdist, pdist
from scipy.stats import spearmanr

from gedilearn.estimator import GEDI
from gedilearn.evaluation.clustering import nmi
from gedilearn.evaluation.ood import roc
from gedilearn.experiments import table
from gedilearn.experiments.density_methods import (
    BANDWIDTHS,
    COMPONENTS,
    FLOOR,
    FLOOR_OF_MANY,
    GEDI_,
    HELD_OUT,
    MANY,
    REAL,
    REFERENCES,
    Real,
    build,
    is_normalised,
)
from gedilearn.experiments.density_sets import (
    CASES,
    NOISE,
    TRAINED_ON,
    Points,
    widened_box,
)
from gedilearn.experiments.runner import (
    IN_MEMORY,
    N_POINTS,
    Cell,
    Options,
    Row,
    Runner,
    chosen,
    outcome,
    timed,
)

N_SAMPLES = 2000
NODES = 200  # of a grid, along each of its two axes
DRAWS = 1000  # of shares by chance
NAMES = {GEDI_: "GEDI", "gmm": "GaussianMixture", "kde": "KernelDensity", REAL: "real points"}

# --- measuring ----------------------------------------------------------------------------------


def squared_mmd(samples: np.ndarray, real: np.ndarray) -> float:
    """The unbiased estimate of the squared maximum mean discrepancy; may be below 0.

    The kernel is Gaussian with a quarter of the median distance between the `real` points as its
    deviation, so that all samples held against the same points are measured alike.
    """
    # `pdist` leaves out each point's distance to itself, which is what makes this unbiased.
    return (
        _mean_kernel(pdist(samples), real)
        + _mean_kernel(pdist(real), real)
        - 2 * _mean_kernel(cdist(samples, real), real)
    )


def mmd_of_unrelated(real: np.ndarray) -> float:
    """The squared MMD of samples that are far from all `real` points and from one another.

    Samples that reach it share nothing with the data at the scale of the kernel, and how far off
    they are cannot be told: in many dimensions that is soon so.
    """
    return _mean_kernel(pdist(real), real)


def _mean_kernel(distances: np.ndarray, real: np.ndarray) -> float:
    width = np.median(pdist(real)) / 4
    return float(np.exp(-((distances / width) ** 2) / 2).mean())


def integral(score_samples: Callable[[np.ndarray], np.ndarray], x: np.ndarray) -> float:
    """Of a density in the plane, over the box around `x` and half its width on each side."""
    low, high = widened_box(x, 1 / 2)
    axes = np.linspace(low, high, NODES)
    grid = np.stack(np.meshgrid(*axes.T), -1).reshape(-1, 2)
    cell = ((high - low) / (NODES - 1)).prod()
    return float(np.exp(score_samples(grid)).sum() * cell)


def shares_off(counts: np.ndarray, of_data: np.ndarray) -> np.ndarray:
    """The largest deviation of a cluster's share, relative to its share of the data.

    Numbers of points by cluster: (..., clusters), (clusters,) -> (...). Clusters that hold none of
    the data are left out.
    """
    there = of_data > 0
    expected = of_data[there] / of_data.sum()
    shares = counts[..., there] / counts.sum(-1, keepdims=True)
    return np.asarray(np.abs(shares / expected - 1).max(-1))


def measure(model: Any, points: Points, seed: int) -> Row:
    """All that can be said of a fitted method alone; None where it has no such answer."""
    row: Row = dict.fromkeys(MEASURES)
    row["chosen"] = getattr(model, "chosen", None)
    if hasattr(model, "predict"):
        row["nmi"] = nmi(points.labels, model.predict(points.fresh))
    if hasattr(model, "score_samples"):
        inside, beyond = model.score_samples(points.fresh), model.score_samples(points.outside)
        row["auroc"] = roc(inside, beyond).auroc
        if points.truth is not None:
            row["rank_fresh"] = float(spearmanr(inside, points.truth(points.fresh))[0])
            row["rank_box"] = float(spearmanr(beyond, points.truth(points.outside))[0])
    if isinstance(model, GEDI):
        samples, clusters = model.sample(N_SAMPLES, random_state=seed)
        row |= of_gedi(model, points, clusters, seed)
    else:
        samples = model.sample(N_SAMPLES)
    row["mmd"] = squared_mmd(samples, points.fresh)
    if isinstance(model, Real):
        row["mmd_unrelated"] = mmd_of_unrelated(points.fresh)
    return row


def of_gedi(model: GEDI, points: Points, clusters: np.ndarray, seed: int) -> Row:
    """What is asked of GEDI alone; `clusters` are those of its samples."""
    sizes = {"minlength": model.settings_.n_clusters}
    data = np.bincount(model.labels_, **sizes)
    rng = np.random.default_rng(seed)
    by_chance = shares_off(rng.multinomial(len(clusters), data / data.sum(), DRAWS), data)
    row = outcome(model) | {
        "shares": float(shares_off(np.bincount(clusters, **sizes), data)),
        "shares_by_chance": float(np.median(by_chance)),
    }
    if model.density_ is not None:
        row["density"] = model.density_.to_json()
        row["normaliser_error"] = model.density_.log_normaliser_error
        if points.train.shape[1] == 2:
            row["integral"] = integral(model.score_samples, points.train)
    return row


# --- running ------------------------------------------------------------------------------------


def run(
    seeds: Sequence[int],
    data: Sequence[str] | None = None,
    *,
    runner: Runner = IN_MEMORY,
    settings: Options | None = None,
    n: int = N_POINTS,
) -> list[Row]:
    """One row for each (data, method, seed), in plain JSON values; None for data is all.

    `settings` are those of GEDI, by dotted names.
    """
    names = chosen("data set", data, CASES)
    cells = [Cell(name, "all", (seed,), tuple(NAMES)) for seed in seeds for name in names]
    return runner.rows_of_cells(cells, fit, n, settings, threads=1)


def fit(cell: Cell, n: int, settings: Options) -> list[Row]:
    """Fit all methods to one set, and measure them."""
    return [row for seed in cell.seeds for row in compare(cell.data, seed, n, settings)]


def compare(data: str, seed: int, n: int, settings: Options) -> list[Row]:
    """The rows of all methods on one set, with one seed."""
    case = CASES[data]
    points = case.draw(n, seed)
    rows: dict[str, Row] = {}
    scores: dict[str, np.ndarray] = {}  # log p of each fresh point
    for method in NAMES:
        model = build(method, case.n_clusters, points, seed, settings)
        seconds = timed(partial(model.fit, points.train))
        rows[method] = {"data": data, "method": method, "seed": seed} | measure(model, points, seed)
        rows[method]["seconds"] = round(seconds, 3)
        if is_normalised(model):
            scores[method] = model.score_samples(points.fresh)
    best = max((scores[method] for method in REFERENCES), key=np.mean)
    for method, own in scores.items():
        above = own - best
        rows[method] |= {
            "log_likelihood": float(own.mean()),
            "above": float(above.mean()),
            "above_error": float(above.std(ddof=1) / np.sqrt(len(above))),
            "above_median": float(np.median(above)),
        }
    return list(rows.values())


# --- showing ------------------------------------------------------------------------------------

MEASURES = (
    *("log_likelihood", "above", "above_error", "above_median"),
    *("rank_fresh", "rank_box", "chosen"),
    *("auroc", "mmd", "mmd_unrelated"),
    *("normaliser_error", "integral", "shares", "shares_by_chance", "nmi", "certified"),
)


def _chosen(group: table.Group) -> str:
    """Least to greatest over the seeds."""
    found = [f"{value:.2g}" for value in sorted(table.values(group, "chosen"))]
    return " to ".join(dict.fromkeys([found[0], found[-1]])) if found else ""


LIKELIHOOD = (
    table.label("data"),
    table.label("method", NAMES | {REAL: "true density"}),
    table.seeds(),
    table.ranged("log-likelihood", "log_likelihood", short="nats"),
    table.ranged("above the best reference", "above", short="above"),
    table.statistic("standard error", "above_error", short="±"),
    table.ranged("at the median point", "above_median", short=""),
    table.ranged("rank, fresh", "rank_fresh", short="fresh"),
    table.ranged("rank, box", "rank_box", short="box"),
    table.Column("chosen", _chosen, short=""),
    table.ranged("seconds", "seconds", short="s", digits=2),
)
LIKELIHOOD_NOTES = (
    "Median (least to greatest) over the seeds; each seed draws the data anew, or splits it anew. "
    "All is measured on fresh points that no method has seen.",
    "Log-likelihood: mean log p(x) of the fresh points, in nats a point and in units of the "
    "standardised columns; higher is better.",
    "Above the best reference: the same, less that of GaussianMixture or KernelDensity, whichever "
    "is the higher on the fresh points of the seed. Standard error: of that difference over the "
    "fresh points, median over the seeds; the error of GEDI's normaliser is not in it.",
    "At the median point: the median of that difference over the fresh points. Where it is far "
    "from the mean, few points decide the mean. On digits, a pixel that is blank in nearly all "
    "training images has a small deviation; in units of it, a fresh image that uses it is far from "
    "all others.",
    "Rank: Spearman's correlation of log p(x) with the true log density, on fresh points and on "
    "uniform ones in the training points' box, widened by a quarter of its width on each side.",
    "True density: of the source, in closed form for mixture, blobs-7 and anisotropic, as a sum "
    "over the curve for moons, circles, rings and spirals; not known of the others.",
    f"Columns are standardised on the training points, the same for all methods. Of iris, wine and "
    f"breast-cancer {TRAINED_ON:.0%} of the rows are for training and the others are fresh, of "
    f"digits half; there, columns that do not vary among the training rows are left out, and "
    f"normal noise of {NOISE:g} standard deviations is added to the standardised values, many of "
    "which are the same. Of all others there are as many fresh points as training points.",
    f"Chosen, least to greatest: GaussianMixture's components, of {COMPONENTS[0]} to "
    f"{COMPONENTS[-1]}, and KernelDensity's bandwidth, of {len(BANDWIDTHS)} from "
    f"{BANDWIDTHS[0]:g} to {BANDWIDTHS[-1]:g}, under which {HELD_OUT:.0%} of the training rows, "
    "held out, are likeliest; then fitted to all training rows. "
    f"{FLOOR:g} is added to GaussianMixture's variances, {FLOOR_OF_MANY:g} where there are more "
    f"than {MANY} columns; all else is as scikit-learn has it.",
    "Seconds are those of the fit with all choices, on one thread.",
)
SAMPLES = (
    table.label("data"),
    table.label("method", NAMES),
    table.seeds(),
    table.ranged("AUROC", "auroc"),
    table.ranged("squared MMD x 1000", "mmd", short="MMD", digits=2, factor=1000),
    table.ranged("of unrelated points", "mmd_unrelated", short="none", digits=2, factor=1000),
)
SAMPLES_NOTES = (
    "AUROC: fresh points against others, by log p(x). The others are the uniform ones of the box, "
    "some of which lie on the data; for iris, wine and breast-cancer fresh rows whose columns are "
    "shuffled, each on its own; for digits fresh images whose pixels are shuffled, image by image.",
    f"Squared MMD: unbiased estimate, so it can be below 0, of {N_SAMPLES} samples against the "
    "fresh points; Gaussian kernel, its deviation a quarter of their median distance. Real points: "
    "the training points in place of samples, which is the floor, and the AUROC of the true "
    "density where it is known, which is the best possible. Moons and circles are spread evenly "
    "along their curves, so that the floor there is below that of independent points.",
    "Of unrelated points: the squared MMD of samples far from all fresh points and from one "
    "another. Samples that come near it share nothing with the data at the scale of the kernel; "
    "clumped ones can be beyond.",
)
OWN = (
    table.label("data"),
    table.seeds(),
    table.ranged("normaliser's error", "normaliser_error", short="error"),
    table.ranged("integral", "integral"),
    table.ranged("shares off", "shares"),
    table.statistic("by chance", "shares_by_chance", short="chance"),
    table.ranged("NMI", "nmi"),
    table.share("certified", lambda row: row["certified"], short="cert."),
)
OWN_NOTES = (
    "Normaliser's error: the standard error of log Gamma, in nats, as GEDI states it.",
    "Integral: of the density over the training points' box, widened by half its width on each "
    f"side, on a grid of {NODES} x {NODES} points; 1 if the density is normalised and nothing lies "
    "beyond. Only for two columns.",
    f"Shares off: the share of each cluster among {N_SAMPLES} samples, as GEDI labels them, "
    "against its share of the training points; the largest deviation, relative to the latter. By "
    f"chance: the median of that for {N_SAMPLES} points drawn with the training points' shares.",
    "NMI: of GEDI's clusters with the true ones, on fresh points. Certified: the gap of the "
    "clusters is below the tolerance when the density is learnt too.",
)


def tables(rows: Sequence[Row]) -> list[table.Table]:
    """Likelihoods, samples, and what is asked of GEDI alone."""
    # To keep the real points takes no time worth showing.
    shown = [row | {"seconds": None} if row["method"] == REAL else row for row in rows]
    groups = table.grouped(shown, "data", "method", data=CASES, method=NAMES)
    known = [g for g in groups if g[0]["method"] != REAL or g[0]["log_likelihood"] is not None]
    own = [group for group in groups if group[0]["method"] == GEDI_]
    return [
        table.Table(
            "Log-likelihood of fresh points, in nats",
            *(LIKELIHOOD, known, LIKELIHOOD_NOTES, "## Likelihood of fresh points"),
        ),
        table.Table(
            "AUROC, 1000 x squared MMD", SAMPLES, groups, SAMPLES_NOTES, "## Outliers and samples"
        ),
        table.Table(
            "Normaliser and clusters of GEDI", OWN, own, OWN_NOTES, "## Normaliser and clusters"
        ),
    ]


EXPERIMENT = table.Experiment(
    "density", run, tables, title="How good the density is", sets=CASES, preset="default"
)
