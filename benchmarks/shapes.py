"""GEDI with its defaults compared with other methods, on data with known clusters and without any.

    python benchmarks/shapes.py --seeds 2 --data moons,structureless --out tables/shapes
    python benchmarks/shapes.py --seeds 2 --methods start,random-start     what additions are worth

Every fit is one row: (data, method, seed). Methods are scored on fresh points of the same source.
The spectral methods, HDBSCAN and Genie cannot label fresh points: they are scored on the points
they were fitted to. So is every method on real tables, which have no fresh points. On sets without
structure nothing is scored: only the verdict of GEDI counts there.
docs/results/shapes.md explains the columns.
"""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from scipy.stats import spearmanr
from sklearn.cluster import HDBSCAN, KMeans, SpectralClustering
from sklearn.mixture import GaussianMixture
from sklearn.neighbors import NearestNeighbors
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

from comparison import main, share, timed
from gedilearn.data.arrays import Scaling
from gedilearn.data.dataset import Dataset
from gedilearn.estimator import GEDI
from gedilearn.evaluation.clustering import clustering_scores
from gedilearn.graph.neighbours import distance_features
from gedilearn.paper import table
from gedilearn.paper.runner import Cell, Options, Runner, chosen
from gedilearn.paper.table import Group, Row, Table
from gedilearn.paper.toy import FRESH, N_POINTS
from gedilearn.starts.choose import choose_start
from shape_sets import FAMILIES, NOT_SCORED, SHAPES, Shape

SOLVED = 0.95  # AMI; a certificate with less is a false one
BEHIND = 0.05  # AMI; more than this below k-means is worth a count
OURS, GIVEN = "gedi", "gedi prior=given"
GENIE = "genie"
RIVALS = ("kmeans", "gmm", "spectral", "spectral-local", "hdbscan", GENIE)
METHODS = ("gedi", *RIVALS)  # gedi is all its rows
# GEDI with one thing left out or changed, and its initial clustering alone.
START = "start"
CONTROLS: dict[str, Options] = {
    START: {},
    "start-loss": {"weights.inv": 0.0, "weights.prior": 0.0},
    "start-fades": {"weights.start": ((0.0, 5.0), (0.33, 0.0))},
    "random-start": {"training.start": "random"},
    "vote": {"training.start": "vote"},
    "noise-views": {"views.kind": "noise", "training.start": "chosen"},
    "with-gen": {"weights.gen": 1.0},
    "no-base": {"weights.gen": 1.0, "density.base": "none"},
}
# Others, on columns as our graph sees them.
COLUMNS_AS_OURS = tuple(f"{name}-columns" for name in ("kmeans", "gmm", "spectral-local", GENIE))
NAMES = {
    OURS: "GEDI",
    GIVEN: "GEDI, true prior",
    "kmeans": "KMeans",
    "gmm": "GaussianMixture",
    "spectral": "Spectral",
    "spectral-local": "Spectral, local",
    "hdbscan": "HDBSCAN",
    GENIE: "Genie",
    START: "initial clustering alone",
    "start-loss": "its cross-entropy alone",
    "start-fades": "its weight falls to 0",
    "random-start": "random initialisation",
    "vote": "six networks vote",
    "noise-views": "noise as views",
    "with-gen": "with GEN (default)",
    "no-base": "with GEN, without base",
    "kmeans-columns": "KMeans, distance features",
    "gmm-columns": "GaussianMixture, distance features",
    "spectral-local-columns": "Spectral, local, distance features",
    f"{GENIE}-columns": "Genie, distance features",
}
NO_DENSITY: Options = {"weights.gen": 0.0}
NO_GENIE = 'genieclust is not installed: no rows of genie (pip install "gedi-learn[yardsticks]")'
SUPPORTED = "supported"  # the grade below a certificate
NEIGHBOURS, SCALE_AT = 10, 7  # of locally scaled weights
# A graph that falls into many parts takes a thousand times longer to the last digit.
EIGEN_TOL = 1e-10
GINI = 0.3  # of Genie, its default

