"""Which estimator of GEN is taken: importance weights while they are healthy, else chains."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from gedilearn import GEDI
from gedilearn.density.density import Density
from gedilearn.density.findings import Findings
from gedilearn.density.fit import fit_density
from gedilearn.density.importance import CHECKED, HEALTHY, level_of
from gedilearn.settings import resolve


def fitted(x: np.ndarray, **density: Any) -> tuple[Density, Findings]:
    settings = resolve({"density": density, "sampler": {"steps": 5}}, x.shape)
    return fit_density(torch.from_numpy(x), np.arange(len(x)) % 2, settings)


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
        fitted(x, estimator=name, iterations=60) for name in ("auto", "importance")
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


def test_unhealthy_weights_give_way_to_chains_and_an_event_says_why(tmp_path: Path) -> None:
    """A network soon learns few rows of many columns by heart: few proposals have weight."""
    x = np.random.default_rng(0).standard_t(3, size=(60, 12))
    quick = {"training.max_iter": 25, "training.check_every": 25, "sampler.steps": 5}
    found = GEDI(2, random_state=0, settings=quick, run_dir=tmp_path / "run").fit(x).density_
    assert found is not None and found.estimator == "chains" and found.weighted < found.iterations
    assert found.counted is not None and found.counted < HEALTHY
    assert f"{found.counted:.1f} of 4,000" in found.verdict
    assert found.gain > -1e-9 and (found.weight > 0 or "the base alone" in found.verdict)
    events = [json.loads(line) for line in (tmp_path / "run/events.jsonl").open()]
    (event,) = (event for event in events if event["kind"] == "estimator")
    assert event["message"] == found.choice
    assert event["effective"] == found.counted and event["proposals"] == CHECKED


def findings(**changes: Any) -> Findings:
    values = {"base": "a mixture", "estimator": "importance", "weight": 0.5, "held_out": -2.0}
    values |= {"gain": 0.2, "gain_error": 0.01, "log_normaliser": 0.1, "iterations": 9}
    values |= {"log_normaliser_error": 0.01, "effective": 0.9, "stein": 0.5}
    return Findings(**values | changes)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({}, "the network adds 0.200 ± 0.010 nats"),
        ({"weight": 0.0}, "the base alone"),
        ({"log_normaliser_error": 0.5}, "its normaliser is unsure by 0.5 nats"),
        ({"stein": 0.002}, "a test of its fit refutes it"),
        ({"diverged": True}, "its training diverged, and ended after 9"),
        (
            {"estimator": "chains", "weight": 0.0, "log_normaliser_error": 9.0, "effective": 0.0},
            "log p(x) is the base's",
        ),
    ],
)
def test_the_verdict_says_each_finding(changes: dict[str, Any], words: str) -> None:
    assert words in findings(**changes).verdict
    assert ("refutes" in words) == ("refutes" in findings(**changes).verdict)
