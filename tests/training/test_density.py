"""GEN by importance weights within training: when it ends for too few effective samples."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from gedilearn import GEDI
from gedilearn.density.base import CHECKED, HEALTHY
from gedilearn.progress import SILENT
from gedilearn.settings import resolve
from gedilearn.training import loop
from gedilearn.training.environment import launch
from gedilearn.training.journal import Journal
from gedilearn.training.loop import begin, follow_density, step

X = np.random.default_rng(0).normal(size=(80, 2)) ** 3


def test_members_with_too_few_effective_samples_learn_no_density_any_more() -> None:
    settings = resolve({"training": {"n_init": 2}}, X.shape)
    fabric = launch(settings.device)
    setup, state = begin(torch.from_numpy(X).float(), settings, fabric)
    journal = Journal(settings.training, fabric, None, SILENT)
    state.iteration = settings.training.max_iter // 2

    def learning() -> tuple[list[bool], float | None]:
        held = follow_density(setup, state, journal)
        assert held is not None
        return held.isfinite().all(1).tolist(), state.best.ess_at_stop

    assert learning() == ([True, True], None) and state.method.learning is None
    head = state.model.head.weights[-1]
    before = head.detach().clone()
    with torch.no_grad():  # energies so steep that single proposals have all of the weight
        head[1] *= 1e4
    assert learning() == ([True, False], None)
    terms = step(setup, state)
    assert terms["gen"][0] != 0 and terms["gen"][1] == 0
    with torch.no_grad():
        head.copy_(before)
    assert learning()[0] == [True, False]  # for good
    with torch.no_grad():
        head *= 1e4
    found, ess = learning()
    assert found == [False, False] and ess is not None and ess < HEALTHY
    assert "gen" not in step(setup, state)


def test_the_findings_and_an_event_say_that_no_density_was_learnt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop, "HEALTHY", CHECKED)
    quick = {"training.max_iter": 20, "training.check_every": 10}
    model = GEDI(2, random_state=0, settings=quick, run_dir=tmp_path / "run").fit(X)
    found = model.density_
    assert found is not None and found.ess_at_stop is not None and found.weight == 0
    assert f"(effective sample size {found.ess_at_stop:.0f}," in found.words
    events = [json.loads(line) for line in (tmp_path / "run/events.jsonl").open()]
    (event,) = (event for event in events if event["kind"] == "no density")
    assert f"({found.ess_at_stop:.1f})" in event["message"] and event["iteration"] == 10
    base = model.result_.density
    x = model.prepare(X)
    expected = base.mixture.log_density(base.coordinates.values_of(x)).numpy()
    np.testing.assert_allclose(model.result_.scores(x, "log_density"), expected)
