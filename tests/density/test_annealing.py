"""Annealed importance sampling where the answer is known."""

from __future__ import annotations

import math

import torch
from torch import Generator, Tensor

from gedilearn.density.annealing import (
    Path,
    anneal,
    move,
)
from gedilearn.density.base import Gaussians

D = 4
UNIT = Gaussians.full(
    torch.ones(1).double(), torch.zeros(1, D).double(), torch.eye(D).double()[None]
)


def seeded(seed: int = 0) -> Generator:
    return Generator().manual_seed(seed)


def narrow(x: Tensor) -> Tensor:
    """A Gaussian of deviation 0.3 around 2, whose integral is known."""
    return -((x - 2).square().sum(-1)) / (2 * 0.3**2)


TRUE = D * math.log(0.3 * math.sqrt(2 * math.pi))


def test_log_gamma_of_a_gaussian_far_from_the_proposals_is_its_integral() -> None:
    found = anneal(Path(UNIT, narrow), 2_000, 8, 10, seeded())
    assert float(found.effective) < 0.01  # plain importance weights would not do
    assert abs(float(found.log_normaliser) - TRUE) < max(4 * float(found.error), 0.02)
    assert float(found.error) < 0.2
    assert torch.allclose(found.points.mean(0), torch.full((D,), 2.0).double(), atol=0.05)
    assert torch.allclose(found.points.std(0), torch.full((D,), 0.3).double(), atol=0.05)


def test_its_standard_error_is_that_of_repeated_runs() -> None:
    runs = [anneal(Path(UNIT, narrow), 500, 2, 0, seeded(k)) for k in range(12)]
    levels = torch.stack([run.log_normaliser for run in runs])
    said = torch.stack([run.error for run in runs]).mean()
    assert 0.3 < float(said / levels.std()) < 3


def test_metropolis_moves_leave_the_model_as_it_is() -> None:
    begin = 2 + 0.3 * torch.randn(5_000, D, generator=seeded(), dtype=torch.float64)
    end, length = move(Path(UNIT, narrow), begin, 1.0, 50, 0.05, seeded(1))
    assert 0.1 < length < 1.0  # tuned from a start that was too short
    assert torch.allclose(end.mean(0), torch.full((D,), 2.0).double(), atol=0.03)
    assert torch.allclose(end.std(0), torch.full((D,), 0.3).double(), atol=0.02)
    assert float((end - begin).abs().mean()) > 0.2  # and they do move
