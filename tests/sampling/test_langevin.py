"""The Langevin kernel against closed forms for Gaussian densities."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor, nn

from gedilearn.sampling.langevin import Box, Kernel, State, run, step
from helpers import SEEDED

MEAN = torch.tensor([1.0, -2.0], dtype=torch.float64)
SPREAD = torch.tensor([0.5, 1.5], dtype=torch.float64)
CHAINS = 40_000


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(0)


def gaussian(x: Tensor) -> Tensor:
    """Log density of independent normal coordinates, up to a constant."""
    return -0.5 * ((x - MEAN) / SPREAD).square().sum(-1)


def points(*shape: int) -> Tensor:
    return torch.randn(*shape, 2, dtype=torch.float64)


def assert_mean_and_spread(x: Tensor, mean: Tensor, spread: Tensor) -> None:
    """Within 5 standard errors of sample mean and sample standard deviation."""
    n = len(x)
    assert bool(((x.mean(0) - mean).abs() < 5 * spread / math.sqrt(n)).all())
    assert bool(((x.std(0) - spread).abs() < 5 * spread / math.sqrt(2 * n)).all())


def test_one_step_has_the_mean_and_variance_of_its_closed_form() -> None:
    start = torch.tensor([0.3, 0.7], dtype=torch.float64)
    kernel = Kernel(step_size=0.1, noise=0.4)
    state, _ = step(State(start.expand(CHAINS, 2)), gaussian, kernel, SEEDED)
    drift = start + 0.1 * (MEAN - start) / SPREAD**2
    assert_mean_and_spread(state.position, drift, torch.full_like(drift, 0.4))


def test_many_steps_at_half_the_squared_noise_converge_to_the_density() -> None:
    noise = 0.25
    kernel = Kernel(step_size=noise**2 / 2, noise=noise)
    end = run(4 + points(15_000), gaussian, kernel, 600, SEEDED)
    # The fixed point of var -> (1 - step / s^2)^2 var + noise^2: above s^2 by the error of a
    # finite step, which at this step size is below 7 percent of the variance.
    factor = 1 - kernel.step_size / SPREAD**2
    discrete = (noise**2 / (1 - factor**2)).sqrt()
    assert_mean_and_spread(end, MEAN, discrete)
    torch.testing.assert_close(end.std(0), SPREAD, rtol=0.04, atol=0)


def test_info_tells_density_and_gradient_where_the_step_began() -> None:
    x = points(3, 7)
    _, info = step(State(x), gaussian, Kernel(0.1, 0.3), SEEDED)
    torch.testing.assert_close(info.log_density, gaussian(x))
    torch.testing.assert_close(info.gradient, (MEAN - x) / SPREAD**2)


def test_sampling_leaves_no_parameter_gradient_and_no_graph() -> None:
    network = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 1))
    x = torch.randn(6, 2, requires_grad=True)
    end = run(x, lambda x: network(x).squeeze(-1), Kernel(0.1, 0.1), 3, SEEDED)
    assert not end.requires_grad and end.grad_fn is None
    assert x.grad is None
    assert all(p.grad is None for p in network.parameters())
    _, info = step(State(x.detach()), lambda x: network(x).squeeze(-1), Kernel(0.1, 0.1), SEEDED)
    assert not info.log_density.requires_grad and not info.gradient.requires_grad


def test_no_coordinate_moves_further_along_the_gradient_than_allowed() -> None:
    x = 100 * points(50)
    free, _ = step(State(x), gaussian, Kernel(0.1, 0.0), SEEDED)
    held, _ = step(State(x), gaussian, Kernel(0.1, 0.0, max_move=0.3), SEEDED)
    wanted = free.position - x
    assert wanted.abs().max() > 0.3
    torch.testing.assert_close(held.position - x, wanted.clip(-0.3, 0.3))


def test_chains_stay_in_the_box_and_only_those_outside_are_moved() -> None:
    box = Box(torch.tensor([-1.0, 0.0]).double(), torch.tensor([1.0, 0.5]).double())
    x = points(200)
    torch.manual_seed(1)
    free, _ = step(State(x), gaussian, Kernel(0.1, 0.5), SEEDED)
    torch.manual_seed(1)
    held, _ = step(State(x), gaussian, Kernel(0.1, 0.5, None, box), SEEDED)
    assert bool((held.position >= box.low).all() and (held.position <= box.high).all())
    inside = (free.position >= box.low) & (free.position <= box.high)
    assert 0 < int(inside.sum()) < inside.numel()
    assert torch.equal(held.position[inside], free.position[inside])


def test_the_box_around_data_touches_it_and_fills_evenly() -> None:
    x = points(30)
    box = Box.around(x)
    for column, (low, high) in enumerate(zip(box.low, box.high, strict=True)):
        assert low == min(x[:, column].tolist()) and high == max(x[:, column].tolist())
    drawn = box.uniform(4, 5000, generator=SEEDED)
    assert drawn.shape == (4, 5000, 2)
    assert bool((drawn >= box.low).all() and (drawn <= box.high).all())
    width = box.high - box.low
    flat = drawn.flatten(0, 1)
    assert_mean_and_spread(flat, (box.low + box.high) / 2, width / math.sqrt(12))
