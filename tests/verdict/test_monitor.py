"""The monitor names each failure mode when it is built by hand, and none for a good model."""

from __future__ import annotations

import itertools
import json
import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from pydantic import TypeAdapter
from sklearn.datasets import make_blobs
from torch import Tensor

from gedilearn import GEDI
from gedilearn.verdict import monitor
from gedilearn.verdict.evidence import Evidence
from gedilearn.verdict.monitor import CLUSTERS, PERMUTATION, REPRESENTATION, Diagnosis

N, C = 300, 3


def labels() -> Tensor:
    return torch.arange(N) % C


def confident(y: Tensor, scale: float = 20.0) -> Tensor:
    return scale * torch.nn.functional.one_hot(y, C).float()


def diagnose(features: Tensor, logits: Tensor, view: Tensor) -> Diagnosis:
    return monitor.diagnose(features, logits, view, None, 0.5, 0.002)


def healthy_features() -> Tensor:
    return torch.randn(N, 5) + 3 * torch.nn.functional.one_hot(labels(), 5)


def test_a_healthy_model_has_no_failure_mode() -> None:
    found = diagnose(healthy_features(), confident(labels()), confident(labels()))
    assert found.failure_modes == ()
    assert found.grade == "doubtful" and found.sound


def test_a_constant_encoder_is_representation_collapse() -> None:
    features = torch.ones(N, 5) * 3
    logits = torch.tensor([0.1, 0.0, -0.1]).expand(N, C)
    found = diagnose(features, logits, logits)
    assert REPRESENTATION in found.failure_modes
    assert found["feature spread"].value == pytest.approx(0, abs=1e-6)


def test_one_saturated_cluster_is_cluster_collapse() -> None:
    logits = confident(torch.ones(N, dtype=torch.long))
    found = diagnose(healthy_features(), logits, logits)
    assert CLUSTERS in found.failure_modes and REPRESENTATION not in found.failure_modes
    assert found["clusters in use"].value == 1
    assert found["marginal entropy"].value < 0.01


def test_permuted_assignments_are_label_permutation() -> None:
    shuffled = labels()[torch.randperm(N)]
    found = diagnose(healthy_features(), confident(shuffled), confident(labels()))
    assert found.failure_modes == (PERMUTATION,)
    assert found["agreement"].value < 0.5


def test_effective_rank_counts_equal_directions() -> None:
    q, _ = np.linalg.qr(np.random.default_rng(0).normal(size=(N, 4)))
    q = q - q.mean(0)
    q, _ = np.linalg.qr(q)
    features = torch.from_numpy(np.hstack([q, np.zeros((N, 2))]))
    assert monitor.effective_rank(features, C).value == pytest.approx(4, rel=1e-6)


def test_effective_rank_of_more_features_than_points_is_that_of_the_covariance() -> None:
    features = torch.randn(20, 60)
    values = np.clip(np.linalg.eigvalsh(np.cov(features.double().numpy().T)), 1e-300, None)
    shares = values / values.sum()
    expected = math.exp(-(shares * np.log(shares)).sum())
    assert monitor.effective_rank(features, C).value == pytest.approx(expected, rel=1e-6)
    monitor.effective_rank(torch.randn(3, 10**6), C)  # whose covariance would take 8 TB


def test_the_rise_under_permutation_equals_the_average_over_all_of_them() -> None:
    n = 5
    logits, view = torch.randn(n, C).double(), torch.randn(n, C).double()
    p, q = torch.softmax(view, 1).numpy(), torch.log_softmax(logits, 1).numpy()
    losses = {
        order: -np.mean([(p[i] * q[order[i]]).sum() for i in range(n)])
        for order in itertools.permutations(range(n))
    }
    expected = (np.mean(list(losses.values())) - losses[tuple(range(n))]) / math.log(C)
    assert monitor.permutation_sensitivity(logits, view).value == pytest.approx(expected)


def test_clusters_are_held_against_the_prior_not_against_uniform() -> None:
    y = torch.zeros(1000, dtype=torch.long)
    y[:20] = 1
    target = torch.tensor([0.97, 0.02, 0.01])
    logits = confident(y)
    assert monitor.clusters_in_use(logits, target).value == 2
    assert monitor.clusters_in_use(logits, None).value == 1


def test_runaway_energies_and_non_finite_output_are_named() -> None:
    hot = confident(labels()) + 5000
    found = diagnose(healthy_features(), hot, hot)
    assert not found["energy level"].ok
    nan = torch.full((N, C), float("nan"))
    broken = monitor.diagnose(nan, nan, nan, None, math.inf, 0.002)
    assert not broken["feature spread"].ok and broken.grade == "doubtful"


EVIDENCE = Evidence(
    "tree", 0.93, 0.93, 1.0, (0.5, 0.5), (1.0, 0.9), (0.1, None), ((0, 1, 1.5),), {"k": (0.1, 0.7)}
)


def test_what_diverged_is_undecided_or_shows_a_failure_mode_is_not_supported() -> None:
    good = Diagnosis((), gap=0.001, tol=0.002, evidence=EVIDENCE)
    assert good.certified and good.diverged("for a while", recovered=True).certified
    diverged = good.diverged("training diverged")
    assert diverged.grade == "doubtful" and diverged.failure_modes == ("divergence",)
    undecided = replace(good, findings=(monitor.confidence(torch.zeros(9, 2)),))
    assert undecided.grade == "doubtful" and undecided.failure_modes == ()
    collapsed = replace(good, findings=(monitor.clusters_in_use(confident(torch.zeros(9).long())),))
    assert collapsed.grade == "doubtful"


def test_a_diagnosis_survives_json() -> None:
    found = diagnose(healthy_features(), confident(labels()), confident(labels()))
    found = replace(found, evidence=EVIDENCE, gap_prior=0.1)
    written = json.loads(json.dumps(found.to_json()))
    assert TypeAdapter(Diagnosis).validate_python(written) == found


def test_a_trained_network_keeps_the_labels_of_its_start() -> None:
    x, _ = make_blobs(60, centers=[[0, 0], [9, 9]], random_state=0)
    model = GEDI(2, random_state=0, max_iter=50, w_gen=0).fit(x)
    assert model.diagnosis_.evidence.labels_kept == 1
