"""Why a cluster is one: the columns that set it apart, its typical, doubtful and unusual rows.

`explain` makes an `Explanation` of a model's outputs for each row; a run keeps it in profile.json,
beside a preview of the rows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal

import numpy as np
import torch
from pydantic import FiniteFloat, TypeAdapter

from gedilearn.data.arrays import Scaling, evenly_spaced, listing
from gedilearn.errors import InputError
from gedilearn.io import RESTORE, read_json, reading
from gedilearn.training.result import Result
from gedilearn.training.run import RunDirectory, read_config

# Shares are the means of columns of 0 and 1; dates are days since 1970, times hours since midnight.
Kind = Literal["number", "share", "date", "time"]
Names = Sequence[str] | None  # of columns; None: their numbers
Meanings = Mapping[int, Kind] | None  # of columns by place, where their values do not show it

MOST_NAMED = 5  # columns of a cluster
WORTH = 0.5  # the effect from which a column is named; Cohen calls it medium,
GREAT = 2.0  # and that from which it is "much" higher or lower
NARROW = 0.5  # the spread that is named, as a share of the other rows'; or its inverse
SUFFICIENT = 0.9  # adjusted mutual information with the clusters
MOST_TRIED = 50  # columns, and
MOST_SEARCHED = 5_000  # rows, in the search for a column that alone reproduces the clusters
ROUNDING = 1e-10
MOST_ROWS = 5  # named of each kind, for each cluster; also values of a row
MOST_OUTLIERS = 10  # of all rows
MOST_NEIGHBOURS = 3
LEAST_CONFUSED = 0.001  # the mean probability from which another cluster is a neighbour
UNIT = np.linspace(0, 1, 31)  # the edges of bins for probabilities
FAR = 6.0  # log p(x) this many interquartile ranges below the median is in the first bin
UNLEARNT = (
    "The density was not learnt (weights.gen=0, or a method without GEN): no row is called "
    "unusual, and typical rows are those with the highest probability of their cluster."
)
MOST_PREVIEWED = 5_000  # rows,
LEAST_PREVIEWED = 100  # fewer where they are large
MOST_BYTES = 64_000_000


def day(days: float) -> str:
    """2024-03-01, for days since 1970."""
    return str(np.datetime64(math.floor(days), "D"))


def minute(hours: float) -> str:
    """18:30, for hours since midnight, also of the day before or after."""
    return "{:02}:{:02}".format(*divmod(round(60 * hours) % 1440, 60))


# How values of each kind are written, and the words for more and for less.
KINDS: dict[Kind, tuple[Callable[[float], str], str, str]] = {
    "number": ("{:,.5g}".format, "higher", "lower"),
    "share": ("{:.0%}".format, "more often", "less often"),
    "date": (day, "later", "earlier"),
    "time": (minute, "later", "earlier"),
}


@dataclass(frozen=True)
class Difference:
    """How the rows of a cluster differ in one column from all other rows."""

    column: str
    effect: float  # Cohen's d: the difference of the means in pooled standard deviations
    mean: float  # of the cluster
    others: float  # the mean of all other rows
    spread: float  # the cluster's standard deviation as a multiple of the others'
    words: str
    kind: Kind = "number"

    @property
    def spread_ratio(self) -> float:
        """At least 1; 1 for a share, whose spread follows from its mean."""
        ratio = max(self.spread, 1 / max(self.spread, np.finfo(float).tiny))
        return 1.0 if self.kind == "share" else ratio

    def shown(self, mean: float) -> str:
        """A mean of the column as people write it: a share in percent, a date as a day."""
        return KINDS[self.kind][0](mean)

    def __str__(self) -> str:
        mean = self.shown(self.mean) if self.kind == "share" else f"mean {self.shown(self.mean)}"
        effect = f"effect {self.effect:+.2f}"
        if math.isinf(self.effect):
            effect = "without any overlap"
        elif self.kind != "share":
            effect += f", spread {self.spread:.2g} times the others'"
        return f"{self.column}: {mean}, others {self.shown(self.others)}; {effect}"


@dataclass(frozen=True)
class SufficientColumn:
    """A column that alone reproduces the clusters, and how well a small tree of it does."""

    column: str
    ami: float


@dataclass(frozen=True)
class Row:
    """A row of the data, counted from 0, and what the model says of it."""

    row: int
    cluster: int
    probability: float  # of its cluster
    second: int | None  # the next likely cluster,
    second_probability: float  # and its probability
    log_density: float | None  # None if it was not learnt
    values: dict[str, FiniteFloat]  # of the columns that say most of its cluster
    trust: float | None = None  # of a row of the fit, where training began with clusters

    @property
    def rival(self) -> int | None:
        """The next likely cluster, if its probability is worth a word."""
        return self.second if self.second_probability >= 0.005 else None


@dataclass(frozen=True)
class Neighbour:
    """Another cluster, and the mean probability of it for the rows of this one."""

    cluster: int
    probability: float


@dataclass(frozen=True)
class Profile:
    """One cluster."""

    cluster: int
    size: int
    share: float  # of all rows
    probability: float  # the mean that its rows are of it
    words: str  # 'higher income, lower age'; of images nothing
    differences: tuple[Difference, ...]  # the columns that set it apart, the strongest first
    typical: tuple[Row, ...]  # highest log p(x) + log p(y|x): next to the mode of p(x|y)
    doubtful: tuple[Row, ...]  # lowest p(y|x)
    outliers: tuple[Row, ...]  # lowest log p(x); none if it was not learnt
    neighbours: tuple[Neighbour, ...]  # the clusters that it is confused with, the nearest first

    def __str__(self) -> str:
        lines = [f"cluster {self.cluster}: {self.size} rows ({self.share:.1%})"]
        if not self.size:
            return lines[0]
        lines += [self.words] if self.words else []
        lines += [f"  {difference}" for difference in self.differences]
        parts = {
            "typical": [str(r.row) for r in self.typical],
            "least certain": [
                str(r.row)
                if r.rival is None
                else f"{r.row} ({r.probability:.2f}, or {r.rival}: {r.second_probability:.2f})"
                for r in self.doubtful
            ],
            "unusual": [str(r.row) for r in self.outliers],
            "taken for": [f"cluster {n.cluster} ({n.probability:.3f})" for n in self.neighbours],
        }
        lines += [f"{name}: {', '.join(words)}" for name, words in parts.items() if words]
        return "\n  ".join(lines)


@dataclass(frozen=True)
class Histogram:
    """How many values lie between each two edges; those below the first are in the first bin."""

    edges: tuple[float, ...]
    counts: tuple[int, ...]
    below: int = 0


@dataclass(frozen=True)
class Explanation:
    """What a model says of data, cluster by cluster; `str` gives it in words."""

    n_samples: int
    columns: tuple[str, ...]  # by name; of images none
    clusters: tuple[Profile, ...]
    outliers: tuple[Row, ...]  # of all rows
    alone: tuple[SufficientColumn, ...]
    warnings: tuple[str, ...]
    probabilities: Histogram  # of each row's cluster
    log_densities: Histogram
    trusts: Histogram = Histogram((), ())
    kinds: dict[str, Kind] = field(default_factory=dict)  # of columns that are no plain numbers

    @property
    def rows(self) -> list[int]:
        """All rows that are named, each once, in their order."""
        named = {row.row for row in self.outliers}
        for profile in self.clusters:
            named |= {r.row for r in (*profile.typical, *profile.doubtful, *profile.outliers)}
        return sorted(named)

    def written(self, column: str) -> Callable[[float], str] | None:
        """How values of a column are written, if they are dates or times of day."""
        kind = self.kinds.get(column, "number")
        return KINDS[kind][0] if kind in ("date", "time") else None

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @staticmethod
    def from_json(content: Any) -> Explanation:
        """The value that `to_json` gave; anything else is a ValueError."""
        found = TypeAdapter(Explanation).validate_python(content)
        n, c = found.n_samples, len(found.clusters)
        histograms = (found.probabilities, found.log_densities, found.trusts)
        if (
            [p.cluster for p in found.clusters] != list(range(c))
            or sum(p.size for p in found.clusters) != n
            or not all(0 <= row < n for row in found.rows)
            or not all(0 <= other.cluster < c for p in found.clusters for other in p.neighbours)
            or any(h.counts and len(h.edges) != len(h.counts) + 1 for h in histograms)
        ):
            raise ValueError("its clusters, rows and histograms do not belong together")
        return found

    def __str__(self) -> str:
        head = f"{self.n_samples} rows in {len(self.clusters)} clusters"
        return "\n\n".join([head, *map(str, self.clusters), *self.warnings])


def explain(
    x: np.ndarray,
    names: Names,
    labels: np.ndarray,
    probabilities: np.ndarray,
    log_density: np.ndarray | None,
    trust: np.ndarray | None = None,
    meanings: Meanings = None,
) -> Explanation:
    """Profiles of the clusters of x: (n, d) in the data's units, or images (n, c, h, w).

    labels: (n,); probabilities: p(y|x), (n, clusters)
    log_density: (n,); None if it was not learnt: then no rows are unusual
    trust: (n,), how far to trust the cluster of each row, where that is known
    """
    c, meanings = probabilities.shape[1], meanings or {}
    columns = _columns(x, names)
    differences: list[tuple[Difference, ...]] = [()] * c
    alone: list[SufficientColumn] = []
    if columns and c > 1:
        differences = compare(x, columns, labels, c, meanings)
        alone = sufficient_columns(x, columns, labels)
    rows = _Rows(x, columns, labels, probabilities, log_density, trust)
    clusters = tuple(rows.profile(k, own) for k, own in enumerate(differences))
    return Explanation(
        n_samples=len(labels),
        columns=columns,
        kinds={columns[j]: kind for j, kind in meanings.items()},
        clusters=clusters,
        outliers=rows.lowest(log_density, np.arange(len(labels)), most=MOST_OUTLIERS),
        alone=tuple(alone),
        warnings=(*([UNLEARNT] if log_density is None else []), *_warnings(alone, clusters)),
        probabilities=_histogram(rows.own, UNIT),
        log_densities=_histogram(log_density),
        trusts=_histogram(trust, UNIT),
    )


def _columns(x: np.ndarray, names: Names) -> tuple[str, ...]:
    """The names of the columns of vectors; images have none."""
    if x.ndim != 2:
        return ()
    columns = tuple(f"column {j}" for j in range(x.shape[1])) if names is None else tuple(names)
    if len(columns) != x.shape[1]:
        raise InputError(f"{len(columns)} names for {x.shape[1]} columns: give one for each")
    return columns


def _warnings(alone: Sequence[SufficientColumn], clusters: Sequence[Profile]) -> list[str]:
    named = [each.column for each in alone]
    said = [
        f"The column {each.column} alone reproduces the clusters (AMI {each.ami:.2f}): a few "
        "thresholds on it give the same groups. Check that it is not a row number, a date or a "
        "known answer."
        for each in alone[:MOST_ROWS]
    ]
    said += [
        f"The column {d.column} alone separates cluster {profile.cluster}: its rows have one "
        "value, all others another."
        for profile in clusters
        for d in profile.differences
        if math.isinf(d.effect) and d.column not in named
    ]
    if empty := [profile.cluster for profile in clusters if not profile.size]:
        said.append(f"Clusters without rows: {listing(empty)}.")
    return said


def _histogram(values: np.ndarray | None, edges: np.ndarray | None = None) -> Histogram:
    """Of finite values; without edges, from the largest down to values far below the median."""
    values = np.zeros(0) if values is None else values[np.isfinite(values)].astype(np.float64)
    if not len(values):
        return Histogram((), ())
    if edges is None:
        q1, median, q3 = np.quantile(values, (0.25, 0.5, 0.75))
        low, high = max(values.min(), median - FAR * (q3 - q1)), values.max()
        if not high > low:
            low, high = low - 0.5, low + 0.5
        edges = np.linspace(low, high, len(UNIT))
    counts = np.histogram(values.clip(edges[0], edges[-1]), edges)[0]
    below = int((values < edges[0]).sum())
    return Histogram(tuple(edges.tolist()), tuple(counts.tolist()), below)


# --- columns --------------------------------------------------------------------------------------


def compare(
    x: np.ndarray,
    names: Sequence[str],
    labels: np.ndarray,
    n_clusters: int,
    meanings: Mapping[int, Kind],
) -> list[tuple[Difference, ...]]:
    """The columns worth a word for each cluster, the strongest first; x: (rows, columns).

    Every cluster is compared with all other rows, column by column. `meanings` has the kinds of
    columns that their values do not show.
    """
    found: list[list[Difference]] = [[] for _ in range(n_clusters)]
    for j, name in enumerate(names):
        column = x[:, j].astype(np.float64)
        kind = meanings.get(j, "share" if np.isin(column, (0, 1)).all() else "number")
        numbers = _compare_column(column, labels, n_clusters)
        for own, (effect, mean, others, spread) in zip(found, numbers.tolist(), strict=True):
            own.append(Difference(name, effect, mean, others, spread, "", kind))
    return [_worth_naming(own) for own in found]


def _compare_column(values: np.ndarray, labels: np.ndarray, n_clusters: int) -> np.ndarray:
    """Effect, mean, the other rows' mean, and spread of each cluster: (clusters, 4)."""
    n, size = len(values), np.bincount(labels, minlength=n_clusters)
    rest = n - size
    z = values - values.mean()
    scale = np.abs(z).max() or 1.0
    z = z / scale  # squares of large values are no numbers
    z -= z.mean()  # a huge offset leaves some rounding
    with np.errstate(divide="ignore", invalid="ignore"):
        mean = np.bincount(labels, z, n_clusters) / size
        others = -mean * size / rest
        # The sums of squares about the cluster's mean, and of all other rows about theirs.
        within = np.bincount(labels, (z - mean[labels]) ** 2, n_clusters)
        outside = (z**2).sum() - within - size * mean**2 - rest * others**2
        rounding = 1e-14 * (z**2).sum()
        within, outside = (np.where(s <= rounding, 0.0, s) for s in (within, outside))
        effect = (mean - others) / np.sqrt((within + outside) / max(n - 2, 1))
        spread = np.sqrt(within / size) / np.sqrt(outside / rest)
        total = np.bincount(labels, values, n_clusters)
        means = total / size, (total.sum() - total) / rest
    effect = np.where(np.isnan(effect), 0.0, effect)
    spread = np.where(np.isnan(spread), 1.0, spread)
    return np.column_stack([effect, *means, spread])


