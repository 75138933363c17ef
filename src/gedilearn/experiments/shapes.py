"""GEDI with its defaults against yardsticks, on data of known clusters and on data of none.

Every fit is one row: (data, method, seed). The points that are scored are drawn anew from the same
source where the method can label them; the spectral methods, HDBSCAN and Genie cannot, so they are
scored on the points they were fitted to, and so is every method on real tables, of which there are
no more. On sets without structure nothing is scored: what counts is what GEDI says of its result.
"""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from sklearn.cluster import HDBSCAN, KMeans, SpectralClustering
from sklearn.mixture import GaussianMixture
from sklearn.neighbors import NearestNeighbors
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

from gedilearn.data.dataset import Dataset
from gedilearn.estimator import GEDI
from gedilearn.evaluation.clustering import clustering_scores
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
from gedilearn.experiments.shape_pieces import NOT_SCORED
from gedilearn.experiments.shape_sets import BACKGROUND, EACH, FAMILIES, SHAPES, THIN, Shape

SOLVED = 0.95  # AMI; a certificate with less is a false one
BEHIND = 0.05  # AMI; more than this below k-means is worth a count
OURS, GIVEN = "gedi", "gedi prior=given"
GENIE = "genie"
RIVALS = ("kmeans", "gmm", "spectral", "spectral-local", "hdbscan", GENIE)
METHODS = ("gedi", *RIVALS)  # what can be asked for; gedi is all its rows
NAMES = {
    OURS: "GEDI",
    GIVEN: "GEDI, true prior",
    "kmeans": "KMeans",
    "gmm": "GaussianMixture",
    "spectral": "Spectral",
    "spectral-local": "Spectral, local",
    "hdbscan": "HDBSCAN",
    GENIE: "Genie",
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
    }[method]
    return make_pipeline(StandardScaler(with_std=shape.units), *steps())


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
    seeds: Sequence[int],
    data: Sequence[str] | None = None,
    methods: Sequence[str] | None = None,
    *,
    runner: Runner = IN_MEMORY,
    n: int = N_POINTS,
    settings: Options | None = None,
) -> list[Row]:
    """One row for each (data, method, seed), in plain JSON values; None for data or methods is all.

    `data` are sets or families of them; `n` points a set, where a set has no number of its own;
    `settings` are those of GEDI, by dotted names.
    """
    sets = chosen("data set", data, SHAPES, FAMILIES)
    asked = chosen("method", methods, METHODS)
    if GENIE in asked and not _has_genie():
        asked.remove(GENIE)
        runner.say(NO_GENIE)
    keys = [  # seed by seed, so that every set has some rows early
        (name, method, seed)
        for seed in seeds
        for name in sets
        for method in methods_of(SHAPES[name])
        if method.split()[0] in asked
    ]
    return runner.rows(keys, fit, n, NO_DENSITY | (settings or {}), threads=1)


def methods_of(shape: Shape) -> list[str]:
    """Without structure the others have nothing to tell: they say nothing of their results."""
    ours = [OURS, GIVEN] if shape.prior else [OURS]
    return ours if shape.structureless else [*ours, *RIVALS]


def fit(data: str, method: str, seed: int, n: int, settings: Options) -> Row:
    """Fit one method to one set and score it."""
    shape = SHAPES[data]
    train = shape.draw(n, seed)
    model = build(method, shape, seed, settings)
    seconds = timed(lambda: model.fit(train.x))
    predicts = hasattr(model, "predict")
    scored = shape.draw(n, seed + FRESH) if predicts and shape.fresh else train
    labels = model.predict(scored.x) if predicts else model[-1].labels_
    scores = _scores(shape, scored, labels)
    own = isinstance(model, GEDI)
    certified = bool(model.converged_) if own else None
    return {
        "scored": "training" if scored is train else "fresh",
        **scores,
        "found": len(np.unique(labels)),
        "gap": model.certificate_gap_ if own else None,
        "certified": certified,
        "false_certificate": certified and (shape.structureless or scores["ami"] < SOLVED),
        "grade": getattr(model, "grade_", None),
        "trust": model.result_.overall_trust if own else None,
        "points": len(train.x),
        "seconds": round(seconds, 3),
        "iterations": model.n_iter_ if own else None,
    }


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


