"""The evidence for a network's clusters, and the grade: one rule, without labels (docs/trust.md).

The bound says that predictions are confident, invariant under long walks and in the prior's
proportions. It does not say that the data has clusters, nor that a second look would find the same
ones. Two more measurements answer that, both of the network's own labels: whether the density drops
between its clusters, and whether subsamples of the data give the same clusters.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from sklearn.decomposition import PCA

from gedilearn.data.arrays import evenly_spaced, listing
from gedilearn.density.candidates import FLOOR
from gedilearn.density.gaussians import Gaussians
from gedilearn.starts.choose import VOTE, Start, recurrence, stability
from gedilearn.verdict.dips import separation

Grade = Literal["certified", "supported", "doubtful", "no structure found"]

# Density dips in nats: between separated clusters, and a hint of some structure. Chosen on data
# without clusters (docs/trust.md).
SEPARATED, HINT = 1.0, 0.5
# Stability needed of separated clusters, as a hint of structure, and of clusters that touch.
STABLE, STEADY, SAME = 0.85, 0.9, 0.98
# Stability that hints at structure where networks vote, if held-out rows are also likelier under
# Gaussians at the clusters than under one, by so many nats: networks may agree in one cloud too.
AGREED, LIKELIER = 0.75, 1.0
DIRECTIONS, ROWS_EACH = 32, 8  # of these Gaussians; the least number of rows for each direction
# Each try of another number asks for a larger dip: in data without clusters, dips become e times
# rarer in this many nats.
RARER = 0.25
# The least share of the initial labels that a trained network keeps.
LEAST_KEPT = 0.9
# How fast belief in stable clusters falls where walks leave them: for a row, which may be right in
# a wrong clustering, and for the whole clustering.
ROW, WHOLE = 0.1, 0.5
# Points whose labels are compared with those of the subsamples.
MOST_COMPARED = 10_000


@dataclass(frozen=True)
class Evidence:
    """The evidence for the clusters of a network, apart from the bound.

    method: the method that found the initial clustering.
    stability: mean adjusted mutual information of the labels with the clusterings that this method
        finds in subsamples, or with those of each network that votes; 1 is complete agreement.
    initial_stability: the same for the initial clustering, or for the vote.
    labels_kept: the share of points that the network leaves in their initial cluster, or, for
        labels that are graded, in their own.
    shares, recurrence, cut: for each cluster, its share of the points; how often its points keep it
        in subsamples; the share of its links, by weight, that leave it (None without points).
    dips: (cluster, other, dip in nats) for each two clusters that are linked. All other pairs are
        disconnected.
    rivals: for each other method that competed for the initial clustering, its cut and stability.
    gain: where networks vote, by how many nats held-out rows are likelier under Gaussians at the
        clusters than under one Gaussian.
    """

    method: str
    stability: float
    initial_stability: float
    labels_kept: float
    shares: tuple[float, ...]
    recurrence: tuple[float, ...]
    cut: tuple[float | None, ...]
    dips: tuple[tuple[int, int, float], ...]
    rivals: dict[str, tuple[float, float]]
    gain: float | None = None

    @property
    def is_vote(self) -> bool:
        """Whether several networks voted, instead of one method that was run on subsamples."""
        return self.method == VOTE

    @property
    def is_likelier(self) -> bool:
        """Whether Gaussians at the clusters are likelier than one; true where it was not asked."""
        return self.gain is None or self.gain >= LIKELIER

    def groups(self, separated: float = SEPARATED) -> int:
        """The number of groups when clusters with smaller dips between them are joined."""
        from scipy.sparse import coo_matrix
        from scipy.sparse.csgraph import connected_components

        k = len(self.shares)
        near = np.array([pair for *pair, dip in self.dips if dip < separated], int).reshape(-1, 2)
        joined = coo_matrix((np.ones(len(near)), near.T), shape=(k, k))
        group = connected_components(joined, directed=False)[1]
        return len(set(group[np.array(self.shares) > 0].tolist()))

    @property
    def smallest_dip(self) -> float:
        """Over all pairs of clusters; infinite where all are disconnected."""
        return min((dip for *_, dip in self.dips), default=math.inf)

    def dip(self, cluster: int) -> float:
        """The smallest dip between a cluster and any other; infinite if it is disconnected."""
        own = (dip for one, other, dip in self.dips if cluster in (one, other))
        return min(own, default=math.inf)

    def touches(self, cluster: int) -> list[int]:
        """The clusters from which this one is not separated."""
        near = ((a, b) for a, b, dip in self.dips if cluster in (a, b) and dip < SEPARATED)
        return sorted(a + b - cluster for a, b in near)

    def place(self, cluster: int) -> str:
        """The same in words: 'disconnected', 'touches cluster 2'."""
        if touched := self.touches(cluster):
            return f"touches cluster{'s' * (len(touched) > 1)} {listing(touched)}"
        dip = self.dip(cluster)
        return "disconnected" if dip == math.inf else f"density dip of {dip:.1f} nats"

    def belief(
        self, cluster: int, gap: float, recurrence: np.ndarray | float = 1.0, power: float = ROW
    ) -> np.ndarray:
        """How far to believe in a cluster, from 0 to 1: because it is stable, or separated.

        Stable clusters are believed less where the bound gap is above log c, the gap of undecided
        predictions: long walks leave such clusters.

        recurrence: the share of subsamples in which points of the cluster keep it, of any shape
        """
        stays = min(1.0, (math.log(len(self.shares)) / max(gap, 1e-9)) ** power)
        separated = min(max((self.dip(cluster) + 1) / 2, 0.0), 1.0)
        stable = max(self.stability, 0.0) * stays * recurrence
        return np.asarray(1 - (1 - stable) * (1 - separated))

    def trust(self, gap: float) -> float:
        """In the clustering as a whole: the mean belief in the clusters of the points."""
        beliefs = [self.belief(k, gap, power=WHOLE) for k in range(len(self.shares))]
        return float(np.dot(self.shares, beliefs))

    def are_separated(self, tries: int = 1) -> bool:
        """Whether all clusters are separated and stable, the best of so many tries."""
        dip = SEPARATED + RARER * math.log(tries)
        return self.groups(dip) == len(self.shares) and self.stability >= STABLE

    def are_stable(self, tries: int = 1) -> bool:
        """Whether subsamples reproduce the clusters nearly in full, the best of so many tries."""
        return self.is_likelier and self.stability >= 1 - (1 - SAME) / math.sqrt(tries)

    def supports(self, gap: float, tries: int = 1) -> bool:
        """Whether it supports this number of clusters, the best of so many tries."""
        walks_stay = gap < math.log(len(self.shares))
        return self.are_separated(tries) or (self.are_stable(tries) and walks_stay)

    def shows_structure(self, gap: float) -> bool:
        """Whether there is any structure, which the network may have missed."""
        stability = max(self.stability, self.initial_stability)
        if self.is_vote:
            return self.groups(HINT) > 1 or (stability >= AGREED and self.is_likelier)
        walks_stay = gap < math.log(len(self.shares)) / 2
        return self.groups(HINT) > 1 or walks_stay or stability >= STEADY


def evidence_of(
    x: np.ndarray,
    rows: np.ndarray,
    labels: np.ndarray,
    start: Start,
    n_clusters: int,
    compared: np.ndarray | None = None,
) -> Evidence:
    """The evidence for labels (n,), given the initial clustering.

    x: (m, d), the distance features of the points with the numbers `rows`
    compared: labels to compare with; the initial labels if not given
    """
    compared = start.labels if compared is None else compared
    some = evenly_spaced(len(labels), MOST_COMPARED)
    found = separation(x, labels[rows], n_clusters)
    linked = zip(*np.nonzero(np.triu(np.isfinite(found.dip))), strict=True)
    size, again = np.bincount(labels, minlength=n_clusters), recurrence(labels, start.subsamples)
    total = np.bincount(labels, again, n_clusters)
    return Evidence(
        method=start.method,
        stability=stability(labels[some], start.subsamples[some]),
        initial_stability=start.stability,
        labels_kept=float((labels == compared).mean()),
        shares=tuple((size / len(labels)).tolist()),
        recurrence=tuple((total / np.maximum(size, 1)).tolist()),
        cut=tuple(None if np.isnan(cut) else float(cut) for cut in found.cut),
        dips=tuple((int(a), int(b), float(found.dip[a, b])) for a, b in linked),
        rivals=start.rivals,
        gain=gaussian_gain(x, labels[rows]) if start.method == VOTE else None,
    )


def grade(gap: float, tol: float, sound: bool, evidence: Evidence | None, tries: int = 1) -> Grade:
    """The one rule for the grade.

    gap, tol: the bound gap, and the tolerance below which the bound counts as reached
    sound: whether the network shows no failure mode and its predictions are decided
    evidence: None for images and views of the user's own; the bound alone then decides
    tries: how many numbers of clusters were compared; 0 if none of them stood out
    """
    sound = sound and tries > 0
    if evidence is None:
        return "certified" if sound and gap < tol else "doubtful"
    trained = evidence.is_vote or evidence.labels_kept >= LEAST_KEPT
    if sound and trained and evidence.supports(gap, tries):
        return "certified" if gap < tol else "supported"
    if trained and not evidence.shows_structure(gap):
        return "no structure found"
    return "doubtful"


def gaussian_gain(x: np.ndarray, labels: np.ndarray) -> float:
    """By how many nats rows are likelier under Gaussians at the clusters than under one Gaussian.

    The Gaussians at the clusters have one covariance. Each half of the rows is held out once, in
    the leading principal directions of the other half.  (n, d), (n,).
    """
    order = np.random.default_rng(0).permutation(len(x))
    halves, gains = np.array_split(order, 2), []
    for own, held in (halves, halves[::-1]):
        q = max(1, min(DIRECTIONS, x.shape[1], len(own) // ROWS_EACH))
        pca = PCA(q, svd_solver="covariance_eigh").fit(x[own])
        z, fresh = pca.transform(x[own]), torch.from_numpy(pca.transform(x[held])).double()
        levels = []
        for groups in (labels[own], np.zeros(len(own), int)):
            place = np.unique(groups, return_inverse=True)[1]
            shares = np.bincount(place) / len(place)
            means = np.stack([z[place == k].mean(0) for k in range(len(shares))])
            away = z - means[place]
            spread = away.T @ away / max(len(z) - len(means), 1) + FLOOR * np.eye(q)
            factors = np.tile(np.linalg.cholesky(spread), (len(means), 1, 1))
            mixture = Gaussians.full(*map(torch.from_numpy, (shares, means, factors)))
            levels.append(mixture.log_density(fresh))
        gains.append(levels[0] - levels[1])
    return float(torch.cat(gains).mean())
