"""Why a cluster is one: the columns that set it apart, its typical, doubtful and unusual rows.

`explain` makes an `Explanation` of a model's outputs for each row; a run keeps it in profile.json,
beside a preview of the rows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

import numpy as np
import torch
from pydantic import FiniteFloat, TypeAdapter

from gedilearn.data.arrays import Scaling, evenly_spaced, listing
from gedilearn.errors import InputError
from gedilearn.io import RESTORE, read_json, reading, write_json, write_tensors
from gedilearn.training.result import Result
from gedilearn.training.run import RunDirectory, read_config

# Shares are the means of columns of 0 and 1; dates are days since 1970, times hours since midnight.
Kind = Literal["number", "share", "date", "time"]
Names = Sequence[str] | None  # of columns; None: their numbers
Meanings = Mapping[int, Kind] | None  # of columns by place, where their values do not show it

MOST_NAMED = 5  # columns of a cluster
WORTH = 0.5  # the effect from which a column is named; Cohen calls it medium,
GREAT = 2.0  # and that from which it is "much" higher or lower
SUFFICIENT = 0.9  # adjusted mutual information with the clusters
MOST_TRIED = 50  # columns, and
MOST_SEARCHED = 5_000  # rows, in the search for a column that alone reproduces the clusters
ROUNDING = 1e-10
MOST_ROWS = 5  # named of each kind, for each cluster; also values of a row
MOST_OUTLIERS = 10  # of all rows
MOST_NEIGHBOURS = 3
LEAST_CONFUSED = 0.001  # the mean probability from which another cluster is a neighbour
LEAST_SECOND = 0.005  # the probability from which another cluster of a row is named
BINS = 30
FAR = 6.0  # log p(x) this many interquartile ranges below the median is in the first bin
UNLEARNT = (
    "The density was not learnt (weights.gen=0, or a method without GEN): no row is called "
    "unusual, and typical rows are those with the highest probability of their cluster."
)
ALONE = (
    "The column {} alone reproduces the clusters (AMI {:.2f}): a few thresholds on it give the "
    "same groups. Check that it is not a row number, a date or a known answer."
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
    kind: Kind = "number"

    @property
    def words(self) -> str:
        """'higher income', 'much later joined', 'never smoker'."""
        if self.kind == "share" and min(abs(self.mean), abs(1 - self.mean)) < ROUNDING:
            return f"{'always' if self.mean > 0.5 else 'never'} {self.column}"
        _, more, less = KINDS[self.kind]
        much = "much " if abs(self.effect) >= GREAT else ""
        return f"{much}{more if self.effect > 0 else less} {self.column}"

    def shown(self, mean: float) -> str:
        """A mean of the column as people write it: a share in percent, a date as a day."""
        return KINDS[self.kind][0](mean)

    def __str__(self) -> str:
        mean = self.shown(self.mean) if self.kind == "share" else f"mean {self.shown(self.mean)}"
        overlap = f"effect {self.effect:+.2f}" if math.isfinite(self.effect) else "no overlap"
        return f"{self.column}: {mean}, others {self.shown(self.others)}; {overlap}"


@dataclass(frozen=True)
class Row:
    """A row of the data, counted from 0, and what the model says of it."""

    row: int
    cluster: int
    probability: float  # of its cluster
    second: int | None  # the next likely cluster, if its probability is worth a word
    log_density: float | None  # None if it was not learnt
    values: dict[str, FiniteFloat]  # of the columns that say most of its cluster
    trust: float | None = None  # of a row of the fit, where training began with clusters


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
    # The clusters that its rows are taken for, with their mean probabilities, the nearest first.
    neighbours: dict[int, float]

    def __str__(self) -> str:
        lines = [f"cluster {self.cluster}: {self.size} rows ({self.share:.1%})"]
        if not self.size:
            return lines[0]
        lines += [self.words] if self.words else []
        lines += [f"  {difference}" for difference in self.differences]
        parts = {
            "typical": [str(r.row) for r in self.typical],
            "least certain": [
                f"{r.row}" if r.second is None else f"{r.row} ({r.probability:.2f}, or {r.second})"
                for r in self.doubtful
            ],
            "unusual": [str(r.row) for r in self.outliers],
            "taken for": [f"cluster {k} ({p:.3f})" for k, p in self.neighbours.items()],
        }
        lines += [f"{name}: {', '.join(words)}" for name, words in parts.items() if words]
        return "\n  ".join(lines)


@dataclass(frozen=True)
class Histogram:
    """Values counted in bins of equal width; those below the first bin are counted in it."""

    low: FiniteFloat = 0.0
    high: FiniteFloat = 1.0
    counts: tuple[int, ...] = ()

    @classmethod
    def of(cls, values: np.ndarray | None, low: float = 0.0, high: float = 1.0) -> Histogram:
        """Of finite values; empty if there are none."""
        if values is None or not np.isfinite(values).any():
            return cls()
        values = values[np.isfinite(values)].clip(low, high)
        counts, edges = np.histogram(values, BINS, (low, high))
        return cls(float(edges[0]), float(edges[-1]), tuple(counts.tolist()))

    def share_from(self, value: float) -> float:
        """The share of the rows in the bins from `value` on, where these go from 0 to 1."""
        first = round(value * len(self.counts))
        return sum(self.counts[first:]) / max(sum(self.counts), 1)


@dataclass(frozen=True)
class Explanation:
    """What a model says of data, cluster by cluster; `str` gives it in words."""

    n_samples: int
    columns: tuple[str, ...]  # by name; of images none
    clusters: tuple[Profile, ...]
    outliers: tuple[Row, ...]  # of all rows
    warnings: tuple[str, ...]
    probabilities: Histogram  # of each row's cluster
    log_densities: Histogram
    trusts: Histogram = Histogram()
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
        numbers = [profile.cluster for profile in found.clusters]
        n = sum(profile.size for profile in found.clusters)
        if numbers != list(range(len(numbers))) or n != found.n_samples:
            raise ValueError("its clusters and rows do not belong together")
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
    c, meanings, columns = probabilities.shape[1], meanings or {}, _columns(x, names)
    differences: list[tuple[Difference, ...]] = [()] * c
    warnings = [] if log_density is not None else [UNLEARNT]
    if columns and c > 1:
        scaling = Scaling.fit(x)
        compared = compare(x, scaling.scale, labels, c)
        kinds: list[Kind] = [
            meanings.get(j, "share" if np.isin(x[:, j], (0, 1)).all() else "number")
            for j in range(len(columns))
        ]
        each = zip(*compared, strict=True)
        differences = [_worth_naming(columns, *numbers, kinds) for numbers in each]
        strongest = np.argsort(-np.abs(compared[0]).max(0), kind="stable")
        some = evenly_spaced(len(x), MOST_SEARCHED)
        alone = sufficient_columns(scaling.apply(x[some]), labels[some], strongest[:MOST_TRIED])
        warnings += [ALONE.format(columns[j], ami) for j, ami in list(alone.items())[:MOST_ROWS]]
    if empty := [k for k in range(c) if not (labels == k).any()]:
        warnings.append(f"Clusters without rows: {listing(empty)}.")
    rows = _Rows(x, columns, labels, probabilities, log_density, trust)
    return Explanation(
        n_samples=len(labels),
        columns=columns,
        kinds={columns[j]: kind for j, kind in meanings.items()},
        clusters=tuple(rows.profile(k, own) for k, own in enumerate(differences)),
        outliers=rows.lowest(log_density, np.arange(len(labels)), most=MOST_OUTLIERS),
        warnings=tuple(warnings),
        probabilities=Histogram.of(rows.own),
        log_densities=_log_densities(log_density),
        trusts=Histogram.of(trust),
    )


def _columns(x: np.ndarray, names: Names) -> tuple[str, ...]:
    """The names of the columns of vectors; images have none."""
    if x.ndim != 2:
        return ()
    columns = tuple(f"column {j}" for j in range(x.shape[1])) if names is None else tuple(names)
    if len(columns) != x.shape[1]:
        raise InputError(f"{len(columns)} names for {x.shape[1]} columns: give one for each")
    return columns


def _log_densities(values: np.ndarray | None) -> Histogram:
    """From the largest value down to those far below the median."""
    finite = np.zeros(0) if values is None else values[np.isfinite(values)]
    if not len(finite):
        return Histogram()
    q1, median, q3 = np.quantile(finite, (0.25, 0.5, 0.75))
    return Histogram.of(finite, max(finite.min(), median - FAR * (q3 - q1)), finite.max())


# --- columns --------------------------------------------------------------------------------------


def compare(
    x: np.ndarray, scale: np.ndarray, labels: np.ndarray, n_clusters: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Every cluster against all other rows, column by column: Cohen's d, and both means.

    x: (rows, columns); scale: (columns,), their standard deviations -> (clusters, columns) each
    """
    n, size = len(x), np.bincount(labels, minlength=n_clusters)[:, None]
    total = np.stack([x[labels == k].sum(0, dtype=np.float64) for k in range(n_clusters)])
    with np.errstate(divide="ignore", invalid="ignore"):
        mean, others = total / size, (total.sum(0) - total) / (n - size)
        apart = (mean - others) / scale
        # The variance that is left within the cluster and within the rest, as a share of all.
        within = 1 - size * (n - size) * (apart / n) ** 2
        within = np.where(within > ROUNDING, within, 0.0) * n / max(n - 2, 1)
        effect = apart / np.sqrt(within)
    return np.where(np.isnan(effect), 0.0, effect), mean, others


