"""The evidence for clusters, and the one rule that makes a grade of it."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import multivariate_normal

from gedilearn.starts.choose import VOTE
from gedilearn.verdict.evidence import Evidence, gaussian_gain, grade

INF, NOTHING = math.inf, "no structure found"
THREE = Evidence(
    method="tree",
    stability=0.88,
    initial_stability=0.88,
    labels_kept=1.0,
    shares=(0.5, 0.3, 0.2),
    recurrence=(1.0, 0.9, 0.8),
    cut=(0.0, 0.1, 0.1),
    dips=((0, 1, 2.0), (1, 2, 1.5)),
    rivals={},
)
TOUCHING = replace(THREE, dips=((0, 1, 2.0), (1, 2, 0.7)))
NONE = replace(THREE, dips=((0, 1, 0.2), (0, 2, -1.0), (1, 2, 0.4)))


def test_clusters_that_are_not_separated_are_one_group() -> None:
    assert [own.groups() for own in (THREE, TOUCHING, NONE)] == [3, 2, 1]
    assert TOUCHING.groups(0.5) == 3 and replace(NONE, dips=()).groups() == 3
    assert replace(THREE, shares=(0.5, 0.5, 0.0)).groups() == 2  # one without points


def test_the_place_of_a_cluster_is_said_in_words() -> None:
    alone = replace(THREE, dips=((1, 2, 0.7),))
    assert alone.dip(0) == INF and alone.place(0) == "disconnected"
    assert alone.place(1) == "touches cluster 2" and alone.touches(2) == [1]
    assert NONE.place(0) == "touches clusters 1, 2"
    assert THREE.dip(1) == 1.5
    assert THREE.place(1) == "density dip of 1.5 nats"


@pytest.mark.parametrize(
    ("evidence", "gap", "expected"),
    [
        (THREE, 0.001, "certified"),
        (THREE, 3.0, "supported"),
        (replace(THREE, stability=0.84), 0.001, "doubtful"),
        (replace(THREE, labels_kept=0.8), 0.001, "doubtful"),
        (TOUCHING, 3.0, "doubtful"),
        (replace(TOUCHING, stability=0.98), 1.0, "supported"),
        (replace(TOUCHING, stability=0.98), 1.2, "doubtful"),  # walks leave them: log 3 is 1.1
        (NONE, 3.0, "no structure found"),
        (NONE, 0.5, "doubtful"),
        (replace(NONE, initial_stability=0.91), 3.0, "doubtful"),
        (replace(NONE, labels_kept=0.8), 3.0, "doubtful"),
        (replace(NONE, stability=0.99), 1.0, "supported"),
        (replace(NONE, method=VOTE, stability=0.8, gain=1.1), 3.0, "doubtful"),
        (replace(NONE, method=VOTE, stability=0.99, gain=1.1), 1.0, "supported"),
        (replace(NONE, method=VOTE, stability=0.99, gain=0.9), 1.0, NOTHING),
        (replace(NONE, method=VOTE, stability=0.8, gain=0.9), 3.0, NOTHING),
        (replace(NONE, method=VOTE, stability=0.7, initial_stability=0.7, gain=9.0), 3.0, NOTHING),
        (None, 0.001, "certified"),
        (None, 0.5, "doubtful"),
    ],
)
def test_the_rule(evidence: Evidence | None, gap: float, expected: str) -> None:
    assert grade(gap, 0.002, True, evidence) == expected
    if expected in ("certified", "supported"):
        assert grade(gap, 0.002, False, evidence) == "doubtful"


def test_the_gain_is_that_of_the_true_densities_where_rows_are_many() -> None:
    rng = np.random.default_rng(0)
    means, spread = np.array([[0.0, 0, 0], [3, 0, 0], [0, 3, 1]]), np.diag([1.0, 0.5, 2.0])
    y = rng.choice(3, 20_000, p=[0.5, 0.3, 0.2])
    x = means[y] + rng.normal(size=(20_000, 3)) @ np.sqrt(spread)
    each = [multivariate_normal(mean, spread).pdf(x) for mean in means]
    one = multivariate_normal(x.mean(0), np.cov(x.T)).logpdf(x)
    true = np.log(np.dot([0.5, 0.3, 0.2], each)) - one
    assert gaussian_gain(x, y) == pytest.approx(true.mean(), abs=0.01)
    assert gaussian_gain(x, rng.permutation(y)) < 0.01
    halves = rng.normal(size=(3_000, 40))
    assert -0.1 < gaussian_gain(halves, (halves[:, 0] > 0).astype(int)) < 0


def test_of_more_numbers_that_are_tried_more_is_asked() -> None:
    near = replace(THREE, dips=((0, 1, 1.2),))
    assert near.supports(3.0) and near.supports(3.0, 2) and not near.supports(3.0, 3)
    stable = replace(NONE, stability=0.985)
    assert stable.supports(1.0) and not stable.supports(1.0, 4)
    assert grade(1.0, 0.002, True, stable, 4) == "doubtful"


def test_belief_needs_stability_or_a_dip_and_trust_is_its_mean() -> None:
    assert THREE.belief(0, 0.5) == 1  # more than a nat apart
    assert NONE.belief(2, 0.5) == pytest.approx(0.88)  # stable alone
    assert NONE.belief(2, 0.5, recurrence=0.5) == pytest.approx(0.44)
    far = 16 * math.log(3)  # walks leave it
    assert NONE.belief(2, far) == pytest.approx(0.88 * 16**-0.1)
    assert NONE.belief(2, far, power=0.5) == pytest.approx(0.88 / 4)
    assert NONE.belief(0, 0.5, recurrence=0.0) == pytest.approx(0.0)  # a rise of a nat
    assert NONE.belief(1, 0.5, recurrence=0.0) == pytest.approx(0.6)  # its least is 0.2 nats
    beliefs = [float(NONE.belief(k, 0.5)) for k in range(3)]
    expected = 0.5 * beliefs[0] + 0.3 * beliefs[1] + 0.2 * beliefs[2]
    assert NONE.trust(0.5) == pytest.approx(expected)
    assert replace(NONE, stability=-0.01).trust(INF) >= 0
