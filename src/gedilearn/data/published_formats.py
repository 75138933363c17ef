"""The formats of published image sets: idx (MNIST), CIFAR's records, SVHN's MATLAB files.

Nothing is allocated on the word of a header: what it claims is first compared with what the file
can hold.
"""

from __future__ import annotations

import gzip
import math
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, NamedTuple

import numpy as np

from gedilearn.errors import InputError
from gedilearn.io import check_file, check_size, read_bytes, reading

DEFLATE_RATIO = 1032  # one byte of deflate never becomes more than this
_PIECE = 2**20


def read_published(
    path: Path, labels: Path | None = None, classes: int | None = None
) -> tuple[np.ndarray, np.ndarray | None]:
    """Images (n, c, h, w) uint8 and labels (n,) int64 of one file; its name tells the format.

    `labels` is the file with the labels of an idx file; `classes` is for CIFAR, see `read_cifar`.
    """
    if path.suffix.lower() == ".bin":
        return read_cifar(path, classes)
    if path.suffix.lower() == ".mat":
        return read_svhn(path)
    x = read_idx_images(path)
    return x, None if labels is None else read_idx_labels(labels, len(x))


# --- idx ----------------------------------------------------------------------------------------

IDX_ENDINGS = ("idx3-ubyte", "idx3-ubyte.gz", "idx1-ubyte", "idx1-ubyte.gz")
_IDX_UBYTE = 8


def read_idx_images(path: Path) -> np.ndarray:
    """Grey images (n, 1, h, w)."""
    x = _read_idx(path)
    if x.ndim != 3:
        raise InputError(f"{path}: holds labels (1 dimension), not images; give the images' file")
    return x[:, None]


def read_idx_labels(path: Path, n: int) -> np.ndarray:
    """Labels (n,) int64, as many as there are images."""
    y = _read_idx(path)
    if y.ndim != 1:
        raise InputError(f"{path}: holds images ({y.ndim} dimensions), not labels")
    if len(y) != n:
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


def _read_idx(path: Path) -> np.ndarray:
    """The unsigned bytes in a file, plain or gzipped: images (n, h, w) or labels (n,)."""
    with reading(path):
        size = check_file(path)
        with path.open("rb") as handle:
            zipped = handle.read(2) == b"\x1f\x8b"
        most = size * (DEFLATE_RATIO if zipped else 1)
        with gzip.open(path) if zipped else path.open("rb") as stream:
            return _parse_idx(stream, most, path)


