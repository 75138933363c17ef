"""What every reader of data returns, and the fingerprint of the data of a run."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from gedilearn.data.arrays import as_numbers, row_chunks
from gedilearn.errors import InputError


@dataclass(frozen=True, eq=False)
class Dataset:
    """Data ready for training.

    Compared by identity: element-wise ``==`` of the arrays has no single truth value.

    Attributes
    ----------
    name: short name for titles and run directories
    x: vectors (n, d) or images (n, c, h, w), floating point and finite, or bytes of pixels; a data
        frame where columns of any type were asked for
    y: labels (n,) where they are known, for evaluation only
    columns: the names of the d columns where the source has them
    source: the path as given, or ``built-in``
    paths, rows: of images in a folder, where each lies in it, and its number among all that are
        there, also those that cannot be read
    dialect: how a table of text was written, in words, where that is not as usual
    frame: a table with all its columns, labels too
    """

    name: str
    x: Any
    y: np.ndarray | None
    columns: tuple[str, ...] | None
    source: str
    paths: tuple[str, ...] | None = None
    rows: np.ndarray | None = None
    dialect: str = ""
    frame: Any = None

    @classmethod
    def checked(
        cls,
        path: Path,
        x: np.ndarray,
        y: np.ndarray | None = None,
        columns: tuple[str, ...] | None = None,
        key: str = "",
    ) -> Dataset:
        """What was read from `path`, or from the array `key` in it, with the numbers checked."""
        x = as_numbers(x, f"{path}[{key}]" if key else str(path))
        return cls(path.stem, x, y, columns, str(path))


def fingerprint(x: np.ndarray) -> str:
    """SHA-256 over dtype, shape and the values in C order, whatever the memory layout.

    Read in chunks of rows, so that a strided or memory-mapped array is never copied whole.
    """
    if x.dtype.hasobject:
        raise InputError(
            "x holds Python objects, which have no stable bytes; convert it to numbers"
        )
    digest = hashlib.sha256(f"{x.dtype.str} {x.shape}".encode())
    rows = np.atleast_1d(x)
    for chunk in row_chunks(rows):
        digest.update(np.ascontiguousarray(rows[chunk]).reshape(-1).view(np.uint8).data)
    return digest.hexdigest()
