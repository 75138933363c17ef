"""The gap of members in closed form, and temperatures against a known posterior."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from sklearn.datasets import make_blobs
from torch import Tensor

from gedilearn import GEDI
from gedilearn.graph.views import CallableViews, NoiseViews
from gedilearn.methods.priors import Fixed
from gedilearn.models.energy import EnergyModel, outputs
from gedilearn.models.mlp import MLP, MemberModule
from gedilearn.verdict.bound import measure
from helpers import SEEDED


class Lookup(MemberModule):
    """Member k says `tables[k]` of the sign of the first coordinate."""

    def __init__(self, tables: Tensor) -> None:
        super().__init__()
        self.tables = tables
        self.n_members = len(tables)

    def forward(self, x: Tensor) -> Tensor:
        side = (x[..., 0] > 0).long()
        return torch.stack([table[s] for table, s in zip(self.tables, side, strict=True)])


def model(tables: Tensor) -> EnergyModel:
    head = MLP([2, 2], len(tables), generator=SEEDED)
    with torch.no_grad():
        head.weights[0].copy_(torch.eye(2).expand(len(tables), 2, 2))
        head.biases[0].zero_()
    return EnergyModel(Lookup(tables), head)


def test_each_member_gets_its_own_gap_known_in_closed_form() -> None:
    data = torch.tensor([[-1.0], [1.0]]).repeat(50, 1)
    sure, unsure = 30.0, 0.0
    tables = torch.tensor(
        [[[sure, 0], [0, sure]], [[unsure, 0], [0, unsure]], [[sure, 0], [sure, 0]]]
    )
    gap = measure(model(tables), data, NoiseViews(0.0), Fixed(), SEEDED).gap
    # balanced and sure: 0; uniform: log 2; one cluster: KL(uniform || (1, e^-30)) ~ 15 - log 2
    assert gap[0] == pytest.approx(0, abs=1e-6)
    assert gap[1] == pytest.approx(math.log(2), rel=1e-6)
    assert gap[2] == pytest.approx(15 - math.log(2), rel=1e-4)


def test_a_flipping_view_costs_the_margin() -> None:
    data = torch.tensor([[-1.0], [1.0]]).repeat(50, 1)
    tables = torch.tensor([[[8.0, 0], [0, 8.0]]])
    gap = measure(model(tables), data, CallableViews(lambda x: -x), Fixed(), SEEDED).gap
    p = math.exp(8) / (1 + math.exp(8))
    expected = -(p * math.log(1 - p) + (1 - p) * math.log(p))
    assert gap[0] == pytest.approx(expected, rel=1e-4)


def test_non_finite_members_have_an_infinite_gap() -> None:
    data = torch.tensor([[-1.0], [1.0]]).repeat(50, 1)
    tables = torch.tensor([[[float("nan"), 0], [0, 1.0]], [[9.0, 0], [0, 9.0]]])
    gap = measure(model(tables), data, NoiseViews(0.0), Fixed(), SEEDED).gap
    assert gap[0] == math.inf and gap[1] < 0.1


# --- temperatures


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


def test_probabilities_of_overlapping_clusters_mean_what_they_say() -> None:
    x, truth = two_gaussians(1)
    model = GEDI(2, random_state=1, w_gen=0.0).fit(x)
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