def _worth_naming(
    columns: Sequence[str],
    effects: np.ndarray,
    means: np.ndarray,
    others: np.ndarray,
    kinds: Sequence[Kind],
) -> tuple[Difference, ...]:
    """The columns that set a cluster apart, the strongest first; arrays: (columns,)."""
    numbers = (effects.tolist(), means.tolist(), others.tolist())
    found = [Difference(*each) for each in zip(columns, *numbers, kinds, strict=True)]
    named = [difference for difference in found if abs(difference.effect) >= WORTH]
    return tuple(sorted(named, key=lambda difference: -abs(difference.effect))[:MOST_NAMED])


def sufficient_columns(z: np.ndarray, labels: np.ndarray, tried: np.ndarray) -> dict[int, float]:
    """The columns that alone reproduce the clusters, with the agreement (AMI), the best first.

    A column alone is a decision tree of it with twice as many leaves as there are clusters.
    z: (rows, columns), standardised, since the tree computes in single precision
    """
    from sklearn.metrics import adjusted_mutual_info_score
    from sklearn.tree import DecisionTreeClassifier

    used = len(np.unique(labels))
    if z.shape[1] < 2 or used < 2:
        return {}
    agreement = {}
    for j in tried.tolist():
        tree, column = DecisionTreeClassifier(max_leaf_nodes=2 * used, random_state=0), z[:, [j]]
        found = tree.fit(column, labels).predict(column)
        agreement[j] = float(adjusted_mutual_info_score(labels, found))
    best = sorted(agreement, key=lambda j: -agreement[j])
    return {j: agreement[j] for j in best if agreement[j] >= SUFFICIENT}


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
        shown, near = [d.column for d in differences], _others(mean, k, LEAST_CONFUSED)
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
            neighbours={j: float(mean[j]) for j in near[:MOST_NEIGHBOURS]},
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
        others = _others(p, cluster, LEAST_SECOND)
        return Row(
            row=i,
            cluster=cluster,
            probability=float(p[cluster]),
            second=others[0] if others else None,
            log_density=None if self.log_density is None else float(self.log_density[i]),
            values={name: float(self.x[i, self.columns.index(name)]) for name in names},
            trust=None if self.trust is None else float(self.trust[i]),
        )


