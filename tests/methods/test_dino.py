"""DINO against plain loops in float64."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from gedilearn.methods.dino import DINO
from gedilearn.methods.method import Batch
from gedilearn.models.build import build_model
from gedilearn.models.energy import EnergyModel
from gedilearn.settings import resolve
from helpers import SEEDED


def make(**options: float) -> tuple[EnergyModel, DINO]:
    values = {"method": "dino", "n_clusters": 3, "network": {"hidden": (8,), "head": (6,)}}
    settings = resolve(values | {"dino": {"embedding": 4, **options}}, (60, 2))
    return build_model(settings, (2,), n_members=2, generator=SEEDED).double(), DINO(settings.own)


def make_batch(n: int = 10) -> Batch:
    x, view = torch.randn(2, n, 2, dtype=torch.float64)
    return Batch(torch.arange(n), x, view, 1, 0.5, SEEDED)


def cosines(model: EnergyModel, batch: Batch) -> np.ndarray:
    """What the head gives before any temperature: (2, members, n, clusters)."""
    with torch.no_grad():
        views = (model.encoder(x.expand(2, -1, -1)) for x in (batch.x, batch.view))
        return np.stack([model.head(h)[2].numpy() for h in views])


def shares(scores: np.ndarray) -> np.ndarray:
    return np.exp(scores) / np.exp(scores).sum()


def train(model: EnergyModel, method: DINO, steps: int) -> None:
    optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
    for step in range(1, steps + 1):
        optimizer.zero_grad()
        method.terms(model, model, make_batch())["distillation"].sum().backward()
        optimizer.step()
        method.after_step(model, step / (2 * steps))


def brute_force(student: np.ndarray, teacher: np.ndarray, centre: np.ndarray) -> float:
    """The loss of one member, point by point.  student, teacher: (2, n, clusters)."""
    losses = []
    for view in range(2):
        for i in range(student.shape[1]):
            target = shares((teacher[1 - view, i] - centre) / 0.04)
            losses.append(-(target * np.log(shares(student[view, i] / 0.1))).sum())
    return float(np.mean(losses))


def test_the_loss_equals_a_loop_over_members_and_points() -> None:
    model, method = make(momentum=0.5)
    train(model, method, 3)
    assert method.centre is not None
    centre, batch = method.centre.numpy(), make_batch()
    student, teacher = cosines(model, batch), cosines(method.measured(model), batch)
    assert np.abs(student - teacher).max() > 0.01 and np.abs(centre).max() > 0.01
    got = method.terms(model, model, batch)
    assert got.keys() == {"distillation"}
    for k in range(2):
        expected = brute_force(student[:, k], teacher[:, k], centre[k, 0])
        assert float(got["distillation"][k].detach()) == pytest.approx(expected, abs=1e-6)


def test_the_centre_starts_at_zero_and_remembers_past_batches() -> None:
    model, method = make(centre_momentum=0.8)
    expected = np.zeros((2, 3))
    for _ in range(3):
        batch = make_batch()
        output = cosines(model, batch)
        before = expected
        for k in range(2):
            mean = np.concatenate([output[0, k], output[1, k]]).mean(0)
            expected = expected.copy()
            expected[k] = 0.8 * expected[k] + 0.2 * mean
        got = method.terms(model, model, batch)["distillation"]
        for k in range(2):  # the batch itself is centred by those before it
            loss = brute_force(output[:, k], output[:, k], before[k])
            assert float(got[k].detach()) == pytest.approx(loss, abs=1e-6)
        assert method.centre is not None
        np.testing.assert_allclose(method.centre[:, 0], expected, atol=1e-12)


@pytest.mark.parametrize(
    ("progress", "momentum"), [(0.0, 0.9), (0.25, 0.95 - 0.05 / math.sqrt(2)), (0.5, 0.95), (1, 1)]
)
def test_the_teacher_follows_ever_more_slowly(progress: float, momentum: float) -> None:
    model, method = make(momentum=0.9)
    before = {name: v.clone() for name, v in method.measured(model).state_dict().items()}
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter))
    method.after_step(model, progress)
    now, student = method.measured(model).state_dict(), model.state_dict()
    lengths = student["head.prototypes"].norm(dim=1)
    torch.testing.assert_close(lengths, torch.ones_like(lengths))
    for name, old in before.items():
        expected = momentum * old + (1 - momentum) * student[name]
        torch.testing.assert_close(now[name], expected, rtol=0, atol=1e-12)
