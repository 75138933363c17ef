"""The Langevin kernel against closed forms for Gaussian densities, and the replay buffer."""

from __future__ import annotations

import math

import pytest
import torch
from scipy.stats import chi2
from torch import Generator, Tensor, nn

from gedilearn.sampling.langevin import Box, Kernel, ReplayBuffer, move, run, step
from helpers import SEEDED

MEAN = torch.tensor([1.0, -2.0], dtype=torch.float64)
SPREAD = torch.tensor([0.5, 1.5], dtype=torch.float64)


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
    start, kernel = torch.tensor([0.3, 0.7], dtype=torch.float64), Kernel(0.1, noise=0.4)
    end = step(start.expand(40_000, 2), gaussian, kernel, SEEDED)
    drift = start + 0.1 * (MEAN - start) / SPREAD**2
    assert_mean_and_spread(end, drift, torch.full_like(drift, 0.4))


def test_many_steps_at_half_the_squared_noise_converge_to_the_density() -> None:
    noise = 0.25
    kernel = Kernel(step_size=noise**2 / 2, noise=noise)
    end = run(4 + points(15_000), gaussian, kernel, 600, SEEDED)
    # The fixed point of var -> (1 - step / s^2)^2 var + noise^2: above s^2 by the error of a
    # finite step, which at this step size is below 7 percent of the variance.
    factor = 1 - kernel.step_size / SPREAD**2
    assert_mean_and_spread(end, MEAN, (noise**2 / (1 - factor**2)).sqrt())
    torch.testing.assert_close(end.std(0), SPREAD, rtol=0.04, atol=0)


def test_metropolis_moves_leave_the_density_as_it_is_and_tune_their_length() -> None:
    begin = MEAN + SPREAD * points(5_000)
    end, length = move(gaussian, begin, 50, 0.05, SEEDED)
    assert 0.2 < length < 2.0  # from a start that was too short
    assert_mean_and_spread(end, MEAN, SPREAD)
    assert float((end - begin).abs().mean()) > 0.3  # and they do move
    # Steps that are never refused end in a wider distribution.
    free, _ = move(gaussian, begin, 50, 1.0, SEEDED, corrected=False)
    assert float(free[:, 0].std()) > 1.1 * float(SPREAD[0])


def test_sampling_leaves_no_parameter_gradient_and_no_graph() -> None:
    network = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 1))
    x = torch.randn(6, 2, requires_grad=True)
    end = run(x, lambda x: network(x).squeeze(-1), Kernel(0.1, 0.1), 3, SEEDED)
    assert not end.requires_grad and end.grad_fn is None
    assert x.grad is None and all(p.grad is None for p in network.parameters())


def test_no_coordinate_moves_further_than_allowed_or_out_of_the_box() -> None:
    box = Box(torch.tensor([-1.0, 0.0]).double(), torch.tensor([1.0, 0.5]).double())
    x, ends = points(200), []
    for limits in ((None, None), (0.3, None), (None, box)):
        torch.manual_seed(1)
        ends.append(step(x, gaussian, Kernel(0.5, 0.2, *limits), SEEDED))
    free, held, inside = ends
    move = 0.5 * (MEAN - x) / SPREAD**2
    torch.testing.assert_close(held - free, move.clip(-0.3, 0.3) - move)
    torch.testing.assert_close(inside, torch.maximum(torch.minimum(free, box.high), box.low))
    assert 0 < int((inside == free).sum()) < free.numel() and move.abs().max() > 0.3


def test_the_box_around_data_touches_it_and_fills_evenly() -> None:
    x = points(30)
    box, ordered = Box.around(x), x.sort(0).values
    assert torch.equal(box.low, ordered[0]) and torch.equal(box.high, ordered[-1])
    drawn = box.uniform(4, 5000, generator=SEEDED).flatten(0, 1)
    assert bool((drawn >= box.low).all() and (drawn <= box.high).all())
    middle, width = (box.low + box.high) / 2, box.high - box.low
    assert_mean_and_spread(drawn, middle, width / math.sqrt(12))


# --- the replay buffer: which chains are drawn, which restart, and where results go ---------------


def fresh(*shape: int, generator: Generator) -> Tensor:
    """Initial points in two dimensions, all in [0, 1)."""
    return torch.rand(*shape, 2, generator=generator)


def numbered(members: int, size: int, restart: float = 0.0) -> ReplayBuffer:
    """A buffer whose slot s of member k holds (-1 - k, -1 - s): never a fresh point.

    Without noise, a log density of slope (1, 1) moves every chain by 3 * 0.5.
    """
    buffer = ReplayBuffer(members, size, restart, fresh, Kernel(0.5, 0.0), 3, SEEDED)
    buffer.positions = -1.0 - torch.cartesian_prod(torch.arange(members), torch.arange(size))
    buffer.positions = buffer.positions.view(members, size, 2)
    return buffer


@pytest.mark.parametrize(("size", "batch"), [(10, 10), (40, 8), (30, 7), (5, 1)])
def test_every_slot_is_equally_likely_and_no_two_chains_share_one(size: int, batch: int) -> None:
    buffer, draws, counts = numbered(2, size), 2_000, torch.zeros(size)
    for _ in range(draws):
        positions, slots = buffer.begin(batch, SEEDED)
        assert all(len(set(row)) == batch for row in slots.tolist())
        counts += torch.bincount(slots.flatten(), minlength=size)
    # Chains go on from their own member and slot.
    assert torch.equal(positions[..., 1], -1.0 - slots)
    assert torch.equal(positions[..., 0], (-1.0 - torch.arange(2))[:, None].expand(2, batch))
    expected = draws * 2 * batch / size
    assert float(((counts - expected) ** 2 / expected).sum()) < chi2.ppf(0.999, size - 1)


def test_chains_restart_as_often_as_asked_and_as_whole_points() -> None:
    buffer, restarted, chances = numbered(2, 1000, restart=0.05), 0, 50 * 2 * 200
    for _ in range(50):
        is_fresh = buffer.begin(200, SEEDED)[0] >= 0
        assert torch.equal(is_fresh[..., 0], is_fresh[..., 1])
        restarted += int(is_fresh[..., 0].sum())
    assert abs(restarted - 0.05 * chances) < 4 * math.sqrt(chances * 0.05 * 0.95)


def test_chains_leave_their_samples_where_they_started() -> None:
    buffer = numbered(2, 40)
    before = buffer.positions.clone()
    samples = buffer.draw(lambda x: x.sum(-1), 10, SEEDED).samples
    moved = buffer.positions - before
    assert torch.equal(moved.unique(), torch.tensor([0.0, 1.5]))
    assert int((moved != 0).all(-1).sum()) == 2 * 10
    for k in range(2):
        slots = (-(samples[k, :, 1] - 1.5) - 1).long()
        assert torch.equal(buffer.positions[k, slots], samples[k])
