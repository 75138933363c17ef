"""Fits that are killed, terminated or interrupted at any call, then resumed: nothing is lost."""

from __future__ import annotations

import json
import signal
import socket
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import strategies as st
from safetensors.numpy import load_file

from fuzz.play import End, Player, Stop, judge_end

SETTINGS = {
    "training.max_iter": 40,
    "training.check_every": 5,
    "training.checkpoint_every": 0,
    "training.n_init": 2,
    "training.tol": 0.0,
    "optimizer.batch_size": 40,
    "sampler.buffer": 80,
    "sampler.steps": 2,
    "network.hidden": [16],
    "device.accelerator": "cpu",
}
X = np.random.default_rng(0).normal(size=(120, 2)) + np.repeat([[0, 0], [3, 3]], 60, axis=0)
SIGNALS = [signal.SIGKILL, signal.SIGKILL, signal.SIGTERM, signal.SIGINT]
# Functions of a fit, and how often it calls them at least. Every file is written by an fsync of the
# new content and an os.replace: a kill at their n-th call is one in the middle of the n-th file.
PLACES = {
    "os.fsync": 60,
    "os.replace": 60,
    "gedilearn.training.loop.step": 40,
    "gedilearn.training.setup.choose_start": 1,
    "gedilearn.density.base.log_mean_exp": 8,
}
LIMIT = 30.0  # seconds of a fit on several ranks, which also wait for each other


@dataclass(frozen=True)
class Interrupted:
    """A fit on so many ranks, and the stops of it and of its resumes, one after another."""

    ranks: int
    stops: tuple[Stop, ...]
    entries: tuple[()] = ()  # the folder holds nothing but the data

    def command(self) -> str:
        return f"gedi {' '.join(_fit(self.ranks))}"


@st.composite
def _stops(draw: Any, ranks: int) -> Stop:
    place = draw(st.sampled_from(sorted(PLACES)))
    turn, name = draw(st.integers(1, PLACES[place])), draw(st.sampled_from(SIGNALS))
    return Stop(place, turn, int(name), draw(st.integers(0, ranks - 1)))


def cases(ranks: int) -> st.SearchStrategy[Interrupted]:
    several = st.lists(_stops(ranks), min_size=1, max_size=3 if ranks == 1 else 1)
    return st.builds(Interrupted, st.just(ranks), several.map(tuple))


def faults(player: Player, case: Interrupted) -> list[str]:
    """The faults of a case: of each process, and of the files that are there in the end."""
    expected = _straight(player.root, case.ranks)
    folder = player.empty_folder("case")
    np.save(folder / "x.npy", X)
    for stop in (*case.stops, None):
        ends = _fit_or_resume(player, folder, case.ranks, stop)
        allowed = {0, 2, 130, -signal.SIGKILL, -signal.SIGTERM} if stop else {0}
        found = [fault for end in ends for fault in judge_end(end)]
        found += [
            f"exit code {end.code}: {end.err[-300:]}" for end in ends if end.code not in allowed
        ]
        if found:
            return found
        if all(end.code == 0 for end in ends):
            break
    got = outcome(folder)
    return [f"differs: {name}" for name in expected if expected[name] != got[name]]


def _fit(ranks: int) -> list[str]:
    options = (SETTINGS | {"device.devices": ranks}).items()
    sets = [part for name, value in options for part in ("--set", f"{name}={value}")]
    return ["fit", "x.npy", "-k", "2", "--out", "run", "--quiet", *sets]


def _fit_or_resume(player: Player, folder: Path, ranks: int, stop: Stop | None) -> list[End]:
    """Begin the fit in a folder; continue it if it has begun."""
    begun = (folder / "run/config.yaml").exists()
    arguments = ["resume", "run", "--quiet"] if begun else _fit(ranks)
    return player.play(folder, arguments, stop=stop, ranks=environments(ranks), seconds=LIMIT)


def environments(ranks: int) -> list[dict[str, str]]:
    """The variables by which torchrun tells each rank its number."""
    if ranks == 1:
        return [{}]
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = str(free.getsockname()[1])
    common = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "TORCHELASTIC_RUN_ID": "fuzz"}
    common |= {"WORLD_SIZE": str(ranks), "LOCAL_WORLD_SIZE": str(ranks), "GROUP_RANK": "0"}
    return [common | {"RANK": str(k), "LOCAL_RANK": str(k)} for k in range(ranks)]


@lru_cache
def _straight(root: Path, ranks: int) -> dict[str, Any]:
    """The outcome of the fit without an interruption."""
    player = Player(root)
    folder = player.empty_folder("straight")
    np.save(folder / "x.npy", X)
    ends = _fit_or_resume(player, folder, ranks, None)
    assert all(end.code == 0 for end in ends), ends
    return outcome(folder)


def outcome(folder: Path) -> dict[str, Any]:
    """All that must be the same however often the fit was interrupted."""
    run = folder / "run"
    lines = (run / "metrics.jsonl").read_text().splitlines()
    return {
        "metrics": [json.loads(line) | {"seconds": 0} for line in lines],
        "summary": json.loads((run / "summary.json").read_text()) | {"seconds": 0},
        "model": {n: t.tobytes() for n, t in load_file(run / "model.safetensors").items()},
        "files": [str(path.relative_to(folder)) for path in sorted(folder.rglob("*"))],
        "data": (folder / "x.npy").read_bytes(),
        "labels": (run / "labels.csv").read_bytes(),
    }
