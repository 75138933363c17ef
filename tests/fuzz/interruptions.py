"""Fits that are killed, terminated or interrupted in any phase, then resumed: nothing is lost."""

from __future__ import annotations

import json
import signal
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import strategies as st
from safetensors.numpy import load_file

from fuzz.player import End, Interruption, Player, judge_end
from fuzz.server import PHASES

SETTINGS = {
    "training.max_iter": 40,
    "training.check_every": 5,
    "training.checkpoint_every": 0,
    "training.n_init": 2,
    "training.tol": 0.0,
    "density.iterations": 20,
    "optimizer.batch_size": 40,
    "sampler.buffer": 80,
    "sampler.steps": 2,
    "network.hidden": [16],
}
X = np.random.default_rng(0).normal(size=(120, 2)) + np.repeat([[0, 0], [3, 3]], 60, axis=0)
SIGNALS = [signal.SIGKILL, signal.SIGKILL, signal.SIGTERM, signal.SIGINT]
LIMIT = 30.0  # seconds of a fit on several ranks, which also wait for each other


@dataclass(frozen=True)
class Interrupted:
    """A fit on so many ranks, and the interruptions of it and of its resumes, one after another."""

    ranks: int
    stops: tuple[Interruption, ...]
    entries: tuple[()] = ()  # the folder holds nothing but the data

    def command(self) -> str:
        options = " ".join(f"--set {name}={value}" for name, value in SETTINGS.items())
        return f"gedi fit x.npy -k 2 --out run {options} --set device.devices={self.ranks}"


@st.composite
def stops(draw: Any, ranks: int) -> Interruption:
    """A signal at a random moment of a random phase."""
    # Ranks meet after they have read. Before that, whoever started them looks after them.
    phase = draw(st.sampled_from([each for each in PHASES if ranks == 1 or each != "reading"]))
    turns = {"clusters": 40, "density": 20, "checkpoint": 12}.get(phase, 1)
    return Interruption(
        phase,
        draw(st.integers(1, turns)),
        draw(st.just(0.0) | st.floats(0, 0.03)),
        int(draw(st.sampled_from(SIGNALS))),
        draw(st.integers(0, ranks - 1)),
    )


def cases(ranks: int) -> st.SearchStrategy[Interrupted]:
    several = st.lists(stops(ranks), min_size=1, max_size=3 if ranks == 1 else 1)
    return st.builds(Interrupted, st.just(ranks), several.map(tuple))


def play(player: Player, case: Interrupted) -> list[str]:
    """The faults of a case: of each process, and of what is there in the end."""
    expected = straight(player, case.ranks)
    folder = player.empty_folder("case")
    np.save(folder / "x.npy", X)
    faults = []
    for stop in (*case.stops, None):
        ends = fit_or_resume(player, folder, case.ranks, stop)
        for end in ends:
            faults += judge_end(end)
            allowed = {0, 2, 130, -signal.SIGKILL, -signal.SIGTERM} if stop else {0}
            if end.code not in allowed and not faults:
                faults.append(f"exit code {end.code}: {end.err[-300:]}")
        if faults or all(end.code == 0 for end in ends):
            break
    return faults or differences(expected, outcome(folder))


def fit_or_resume(
    player: Player, folder: Path, ranks: int, stop: Interruption | None = None
) -> list[End]:
    """Begin the fit in a folder; go on with it if it has begun."""
    arguments = ["fit", "x.npy", "-k", "2", "--out", "run", "--quiet"]
    for name, value in (SETTINGS | {"device.devices": ranks, "device.accelerator": "cpu"}).items():
        arguments += ["--set", f"{name}={value}"]
    if (folder / "run" / "config.yaml").exists():
        arguments = ["resume", "run", "--quiet"]
    return player.play(
        folder,
        arguments,
        interruption=stop,
        environments=environments(ranks),
        seconds=LIMIT,
    )


def environments(ranks: int) -> list[dict[str, str]]:
    """The variables by which torchrun tells each rank who it is."""
    if ranks == 1:
        return [{}]
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    common = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "TORCHELASTIC_RUN_ID": "fuzz"}
    common |= {"WORLD_SIZE": str(ranks), "LOCAL_WORLD_SIZE": str(ranks), "GROUP_RANK": "0"}
    return [common | {"RANK": str(k), "LOCAL_RANK": str(k)} for k in range(ranks)]


# --- what is compared ---------------------------------------------------------------------------

_STRAIGHT: dict[int, Mapping[str, Any]] = {}


def straight(player: Player, ranks: int) -> Mapping[str, Any]:
    """What the fit gives without an interruption; made once."""
    if ranks not in _STRAIGHT:
        folder = player.empty_folder("straight")
        np.save(folder / "x.npy", X)
        ends = fit_or_resume(player, folder, ranks)
        assert all(end.code == 0 for end in ends), ends
        _STRAIGHT[ranks] = outcome(folder)
    return _STRAIGHT[ranks]


def outcome(folder: Path) -> dict[str, Any]:
    """All that must be the same, whatever happened on the way."""
    run = folder / "run"
    lines = (run / "metrics.jsonl").read_text().splitlines()
    rows = [json.loads(line) | {"seconds": 0} for line in lines]
    summary = json.loads((run / "summary.json").read_text()) | {"seconds": 0}
    tensors = {name: t.tobytes() for name, t in load_file(run / "model.safetensors").items()}
    names = [str(path.relative_to(folder)) for path in sorted(folder.rglob("*"))]
    data, labels = (folder / "x.npy").read_bytes(), (run / "labels.csv").read_bytes()
    found = {"metrics": rows, "summary": summary, "model": tensors, "files": names}
    return found | {"data": data, "labels": labels}


def differences(expected: Mapping[str, Any], got: Mapping[str, Any]) -> list[str]:
    faults = [f"differs: {name}" for name in expected if expected[name] != got[name]]
    more = sorted(set(got["files"]) ^ set(expected["files"]))
    return faults + ([f"files: {', '.join(more)}"] if more else [])
