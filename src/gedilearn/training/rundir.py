"""The run directory: the contract between training and everything after it.

    config.yaml       the settings, the data's source and fingerprint, the version
    metrics.jsonl     one JSON object a line: the named terms and the gap, member by member
    events.jsonl      warnings, findings of the triad monitor, the verdict
    checkpoint/       everything a resume needs
    model.safetensors the result, once there is one
    preview.safetensors  up to 2,000 of the points with their labels, for figures
    summary.json      the result in numbers and words
    figures/

It reads without this library. Appended lines are flushed one by one; a line cut by a crash is
dropped on resume, together with those later than the checkpoint.
"""

from __future__ import annotations

import json
import math
import os
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
import yaml

from gedilearn import __version__
from gedilearn.errors import InputError
from gedilearn.training.checkpoint import write_tensors, write_text

FORMAT = 1
MOST_PREVIEWED = 2_000


class RunDirectory:
    """A run directory that is being written."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.writer: Any = None  # TensorBoard's, once it is wanted

    @classmethod
    def create(cls, path: str | Path, config: dict[str, Any]) -> RunDirectory:
        """Make a new run directory; an existing one, or any non-empty folder, is refused."""
        path = Path(path)
        if not is_first_process():
            return cls(path)
        if path.exists() and not (path.is_dir() and _is_empty(path)):
            raise InputError(
                f"{path} exists already: choose another folder, or continue it: gedi resume {path}"
            )
        path.mkdir(parents=True, exist_ok=True)
        head = {"format": FORMAT, "version": __version__}
        write_text(path / "config.yaml", yaml.safe_dump(head | config, sort_keys=False))
        return cls(path)

    @property
    def checkpoints(self) -> Path:
        return self.path / "checkpoint"

    def metric(self, row: dict[str, Any]) -> None:
        self._append("metrics.jsonl", row)

    def show_in_tensorboard(self, row: dict[str, Any]) -> None:
        """Write a row's numbers to `tensorboard/`; what members differ in, member by member."""
        if self.writer is None:
            try:
                from torch.utils.tensorboard import SummaryWriter
            except ImportError:
                raise InputError(
                    'TensorBoard is not installed: pip install "gedi-learn[tensorboard]"'
                ) from None
            self.writer = SummaryWriter(str(self.path / "tensorboard"))
        for name, value in row.items():
            if isinstance(value, list):
                members = {str(k): v for k, v in enumerate(value)}
                self.writer.add_scalars(name, members, row["iteration"])
            elif isinstance(value, int | float) and name != "iteration":
                self.writer.add_scalar(name, value, row["iteration"])
        self.writer.flush()

    def event(self, kind: str, message: str, **details: Any) -> None:
        stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        self._append("events.jsonl", {"time": stamp, "kind": kind, "message": message} | details)

    def summary(self, content: dict[str, Any]) -> None:
        write_text(self.path / "summary.json", json.dumps(plain(content), indent=2) + "\n")

    def preview(self, points: np.ndarray, labels: np.ndarray) -> None:
        """Keep evenly spaced points, in the data's units, with their clusters."""
        n = min(len(points), MOST_PREVIEWED)
        index = np.arange(n) * len(points) // n
        kept = {"points": points[index].astype(np.float64), "labels": labels[index]}
        tensors = {name: torch.from_numpy(np.ascontiguousarray(a)) for name, a in kept.items()}
        write_tensors(self.path / "preview.safetensors", tensors)

    def rewind(self, iteration: int) -> None:
        """Drop what was logged after `iteration`, and a line that a crash cut short."""
        for name in ("metrics.jsonl", "events.jsonl"):
            path = self.path / name
            kept = [row for row in read_lines(path) if row.get("iteration", 0) <= iteration]
            write_text(path, "".join(json.dumps(row) + "\n" for row in kept))

    def _append(self, name: str, row: dict[str, Any]) -> None:
        with open(self.path / name, "a", encoding="utf-8") as file:
            file.write(json.dumps(plain(row)) + "\n")


def is_first_process() -> bool:
    """Whether this process writes for all: the only one, or rank 0 of several."""
    return os.environ.get("RANK", os.environ.get("LOCAL_RANK", "0")) == "0"


def read_config(path: str | Path) -> dict[str, Any]:
    """The config of an existing run directory, or one line that says why it is none."""
    path = Path(path)
    file = path / "config.yaml"
    if not path.is_dir():
        raise InputError(f"{path} is not a run directory: no such folder")
    if not file.exists():
        raise InputError(f"{path} is not a run directory: it has no config.yaml")
    try:
        config = yaml.safe_load(file.read_text(encoding="utf-8"))
    except (yaml.YAMLError, UnicodeDecodeError):
        config = None
    if not isinstance(config, dict) or "format" not in config:
        raise InputError(f"{file} is damaged: restore it, or fit anew into another folder")
    if config["format"] != FORMAT:
        raise InputError(
            f"{path} was written in format {config['format']} by version "
            f"{config.get('version', 'unknown')}; version {__version__} reads format {FORMAT}"
        )
    return config


def _is_empty(path: Path) -> bool:
    """Whether nothing but the leftover of an interrupted write is in a folder."""
    return all(entry.name == ".config.yaml.part" for entry in path.iterdir())


def read_lines(path: Path) -> list[dict[str, Any]]:
    """The complete lines of a .jsonl file; none when there is no file."""
    if not path.exists():
        return []
    rows = []
    for line in path.read_text(encoding="utf-8").splitlines():
        try:
            rows.append(json.loads(line))
        except ValueError:
            break  # cut by a crash: nothing after it is whole
    return rows


def plain(value: Any) -> Any:
    """JSON has no NaN or infinity: they are written as their names."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, dict):
        return {k: plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [plain(v) for v in value]
    return value
