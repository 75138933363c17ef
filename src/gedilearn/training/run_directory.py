"""The run directory: the contract between training and everything after it.

    config.yaml          the settings, the data's source and fingerprint, the version
    metrics.jsonl        one JSON object a line: the named terms and the gap, member by member
    events.jsonl         warnings, findings of the triad monitor, the verdict
    checkpoint/          everything a resume needs
    model.safetensors    the result, once there is one
    profile.json         why each cluster is one: columns that set it apart, rows to look at
    preview.safetensors  some of the points with what was found of them, for figures
    summary.json         the result in numbers and words; the last file that a fit writes
    labels.csv           the cluster of each row and what names the row, written by `gedi fit`
    figures/, report.html               written by `gedi report`
    evaluation/                         written by `gedi evaluate`, see `EvaluationFolder`
    tensorboard/                        the metrics once more, on request
    .lock                held by the process that trains
    .scratch.*.part      data as training sees it, only while it is written (`data.scratch`)

All names are spelled here and nowhere else. It reads without this library. Appended lines are
flushed one by one; a line cut by a crash or damaged is dropped on resume, together with those later
than the checkpoint.
"""

from __future__ import annotations

import json
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from filelock import FileLock, Timeout

from gedilearn import __version__
from gedilearn.errors import InputError
from gedilearn.files import RESTORE, damaged, read_json_lines
from gedilearn.writing import (
    is_first_process,
    is_leftover,
    json_text,
    remove_leftovers,
    write_json,
    write_tensors,
    write_text,
)

# Locks are kept when they are released: Python loses a Ctrl-C that comes while it clears one away,
# and shows a traceback instead.
_RELEASED: deque[FileLock] = deque(maxlen=100)

FORMAT = 1


