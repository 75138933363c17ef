"""What draws x~ from a base, and the state that all kinds of samplers keep."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from gedilearn.density.base import Base
from gedilearn.density.fit import fit_base
from gedilearn.registry import SAMPLERS
from gedilearn.sampling.langevin import Box, SamplerContext
from gedilearn.settings import resolve
from helpers import seeded


@pytest.fixture(scope="module")
def base() -> Base:
    x = torch.from_numpy(np.random.default_rng(0).normal(size=(60, 2))).float()
    return fit_base(x, None, resolve({}, (60, 2)))


def made(kind: str, base: Base, members: int = 3) -> Any:
    settings = resolve({"sampler": {"buffer": 300, "steps": 5}}, (60, 2)).sampler
    box = Box.around(base.data)
    return SAMPLERS[kind](SamplerContext(settings, box, members, 20, seeded(), base=base))


def pulled(x: Tensor) -> Tensor:
    """log-densities of members, each with a slope of its own: (members, n, 2) -> (members, n)."""
    return 0.1 * torch.arange(1, 1 + len(x))[:, None] * torch.sin(x).sum(-1)


def same(*both: Any) -> bool:
    pairs = zip(*both, strict=True)
    return all(a is b or torch.equal(torch.as_tensor(a), torch.as_tensor(b)) for a, b in pairs)


@pytest.mark.parametrize("kind", ["langevin", "importance", "chains"])
def test_a_sampler_goes_on_from_its_state_to_the_bit(kind: str, base: Base) -> None:
    sampler, other = made(kind, base), made(kind, base)
    sampler.draw(pulled, 20, seeded(1))
    other.load_state(copy.deepcopy(sampler.state()))
    assert same(*(own.draw(pulled, 20, seeded(2)) for own in (sampler, other)))


def test_proposals_are_points_of_the_pool_with_their_weights(base: Base) -> None:
    samples, weights, data = made("importance", base).draw(pulled, 20, seeded(1))
    assert samples.shape == (3, 40, 2) and data.shape == (3, 20, 2)
    pool, drawn = (torch.cat([x, w[..., None]], -1) for x, w in (base.pool, (samples, weights)))
    assert set(map(tuple, drawn[2].tolist())) <= set(map(tuple, pool.tolist()))
    assert torch.equal(drawn[0], drawn[1]) and torch.equal(drawn[0], drawn[2])


def test_each_member_has_short_runs_of_its_own_network(base: Base) -> None:
    sampler = made("chains", base)
    samples, weights, data = sampler.draw(lambda x: 50 * pulled(x), 200, seeded(1))
    assert weights is None and samples.shape == data.shape == (3, 200, 2)
    # The steeper the network of a member, the farther its chains climb.
    heights = torch.sin(samples).sum(-1).mean(1)
    assert heights[0] < heights[1] < heights[2] and len(set(sampler.lengths)) == 3
