"""Arrays that lie in mapped files while a fit runs: the ranks of a machine share them.

Pages of such a file come into memory as they are looked at and go when others need the room. A file
loses its name as soon as all ranks have mapped it, and with the last of them its room on the disk:
however a fit ends, it leaves none behind. Only a process that is killed while one is written does.
"""

from __future__ import annotations

import mmap
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import torch

from gedilearn.data.arrays import Scaling, row_chunks
from gedilearn.data.numpy_files import MAPPED_FROM
from gedilearn.errors import InputError
from gedilearn.ranks import everyones, n_ranks, own_rank, share_of


def is_mapped(x: np.ndarray) -> bool:
    """Whether an array is a large file that is mapped, and not memory."""
    if x.nbytes < MAPPED_FROM:
        return False
    below: Any = x
    while isinstance(below, np.ndarray):
        below = below.base
    return isinstance(below, mmap.mmap)


class Scratch:
    """Makes such arrays; for all ranks at the same time.

    path: what files are called while they have a name, as those that are being written
        (`writing.remove_leftovers`); None: in the folder for temporary files
    node: the number of this machine among all
    """

    def __init__(self, path: Path | None = None, node: int = 0) -> None:
        self.path = Path(tempfile.gettempdir(), "gedi") if path is None else path
        self.here = [rank for rank, there in enumerate(everyones(node)) if there == node]
        self.place = self.here.index(own_rank())

    def array(
        self, shape: tuple[int, ...], parts: Sequence[slice], fill: Callable[[slice], np.ndarray]
    ) -> np.ndarray:
        """An array of float32; `fill` gives `parts` of it along the first axis.

        The ranks of a machine share the parts out and have one file.
        """
        size = 4 * prod(shape)
        with self._file(size) as path:
            with self._named(size), path.open("r+b") as file:
                for k in share_of(len(parts), self.place, len(self.here)):
                    file.seek(4 * prod(shape[1:]) * parts[k].start)
                    file.write(np.ascontiguousarray(fill(parts[k]), np.float32).data)
            everyones(None)  # all is written
            return np.memmap(path, np.float32, "r+", shape=shape)

    def counts(self, parts: Sequence[slice], count: Callable[[slice], int]) -> list[int]:
        """A number for each part; all ranks share them out."""
        mine = [count(parts[k]) for k in share_of(len(parts), own_rank(), n_ranks())]
        return [number for own in everyones(mine) for number in own]

    @contextmanager
    def _file(self, size: int) -> Iterator[Path]:
        """A file of so many bytes that all ranks of this machine know; its name is removed."""
        made = None
        try:
            if self.place == 0:
                with self._named(size):
                    if shutil.disk_usage(self.path.parent).free < size:
                        raise InputError(self._lacking(size))
                    name = f".{self.path.name}."
                    handle, made = tempfile.mkstemp(".part", name, self.path.parent)
                    os.truncate(handle, size)
                    os.close(handle)
            path = everyones(made)[self.here[0]]
            assert path is not None
            yield Path(path)
            everyones(None)  # all have mapped it
        finally:
            if made is not None:
                Path(made).unlink(missing_ok=True)

    @contextmanager
    def _named(self, size: int) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            reason = error.strerror or str(error)
            raise InputError(f"{self._lacking(size)} ({reason})") from None

    def _lacking(self, size: int) -> str:
        return (
            f"{self.path.parent}: data that is mapped from a file needs {size / 1e9:,.1f} GB of "
            "the disk here while it is fitted; make room, or name another folder (--out, TMPDIR)"
        )


@dataclass(frozen=True, eq=False)
class Mapped:
    """Data in the user's units, mapped from a file, that training brings to the network's."""

    x: np.ndarray
    scaling: Scaling

    def scaled(self, scratch: Scratch) -> torch.Tensor:
        """The same in the network's units, without a copy in memory."""
        parts = list(row_chunks(self.x))
        array = scratch.array(self.x.shape, parts, lambda rows: self.scaling.apply(self.x[rows]))
        return torch.from_numpy(array)


def in_units(x: np.ndarray, scaling: Scaling) -> torch.Tensor | Mapped:
    """Data for training: in the network's units, or mapped as it is."""
    return Mapped(x, scaling) if is_mapped(x) else torch.from_numpy(scaling.apply(x))
