"""What columns say of clusters: the ones that set a cluster apart, and those that alone make all.

A column is a name and numbers, `Columns`; how data becomes such is `numeric` alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from scipy.sparse import csr_array

from gedilearn.data.arrays import Scaling, evenly_spaced
from gedilearn.data.tables import DAYS, Meaning, clock

MOST_NAMED = 5  # columns of a cluster
WORTH = 0.5  # the effect from which a column is named; Cohen calls it medium,
GREAT = 2.0  # and that from which it is "much" higher or lower
NARROW = 0.5  # the spread that is named, as a share of the other rows'; or its inverse
ALONE = 0.9  # adjusted mutual information with the clusters
MOST_TRIED = 50  # columns, and
MOST_ROWS = 5_000  # rows, when one is sought that alone makes the clusters
ROUNDING = 1e-10  # in units of a column's spread; what is smaller counts as nothing
_BLOCK_VALUES = 2**22

# Shares are the means of columns of 0 and 1.
Kind = Literal["number", "count", "share", "date", "time"]


@dataclass(frozen=True, eq=False)
class Columns:
    """Names, and numbers (rows, columns) in the data's units; `meanings` by places."""

    names: Sequence[str]
    values: np.ndarray
    meanings: Mapping[int, Meaning] = field(default_factory=dict)


def numeric(
    x: np.ndarray, names: Sequence[str] | None, meanings: Mapping[int, Meaning] | None = None
) -> Columns | None:
    """The columns of vectors (n, d), by number where they have no names; None for images."""
    if x.ndim != 2:
        return None
    names = [f"column {j}" for j in range(x.shape[1])] if names is None else names
    return Columns(names, x, meanings or {})


@dataclass(frozen=True)
class Difference:
    """A column, and how the rows of a cluster differ in it from all other rows."""

    column: str
    effect: float  # Cohen's d: the difference of the means in pooled standard deviations
    mean: float  # of the cluster
    others: float  # the mean of all other rows
    spread: float  # the cluster's standard deviation as a multiple of the others'
    words: str
    kind: Kind = "number"

    def shown(self, mean: float) -> str:
        """A mean of the column as people write it: a share in percent, a date as a day."""
        if self.kind == "date" or self.kind == "time":
            return MOMENTS[self.kind](mean)
        return f"{mean:.0%}" if self.kind == "share" else f"{mean:,.5g}"


def day(days: float) -> str:
    """2024-03-01, for days since 1970."""
    return str(np.datetime64(int(np.clip(np.floor(days), *DAYS)), "D"))


def minute(hours: float) -> str:
    """18:30, for hours since midnight, also if they are of the day before or after."""
    return clock(round(60 * hours) / 60).isoformat("minutes")


MOMENTS: dict[str, Callable[[float], str]] = {"date": day, "time": minute}


@dataclass(frozen=True, eq=False)
class Compared:
    """All columns of all clusters."""

    differences: list[tuple[Difference, ...]]  # of each cluster, those worth a word
    explained: np.ndarray  # (columns,): the share of the variance that lies between clusters


def compare(columns: Columns, labels: np.ndarray, n_clusters: int) -> Compared:
    """Hold every cluster against all other rows, column by column."""
    parts = [_compare_block(block, labels, n_clusters) for block in _blocks(columns.values)]
    effect, spread, mean, others, kinds, explained = (
        np.concatenate([part[i] for part in parts], axis=-1) for i in range(6)
    )
    named: list[Kind] = [columns.meanings.get(j, KINDS[kind]) for j, kind in enumerate(kinds)]
    shares, found = np.array([kind == "share" for kind in named]), []
    for k in range(n_clusters):
        level = np.abs(effect[k]) >= WORTH
        ratio = np.maximum(spread[k], 1 / np.maximum(spread[k], np.finfo(float).tiny))
        ratio = np.where(shares, 1.0, ratio)  # how a share spreads follows from it
        width = ~level & (ratio >= 1 / NARROW)
        # Columns of another level come first, then those of another spread.
        order = np.lexsort((-ratio, -np.abs(effect[k]), ~level))
        own = [int(j) for j in order[:MOST_NAMED] if level[j] or width[j]]
        found.append(
            tuple(
                Difference(
                    columns.names[j],
                    float(effect[k, j]),
                    float(mean[k, j]),
                    float(others[k, j]),
                    float(spread[k, j]),
                    _words(columns.names[j], effect[k, j], spread[k, j], mean[k, j], named[j]),
                    named[j],
                )
                for j in own
            )
        )
    return Compared(found, explained)