def _worth_naming(found: Sequence[Difference]) -> tuple[Difference, ...]:
    """The columns of another mean, then those of another spread, with their words."""
    strongest = sorted(
        found, key=lambda d: (abs(d.effect) < WORTH, -abs(d.effect), -d.spread_ratio)
    )
    return tuple(
        replace(d, words=_words(d))
        for d in strongest[:MOST_NAMED]
        if abs(d.effect) >= WORTH or d.spread_ratio >= 1 / NARROW
    )


def _words(difference: Difference) -> str:
    """'higher income', 'much later joined', 'never smoker', 'narrower range of age'."""
    name, effect, mean = difference.column, difference.effect, difference.mean
    if abs(effect) < WORTH:
        return f"{'narrower' if difference.spread < 1 else 'wider'} range of {name}"
    if difference.kind == "share" and min(abs(mean), abs(1 - mean)) < ROUNDING:
        return f"{'always' if mean > 0.5 else 'never'} {name}"
    _, more, less = KINDS[difference.kind]
    return f"{'much ' if abs(effect) >= GREAT else ''}{more if effect > 0 else less} {name}"


def sufficient_columns(
    x: np.ndarray, names: Sequence[str], labels: np.ndarray
) -> list[SufficientColumn]:
    """The columns that alone reproduce the clusters, the best first.

    A column alone is a decision tree of it with twice as many leaves as there are clusters, on
    evenly spaced rows. Of many columns those are tried that explain the most variance.
    """
    from sklearn.metrics import adjusted_mutual_info_score
    from sklearn.tree import DecisionTreeClassifier

    used = len(np.unique(labels))
    if x.shape[1] < 2 or used < 2:
        return []
    rows = evenly_spaced(len(labels), MOST_SEARCHED)
    own, found = labels[rows], []
    z = Scaling.fit(x[rows]).apply(x[rows])  # the tree computes in single precision
    groups = [z[own == k] for k in np.unique(own)]
    explained = sum(len(group) * group.mean(0, dtype=np.float64) ** 2 for group in groups)
    for j in sorted(np.argsort(-np.asarray(explained), kind="stable")[:MOST_TRIED].tolist()):
        tree = DecisionTreeClassifier(max_leaf_nodes=2 * used, random_state=0)
        column = z[:, j : j + 1]
        agreement = float(adjusted_mutual_info_score(own, tree.fit(column, own).predict(column)))
        if agreement >= SUFFICIENT:
            found.append(SufficientColumn(names[j], agreement))
    return sorted(found, key=lambda each: -each.ami)


