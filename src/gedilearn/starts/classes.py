"""Known classes of some points, and an initial clustering that agrees with them.

Two things tell the class of a point: the labelled points that it is connected to, and the labelled
points of its cluster. They are multiplied. Few labels then name clusters, and many labels correct
them. A label that contradicts both is left out. The constants were tuned on noisy moons, iris,
wine, breast cancer and digits with 1, 5 and 20 labels a class (seeds 300 to 307).
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

UNLABELLED = -1
# The share of a point's class that comes from its neighbours', in each round of spreading.
SPREAD = 0.9
# Prior counts of every class: in a cluster, and around a point.
COUNT, LEAST = 0.1, 0.01
# The power of the cluster's shares relative to the neighbourhood's; the weight of a point's own
# label relative to other labels.
POWER, OWN = 0.5, 0.1


@dataclass(frozen=True, eq=False)
class Classes:
    """The classes of some points.

    labels: (n,) the number of the class, -1 for points without one.
    values: (classes,) as they were given, whole numbers or text, in sorted order.
    graded: whether the verdict is about these labels, not about those of the network.
    """

    labels: Ints
    values: npt.NDArray[Any]
    graded: bool = False

    @classmethod
    def of(cls, cells: Any, n: int, graded: bool = False) -> Classes:
        """From one value for each of n points; -1, None, NaN and empty text are no class.

        `Classes` are given back as they are.
        """
        import pandas as pd

        if isinstance(cells, Classes):
            return cells

        word = "labels" if graded else "classes"
        cells = np.asarray(cells, object)
        if cells.shape != (n,):
            raise InputError(f"{word} of shape {cells.shape} for {n} rows: give one for each row")
        missing = np.asarray(pd.isna(cells)) | np.isin(cells.astype(str), ("", "-1", "-1.0"))
        if missing.all():
            raise InputError(f"{word}: no row has a label; give one for some rows at least")
        found = cells[~missing]
        try:
            found = found.astype(np.float64)
        except (TypeError, ValueError):
            found = found.astype(str)
        values, index = np.unique(as_labels(found, word), return_inverse=True)
        if graded and len(values) < 2:
            raise InputError(f"labels: all rows are in {values[0]!r}; give two clusters or more")
        labels = np.full(n, UNLABELLED, np.int64)
        labels[~missing] = index
        return cls(labels, values, graded)

    @property
    def names(self) -> list[str]:
        return list(map(str, self.values.tolist()))

    @property
    def rows(self) -> Ints:
        """The numbers of the labelled points."""
        return np.flatnonzero(self.labels != UNLABELLED)

    @property
    def labelled(self) -> Classes:
        """Those of the labelled points alone."""
        return replace(self, labels=self.labels[self.rows])

    def for_nodes(self, node: Ints, n_nodes: int) -> Classes:
        """The same for nodes: the class that most of a node's points have.  node: (n,)."""
        votes = self.table(node, n_nodes)
        labels = np.where(votes.any(1), votes.argmax(1), UNLABELLED)
        return replace(self, labels=labels)

    def table(self, labels: Ints, n_clusters: int) -> Ints:
        """How many labelled points of each class each cluster has: (clusters, classes)."""
        shape = (n_clusters, len(self.values))
        return pair_counts(labels[self.rows], self.labels[self.rows], shape)

    def support(self, labels: Ints, n_clusters: int) -> float:
        """The log-probability of the classes, if each cluster has its own shares of them."""
        from scipy.special import gammaln

        table = self.table(labels, n_clusters) + COUNT
        some = np.full(table.shape[1], COUNT)
        each = gammaln(table).sum(1) - gammaln(table.sum(1))
        return float((each - gammaln(some).sum() + gammaln(some.sum())).sum())

    def corrected(self, labels: Ints, graph: scipy.sparse.csr_matrix, n_clusters: int) -> Ints:
        """Clusters of all points, (n,), whose numbers are those of the classes.

        The clusters with the fewest labelled points follow the classes, in their order.
        """
        first = self._combined(labels, graph, n_clusters)
        right = replace(self, labels=np.where(first == self.labels, first, UNLABELLED))
        return first if len(right.rows) == 0 else right._combined(labels, graph, n_clusters)

    def _combined(self, labels: Ints, graph: scipy.sparse.csr_matrix, n_clusters: int) -> Ints:
        classes = len(self.values)
        near = np.full((len(labels), n_clusters), LEAST)
        near[:, :classes] += self.spread(graph)
        near[:, classes:] = near[:, :classes].mean(1, keepdims=True)
        cluster = self.shares_of_clusters(labels, n_clusters)[labels]
        return np.asarray((near * cluster**POWER).argmax(1))

    def shares_of_clusters(self, labels: Ints, n_clusters: int) -> Floats:
        """The share of each name in each cluster: (clusters, names).

        The names are the classes, then further clusters, each of which counts as one labelled
        point.
        """
        table = self.table(labels, n_clusters)
        classes = table.shape[1]
        others = np.sort(np.argsort(-table.max(1), kind="stable")[classes:])
        counts = np.zeros((n_clusters, n_clusters))
        counts[:, :classes] = table
        counts[others, classes + np.arange(len(others))] += 1
        return np.asarray((counts + COUNT) / (counts + COUNT).sum(1, keepdims=True))

    def spread(self, graph: scipy.sparse.csr_matrix) -> Floats:
        """How much of each class reaches each node of a graph from labelled nodes: (n, classes).

        Zhou et al. (2004): the solution of (1 - a S) F = Y with S the links, scaled by degrees.
        Here nodes count less for themselves.
        """
        from scipy.sparse import diags, eye
        from scipy.sparse.linalg import cg

        given = np.zeros((len(self.labels), len(self.values)))
        given[self.rows, self.labels[self.rows]] = 1
        scale = diags(1 / np.sqrt(np.maximum(np.asarray(graph.sum(1)).ravel(), 1e-12)))
        system = eye(len(given)) - SPREAD * (scale @ graph @ scale)
        found = np.stack([cg(system, column, rtol=1e-6)[0] for column in given.T], axis=1)
        return np.asarray(np.maximum(found - (1 - OWN) * given, 0))


def name_of(cluster: int, names: Sequence[str]) -> str:
    """The class of a cluster, or its number."""
    return names[cluster] if cluster < len(names) else f"cluster {cluster}"