def _others(p: np.ndarray, own: int, least: float) -> list[int]:
    """The other clusters of a probability from `least` on, the likeliest first; p: (clusters,)."""
    order = np.argsort(-p, kind="stable").tolist()
    return [k for k in order if k != own and p[k] >= least]


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
    labels: np.ndarray,
    names: Names,
    meanings: Meanings = None,
) -> None:
    """Write the profiles of the clusters, and a preview: rows of the data with their outputs.

    These are evenly spaced ones, and all that the profiles name.
    """
    names = read_config(directory.path).data.columns if names is None else names
    outputs = _outputs(result, scaling, x) | {"labels": labels}
    outputs["trust"] = None if result.trust is None else result.trust.prod(1).numpy()
    found = explain(x, names, **outputs, meanings=meanings)
    write_json(directory.profile, found.to_json(), None)

    kind = x.dtype if x.dtype == np.uint8 else np.dtype(np.float64)
    each = x[:1].size * kind.itemsize + 4 * result.model.n_features
    most = min(MOST_PREVIEWED, max(LEAST_PREVIEWED, MOST_BYTES // each))
    rows = np.union1d(evenly_spaced(len(x), most), np.array(found.rows, int)).astype(np.int64)
    preview = {
        "rows": rows,
        "points": x[rows].astype(kind),
        "labels": labels[rows].astype(np.int64),
        "probability": outputs["probabilities"][rows, labels[rows]].astype(np.float64),
        "features": result.features(_scaled(result, scaling, x[rows])).astype(np.float32),
    }
    for name in ("log_density", "trust"):
        if outputs[name] is not None:
            preview[name] = outputs[name][rows].astype(np.float64)
    write_tensors(directory.preview, {name: torch.from_numpy(a) for name, a in preview.items()})


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
