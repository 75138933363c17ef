"""The number of clusters, chosen without labels and without a network.

The initial clusterings of 2, 3, ... clusters share the neighbours, modes and trees of the points.
The choice is the largest number whose clusters are separated by density dips and stable. If there
is none, it is the largest number that subsamples reproduce nearly in full. Of many numbers one may
look good by chance, so each has to meet a stricter threshold than a single number, also in the
grade of the network that is fitted afterwards. If a number meets it, a larger one that meets only
the threshold of a single number is chosen too, provided that subsamples reproduce it.

Embeddings may have hundreds of clusters, which overlap, and density dips do not show in so many
columns. Of them about thirty numbers are compared by k-means on two halves of the rows.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal, NamedTuple

import numpy as np

from gedilearn.data.arrays import evenly_spaced, listing, pair_counts
from gedilearn.graph.neighbours import distance_features
from gedilearn.graph.walks import Nodes, find_nodes
from gedilearn.progress import SILENT, Progress
from gedilearn.ranks import fitting
from gedilearn.starts.choose import Start, adjusted_mutual_info, best_start, subsamples_of
from gedilearn.verdict.evidence import Evidence, evidence_of

Support = Literal["separated", "stable", "bound gap"] | None  # None: not supported
# A larger number with this stability is named, although it is not supported.
NEARLY = 0.97
# Halves: the ratio of the next number to the one before, and numbers between the best one and its
# neighbours; rows; the stability that supports a number.
RATIO, BETWEEN, MOST_ROWS, IN_HALVES = 1.25, 6, 10_000, 0.95
TRIES = 4  # of k-means, for the best number and those near it
ABOUT = 0.97  # of the best: about as good
HALVES = "k-means of two halves"

WHY = {
    "separated": "whose clusters are separated by density dips",
    "stable": "that subsamples reproduce",
    "bound gap": "that is nearly certified",
}


@dataclass(frozen=True)
class Number:
    """The evidence for a number of clusters; None for what was not measured.

    Vectors have one initial clustering for each number, images two fits.
    """

    n_clusters: int
    stability: float  # agreement of the clustering with those of subsamples, or of the two fits
    reason: Support
    groups: int | None = None  # of clusters that density dips separate
    cut: float | None = None  # the share of a cluster's links that leave it, on average
    method: str | None = None  # that found the clustering
    # (clusters of the number before, clusters): how many points are in both; none for the first.
    splits: tuple[tuple[int, ...], ...] = ()
    bound_gap: float | None = None  # of the better fit, in nats
    unused: int | None = None  # clusters without points in the better fit

    @classmethod
    def of(cls, evidence: Evidence, tried: int, start: Start, before: Start | None) -> Number:
        stable: Support = "stable" if evidence.are_stable(tried) else None
        splits = [] if before is None else pair_counts(before.labels, start.labels).tolist()
        return cls(
            n_clusters=len(evidence.shares),
            stability=evidence.stability,
            reason="separated" if evidence.are_separated(tried) else stable,
            groups=evidence.groups(),
            cut=float(np.mean([cut for cut in evidence.cut if cut is not None])),
            method=evidence.method,
            splits=tuple(map(tuple, splits)),
        )

    @property
    def pairs(self) -> float:
        """Stability, times the share of pairs of rows that so many clusters of one size part.

        Halves of any data agree on the first few cuts.
        """
        return self.stability * (1 - 1 / self.n_clusters)

    @property
    def quality(self) -> tuple[float, int]:
        """What ranks numbers of which none is supported; the highest is the best."""
        if self.bound_gap is None:
            return round(self.stability, 2), self.n_clusters
        # An undecided prediction has the bound gap log k, and the first part is then 1 for any k.
        relative, unused = self.bound_gap / math.log(self.n_clusters), self.unused or 0
        return self.stability - relative - unused / self.n_clusters, 0


@dataclass(frozen=True)
class NumberChoice:
    """The chosen number of clusters, and the evidence for each number that was compared.

    n_clusters: the chosen number.
    numbers: the evidence for 2, 3, ... clusters; of embeddings, for some of them.
    model: the fitted model with this number, from `choose_n_clusters`; else None.
    """

    n_clusters: int
    numbers: tuple[Number, ...]
    model: Any = field(default=None, repr=False, compare=False)

    def __post_init__(self) -> None:
        tried = [number.n_clusters for number in self.numbers]
        in_order = sorted(set(tried)) if self.of_halves else list(range(2, len(tried) + 2))
        for k, number in zip(in_order, self.numbers, strict=False):
            expected = 0 if k == 2 or number.groups is None else k - 1
            rows = [len(row) for row in number.splits]
            if number.n_clusters != k or rows != [k] * expected:
                raise ValueError(f"not the evidence for {k} clusters")
        if self.n_clusters not in tried:
            raise ValueError(f"{self.n_clusters} clusters were not compared")

    @property
    def tried(self) -> int:
        """How many numbers were compared."""
        return len(self.numbers)

    @property
    def of_halves(self) -> bool:
        """Whether two halves of the rows were compared."""
        return any(number.method == HALVES for number in self.numbers)

    @property
    def stands_out(self) -> bool:
        """Whether the number is supported. If not, the grade is 'doubtful' at most."""
        return self._chosen.reason is not None

    @property
    def alternative(self) -> int | None:
        """Another number that is worth a fit: nearly as stable and larger, else also supported."""
        if self.of_halves:
            return None
        unsure = (n for n in self.numbers[self.n_clusters - 1 :] if n.reason is None)
        nearly = [n for n in unsure if n.stability >= NEARLY and n.bound_gap is None]
        if nearly:
            return max(nearly, key=lambda number: number.stability).n_clusters
        return max(self._others, default=None)

    @property
    def words(self) -> str:
        """The choice in a sentence, without a full stop."""
        compared, k = f"2 to {self.numbers[-1].n_clusters} clusters", self.n_clusters
        if self.of_halves:
            near = [n.n_clusters for n in self.numbers if n.pairs > ABOUT * self._chosen.pairs]
            words = "" if self.stands_out else "no number stands out; "
            words += f"of {compared}, two halves of the rows reproduce {k} best "
            words += f"(stability {self._chosen.stability:.2f})"
            return words + (f", and {min(near)} to {max(near)} about as well" if near[1:] else "")
        if self._chosen.reason is None:
            best = "most stable" if self._chosen.bound_gap is None else "best fits"
            words = f"none of {compared} is supported; {best}: {k}"
        else:
            words = f"of {compared}, {k} is the largest number {WHY[self._why]}"
        if self._others:
            words += f"; {listing(self._others)} {'are' if len(self._others) > 1 else 'is'} "
            words += "also supported"
        if self.alternative is not None and self.alternative not in self._others:
            stability = self.numbers[self.alternative - 2].stability
            words += f"; {self.alternative} is nearly as stable ({stability:.2f})"
        return words

    @property
    def _chosen(self) -> Number:
        return next(n for n in self.numbers if n.n_clusters == self.n_clusters)

    @property
    def _why(self) -> str:
        separated = self._chosen.groups == self.n_clusters
        return "separated" if separated else str(self._chosen.reason)

    @property
    def _others(self) -> list[int]:
        return [n.n_clusters for n in self.numbers if n.reason and n is not self._chosen]

    def to_json(self) -> dict[str, Any]:
        """All but the model, in plain values."""
        content = asdict(replace(self, model=None)) | {"tried": self.tried}
        del content["model"]
        return content | {"stands_out": self.stands_out, "words": self.words}


def of_vectors(choice: NumberChoice) -> NumberChoice:
    """The same choice, or an error if it lacks evidence that fits of vectors have."""
    if not choice.of_halves and any(
        None in (number.groups, number.cut, number.method) for number in choice.numbers
    ):
        raise ValueError("the evidence for a number of clusters is missing")
    return choice


class Chosen(NamedTuple):
    """A choice, and what training uses again. A resumed run has the choice alone."""

    choice: NumberChoice
    start: Start | None = None  # the initial clustering of all points
    nodes: Nodes | None = None  # of the neighbour graph


def choose_number(
    data: np.ndarray,
    most: int,
    n_neighbors: int,
    seed: int,
    progress: Progress = SILENT,
) -> Chosen:
    """The choice between 2 to `most` clusters of data (n, d), in the network's units.

    Of many points, a sample is compared (`starts.choose`); the others have the cluster of the
    nearest point of the sample.
    """
    progress.phase("finding neighbours")
    nodes = find_nodes(distance_features(data, seed), most, n_neighbors, seed)
    progress.phase("choosing the number of clusters")
    subsamples, nearest = subsamples_of(nodes.points, most, seed, nodes.neighbours)
    points, numbers, starts = subsamples[0].points, list[Number](), list[Start]()
    for k in range(2, most + 1):
        progress.step(k - 2, most - 1)
        starts.append(best_start(subsamples, k, seed))
        evidence = evidence_of(points, np.arange(len(points)), starts[-1].labels, starts[-1], k)
        numbers.append(Number.of(evidence, most - 1, starts[-1], starts[-2] if k > 2 else None))
    choice = best_of(numbers)
    start = starts[choice.n_clusters - 2]
    for index in (nearest, nodes.nearest):
        start = start if index is None else start.for_points(index)
    return Chosen(choice, start, nodes)


def compare_halves(
    data: np.ndarray, most: int, seed: int, progress: Progress = SILENT
) -> NumberChoice:
    """The choice between some of 2 to `most` clusters of embeddings (n, d), scaled.

    The stability of a number is the adjusted mutual information of the clusters of one half of the
    rows with those that the other half gives them, the mean over both halves.
    """
    progress.phase("choosing the number of clusters")
    rows = data[evenly_spaced(len(data), MOST_ROWS)]
    order = np.random.default_rng(seed).permutation(len(rows))
    halves = rows[order[::2]], rows[order[1::2]]
    most, tried = min(most, len(halves[1])), [2]
    while tried[-1] < most:
        tried.append(min(max(tried[-1] + 1, round(RATIO * tried[-1])), most))
    numbers, total = dict[int, Number](), len(tried) + BETWEEN

    def best_of_halves(among: list[int], tries: int) -> int:
        for k in among:
            progress.step(len(numbers), total)
            stability = _of_halves(halves, k, tries, seed)
            support: Support = "stable" if stability >= IN_HALVES else None
            numbers[k] = Number(k, stability, support, method=HALVES)
        return max(among, key=lambda k: numbers[k].pairs)

    best = best_of_halves(tried, 1)
    low = max((k for k in tried if k < best), default=best)
    high = min((k for k in tried if k > best), default=best)
    near = {best, *np.linspace(low, high, BETWEEN + 2).round().astype(int).tolist()}
    best = best_of_halves(sorted(near), TRIES)
    return NumberChoice(best, tuple(numbers[k] for k in sorted(numbers)))


def _of_halves(halves: tuple[np.ndarray, np.ndarray], k: int, tries: int, seed: int) -> float:
    """How well two halves of the rows reproduce each other's k clusters."""
    from sklearn.cluster import KMeans

    with fitting():
        found = [KMeans(k, n_init=tries, random_state=seed).fit(half) for half in halves]
    each = zip(found, reversed(found), halves, strict=True)
    return float(np.mean([adjusted_mutual_info(a.labels_, b.predict(x)) for a, b, x in each]))


def best_of(numbers: list[Number]) -> NumberChoice:
    """The choice between 2, 3, ... clusters.

    The largest number that is separated, else the largest that is supported, else the best one.
    """
    supported = [number for number in numbers if number.reason]
    if any(number.reason == "separated" for number in supported):
        supported = [number for number in supported if number.groups == number.n_clusters]
    best = supported[-1] if supported else max(numbers, key=lambda number: number.quality)
    return NumberChoice(best.n_clusters, tuple(numbers))
