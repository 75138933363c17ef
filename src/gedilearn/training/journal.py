"""The record of a training while it runs: checkpoints, metrics, events, its progress.

A checkpoint is a folder `step-000000123` of safetensors files. `latest.json` names the newest whole
one and the checksums of its files; it is replaced after all of them are on the disk. So a kill at
any moment leaves a readable one, and a file that is not the one that was written is noticed before
it is used.
"""

from __future__ import annotations

import json
import shutil
import time
from pathlib import Path
from typing import Any

from pydantic import BaseModel, Field
from torch import Tensor

from gedilearn import __version__
from gedilearn.io import (
    RESTORE,
    read_json,
    read_tensors,
    reading,
    sha256,
    write_tensors,
    write_text,
)
from gedilearn.progress import SILENT, Progress
from gedilearn.settings import Training
from gedilearn.training.environment import AnyFabric
from gedilearn.training.run import RunDirectory, check_format
from gedilearn.training.setup import Setup
from gedilearn.training.state import TrainState, Tree
from gedilearn.verdict.monitor import Diagnosis

# What people see of the stages.


class Journal:
    """Keeps the run directory, if there is one, and the time.

    The first rank writes metrics, events and what all ranks share of a checkpoint; each rank writes
    what is its own (chains, random states).
    """

    def __init__(
        self,
        settings: Training,
        fabric: AnyFabric,
        run: RunDirectory | None,
        progress: Progress = SILENT,
    ) -> None:
        self.settings = settings
        self.fabric = fabric
        self.run = run
        self.first = fabric.global_rank == 0
        self.progress = progress
        self.shown = 0.0
        self.started = self.saved = time.perf_counter()
        self.seconds_before = 0.0  # of the run before a resume

    def seconds(self) -> float:
        """The time that training has taken."""
        return self.seconds_before + time.perf_counter() - self.started

    # --- checkpoints -------------------------------------------------------------------------

    def read(self) -> tuple[Path, Tree] | None:
        """The newest checkpoint, if there is one, and what it holds.

        Read before anything is prepared: a damaged file is reported at once.
        """
        if self.run is None:
            return None
        names = (OWN.format(self.fabric.global_rank), SHARED)
        loaded = load_checkpoint(self.run.checkpoints, *names)
        return loaded and (loaded[0], dict(zip(("own", "shared"), loaded[1], strict=True)))

    def resume(
        self, setup: Setup, state: TrainState, saved: tuple[Path, Tree] | None
    ) -> tuple[TrainState, Tree | None]:
        """The state that was read, and the good one to recover from; else the given one, and none.

        Lines that were logged after it are dropped.
        """
        if self.run is None:
            return state, None
        good = None
        if saved is not None:
            folder, tree = saved
            with reading(folder, RESTORE):
                state = TrainState.load(setup, tree, state.generators)
                good = tree["own"]["good"] and {part: tree[part]["good"] for part in tree}
            self.seconds_before = tree["shared"]["seconds"]
        if self.first:
            self.run.rewind(state.iteration)
        return state, good

    def save_if_due(self, state: TrainState, good: Tree | None) -> None:
        """Save when the time has come; rank 0's clock counts."""
        if self.run is not None:
            due = time.perf_counter() - self.saved >= self.settings.checkpoint_every
            if self.fabric.broadcast(due):
                self.save(state, good)

    def save(self, state: TrainState, good: Tree | None) -> None:
        """Write a checkpoint; the newest complete one stays until this one is complete."""
        if self.run is None:
            return
        tree = state.save()
        tree = {part: tree[part] | {"good": good and good[part]} for part in tree}
        folder = self.run.checkpoints / f"step-{state.iteration:09d}"
        folder.mkdir(parents=True, exist_ok=True)
        own = OWN.format(self.fabric.global_rank)
        save_tree(folder / own, tree["own"])
        if self.first:
            save_tree(folder / SHARED, tree["shared"] | {"seconds": self.seconds()})
        self.fabric.barrier()
        if self.first:
            publish(folder)
        self.fabric.barrier()  # the next checkpoint may be of the same step
        self.saved = time.perf_counter()

    # --- metrics and events ------------------------------------------------------------------

    def step(self, state: TrainState) -> None:
        """Show the share of the stage that is done, twice a second at most."""
        now = time.perf_counter()
        if self.progress is SILENT or now - self.shown < 0.5:
            return
        self.shown = now
        done = state.iteration - state.stage.begin
        self.progress.step(done, state.stage.length, f"bound gap {state.best.gap:.3g}")

    def check(
        self, state: TrainState, terms: dict[str, Tensor], gaps: Tensor, diagnosis: Diagnosis
    ) -> None:
        """A row of metrics, and an event for every finding that came or went."""
        if self.run is not None and self.first:
            best = state.best
            row: dict[str, Any] = {"iteration": state.iteration, "stage": state.stage.name}
            row |= {"seconds": round(self.seconds(), 3)}
            row |= {name: term.tolist() for name, term in terms.items()}
            row |= {"bound_gap": gaps.tolist(), "best": best.member, "best_bound_gap": best.gap}
            row |= {f.name: f.value for f in diagnosis.findings}
            self.run.add_metrics(row)
            for finding in diagnosis.findings:
                if finding.ok == (finding.name in state.reported):
                    kind = "mended" if finding.ok else "finding"
                    self.event(state, kind, finding.words, mode=finding.mode, value=finding.value)
        state.reported = {finding.name for finding in diagnosis.problems}

    def event(self, state: TrainState, kind: str, message: str, **details: Any) -> None:
        """Write an event to the run directory."""
        if self.run is not None and self.first:
            self.run.add_event(kind, message, **({"iteration": state.iteration} | details))


