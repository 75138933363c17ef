"""The idx files of MNIST and its relatives, plain or gzipped."""

from __future__ import annotations

import gzip
import io
import math
import os
from pathlib import Path
from typing import BinaryIO

import numpy as np

from gedilearn.data.reading import reading
from gedilearn.errors import InputError

LARGEST = 2**32  # bytes of values; 85 times as large as MNIST
DEFLATE_RATIO = 1032  # one byte of deflate never becomes more than this
_UBYTE = 8
_PIECE = 2**20


def read_idx(source: Path | bytes, where: str | None = None) -> np.ndarray:
    """The array of unsigned bytes in a file: images (n, h, w) or labels (n,).

    Nothing is allocated on the word of the header: what it claims is first compared with what the
    file can hold, and a gzipped file is unpacked piece by piece and no further than the claim.
    """
    where = where or (str(source) if isinstance(source, Path) else "idx data")
    with (
        reading(Path(where)),
        source.open("rb") if isinstance(source, Path) else io.BytesIO(source) as handle,
    ):
        stored = handle.seek(0, os.SEEK_END)
        handle.seek(0)
        zipped = handle.read(2) == b"\x1f\x8b"
        handle.seek(0)
        if zipped:
            with gzip.GzipFile(fileobj=handle) as stream:
                return _parse(stream, stored * DEFLATE_RATIO, where)
        return _parse(handle, stored, where)


def read_idx_images(path: Path) -> np.ndarray:
    """Grey images (n, 1, h, w)."""
    x = read_idx(path)
    if x.ndim != 3:
        raise InputError(f"{path}: holds labels (1 dimension), not images; give the images' file")
    return x[:, None]


def read_idx_labels(path: Path, n: int | None = None) -> np.ndarray:
    """Labels (n,) int64, as many as there are images."""
    y = read_idx(path)
    if y.ndim != 1:
        raise InputError(f"{path}: holds images ({y.ndim} dimensions), not labels")
    if n is not None and len(y) != n:
        raise InputError(f"{path}: {len(y)} labels for {n} images; give files that match")
    return y.astype(np.int64)


def labels_beside(path: Path) -> Path | None:
    """``train-labels-idx1-ubyte`` beside ``train-images-idx3-ubyte``, gzipped or not."""
    name = path.name.replace("images", "labels").replace("idx3", "idx1")
    if name == path.name:
        return None
    plain = name.removesuffix(".gz")
    found = (path.with_name(each) for each in (name, plain, f"{plain}.gz"))
    return next((file for file in found if file.is_file()), None)


def _parse(stream: BinaryIO | gzip.GzipFile, most: int, where: str) -> np.ndarray:
    head = stream.read(4)
    if len(head) < 4 or head[:2] != b"\0\0":
        raise InputError(f"{where}: not an idx file (it starts with {head!r}); fetch it again")
    kind, dimensions = head[2], head[3]
    if kind != _UBYTE or dimensions not in (1, 3):
        raise InputError(
            f"{where}: idx values of type {kind:#04x} in {dimensions} dimensions; only unsigned "
            "bytes (0x08) as labels (n) or images (n, h, w) are read"
        )
    sizes = stream.read(4 * dimensions)
    shape = tuple(np.frombuffer(sizes, ">u4", len(sizes) // 4).tolist())
    if len(sizes) < 4 * dimensions or 0 in shape:
        raise InputError(f"{where}: the header is cut short or names no values; fetch it again")
    size = math.prod(shape)
    if size > min(LARGEST, most):
        raise InputError(
            f"{where}: the header claims {size} bytes of values {shape}, more than the file can "
            "hold; truncated or corrupt, fetch it again"
        )
    values = bytearray()
    while piece := stream.read(min(_PIECE, size + 1 - len(values))):
        values += piece
    if len(values) != size:
        side = "fewer" if len(values) < size else "more"
        raise InputError(
            f"{where}: {side} values than the {size} that the header claims; truncated or corrupt, "
            "fetch it again"
        )
    return np.frombuffer(values, np.uint8).reshape(shape)
