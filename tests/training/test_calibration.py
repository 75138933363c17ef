"""Temperatures: probabilities of overlapping Gaussians against their known posterior."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.datasets import make_blobs

from gedilearn import GEDI
from gedilearn.models.energy import outputs
from gedilearn.training import certificate as calibration


def two_gaussians(seed: int) -> tuple[np.ndarray, np.ndarray]:
    """600 points of each of N(0, 1) and N(2.5, 1) beside a column of noise, and p(second|x)."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(1200, 2))
    x[600:, 0] += 2.5
    return x, 1 / (1 + np.exp(-2.5 * (x[:, 0] - 1.25)))


def calibration_error(p: np.ndarray, truth: np.ndarray) -> float:
    """ECE of the likelier cluster, ten bins, right as often as the known posterior says."""
    label, sure = p.argmax(axis=1), p.max(axis=1)
    if (truth[label == 1].mean() if (label == 1).any() else 0.0) < 0.5:
        label = 1 - label
    right = np.where(label == 1, truth, 1 - truth)
    bins = np.minimum((sure * 10).astype(int), 9)
    return float(sum(abs((sure - right)[bins == k].sum()) for k in range(10)) / len(p))


@pytest.mark.parametrize("seed", [0, 1])
def test_probabilities_of_overlapping_clusters_mean_what_they_say(seed: int) -> None:
    x, truth = two_gaussians(seed)
    model = GEDI(2, random_state=seed, w_gen=0.0).fit(x)
    assert calibration_error(model.predict_proba(x), truth) <= 0.06
    np.testing.assert_array_equal(model.predict_proba(x).argmax(axis=1), model.labels_)


def test_networks_that_are_trained_for_long_are_too_sure_and_cooled_down() -> None:
    x, truth = two_gaussians(0)
    to_the_end = {"training.max_iter": 200, "training.patience": 1000}
    model = GEDI(2, random_state=0, w_gen=0.0, settings=to_the_end).fit(x)
    logits = outputs(model.model_, model.prepare(x)).logits
    before = calibration_error(torch.softmax(logits, 1).numpy(), truth)
    assert model.result_.temperature > 1.5
    assert calibration_error(model.predict_proba(x), truth) < 0.6 * before


def test_separated_clusters_need_no_temperature() -> None:
    x = make_blobs(300, centers=[[0, 0], [12, 0]], random_state=0)[0]
    model = GEDI(2, random_state=0, w_gen=0.0).fit(x)
    assert model.result_.temperature == pytest.approx(1.0)
    assert model.predict_proba(x).max(axis=1).min() > 0.99


def test_the_spread_within_clusters_is_that_of_their_own_means() -> None:
    data = torch.tensor([[0.0], [2.0], [10.0], [14.0]])
    labels = torch.tensor([0, 0, 2, 2])
    assert calibration._within(data, labels) == pytest.approx(np.sqrt((1 + 1 + 4 + 4) / 4))
