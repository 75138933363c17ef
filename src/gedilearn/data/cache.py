"""Known image sets on this machine: fetched once, kept as arrays that are mapped, not read.

    CACHE/NAME/train-x.npy   uint8 (n, channels, height, width)
    CACHE/NAME/train-y.npy   uint8 (n,)
    CACHE/NAME/test-x.npy, test-y.npy
    CACHE/NAME/set.json      name, source, checksums of the files that were read, counts

CACHE is $GEDI_CACHE, or else $XDG_CACHE_HOME/gedi-learn, or else ~/.cache/gedi-learn. A folder gets
its name when everything in it is written, so a set is there as a whole or not at all.
"""

from __future__ import annotations

import errno
import json
import os
import secrets
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from gedilearn.data.dataset import Dataset
from gedilearn.data.download import download
from gedilearn.data.importing import Parts, from_archive, from_files, from_folder, md5
from gedilearn.data.sources import Source, find
from gedilearn.errors import InputError

FORMAT = 1
SCRATCH = "scratch"  # what is needed only while a set is built
Tell = Callable[[str], None]


def cache_root() -> Path:
    """The folder of all cached sets; it need not exist yet."""
    if named := os.environ.get("GEDI_CACHE"):
        return Path(named).expanduser().absolute()
    shared = os.environ.get("XDG_CACHE_HOME", "")
    if os.path.isabs(shared):  # the standard says to ignore a relative one
        return Path(shared) / "gedi-learn"
    try:
        return Path.home() / ".cache" / "gedi-learn"
    except RuntimeError:
        raise InputError("no home folder for the cache: set GEDI_CACHE to a folder") from None


def is_cached(name: str) -> bool:
    """Whether a set is there, whole."""
    source = find(name)
    try:
        for split in source.splits:
            _open(source, split)
    except (InputError, OSError):
        return False
    return True


def open_set(name: str, split: str = "train") -> Dataset:
    """A cached set: `x` is memory-mapped uint8 (n, c, h, w), `y` int64 (n,)."""
    source = find(name)
    if split not in source.splits:
        raise InputError(f"{name} has no split {split!r}, only {', '.join(source.splits)}")
    x, y = _open(source, split)
    title = name if split == "train" else f"{name}-{split}"
    return Dataset(title, x, y.astype(np.int64), None, f"{name}:{split}")


def get(name: str, directory: str | Path | None = None, tell: Tell | None = None) -> Path:
    """Make a set ready for `open_set` and return its folder; one that is there stays as it is.

    The files come from their official site, or from the folder `directory` (see
    `importing.from_folder`). `tell` is given lines on how it goes.
    """
    source = find(name)
    tell = tell or (lambda line: None)
    root = cache_root()
    if is_cached(name):
        tell(f"{name} is there already: {root / name}")
        return root / name
    try:
        root.mkdir(parents=True, exist_ok=True)
        with _alone(root / f".{name}.lock", tell) as alone:
            if is_cached(name):  # by the process that was waited for
                return root / name
            prefix = f".building.{name}."
            if alone:  # what a killed process left behind
                for leftover in root.glob(f"{prefix}*"):
                    shutil.rmtree(leftover, ignore_errors=True)
            building = root / f"{prefix}{os.getpid()}.{secrets.token_hex(4)}"
            # Without the lock another process may be writing to the common place.
            downloads = root / "downloads" / name if alone else building / SCRATCH
            building.mkdir()
            try:
                _build(source, directory, downloads, building, tell)
                _put_in_place(source, building, root / name)
            finally:
                shutil.rmtree(building, ignore_errors=True)
            shutil.rmtree(downloads, ignore_errors=True)
    except OSError as error:
        raise InputError(_in_words(error, source, root)) from error
    tell(f"{name} is ready: {root / name}")
    return root / name


def _build(
    source: Source, directory: str | Path | None, downloads: Path, building: Path, tell: Tell
) -> None:
    scratch = building / SCRATCH
    scratch.mkdir()
    parts: Parts
    if directory is not None:
        tell(f"reading {source.name} from {directory}")
        parts, paths = from_folder(source, Path(directory).expanduser(), scratch)
        origin = str(Path(directory).expanduser().absolute())
    else:
        fetched = {
            file.name: _fetch(source, i, downloads, tell) for i, file in enumerate(source.downloads)
        }
        paths, origin = tuple(fetched.values()), source.site
        archive = fetched[source.archive.name] if source.archive else None
        parts = from_archive(source, archive, scratch) if archive else from_files(source, fetched)
    for split in source.splits:
        _write_split(building, source, split, parts)
    described = {
        "format": FORMAT,
        "name": source.name,
        "source": origin,
        "checksums": {path.name: f"md5:{md5(path)}" for path in paths},
        "counts": {split: part.count for split, part in source.splits.items()},
    }
    shutil.rmtree(scratch)
    with open(building / "set.json", "w", encoding="utf-8") as file:
        file.write(json.dumps(described, indent=1) + "\n")
        file.flush()
        os.fsync(file.fileno())


