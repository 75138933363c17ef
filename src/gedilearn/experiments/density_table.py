"""What GEN buys: GEDI with its defaults and with w_gen=0, on what a density is good for.

Every fit is one row: (data, method, seed). Two density estimators of scikit-learn, fitted to the
same training points, are the references; real points in place of samples are the floor.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy.spatial.distance import cdist, pdist
from scipy.stats import spearmanr
from sklearn.mixture import GaussianMixture
from sklearn.neighbors import KernelDensity

from gedilearn.data import toy
from gedilearn.data.arrays import Scaling
from gedilearn.data.dataset import Dataset
from gedilearn.estimator import GEDI
from gedilearn.evaluation.clustering import nmi
from gedilearn.evaluation.ood import roc
from gedilearn.experiments import table
from gedilearn.experiments.runner import (
    FRESH,
    IN_MEMORY,
    N_POINTS,
    Options,
    Row,
    Runner,
    chosen,
    timed,
)

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

# --- data sets: points to fit, fresh ones to measure on, and others from elsewhere ----------------

MEANS = np.array([[0.0, 0.0], [4.0, 0.0], [0.0, 4.0], [4.0, 4.0]])
COVARIANCES = np.array(
    [
        [[0.5, 0.3], [0.3, 0.4]],
        [[0.3, 0.0], [0.0, 0.3]],
        [[0.8, 0.0], [0.0, 0.1]],
        [[0.2, 0.0], [0.0, 0.5]],
    ]
)


def mixture(n: int, seed: int) -> Dataset:
    """Points of four equally likely Gaussians, each with a covariance of its own."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, len(MEANS), n)
    spread = np.linalg.cholesky(COVARIANCES)[y]
    x = MEANS[y] + np.einsum("nij,nj->ni", spread, rng.normal(size=(n, 2)))
    return Dataset("mixture", x, y, ("x1", "x2"), "built-in")


def joint_log_density(x: np.ndarray) -> np.ndarray:
    """log p(x, y) of the mixture: (n, 2) -> (n, 4)."""
    away = x[:, None] - MEANS
    squares = np.einsum("nki,kij,nkj->nk", away, np.linalg.inv(COVARIANCES), away)
    volume = np.linalg.slogdet(2 * np.pi * COVARIANCES)[1]
    return np.asarray(-(squares + volume) / 2 - np.log(len(MEANS)))


class Points(NamedTuple):
    """What one seed sees."""

    train: Dataset
    fresh: Dataset  # of the same source, not seen in training
    outside: np.ndarray  # of another source


@dataclass(frozen=True)
class Case:
    """A source of data; `joint` is x -> log p(x, y) where it is known."""

    n_clusters: int
    draw: Callable[[int, int], Points]
    joint: Callable[[np.ndarray], np.ndarray] | None = None


def _in_the_plane(source: Callable[[int, int], Dataset]) -> Callable[[int, int], Points]:
    def draw(n: int, seed: int) -> Points:
        train, fresh = source(n, seed), source(n, seed + FRESH)
        low, high = train.x.min(0), train.x.max(0)
        margin = (high - low) / 4
        rng = np.random.default_rng(seed + 2 * FRESH)
        return Points(train, fresh, rng.uniform(low - margin, high + margin, (n, 2)))

    return draw


def _half_the_digits(n: int, seed: int) -> Points:
    """All digits, whatever `n` is: there are no more."""
    rng = np.random.default_rng(seed)
    data = toy.digits()
    assert data.y is not None
    order = rng.permutation(len(data.x))
    halves = np.array_split(order, 2)
    train, fresh = (
        Dataset(data.name, data.x[half], data.y[half], data.columns, data.source) for half in halves
    )
    return Points(train, fresh, rng.permuted(fresh.x, axis=1))


CASES = {
    "mixture": Case(4, _in_the_plane(mixture), joint_log_density),
    "moons": Case(2, _in_the_plane(lambda n, seed: toy.moons(n, random_state=seed))),
    "circles": Case(2, _in_the_plane(lambda n, seed: toy.circles(n, random_state=seed))),
    "digits": Case(10, _half_the_digits),
}


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


# --- methods: fit, score_samples and sample, and predict where there are clusters ----------------


class Reference:
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