# --- checkpoints ----------------------------------------------------------------------------------

CHECKPOINT_FORMAT = 6
# Files of a checkpoint: what all ranks share, and what is a rank's own.
SHARED, OWN = "shared.safetensors", "rank-{}.safetensors"
TREE = "tree"  # in the metadata of a file: all that is no tensor
TENSOR = "$tensor"  # in the tree: the name of the tensor that stands there


class Latest(BaseModel):
    """What `latest.json` holds."""

    format: int = CHECKPOINT_FORMAT
    version: str = __version__
    folder: str = Field(pattern=r"^step-[0-9]+$")  # beside it
    checksums: dict[str, str]  # SHA-256 of each file


def save_tree(file: Path, tree: Any) -> None:
    """Write nested dicts and lists of tensors and plain values."""
    tensors: dict[str, Tensor] = {}

    def take_out(tensor: Tensor) -> dict[str, str]:
        tensors[str(len(tensors))] = tensor
        return {TENSOR: str(len(tensors) - 1)}

    described = json.dumps(tree, default=take_out)
    write_tensors(file, tensors, {TREE: described})


def load_tree(file: Path) -> Any:
    """What `save_tree` wrote; tuples come back as lists."""
    tensors, metadata = read_tensors(file)

    def put_back(entry: dict[str, Any]) -> Any:
        if TENSOR in entry:
            return tensors[entry[TENSOR]]
        # JSON has made text of integers, which are keys of Adam's state.
        return {int(key) if key.isdigit() else key: value for key, value in entry.items()}

    return json.loads(metadata[TREE], object_hook=put_back)


def publish(folder: Path) -> None:
    """Name a folder the newest checkpoint, then remove the older ones."""
    checksums = {file.name: sha256(file) for file in folder.glob("*.safetensors")}
    latest = Latest(folder=folder.name, checksums=checksums)
    write_text(folder.with_name("latest.json"), latest.model_dump_json())
    for other in folder.parent.glob("step-*"):
        if other != folder:
            shutil.rmtree(other, ignore_errors=True)


def load_checkpoint(root: Path, *names: str) -> tuple[Path, list[Any]] | None:
    """The newest complete checkpoint, and what `save_tree` wrote to its files of these names."""
    pointer = root / "latest.json"
    if not pointer.exists():
        return None
    content = read_json(pointer)
    with reading(pointer, RESTORE):
        check_format(pointer, content, CHECKPOINT_FORMAT)
        latest = Latest.model_validate(content)
    files = [root / latest.folder / name for name in names]
    for file in files:
        with reading(file, RESTORE):
            if sha256(file) != latest.checksums[file.name]:
                raise ValueError("its checksum is another one")
    return root / latest.folder, [load_tree(file) for file in files]
