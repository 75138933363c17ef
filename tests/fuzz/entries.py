"""What can lie in the folder of a case."""

from __future__ import annotations

import os
import shutil
import struct
import zlib
from dataclasses import dataclass
from pathlib import Path

from fuzz.damage import Damage
from fuzz.player import Entry


@dataclass(frozen=True)
class File:
    name: str
    content: bytes

    def put(self, folder: Path) -> None:
        path = folder / self.name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(self.content)


@dataclass(frozen=True)
class Folder:
    name: str

    def put(self, folder: Path) -> None:
        (folder / self.name).mkdir(parents=True)


@dataclass(frozen=True)
class Link:
    name: str
    target: str

    def put(self, folder: Path) -> None:
        path = folder / self.name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.symlink_to(self.target)


@dataclass(frozen=True)
class Pipe:
    """A FIFO, which nobody writes to."""

    name: str

    def put(self, folder: Path) -> None:
        os.mkfifo(folder / self.name)


@dataclass(frozen=True)
class Sparse:
    """A file that begins with `head` and has `size` bytes, of which the disk holds none."""

    name: str
    head: bytes
    size: int

    def put(self, folder: Path) -> None:
        with open(folder / self.name, "wb") as file:
            file.write(self.head)
            file.truncate(self.size)


@dataclass(frozen=True)
class Repeated:
    """A file that begins with `head`, and then has the same piece so many times."""

    name: str
    head: bytes
    piece: bytes
    times: int

    def put(self, folder: Path) -> None:
        (folder / self.name).write_bytes(self.head + self.piece * self.times)


@dataclass(frozen=True)
class Bomb:
    """An .npz archive of some kilobytes, whose array x unpacks to `size` bytes of zeros."""

    name: str
    head: bytes
    size: int

    def put(self, folder: Path) -> None:
        (folder / self.name).write_bytes(_bomb(self.head, self.size))


def _bomb(head: bytes, size: int) -> bytes:
    """A megabyte of zeros is packed once and repeated; nobody reads far enough for a checksum."""
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    begin = packer.compress(head) + packer.flush(zlib.Z_FULL_FLUSH)
    piece = packer.compress(bytes(2**20)) + packer.flush(zlib.Z_FULL_FLUSH)
    packed = begin + piece * (size // 2**20) + packer.flush(zlib.Z_FINISH)
    name, whole = b"x.npy", len(head) + size // 2**20 * 2**20
    described = struct.pack("<HHHHHIIIHH", 20, 0, 8, 0, 0x21, 0, len(packed), whole, len(name), 0)
    local = b"PK\3\4" + described + name + packed
    central = b"PK\1\2" + struct.pack("<H", 20) + described + bytes(14) + name
    end = struct.pack("<HHHHIIH", 0, 0, 1, 1, len(central), len(local), 0)
    return local + central + b"PK\5\6" + end


@dataclass(frozen=True)
class Template:
    """A copy of a folder that was made once, for instance of a run."""

    name: str
    original: str

    def put(self, folder: Path) -> None:
        shutil.copytree(TEMPLATES[self.original], folder / self.name)


TEMPLATES: dict[str, Path] = {}  # by name, where they lie


@dataclass(frozen=True)
class Damaged:
    """A file of the folder, changed: what was there goes through `damage`."""

    name: str
    damage: Damage

    def put(self, folder: Path) -> None:
        path = folder / self.name
        if is_small(path) and path.resolve() == path:  # and no link, from an earlier change
            path.write_bytes(self.damage.apply(path.read_bytes()))


def is_small(path: Path) -> bool:
    """Whether this is a file as runs have them: an earlier change may have made a large one."""
    return path.is_file() and path.stat().st_size < 2**20


@dataclass(frozen=True)
class Replaced:
    """A file or folder of the folder, removed; something else may come in its place."""

    name: str
    by: Entry | None = None

    def put(self, folder: Path) -> None:
        path = folder / self.name
        if path.parent.resolve() != path.parent or not path.parent.is_dir():
            return  # gone, or a link, by an earlier change
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
        if self.by is not None:
            self.by.put(folder)
