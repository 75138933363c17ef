"""Explain the clusters of data from what a model says of each row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from gedilearn.data.arrays import listing
from gedilearn.data.tables import Meaning
from gedilearn.explanation.columns import (
    Columns,
    Compared,
    Difference,
    compare,
    numeric,
    reproducing,
)
from gedilearn.explanation.profiles import (
    Alone,
    Explanation,
    Histogram,
    Neighbour,
    Profile,
    Row,
)

MOST_ROWS = 5  # named of each kind, for each cluster
MOST_OUTLIERS = 10  # of all rows
MOST_NEIGHBOURS = 3
LEAST_CONFUSED = 0.001  # the mean probability from which another cluster is a neighbour
BINS = 30
UNIT = np.linspace(0, 1, BINS + 1)  # edges for probabilities
UNLEARNT = (
    "The density was not learnt (weights.gen=0, or a method without GEN): no row is called "
    "unusual, and typical rows are those with the highest probability of their cluster."
)
FAR = 6.0  # log p(x) this many interquartile ranges below the median is in the first bin


def explain(
    x: np.ndarray,
    names: Sequence[str] | None,
    labels: np.ndarray,
    probabilities: np.ndarray,
    log_density: np.ndarray | None,
    trust: np.ndarray | None = None,
    meanings: Mapping[int, Meaning] | None = None,
) -> Explanation:
    """Profiles of the clusters of x: (n, d) in the data's units, or images (n, c, h, w).

    labels: (n,); probabilities: p(y|x), (n, clusters). `names` are the columns'.
    log_density: (n,); None if it was not learnt: then no rows are unusual
    trust: (n,), how far to trust the cluster of each row, where that is known
    meanings: places of the columns that are shares of rows, dates or times of day
    """
    c = probabilities.shape[1]
    columns, meanings = numeric(x, names, meanings), meanings or {}
    compared = Compared([()] * c, np.zeros(0))
    alone: list[Alone] = []
    if columns is not None and c > 1:
        compared = compare(columns, labels, c)
        found = reproducing(columns, labels, compared.explained)
        alone = [Alone(name, ami) for name, ami in found]
    told = _Told(columns, labels, probabilities, log_density, trust)
    clusters = tuple(told.profile(k, compared.differences[k]) for k in range(c))
    return Explanation(
        n_samples=len(labels),
        columns=tuple(columns.names) if columns else (),
        dates=_named(columns, meanings, "date"),
        times=_named(columns, meanings, "time"),
        clusters=clusters,
        outliers=told.unusual(np.arange(len(labels)), MOST_OUTLIERS, ()),
        alone=tuple(alone),
        warnings=tuple(_warnings(alone, clusters, has_density=log_density is not None)),
        probabilities=_histogram(told.own, UNIT),
        log_densities=_histogram(log_density, None),
        trusts=_histogram(trust, UNIT),
    )


def _named(
    columns: Columns | None, meanings: Mapping[int, Meaning], kind: Meaning
) -> tuple[str, ...]:
    if columns is None:
        return ()
    return tuple(columns.names[j] for j in sorted(meanings) if meanings[j] == kind)


class _Told:
    """What is known of every row."""

    def __init__(
        self,
        columns: Columns | None,
        labels: np.ndarray,
        probabilities: np.ndarray,
        log_density: np.ndarray | None,
        trust: np.ndarray | None,
    ) -> None:
        self.columns, self.labels, self.log_density = columns, labels, log_density
        self.probabilities, self.trust = probabilities, trust
        self.places = {name: j for j, name in enumerate(columns.names if columns else ())}
        n, c = probabilities.shape
        self.own = probabilities[np.arange(n), labels]
        others = probabilities.copy()
        others[np.arange(n), labels] = -1
        self.second = others.argmax(1) if c > 1 else None
        with np.errstate(divide="ignore"):
            sure = np.log(self.own.astype(np.float64))
        self.typicality = sure if log_density is None else log_density + sure

    def profile(self, k: int, differences: tuple[Difference, ...]) -> Profile:
        """All that is said of cluster k."""
        inside = np.flatnonzero(self.labels == k)
        words = ", ".join(d.words for d in differences)
        if not words and self.columns is not None and len(self.probabilities[0]) > 1:
            words = "no single column sets it apart from the rest"
        shown = tuple(d.column for d in differences)
        mean = self.probabilities[inside].mean(0, dtype=np.float64) if len(inside) else None
        return Profile(
            cluster=k,
            size=len(inside),
            share=len(inside) / len(self.labels),
            probability=float("nan") if mean is None else float(mean[k]),
            words=words if len(inside) else "",
            differences=differences if len(inside) else (),
            typical=self._first(inside, -self.typicality, shown),
            doubtful=self._first(inside, self.own, shown),
            outliers=self.unusual(inside, MOST_ROWS, shown),
            neighbours=() if mean is None else _neighbours(k, mean),
        )

    def unusual(self, among: np.ndarray, most: int, shown: Sequence[str]) -> tuple[Row, ...]:
        """The rows of lowest log p(x); of equal ones, the first."""
        return () if self.log_density is None else self._first(among, self.log_density, shown, most)

    def _first(
        self, inside: np.ndarray, order: np.ndarray, shown: Sequence[str], most: int = MOST_ROWS
    ) -> tuple[Row, ...]:
        """The rows among `inside` with the lowest values; of equal ones, the first."""
        return self.rows(inside[np.argsort(order[inside], kind="stable")[:most]], shown)

    def rows(self, index: np.ndarray, shown: Sequence[str]) -> tuple[Row, ...]:
        return tuple(self._row(int(i), shown) for i in index)

    def _row(self, i: int, shown: Sequence[str]) -> Row:
        second = None if self.second is None else int(self.second[i])
        return Row(
            row=i,
            cluster=int(self.labels[i]),
            probability=float(self.own[i]),
            second=second,
            second_probability=0.0 if second is None else float(self.probabilities[i, second]),
            log_density=None if self.log_density is None else float(self.log_density[i]),
            values=self._values(i, shown),
            trust=None if self.trust is None else float(self.trust[i]),
        )

    def _values(self, i: int, shown: Sequence[str]) -> dict[str, float]:
        """Of the columns that set its cluster apart, and then the first ones."""
        if self.columns is None:
            return {}
        names = self.columns.names
        wanted = [*(self.places[name] for name in shown), *range(MOST_ROWS)]
        wanted = [j for j in dict.fromkeys(wanted) if j < len(names)][:MOST_ROWS]
        return {names[j]: float(self.columns.values[i, j]) for j in wanted}


def _neighbours(k: int, mean: np.ndarray) -> tuple[Neighbour, ...]:
    """The clusters that rows of cluster k are taken for; mean: (clusters,) of p(y|x)."""
    order = [int(j) for j in np.argsort(-mean, kind="stable") if j != k]
    near = [j for j in order if mean[j] >= LEAST_CONFUSED][:MOST_NEIGHBOURS]
    return tuple(Neighbour(j, float(mean[j])) for j in near)


def _warnings(alone: list[Alone], clusters: tuple[Profile, ...], *, has_density: bool) -> list[str]:
    said = [] if has_density else [UNLEARNT]
    if len(alone) == 1:
        column, ami = alone[0].column, alone[0].ami
        said.append(
            f"The column {column} alone reproduces the clusters (AMI {ami:.2f}): a few thresholds "
            "on it would do. Is it a number given to rows, a date, or an answer that was known?"
        )
    elif alone:
        said.append(
            f"Each of {len(alone)} columns alone reproduces the clusters "
            f"({listing([each.column for each in alone])}): a few thresholds on any of them would "
            "do."
        )
    named = {each.column for each in alone}
    for profile in clusters:
        own = [d.column for d in profile.differences if np.isinf(d.effect)]
        said += [
            f"The column {column} alone makes cluster {profile.cluster}: its rows have one value, "
            "all others another."
            for column in own
            if column not in named
        ]
    if empty := [profile.cluster for profile in clusters if not profile.size]:
        which = "Cluster {} has" if len(empty) == 1 else "Clusters {} have"
        said.append(f"{which.format(listing(empty))} no rows.")
    return said


def _histogram(values: np.ndarray | None, edges: np.ndarray | None) -> Histogram:
    """Of finite values; without edges, between the largest and what is not far below the rest."""
    values = np.zeros(0) if values is None else values[np.isfinite(values)].astype(np.float64)
    if not len(values):
        return Histogram((), ())
    if edges is None:
        q1, median, q3 = np.quantile(values, (0.25, 0.5, 0.75))
        low, high = max(values.min(), median - FAR * (q3 - q1)), values.max()
        if not high > low:
            low, high = low - 0.5, low + 0.5
        edges = np.linspace(low, high, BINS + 1)
    counts = np.histogram(values.clip(edges[0], edges[-1]), edges)[0]
    below = int((values < edges[0]).sum())
    return Histogram(tuple(edges.tolist()), tuple(counts.tolist()), below)
