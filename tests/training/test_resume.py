"""A resume is a resume: bit for bit. Kills in every phase are played by `tests/fuzz`."""

from __future__ import annotations

import os
import signal
import threading
import time
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from sklearn.datasets import make_moons
from torch import Tensor, nn

from gedilearn import GEDI
from gedilearn.errors import InputError
from gedilearn.training import loop
from gedilearn.training.run import RunDirectory
from helpers import gedi

X, _ = make_moons(150, noise=0.1, random_state=0)
SMALL = {
    "optimizer.batch_size": 50,
    "sampler.buffer": 100,
    "training.check_every": 10,
    "density.iterations": 0,
    "training.tol": 0.0,
    "training.patience": 1000,
    "random_state": 1,
}


def test_ctrl_c_leaves_a_run_that_resumes_to_the_same_weights(tmp_path: Path) -> None:
    before = signal.getsignal(signal.SIGINT)
    straight = gedi(**SMALL, max_iter=100, run_dir=tmp_path / "straight").fit(X)

    def interrupt() -> None:
        while not (tmp_path / "run" / "metrics.jsonl").exists():
            time.sleep(0.005)
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        gedi(**SMALL, max_iter=100, run_dir=tmp_path / "run").fit(X)
    thread.join()
    assert not (tmp_path / "run" / "model.safetensors").exists()
    resumed = GEDI.resume(tmp_path / "run", X)
    assert resumed.n_iter_ == 100
    assert resumed.settings_.training.start == "chosen"  # the start is found again
    assert resumed.verdict_ == straight.verdict_
    assert resumed.result_.temperature == straight.result_.temperature
    assert (resumed.trust_ == straight.trust_).all()
    for ours, theirs in zip(resumed.model_.parameters(), straight.model_.parameters(), strict=True):
        assert torch.equal(ours, theirs)
    assert signal.getsignal(signal.SIGINT) is before


def test_code_of_the_users_that_draws_from_the_global_generator_resumes_too(tmp_path: Path) -> None:
    encoder = nn.Sequential(nn.Linear(2, 16), nn.Dropout(0.3), nn.ReLU(), nn.Linear(16, 8))
    values = SMALL | {"max_iter": 30, "n_init": 2, "training.checkpoint_every": 0}
    calls = 0

    def views(x: Tensor) -> Tensor:
        nonlocal calls
        calls += 1
        if calls == stop:
            raise KeyboardInterrupt
        return x + 0.1 * torch.randn_like(x)

    stop = None
    straight = gedi(**values, encoder=encoder, views=views).fit(X)
    calls, stop = 0, 25
    with pytest.raises(KeyboardInterrupt):
        gedi(**values, encoder=encoder, views=views, run_dir=tmp_path / "run").fit(X)
    torch.manual_seed(5)
    resumed = GEDI.resume(tmp_path / "run", X, encoder=encoder, views=views)
    for ours, theirs in zip(resumed.model_.parameters(), straight.model_.parameters(), strict=True):
        assert torch.equal(ours, theirs)


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run that has ended."""
    folder = tmp_path_factory.mktemp("finished") / "run"
    gedi(**SMALL, max_iter=20, run_dir=folder).fit(X)
    return folder


def test_a_finished_run_is_read_back_without_training(finished: Path) -> None:
    before = load_file(finished / "model.safetensors")
    again = GEDI.resume(finished, X)
    after = load_file(finished / "model.safetensors")
    assert again.n_iter_ == 20
    assert all(torch.equal(before[name], after[name]) for name in before)


def test_other_data_and_a_run_in_use_are_refused(finished: Path) -> None:
    before = (finished / "metrics.jsonl").read_bytes()
    with pytest.raises(InputError, match="other data"):
        GEDI.resume(finished, X + 1)
    with RunDirectory(finished).held(), pytest.raises(InputError, match="in use"):
        GEDI.resume(finished, X)
    assert (finished / "metrics.jsonl").read_bytes() == before


WILD = SMALL | {"optimizer.learning_rate": 1.0, "max_iter": 60, "density.base": "none"}


@pytest.fixture(scope="module")
def straight() -> GEDI:
    """A fit that recovers from divergence."""
    model = gedi(**WILD).fit(X)
    assert model.n_recoveries_ > 0
    return model


@pytest.mark.parametrize("moment", [5, 27])
def test_a_signal_between_two_checks_does_not_make_a_diverging_state_the_good_one(
    moment: int, straight: GEDI, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one_step, calls = loop.step, iter(range(1, 1000))

    def interrupted_step(*arguments: Any) -> dict[str, torch.Tensor]:
        if next(calls) == moment:
            os.kill(os.getpid(), signal.SIGTERM)
        return one_step(*arguments)

    monkeypatch.setattr(loop, "step", interrupted_step)
    with pytest.raises(KeyboardInterrupt):
        gedi(**WILD, run_dir=tmp_path / "run").fit(X)
    resumed = GEDI.resume(tmp_path / "run", X)
    assert resumed.n_recoveries_ == straight.n_recoveries_
    assert resumed.verdict_ == straight.verdict_
    for ours, theirs in zip(resumed.model_.parameters(), straight.model_.parameters(), strict=True):
        assert torch.equal(ours, theirs)
