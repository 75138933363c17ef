"""Data that is mapped from a file: the same results as from memory, on one rank and on two."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from safetensors.numpy import load_file

from gedilearn import GEDI
from gedilearn.data import scratch
from gedilearn.data.arrays import Scaling
from gedilearn.training import loop
from helpers import gedi

HERE = Path(__file__).parent
TORCHRUN = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
SMALL = {
    "optimizer.batch_size": 50,
    "training.max_iter": 40,
    "training.check_every": 10,
    "training.checkpoint_every": 0,
    "training.tol": 0.0,
    "weights.gen": 0.0,
    "random_state": 1,
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


def leftovers(folder: Path) -> list[str]:
    return [str(path) for path in folder.rglob(".*.part")]


def test_one_and_two_ranks_find_in_a_mapped_file_what_they_find_in_memory(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", groups(4000))
    script = [str(HERE / "shards.py"), str(tmp_path)]
    for command in ([sys.executable, *script, "one"], [*TORCHRUN, *script, "two"]):
        done = subprocess.run(
            command, env=environment(tmp_path), capture_output=True, text=True, timeout=300
        )
        assert done.returncode == 0, done.stderr
    one, first, second = (np.load(tmp_path / f"{name}.npz") for name in ("one-0", "two-0", "two-1"))
    own = [name.removeprefix("memory/") for name in one if name.startswith("memory/")]
    assert {"home", "trust", "labels", "weights/encoder.weights.0"} <= set(own)
    for found in (one, first, second):
        assert found["memory/files"] == 0 and found["mapped/files"] == 2
        for name in own:
            if name != "files":
                np.testing.assert_array_equal(found[f"mapped/{name}"], found[f"memory/{name}"])
    for name in first:
        np.testing.assert_array_equal(first[name], second[name])
    np.testing.assert_array_equal(first["mapped/home"], one["memory/home"])
    # The same views on all ranks: two do what one does, but for rounding.
    near = one["fixed/probabilities"]
    np.testing.assert_allclose(first["fixed/probabilities"], near, rtol=1e-3, atol=1e-3)
    assert np.ptp(near, axis=0).min() > 0.1
    assert not leftovers(tmp_path)


# --- what is left behind ------------------------------------------------------------------------


@pytest.fixture
def mapped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Array:
    """A small file that is taken for a large one; temporary files are in tmp_path/tmp."""
    np.save(tmp_path / "x.npy", groups(300))
    monkeypatch.setattr(scratch, "MAPPED_FROM", 1)
    monkeypatch.setattr("tempfile.tempdir", environment(tmp_path)["TMPDIR"])
    return np.load(tmp_path / "x.npy", mmap_mode="r")


def test_a_fit_writes_its_data_into_a_file_that_has_no_name_while_it_trains(
    mapped: Array, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    step, seen = loop.step, []

    def look(*args: Any) -> Any:
        maps = Path("/proc/self/maps").read_text().splitlines()
        seen.append([line for line in maps if ".gedi." in line and "(deleted)" in line])
        assert not leftovers(tmp_path)
        return step(*args)

    monkeypatch.setattr(loop, "step", look)
    gedi(**SMALL).fit(mapped)
    assert seen[0] and not leftovers(tmp_path)
    for names in seen:
        assert str(tmp_path / "tmp") in names[0]
    gedi(**SMALL, run_dir=tmp_path / "run").fit(mapped)
    assert not leftovers(tmp_path)


@pytest.mark.parametrize("in_run", [True, False])
@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_what_goes_wrong_while_the_file_is_written_leaves_none(
    mapped: Array,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    error: type[BaseException],
    in_run: bool,
) -> None:
    seen = []

    def fails(self: Scaling, x: Array) -> Array:
        seen.extend(leftovers(tmp_path))
        raise error

    monkeypatch.setattr(Scaling, "apply", fails)
    with pytest.raises(error):
        gedi(**SMALL, run_dir=tmp_path / "run" if in_run else None).fit(mapped)
    assert len(seen) == 1 and ("/run/" if in_run else "/tmp/.gedi.") in seen[0]
    assert not leftovers(tmp_path)


def test_a_fit_that_is_killed_while_the_file_is_written_is_resumed_and_leaves_none(
    mapped: Array, tmp_path: Path
) -> None:
    straight = gedi(**SMALL, run_dir=tmp_path / "straight").fit(mapped)
    settings = {name: value for name, value in SMALL.items() if name != "random_state"}
    code = (
        "import os, numpy as np\n"
        "from gedilearn import GEDI\n"
        "from gedilearn.data import scratch\n"
        "from gedilearn.data.arrays import Scaling\n"
        "scratch.MAPPED_FROM = 1\n"
        "Scaling.apply = lambda self, x: os.kill(os.getpid(), 9)\n"
        "x = np.load('x.npy', mmap_mode='r')\n"
        f"GEDI(2, random_state=1, run_dir='run', settings={settings!r}).fit(x)\n"
    )
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, cwd=tmp_path, env=environment(tmp_path), capture_output=True)
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert len(leftovers(tmp_path / "run")) == 1
    resumed = GEDI.resume(tmp_path / "run", mapped)
    assert not leftovers(tmp_path)
    np.testing.assert_array_equal(resumed.labels_, straight.labels_)
    ours, theirs = (
        load_file(tmp_path / name / "model.safetensors") for name in ("run", "straight")
    )
    for name in theirs:
        np.testing.assert_array_equal(ours[name], theirs[name])


# --- a lost rank --------------------------------------------------------------------------------


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


def test_a_fit_of_a_mapped_file_that_lost_a_rank_is_resumed(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", groups(2000))
    settings = [f"{name}={value}" for name, value in SMALL.items() if "." in name]
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
    assert not leftovers(tmp_path)
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
    assert not leftovers(tmp_path)


# --- memory -------------------------------------------------------------------------------------

WIDE = 128
MOST_EACH = 250  # bytes a point: far above the 170 of docs/scaling.md, far below one copy, 4 * WIDE
PEAK = """
import re, sys, threading, time
from pathlib import Path
import numpy as np
from gedilearn import GEDI
from gedilearn.data import landmarks