# --- rows -----------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Rows:
    """The rows of the data and what a model says of them, each (n, ...)."""

    x: np.ndarray
    columns: tuple[str, ...]
    labels: np.ndarray
    p: np.ndarray
    log_density: np.ndarray | None
    trust: np.ndarray | None

    @property
    def own(self) -> np.ndarray:
        """The probability of each row's cluster."""
        return np.take_along_axis(self.p, self.labels[:, None], axis=1)[:, 0]

    def profile(self, k: int, differences: tuple[Difference, ...]) -> Profile:
        inside, own = np.flatnonzero(self.labels == k), self.own
        density = 0 if self.log_density is None else self.log_density
        with np.errstate(divide="ignore", invalid="ignore"):
            typicality = np.log(own.astype(np.float64)) + density
            mean = self.p[inside].sum(0, dtype=np.float64) / len(inside)
        words = ", ".join(d.words for d in differences)
        if not words and len(inside) and self.columns and len(mean) > 1:
            words = "no single column sets it apart from the rest"
        shown = [d.column for d in differences]
        return Profile(
            cluster=k,
            size=len(inside),
            share=len(inside) / len(self.p),
            probability=float(mean[k]),
            words=words,
            differences=differences,
            typical=self.lowest(-typicality, inside, shown),
            doubtful=self.lowest(own, inside, shown),
            outliers=self.lowest(self.log_density, inside, shown),
            neighbours=_neighbours(k, mean),
        )

    def lowest(
        self,
        values: np.ndarray | None,
        among: np.ndarray,
        shown: Sequence[str] = (),
        most: int = MOST_ROWS,
    ) -> tuple[Row, ...]:
        """The rows among some with the lowest values, if there are any; of equals, the first."""
        if values is None:
            return ()
        order = among[np.argsort(values[among], kind="stable")[:most]]
        # The columns that set a cluster apart, and then the first ones.
        names = list(dict.fromkeys([*shown, *self.columns[:MOST_ROWS]]))[:MOST_ROWS]
        return tuple(self._row(int(i), names) for i in order)

    def _row(self, i: int, names: Sequence[str]) -> Row:
        cluster, p = int(self.labels[i]), self.p[i]
        others = [j for j in np.argsort(-p, kind="stable").tolist() if j != cluster]
        second = others[0] if others else None
        return Row(
            row=i,
            cluster=cluster,
            probability=float(p[cluster]),
            second=second,
            second_probability=0.0 if second is None else float(p[second]),
            log_density=None if self.log_density is None else float(self.log_density[i]),
            values={name: float(self.x[i, self.columns.index(name)]) for name in names},
            trust=None if self.trust is None else float(self.trust[i]),
        )


