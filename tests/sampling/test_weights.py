"""Importance weights against numpy."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from gedilearn.sampling.weights import effective_share, log_mean_exp, resampled
from helpers import seeded

LOGS = torch.from_numpy(np.random.default_rng(0).normal(0, 2, (3, 500)))


def test_shares_and_means_are_those_of_the_weights_themselves() -> None:
    weights = LOGS.exp().numpy()
    share = weights.sum(1) ** 2 / (weights**2).sum(1) / 500
    np.testing.assert_allclose(effective_share(LOGS), share)
    np.testing.assert_allclose(log_mean_exp(LOGS).exp(), weights.mean(1))
    assert float(effective_share(LOGS[0] * 0 + 7e3)) == pytest.approx(1)  # no overflow


def test_points_are_drawn_as_often_as_their_weight_says_to_within_one() -> None:
    expected = 2_000 * LOGS[0].softmax(0).numpy()
    counts = np.bincount(resampled(LOGS[0], 2_000, seeded()), minlength=500)
    assert counts.sum() == 2_000 and (np.abs(counts - expected) < 1 + 1e-6).all()
