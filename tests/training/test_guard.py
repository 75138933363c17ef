"""Divergence is noticed early, answered, and never passed over in silence."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.datasets import make_moons

from gedilearn import GEDI
from gedilearn.sampling.langevin import Box
from gedilearn.settings import build
from gedilearn.training.environment import launch
from gedilearn.training.guard import outside
from gedilearn.training.loop import Trainer

X, _ = make_moons(200, noise=0.05, random_state=0)
# Chains that hardly move and nothing that holds the energies: GEN runs away.
WILD = dict(
    batch_size=50,
    buffer_size=1000,
    sgld_steps=1,
    sgld_step_size=1e-5,
    sgld_noise=1e-3,
    w_energy=0.0,
    w_gen=50.0,
    learning_rate=0.01,
    density_iter=0,
    check_every=10,
    max_iter=400,
    tol=0.0,
    random_state=0,
)


def events(run: Path) -> list[dict]:
    return [json.loads(line) for line in (run / "events.jsonl").read_text().splitlines()]


def test_a_runaway_is_recovered_from_and_the_events_say_how(tmp_path: Path) -> None:
    model = GEDI(**WILD, run_dir=tmp_path / "run").fit(X)
    recovered = [e for e in events(tmp_path / "run") if e["kind"] == "recovered"]
    assert 1 <= len(recovered) == model.n_recoveries_ <= 5
    assert recovered[0]["iteration"] < recovered[0]["diverged_at"]
    assert "nats" in recovered[0]["message"] and "energy penalty" in recovered[0]["message"]
    assert np.isfinite(model.score_samples(X)).all()


def test_stopping_instead_keeps_the_best_finite_state(tmp_path: Path) -> None:
    with pytest.warns(RuntimeWarning, match="diverged"):
        model = GEDI(**WILD, on_divergence="stop", run_dir=tmp_path / "run").fit(X)
    assert model.stopped_ == "diverged" and model.n_recoveries_ == 0
    assert "training diverged" in model.verdict_
    assert events(tmp_path / "run")[-1]["kind"] == "diverged"
    assert np.isfinite(model.predict_proba(X)).all()
    assert GEDI.load(tmp_path / "run" / "model.safetensors").verdict_ == model.verdict_


def test_recoveries_are_bounded() -> None:
    with pytest.warns(RuntimeWarning, match="after 3 recoveries"):
        model = GEDI(**WILD | dict(learning_rate=1e20, max_recoveries=3)).fit(X)
    assert model.n_recoveries_ == 3


def test_chains_far_outside_the_data_are_counted() -> None:
    box = Box(torch.zeros(2), torch.ones(2))
    positions = torch.full((1, 100, 2), 0.5)
    assert outside(positions, box) == 0
    positions[0, :30, 1] = 2.5
    assert outside(positions, box) == pytest.approx(0.3)
    positions[0, 5:, 1] = 0.5
    assert outside(positions, box) == 0  # a few strays are no sign


def test_a_healthy_run_is_left_alone() -> None:
    model = GEDI(2, random_state=0, max_iter=100, density_iter=100, n_init=2).fit(X)
    assert model.n_recoveries_ == 0


def test_a_recovery_does_not_make_a_method_forget() -> None:
    settings = build({"method": "dino", "optimizer": {"batch_size": 50}})
    trainer = Trainer(torch.from_numpy(X).float(), settings)
    trainer.set_up(launch(settings.device))
    for _ in range(3):
        trainer.iteration += 1
        trainer.step()
    trainer.guard.keep()
    centre = trainer.method.state()["centre"].clone()
    trainer.iteration += 1
    trainer.step()
    assert not torch.equal(trainer.method.state()["centre"], centre)
    assert trainer.guard.recover("a test") and trainer.iteration == 3
    torch.testing.assert_close(trainer.method.state()["centre"], centre)
    assert trainer.method.state()["teacher"] is not None