def _neighbours(k: int, mean: np.ndarray) -> tuple[Neighbour, ...]:
    """The clusters that rows of cluster k are taken for; mean: (clusters,) of p(y|x)."""
    order = [int(j) for j in np.argsort(-mean, kind="stable") if j != k]
    near = [j for j in order if mean[j] >= LEAST_CONFUSED][:MOST_NEIGHBOURS]
    return tuple(Neighbour(j, float(mean[j])) for j in near)


# --- of a fitted result, and in a run directory ---------------------------------------------------


def explain_result(
    result: Result, scaling: Scaling, x: np.ndarray, names: Names, meanings: Meanings = None
) -> Explanation:
    """The clusters of x, in the data's units, by a fitted result."""
    return explain(x, names, **_outputs(result, scaling, x), meanings=meanings)


def keep(
    directory: RunDirectory,
    result: Result,
    scaling: Scaling,
    x: np.ndarray,
    names: Names,
    meanings: Meanings = None,
) -> None:
    """Write the profiles of the clusters, and a preview: rows of the data with their outputs.

    These are evenly spaced ones, and all that the profiles name.
    """
    names = read_config(directory.path).data.columns if names is None else names
    outputs = _outputs(result, scaling, x)
    outputs["trust"] = None if result.trust is None else result.trust.prod(1).numpy()
    found = explain(x, names, **outputs, meanings=meanings)
    directory.write_profile(found.to_json())

    kind = x.dtype if x.dtype == np.uint8 else np.dtype(np.float64)
    each = x[:1].size * kind.itemsize + 4 * result.model.n_features
    most = min(MOST_PREVIEWED, max(LEAST_PREVIEWED, MOST_BYTES // each))
    rows = np.union1d(evenly_spaced(len(x), most), np.array(found.rows, int)).astype(np.int64)
    labels = outputs["labels"][rows]
    preview = {
        "rows": rows,
        "points": x[rows].astype(kind),
        "labels": labels.astype(np.int64),
        "probability": outputs["probabilities"][rows, labels].astype(np.float64),
        "features": result.features(_scaled(result, scaling, x[rows])).astype(np.float32),
    }
    for name in ("log_density", "trust"):
        if outputs[name] is not None:
            preview[name] = outputs[name][rows].astype(np.float64)
    directory.write_preview(preview)


def read_profile(directory: RunDirectory) -> Explanation:
    """The explanation that `keep` wrote, or one line that says what is wrong with it."""
    content = read_json(directory.profile)
    with reading(directory.profile, RESTORE):
        return Explanation.from_json(content)


def _scaled(result: Result, scaling: Scaling, x: np.ndarray) -> torch.Tensor:
    return torch.from_numpy(scaling.apply(x)).to(result.box.low.dtype)


def _outputs(result: Result, scaling: Scaling, x: np.ndarray) -> dict[str, Any]:
    """Labels, p(y|x) and log p(x) as `GEDI.score_samples` gives it; None if it was not learnt."""
    z, log_density = _scaled(result, scaling, x), None
    if result.has_density:
        log_density = result.scores(z, "log_density")
        if result.density is not None:
            log_density = log_density - result.density.volume(scaling.scale)
    outputs = {"labels": result.labels(z), "probabilities": result.probabilities(z)}
    return outputs | {"log_density": log_density}
