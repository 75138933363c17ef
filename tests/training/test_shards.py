"""Large data: two ranks share the work on all rows, find what one finds, and one may be lost."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import load_file

HERE = Path(__file__).parent
TORCHRUN = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
SMALL = {
    "optimizer.batch_size": 50,
    "training.max_iter": 40,
    "training.check_every": 10,
    "training.checkpoint_every": 0,
    "training.tol": 0.0,
    "weights.gen": 0.0,
}

Array = NDArray[Any]


def groups(n: int, d: int = 12) -> Array:
    """Four groups; some columns have values that repeat, which are spread by chance."""
    rng = np.random.default_rng(0)
    x = 3 * rng.normal(size=(4, d))[rng.integers(4, size=n)] + rng.normal(size=(n, d))
    x[:, 3], x[:, 7], x[:, 8] = np.round(x[:, 3]), x[:, 7] > 0, np.round(x[:, 8], 1)
    return x


def environment(folder: Path) -> dict[str, str]:
    """Temporary files in a folder of their own."""
    (folder / "tmp").mkdir(exist_ok=True)
    return os.environ | {"OMP_NUM_THREADS": "1", "TMPDIR": str(folder / "tmp")}


def test_two_ranks_find_what_one_finds(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", groups(4000))
    script = [str(HERE / "shards.py"), str(tmp_path)]
    for command in ([sys.executable, *script, "one"], [*TORCHRUN, *script, "two"]):
        done = subprocess.run(
            command, env=environment(tmp_path), capture_output=True, text=True, timeout=300
        )
        assert done.returncode == 0, done.stderr
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
            env=environment(folder) | common | {"RANK": str(k), "LOCAL_RANK": str(k)},
            stderr=subprocess.PIPE,
            text=True,
        )
        for k in range(2)
    ]


def test_a_fit_that_lost_a_rank_is_resumed(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", groups(2000))
    settings = [f"{name}={value}" for name, value in SMALL.items()]
    options = ["x.npy", "-k", "4", "--device", "cpu", "--seed", "1"]
    options += [word for setting in settings for word in ("--set", setting)]
    straight = start_ranks(tmp_path, "fit", *options, "--out", "straight")
    for rank in straight:
        assert rank.wait(300) == 0, rank.communicate()[1]
    lost = start_ranks(tmp_path, "fit", *options, "--out", "run")
    while not list((tmp_path / "run").glob("checkpoint/step-*/shared.json")):
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
        np.testing.assert_array_equal(ours[name], theirs[name])
    assert (tmp_path / "run" / "labels.csv").read_bytes() == (
        tmp_path / "straight" / "labels.csv"
    ).read_bytes()
