"""Divergence is noticed early, answered, and never passed over in silence."""

from __future__ import annotations

import json
import time
from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.datasets import make_moons

from gedilearn import GEDI
from gedilearn.sampling.langevin import Box
from gedilearn.settings import resolve
from gedilearn.training import loop
from gedilearn.training.environment import launch
from gedilearn.training.loop import MOST_RECOVERIES, begin, step
from gedilearn.verdict.monitor import outside
from helpers import gedi

X, _ = make_moons(200, noise=0.05, random_state=0)
# Chains that hardly move and nothing that holds the energies: GEN runs away.
WILD = {
    "optimizer.batch_size": 50,
    "sampler.buffer": 1000,
    "sampler.steps": 1,
    "sampler.step_size": 1e-5,
    "sampler.noise": 1e-3,
    "weights.energy": 0.0,
    "w_gen": 50.0,
    "optimizer.learning_rate": 0.01,
    "density.iterations": 0,
    "density.base": "none",
    "training.check_every": 10,
    "max_iter": 200,
    "training.tol": 0.0,
    "random_state": 0,
}


def events(run: Path) -> list[dict]:
    return [json.loads(line) for line in (run / "events.jsonl").read_text().splitlines()]


def test_a_runaway_is_recovered_from_and_the_events_and_the_clock_say_how(tmp_path: Path) -> None:
    began = time.perf_counter()
    model = gedi(**WILD, run_dir=tmp_path / "run").fit(X)
    lived = time.perf_counter() - began
    recovered = [e for e in events(tmp_path / "run") if e["kind"] == "recovered"]
    assert 1 <= len(recovered) == model.n_recoveries_ <= 5
    assert recovered[0]["iteration"] < recovered[0]["diverged_at"]
    assert "nats" in recovered[0]["message"] and "energy penalty" in recovered[0]["message"]
    assert np.isfinite(model.score_samples(X)).all()
    assert 0.2 * lived < model.seconds_ <= lived


def test_stopping_instead_keeps_the_best_finite_state(tmp_path: Path) -> None:
    with pytest.warns(RuntimeWarning, match="diverged"):
        model = gedi(**WILD, run_dir=tmp_path / "run", **{"training.on_divergence": "stop"}).fit(X)
    assert model.stopped_ == "diverged" and model.n_recoveries_ == 0
    assert model.verdict_.reason.code == "diverged"
    assert events(tmp_path / "run")[-1]["kind"] == "diverged"
    assert np.isfinite(model.predict_proba(X)).all()
    assert GEDI.load(tmp_path / "run" / "model.safetensors").verdict_ == model.verdict_


def test_with_the_guard_off_training_goes_on_and_the_verdict_tells(tmp_path: Path) -> None:
    off = {"training.on_divergence": "ignore", "training.patience": 1000}
    with pytest.warns(RuntimeWarning, match="training diverged"):
        model = gedi(**WILD, **off, run_dir=tmp_path / "run").fit(X)
    assert model.n_iter_ == 200 and model.n_recoveries_ == 0 and model.stopped_ == "diverged"
    assert "the energies of data" in model.verdict_.reason.text
    told = [e for e in events(tmp_path / "run") if e["kind"] == "diverged"]
    assert len(told) == 1 and f"at iteration {told[0]['iteration']}:" in model.verdict_.reason.text
    assert GEDI.load(tmp_path / "run" / "model.safetensors").verdict_ == model.verdict_


def test_with_the_guard_off_a_passing_trouble_is_told_too(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = iter([None, "a hiccup", None, None])
    monkeypatch.setattr(loop, "divergence", lambda *_: next(answers))
    values = {"training.on_divergence": "ignore", "training.check_every": 10, "max_iter": 40}
    model = gedi(**WILD | values).fit(X)
    assert model.stopped_ == "budget"
    assert model.verdict_.figures["divergence"] == "training diverged at iteration 20: a hiccup"


@pytest.mark.parametrize("answer", ["ignore", "stop", "recover"])
def test_where_no_state_is_finite_the_one_before_training_is_kept(answer: str) -> None:
    wild = {"optimizer.learning_rate": 1e30, "training.on_divergence": answer}
    with pytest.warns(RuntimeWarning, match="diverged"):
        model = gedi(**WILD | wild).fit(X)
    assert model.stopped_ == "diverged" and model.n_iter_ == 10 and not model.certified_
    assert np.isfinite(model.predict_proba(X)).all()


def test_recoveries_are_bounded() -> None:
    with pytest.warns(RuntimeWarning, match=f"after {MOST_RECOVERIES} recoveries"):
        model = gedi(**WILD | {"optimizer.learning_rate": 1e20}).fit(X)
    assert model.n_recoveries_ == MOST_RECOVERIES


def test_chains_far_outside_the_data_are_counted() -> None:
    box = Box(torch.zeros(2), torch.ones(2))
    positions = torch.full((1, 100, 2), 0.5)
    assert outside(positions, box) == 0
    positions[0, :30, 1] = 2.5
    assert outside(positions, box) == pytest.approx(0.3)
    positions[0, 5:, 1] = 0.5
    assert outside(positions, box) == 0  # a few strays are no sign


def test_a_recovery_does_not_make_a_method_forget() -> None:
    settings = resolve({"method": "dino", "optimizer": {"batch_size": 50}}, X.shape)
    setup, state = begin(torch.from_numpy(X).float(), settings, launch(settings.device))
    for _ in range(3):
        state.iteration += 1
        step(setup, state)
    good = state.copy()
    centre = state.method.state()["centre"].clone()
    state.iteration += 1
    step(setup, state)
    assert not torch.equal(state.method.state()["centre"], centre)
    back = state.recover(setup, good)
    assert back.iteration == 3 and back.recoveries == 1
    torch.testing.assert_close(back.method.state()["centre"], centre)
    assert back.method.state()["teacher"] is not None


def test_a_recovery_without_a_good_state_begins_again_with_other_numbers() -> None:
    settings = resolve({"optimizer": {"batch_size": 50}}, X.shape)
    setup, state = begin(torch.from_numpy(X).float(), settings, launch(settings.device))
    state.iteration = 5
    back = state.recover(setup, None)
    assert back.iteration == 0 and back.recoveries == 1
    before, after = (one.model.state_dict() for one in (state, back))
    assert not any(torch.equal(before[name], after[name]) for name in before)