def _method(group: table.Group) -> str:
    star = "*" if group[0]["scored"] == "training" else ""
    return f"{NAMES[group[0]['method']]}{star}"


def _grades(group: table.Group) -> str:
    grades = Counter(row["grade"] for row in group if row["grade"] is not None)
    return ", ".join(f"{grade} {count}" for grade, count in grades.most_common())


def _solved(row: Row) -> bool | None:
    return None if row["ami"] is None else bool(row["ami"] >= SOLVED)


COLUMNS = (
    table.label("data"),
    table.Column("method", _method, words=True),
    table.seeds(),
    table.share(f"AMI >= {SOLVED:g}", _solved, short="solved"),
    table.statistic("median AMI", "ami", short="median"),
    table.statistic("min AMI", "ami", min, short="min"),
    table.statistic("best possible AMI", "best_ami", short=""),
    table.statistic("median NMI", "nmi", short=""),
    table.share("certified", lambda row: row["certified"], short="cert."),
    table.count("false certificates", lambda row: row["false_certificate"], short="false"),
    table.Column("grades", _grades, short="", words=True),
    table.statistic("median trust", "trust", short="", digits=2),
    table.statistic("seconds", "seconds", short="s", digits=2),
)
NOTES = (
    "Median, minimum and counts are over the seeds of the line, which may be fewer than those "
    "above; each seed draws the data anew.",
    "Scored on fresh points of the same source; rows marked * on the training points, because the "
    "method cannot label new points, or because there are no more (digits, iris, wine, "
    "breast-cancer).",
    "AMI is corrected for chance, NMI is not. Best possible AMI: that of the likeliest cluster "
    "under the true density, where it is known.",
    f"Certified: gap below the tolerance; a certificate with AMI < {SOLVED:g}, or on a set without "
    "structure, counts as false.",
    "Grades and trust are what GEDI says of a result without labels.",
    "GEDI is fitted without its density (weights.gen=0), which does not change the clusters and "
    "has a page of its own (`gedi reproduce density`).",
    f"Thin shapes have {THIN} points at most, and sets of many clusters {EACH} a cluster at least. "
    f"Of the sets in noise, {BACKGROUND:.0%} of the points belong to no cluster and are not "
    "scored.",
    "All methods get standardised columns (the others of digits and embeddings-128 the columns as "
    "they are, which share one unit). All but HDBSCAN are told the number of clusters; its noise "
    "points count as one more.",
    "KMeans and GaussianMixture take the best of ten starts; Spectral works on nearest neighbours, "
    f"with local scales on weights of the {NEIGHBOURS} nearest; Genie is that of genieclust with a "
    f"Gini threshold of {GINI:g}; all else is as scikit-learn has it. Seconds are those of the "
    "fit, on one thread.",
)


def tables(rows: Sequence[Row]) -> list[table.Table]:
    """A line for each method; what GEDI says of its results; a line for each (data, method)."""
    title = f"AMI: solved (>= {SOLVED:g}), median, minimum"
    groups = table.grouped(rows, "data", "method", data=SHAPES, method=NAMES)
    return [*_summary(rows), *_trust(rows), table.Table(title, COLUMNS, groups, NOTES)]