def build(method: str, case: Case, seed: int, settings: Options) -> Any:
    """A method not yet fitted."""
    if method == REAL:
        return Real(case)
    if method == "gmm":
        gmm = GaussianMixture(10, reg_covar=FLOOR, random_state=seed)
        return Reference(gmm, lambda n: gmm.sample(n)[0])
    if method == "kde":
        kde = KernelDensity(bandwidth="scott")
        return Reference(kde, lambda n: kde.sample(n, random_state=seed))
    w_gen = 0.0 if method == ABLATED else None
    return GEDI(case.n_clusters, w_gen=w_gen, random_state=seed, settings=settings)


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
    keys = [(name, method, seed) for seed in seeds for name in names for method in NAMES]
    return runner.rows(keys, fit, n, settings, threads=1)


def fit(data: str, method: str, seed: int, n: int, settings: Options) -> Row:
    """Fit one method to one set and measure it."""
    case = CASES[data]
    points = case.draw(n, seed)
    model = build(method, case, seed, settings)
    seconds = timed(lambda: model.fit(points.train.x))
    return measure(model, case, points, seed) | {"seconds": round(seconds, 3)}


def measure(model: Any, case: Case, points: Points, seed: int) -> Row:
    """All that can be said of a fitted method; None where it has no such answer."""
    row: Row = dict.fromkeys(MEASURES)
    fresh, outside = points.fresh.x, points.outside
    own = isinstance(model, GEDI)
    if hasattr(model, "predict"):
        assert points.fresh.y is not None
        row["nmi"] = nmi(points.fresh.y, model.predict(fresh))
    if hasattr(model, "score_samples"):
        inside, beyond = model.score_samples(fresh), model.score_samples(outside)
        row["auroc"] = roc(inside, beyond).auroc
        if case.joint is not None:
            for name, x, scores in (("fresh", fresh, inside), ("box", outside, beyond)):
                true = np.logaddexp.reduce(case.joint(x), axis=1)
                row[f"rank_{name}"] = float(spearmanr(scores, true)[0])
    if own:
        norms = [model.score_samples(x, kind="gradient_norm") for x in (fresh, outside)]
        row["auroc_gradient"] = roc(*norms).auroc
    samples = model.sample(N_SAMPLES, random_state=seed)[0] if own else model.sample(N_SAMPLES)
    row["mmd"] = squared_mmd(samples, fresh)
    if isinstance(model, Real):
        row["mmd_unrelated"] = mmd_of_unrelated(fresh)
    return row


# --- showing ------------------------------------------------------------------------------------

MEASURES = ("nmi", "rank_fresh", "rank_box", "auroc", "auroc_gradient", "mmd", "mmd_unrelated")
COLUMNS = (
    table.label("data"),
    table.label("method", NAMES),
    table.seeds(),
    table.ranged("NMI", "nmi"),
    table.ranged("rank, fresh", "rank_fresh", short="fresh"),
    table.ranged("rank, box", "rank_box", short="box"),
    table.ranged("AUROC, log density", "auroc", short="AUROC"),
    table.ranged("AUROC, gradient norm", "auroc_gradient", short="grad."),
    table.ranged("squared MMD x 1000", "mmd", short="MMD", digits=2, factor=1000),
    table.ranged("of unrelated points", "mmd_unrelated", short="", digits=2, factor=1000),
    table.ranged("seconds", "seconds", short="s", digits=2),
)
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
    "Of unrelated points: the squared MMD of samples far from all fresh points and from one "
    "another. Samples that come near it share nothing with the data at the scale of the kernel; "
    "clumped ones can be beyond.",
    f"GaussianMixture has 10 components with {FLOOR:g} added to their variances, KernelDensity has "
    "Scott's bandwidth; both get standardised columns, as GEDI makes them. Seconds are those "
    "of the fit, on one thread.",
)


def tables(rows: Sequence[Row]) -> list[table.Table]:
    """Medians and ranges over the seeds."""
    title = "NMI, rank correlation, AUROC, 1000 x squared MMD"
    # To keep the real points takes no time worth showing.
    shown = [row | {"seconds": None} if row["method"] == REAL else row for row in rows]
    groups = table.grouped(shown, "data", "method", data=CASES, method=NAMES)
    return [table.Table(title, COLUMNS, groups, NOTES)]


EXPERIMENT = table.Experiment(
    "gen", run, tables, title="What GEN buys", sets=CASES, preset="default"
)
