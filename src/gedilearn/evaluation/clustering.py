"""Clusters compared with known classes: over all points, and in batches with the chance level."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gedilearn.errors import InputError
from gedilearn.starts.choose import adjusted_mutual_info, best_assignment

CHANCE_REPEATS = 5


class BatchwiseNMI(NamedTuple):
    """The mean NMI over small batches, with the score of random labels.

    Attributes
    ----------
    nmi: mean over the batches
    chance: the same for random labels with the same cluster sizes
    """

    nmi: float
    chance: float


def clustering_scores(labels_true: np.ndarray, labels: np.ndarray) -> dict[str, float | int]:
    """Agreement of clusters (n,) with classes (n,) over all points.

    ``nmi``, ``ami`` and ``ari`` do not depend on the numbers of clusters. NMI alone is above 0 for
    random labels. ``accuracy`` is that of the best one-to-one assignment of clusters to classes.
    Points of clusters without a class count as wrong.
    """
    classes, clusters = (np.unique(y, return_inverse=True)[1] for y in (labels_true, labels))
    n_clusters = int(clusters.max()) + 1
    assigned = best_assignment(clusters, classes, n_clusters)[clusters]
    return {
        "nmi": nmi(classes, clusters),
        "ami": adjusted_mutual_info(classes, clusters),
        "ari": ari(classes, clusters),
        "accuracy": float((assigned == classes).mean()),
        "clusters_used": n_clusters,
        "n": len(classes),
    }


def nmi(labels_true: np.ndarray, labels: np.ndarray) -> float:
    """Mutual information divided by the arithmetic mean of the entropies."""
    from sklearn.metrics import normalized_mutual_info_score

    return float(normalized_mutual_info_score(labels_true, labels))


def ari(labels_true: np.ndarray, labels: np.ndarray) -> float:
    """The adjusted Rand index, which is symmetric."""
    from sklearn.metrics import adjusted_rand_score

    return float(adjusted_rand_score(labels_true, labels))


def batchwise_nmi(
    labels_true: np.ndarray, labels: np.ndarray, batch_size: int = 64, random_state: int = 0
) -> BatchwiseNMI:
    """The mean NMI over consecutive batches in the given order, without an incomplete last one.

    Only for comparison with published numbers of this kind. A batch has few points per cluster, and
    random labels agree with classes by chance. How much depends on the numbers of clusters and
    classes (docs/metrics.md). ``chance`` is the score of the same labels in random orders.
    """
    n = len(labels)
    if not 2 <= batch_size <= n:
        raise InputError(f"batch_size={batch_size} for {n} labels: give 2 to {n}")

    def mean_over_batches(clusters: np.ndarray) -> float:
        starts = range(0, n - batch_size + 1, batch_size)
        batches = (slice(start, start + batch_size) for start in starts)
        return float(np.mean([nmi(labels_true[b], clusters[b]) for b in batches]))

    generator = np.random.default_rng(random_state)
    orders = [generator.permutation(labels) for _ in range(CHANCE_REPEATS)]
    chance = float(np.mean([mean_over_batches(order) for order in orders]))
    return BatchwiseNMI(mean_over_batches(labels), chance)
