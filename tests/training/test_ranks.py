"""Two ranks compute what one computes on the joined batch."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import torch
from safetensors.torch import load_file
from sklearn.datasets import make_moons

HERE = Path(__file__).parent
ENV = os.environ | {"OMP_NUM_THREADS": "1"}
TORCHRUN = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]


def test_gradients_and_terms_of_two_ranks_equal_those_of_one(tmp_path: Path) -> None:
    script = str(HERE / "ranks.py")
    one, two = tmp_path / "one.safetensors", tmp_path / "two.safetensors"
    # All methods in one start of the ranks, which takes longer than their steps.
    methods = ["no-gen", "swav", "barlow", "dino", "deepcluster", "ebclr"]
    for command in (
        [sys.executable, script, str(one), "1", *methods],
        [*TORCHRUN, script, str(two), "2", *methods],
    ):
        done = subprocess.run(command, env=ENV, capture_output=True, text=True, timeout=180)
        assert done.returncode == 0, done.stderr
    expected, got = load_file(one), load_file(two)
    assert expected.keys() == got.keys()
    assert {name.split("/")[0] for name in expected} == set(methods)
    for name in expected:
        near = (1e-3, 1e-4) if "/after/" in name else (1e-4, 1e-6)  # errors of steps add up
        torch.testing.assert_close(
            *(got[name], expected[name]),
            **dict(zip(("rtol", "atol"), near, strict=True)),
            msg=lambda m, name=name: f"{name}: {m}",
        )
    assert any(name.startswith("no-gen/after/encoder.weights") for name in got)
    # Something is compared: gradients that are not 0, but of biases that a norm takes away again.
    for method in methods:
        assert float(expected[f"{method}/encoder.weights.0"].abs().max()) > 1e-4
    assert "swav/encoder.norms.0.mean" in got and "barlow/head.norms.0.mean" in got
    assert "dino/centre" in got and "deepcluster/labels" in got
    assert abs(float(got["ebclr/term.marginal"][0])) > 1e-4
    # A thread of the process group that outlives it aborts the process now and then.
    left = list(tmp_path.glob("*.threads"))
    assert left
    assert not any("gloo" in file.read_text() for file in left)


def test_a_whole_fit_on_two_ranks_writes_one_run(tmp_path: Path) -> None:
    import numpy as np

    np.save(tmp_path / "x.npy", make_moons(200, noise=0.05, random_state=0)[0])
    options = ["--clusters", "2", "--out", str(tmp_path / "run"), "--quiet"]
    for setting in (
        "training.max_iter=60",
        "training.check_every=20",
        "training.checkpoint_every=0",
        "optimizer.batch_size=100",
        "density.iterations=20",
        "device.accelerator=cpu",  # how many ranks there are, torchrun says
    ):
        options += ["--set", setting]
    command = [*TORCHRUN, "-m", "gedilearn.cli", "fit", str(tmp_path / "x.npy"), *options]
    done = subprocess.run(command, env=ENV, capture_output=True, text=True, timeout=180)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "run" / "model.safetensors").exists()
    kept = {p.name for p in (tmp_path / "run" / "checkpoint").glob("step-*/*")}
    assert {"shared.json", "rank-0.safetensors", "rank-1.safetensors"} <= kept
    assert (tmp_path / "run" / "metrics.jsonl").read_text().count("\n") == 3