class RunDirectory:
    """The paths of a run directory, and how a fit writes to them."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.config = self.path / "config.yaml"
        self.metrics = self.path / "metrics.jsonl"
        self.events = self.path / "events.jsonl"
        self.checkpoints = self.path / "checkpoint"
        self.model = self.path / "model.safetensors"
        self.preview = self.path / "preview.safetensors"
        self.profile = self.path / "profile.json"
        self.summary = self.path / "summary.json"
        self.labels = self.path / "labels.csv"
        self.figures = self.path / "figures"
        self.report = self.path / "report.html"
        self.evaluation = self.path / "evaluation"
        self.lock = self.path / ".lock"
        self.scratch = self.path / "scratch"  # its files are only ever being written
        self._tensorboard: Any = None  # its writer, once it is wanted

    @classmethod
    @contextmanager
    def create(cls, path: str | Path, config: dict[str, Any]) -> Iterator[RunDirectory]:
        """A new run directory, held; an existing one, or any non-empty folder, is refused.

        What is refused before the first checkpoint leaves nothing behind.
        """
        run, head = cls(path), {"format": FORMAT, "version": __version__}
        if not is_first_process():
            yield run
            return
        # Its own folder first, then those around it.
        made = [folder for folder in (run.path, *run.path.parents) if not folder.exists()]
        run.refuse_used()
        run.path.mkdir(parents=True, exist_ok=True)
        with run.held():
            run.refuse_used()  # another process may have come before
            write_text(run.config, yaml.safe_dump(head | config, sort_keys=False))
            try:
                yield run
            except (ValueError, TypeError):  # also of views or an encoder of the user's own
                if not run.checkpoints.exists():
                    for file in (run.config, run.metrics, run.events, run.lock):
                        file.unlink(missing_ok=True)
                    with suppress(OSError):  # others may have put something there meanwhile
                        for folder in made:
                            folder.rmdir()
                raise

    @contextmanager
    def held(self) -> Iterator[None]:
        """Keep other processes from training here; the lock goes with the process, however it ends.

        Of several ranks the first holds it for all.
        """
        if not is_first_process():
            yield
            return
        lock = FileLock(self.lock, timeout=0)
        _RELEASED.append(lock)
        try:
            with lock:
                self._refuse_misplaced()
                self._tidy()
                yield
        except Timeout:
            raise InputError(
                f"{self.path} is in use by another process: wait until that has ended, or choose "
                "another folder"
            ) from None

    def _written(self) -> tuple[Path, ...]:
        """The files that a fit writes, but for those of its checkpoints."""
        logs = (self.config, self.metrics, self.events)
        return (*logs, self.model, self.profile, self.preview, self.summary, self.labels)

    def _checkpoint_folders(self) -> tuple[Path, ...]:
        return (self.checkpoints, *self.checkpoints.glob("step-*"))

    def _refuse_misplaced(self) -> None:
        """Refuse a folder in the place of a file, or a file in that of a folder.

        A fit would find out in the end, when it has written all else.
        """
        for folder in self._checkpoint_folders():
            if (folder.exists() or folder.is_symlink()) and not folder.is_dir():
                raise damaged(folder, "it is not a folder", RESTORE)
        inside = (file for folder in self._checkpoint_folders() for file in folder.glob("*.*"))
        for file in (*self._written(), *inside):
            if file.is_dir():
                raise damaged(file, "it is a folder", RESTORE)

    def _tidy(self) -> None:
        """Remove what a killed fit left behind in the middle of a write."""
        for file in (*self._written(), self.scratch):
            remove_leftovers(self.path, file.name)
        for folder in self._checkpoint_folders():
            remove_leftovers(folder)

    def refuse_used(self) -> None:
        """Refuse a folder with more in it than a lock and the leftover of an interrupted write."""
        if self.path.is_dir():
            used = any(
                entry.name != self.lock.name and not is_leftover(entry, self.config.name)
                for entry in self.path.iterdir()
            )
        else:
            used = self.path.exists() or self.path.is_symlink()
        if used:
            raise InputError(
                f"{self.path} exists already: choose another folder, or continue it: "
                f"gedi resume {self.path}"
            )

    def add_metrics(self, row: dict[str, Any]) -> None:
        """Append a line to the metrics."""
        _append(self.metrics, row)

    def add_to_tensorboard(self, row: dict[str, Any]) -> None:
        """Write a row's numbers to `tensorboard/`; what members differ in, member by member."""
        if self._tensorboard is None:
            try:
                from torch.utils.tensorboard import SummaryWriter
            except ImportError:
                raise InputError(
                    'TensorBoard is not installed: pip install "gedi-learn[tensorboard]"'
                ) from None
            self._tensorboard = SummaryWriter(str(self.path / "tensorboard"))
        for name, value in row.items():
            if isinstance(value, list):
                members = {str(k): v for k, v in enumerate(value)}
                self._tensorboard.add_scalars(name, members, row["iteration"])
            elif isinstance(value, int | float) and name != "iteration":
                self._tensorboard.add_scalar(name, value, row["iteration"])
        self._tensorboard.flush()

    def add_event(self, kind: str, message: str, **details: Any) -> None:
        """Append a line to the events."""
        stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        _append(self.events, {"time": stamp, "kind": kind, "message": message} | details)

    def write_summary(self, content: dict[str, Any]) -> None:
        """Say how it ended."""
        write_json(self.summary, content)

    def write_profile(self, content: dict[str, Any]) -> None:
        """Say why each cluster is one."""
        write_json(self.profile, content, None)

    def write_preview(self, arrays: dict[str, np.ndarray]) -> None:
        """Keep some of the points, in the data's units, with what was found of them."""
        import torch  # not at the top: folders are looked at before it is there

        kept = {name: torch.from_numpy(np.ascontiguousarray(a)) for name, a in arrays.items()}
        write_tensors(self.preview, kept)

    def rewind(self, iteration: int) -> None:
        """Drop what was logged after `iteration`, and a line that a crash cut short."""
        read = {path: read_json_lines(path) for path in (self.metrics, self.events)}
        for path, rows in read.items():
            kept = [row for row in rows if _is_until(row, iteration)]
            write_text(path, "".join(json.dumps(row) + "\n" for row in kept))


class EvaluationFolder:
    """The paths of what an evaluation writes, into a run directory or elsewhere."""

    def __init__(self, path: Path) -> None:
        self.numbers = path / "evaluation.json"
        self.page = path / "evaluation.md"
        self.pictures = [path / f"{name}.png" for name in ("roc", "samples", "nearest", "buffer")]
        self.roc, self.samples, self.nearest, self.buffer = self.pictures


def _append(path: Path, row: dict[str, Any]) -> None:
    with open(path, "a", encoding="utf-8") as file:
        file.write(json_text(row) + "\n")


def _is_until(row: dict[str, Any], iteration: int) -> bool:
    """Whether a row was logged no later; what happened before training has no iteration."""
    at = row.get("iteration", 0)
    return isinstance(at, int | float) and at <= iteration