def _fetch(source: Source, number: int, downloads: Path, tell: Tell) -> Path:
    file = source.downloads[number]
    told = -1

    def progress(done: int, size: int) -> None:
        nonlocal told
        tenth = 10 * done // size
        if tenth > told:
            told = tenth
            tell(f"{file.name}: {done / 1e6:.1f} of {size / 1e6:.1f} MB")

    url = source.site + file.name
    return download(url, downloads, file, progress=progress, by_hand=source.by_hand)


def _write_split(folder: Path, source: Source, split: str, parts: Parts) -> None:
    """Written part by part and not through a memory map, where a full disk would be a crash."""
    count, written, labels = source.splits[split].count, 0, []
    head = {"descr": "|u1", "fortran_order": False, "shape": (count, *source.shape)}
    with open(folder / f"{split}-x.npy", "wb") as file:
        np.lib.format.write_array_header_1_0(file, head)
        for x, y in parts(split):
            file.write(np.ascontiguousarray(x, np.uint8).data)
            labels.append(y)
            written += len(x)
        file.flush()
        os.fsync(file.fileno())
    if written != count:
        raise InputError(f"{source.name}: {written} images for {split} instead of {count}")
    with open(folder / f"{split}-y.npy", "wb") as file:
        np.save(file, np.concatenate(labels), allow_pickle=False)
        file.flush()
        os.fsync(file.fileno())


def _put_in_place(source: Source, building: Path, place: Path) -> None:
    if place.exists() and not is_cached(source.name):
        shutil.rmtree(place)  # damaged
    try:
        os.rename(building, place)
    except OSError:
        if not is_cached(source.name):  # otherwise another process was faster, with the same
            raise


def _open(source: Source, split: str) -> tuple[np.ndarray, np.ndarray]:
    name = source.name
    folder = cache_root() / name
    if not folder.exists():
        raise InputError(f"{name} is not on this machine: gedi data get {name}")
    try:
        described: Any = json.loads((folder / "set.json").read_text(encoding="utf-8"))
        x = np.load(folder / f"{split}-x.npy", mmap_mode="r", allow_pickle=False)
        y = np.load(folder / f"{split}-y.npy", allow_pickle=False)
        count = source.splits[split].count
        sound = (
            (described["format"], described["name"]) == (FORMAT, name)
            and described["counts"][split] == count
            and (x.shape, y.shape) == ((count, *source.shape), (count,))
            and x.dtype == y.dtype == np.uint8
        )
    except PermissionError as error:
        raise InputError(f"{error.filename}: permission denied; make it readable") from None
    except (OSError, ValueError, KeyError, TypeError, EOFError):
        sound = False
    if not sound:
        raise InputError(f"{folder} is damaged: gedi data get {name} makes it anew")
    return x, y


@contextmanager
def _alone(path: Path, tell: Tell) -> Iterator[bool]:
    """Hold a lock that ends with the process, however it ends; False where there are no locks."""
    with open(path, "ab") as file:
        held = _lock(file.fileno())
        if held is False:
            tell(f"another process prepares {path.name[1:-5]}: waiting for it")
        while held is False:
            time.sleep(0.1)
            held = _lock(file.fileno())
        yield bool(held)


def _lock(descriptor: int) -> bool | None:
    """True: held; False: another process holds it; None: not supported here."""
    try:
        if sys.platform == "win32":
            import msvcrt

            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        else:
            import fcntl

            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        return False if error.errno in (errno.EAGAIN, errno.EACCES, errno.EDEADLK) else None
    return True


def _in_words(error: OSError, source: Source, root: Path) -> str:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        pixels = int(np.prod(source.shape))
        images = sum(part.count for part in source.splits.values())
        return (
            f"{root}: the disk is full; {source.name} takes {images * pixels / 1e6:.0f} MB, and "
            "twice as much on the way; make room, or set GEDI_CACHE to a folder on another disk"
        )
    reason = error.strerror or str(error)
    return (
        f"{error.filename or root}: {reason[:1].lower()}{reason[1:]}; make it writable, or set "
        "GEDI_CACHE to another folder"
    )