# --- methods ------------------------------------------------------------------------------------


def build(method: str, shape: Shape, seed: int, settings: Options) -> Any:
    """An estimator. The others get standardised columns, as GEDI makes them, and ten starts."""
    k = shape.n_clusters
    if method == START:
        return StartAlone(k, seed)
    if method in CONTROLS:
        return GEDI(k, random_state=seed, settings=settings | CONTROLS[method])
    if method.split()[0] == "gedi":
        prior = shape.prior if method == GIVEN else None
        return GEDI(k, prior=prior, random_state=seed, settings=settings)
    steps: Callable[[], Sequence[Any]] = {
        "kmeans": lambda: [KMeans(k, n_init=10, random_state=seed)],
        "gmm": lambda: [GaussianMixture(k, n_init=10, random_state=seed)],
        "spectral": lambda: [
            SpectralClustering(k, affinity="nearest_neighbors", random_state=seed)
        ],
        "spectral-local": lambda: [
            FunctionTransformer(locally_scaled),
            SpectralClustering(
                k,
                affinity="precomputed",
                assign_labels="cluster_qr",
                eigen_tol=EIGEN_TOL,
                random_state=seed,
            ),
        ],
        "hdbscan": lambda: [HDBSCAN(copy=True)],
        GENIE: lambda: [_genie()(n_clusters=k, gini_threshold=GINI)],
    }[method.removesuffix("-columns")]
    ours = [FunctionTransformer(distance_features)] if method in COLUMNS_AS_OURS else []
    return make_pipeline(StandardScaler(with_std=shape.units), *ours, *steps())


class StartAlone:
    """The clusters that training begins with: labels of the points, no network."""

    def __init__(self, n_clusters: int, seed: int) -> None:
        self.n_clusters, self.seed = n_clusters, seed

    def fit(self, x: np.ndarray) -> None:
        points = distance_features(Scaling.fit(x).apply(x), self.seed)
        self.labels_ = choose_start(points, self.n_clusters, self.seed).labels


def locally_scaled(x: np.ndarray) -> Any:
    """Weights exp(-d^2 / (s_i s_j)) of a neighbour graph, where s is how far the 7th neighbour is.

    The graph is sparse and symmetric. Where so many points are equal that s is 0, the smallest
    other s takes its place: weights of points that differ are then next to 0.
    """
    from scipy.sparse import csr_matrix

    distances, others = NearestNeighbors(n_neighbors=NEIGHBOURS).fit(x).kneighbors()
    scales = distances[:, SCALE_AT - 1]
    scales = np.maximum(scales, scales[scales > 0].min() if scales.any() else 1.0)
    weights = np.exp(-(distances**2) / (scales[:, None] * scales[others]))
    ends = np.arange(0, weights.size + 1, NEIGHBOURS)
    graph = csr_matrix((weights.ravel(), others.ravel(), ends), shape=(len(x), len(x)))
    return graph.maximum(graph.T)


def _genie() -> Any:
    """A class of genieclust, which has the licence AGPL: a yardstick here, and never a part."""
    from genieclust import Genie

    return Genie


def _has_genie() -> bool:
    try:
        _genie()
    except ImportError:
        return False
    return True


# --- running ------------------------------------------------------------------------------------


def run(
    runner: Runner,
    seeds: Sequence[int],
    data: Sequence[str] | None = None,
    methods: Sequence[str] | None = None,
    *,
    n: int = N_POINTS,
    settings: Options | None = None,
) -> list[Table]:
    """One row for each (data, method, seed); None for data or methods is all.

    `data` are sets or families of them; `n` points a set, where a set has no number of its own;
    `settings` are those of GEDI, by dotted names.
    """
    names = data and [name for each in data for name in FAMILIES.get(each, (each,))]
    named = chosen("method", methods or METHODS, (*METHODS, *CONTROLS, *COLUMNS_AS_OURS))
    if not _has_genie() and any(GENIE in method for method in named):
        named = [method for method in named if GENIE not in method]
        runner.say(NO_GENIE)
    cells = [  # seed by seed, so that every set has some rows early
        Cell(name, method, seed)
        for seed in seeds
        for name in chosen("data set", names, SHAPES)
        for method in methods_of(SHAPES[name])
        if method.split()[0] in named
    ]
    rows = runner.rows(cells, fit, n, NO_DENSITY | (settings or {}), threads=1)
    return runner.finish("shapes", rows, tables)


