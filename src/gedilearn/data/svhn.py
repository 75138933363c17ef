"""Street View House Numbers: the cropped digits in MATLAB files."""

from __future__ import annotations

import io
import math
import os
import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from gedilearn.data.idx import DEFLATE_RATIO
from gedilearn.data.reading import reading
from gedilearn.errors import InputError

SIDE = (32, 32, 3)
MOST_IMAGES = 10**6  # the largest official file has 531,131

# Of the format of MATLAB 5 files: kinds of elements, and classes of arrays.
_COMPRESSED, _MATRIX = 15, 14
_UINT8, _NUMBERS = 9, range(6, 16)
_COMPLEX = 0x0800
_CLASSES = {1: "a cell", 2: "a struct", 3: "an object", 4: "text", 5: "sparse", 6: "double"}


def read_svhn(
    source: Path | bytes, where: str | None = None
) -> tuple[np.ndarray, np.ndarray | None]:
    """Images (n, 3, 32, 32) uint8 and digits (n,) int64, or None where the file has no `y`.

    The file calls the digit 0 "10". Only `X` and `y` are looked at, and only as plain numbers of
    the expected shape; structures, objects and functions in the file are never built.
    """
    where = where or (str(source) if isinstance(source, Path) else "mat data")
    with (
        reading(Path(where)),
        source.open("rb") if isinstance(source, Path) else io.BytesIO(source) as handle,
    ):
        arrays = _load(handle, where)
    x = np.ascontiguousarray(arrays["X"].reshape(*SIDE, -1).transpose(3, 2, 0, 1))
    if "y" not in arrays:
        return x, None
    y = arrays["y"].reshape(-1)
    wrong = np.flatnonzero(~np.isin(y, np.arange(11)))
    if len(wrong):
        raise InputError(
            f"{where}: image {wrong[0]} has label {y[wrong[0]]}, expected 1 to 10; not an SVHN file"
        )
    return x, y.astype(np.int64) % 10


def _load(handle: BinaryIO, where: str) -> dict[str, np.ndarray]:
    from scipy.io import loadmat
    from scipy.io.matlab import matfile_version

    stored = handle.seek(0, os.SEEK_END)
    handle.seek(0)
    major = matfile_version(handle)[0]
    if major != 1:
        version = {0: "4", 2: "7.3 (HDF5)"}.get(major, str(major))
        raise InputError(
            f"{where}: MATLAB file of version {version}; SVHN is published in version 5, save it "
            'with save(..., "-v7")'
        )
    heads = [head for head in _heads(handle) if head.name in ("X", "y")]
    found = {head.name: head for head in heads}
    if len(found) != len(heads):
        raise InputError(f"{where}: X or y is there twice; not an SVHN file")
    _check_heads(found, stored, where)
    handle.seek(0)
    content: dict[str, Any] = loadmat(handle, variable_names=list(found))
    arrays = {name: np.asarray(content[name]) for name in found}
    if arrays["X"].dtype != np.uint8 or arrays["X"].shape != found["X"].shape:
        raise InputError(f"{where}: X is not what its head says; corrupt, fetch it again")
    return arrays


@dataclass(frozen=True)
class _Head:
    """What a file announces of one array: `size` is the number of bytes of its values."""

    name: str
    kind: int
    is_complex: bool
    shape: tuple[int, ...]
    size: int


def _heads(handle: BinaryIO) -> Iterator[_Head]:
    """Every array of the file, without its values.

    Scipy believes the sizes that a file announces and allocates up to 4 GB for a file of 100 bytes,
    so they are looked at before.
    """
    handle.seek(126)
    order = "<" if handle.read(2) == b"IM" else ">"
    while len(tag := handle.read(8)) == 8:
        kind, size = struct.unpack(f"{order}II", tag)
        follows = handle.tell() + size
        start = handle.read(min(size, 4096))
        if kind == _COMPRESSED:
            start = zlib.decompressobj().decompress(start, 4096)
            kind, start = struct.unpack(f"{order}I", start[:4])[0], start[8:]
        if kind == _MATRIX and size:
            yield _head(start, order)
        handle.seek(follows)


def _head(data: bytes, order: str) -> _Head:
    flags, data = _element(data, order)
    dimensions, data = _element(data, order)
    name, data = _element(data, order)
    word = struct.unpack(f"{order}I", flags[:4])[0]
    shape = struct.unpack(f"{order}{len(dimensions) // 4}i", dimensions)
    values = struct.unpack(f"{order}II", data[:8].ljust(8, b"\0"))
    size = values[0] >> 16 or values[1]  # four bytes or fewer lie in the tag, after their number
    return _Head(name.decode("latin-1"), word & 0xFF, bool(word & _COMPLEX), shape, size)


def _element(data: bytes, order: str) -> tuple[bytes, bytes]:
    """The content of the first element, and what comes after it."""
    kind, size = struct.unpack(f"{order}II", data[:8])
    if kind >> 16:
        return data[4 : 4 + (kind >> 16)], data[8:]
    return data[8 : 8 + size], data[8 + size + -size % 8 :]


def _check_heads(found: dict[str, _Head], stored: int, where: str) -> None:
    if "X" not in found:
        raise InputError(f"{where}: holds no X; not an SVHN file")
    x = found["X"]
    # MATLAB drops the last axis of a single image.
    n = x.shape[3] if len(x.shape) == 4 else 1
    if x.kind != _UINT8 or x.is_complex or len(x.shape) > 4 or x.shape[:3] != SIDE or n < 1:
        plain = "complex" if x.is_complex else "uint8"
        kind = plain if x.kind == _UINT8 else _CLASSES.get(x.kind, f"of class {x.kind}")
        raise InputError(
            f"{where}: X is {kind} {x.shape}, expected uint8 (32, 32, 3, n); not an SVHN file"
        )
    if n > MOST_IMAGES or x.size != math.prod(x.shape) or x.size > stored * DEFLATE_RATIO:
        raise InputError(
            f"{where}: claims {n} images in {x.size} bytes, which the file cannot hold; truncated "
            "or corrupt, fetch it again"
        )
    if "y" in found:
        y = found["y"]
        numbers = y.kind in _NUMBERS and not y.is_complex
        if not numbers or sorted(y.shape) != sorted((1, n)) or y.size > 8 * n:
            kind = "numbers" if numbers else _CLASSES.get(y.kind, f"of class {y.kind}")
            raise InputError(
                f"{where}: y is {kind} {y.shape} in {y.size} bytes for {n} images, expected "
                f"numbers ({n}, 1)"
            )
