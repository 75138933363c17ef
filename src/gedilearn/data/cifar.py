"""CIFAR-10 and CIFAR-100 in their official binary layouts: records of label bytes and pixels."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from gedilearn.data.reading import reading
from gedilearn.errors import InputError

PIXELS = 3 * 32 * 32  # a plane of red, one of green, one of blue, each row by row
_LABEL_BYTES = {10: 1, 100: 2}  # CIFAR-100: the coarse label of 20, then the fine one of 100
_COARSE = 20


def parse_cifar(
    data: bytes | np.ndarray, where: str, classes: int, coarse: bool = False
) -> tuple[np.ndarray, np.ndarray]:
    """Images (n, 3, 32, 32) uint8 and labels (n,) int64 from the bytes of a file.

    `classes` is 10 or 100 and says which layout. `coarse` asks for the 20 coarse labels of
    CIFAR-100 instead of the fine ones.
    """
    heads = _LABEL_BYTES[classes]
    size = heads + PIXELS
    values = np.frombuffer(data, np.uint8) if isinstance(data, bytes) else data
    if len(values) == 0 or len(values) % size:
        raise InputError(
            f"{where}: {len(values)} bytes are no whole number of CIFAR-{classes} records of "
            f"{size} bytes; truncated or another format, fetch it again"
        )
    records = values.reshape(-1, size)
    limits = (10,) if classes == 10 else (_COARSE, 100)
    for column, limit in enumerate(limits):
        wrong = np.flatnonzero(records[:, column] >= limit)
        if len(wrong):
            raise InputError(
                f"{where}: record {wrong[0]} has label {records[wrong[0], column]}, expected 0 to "
                f"{limit - 1}; not a CIFAR-{classes} file, or corrupt"
            )
    y = records[:, 0 if coarse else heads - 1].astype(np.int64)
    return np.ascontiguousarray(records[:, heads:]).reshape(-1, 3, 32, 32), y


def read_cifar(
    path: Path, classes: int | None = None, coarse: bool = False
) -> tuple[np.ndarray, np.ndarray]:
    """Read one `.bin` file; without `classes` the size of the file says which layout it has."""
    with reading(path):
        data = np.fromfile(path, np.uint8)
    return parse_cifar(data, str(path), classes or _layout(data, str(path)), coarse)


def _layout(data: np.ndarray, where: str) -> int:
    fits = [c for c, heads in _LABEL_BYTES.items() if not len(data) % (heads + PIXELS)]
    if len(data) == 0 or not fits:
        raise InputError(
            f"{where}: {len(data)} bytes are no whole number of CIFAR-10 records of 3073 bytes "
            "nor of CIFAR-100 records of 3074; truncated or another format, fetch it again"
        )
    if len(fits) == 2:  # 3074 records of one or 3073 of the other: only one has sound labels
        tens = data.reshape(-1, 1 + PIXELS)[:, 0]
        return 10 if (tens < 10).all() else 100
    return fits[0]
