"""Run by test_resume.py in a process of its own: kill a fit at random moments, resume, compare.

Children are forked after the imports, so that each attempt costs milliseconds, and with one thread,
so that forking is safe.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import sys
import time
from pathlib import Path

import torch
from sklearn.datasets import make_moons

torch.set_num_threads(1)

import lightning_fabric  # noqa: E402, F401 - before the forks
from safetensors.torch import load_file  # noqa: E402

from gedilearn import GEDI  # noqa: E402

X, _ = make_moons(200, noise=0.1, random_state=0)
SETTINGS = {
    "optimizer.batch_size": 64,
    "sampler.buffer": 200,
    "sampler.steps": 2,
    "density.iterations": 60,
    "training.check_every": 10,
    "training.checkpoint_every": 0,
    "training.tol": 0.0,
}


def fit_or_resume(run: Path) -> None:
    if (run / "config.yaml").exists():
        GEDI.resume(run, X)
    else:
        GEDI(2, n_init=2, max_iter=200, random_state=5, run_dir=run, settings=SETTINGS).fit(X)


def in_child(run: Path, seconds: float | None) -> bool:
    """Whether the child came to its own end; after `seconds` it is killed."""
    child = os.fork()
    if child == 0:
        fit_or_resume(run)
        os._exit(0)
    if seconds is not None:
        time.sleep(seconds)
        os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        return False
    assert os.WEXITSTATUS(status) == 0, "the child failed"
    return True


def main(folder: Path) -> None:
    straight = folder / "straight"
    began = time.perf_counter()
    assert in_child(straight, None)
    whole = time.perf_counter() - began
    expected = load_file(straight / "model.safetensors")
    moments = random.Random(int.from_bytes(os.urandom(4), "big"))
    for attempt in range(4):
        run = folder / f"killed-{attempt}"
        kills = 0
        while not in_child(run, None if kills == 6 else moments.uniform(0.02, whole)):
            kills += 1
        got = load_file(run / "model.safetensors")
        assert got.keys() == expected.keys()
        for name in expected:
            assert torch.equal(got[name], expected[name]), (attempt, kills, name)
        same_log = (run / "metrics.jsonl").read_text().count("\n")
        assert same_log == (straight / "metrics.jsonl").read_text().count("\n")
        print(f"attempt {attempt}: {kills} kills, identical")
        shutil.rmtree(run)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
