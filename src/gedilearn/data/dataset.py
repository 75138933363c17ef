"""`Dataset`, the result of every reader; its fingerprint; arrays in .npy and .npz files."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from gedilearn.data.arrays import as_numbers, check_memory, row_chunks
from gedilearn.io import check_file, check_size, reading

# A file of this many bytes or more is mapped into memory and not read, if its numbers need no
# conversion. Its pages are loaded as they are used and shared by the processes of a machine, so the
# limit on the size of files does not apply.
MAPPED_FROM = 2**25


@dataclass(frozen=True, eq=False)
class Dataset:
    """Data ready for training.

    Compared by identity: element-wise ``==`` of the arrays has no single truth value.

    Attributes
    ----------
    name: short name for titles and run directories
    x: vectors (n, d) or images (n, c, h, w), finite floats or bytes of pixels; a data frame if
        columns of any type are allowed
    y: labels (n,) or None; for evaluation only
    columns: the names of the d columns, if the source has names
    source: the path as given, or ``built-in``
    paths: for a folder of images, the path of each in it (bytes that are not UTF-8 are escaped)
    rows: for a folder of images, the number of each among all its images, broken ones included
    frame: for a table, all its columns, labels included
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
        """Checked numbers from `path`, or from the array `key` in it."""
        x = as_numbers(x, f"{path}[{key}]" if key else str(path))
        return cls(path.stem, x, y, None, str(path))


def fingerprint(x: np.ndarray) -> str:
    """SHA-256 of dtype, shape and the values in C order, for any memory layout.

    It is read in chunks of rows: a strided or memory-mapped array is never copied as a whole.
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
