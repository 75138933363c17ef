"""GEDI with its defaults against four methods of scikit-learn, on data of known clusters.

Every fit is one row: (data, method, seed). The points that are scored are drawn anew from the same
source where the method can label them; SpectralClustering and HDBSCAN cannot, so they are scored on
the points they were fitted to, and so is every method on the digits, of which there are no more.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from sklearn.cluster import HDBSCAN, KMeans, SpectralClustering
from sklearn.mixture import GaussianMixture
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from gedilearn.data import toy
from gedilearn.data.dataset import Dataset
from gedilearn.estimator import GEDI
from gedilearn.evaluation.clustering import clustering_scores, nmi
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

SOLVED = 0.99  # NMI
FALSE = 0.95  # a certificate with a lower NMI is a false one
UNIFORM, AUTO, GIVEN = "gedi", "gedi prior=auto", "gedi prior=given"
PRIORS = (UNIFORM, AUTO, GIVEN)
RIVALS = ("kmeans", "gmm", "spectral", "hdbscan")
FAMILIES = ("gedi", *RIVALS)  # what can be asked for; gedi is all its rows
NAMES = {
    UNIFORM: "GEDI",
    AUTO: 'GEDI prior="auto"',
    GIVEN: "GEDI, true prior",
    "kmeans": "KMeans",
    "gmm": "GaussianMixture",
    "spectral": "SpectralClustering",
    "hdbscan": "HDBSCAN",
}

# --- data sets: functions of n and random_state, as those of `data.toy` --------------------------

# Four unit Gaussians in 20 dimensions; the centres are one draw for good.
CENTRES_20 = np.random.default_rng(7).normal(size=(4, 20))
CENTRES_TAILS = np.array([[0.0, 0.0], [12.0, 0.0], [6.0, 10.0]])
REPEATS = 5


def mixture_50(n: int, random_state: int) -> Dataset:
    """The four Gaussians, and 30 more columns of nothing but noise."""
    rng = np.random.default_rng(random_state)
    y = np.arange(n) % len(CENTRES_20)
    telling = CENTRES_20[y] + rng.normal(size=(n, 20))
    return _built_in("mixture-50", np.c_[telling, rng.normal(size=(n, 30))], y)


def likeliest_of_mixture(x: np.ndarray) -> np.ndarray:
    """The nearest centre in the columns that tell."""
    away = np.linalg.norm(x[:, None, :20] - CENTRES_20, axis=-1)
    return np.asarray(away.argmin(1))


def outliers(n: int, random_state: int) -> Dataset:
    """Four blobs, and one point in fifty anywhere in a box of twenty times their width.

    The label of an outlier is the blob it is likeliest to come from.
    """
    rng = np.random.default_rng(random_state)
    x = toy.BLOBS_4.draw(n, random_state).x
    strays = n // 50
    x[:strays] = rng.uniform(-57, 63, (strays, 2))
    return _built_in("outliers", x, toy.BLOBS_4.most_likely(x))


def duplicates(n: int, random_state: int) -> Dataset:
    """Moons of which every point comes five times, all but the same."""
    rng = np.random.default_rng(random_state)
    moons = toy.moons(max(n // REPEATS, 2), random_state=random_state)
    assert moons.y is not None
    x = np.repeat(moons.x, REPEATS, axis=0)
    x = x + rng.normal(0, 1e-4, x.shape)
    return _built_in("duplicates", x, np.repeat(moons.y, REPEATS))


def heavy_tails(n: int, random_state: int) -> Dataset:
    """Three clusters of Student's t with two degrees of freedom: no variance."""
    rng = np.random.default_rng(random_state)
    y = np.arange(n) % len(CENTRES_TAILS)
    return _built_in("heavy-tails", CENTRES_TAILS[y] + rng.standard_t(2, (n, 2)), y)


def real_table(name: str, n: int, random_state: int) -> Dataset:
    """A table that comes with scikit-learn: iris, wine or breast_cancer; all of it."""
    import sklearn.datasets

    content: Any = getattr(sklearn.datasets, f"load_{name}")()
    return _built_in(name, content.data, content.target)


def _built_in(name: str, x: np.ndarray, y: np.ndarray) -> Dataset:
    return Dataset(name=name, x=x, y=y, columns=None, source="built-in")


@dataclass(frozen=True)
class Shape:
    """A source of data, and what is known of it."""

    n_clusters: int
    source: Callable[..., Dataset]
    gedi: tuple[str, ...] = (UNIFORM,)
    prior: tuple[float, ...] | None = None  # the true shares, for GIVEN
    best: Callable[[np.ndarray], np.ndarray] | None = None  # x -> the likeliest cluster
    changed: Callable[[Dataset], Dataset] = lambda data: data
    fresh: bool = True  # whether more points can be drawn
    units: bool = True  # columns may have units of their own: standardised for every method

    def draw(self, n: int, seed: int) -> Dataset:
        return self.changed(self.source(n=n, random_state=seed))


PLAIN = {"moons": toy.moons, "circles": toy.circles}
CHANGES: dict[str, Callable[[Dataset], Dataset]] = {
    "far": lambda data: toy.moved(data, 1000, 1e6),
    "rotated": lambda data: toy.rotated(data, 0.7),
    "axes": lambda data: toy.stretched(data, 100),
}
UNBALANCED = {"moons-80-20": (0.8, 0.2), "moons-95-5": (0.95, 0.05)}
NOISY = 0.1
BLOBS = {"blobs-4": toy.BLOBS_4, "blobs-7": toy.BLOBS_7, "anisotropic": toy.ANISOTROPIC}
REAL = {"iris": 3, "wine": 3, "breast-cancer": 2}

