"""Checkpoints: safetensors + JSON, written so that a kill at any moment leaves a readable one.

A checkpoint is a folder `step-000000123` of files; `latest.json` names the newest complete one and
is replaced atomically after everything it names is on the disk. Nothing here is pickled: a
checkpoint of unknown origin cannot run code.
"""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import torch

from gedilearn.errors import InputError
from gedilearn.files import RESTORE, TensorFile, damaged, read_json, reading
from gedilearn.writing import write_tensors, write_text

FORMAT = 2


# Files of a checkpoint, without their endings: what all ranks share, and what is a rank's own.
SHARED, OWN = "shared", "rank-{}"


def save_tree(folder: Path, name: str, tree: Any) -> None:
    """Write nested dicts and lists: tensors to `name`.safetensors, the rest to `name`.json."""
    tensors: dict[str, torch.Tensor] = {}
    described = _take_out(tree, "", tensors)
    write_tensors(folder / f"{name}.safetensors", tensors)
    write_text(folder / f"{name}.json", json.dumps(described))


def load_tree(folder: Path, name: str) -> Any:
    """What `save_tree` wrote."""
    described = read_json(folder / f"{name}.json")
    with reading(folder / f"{name}.safetensors", RESTORE):
        tensors = open_tensors(folder, name).read()
    with reading(folder / f"{name}.json", RESTORE):
        return _put_back(described, tensors)


def open_tensors(folder: Path, name: str) -> TensorFile:
    """The tensors of what `save_tree` wrote, unread; their names are their paths in the tree."""
    return TensorFile.open(folder / f"{name}.safetensors")


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
    named = read_json(pointer)
    with reading(pointer, RESTORE):
        form, name = int(named["format"]), str(named["folder"])
    if form != FORMAT:
        raise InputError(
            f"{pointer} has format {form}, this version reads {FORMAT}: "
            "resume with the version of gedi-learn that wrote it"
        )
    if not re.fullmatch(r"step-[0-9]+", name):  # a folder beside the pointer, and no other
        raise damaged(pointer, "it names no checkpoint", RESTORE)
    return root / name


def kept_chains(root: Path) -> torch.Tensor | None:
    """The chains (n, ...) of the replay buffer of the kept member, in the newest checkpoint."""
    folder = latest(root)
    if folder is None:
        return None
    own = load_tree(folder, OWN.format(0))
    with reading(folder, RESTORE):
        members: torch.Tensor | None = own.get("buffer")
        if members is None or len(members) == 1:
            return None if members is None else members[0]
        # Members that still compete have chains each; the model is one of them.
        return members[load_tree(folder, SHARED)["kept"][0]["member"]]


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
    ((kind, content),) = described.items()
    if kind == "tensor":
        return tensors[content]
    if kind == "dict":
        return {k: _put_back(v, tensors) for k, v in content}
    if kind == "list":
        return [_put_back(v, tensors) for v in content]
    if kind == "value" and not isinstance(content, dict | list):
        return content
    raise ValueError(f"{kind!r} is no kind of content")
