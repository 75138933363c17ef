"""The number of clusters by itself: starts of every number, judged without any network.

Starts of 2, 3, ... clusters share the neighbours, modes and trees of the points. The number is the
largest whose start's clusters are apart and stable; if there is none, the largest that parts of the
data agree on nearly in full. Chance has as many tries as there are numbers, so more is asked for
than of one number, here and of the network that is then fitted. Beside a number that is apart
beyond that, one counts too that is apart as far as a single number must be, if parts agree on it.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from gedilearn.data.arrays import listing, pair_counts
from gedilearn.graph.neighbours import distance_points, own_stream
from gedilearn.progress import SILENT, Progress
from gedilearn.starts.choose import MOST_POINTS, Start, best_start, parts_of
from gedilearn.verdict.evidence import Evidence, evidence_of

# Stability from which on a larger number is named, though nothing else speaks for it.
NEARLY = 0.97


@dataclass(frozen=True)
class Number:
    """What speaks for a number of clusters."""

    n_clusters: int
    stability: float  # agreement of the start with those of parts of the data
    apart: int  # groups of clusters between which the density falls
    cut: float  # the share of a cluster's links that leave it, on average
    method: str  # what found the start
    reason: str | None  # 'apart', 'stable', or None if nothing speaks for the number
    # (clusters of the number before, clusters): how many points are in both; none for the first.
    splits: tuple[tuple[int, ...], ...]

    @classmethod
    def of(cls, evidence: Evidence, tries: int, start: Start, before: Start | None) -> Number:
        stable = "stable" if evidence.are_stable(tries) else None
        splits = [] if before is None else pair_counts(before.labels, start.labels).tolist()
        return cls(
            n_clusters=len(evidence.shares),
            stability=evidence.stability,
            apart=evidence.groups(),
            cut=float(np.mean([cut for cut in evidence.cut if cut is not None])),
            method=evidence.method,
            reason="apart" if evidence.are_apart(tries) else stable,
            splits=tuple(map(tuple, splits)),
        )


@dataclass(frozen=True)
class NumberChoice:
    """The chosen number, and the evidence for each that was tried: 2, 3, ... clusters."""

    n_clusters: int
    numbers: tuple[Number, ...]

    def __post_init__(self) -> None:
        for k, number in enumerate(self.numbers, start=2):
            widths = {len(row) for row in number.splits} if k > 2 else {k}
            if (number.n_clusters, len(number.splits), widths) != (k, k - 1 if k > 2 else 0, {k}):
                raise ValueError(f"not the evidence for {k} clusters")
        if not 2 <= self.n_clusters < len(self.numbers) + 2:
            raise ValueError(f"{self.n_clusters} clusters were not tried")

    @property
    def stands_out(self) -> bool:
        """Whether anything speaks for the number; if not, its grade is 'doubtful' at most."""
        return self.numbers[self.n_clusters - 2].reason is not None

    @property
    def words(self) -> str:
        tried, k = f"of 2 to {len(self.numbers) + 1} clusters", self.n_clusters
        if not self.stands_out:
            return f"{tried} no number stands out; the steadiest is {k}"
        why = "is apart" if self.numbers[k - 2].apart == k else "parts of the data agree on"
        words = f"{tried} {k} is the largest number that {why}"
        if others := [n.n_clusters for n in self.numbers if n.reason and n.n_clusters != k]:
            words += f"; {listing(others)} would do as well"
        unsure = (n for n in self.numbers[k - 1 :] if n.reason is None and n.stability >= NEARLY)
        if nearly := max(unsure, key=lambda number: number.stability, default=None):
            agreed = f"parts of the data agree on it to {nearly.stability:.2f}"
            words += f"; {nearly.n_clusters} may do too: {agreed}"
        return words

    def to_json(self) -> dict[str, Any]:
        return asdict(self) | {"words": self.words}


def choose_number(
    data: np.ndarray, most: int, seed: int, progress: Progress = SILENT
) -> NumberChoice:
    """Of 2 to `most` clusters of data (n, d), in the network's units; of many points, some."""
    if len(data) > MOST_POINTS:
        data = data[np.sort(own_stream(seed).choice(len(data), MOST_POINTS, replace=False))]
    points, tries = distance_points(data, seed), most - 1
    parts, numbers, starts = parts_of(points, most, seed), list[Number](), list[Start]()
    progress.phase("numbers of clusters")
    for k in range(2, most + 1):
        progress.step(k - 2, tries)
        starts.append(best_start(parts, k, seed))
        evidence = evidence_of(points, np.arange(len(points)), starts[-1].labels, starts[-1], k)
        numbers.append(Number.of(evidence, tries, starts[-1], starts[-2] if k > 2 else None))
    return NumberChoice(best_number(numbers), tuple(numbers))


def best_number(numbers: list[Number]) -> int:
    """The largest that is apart, else the largest that is stable, else the steadiest."""
    found = [number for number in numbers if number.reason]
    if any(number.reason == "apart" for number in found):
        return max(number.n_clusters for number in found if number.apart == number.n_clusters)
    if found:
        return found[-1].n_clusters
    return max((round(number.stability, 2), number.n_clusters) for number in numbers)[1]