def methods_of(shape: Shape) -> list[str]:
    """Without structure the others have nothing to tell: they say nothing of their results."""
    ours = [OURS, GIVEN] if shape.prior else [OURS]
    return ours if shape.structureless else [*ours, *RIVALS, *CONTROLS, *COLUMNS_AS_OURS]


def fit(cell: Cell, n: int, settings: Options) -> list[Row]:
    """Fit one method to one set and score it."""
    shape, method, seed = SHAPES[cell.data], cell.method, cell.seed
    train = shape.draw(n, seed)
    model = build(method, shape, seed, settings)
    seconds = timed(lambda: model.fit(train.x))
    predicts = hasattr(model, "predict")
    # Our columns depend on all points at once: fresh ones would have others.
    fresh = predicts and shape.fresh and method not in COLUMNS_AS_OURS
    scored = shape.draw(n, seed + FRESH) if fresh else train
    labels = model.predict(scored.x) if predicts else _labels(model)
    scores = _scores(shape, scored, labels)
    own = isinstance(model, GEDI)
    certified = bool(model.certified_) if own else None
    row = {
        "data": cell.data,
        "method": method,
        "seed": seed,
        "scored": "training" if scored is train else "fresh",
        **scores,
        "found": len(np.unique(labels)),
        "bound_gap": model.bound_gap_ if own else None,
        "certified": certified,
        "false_certificate": certified and (shape.structureless or scores["ami"] < SOLVED),
        "grade": getattr(model, "grade_", None),
        "trust": model.summary()["trust"] if own else None,
        "points": len(train.x),
        "seconds": round(seconds, 3),
        "iterations": model.n_iter_ if own else None,
    }
    return [row]


def _labels(model: Any) -> np.ndarray:
    return np.asarray((model if isinstance(model, StartAlone) else model[-1]).labels_)


def _scores(shape: Shape, data: Dataset, labels: np.ndarray) -> Row:
    """Agreement with the true clusters, of the points that have one."""
    if data.y is None:
        return {"ami": None, "nmi": None, "best_ami": None}
    known = data.y != NOT_SCORED
    found = clustering_scores(data.y[known], labels[known])
    best = None
    if shape.best is not None:
        best = clustering_scores(data.y[known], shape.best(data.x[known]))["ami"]
    return {"ami": found["ami"], "nmi": found["nmi"], "best_ami": best}


# --- showing ------------------------------------------------------------------------------------


def _method(group: Group) -> str:
    star = "*" if group[0]["scored"] == "training" else ""
    return f"{NAMES[group[0]['method']]}{star}"


def _grades(group: Group) -> str:
    grades = Counter(row["grade"] for row in group if row["grade"] is not None)
    return ", ".join(f"{grade} {count}" for grade, count in grades.most_common())


def _solved(row: Row) -> bool | None:
    return None if row["ami"] is None else bool(row["ami"] >= SOLVED)


def _count(name: str) -> table.Text:
    cell = share(lambda row: row[name])
    return lambda group: cell(group).split("/")[0]


COLUMNS = {
    "data": table.label("data"),
    "method": _method,
    "seeds": table.seeds,
    f"AMI >= {SOLVED:g}": share(_solved),
    "median AMI": table.statistic("ami"),
    "min AMI": table.statistic("ami", of=min),
    "best possible AMI": table.statistic("best_ami"),
    "median NMI": table.statistic("nmi"),
    "certified": share(lambda row: row["certified"]),
    "false certificates": _count("false_certificate"),
    "grades": _grades,
    "median trust": table.statistic("trust", 2),
    "seconds": table.statistic("seconds", 2),
}
WIDE = ("best possible AMI", "median NMI", "grades", "median trust")


