"""Which estimator of GEN is taken: importance weights while they are healthy, else chains."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from gedilearn import GEDI
from gedilearn.density.base import Candidate, Gaussians
from gedilearn.density.density import Density, Energy, Sizes
from gedilearn.density.findings import Findings
from gedilearn.density.fit import fit_density, learn_folds_by_chains
from gedilearn.density.importance import (
    CHECKED,
    HEALTHY,
    Learnt,
    Weighed,
    learn_on_own_base,
    level_of,
)
from gedilearn.settings import Settings, resolve


def seeded() -> torch.Generator:
    return torch.Generator().manual_seed(0)


def settings_of(shape: tuple[int, ...], steps: int = 5, **density: Any) -> Settings:
    return resolve({"density": density, "sampler": {"steps": steps}}, shape)


def fitted(x: np.ndarray, steps: int = 5, **density: Any) -> tuple[Density, Findings]:
    found = torch.from_numpy(x)
    return fit_density(found, np.arange(len(x)) % 2, settings_of(x.shape, steps, **density))


def few_rows_in_many_columns() -> np.ndarray:
    """Which a network soon learns by heart: its weights are then those of few proposals."""
    return np.random.default_rng(0).standard_t(3, size=(60, 12))


def test_effective_weights_and_the_level_are_those_of_their_formulas() -> None:
    rng = np.random.default_rng(0)
    logs = rng.normal(size=(2, 400)) * [[0.5], [4.0]]
    level, counted = level_of(torch.from_numpy(logs))
    w = np.exp(logs)
    expected = w.sum(1) ** 2 / (w**2).sum(1)
    np.testing.assert_allclose(counted, expected)
    assert expected[0] > HEALTHY > expected[1] and level[1] == math.inf
    error = w[0].std() / w[0].mean() / math.sqrt(400)  # of the mean, relative
    np.testing.assert_allclose(level[0], np.log(w[0].mean()) + error)


def test_weights_that_are_healthy_are_those_that_were_asked_for_to_the_bit() -> None:
    x = np.random.default_rng(0).normal(size=(200, 2)) ** 3
    (auto, found), (asked, same) = (
        fitted(x, estimator=name, iterations=100) for name in ("auto", "importance")
    )
    assert torch.equal(
        auto.log_density(torch.from_numpy(x)), asked.log_density(torch.from_numpy(x))
    )
    assert found == same and found.estimator == "importance"
    assert found.counted is not None and HEALTHY < found.counted <= CHECKED
    assert (
        found.choice
        == f"importance weights: {found.counted:.1f} of 4,000 weighted proposals counted"
    )


def test_weights_that_are_not_give_way_to_chains_and_what_adds_nothing_is_not_kept() -> None:
    x = few_rows_in_many_columns()
    _, found = fitted(x)
    assert found.estimator == "chains" and found.weighted < found.iterations
    assert found.counted is not None and found.counted < HEALTHY
    assert f"{found.counted:.1f} of 4,000" in found.verdict
    assert found.gain > -1e-9 and (found.weight > 0 or "the base alone" in found.verdict)


def test_an_event_tells_the_estimator_and_the_number_that_it_was_chosen_by(tmp_path: Path) -> None:
    quick = {"training.max_iter": 25, "training.check_every": 25, "sampler.steps": 5}
    model = GEDI(2, random_state=0, settings=quick, run_dir=tmp_path / "run")
    model.fit(few_rows_in_many_columns())
    events = [json.loads(line) for line in (tmp_path / "run/events.jsonl").open()]
    (event,) = (event for event in events if event["kind"] == "estimator")
    found = model.density_
    assert found is not None and event["message"] == found.choice
    assert event["effective"] == found.counted and event["proposals"] == CHECKED
    assert event["message"].startswith("chains from the base instead of importance weights")


def test_wide_data_whose_weights_are_not_healthy_have_the_chains_that_are_asked_for() -> None:
    x = np.random.default_rng(0).standard_t(3, size=(80, 70))
    (auto, found), (asked, same) = (
        fitted(x, steps=2, estimator=name, iterations=50) for name in ("auto", "chains")
    )
    assert found.estimator == same.estimator == "chains" and same.counted is None
    assert found.counted is not None and found.counted < HEALTHY
    points = torch.from_numpy(x)
    assert torch.equal(auto.log_density(points), asked.log_density(points))


def nothing_by_weights(base: Gaussians, x: Tensor, held: Tensor) -> Learnt:
    """What there is where weights were given up before anything was gained."""
    energy = Energy(x.shape[1], len(held), generator=seeded())
    energy.load_state_dict({k: torch.zeros_like(v) for k, v in energy.state_dict().items()})
    start = Candidate("", base, torch.stack([base.log_density(x[own].double()) for own in held]))
    return Learnt(start, energy, torch.zeros(held.shape).double(), Weighed(50, 1.0, False))


def normal(deviation: float, d: int = 1) -> Gaussians:
    factor = deviation * torch.eye(d).double()
    return Gaussians.full(torch.ones(1).double(), torch.zeros(1, d).double(), factor[None])


def normal_rows(n: int, d: int = 1) -> Tensor:
    return torch.from_numpy(np.random.default_rng(0).normal(size=(n, d))).float()


def gain_over(deviation: float, x: Tensor) -> float:
    """By how much points of N(0, 1) are likelier under it than under N(0, deviation^2)."""
    return float((math.log(deviation) - x.square() / 2 * (1 - deviation**-2)).mean())


def exact_normaliser(energy: Energy, base: Gaussians) -> Tensor:
    """log of the integral of b exp(g) of each member, by a sum over a grid."""
    nodes = torch.linspace(-12, 12, 4_001)[:, None]
    g = energy(nodes.expand(len(energy.phases), -1, -1)).double().detach()
    return (g + base.log_density(nodes.double())).logsumexp(1) + math.log(24 / 4_000)


def test_chains_of_each_fold_gain_what_a_grid_says_that_they_do() -> None:
    x, held, base = normal_rows(300), torch.arange(300).view(3, 100)[:2], normal(2.0)
    settings = settings_of((300, 1), 8, iterations=100)
    found, iterations = learn_folds_by_chains(
        x, held, nothing_by_weights(base, x, held), settings, seeded(), lambda done, total: None
    )
    assert 0 < iterations <= 100
    for own, gain in zip(held, found.gain, strict=True):
        assert 0.1 < float(gain.mean()) < gain_over(2.0, x[own]) + 0.1
    gains = found.energy(x[held]).double().mean(1) - exact_normaliser(found.energy, base)
    np.testing.assert_allclose(found.gain.mean(1), gains.detach(), atol=0.1)


@pytest.mark.parametrize("deviation", [2.0, 300.0])
def test_weights_on_their_own_base_gain_what_there_is_or_are_found_unhealthy(
    deviation: float,
) -> None:
    """Of n proposals of N(0, s^2), n sqrt(2 s^2 - 1) / s^2 count for N(0, 1)."""
    x, base = normal_rows(400), normal(deviation)
    density = Density(Sizes((1,), 1, 0, 0, 1, 0, 0, 0, 0, 0, 1), seeded()).float()
    density.base.load_state_dict(base.state_dict())
    settings = settings_of((400, 1), iterations=100)
    weighed, gain = learn_on_own_base(
        density, x[:300], x[300:], settings, seeded(), lambda done, total: None
    )
    expected = CHECKED * math.sqrt(2 * deviation**2 - 1) / deviation**2
    assert weighed.healthy == (expected > HEALTHY) and weighed.counted is not None
    if weighed.healthy:
        assert abs(gain - gain_over(deviation, x[300:])) < 0.1
        assert 0.7 < weighed.counted / expected < 1.4
        assert isinstance(density.energy, Energy)
        level = float(exact_normaliser(density.energy, base))
        own = density.correction(x[300:]).detach()
        assert abs(float(own.mean()) - level - gain) < 0.1


def test_chains_that_add_nothing_to_a_base_leave_it_as_it_is() -> None:
    x, held = normal_rows(60, 6), torch.arange(60).view(3, 20)
    before, settings = nothing_by_weights(normal(1.0, 6), x, held), settings_of((60, 6), 10)
    found, iterations = learn_folds_by_chains(
        x, held, before, settings, seeded(), lambda done, total: None
    )
    assert iterations < 200 and not found.gain[2].any()
    assert not any(value[2].any() for value in found.energy.state_dict().values())