def _parse_idx(stream: BinaryIO | gzip.GzipFile, most: int, path: Path) -> np.ndarray:
    """A gzipped file is unpacked piece by piece and no further than its header claims."""
    head = stream.read(4)
    if len(head) < 4 or head[:2] != b"\0\0":
        raise InputError(f"{path}: not an idx file (it starts with {head!r}); fetch it again")
    kind, dimensions = head[2], head[3]
    if kind != _IDX_UBYTE or dimensions not in (1, 3):
        raise InputError(
            f"{path}: idx values of type {kind:#04x} in {dimensions} dimensions; only unsigned "
            "bytes (0x08) as labels (n) or images (n, h, w) are read"
        )
    sizes = stream.read(4 * dimensions)
    shape = tuple(np.frombuffer(sizes, ">u4", len(sizes) // 4).tolist())
    if len(sizes) < 4 * dimensions or 0 in shape:
        raise InputError(f"{path}: the header is cut short or names no values; fetch it again")
    size = math.prod(shape)
    if size > most:
        raise InputError(
            f"{path}: the header claims {size} bytes of values {shape}, more than the file can "
            "hold; truncated or corrupt, fetch it again"
        )
    check_size(size, f"{path}: {shape} values")
    values = bytearray()
    while piece := stream.read(min(_PIECE, size + 1 - len(values))):
        values += piece
    if len(values) != size:
        side = "fewer" if len(values) < size else "more"
        raise InputError(
            f"{path}: {side} values than the {size} that the header claims; truncated or corrupt, "
            "fetch it again"
        )
    return np.frombuffer(values, np.uint8).reshape(shape)


# --- CIFAR --------------------------------------------------------------------------------------

_CIFAR_PIXELS = 3 * 32 * 32  # a plane of red, one of green, one of blue, each row by row
# By number of classes, for each label byte the number of values it may have. CIFAR-100 gives the
# coarse label, then the fine one.
_CIFAR_LABELS = {10: (10,), 100: (20, 100)}


def read_cifar(path: Path, classes: int | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Images (n, 3, 32, 32) uint8 and labels (n,) int64 from a `.bin` file.

    `classes` is 10 or 100 and says which layout; without it the size of the file does.
    """
    with reading(path):
        data = np.frombuffer(read_bytes(path), np.uint8)
    asked = [classes] if classes else list(_CIFAR_LABELS)
    sizes = {c: len(_CIFAR_LABELS[c]) + _CIFAR_PIXELS for c in asked}
    fits = [c for c, size in sizes.items() if len(data) and not len(data) % size]
    if not fits:
        layouts = " nor of ".join(f"CIFAR-{c} records of {sizes[c]} bytes" for c in asked)
        raise InputError(
            f"{path}: {len(data)} bytes are no whole number of {layouts}; truncated or another "
            "format, fetch it again"
        )
    # 3074 records of CIFAR-10 are as long as 3073 of CIFAR-100: only one has sound labels.
    classes = fits[0] if (data[:: sizes[fits[0]]] < 10).all() else fits[-1]
    limits, size = _CIFAR_LABELS[classes], sizes[classes]
    records = data.reshape(-1, size)
    for column, limit in enumerate(limits):
        wrong = np.flatnonzero(records[:, column] >= limit)
        if len(wrong):
            raise InputError(
                f"{path}: record {wrong[0]} has label {records[wrong[0], column]}, expected 0 to "
                f"{limit - 1}; not a CIFAR-{classes} file, or corrupt"
            )
    y = records[:, len(limits) - 1].astype(np.int64)
    return np.ascontiguousarray(records[:, len(limits) :]).reshape(-1, 3, 32, 32), y


# --- SVHN ---------------------------------------------------------------------------------------

_SVHN_IMAGE = (32, 32, 3)
_MOST_SVHN_IMAGES = 10**6  # the largest official file has 531,131

# Of the format of MATLAB 5 files: kinds of elements, and classes of arrays.
_COMPRESSED, _MATRIX = 15, 14
_NUMBERS = (
    *("double", "single", "int8", "uint8", "int16"),
    *("uint16", "int32", "uint32", "int64", "uint64"),
)
_CLASSES = dict(enumerate(("a cell", "a struct", "an object", "text", "sparse", *_NUMBERS), 1))
_COMPLEX = 0x0800
# How values are stored, whatever their class.
_STORED = {
    **{1: "i1", 2: "u1", 3: "i2", 4: "u2", 5: "i4", 6: "u4"},
    **{7: "f4", 9: "f8", 12: "i8", 13: "u8"},
}
_LONGEST_HEAD = 4096  # bytes before the values


def read_svhn(path: Path) -> tuple[np.ndarray, np.ndarray | None]:
    """Images (n, 3, 32, 32) uint8 and digits (n,) int64, or None where the file has no `y`.

    The file calls the digit 0 "10". Only `X` and `y` are looked at, and only as plain numbers of
    the expected shape; structures, objects and functions in the file are never built.
    """
    with reading(path):
        check_file(path)
        with path.open("rb") as handle:
            arrays = _load_matlab(handle, path)
    images = arrays["X"].reshape(*_SVHN_IMAGE, -1, order="F")
    if images.dtype != np.uint8:
        raise InputError(f"{path}: X is stored as {images.dtype}, expected uint8; fetch it again")
    x = np.ascontiguousarray(images.transpose(3, 2, 0, 1))
    if "y" not in arrays:
        return x, None
    y = arrays["y"].reshape(-1)
    wrong = np.flatnonzero(~np.isin(y, np.arange(11)))
    if len(wrong):
        raise InputError(
            f"{path}: image {wrong[0]} has label {y[wrong[0]]}, expected 1 to 10; not an SVHN file"
        )
    return x, y.astype(np.int64) % 10


def _load_matlab(handle: BinaryIO, path: Path) -> dict[str, np.ndarray]:
    """X, and y where it is there, once their heads have been found sound.

    Scipy's reader believes the sizes that a file announces, and crashes on some damaged ones.
    """
    from scipy.io.matlab import matfile_version

    major = matfile_version(handle)[0]
    if major != 1:
        version = {0: "4", 2: "7.3 (HDF5)"}.get(major, str(major))
        raise InputError(
            f"{path}: MATLAB file of version {version}; SVHN is published in version 5, save it "
            'with save(..., "-v7")'
        )
    handle.seek(126)
    order = "<" if handle.read(2) == b"IM" else ">"
    heads = [head for head in _heads(handle, order) if head.name in ("X", "y")]
    found = {head.name: head for head in heads}
    if len(found) != len(heads):
        raise InputError(f"{path}: X or y is there twice; not an SVHN file")
    _check_heads(found, path)
    return {name: _values(handle, head, order) for name, head in found.items()}


class _Head(NamedTuple):
    """What a file announces of one array: `size` is the number of bytes of its values.

    place, length, packed: of the element that holds it, in the file
    """

    name: str
    kind: str
    shape: tuple[int, ...]
    size: int
    place: int
    length: int
    packed: bool


def _heads(handle: BinaryIO, order: str) -> Iterator[_Head]:
    """Every array of the file, without its values."""
    while len(tag := handle.read(8)) == 8:
        kind, length = struct.unpack(f"{order}II", tag)
        place = handle.tell()
        start = handle.read(min(length, _LONGEST_HEAD))
        packed = kind == _COMPRESSED
        if packed:
            start = zlib.decompressobj().decompress(start, _LONGEST_HEAD)
            kind, start = struct.unpack(f"{order}I", start[:4])[0], start[8:]
        if kind == _MATRIX and length:
            flags, dimensions, name, values = _elements(memoryview(start), order)
            word = struct.unpack(f"{order}I", flags[1][:4])[0]
            shape = struct.unpack(f"{order}{len(dimensions[1]) // 4}i", dimensions[1])
            what = _CLASSES.get(word & 0xFF, f"of class {word & 0xFF}")
            what += ", complex" if word & _COMPLEX else ""
            label = bytes(name[1]).decode("latin-1")
            yield _Head(label, what, shape, values[2], place, length, packed)
        handle.seek(place + length)


def _values(handle: BinaryIO, head: _Head, order: str) -> np.ndarray:
    """The numbers of an array, column by column."""
    handle.seek(head.place)
    content = handle.read(head.length)
    if head.packed:
        unpacking = zlib.decompressobj()
        content = unpacking.decompress(content, head.size + _LONGEST_HEAD)[8:]
        unpacking.decompress(unpacking.unconsumed_tail, 1)
        if not unpacking.eof:
            raise ValueError(f"{head.name} is cut short, or unpacks to more than it says")
    kind, values, _ = _elements(memoryview(content), order)[3]
    stored = np.dtype(order + _STORED[kind])
    if len(values) != math.prod(head.shape) * stored.itemsize:
        raise ValueError(f"{head.name} has other values than its head says")
    return np.frombuffer(values, stored).reshape(head.shape, order="F")


def _elements(data: memoryview, order: str) -> list[tuple[int, memoryview, int]]:
    """The first four parts of an array: kind, content as far as it is there, and its length."""
    found = []
    for _ in range(4):
        kind, size = struct.unpack(f"{order}II", data[:8])
        if kind >> 16:  # four bytes or fewer lie in the tag, after their number
            kind, size = kind & 0xFFFF, kind >> 16
            found.append((kind, data[4 : 4 + size], size))
            data = data[8:]
        else:
            found.append((kind, data[8 : 8 + size], size))
            data = data[8 + size + -size % 8 :]
    return found


def _check_heads(found: dict[str, _Head], path: Path) -> None:
    if "X" not in found:
        raise InputError(f"{path}: holds no X; not an SVHN file")
    x = found["X"]
    # MATLAB drops the last axis of a single image.
    n = x.shape[3] if len(x.shape) == 4 else 1
    if x.kind != "uint8" or len(x.shape) > 4 or x.shape[:3] != _SVHN_IMAGE or n < 1:
        raise InputError(
            f"{path}: X is {x.kind} {x.shape}, expected uint8 (32, 32, 3, n); not an SVHN file"
        )
    most = path.stat().st_size * DEFLATE_RATIO
    if n > _MOST_SVHN_IMAGES or x.size != math.prod(x.shape) or x.size > most:
        raise InputError(
            f"{path}: claims {n} images in {x.size} bytes, which the file cannot hold; truncated "
            "or corrupt, fetch it again"
        )
    check_size(x.size, f"{path}: {n} images")
    y = found.get("y")
    if y and (y.kind not in _NUMBERS or sorted(y.shape) != sorted((1, n)) or y.size > 8 * n):
        raise InputError(
            f"{path}: y is {y.kind} {y.shape} in {y.size} bytes for {n} images, expected "
            f"numbers ({n}, 1)"
        )
