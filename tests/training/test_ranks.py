"""Two ranks compute what one computes, also of large data, and a fit that lost one is resumed."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from safetensors.torch import load_file

pytestmark = pytest.mark.ranks

HERE = Path(__file__).parent
ENV = os.environ | {"OMP_NUM_THREADS": "1"}
TORCHRUN = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
SMALL = {
    "optimizer.batch_size": 50,
    "training.max_iter": 40,
    "training.check_every": 10,
    "training.checkpoint_every": 0,
    "training.tol": 0.0,
    "weights.gen": 0.0,
}


def run(*command: str) -> None:
    done = subprocess.run(command, env=ENV, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr


def groups(n: int, d: int = 12) -> NDArray[Any]:
    """Four groups; some columns have values that repeat, which are spread by chance."""
    rng = np.random.default_rng(0)
    x = 3 * rng.normal(size=(4, d))[rng.integers(4, size=n)] + rng.normal(size=(n, d))
    x[:, 3], x[:, 7], x[:, 8] = np.round(x[:, 3]), x[:, 7] > 0, np.round(x[:, 8], 1)
    return x


def test_gradients_and_terms_of_two_ranks_equal_those_of_one(tmp_path: Path) -> None:
    script = str(HERE / "ranks.py")
    one, two = tmp_path / "one.safetensors", tmp_path / "two.safetensors"
    # All methods in one start of the ranks, which takes longer than their steps.
    methods = ["no-gen", "swav", "barlow", "dino", "deepcluster", "ebclr"]
    run(sys.executable, script, str(one), "1", *methods)
    run(*TORCHRUN, script, str(two), "2", *methods)
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


def test_two_ranks_find_what_one_finds(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", groups(4000))
    script = [str(HERE / "shards.py"), str(tmp_path)]
    run(sys.executable, *script, "one")
    run(*TORCHRUN, *script, "two")
    one, first, second = (np.load(tmp_path / f"{name}.npz") for name in ("one-0", "two-0", "two-1"))
    assert {"walks/node", "walks/trust", "walks/labels"} <= set(first)
    for name in first:
        np.testing.assert_array_equal(first[name], second[name])
    np.testing.assert_array_equal(first["walks/node"], one["walks/node"])
    # The same views on all ranks: two do what one does, but for rounding.
    near = one["fixed/probabilities"]
    np.testing.assert_allclose(first["fixed/probabilities"], near, rtol=0, atol=5e-3)
    assert np.ptp(near, axis=0).min() > 0.1


def start_ranks(folder: Path, *arguments: str) -> list[subprocess.Popen[str]]:
    """The two ranks of `gedi ARGUMENTS`, started as torchrun does it."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    common = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "TORCHELASTIC_RUN_ID": "test"}
    common |= {"WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2", "GROUP_RANK": "0"}
    command = [sys.executable, str(HERE / "shards.py"), "gedi", *arguments, "--quiet"]
    return [
        subprocess.Popen(
            command,
            cwd=folder,
            env=os.environ
            | {"OMP_NUM_THREADS": "1"}
            | common
            | {"RANK": str(k), "LOCAL_RANK": str(k)},
            stderr=subprocess.PIPE,
            text=True,
        )
        for k in range(2)
    ]


@pytest.mark.killed
def test_a_fit_that_lost_a_rank_is_resumed(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", groups(2000))
    settings = [f"{name}={value}" for name, value in SMALL.items()]
    options = ["x.npy", "-k", "4", "--device", "cpu", "--seed", "1"]
    options += [word for setting in settings for word in ("--set", setting)]
    straight = start_ranks(tmp_path, "fit", *options, "--out", "straight")
    for rank in straight:
        assert rank.wait(300) == 0, rank.communicate()[1]
    kept = {p.name for p in (tmp_path / "straight/checkpoint").glob("step-*/*")}
    assert {"shared.safetensors", "rank-0.safetensors", "rank-1.safetensors"} <= kept
    assert (tmp_path / "straight/metrics.jsonl").read_text().count("\n") == 4
    lost = start_ranks(tmp_path, "fit", *options, "--out", "run")
    while not list((tmp_path / "run").glob("checkpoint/step-*/shared.safetensors")):
        assert lost[0].poll() is None, lost[0].communicate()[1]
        time.sleep(0.01)
    lost[1].kill()
    told = lost[0].communicate(timeout=300)[1]
    lost[1].communicate()
    assert lost[0].returncode == 0 or "another process of this fit has ended" in told
    for rank in start_ranks(tmp_path, "resume", "run"):
        assert rank.wait(300) == 0, rank.communicate()[1]
    ours, theirs = (
        load_file(tmp_path / name / "model.safetensors") for name in ("run", "straight")
    )
    for name in theirs:
        assert torch.equal(ours[name], theirs[name])
    assert (tmp_path / "run" / "labels.csv").read_bytes() == (
        tmp_path / "straight" / "labels.csv"
    ).read_bytes()
