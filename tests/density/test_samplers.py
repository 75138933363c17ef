"""Samplers on a base, and what all four kinds keep: their state, and the members that are left."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from gedilearn.density.base import Bases
from gedilearn.density.fit import fit_bases
from gedilearn.registry import SAMPLERS
from gedilearn.sampling.langevin import Box, SamplerContext
from gedilearn.settings import resolve
from helpers import seeded

KINDS = ("langevin", "importance", "chains", "amortised")
FAR = 1_000.0  # the second group is so far from the first


@pytest.fixture(scope="module")
def bases() -> Bases:
    own = torch.from_numpy(np.random.default_rng(0).normal(size=(60, 2))).float()
    return fit_bases(torch.stack([own, own + FAR]), None, resolve({}, (60, 2)))


def made(kind: str, bases: Bases, members: int = 4) -> Any:
    settings = resolve({"sampler": {"buffer": 300, "steps": 5}}, (60, 2)).sampler
    box = Box.around(bases.data.flatten(0, 1))
    return SAMPLERS[kind](SamplerContext(settings, box, members, 20, seeded(), bases=bases))


def pulled(x: Tensor) -> Tensor:
    """log-densities of members, each with a slope of its own: (members, n, 2) -> (members, n)."""
    return 0.1 * torch.arange(1, 1 + len(x))[:, None] * torch.sin(x).sum(-1)


def same(*both: Any) -> bool:
    pairs = zip(*both, strict=True)
    return all(a is b or torch.equal(torch.as_tensor(a), torch.as_tensor(b)) for a, b in pairs)


@pytest.mark.parametrize("kind", KINDS)
def test_a_sampler_goes_on_from_its_state_to_the_bit(kind: str, bases: Bases) -> None:
    sampler, other = made(kind, bases), made(kind, bases)
    sampler.draw(pulled, 20, seeded(1))
    other.load_state(copy.deepcopy(sampler.state()))
    assert same(*(own.draw(pulled, 20, seeded(2)) for own in (sampler, other)))


@pytest.mark.parametrize("kind", KINDS)
def test_members_that_are_left_go_on_with_their_own_group(kind: str, bases: Bases) -> None:
    sampler = made(kind, bases)  # two members in each group
    sampler.draw(pulled, 20, seeded(1))
    sampler.select([3, 0])
    left = 0 if kind == "importance" else 2  # proposals remember nothing
    assert all(len(part) == left for part in sampler.state().values())
    samples, weights, data, _ = sampler.draw(pulled, 20, seeded(2))
    assert samples.shape == (2, 40 if kind == "importance" else 20, 2)
    assert weights is None or weights.shape == samples.shape[:2]
    if data is not None:
        assert (data[0] > FAR / 2).all() and (data[1] < FAR / 2).all()
    if kind in ("importance", "chains"):  # generators begin around 0
        assert samples[0].median() > FAR / 2 > samples[1].median()


@pytest.mark.parametrize("kind", KINDS[1:])
def test_what_is_left_draws_as_a_sampler_made_for_it_alone(kind: str, bases: Bases) -> None:
    """A resumed training makes its sampler for the results that are left."""
    sampler, alone = made(kind, bases), made(kind, bases.select([1]), members=2)
    sampler.draw(pulled, 20, seeded(1))
    sampler.select([2, 3])
    alone.load_state(copy.deepcopy(sampler.state()))
    assert same(*(own.draw(pulled, 20, seeded(2)) for own in (sampler, alone)))


def test_proposals_are_points_of_the_pool_with_their_weights(bases: Bases) -> None:
    samples, weights, _, _ = made("importance", bases).draw(pulled, 20, seeded(1))
    pool, drawn = (torch.cat([x, w[..., None]], -1) for x, w in (bases.pool, (samples, weights)))
    assert set(map(tuple, drawn[2].tolist())) <= set(map(tuple, pool[1].tolist()))
    assert torch.equal(drawn[0], drawn[1]) and torch.equal(drawn[2], drawn[3])
