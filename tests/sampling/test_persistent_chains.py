"""The replay buffer: which chains are drawn, which restart, and where results go."""

from __future__ import annotations

import math

import pytest
import torch
from scipy.stats import chi2
from torch import Generator, Tensor

from gedilearn.sampling.langevin import Kernel, PersistentChains, ReplayBuffer, Stages
from helpers import SEEDED


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(0)


def fresh(*shape: int, generator: Generator) -> Tensor:
    """Initial points in two dimensions, all in [0, 1)."""
    return torch.rand(*shape, 2, generator=generator)


def numbered(members: int, size: int, restart: float = 0.0) -> ReplayBuffer:
    """A buffer whose slot s of member k holds (-1 - k, -1 - s): never a fresh point."""
    buffer = ReplayBuffer(members, size, restart, fresh, SEEDED)
    member = torch.arange(members)[:, None].expand(members, size)
    slot = torch.arange(size).expand(members, size)
    buffer.positions = -1.0 - torch.stack([member, slot], -1)
    return buffer


@pytest.mark.parametrize(("size", "batch"), [(10, 10), (10, 7), (100, 33), (10_000, 400), (5, 1)])
def test_no_two_chains_of_a_batch_share_a_slot(size: int, batch: int) -> None:
    buffer = ReplayBuffer(3, size, 0.0, fresh, SEEDED)
    for _ in range(20):
        _, slots = buffer.draw(batch, SEEDED)
        assert slots.shape == (3, batch)
        assert slots.min() >= 0 and slots.max() < size
        for row in slots.tolist():
            assert len(set(row)) == batch


@pytest.mark.parametrize(("size", "batch"), [(40, 8), (30, 7)])
def test_every_slot_is_equally_likely(size: int, batch: int) -> None:
    buffer = ReplayBuffer(1, size, 0.0, fresh, SEEDED)
    draws = 4000
    counts = torch.zeros(size)
    for _ in range(draws):
        counts += torch.bincount(buffer.draw(batch, SEEDED)[1].flatten(), minlength=size)
    expected = draws * batch / size
    statistic = float(((counts - expected) ** 2 / expected).sum())
    assert statistic < chi2.ppf(0.999, size - 1)


def test_without_restarts_chains_go_on_from_their_own_member_and_slot() -> None:
    positions, slots = numbered(3, 100).draw(20, SEEDED)
    assert torch.equal(positions[..., 1], -1.0 - slots)
    assert torch.equal(positions[..., 0], (-1.0 - torch.arange(3))[:, None].expand(3, 20))


def test_chains_restart_as_often_as_asked_and_as_whole_points() -> None:
    buffer = numbered(2, 1000, restart=0.05)
    restarted = 0
    for _ in range(50):
        is_fresh = buffer.draw(200, SEEDED)[0] >= 0
        assert torch.equal(is_fresh[..., 0], is_fresh[..., 1])
        restarted += int(is_fresh[..., 0].sum())
    chances = 50 * 2 * 200
    spread = math.sqrt(chances * 0.05 * 0.95)
    assert abs(restarted - 0.05 * chances) < 4 * spread


def test_drawing_changes_nothing_and_storing_changes_only_the_drawn_slots() -> None:
    buffer = numbered(3, 100, restart=0.5)
    before = buffer.positions.clone()
    _, slots = buffer.draw(10, SEEDED)
    assert torch.equal(buffer.positions, before)
    new = torch.full((3, 10, 2), 7.0) + torch.arange(10)[:, None]
    buffer.store(slots, new)
    for k in range(3):
        for slot in range(100):
            place = (slots[k] == slot).nonzero().flatten().tolist()
            expected = new[k, place[0]] if place else before[k, slot]
            assert torch.equal(buffer.positions[k, slot], expected)


def test_persistent_chains_leave_their_samples_where_they_started() -> None:
    buffer = numbered(2, 40)
    # Without noise, a log density of slope (1, 1) moves every chain by steps * step_size.
    chains = PersistentChains(buffer, Kernel(step_size=0.5, noise=0.0), steps=3)
    before = buffer.positions.clone()
    samples = chains.draw(lambda x: x.sum(-1), 10, SEEDED)
    moved = buffer.positions - before
    assert torch.equal(moved.unique(), torch.tensor([0.0, 1.5]))
    assert int((moved != 0).all(-1).sum()) == 2 * 10
    for k in range(2):
        slots = (-(samples[k, :, 1] - 1.5) - 1).long()
        assert torch.equal(buffer.positions[k, slots], samples[k])


def flat(x: Tensor) -> Tensor:
    """A density without a slope: chains move by their noise alone."""
    return 0 * x.sum(-1)


def test_in_stages_the_noise_falls_with_the_draws_since_a_restart() -> None:
    """k draws after its restart a chain has the noise last + (first - last) max(0, 1 - k / 3)."""
    buffer = ReplayBuffer(2, 4_000, 0.0, fresh, SEEDED)
    chains = PersistentChains(buffer, Kernel(1.0, 0.01), 10, Stages(0.05, 3))
    for k in range(6):
        before = chains.positions.clone()
        chains.draw(flat, 4_000, SEEDED)
        expected = 0.01 + (0.05 - 0.01) * max(0, 1 - k / 3)
        moved = (chains.positions - before).std() / math.sqrt(10)
        assert float(moved) == pytest.approx(expected, rel=0.05)
