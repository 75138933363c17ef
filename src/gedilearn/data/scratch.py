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
from collections.abc import Callable, Iterable, Iterator, Sequence
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
from gedilearn.ranks import Group, Ranks, share_of


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
    ranks: who does it together
    """

    def __init__(self, path: Path | None = None, node: int = 0, ranks: Ranks | None = None) -> None:
        self.path = Path(tempfile.gettempdir(), "gedi") if path is None else path
        self.ranks = ranks or Group()
        nodes = self.ranks.everyones(node)
        self.here = [rank for rank, there in enumerate(nodes) if there == node]
        self.place = self.here.index(self.ranks.rank)

    def array(
        self,
        shape: tuple[int, ...],
        parts: Sequence[slice],
        fill: Callable[[slice], Iterable[np.ndarray]],
        kind: type[np.floating[Any]] = np.float32,
        what: str = "data of a mapped file",
    ) -> np.ndarray:
        """An array; `fill` gives `parts` of it along the first axis, each piece by piece.

        The ranks of a machine share the parts out and have one file.
        """
        row = np.dtype(kind).itemsize * prod(shape[1:])
        size = row * shape[0]
        told = (
            f"{what} needs {size / 1e9:,.1f} GB of the disk in {self.path.parent} while it is "
            "fitted: make room there, or name another folder (--out, TMPDIR)"
        )
        with self._file(size, told) as path:
            with path.open("r+b") as file:
                for k in share_of(len(parts), self.place, len(self.here)):
                    file.seek(row * parts[k].start)
                    for piece in fill(parts[k]):
                        with _telling(told):
                            file.write(np.ascontiguousarray(piece, kind).data)
                            file.flush()
            self.ranks.everyones(None)  # all is written
            return np.memmap(path, kind, "r+", shape=shape)

    def counts(self, parts: Sequence[slice], count: Callable[[slice], int]) -> list[int]:
        """A number for each part; all ranks share them out."""
        own = share_of(len(parts), self.ranks.rank, self.ranks.number)
        found = self.ranks.everyones([count(parts[k]) for k in own])
        return [number for numbers in found for number in numbers]

    @contextmanager
    def _file(self, size: int, told: str) -> Iterator[Path]:
        """A file of so many bytes that all ranks of this machine know; its name is removed."""
        made = None
        try:
            if self.place == 0:
                with _telling(told):
                    if shutil.disk_usage(self.path.parent).free < size:
                        raise InputError(told)
                    name = f".{self.path.name}."
                    handle, made = tempfile.mkstemp(".part", name, self.path.parent)
                    with os.fdopen(handle, "wb") as file:
                        file.truncate(size)
            path = self.ranks.everyones(made)[self.here[0]]
            assert path is not None
            yield Path(path)
            self.ranks.everyones(None)  # all have mapped it
        finally:
            if made is not None:
                Path(made).unlink(missing_ok=True)


@contextmanager
def _telling(told: str) -> Iterator[None]:
    """Tell what the disk does not do in one line."""
    try:
        yield
    except OSError as error:
        raise InputError(f"{told} ({error.strerror or error})") from None


@dataclass(frozen=True, eq=False)
class Mapped:
    """Data in the user's units, mapped from a file, that training brings to the network's."""

    x: np.ndarray
    scaling: Scaling

    def scaled(self, scratch: Scratch) -> torch.Tensor:
        """The same in the network's units, without a copy in memory."""
        parts = list(row_chunks(self.x))
        array = scratch.array(self.x.shape, parts, lambda rows: [self.scaling.apply(self.x[rows])])
        return torch.from_numpy(array)


def in_units(x: np.ndarray, scaling: Scaling) -> torch.Tensor | Mapped:
    """Data for training: in the network's units, or mapped as it is."""
    return Mapped(x, scaling) if is_mapped(x) else torch.from_numpy(scaling.apply(x))
