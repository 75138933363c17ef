"""Known classes: how they are read, spread, and joined with clusters."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_matrix
from scipy.special import gamma
from sklearn.datasets import make_blobs, make_moons

from gedilearn.errors import InputError
from gedilearn.starts.choose import choose_start
from gedilearn.starts.classes import COUNT, OWN, SPREAD, Classes, name_of

RNG = np.random.default_rng(0)


def links(n: int) -> np.ndarray:
    weights = RNG.random((n, n)) * (RNG.random((n, n)) < 0.3)
    weights = weights + weights.T + np.diag(np.ones(n - 1), 1) + np.diag(np.ones(n - 1), -1)
    np.fill_diagonal(weights, 0)
    return weights


@pytest.mark.parametrize(
    ("values", "labels", "classes"),
    [
        ([2, -1, 5, 2], [0, -1, 1, 0], [2, 5]),
        ([2.0, np.nan, 5.0, 2.0], [0, -1, 1, 0], [2, 5]),
        (["b", None, "", "a"], [1, -1, -1, 0], ["a", "b"]),
        (pd.Series(["b", pd.NA, "a"], dtype="string"), [1, -1, 0], ["a", "b"]),
        (pd.Categorical(["b", None, "a"]), [1, -1, 0], ["a", "b"]),
        ([True, False, None], [1, 0, -1], [0, 1]),
    ],
)
def test_classes_are_numbered_in_sorted_order_and_gaps_are_unknown(values, labels, classes):
    given = Classes.of(values, len(labels))
    assert given.labels.tolist() == labels and given.values.tolist() == classes
    assert given.rows.tolist() == [row for row, k in enumerate(labels) if k >= 0]
    assert given.names == [str(one) for one in classes]


@pytest.mark.parametrize(
    ("values", "says"),
    [([1, 2], "shape (2,) for 3 rows"), ([-1, None, ""], "no row has a label")],
)
def test_bad_labels_are_one_line(values, says):
    with pytest.raises(InputError, match="classes") as raised:
        Classes.of(values, 3)
    assert says in str(raised.value) and "\n" not in str(raised.value)


def test_spreading_solves_the_dense_system():
    n = 12
    weights, given = links(n), Classes.of([0, 1, 2] + [-1] * (n - 3), n)
    degrees = weights.sum(1)
    system = np.eye(n) - SPREAD * weights / np.sqrt(np.outer(degrees, degrees))
    y = np.zeros((n, 3))
    y[[0, 1, 2], [0, 1, 2]] = 1
    expected = np.maximum(np.linalg.solve(system, y) - (1 - OWN) * y, 0)
    np.testing.assert_allclose(given.spread(csr_matrix(weights)), expected, atol=1e-5)


def test_support_is_the_chance_of_the_classes_in_each_cluster():
    """The product over clusters of Dirichlet-multinomial chances, by the gamma function itself."""
    given = Classes.of([0, 0, 1, 1, 1, -1], 6)
    clusters = np.array([0, 0, 0, 1, 1, 1])
    chance = 1.0
    for table in ([2, 1], [0, 2]):
        chance *= gamma(2 * COUNT) / gamma(sum(table) + 2 * COUNT)
        chance *= np.prod([gamma(count + COUNT) / gamma(COUNT) for count in table])
    assert given.support(clusters, 2) == pytest.approx(np.log(chance))
    assert given.support(np.array([0, 0, 1, 1, 1, 0]), 2) > given.support(clusters, 2)


def test_nodes_have_the_class_of_most_of_their_points():
    given = Classes.of([0, 1, 1, -1, 0], 5)
    assert given.for_nodes(np.array([0, 0, 0, 1, 2]), 4).labels.tolist() == [1, -1, 0, -1]


def test_one_label_names_a_cluster_and_further_clusters_stay():
    x, y = make_blobs(300, centers=[[0, 0], [9, 0], [0, 9]], random_state=0)
    values = np.full(300, -1)
    for k in (0, 2):
        values[np.flatnonzero(y == k)[0]] = 5 + k
    start = choose_start(x, 3, classes=Classes.of(values, 300))
    assert (start.labels == np.array([0, 2, 1])[y]).all()
    assert name_of(1, ["5", "7"]) == "7" and name_of(2, ["5", "7"]) == "cluster 2"


def test_a_start_that_contradicts_the_labels_is_not_taken_and_wrong_labels_are_outvoted():
    x, y = make_moons(400, noise=0.05, random_state=0)
    half = (x[:, 0] > 0.5).astype(int)  # what k-means would find
    known = np.where(RNG.random(400) < 0.2, half, -1)
    agrees = (choose_start(x, 2, classes=Classes.of(known, 400)).labels == half).mean()
    assert agrees > 0.8 > (choose_start(x, 2).labels == half).mean()
    some = RNG.choice(400, 60, replace=False)
    values = np.full(400, -1)
    values[some] = y[some]
    values[some[:6]] = 1 - y[some[:6]]
    labels = choose_start(x, 2, classes=Classes.of(values, 400)).labels
    assert (labels == y).mean() > 0.99 and (labels == y)[some[:6]].all()