def reproducing(
    columns: Columns, labels: np.ndarray, explained: np.ndarray
) -> list[tuple[str, float]]:
    """The columns that alone make the clusters, with their adjusted mutual information.

    A column alone is a decision tree of it with twice as many leaves as there are clusters, on
    evenly spaced rows. Of many columns those are tried that explain the most variance.
    """
    from sklearn.metrics import adjusted_mutual_info_score
    from sklearn.tree import DecisionTreeClassifier

    used = len(np.unique(labels))
    if columns.values.shape[1] < 2 or used < 2:
        return []
    rows = evenly_spaced(len(labels), MOST_ROWS)
    own, found = labels[rows], []
    for j in sorted(np.argsort(-explained, kind="stable")[:MOST_TRIED].tolist()):
        column = columns.values[rows, j : j + 1]
        tree = DecisionTreeClassifier(max_leaf_nodes=2 * used, random_state=0)
        # The tree's own precision is single.
        z = Scaling.fit(column).apply(column)
        agreement = float(adjusted_mutual_info_score(own, tree.fit(z, own).predict(z)))
        if agreement >= ALONE:
            found.append((columns.names[j], agreement))
    return sorted(found, key=lambda pair: -pair[1])


# --- numbers --------------------------------------------------------------------------------------

KINDS: tuple[Kind, ...] = ("number", "count", "share")


def _blocks(values: np.ndarray) -> Iterator[np.ndarray]:
    """Some columns at a time, which bounds the memory that they take in double precision."""
    step = max(1, _BLOCK_VALUES // max(1, len(values)))
    for start in range(0, values.shape[1], step):
        yield values[:, start : start + step]


def _compare_block(x: np.ndarray, labels: np.ndarray, n_clusters: int) -> tuple[np.ndarray, ...]:
    """Effects, spreads, means, the others' means: (clusters, columns); kinds and explained."""
    n, scaling = len(x), Scaling.fit(x)
    z = (x.astype(np.float64) - scaling.offset) / scaling.scale
    z -= z.mean(0)  # a huge offset leaves some rounding
    member = csr_array((np.ones(n), (labels, np.arange(n))), shape=(n_clusters, n))
    size = np.bincount(labels, minlength=n_clusters).astype(np.float64)[:, None]
    total = member @ z
    with np.errstate(divide="ignore", invalid="ignore"):
        mean, others = total / size, (total.sum(0) - total) / (n - size)
        within = member @ (z - mean[labels]) ** 2  # the sums of squares about the cluster's mean,
        without = np.zeros_like(within)  # and of all others about theirs
        for k in range(n_clusters):
            apart = np.where(size > 0, size * (mean - others[k]) ** 2, 0.0)
            without[k] = np.delete(within + apart, k, axis=0).sum(0)
        rounding = n * (ROUNDING * np.abs(z).max(0)) ** 2
        within, without = (np.where(s <= rounding, 0.0, s) for s in (within, without))
        effect = (mean - others) / np.sqrt((within + without) / max(n - 2, 1))
        spread = np.sqrt(within / size) / np.sqrt(without / (n - size))
        between = np.nansum(size * mean**2, 0)
        explained = between / np.maximum((z**2).sum(0), np.finfo(float).tiny)
    effect = np.where(np.isnan(effect), 0.0, effect)
    spread = np.where(np.isnan(spread), 1.0, spread)
    units = [
        np.where(np.abs(v) < ROUNDING * scaling.scale, 0.0, v)
        for v in (mean * scaling.scale + scaling.offset, others * scaling.scale + scaling.offset)
    ]
    whole = (x == np.floor(x)).all(0) & (x >= 0).all(0)
    kinds = np.where(((x == 0) | (x == 1)).all(0), 2, whole.astype(int))
    return effect, spread, *units, kinds, explained


# --- words ----------------------------------------------------------------------------------------


def _words(name: str, effect: float, spread: float, mean: float, kind: Kind) -> str:
    """'higher income', 'far fewer visits', 'never smoker', 'narrower range of age'."""
    if abs(effect) < WORTH:
        return f"{'narrower' if spread < 1 else 'wider'} range of {name}"
    up = effect > 0
    if kind == "share" and min(abs(mean), abs(1 - mean)) < ROUNDING:
        return f"{'always' if mean > 0.5 else 'never'} {name}"
    if kind == "share":
        comparison = "more often" if up else "less often"
    elif kind in ("date", "time"):
        comparison = "later" if up else "earlier"
    elif kind == "count" and _is_plural(name):
        comparison = "more" if up else "fewer"
    else:
        comparison = "higher" if up else "lower"
    much = "far " if comparison in ("more", "fewer") else "much "
    return f"{much if abs(effect) >= GREAT else ''}{comparison} {name}"


def _is_plural(name: str) -> bool:
    """Whether an English reader would count what the name says: visits, but not status."""
    word = name.lower()
    return word.endswith("s") and not word.endswith(("ss", "us", "is"))
