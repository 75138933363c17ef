"""The profile of every cluster, as a value: numbers, rows and words."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

from gedilearn.explanation.columns import MOMENTS, Difference


@dataclass(frozen=True)
class Row:
    """A row of the data, counted from 0, and what the model says of it."""

    row: int
    cluster: int
    probability: float  # of its cluster
    second: int | None  # the next likely cluster,
    second_probability: float  # and its probability
    log_density: float | None  # None if it was not learnt
    values: dict[str, float]  # of the columns that say most of its cluster
    trust: float | None = None  # of a row of the fit, where training began with clusters


@dataclass(frozen=True)
class Neighbour:
    """Another cluster, and how likely the rows of this one are taken for it on average."""

    cluster: int
    probability: float


@dataclass(frozen=True)
class Profile:
    """One cluster."""

    cluster: int
    size: int
    share: float  # of all rows
    probability: float  # the mean that its rows are of it
    words: str  # 'higher income, fewer visits'; of images nothing
    differences: tuple[Difference, ...]  # the columns that set it apart, the strongest first
    typical: tuple[Row, ...]  # highest log p(x) + log p(y|x): next to the mode of p(x|y)
    doubtful: tuple[Row, ...]  # lowest p(y|x)
    outliers: tuple[Row, ...]  # lowest log p(x); none if it was not learnt
    neighbours: tuple[Neighbour, ...]  # the clusters that it is confused with, the nearest first

    def __str__(self) -> str:
        rows = "row" if self.size == 1 else "rows"
        lines = [f"cluster {self.cluster}: {self.size} {rows} ({self.share:.1%})"]
        if not self.size:
            return lines[0]
        if self.words:
            lines.append(self.words)
        for d in self.differences:
            mean = d.shown(d.mean) if d.kind == "share" else f"mean {d.shown(d.mean)}"
            lines.append(f"  {d.column}: {mean}, others {d.shown(d.others)}; {_effect(d)}")
        lines.append(f"typical: {_numbers(self.typical)}")
        lines.append(f"least certain: {', '.join(map(_doubt, self.doubtful))}")
        if self.outliers:
            lines.append(f"unusual: {_numbers(self.outliers)}")
        if self.neighbours:
            near = (f"cluster {n.cluster} ({n.probability:.3f})" for n in self.neighbours)
            lines.append(f"taken for: {', '.join(near)}")
        return "\n  ".join(lines)


@dataclass(frozen=True)
class Histogram:
    """How many values lie between each two edges; those below the first are in the first bin."""

    edges: tuple[float, ...]
    counts: tuple[int, ...]
    below: int = 0


@dataclass(frozen=True)
class Alone:
    """A column that alone makes the clusters: the agreement of a small tree of it with them."""

    column: str
    ami: float


@dataclass(frozen=True)
class Explanation:
    """What a model says of data, cluster by cluster; `str` gives it in words."""

    n_samples: int
    columns: tuple[str, ...]  # by name; of images none
    clusters: tuple[Profile, ...]
    outliers: tuple[Row, ...]  # of all rows
    alone: tuple[Alone, ...]
    warnings: tuple[str, ...]
    probabilities: Histogram  # of each row's cluster
    log_densities: Histogram
    trusts: Histogram = Histogram((), ())
    dates: tuple[str, ...] = ()  # columns whose values are days since 1970,
    times: tuple[str, ...] = ()  # and those whose values are hours since midnight

    @property
    def rows(self) -> list[int]:
        """All rows that are named, each once, in their order."""
        named = {row.row for row in self.outliers}
        for profile in self.clusters:
            named |= {r.row for r in (*profile.typical, *profile.doubtful, *profile.outliers)}
        return sorted(named)

    def written(self, column: str) -> Callable[[float], str] | None:
        """How values of a column are written, if they are dates or times of day."""
        known = {"date": self.dates, "time": self.times}
        return next((MOMENTS[kind] for kind, names in known.items() if column in names), None)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @staticmethod
    def from_json(content: Any) -> Explanation:
        """What `to_json` gave; anything else is an error of pydantic's, or a ValueError."""
        from pydantic import TypeAdapter

        found = TypeAdapter(Explanation).validate_python(content)
        n, c = found.n_samples, len(found.clusters)
        clusters = [profile.cluster for profile in found.clusters]
        if clusters != list(range(c)) or sum(p.size for p in found.clusters) != n:
            raise ValueError("clusters out of order, or of other data")
        if any(not 0 <= row < n for row in found.rows):
            raise ValueError("rows that there are not")
        others = {n.cluster for p in found.clusters for n in p.neighbours}
        if any(not 0 <= k < c for k in others):
            raise ValueError("clusters that there are not")
        for each in (found.probabilities, found.log_densities, found.trusts):
            if each.counts and len(each.edges) != len(each.counts) + 1:
                raise ValueError("a histogram without edges")
        return found

    def __str__(self) -> str:
        head = f"{self.n_samples} rows in {len(self.clusters)} clusters"
        return "\n\n".join([head, *map(str, self.clusters), *self.warnings])


def _effect(difference: Difference) -> str:
    if math.isinf(difference.effect):
        return "without any overlap"
    effect = f"effect {difference.effect:+.2f}"
    if difference.kind == "share":  # which says how it spreads
        return effect
    return f"{effect}, spread {difference.spread:.2g} times the others'"


def _numbers(rows: tuple[Row, ...]) -> str:
    return ", ".join(str(row.row) for row in rows)


def _doubt(row: Row) -> str:
    if row.second is None or row.second_probability < 0.005:
        return str(row.row)
    return f"{row.row} ({row.probability:.2f}, or {row.second}: {row.second_probability:.2f})"
