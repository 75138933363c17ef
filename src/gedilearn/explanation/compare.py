"""The columns that set clusters apart, and the columns that alone reproduce the clusters."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from gedilearn.data.arrays import Scaling, evenly_spaced

MOST_NAMED = 5  # columns of a cluster
WORTH = 0.5  # the effect from which a column is named; Cohen calls it medium,
GREAT = 2.0  # and that from which it is "much" higher or lower
NARROW = 0.5  # the spread that is named, as a share of the other rows'; or its inverse
SUFFICIENT = 0.9  # adjusted mutual information with the clusters
MOST_TRIED = 50  # columns, and
MOST_ROWS = 5_000  # rows, in the search for a column that alone reproduces the clusters
ROUNDING = 1e-10  # in units of a column's spread; a smaller value counts as 0

# Shares are the means of columns of 0 and 1; dates are days since 1970, times hours since midnight.
# Earlier versions wrote "count" for whole numbers.
Kind = Literal["number", "count", "share", "date", "time"]


def day(days: float) -> str:
    """2024-03-01, for days since 1970."""
    return str(np.datetime64(math.floor(days), "D"))


def minute(hours: float) -> str:
    """18:30, for hours since midnight, also of the day before or after."""
    return "{:02}:{:02}".format(*divmod(round(60 * hours) % 1440, 60))


FORMATS: dict[str, Callable[[float], str]] = {"date": day, "time": minute}
LATER = ("later", "earlier")
COMPARISONS = {"share": ("more often", "less often"), "date": LATER, "time": LATER}


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
        if self.kind in FORMATS:
            return FORMATS[self.kind](mean)
        return f"{mean:.0%}" if self.kind == "share" else f"{mean:,.5g}"


@dataclass(frozen=True)
class SufficientColumn:
    """A column that alone reproduces the clusters, and how well a small tree of it does."""

    column: str
    ami: float


def compare(
    x: np.ndarray,
    names: Sequence[str],
    labels: np.ndarray,
    n_clusters: int,
    meanings: Mapping[int, Kind],
) -> tuple[list[tuple[Difference, ...]], list[SufficientColumn]]:
    """Compare every cluster with all other rows, column by column; x: (rows, columns).

    Gives the columns worth a word for each cluster, the strongest first, and the columns that alone
    reproduce the clusters. `meanings` has the kinds of columns that their values do not show.
    """
    scaling = Scaling.fit(x)
    found: list[list[Difference]] = [[] for _ in range(n_clusters)]
    explained = np.zeros(x.shape[1])
    for j, name in enumerate(names):
        offset, scale, is_share = scaling.offset[j], scaling.scale[j], np.isin(x[:, j], (0, 1))
        kind = meanings.get(j, "share" if is_share.all() else "number")
        z = (x[:, j].astype(np.float64) - offset) / scale
        effect, spread, *means, explained[j] = _compare_column(z, labels, n_clusters)
        units = (mean * scale + offset for mean in means)
        mean, others = (np.where(np.abs(v) < ROUNDING * scale, 0.0, v) for v in units)
        for k, own in enumerate(found):
            d, here, there, ratio = (float(v[k]) for v in (effect, mean, others, spread))
            own.append(Difference(name, d, here, there, ratio, "", kind))
    return [_worth_naming(own) for own in found], _sufficient(x, names, labels, explained)


def _sufficient(
    x: np.ndarray, names: Sequence[str], labels: np.ndarray, explained: np.ndarray
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
    rows = evenly_spaced(len(labels), MOST_ROWS)
    own, found = labels[rows], []
    for j in sorted(np.argsort(-explained, kind="stable")[:MOST_TRIED].tolist()):
        column = x[rows, j : j + 1]
        tree = DecisionTreeClassifier(max_leaf_nodes=2 * used, random_state=0)
        # The tree computes in single precision.
        z = Scaling.fit(column).apply(column)
        agreement = float(adjusted_mutual_info_score(own, tree.fit(z, own).predict(z)))
        if agreement >= SUFFICIENT:
            found.append(SufficientColumn(names[j], agreement))
    return sorted(found, key=lambda each: -each.ami)


def _compare_column(
    z: np.ndarray, labels: np.ndarray, n_clusters: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, float]:
    """Effects, spreads, means and the other rows' means, (clusters,), and the share explained."""
    n, size = len(z), np.bincount(labels, minlength=n_clusters).astype(np.float64)
    z = z - z.mean()  # a huge offset leaves some rounding
    with np.errstate(divide="ignore", invalid="ignore"):
        total = np.bincount(labels, z, n_clusters)
        mean, others = total / size, (total.sum() - total) / (n - size)
        # The sums of squares about the cluster's mean, and of all other rows about theirs.
        within = np.bincount(labels, (z - mean[labels]) ** 2, n_clusters)
        about = within + np.where(size > 0, size * (mean - others[:, None]) ** 2, 0.0)
        outside = np.where(np.eye(n_clusters, dtype=bool), 0.0, about).sum(1)
        rounding = n * (ROUNDING * np.abs(z).max()) ** 2
        within, outside = (np.where(s <= rounding, 0.0, s) for s in (within, outside))
        effect = (mean - others) / np.sqrt((within + outside) / max(n - 2, 1))
        spread = np.sqrt(within / size) / np.sqrt(outside / (n - size))
    between, everything = np.nansum(size * mean**2), max((z**2).sum(), np.finfo(float).tiny)
    effect = np.where(np.isnan(effect), 0.0, effect)
    spread = np.where(np.isnan(spread), 1.0, spread)
    return effect, spread, mean, others, float(between / everything)


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
    pair = COMPARISONS.get(difference.kind, ("higher", "lower"))
    return f"{'much ' if abs(effect) >= GREAT else ''}{pair[effect < 0]} {name}"
