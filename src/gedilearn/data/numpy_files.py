"""Arrays in .npy and .npz files, measured by their headers before they are read."""

from __future__ import annotations

import math
import zipfile
from pathlib import Path
from typing import IO

import numpy as np

from gedilearn.data.arrays import PYTHON_OBJECTS, check_memory
from gedilearn.errors import InputError
from gedilearn.io import MAPPED, check_file, check_size, reading

# A file of so many bytes is mapped and not read, if its numbers are used as they are. Its pages
# come into memory as they are used, and the processes of a machine share them; the limit on what
# is read does not hold for it.
MAPPED_FROM = 2**25
_MAPPED = tuple(map(np.dtype, (np.float32, np.float64)))


def read_npy(path: Path) -> np.ndarray:
    """The array in an .npy file; a large one is mapped."""
    size = check_file(path, MAPPED)
    with path.open("rb") as file:
        shape, fortran, dtype = _header(file, size, str(path))
        is_used_as_it_is = dtype in _MAPPED or (dtype == np.uint8 and len(shape) == 4)
        if size >= MAPPED_FROM and is_used_as_it_is and not fortran and len(shape) in (2, 4):
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
    """The array in a stream of so many bytes."""
    shape, _, dtype = _header(stream, held, where)
    check_memory(shape, dtype, where)
    stream.seek(0)
    return np.lib.format.read_array(stream, allow_pickle=False)
