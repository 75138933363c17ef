"""The profile of a cluster: its columns, its typical, doubtful and unusual rows, its neighbours.

`explain` makes an `Explanation` of what a model says of each row; a run keeps it in profile.json,
beside a preview of the rows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch

from gedilearn.data.arrays import Scaling, evenly_spaced, listing
from gedilearn.errors import InputError
from gedilearn.explanation.compare import FORMATS, Difference, Kind, SufficientColumn, compare
from gedilearn.io import RESTORE, read_json, reading
from gedilearn.training.result import Result
from gedilearn.training.run import RunDirectory, read_config

Names = Sequence[str] | None  # of columns; None: their numbers
Meanings = Mapping[int, Kind] | None  # of columns by place, where their values do not show it

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
        if self.words:
            lines.append(self.words)
        for d in self.differences:
            mean = d.shown(d.mean) if d.kind == "share" else f"mean {d.shown(d.mean)}"
            lines.append(f"  {d.column}: {mean}, others {d.shown(d.others)}; {_effect(d)}")
        parts = {
            "typical": (str(row.row) for row in self.typical),
            "least certain": map(_doubt, self.doubtful),
            "unusual": (str(row.row) for row in self.outliers),
            "taken for": (f"cluster {n.cluster} ({n.probability:.3f})" for n in self.neighbours),
        }
        said = ((name, ", ".join(words)) for name, words in parts.items())
        return "\n  ".join([*lines, *(f"{name}: {words}" for name, words in said if words)])


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
        return next((FORMATS[kind] for kind, names in known.items() if column in names), None)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @staticmethod
    def from_json(content: Any) -> Explanation:
        """The value that `to_json` gave; anything else is a ValueError."""
        from pydantic import TypeAdapter

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


def _effect(difference: Difference) -> str:
    if math.isinf(difference.effect):
        return "without any overlap"
    effect = f"effect {difference.effect:+.2f}"
    if difference.kind == "share":  # its spread follows from its mean
        return effect
    return f"{effect}, spread {difference.spread:.2g} times the others'"


def _doubt(row: Row) -> str:
    if row.second is None or row.second_probability < 0.005:
        return str(row.row)
    return f"{row.row} ({row.probability:.2f}, or {row.second}: {row.second_probability:.2f})"


# --- from what a model says of each row -----------------------------------------------------------


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
        differences, alone = compare(x, columns, labels, c, meanings)
    facts = _facts(labels, probabilities, log_density, trust)
    rows = _Rows(x, columns, probabilities, facts)
    clusters = tuple(rows.profile(k, own) for k, own in enumerate(differences))
    return Explanation(
        n_samples=len(labels),
        columns=columns,
        dates=tuple(columns[j] for j in sorted(meanings) if meanings[j] == "date"),
        times=tuple(columns[j] for j in sorted(meanings) if meanings[j] == "time"),
        clusters=clusters,
        outliers=rows.unusual(np.arange(len(labels)), (), MOST_OUTLIERS),
        alone=tuple(alone),
        warnings=(*([UNLEARNT] if log_density is None else []), *_warnings(alone, clusters)),
        probabilities=_histogram(facts["probability"], UNIT),
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


def _facts(
    labels: np.ndarray, p: np.ndarray, log_density: np.ndarray | None, trust: np.ndarray | None
) -> dict[str, Any]:
    """The fields of all rows but their values, each (n,) or None."""
    rows, others = np.arange(len(p)), p.copy()
    others[rows, labels] = -1
    second = others.argmax(1)
    seconds = {"second": second, "second_probability": p[rows, second]}
    if p.shape[1] == 1:
        seconds = {"second": None, "second_probability": np.zeros(len(p))}
    own = {"row": rows, "cluster": labels, "probability": p[rows, labels]}
    return own | seconds | {"log_density": log_density, "trust": trust}


@dataclass(frozen=True, eq=False)
class _Rows:
    """The rows of the data, their p(y|x), and the facts about each that a `Row` holds."""

    x: np.ndarray
    columns: tuple[str, ...]
    p: np.ndarray
    facts: dict[str, Any]

    def profile(self, k: int, differences: tuple[Difference, ...]) -> Profile:
        inside = np.flatnonzero(self.facts["cluster"] == k)
        sure, density = self.facts["probability"], self.facts["log_density"]
        with np.errstate(divide="ignore", invalid="ignore"):
            typicality = np.log(sure.astype(np.float64)) + (0 if density is None else density)
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
            doubtful=self.lowest(sure, inside, shown),
            outliers=self.unusual(inside, shown),
            neighbours=_neighbours(k, mean),
        )

    def unusual(
        self, among: np.ndarray, shown: Sequence[str], most: int = MOST_ROWS
    ) -> tuple[Row, ...]:
        density = self.facts["log_density"]
        return () if density is None else self.lowest(density, among, shown, most)

    def lowest(
        self, values: np.ndarray, among: np.ndarray, shown: Sequence[str], most: int = MOST_ROWS
    ) -> tuple[Row, ...]:
        """The rows among some with the lowest values; of equal ones, the first."""
        order = among[np.argsort(values[among], kind="stable")[:most]]
        return tuple(self._row(i, shown) for i in order)

    def _row(self, i: int, shown: Sequence[str]) -> Row:
        # The columns that set its cluster apart, and then the first ones.
        names = list(dict.fromkeys([*shown, *self.columns[:MOST_ROWS]]))[:MOST_ROWS]
        values = {name: float(self.x[i, self.columns.index(name)]) for name in names}
        facts: Any = {name: None if v is None else v[i].item() for name, v in self.facts.items()}
        return Row(**facts, values=values)


def _neighbours(k: int, mean: np.ndarray) -> tuple[Neighbour, ...]:
    """The clusters that rows of cluster k are taken for; mean: (clusters,) of p(y|x)."""
    order = [int(j) for j in np.argsort(-mean, kind="stable") if j != k]
    near = [j for j in order if mean[j] >= LEAST_CONFUSED][:MOST_NEIGHBOURS]
    return tuple(Neighbour(j, float(mean[j])) for j in near)


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
