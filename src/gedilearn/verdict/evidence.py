"""The evidence for a network's clusters, and the grade: one rule, without labels (docs/trust.md).

The bound says that predictions are confident, the same under long walks and in the prior's
proportions. It does not say that there is anything to find, nor that it would be found again. So
two more things are measured of the network's own labels: whether the density falls between its
clusters, and whether the start's method finds them again in parts of the data.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np

from gedilearn.data.arrays import evenly_spaced, listing
from gedilearn.starts.choose import Start, recurrence, stability
from gedilearn.verdict.dips import separation

Grade = Literal["certified", "supported", "doubtful", "no structure found"]

# Nats by which the density falls between clusters that are apart, and that hint at some structure.
# Chosen on data without clusters (docs/trust.md).
APART, HINT = 1.0, 0.5
# Stability that clusters need that are apart, that hints at structure, and that supports clusters
# that touch, if walks stay in them.
STABLE, STEADY, SAME = 0.85, 0.9, 0.98
# Where several numbers are tried, more is asked for: in so many nats, dips in data without clusters
# become e times rarer.
RARER = 0.25
# The share of its start's labels that a trained network keeps, at least.
LEAST_KEPT = 0.9
# How fast belief in stable clusters falls where walks leave them: of a row, which may be right in
# a wrong clustering, and of the whole.
ROW, WHOLE = 0.1, 0.5
# Points whose labels are compared with those of parts of the data.
MOST_COMPARED = 10_000
UNMEASURED = "whether there is structure, and whether parts of the data agree, was not measured"


@dataclass(frozen=True)
class Evidence:
    """What speaks for the clusters of a network, beside the bound.

    method: what found the clusters that training began with.
    stability: agreement of the labels with what that method finds in parts of the data (adjusted
        mutual information); 1 is complete.
    start_stability: the same of the clusters that training began with.
    agreement: the share of points that the network leaves in the cluster of its start, or, of
        labels that are judged, in their own.
    shares, kept, cut: of each cluster: its share of the points, how often they keep it in parts of
        the data, and the share of its links, by weight, that leave it (None without points).
    links: (one, other, prominence) of each two clusters that links join: how far the density falls
        between them, in nats. All others are separated by a gap.
    rivals: for each other method that might have been chosen for the start, its cut and stability.
    """

    method: str
    stability: float
    start_stability: float
    agreement: float
    shares: tuple[float, ...]
    kept: tuple[float, ...]
    cut: tuple[float | None, ...]
    links: tuple[tuple[int, int, float], ...]
    rivals: dict[str, tuple[float, float]]

    def groups(self, apart: float = APART) -> int:
        """How many there are when clusters that are not so far apart are joined."""
        from scipy.sparse import coo_matrix
        from scipy.sparse.csgraph import connected_components

        k = len(self.shares)
        near = np.array([link[:2] for link in self.links if link[2] < apart], int).reshape(-1, 2)
        joined = coo_matrix((np.ones(len(near)), near.T), shape=(k, k))
        group = connected_components(joined, directed=False)[1]
        return len(set(group[np.array(self.shares) > 0].tolist()))

    def prominence(self, cluster: int) -> float:
        """How far the density falls on the way to the nearest other cluster; infinite: a gap."""
        own = (value for one, other, value in self.links if cluster in (one, other))
        return min(own, default=math.inf)

    def touched(self, cluster: int) -> list[int]:
        """The clusters that one is not apart from."""
        near = (link for link in self.links if cluster in link[:2] and link[2] < APART)
        return sorted(one + other - cluster for one, other, _ in near)

    def place(self, cluster: int) -> str:
        """The same in words: 'separated by a gap', 'touches cluster 2'."""
        if touched := self.touched(cluster):
            return f"touches cluster{'s' * (len(touched) > 1)} {listing(touched)}"
        prominence = self.prominence(cluster)
        if prominence == math.inf:
            return "separated by a gap"
        return f"the density falls by {prominence:.1f} nats around it"

    def belief(
        self, cluster: int, gap: float, kept: np.ndarray | float = 1.0, power: float = ROW
    ) -> np.ndarray:
        """How far to believe in a cluster, 0 to 1: because it is stable, or because it is apart.

        Stable clusters are believed less where the gap is above log c, that of undecided
        predictions: long walks leave them. kept: the share of parts in which points of the cluster
        kept it, any shape.
        """
        stays = min(1.0, (math.log(len(self.shares)) / max(gap, 1e-9)) ** power)
        apart = min(max((self.prominence(cluster) + 1) / 2, 0.0), 1.0)
        return np.asarray(1 - (1 - max(self.stability, 0.0) * stays * kept) * (1 - apart))

    def trust(self, gap: float) -> float:
        """In the clustering as a whole: the mean belief in the clusters of the points."""
        beliefs = [self.belief(k, gap, power=WHOLE) for k in range(len(self.shares))]
        return float(np.dot(self.shares, beliefs))

    def are_apart(self, tries: int = 1) -> bool:
        """Whether all clusters are apart, and stable, where so many numbers are tried."""
        far = APART + RARER * math.log(tries)
        return self.groups(far) == len(self.shares) and self.stability >= STABLE

    def are_stable(self, tries: int = 1) -> bool:
        """Whether parts of the data agree nearly in full, where so many numbers are tried."""
        return self.stability >= 1 - (1 - SAME) / math.sqrt(tries)

    def supports(self, gap: float, tries: int = 1) -> bool:
        """Whether it speaks for as many clusters as asked for, where so many numbers are tried."""
        stays = gap < math.log(len(self.shares))
        return self.are_apart(tries) or (self.are_stable(tries) and stays)

    def shows_structure(self, gap: float) -> bool:
        """Whether it speaks for any structure, which the network may have missed."""
        if self.groups(HINT) > 1 or gap < math.log(len(self.shares)) / 2:
            return True
        return max(self.stability, self.start_stability) >= STEADY

    @property
    def words(self) -> str:
        found, asked = self.groups(), len(self.shares)
        least = min((link[2] for link in self.links), default=math.inf)
        if found == 1:
            words = "the density does not fall between the clusters"
        elif found < asked:
            words = f"of {asked} clusters only {found} groups are apart, the others touch"
        elif least == math.inf:
            words = "all clusters are separated by gaps"
        else:
            words = f"the density falls by {least:.1f} nats or more between all clusters"
        words += f"; parts of the data agree to {self.stability:.2f}"
        if round(self.agreement, 3) < 1:
            words += f"; the network keeps {self.agreement:.1%} of the labels it was given"
        return words


def evidence_of(
    x: np.ndarray,
    rows: np.ndarray,
    labels: np.ndarray,
    start: Start,
    n_clusters: int,
    beside: np.ndarray | None = None,
) -> Evidence:
    """What speaks for labels (n,) that training began with those of a start for.

    x: (m, d), the points with the numbers `rows`, as distances see them. beside: the labels that
    they are held against, those of the start if not given.
    """
    beside = start.labels if beside is None else beside
    some = evenly_spaced(len(labels), MOST_COMPARED)
    apart = separation(x, labels[rows], n_clusters)
    near = zip(*np.nonzero(np.triu(np.isfinite(apart.dip))), strict=True)
    size, again = np.bincount(labels, minlength=n_clusters), recurrence(labels, start.subsamples)
    total = np.bincount(labels, again, n_clusters)
    return Evidence(
        method=start.method,
        stability=stability(labels[some], start.subsamples[some]),
        start_stability=start.stability,
        agreement=float((labels == beside).mean()),
        shares=tuple((size / len(labels)).tolist()),
        kept=tuple((total / np.maximum(size, 1)).tolist()),
        cut=tuple(None if np.isnan(cut) else float(cut) for cut in apart.cut),
        links=tuple((int(a), int(b), float(apart.dip[a, b])) for a, b in near),
        rivals=start.rivals,
    )


def grade(gap: float, tol: float, sound: bool, evidence: Evidence | None, tries: int = 1) -> Grade:
    """The one rule behind the word for a clustering, the best of so many numbers that are tried.

    sound: whether the network shows no failure mode and is decided. tries: 0 if none stood out.
    Where there is no evidence beside the bound (images, views of one's own), the bound decides.
    """
    sound = sound and tries > 0
    if evidence is None:
        return "certified" if sound and gap < tol else "doubtful"
    trained = evidence.agreement >= LEAST_KEPT
    if sound and trained and evidence.supports(gap, tries):
        return "certified" if gap < tol else "supported"
    if trained and not evidence.shows_structure(gap):
        return "no structure found"
    return "doubtful"
