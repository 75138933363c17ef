"""The density that GEDI learns, compared with its base alone, two of scikit-learn's and the truth.

    python benchmarks/density.py --seeds 1 --data mixture,moons

Every row is one (data, method, seed). All methods of a set and seed are run together, because their
likelihoods are compared point by point. All get the same columns, standardised on the training
points: their log-densities are in the same units. A true density, if known, is the best possible.
Real points in place of samples give the floor of the MMD.
docs/results/density.md explains the columns.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from scipy.spatial.distance import cdist, pdist
from scipy.stats import spearmanr
from sklearn.mixture import GaussianMixture
from sklearn.neighbors import KernelDensity

import plane_sets as plane
from comparison import main, share, timed
from gedilearn.data import toy
from gedilearn.data.arrays import Scaling
from gedilearn.data.dataset import Dataset
from gedilearn.estimator import GEDI
from gedilearn.evaluation.clustering import nmi
from gedilearn.evaluation.ood import roc
from gedilearn.paper import table
from gedilearn.paper.runner import Cell, Options, Runner, chosen, outcome
from gedilearn.paper.table import Group, Row, Table, ranged
from gedilearn.paper.toy import FRESH, N_POINTS
from shape_sets import SHAPES

TRAINED_ON = 0.65  # share of a table's rows
NOISE = 0.1  # deviations of a column; values of tables and pixels repeat, which have no density
Joint = Callable[[np.ndarray], np.ndarray]  # x -> log p(x, y): (n, d) -> (n, clusters)
LogDensity = Callable[[np.ndarray], np.ndarray]  # x -> log p(x): (n, d) -> (n,)
Outside = Callable[[np.ndarray, np.random.Generator], np.ndarray]

# --- a mixture of known density -----------------------------------------------------------------

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


def joint_of_mixture(x: np.ndarray) -> np.ndarray:
    """log p(x, y) of the mixture: (n, 2) -> (n, 4)."""
    each = plane.log_density_of_gaussians(x, MEANS, COVARIANCES)
    return np.asarray(each - np.log(len(MEANS)))


def joint_near(curves: Callable[[], list[np.ndarray]], noise: float) -> Joint:
    """log p(x, y) of equally likely curves with noise."""

    def joint(x: np.ndarray) -> np.ndarray:
        found = plane.log_density_near(x, curves(), noise)
        return np.asarray(found - np.log(found.shape[1]))

    return joint


# --- what one seed sees -------------------------------------------------------------------------


class Points(NamedTuple):
    """Points in units of the standardised columns."""

    train: np.ndarray  # (n, d)
    fresh: np.ndarray  # (m, d), of the same source, not seen in training
    labels: np.ndarray  # (m,): the true cluster of each fresh point
    outside: np.ndarray  # of another source
    truth: LogDensity | None  # where it is known


@dataclass(frozen=True)
class Case:
    """A source of data, and how a seed draws points from it."""

    n_clusters: int
    draw: Callable[[int, int], Points]


def of_source(source: Callable[[int, int], Dataset], joint: Joint) -> Callable[[int, int], Points]:
    """As many fresh points as training points, and uniform ones in a box around them."""

    def draw(n: int, seed: int) -> Points:
        train, fresh = source(n, seed), source(n, seed + FRESH)
        scaling = Scaling.fit(train.x)
        z, fresh_z = _scaled(scaling, train.x), _scaled(scaling, fresh.x)
        rng = np.random.default_rng(seed + 2 * FRESH)
        low, high = widened_box(z, 1 / 4)
        outside = rng.uniform(low, high, z.shape)

        def truth(x: np.ndarray) -> np.ndarray:
            found = np.logaddexp.reduce(joint(scaling.undo(x)), axis=1)
            return np.asarray(found + np.log(scaling.scale).sum())

        assert fresh.y is not None
        return Points(z, fresh_z, fresh.y, outside, truth)

    return draw


def of_rows(
    source: Callable[[], Dataset], share: float, outside: Outside
) -> Callable[[int, int], Points]:
    """All rows of a source, whatever `n` is, split anew into training and fresh ones.

    Columns that do not vary among the training rows are left out.
    """

    def draw(n: int, seed: int) -> Points:
        data = source()
        assert data.y is not None
        rng = np.random.default_rng(seed)
        order = rng.permutation(len(data.x))
        rows, others = np.split(order, [int(np.ceil(share * len(order)))])
        train, fresh = data.x[rows], data.x[others]
        scaling, used = Scaling.fit(train), train.max(0) > train.min(0)
        train, fresh, elsewhere = (
            z + rng.normal(0, NOISE, z.shape)
            for z in (_scaled(scaling, x)[:, used] for x in (train, fresh, outside(fresh, rng)))
        )
        return Points(train, fresh, data.y[others], elsewhere, None)

    return draw


def widened_box(x: np.ndarray, share: float) -> tuple[np.ndarray, np.ndarray]:
    """The corners of the box around points, wider by a share of its width on each side."""
    low, high = x.min(0), x.max(0)
    return low - share * (high - low), high + share * (high - low)


def _scaled(scaling: Scaling, x: np.ndarray) -> np.ndarray:
    """In double precision: covariances of many columns are not positive definite in single."""
    return np.asarray((x - scaling.offset) / scaling.scale)


def _shuffled(axis: int) -> Outside:
    return lambda x, rng: rng.permuted(x, axis=axis)


# --- the sets -----------------------------------------------------------------------------------

JOINTS: dict[str, Joint] = {
    "blobs-7": plane.BLOBS_7.joint_log_density,
    "anisotropic": plane.ANISOTROPIC.joint_log_density,
    "moons": joint_near(plane.moon_curves, toy.NOISE),
    "circles": joint_near(plane.circle_curves, toy.NOISE),
    "rings": joint_near(plane.ring_curves, toy.NOISE),
    "spirals": joint_near(plane.spiral_curves, plane.SPIRAL_NOISE),
}
TABLES = ("iris", "wine", "breast-cancer")
CASES = {
    "mixture": Case(4, of_source(mixture, joint_of_mixture)),
    **{
        name: Case(SHAPES[name].n_clusters, of_source(SHAPES[name].draw, joint))
        for name, joint in JOINTS.items()
    },
    **{
        name: Case(
            SHAPES[name].n_clusters,
            of_rows(partial(SHAPES[name].draw, 0, 0), TRAINED_ON, _shuffled(0)),
        )
        for name in TABLES
    },
    "digits": Case(10, of_rows(toy.digits, 0.5, _shuffled(1))),
}

# --- methods ------------------------------------------------------------------------------------

HELD_OUT = 0.15  # share of the training rows that components and bandwidth are chosen on
COMPONENTS = tuple(range(1, 21))
BANDWIDTHS = tuple(np.geomspace(0.01, 3, 40).tolist())
FLOOR, FLOOR_OF_MANY, MANY = 1e-6, 1e-3, 20  # added to variances; in more than so many columns
GEDI_, BASE, REAL = "gedi", "base", "real"
REFERENCES = ("gmm", "kde")


class Reference:
    """A density estimator of scikit-learn; one of its settings is chosen on held-out rows."""

    def __init__(self, make: Callable[[Any], Any], candidates: Sequence[float], seed: int) -> None:
        self.make = make
        self.candidates = candidates
        self.seed = seed

    def fit(self, x: np.ndarray) -> None:
        """Choose on some of the rows, then fit to all of them."""
        order = np.random.default_rng(self.seed).permutation(len(x))
        held, rest = np.split(order, [max(1, round(HELD_OUT * len(x)))])

        def level(candidate: float) -> float:
            try:
                found = self.make(candidate).fit(x[rest]).score_samples(x[held])
            except ValueError:  # more components than rows, or one that shrank to a point
                return -np.inf
            return float(found.mean())

        self.chosen = max(self.candidates, key=level)
        self.estimator = self.make(self.chosen).fit(x)

    def score_samples(self, x: np.ndarray) -> np.ndarray:
        return np.asarray(self.estimator.score_samples(x))

    def sample(self, n: int) -> np.ndarray:
        if isinstance(self.estimator, KernelDensity):
            return np.asarray(self.estimator.sample(n, random_state=self.seed))
        return np.asarray(self.estimator.sample(n)[0])


class Real:
    """Nothing learned: training points in place of samples, the true density where it is known."""

    def __init__(self, truth: LogDensity | None) -> None:
        if truth is not None:
            self.score_samples = truth

    def fit(self, x: np.ndarray) -> None:
        self.x = x

    def sample(self, n: int) -> np.ndarray:
        return self.x[:n]


def build(
    method: str, n_clusters: int, points: Points, seed: int, settings: Options | None = None
) -> Any:
    """A method not yet fitted."""
    if method == REAL:
        return Real(points.truth)
    if method == "gmm":
        floor = FLOOR_OF_MANY if points.train.shape[1] > MANY else FLOOR
        return Reference(
            lambda k: GaussianMixture(k, reg_covar=floor, random_state=seed), COMPONENTS, seed
        )
    if method == "kde":
        return Reference(lambda width: KernelDensity(bandwidth=width), BANDWIDTHS, seed)
    without = {"sampler.kind": "none"} if method == BASE else {}
    return GEDI(n_clusters, random_state=seed, settings=(settings or {}) | without)


def is_normalised(model: Any) -> bool:
    """Whether its scores are log densities, and not only so up to a constant."""
    if isinstance(model, GEDI):
        return model.log_normaliser_ is not None
    return hasattr(model, "score_samples")


N_SAMPLES = 2000
NODES = 200  # of a grid, along each of its two axes
DRAWS = 1000  # of shares by chance
NAMES = {
    GEDI_: "GEDI",
    BASE: "base alone",
    "gmm": "GaussianMixture",
    "kde": "KernelDensity",
    REAL: "real points",
}

# --- measuring ----------------------------------------------------------------------------------


def squared_mmd(samples: np.ndarray, real: np.ndarray) -> float:
    """The unbiased estimate of the squared maximum mean discrepancy; may be below 0.

    The kernel is Gaussian with a quarter of the median distance between the `real` points as its
    deviation: samples compared with the same points have the same kernel.
    """
    # `pdist` leaves out each point's distance to itself, which is what makes this unbiased.
    return (
        _mean_kernel(pdist(samples), real)
        + _mean_kernel(pdist(real), real)
        - 2 * _mean_kernel(cdist(samples, real), real)
    )


def mmd_of_unrelated(real: np.ndarray) -> float:
    """The squared MMD of samples that are far from all `real` points and from one another.

    Samples that reach it share nothing with the data at the scale of the kernel. Their distance
    from the data cannot be measured then, which happens easily in many dimensions.
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
    """The measures of GEDI alone; `clusters` are those of its samples."""
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
    runner: Runner,
    seeds: Sequence[int],
    data: Sequence[str] | None = None,
    methods: Sequence[str] | None = None,
    *,
    settings: Options | None = None,
    n: int = N_POINTS,
) -> list[Table]:
    """One row for each (data, method, seed); None for data is all; `settings` are GEDI's."""
    names, shown = chosen("data set", data, CASES), chosen("method", methods, NAMES)
    cells = [Cell(name, "all", seed, tuple(NAMES)) for seed in seeds for name in names]
    rows = runner.rows(cells, fit, n, settings, threads=1)
    return runner.finish("density", [row for row in rows if row["method"] in shown], tables)


