"""Checkpoints: safetensors + JSON, written so that a kill at any moment leaves a readable one.

A checkpoint is a folder `step-000000123` of files; `latest.json` names the newest complete one and
is replaced atomically after everything it names is on the disk. Nothing here is pickled: a
checkpoint from a stranger cannot run code.
"""

from __future__ import annotations

import json
import shutil
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file

from gedilearn.errors import InputError
from gedilearn.training.run_directory import RunDirectory
from gedilearn.training.state import TrainState, Tree
from gedilearn.writing import write_tensors, write_text

if TYPE_CHECKING:
    from lightning_fabric import Fabric

FORMAT = 2


class Checkpoints:
    """Those of a run directory; without one there is nothing to do.

    Each rank writes what is its own (chains, random states); rank 0 writes what all share.
    """

    def __init__(self, run: RunDirectory | None, fabric: Fabric, every: float) -> None:
        self.root = None if run is None else run.checkpoints
        self.fabric = fabric
        self.every = every  # seconds
        self.saved_at = time.perf_counter()

    def save_if_due(self, state: TrainState, seconds: float) -> None:
        """Save when the time has come; rank 0's clock counts."""
        if self.root is not None:
            due = time.perf_counter() - self.saved_at >= self.every
            if self.fabric.broadcast(due):
                self.save(state, seconds)

    def save(self, state: TrainState, seconds: float) -> None:
        """Write a checkpoint; the newest complete one stays until this one is complete."""
        if self.root is None:
            return
        rank, folder, tree = (
            self.fabric.global_rank,
            step_folder(self.root, state.iteration),
            state.save(),
        )
        folder.mkdir(parents=True, exist_ok=True)
        save_tree(folder, own_file(rank), tree["own"])
        if rank == 0:
            save_tree(folder, SHARED_FILE, tree["shared"] | {"seconds": seconds})
        self.fabric.barrier()
        if rank == 0:
            publish(self.root, state.iteration)
        self.saved_at = time.perf_counter()

    def newest(self) -> Tree | None:
        """What the newest complete checkpoint holds for this rank."""
        folder = None if self.root is None else latest(self.root)
        if folder is None:
            return None
        own = load_tree(folder, own_file(self.fabric.global_rank))
        return {"shared": load_tree(folder, SHARED_FILE), "own": own}


# Files of a checkpoint, without their endings.
SHARED_FILE = "shared"


def own_file(rank: int) -> str:
    return f"rank-{rank}"


def save_tree(folder: Path, name: str, tree: Any) -> None:
    """Write nested dicts and lists: tensors to `name`.safetensors, the rest to `name`.json."""
    tensors: dict[str, torch.Tensor] = {}
    described = _take_out(tree, "", tensors)
    write_tensors(folder / f"{name}.safetensors", tensors)
    write_text(folder / f"{name}.json", json.dumps(described))


def load_tree(folder: Path, name: str) -> Any:
    """What `save_tree` wrote."""
    try:
        described = json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))
        return _put_back(described, load_file(folder / f"{name}.safetensors"))
    except (OSError, ValueError, KeyError, SafetensorError) as error:
        raise InputError(
            f"checkpoint {folder} is damaged ({error}): remove it and fit anew"
        ) from None


def publish(root: Path, step: int) -> None:
    """Name `step` the newest checkpoint, then remove the older ones."""
    folder = step_folder(root, step)
    write_text(root / "latest.json", json.dumps({"format": FORMAT, "folder": folder.name}))
    for other in root.glob("step-*"):
        if other != folder:
            shutil.rmtree(other, ignore_errors=True)


def step_folder(root: Path, step: int) -> Path:
    return root / f"step-{step:09d}"


def latest(root: Path) -> Path | None:
    """The newest complete checkpoint, or None when there is none yet."""
    pointer = root / "latest.json"
    if not pointer.exists():
        return None
    try:
        named = json.loads(pointer.read_text(encoding="utf-8"))
        form, folder = named["format"], root / str(named["folder"])
    except (ValueError, KeyError, TypeError):
        raise InputError(f"{pointer} is damaged: remove {root} and fit anew") from None
    if form != FORMAT:
        raise InputError(
            f"{pointer} has format {form}, this version reads {FORMAT}: "
            "resume with the version of gedi-learn that wrote it"
        )
    return folder


def _take_out(tree: Any, path: str, tensors: dict[str, torch.Tensor]) -> Any:
    if isinstance(tree, torch.Tensor):
        tensors[path] = tree
        return {"tensor": path}
    if isinstance(tree, dict):
        # Keys may be integers (Adam's state), which JSON would turn into text.
        items = [[k, _take_out(v, f"{path}/{k}", tensors)] for k, v in tree.items()]
        return {"dict": items}
    if isinstance(tree, list | tuple):
        return {"list": [_take_out(v, f"{path}/{i}", tensors) for i, v in enumerate(tree)]}
    return {"value": tree}


def _put_back(described: Any, tensors: dict[str, torch.Tensor]) -> Any:
    (kind, content) = next(iter(described.items()))
    if kind == "tensor":
        return tensors[content]
    if kind == "dict":
        return {k: _put_back(v, tensors) for k, v in content}
    if kind == "list":
        return [_put_back(v, tensors) for v in content]
    return content
