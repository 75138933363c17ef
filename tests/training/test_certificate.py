from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from gedilearn.data.views import CallableViews, NoiseViews
from gedilearn.methods.priors import Fixed
from gedilearn.models.energy import EnergyModel
from gedilearn.models.mlp import MLP, MemberModule
from gedilearn.training.certificate import measure
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
    gap = measure(model(tables), data[None], [NoiseViews(0.0)], Fixed(), SEEDED).gap
    # balanced and sure: 0; uniform: log 2; one cluster: KL(uniform || (1, e^-30)) ~ 15 - log 2
    assert gap[0] == pytest.approx(0, abs=1e-6)
    assert gap[1] == pytest.approx(math.log(2), rel=1e-6)
    assert gap[2] == pytest.approx(15 - math.log(2), rel=1e-4)


def test_a_flipping_view_costs_the_margin() -> None:
    data = torch.tensor([[-1.0], [1.0]]).repeat(50, 1)
    tables = torch.tensor([[[8.0, 0], [0, 8.0]]])
    gap = measure(model(tables), data[None], [CallableViews(lambda x: -x)], Fixed(), SEEDED).gap
    p = math.exp(8) / (1 + math.exp(8))
    expected = -(p * math.log(1 - p) + (1 - p) * math.log(p))
    assert gap[0] == pytest.approx(expected, rel=1e-4)


def test_non_finite_members_have_an_infinite_gap() -> None:
    data = torch.tensor([[-1.0], [1.0]]).repeat(50, 1)
    tables = torch.tensor([[[float("nan"), 0], [0, 1.0]], [[9.0, 0], [0, 9.0]]])
    gap = measure(model(tables), data[None], [NoiseViews(0.0)], Fixed(), SEEDED).gap
    assert gap[0] == math.inf and gap[1] < 0.1


def test_measuring_leaves_the_training_mode_as_it_was() -> None:
    net = model(torch.zeros(1, 2, 2))
    net.train()
    measure(net, torch.randn(1, 10, 1), [NoiseViews(0.1)], Fixed(), SEEDED)
    assert net.training
