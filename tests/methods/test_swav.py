"""SwAV against plain loops in float64."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

from gedilearn.methods.method import Batch
from gedilearn.methods.settings import SwAV as Options
from gedilearn.methods.swav import SwAV, sinkhorn
from gedilearn.models.build import build_model
from gedilearn.models.energy import EnergyModel
from gedilearn.models.heads import PrototypeHead
from gedilearn.settings import resolve
from helpers import SEEDED


def plain_sinkhorn(scores: np.ndarray, epsilon: float, iterations: int) -> np.ndarray:
    q = np.exp(scores / epsilon)
    for _ in range(iterations):
        q = q / q.sum(0, keepdims=True)
        q = q / q.sum(1, keepdims=True)
    return q


def make(**options: float) -> tuple[EnergyModel, SwAV]:
    values = {"method": "swav", "n_clusters": 3, "network": {"hidden": (8,), "head": (6,)}}
    settings = resolve(values | {"swav": {"embedding": 4, **options}}, (60, 2))
    return build_model(settings, (2,), n_members=2, generator=SEEDED).double(), SwAV(settings.own)


def make_batch(n: int = 10, progress: float = 0.5) -> Batch:
    x, view = torch.randn(2, n, 2, dtype=torch.float64)
    return Batch(torch.arange(n), x, view, 1, progress, SEEDED)


def prototypes(model: EnergyModel) -> Tensor:
    assert isinstance(model.head, PrototypeHead)
    return model.head.prototypes


def brute_force(embedding: np.ndarray, prototypes: np.ndarray, options: Options) -> float:
    """The loss of one member, point by point.  embedding: (2, n, d)."""
    n = embedding.shape[1]
    q = [
        plain_sinkhorn(points @ prototypes, options.epsilon, options.iterations)
        for points in embedding
    ]
    losses = []
    for view in range(2):
        for i in range(n):
            scores = [np.exp(embedding[view, i] @ c / options.temperature) for c in prototypes.T]
            for k, score in enumerate(scores):
                losses.append(-q[1 - view][i, k] * np.log(score / sum(scores)))
    return sum(losses) / (2 * n)


def embeddings(model: EnergyModel, batch: Batch) -> np.ndarray:
    """(members, 2, n, d), from one pass over both views as batch statistics want it."""
    both = torch.cat([batch.x, batch.view]).expand(model.n_members, -1, -1)
    embedding = model(both).embedding
    assert embedding is not None
    return torch.stack(embedding.detach().chunk(2, dim=1), dim=1).numpy()


def test_sinkhorn_equals_the_plain_algorithm() -> None:
    scores = 0.3 * torch.randn(20, 4, dtype=torch.float64)
    expected = plain_sinkhorn(scores.numpy(), 0.05, 3)
    np.testing.assert_allclose(sinkhorn(scores), expected, rtol=0, atol=1e-6)
    np.testing.assert_allclose(sinkhorn(scores.float()), expected, rtol=0, atol=1e-5)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
@pytest.mark.parametrize("size", [0.3, 1.0, 1e4])
def test_rows_sum_to_one_however_large_the_scores(size: float, dtype: torch.dtype) -> None:
    scores = size * (2 * torch.rand(50, 5) - 1)
    q = sinkhorn(scores.to(dtype))
    assert q.isfinite().all() and (q >= 0).all()
    torch.testing.assert_close(q.sum(-1), torch.ones_like(q[:, 0]), rtol=0, atol=1e-6)


def test_the_loss_equals_a_loop_over_members_and_points() -> None:
    (model, method), batch = make(), make_batch()
    got = method.terms(model, model, batch)
    assert got.keys() == {"swap"}
    for k, own in enumerate(embeddings(model, batch)):
        expected = brute_force(own, prototypes(model)[k].detach().numpy(), method.options)
        assert float(got["swap"][k].detach()) == pytest.approx(expected, abs=1e-6)


def test_prototypes_move_at_length_one() -> None:
    model, method = make()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    for _ in range(3):
        start = prototypes(model).detach().clone()
        optimizer.zero_grad()
        method.terms(model, model, make_batch())["swap"].sum().backward()
        optimizer.step()
        method.after_step(model, 0.5)
        assert (prototypes(model) - start).abs().max() > 0.01
        lengths = prototypes(model).norm(dim=1)
        torch.testing.assert_close(lengths, torch.ones_like(lengths))