SHAPES: dict[str, Shape] = {
    **{name: Shape(2, source) for name, source in PLAIN.items()},
    **{
        f"{name}-{how}": Shape(2, source, changed=changed)
        for how, changed in CHANGES.items()
        for name, source in PLAIN.items()
    },
    "rings": Shape(3, toy.rings),
    "spirals": Shape(2, toy.spirals),
    **{
        name: Shape(2, partial(toy.moons, share=prior[0]), PRIORS, prior)
        for name, prior in UNBALANCED.items()
    },
    **{
        name: Shape(len(blobs.centres), blobs.draw, best=blobs.most_likely)
        for name, blobs in BLOBS.items()
    },
    "moons-noisy": Shape(
        2, partial(toy.moons, noise=NOISY), best=partial(toy.most_likely_moon, noise=NOISY)
    ),
    "digits": Shape(10, lambda **_: toy.digits(), fresh=False, units=False),
    "mixture-50": Shape(4, mixture_50, best=likeliest_of_mixture),
    "outliers": Shape(4, outliers, best=toy.BLOBS_4.most_likely),
    "duplicates": Shape(2, duplicates),
    "heavy-tails": Shape(3, heavy_tails),
    **{
        name: Shape(k, partial(real_table, name.replace("-", "_")), (UNIFORM, AUTO), fresh=False)
        for name, k in REAL.items()
    },
}

# --- methods ------------------------------------------------------------------------------------


def build(method: str, shape: Shape, seed: int, settings: Options) -> Any:
    """An estimator. The others get standardised columns, as GEDI makes them, and ten starts."""
    k = shape.n_clusters
    if method.split()[0] == "gedi":
        prior = {UNIFORM: None, AUTO: "auto", GIVEN: shape.prior}[method]
        return GEDI(k, prior=prior, random_state=seed, settings=settings)
    rival = {
        "kmeans": lambda: KMeans(k, n_init=10, random_state=seed),
        "gmm": lambda: GaussianMixture(k, n_init=10, random_state=seed),
        "spectral": lambda: SpectralClustering(k, affinity="nearest_neighbors", random_state=seed),
        "hdbscan": lambda: HDBSCAN(copy=True),
    }[method]()
    return make_pipeline(StandardScaler(with_std=shape.units), rival)


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

    `n` points a set; `settings` are those of GEDI, by dotted names.
    """
    families = chosen("method", methods, FAMILIES)
    keys = [  # seed by seed, so that every set has some rows early
        (name, method, seed)
        for seed in seeds
        for name in chosen("data set", data, SHAPES)
        for method in (*SHAPES[name].gedi, *RIVALS)
        if method.split()[0] in families
    ]
    return runner.rows(keys, fit, n, settings, threads=1)


def fit(data: str, method: str, seed: int, n: int, settings: Options) -> Row:
    """Fit one method to one set and score it."""
    shape = SHAPES[data]
    train = shape.draw(n, seed)
    model = build(method, shape, seed, settings)
    seconds = timed(lambda: model.fit(train.x))
    predicts = hasattr(model, "predict")
    scored = shape.draw(n, seed + FRESH) if predicts and shape.fresh else train
    labels = model.predict(scored.x) if predicts else model[-1].labels_
    assert scored.y is not None
    scores = clustering_scores(scored.y, labels)
    own = isinstance(model, GEDI)
    certified = bool(model.converged_) if own else None
    return {
        "scored": "training" if scored is train else "fresh",
        "nmi": scores["nmi"],
        "ami": scores["ami"],
        "bayes_nmi": None if shape.best is None else nmi(scored.y, shape.best(scored.x)),
        "found": scores["clusters_used"],
        "gap": model.certificate_gap_ if own else None,
        "certified": certified,
        "false_certificate": certified and scores["nmi"] < FALSE,
        "seconds": round(seconds, 3),
        "iterations": model.n_iter_ if own else None,
    }


# --- showing ------------------------------------------------------------------------------------


def _method(group: table.Group) -> str:
    star = "*" if group[0]["scored"] == "training" else ""
    return f"{NAMES[group[0]['method']]}{star}"


COLUMNS = (
    table.label("data"),
    table.Column("method", _method, words=True),
    table.seeds(),
    table.share(f"NMI >= {SOLVED:g}", lambda row: row["nmi"] >= SOLVED, short="solved"),
    table.statistic("median NMI", "nmi", short="median"),
    table.statistic("min NMI", "nmi", min, short="min"),
    table.statistic("median AMI", "ami", short=""),
    table.statistic("best possible NMI", "bayes_nmi", short="best"),
    table.share("certified", lambda row: row["certified"], short="cert."),
    table.count("false certificates", lambda row: row["false_certificate"], short="false"),
    table.statistic("seconds", "seconds", short="s", digits=2),
)
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


def tables(rows: Sequence[Row]) -> list[table.Table]:
    """A line for each (data, method) over its seeds, in the order of SHAPES."""
    title = f"NMI: solved (>= {SOLVED:g}), median, minimum, best possible"
    groups = table.grouped(rows, "data", "method", data=SHAPES, method=NAMES)
    return [table.Table(title, COLUMNS, groups, NOTES)]


EXPERIMENT = table.Experiment(
    "shapes", run, tables, title="Shapes: GEDI beside scikit-learn", sets=SHAPES, preset="default"
)
