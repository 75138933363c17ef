"""Weight files of other people's networks: known bytes only, and never code.

This is the one place where a file in PyTorch's own format is read. Two locks stand before it: the
file's SHA-256 must be that of the published file, and ``weights_only=True`` restricts the reader
to tensors and plain containers. Our own files are safetensors.
"""

from __future__ import annotations

import hashlib
import io
from pathlib import Path

import torch
from torch import Tensor

from gedilearn.data.dataset import reading
from gedilearn.errors import InputError


def read_weights(path: str | Path, sha256: str, what: str) -> dict[str, Tensor]:
    """The tensors in `path`, which must be the published file `what`."""
    path = Path(path)
    if not path.is_file():
        raise InputError(f"{path}: no such file; give the path of {what}")
    with reading(path):
        content = path.read_bytes()
    found = hashlib.sha256(content).hexdigest()
    if found != sha256:
        raise InputError(
            f"{path}: is not {what} (SHA-256 {found[:8]}..., expected {sha256[:8]}...); "
            "give that file, or fetch it again"
        )
    with reading(path):
        # From the bytes just checked: the file could have changed since.
        state = torch.load(io.BytesIO(content), map_location="cpu", weights_only=True)
    return dict(state)
