"""`Dataset`, the result of every reader; its fingerprint; arrays in .npy and .npz files."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from gedilearn.data.arrays import as_numbers, check_memory, row_chunks
from gedilearn.io import check_file, check_size, reading

# A file of so many bytes is mapped and not read, if its numbers are used as they are. Its pages
# come into memory as they are used, and the processes of a machine share them; the limit on what
# is read does not hold for it.
MAPPED_FROM = 2**25


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
    paths, rows: of images in a folder, where each lies in it (bytes that are no UTF-8 are spelled
        out), and its number among all that are there, also those that cannot be read
    frame: a table with all its columns, labels too
    """

    name: str
    x: Any
    y: np.ndarray | None
    columns: tuple[str, ...] | None
    source: str
    paths: tuple[str, ...] | None = None
    rows: np.ndarray | None = None
    frame: Any = None

    @classmethod
    def checked(
        cls, path: Path, x: np.ndarray, y: np.ndarray | None = None, key: str = ""
    ) -> Dataset:
        """Numbers from `path`, or from the array `key` in it, checked."""
        x = as_numbers(x, f"{path}[{key}]" if key else str(path))
        return cls(path.stem, x, y, None, str(path))


def fingerprint(x: np.ndarray) -> str:
    """SHA-256 over dtype, shape and the values in C order, whatever the memory layout.

    Read in chunks of rows, so that a strided or memory-mapped array is never copied whole.
    """
    digest = hashlib.sha256(f"{x.dtype.str} {x.shape}".encode())
    rows = np.atleast_1d(x)
    for chunk in row_chunks(rows):
        digest.update(np.ascontiguousarray(rows[chunk]).reshape(-1).view(np.uint8).data)
    return digest.hexdigest()


# --- array files --------------------------------------------------------------------------------


def read_npy(path: Path) -> np.ndarray:
    """The array in an .npy file; a large one is mapped."""
    size = check_file(path, mapped=True)
    x: np.ndarray = np.load(path, mmap_mode="r", allow_pickle=False)
    is_used = x.dtype in (np.float32, np.float64) or (x.dtype == np.uint8 and x.ndim == 4)
    if size >= MAPPED_FROM and is_used and x.flags.c_contiguous and x.ndim in (2, 4):
        return x
    check_size(size, path)
    check_memory(x.shape, x.dtype, str(path))
    return np.array(x)


def npz_keys(path: Path) -> list[str]:
    """The names of the arrays in an .npz file."""
    check_file(path)
    with reading(path), np.load(path, allow_pickle=False) as archive:
        return list(archive.files)


def read_npz(path: Path, key: str) -> np.ndarray:
    """One array of an .npz file."""
    where = f"{path}[{key}]"
    with reading(where), np.load(path, allow_pickle=False) as archive:
        check_size(archive.zip.getinfo(f"{key}.npy").file_size, where)
        return np.asarray(archive[key])