def own():
    # Memory of this process alone. Pages of a file that no other has mapped would count as private.
    return 1024 * int(re.search(r"RssAnon:\\s+(\\d+)", Path("/proc/self/status").read_text())[1])

peak = 0

def watch():
    global peak
    while True:
        peak = max(peak, own())
        time.sleep(0.002)

landmarks.MOST_NODES, landmarks.NODES_EACH, landmarks.ALL_PAIRS = 500, 20, 1
x = np.load(sys.argv[1], mmap_mode="r" if sys.argv[2] == "mapped" else None)
settings = {"training.max_iter": 10, "training.check_every": 10, "weights.gen": 0.0}
threading.Thread(target=watch, daemon=True).start()
GEDI(4, random_state=0, device="cpu", settings=settings).fit(x)
print(peak)
"""


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="memory is read from /proc")
@pytest.mark.slow
def test_memory_of_a_process_grows_by_less_than_one_copy_of_mapped_data(tmp_path: Path) -> None:
    peaks = {}
    for n, how in ((70_000, "mapped"), (200_000, "mapped"), (200_000, "memory")):
        rng = np.random.default_rng(0)
        label = rng.integers(4, size=n)
        x = 3 * rng.normal(size=(4, WIDE))[label] + rng.normal(size=(n, WIDE))
        np.save(tmp_path / "x.npy", x.astype(np.float32))
        command = [sys.executable, "-c", PEAK, str(tmp_path / "x.npy"), how]
        done = subprocess.run(command, env=environment(tmp_path), capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        peaks[n, how] = int(done.stdout)
    each = (peaks[200_000, "mapped"] - peaks[70_000, "mapped"]) / 130_000
    assert each < MOST_EACH, peaks
    # In memory there are three of them: as given, in the network's units, as distances see them.
    more = (peaks[200_000, "memory"] - peaks[200_000, "mapped"]) / 200_000
    assert more > 1.5 * 4 * WIDE, peaks