def _summary(rows: Sequence[Row]) -> list[table.Table]:
    """All sets with known clusters; a set counts once, by its median over the seeds."""
    groups = table.grouped(_known(rows), "method", method=NAMES)
    if not groups:
        return []
    medians = {
        group[0]["method"]: {
            of_set[0]["data"]: statistics.median(table.values(of_set, "ami"))
            for of_set in table.grouped(group, "data")
        }
        for group in groups
    }

    def own(group: table.Group) -> list[float]:
        return list(medians[group[0]["method"]].values())

    def above(group: table.Group, other: str) -> list[float]:
        """By how much, on the sets of both."""
        mine, theirs = medians[group[0]["method"]], medians.get(other, {})
        return [mine[name] - theirs[name] for name in mine if name in theirs and mine is not theirs]

    def behind(group: table.Group) -> str:
        found = above(group, "kmeans")
        return f"{sum(each < -BEHIND for each in found)}" if found else ""

    def to_genie(group: table.Group) -> str:
        found = above(group, GENIE)
        return f"{statistics.fmean(found):+.3f}" if found else ""

    columns = (
        table.label("method", NAMES),
        table.Column("sets", lambda group: str(len(own(group)))),
        table.Column("mean AMI", lambda group: table.number(statistics.fmean(own(group)), 3)),
        table.Column("solved", lambda group: str(sum(ami >= SOLVED for ami in own(group)))),
        table.Column("below KMeans", behind),
        table.Column("AMI less Genie's", to_genie),
    )
    notes = (
        "Sets with known clusters; a set counts once, by its median AMI over the seeds.",
        f"Solved: sets with AMI >= {SOLVED:g}. Below KMeans: sets with an AMI more than {BEHIND:g} "
        "below that of KMeans. AMI less Genie's: the mean over the sets of both.",
    )
    return [table.Table("All sets with known clusters", columns, groups, notes)]


def _trust(rows: Sequence[Row]) -> list[table.Table]:
    """What GEDI says of its results, where it should say little and where it is put to the test."""
    ours = [row for row in rows if row["certified"] is not None]

    def free(group: table.Group, holds: table.Holds) -> str:
        found = [row for row in group if row["ami"] is None]
        return table.share("", holds).cell(found) if found else ""

    columns = (
        table.label("method", NAMES),
        table.Column(
            "certified without structure",
            lambda group: free(group, lambda row: row["certified"]),
            short="certified",
        ),
        table.Column(
            "supported without structure",
            lambda group: free(group, _supported),
            short="supported",
        ),
        table.count("false certificates", lambda row: row["false_certificate"], short="false"),
        table.count("certificates", lambda row: row["certified"]),
        table.Column("rank correlation of trust with AMI", _correlation, short="trust~AMI"),
        table.Column("the same of sets", _correlation_of_sets, short="of sets"),
    )
    notes = (
        "Certified, supported: of the runs on sets without structure, those with such a grade; "
        "each is one too many. Certificates, and the false among them: on all sets.",
        "Rank correlation: Spearman's, over all runs on sets with known clusters; of sets: each "
        "counts once, by its means over the seeds.",
    )
    groups = table.grouped(ours, "method", method=NAMES)
    return [table.Table("What GEDI says of its results", columns, groups, notes)] if groups else []


def _supported(row: Row) -> bool | None:
    return None if row["grade"] is None else bool(row["grade"] == SUPPORTED)


def _correlation(group: table.Group) -> str:
    return _ranks([(row["trust"], row["ami"]) for row in _trusted(group)])


def _correlation_of_sets(group: table.Group) -> str:
    sets = table.grouped(_trusted(group), "data")
    means = [
        tuple(statistics.fmean(table.values(of_set, name)) for name in ("trust", "ami"))
        for of_set in sets
    ]
    return _ranks(means)


def _trusted(rows: Sequence[Row]) -> list[Row]:
    return [row for row in _known(rows) if row["trust"] is not None]


def _ranks(pairs: Sequence[tuple[float, ...]]) -> str:
    """Nothing where one of both is the same in all pairs."""
    from scipy.stats import spearmanr

    if any(len(set(side)) < 2 for side in zip(*pairs, strict=True)) or len(pairs) < 2:
        return ""
    return table.number(float(spearmanr(*zip(*pairs, strict=True))[0]), 2)


def _known(rows: Sequence[Row]) -> list[Row]:
    """Rows of sets with known clusters."""
    return [row for row in rows if row["ami"] is not None]


EXPERIMENT = table.Experiment(
    "shapes", run, tables, title="Shapes: GEDI beside others", sets=SHAPES, preset="default"
)
