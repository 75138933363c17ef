"""Annealed importance sampling where the answer is known."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from gedilearn.density.gaussians import Gaussians
from gedilearn.sampling.annealing import Path, anneal, move, settle
from helpers import seeded

D = 4
UNIT = Gaussians.round(torch.zeros(1, D).double(), torch.ones(1).double())


def narrow(x: Tensor) -> Tensor:
    """A Gaussian of deviation 0.3 around 2, whose integral is known."""
    return -((x - 2).square().sum(-1)) / (2 * 0.3**2)


PATH, TRUE = Path(UNIT, narrow), D * math.log(0.3 * math.sqrt(2 * math.pi))


def assert_narrow(x: Tensor, within: float) -> None:
    assert torch.allclose(x.mean(0), torch.full((D,), 2.0).double(), atol=within)
    assert torch.allclose(x.std(0), torch.full((D,), 0.3).double(), atol=within)


def test_log_gamma_of_a_gaussian_far_from_the_proposals_is_its_integral() -> None:
    found = anneal(PATH, 2_000, 8, 10, seeded())
    assert float(found.effective) < 0.01  # plain importance weights would not do
    assert abs(float(found.log_normaliser) - TRUE) < max(4 * float(found.error), 0.02)
    assert float(found.error) < 0.2
    assert_narrow(found.points, 0.05)


def test_its_standard_error_is_that_of_repeated_runs() -> None:
    runs = [anneal(PATH, 500, 2, 0, seeded(k)) for k in range(12)]
    levels = torch.stack([run.log_normaliser for run in runs])
    said = torch.stack([run.error for run in runs]).mean()
    assert 0.3 < float(said / levels.std()) < 3


def test_metropolis_moves_leave_the_model_as_it_is_and_steps_without_noise_end_at_its_top() -> None:
    begin = 2 + 0.3 * torch.randn(5_000, D, generator=seeded(), dtype=torch.float64)
    end, length = move(PATH, begin, 1.0, 50, 0.05, seeded(1))
    assert 0.1 < length < 1.0  # tuned from a start that was too short
    assert_narrow(end, 0.03)
    assert float((end - begin).abs().mean()) > 0.2  # and they do move
    top = settle(PATH, begin, 200, 0.3)
    assert torch.allclose(top, torch.full_like(top, 2.0), atol=1e-6)
