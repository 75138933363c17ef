"""`Dataset`, the result of every reader; its fingerprint; arrays in .npy and .npz files."""

from __future__ import annotations

import hashlib
import math
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np

from gedilearn.data.arrays import PYTHON_OBJECTS, as_numbers, check_memory, row_chunks
from gedilearn.errors import InputError
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
    paths, rows: of images in a folder, where each lies in it, and its number among all that are
        there, also those that cannot be read
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
    with path.open("rb") as file:
        shape, fortran, dtype = _header(file, size, str(path))
        is_used = dtype in (np.float32, np.float64) or (dtype == np.uint8 and len(shape) == 4)
        if size >= MAPPED_FROM and is_used and not fortran and len(shape) in (2, 4):
            return np.memmap(path, dtype, "r", file.tell(), shape)
        check_size(size, path)
        return _read_array(file, size, str(path))


def npz_keys(path: Path) -> list[str]:
    """The names of the arrays in an .npz file."""
    with reading(path):
        check_file(path)
        if not zipfile.is_zipfile(path):
            raise ValueError("not an .npz archive, or cut short")
        with zipfile.ZipFile(path) as archive:
            return [name.removesuffix(".npy") for name in archive.namelist()]


def read_npz(path: Path, key: str) -> np.ndarray:
    """One array of an .npz file."""
    where = f"{path}[{key}]"
    with reading(where), zipfile.ZipFile(path) as archive:
        if f"{key}.npy" not in archive.namelist():
            raise InputError(f"{where}: not an array; save it again with numpy.savez")
        with archive.open(f"{key}.npy") as stream:
            return _read_array(stream, archive.getinfo(f"{key}.npy").file_size, where)


def _header(stream: IO[bytes], held: int, where: str) -> tuple[tuple[int, ...], bool, np.dtype]:
    """Shape, whether in Fortran order, and type of the array in a stream of so many bytes."""
    stream.seek(0)
    is_first = np.lib.format.read_magic(stream) == (1, 0)
    read = np.lib.format.read_array_header_1_0 if is_first else np.lib.format.read_array_header_2_0
    shape, fortran, dtype = read(stream)
    if dtype.hasobject:
        raise InputError(f"{where}: {PYTHON_OBJECTS}")
    if min(shape, default=0) < 0 or math.prod(shape) * dtype.itemsize > held - stream.tell():
        raise ValueError(f"its header claims {dtype} {shape}, more than there is")
    return shape, fortran, dtype


def _read_array(stream: IO[bytes], held: int, where: str) -> np.ndarray:
    """The array in a stream of so many bytes, measured by its header before it is read."""
    shape, _, dtype = _header(stream, held, where)
    check_memory(shape, dtype, where)
    stream.seek(0)
    return np.lib.format.read_array(stream, allow_pickle=False)