def tables(rows: Group) -> list[Table]:
    """A line for each method; what GEDI says of its results; a line for each (data, method)."""
    groups = table.grouped(rows, data=SHAPES, method=NAMES)
    return [*_summary(rows), *_trust(rows), table.make("All sets", COLUMNS, groups, WIDE)]


def _summary(rows: Group) -> list[Table]:
    """All sets with known clusters; a set counts once, by its median over the seeds."""
    groups = table.grouped(_known(rows), method=NAMES)
    if not groups:
        return []
    medians = {
        group[0]["method"]: {
            of_set[0]["data"]: statistics.median(table.values(of_set, "ami"))
            for of_set in table.grouped(group, data=())
        }
        for group in groups
    }

    def own(group: Group) -> list[float]:
        return list(medians[group[0]["method"]].values())

    def above(group: Group, other: str) -> list[float]:
        """By how much, on the sets of both."""
        mine, theirs = medians[group[0]["method"]], medians.get(other, {})
        return [mine[name] - theirs[name] for name in mine if name in theirs and mine is not theirs]

    def behind(group: Group) -> str:
        found = above(group, "kmeans")
        return f"{sum(each < -BEHIND for each in found)}" if found else ""

    def to_genie(group: Group) -> str:
        found = above(group, GENIE)
        return f"{statistics.fmean(found):+.3f}" if found else ""

    columns: dict[str, table.Text] = {
        "method": table.label("method", NAMES),
        "sets": lambda group: str(len(own(group))),
        "mean AMI": lambda group: table.number(statistics.fmean(own(group)), 3),
        "solved": lambda group: str(sum(ami >= SOLVED for ami in own(group))),
        "below KMeans": behind,
        "AMI minus Genie's": to_genie,
    }
    return [table.make("All sets with known clusters", columns, groups)]


def _trust(rows: Group) -> list[Table]:
    """What GEDI says of its results, with and without structure."""
    ours = [row for row in rows if row["certified"] is not None]

    def without_structure(holds: Callable[[Row], bool | None]) -> table.Text:
        def cell(group: Group) -> str:
            found = [row for row in group if row["ami"] is None]
            return share(holds)(found) if found else ""

        return cell

    columns: dict[str, table.Text] = {
        "method": table.label("method", NAMES),
        "certified without structure": without_structure(lambda row: row["certified"]),
        "supported without structure": without_structure(
            lambda row: None if row["grade"] is None else bool(row["grade"] == SUPPORTED)
        ),
        "false certificates": _count("false_certificate"),
        "certificates": _count("certified"),
        "rank correlation of trust with AMI": lambda group: _ranks([[row] for row in group]),
        "the same over sets": lambda group: _ranks(table.grouped(group, data=())),
    }
    groups = table.grouped(ours, method=NAMES)
    return [table.make("What GEDI says of its results", columns, groups)] if groups else []


def _ranks(groups: Sequence[Group]) -> str:
    """Spearman's, over the means of groups; nothing where one side is the same in all of them."""
    pairs = [
        tuple(statistics.fmean(table.values(group, name)) for name in ("trust", "ami"))
        for group in groups
        if group[0]["ami"] is not None and group[0]["trust"] is not None
    ]
    if any(len(set(side)) < 2 for side in zip(*pairs, strict=True)) or len(pairs) < 2:
        return ""
    return table.number(float(spearmanr(*zip(*pairs, strict=True))[0]), 2)


def _known(rows: Group) -> list[Row]:
    """Rows of sets with known clusters."""
    return [row for row in rows if row["ami"] is not None]


if __name__ == "__main__":
    main("shapes", run, "The clusters of GEDI compared with those of other methods.", seeds=20)