def fit(cell: Cell, n: int, settings: Options) -> list[Row]:
    """Fit all methods to one set, and measure them."""
    return compare(cell.data, cell.seed, n, settings)


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


def _chosen(group: Group) -> str:
    """Least to greatest over the seeds."""
    found = [f"{value:.2g}" for value in sorted(table.values(group, "chosen"))]
    return " to ".join(dict.fromkeys([found[0], found[-1]])) if found else ""


LIKELIHOOD: dict[str, table.Text] = {
    "data": table.label("data"),
    "method": table.label("method", NAMES | {REAL: "true density"}),
    "seeds": table.seeds,
    "log-likelihood": ranged("log_likelihood"),
    "minus the best reference": ranged("above"),
    "standard error": table.statistic("above_error"),
    "median difference": ranged("above_median"),
    "rank, fresh": ranged("rank_fresh"),
    "rank, box": ranged("rank_box"),
    "chosen": _chosen,
    "seconds": ranged("seconds", 2),
}
SAMPLES: dict[str, table.Text] = {
    "data": table.label("data"),
    "method": table.label("method", NAMES),
    "seeds": table.seeds,
    "AUROC": ranged("auroc"),
    "squared MMD x 1000": ranged("mmd", 2),
    "MMD of unrelated points": ranged("mmd_unrelated", 2),
}
OWN: dict[str, table.Text] = {
    "data": table.label("data"),
    "seeds": table.seeds,
    "normaliser's error": ranged("normaliser_error"),
    "integral": ranged("integral"),
    "share error": ranged("shares"),
    "by chance": table.statistic("shares_by_chance"),
    "NMI": ranged("nmi"),
    "certified": share(lambda row: row["certified"]),
}
WIDE = ("standard error", "median difference", "rank, fresh", "rank, box", "chosen")


def tables(rows: Group) -> list[Table]:
    """Likelihoods, samples, and the measures of GEDI alone."""
    # To keep the real points takes no time worth showing.
    shown = [row | {"seconds": None} if row["method"] == REAL else row for row in rows]
    groups = table.grouped(shown, data=CASES, method=NAMES)
    known = [g for g in groups if g[0]["method"] != REAL or g[0]["log_likelihood"] is not None]
    own = [group for group in groups if group[0]["method"] == GEDI_]
    scaled = [[row | _thousandfold(row) for row in group] for group in groups]
    return [
        table.make("Log-likelihood of fresh points, in nats", LIKELIHOOD, known, WIDE),
        table.make("Outliers and samples", SAMPLES, scaled),
        table.make("Normaliser and clusters of GEDI", OWN, own),
    ]


def _thousandfold(row: Row) -> Row:
    found = {name: row[name] for name in ("mmd", "mmd_unrelated")}
    return {name: None if value is None else 1000 * value for name, value in found.items()}


if __name__ == "__main__":
    main("density", run, "How good the density is that GEDI learns.", seeds=5)
