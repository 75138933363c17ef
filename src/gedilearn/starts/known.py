"""Labels that are known of some points, and a start that agrees with them.

Two things say what class a point is of: the known points that it hangs together with, and the
known points of its cluster. They are multiplied, so that few labels name clusters and many labels
correct them. A label that contradicts both is left out. The constants were chosen on noisy moons,
iris, wine, breast cancer and digits with 1, 5 and 20 labels a class (seeds 300 to 307).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from gedilearn.data.arrays import as_labels, pair_counts
from gedilearn.errors import InputError

if TYPE_CHECKING:
    import scipy.sparse

Floats = npt.NDArray[Any]
Ints = npt.NDArray[Any]

UNKNOWN = -1
# The share of a point's class that comes from its neighbours', in each round of spreading.
SPREAD = 0.9
# What every class has before anything is counted: in a cluster, and around a point.
COUNT, LEAST = 0.1, 0.01
# The power of what a cluster says, beside what a point's surroundings say; the weight of a point's
# own label there, beside those of others.
POWER, OWN = 0.5, 0.1


@dataclass(frozen=True, eq=False)
class Known:
    """The classes of some points.

    labels: (n,) the number of the class, -1 where it is not known.
    classes: (classes,) as they were given, whole numbers or text, in sorted order.
    judged: whether a verdict on just these labels is asked for.
    """

    labels: Ints
    classes: npt.NDArray[Any]
    judged: bool = False

    @classmethod
    def of(cls, values: Any, n: int, judged: bool = False) -> Known:
        """From one value for each of n points; -1, None, NaN and empty text are unknown."""
        import pandas as pd

        word = "labels" if judged else "known"
        cells = np.asarray(values, object)
        if cells.shape != (n,):
            raise InputError(f"{word} of shape {cells.shape} for {n} rows: give one for each row")
        unknown = np.asarray(pd.isna(cells)) | np.isin(cells.astype(str), ("", "-1", "-1.0"))
        if unknown.all():
            raise InputError(f"{word}: no row has a label; give one for some rows at least")
        found = cells[~unknown]
        try:
            found = found.astype(np.float64)
        except (TypeError, ValueError):
            found = found.astype(str)
        classes, index = np.unique(as_labels(found, word), return_inverse=True)
        labels = np.full(n, UNKNOWN, np.int64)
        labels[~unknown] = index
        return cls(labels, classes, judged)

    @property
    def names(self) -> list[str]:
        return list(map(str, self.classes.tolist()))

    @property
    def rows(self) -> Ints:
        """The numbers of the points whose class is known."""
        return np.flatnonzero(self.labels != UNKNOWN)

    def values(self, rows: Ints) -> npt.NDArray[Any]:
        """The classes of known rows, as they were given."""
        return np.asarray(self.classes[self.labels[rows]])

    def for_nodes(self, node: Ints, n_nodes: int) -> Known:
        """The same for nodes: the class that most of a node's points have.  node: (n,)."""
        votes = self.table(node, n_nodes)
        labels = np.where(votes.any(1), votes.argmax(1), UNKNOWN)
        return replace(self, labels=labels)

    def table(self, labels: Ints, n_clusters: int) -> Ints:
        """How many known points of each class each cluster has: (clusters, classes)."""
        shape = (n_clusters, len(self.classes))
        return pair_counts(labels[self.rows], self.labels[self.rows], shape)

    def support(self, labels: Ints, n_clusters: int) -> float:
        """The log-probability of the known classes, if each cluster has shares of its own."""
        from scipy.special import gammaln

        table = self.table(labels, n_clusters) + COUNT
        some = np.full(table.shape[1], COUNT)
        each = gammaln(table).sum(1) - gammaln(table.sum(1))
        return float((each - gammaln(some).sum() + gammaln(some.sum())).sum())

    def held(self, labels: Ints, graph: scipy.sparse.csr_matrix, n_clusters: int) -> Ints:
        """Clusters of all points, (n,), whose numbers are those of the classes.

        Clusters beyond the classes are those with the fewest known points, in their order.
        """
        first = self._believed(labels, graph, n_clusters)
        right = replace(self, labels=np.where(first == self.labels, first, UNKNOWN))
        return first if len(right.rows) == 0 else right._believed(labels, graph, n_clusters)

    def _believed(self, labels: Ints, graph: scipy.sparse.csr_matrix, n_clusters: int) -> Ints:
        classes = len(self.classes)
        near = np.full((len(labels), n_clusters), LEAST)
        near[:, :classes] += self.spread(graph)
        near[:, classes:] = near[:, :classes].mean(1, keepdims=True)
        cluster = self.shares_of_clusters(labels, n_clusters)[labels]
        return np.asarray((near * cluster**POWER).argmax(1))

    def shares_of_clusters(self, labels: Ints, n_clusters: int) -> Floats:
        """The share of each name in each cluster: (clusters, names).

        The names are the classes, then clusters of their own, which count as one known point.
        """
        table = self.table(labels, n_clusters)
        classes = table.shape[1]
        others = np.sort(np.argsort(-table.max(1), kind="stable")[classes:])
        counts = np.zeros((n_clusters, n_clusters))
        counts[:, :classes] = table
        counts[others, classes + np.arange(len(others))] += 1
        return np.asarray((counts + COUNT) / (counts + COUNT).sum(1, keepdims=True))

    def spread(self, graph: scipy.sparse.csr_matrix) -> Floats:
        """How much of each class reaches each node of a graph from known nodes: (n, classes).

        Zhou et al. (2004): the solution of (1 - a S) F = Y with S the links, scaled by degrees;
        nodes count less for themselves.
        """
        from scipy.sparse import diags, eye
        from scipy.sparse.linalg import cg

        known = np.zeros((len(self.labels), len(self.classes)))
        known[self.rows, self.labels[self.rows]] = 1
        scale = diags(1 / np.sqrt(np.maximum(np.asarray(graph.sum(1)).ravel(), 1e-12)))
        system = eye(len(known)) - SPREAD * (scale @ graph @ scale)
        found = np.stack([cg(system, column, rtol=1e-6)[0] for column in known.T], axis=1)
        return np.asarray(np.maximum(found - (1 - OWN) * known, 0))


def name_of(cluster: int, names: Sequence[str]) -> str:
    """Of a cluster: its class, or its number."""
    return names[cluster] if cluster < len(names) else f"cluster {cluster}"
