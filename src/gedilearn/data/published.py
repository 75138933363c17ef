"""Published image sets on this machine: fetched once, kept as arrays that are mapped, not read.

    CACHE/NAME/train-x.npy   uint8 (n, channels, height, width)
    CACHE/NAME/train-y.npy   uint8 (n,)
    CACHE/NAME/test-x.npy, test-y.npy
    CACHE/NAME/set.json      name, source, checksums of the files that were read, counts

CACHE is $GEDI_CACHE, or else $XDG_CACHE_HOME/gedi-learn, or else ~/.cache/gedi-learn. A folder gets
its name when everything in it is written, so a set is there as a whole or not at all.
"""

from __future__ import annotations

import errno
import os
import secrets
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from filelock import FileLock, Timeout

from gedilearn.data.arrays import listing
from gedilearn.data.dataset import Dataset
from gedilearn.data.fetch import File, checksum_error, digest, download, extract
from gedilearn.data.numpy_files import npz_keys, read_npy, read_npz
from gedilearn.data.published_formats import read_published
from gedilearn.data.sources import Source, find
from gedilearn.errors import InputError
from gedilearn.io import MAPPED, as_path, check_file, read_json, reading, replacing, write_json

FORMAT = 1
SCRATCH = "scratch"  # what is needed only while a set is built
Tell = Callable[[str], None]
Part = tuple[np.ndarray, np.ndarray]  # images (n, c, h, w) uint8, labels (n,) uint8
Files = Mapping[str, Path]  # by published name

# --- the cache ----------------------------------------------------------------------------------


def cache_root() -> Path:
    """The folder of all cached sets; it need not exist yet."""
    if named := os.environ.get("GEDI_CACHE"):
        return as_path(named).absolute()
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


def open_set(name: str, split: str) -> Dataset:
    """A cached set: `x` is memory-mapped uint8 (n, c, h, w), `y` int64 (n,)."""
    x, y = _open(find(name), split)
    title = name if split == "train" else f"{name}-{split}"
    return Dataset(title, x, y.astype(np.int64), None, f"{name}:{split}")


def get(name: str, directory: str | Path | None = None, tell: Tell = lambda line: None) -> Path:
    """Make a set ready for `open_set` and return its folder; one that is there stays as it is.

    The files come from their official site, or from the folder `directory` (see `_find_files`).
    `tell` is given lines on how it goes.
    """
    source = find(name)
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
    if directory is not None:
        tell(f"reading {source.name} from {directory}")
        folder = as_path(directory)
        origin = str(folder.absolute())
    else:
        for file in source.downloads:
            _download(source, file, downloads, tell)
        folder, origin = downloads, source.site
    files, read = _find_files(source, folder, scratch)
    for split in source.splits:
        _write_split(building, source, split, files)
    checksums = {path.name: f"md5:{digest(path, 'md5')}" for path in read}
    described = _description(source) | {"source": origin, "checksums": checksums}
    shutil.rmtree(scratch)
    write_json(building / "set.json", described, indent=1)


def _description(source: Source) -> dict[str, Any]:
    """What set.json says of any copy of a set."""
    counts = {split: part.count for split, part in source.splits.items()}
    return {"format": FORMAT, "name": source.name, "counts": counts}


def _download(source: Source, file: File, downloads: Path, tell: Tell) -> None:
    def progress(done: int, size: int) -> None:
        tell(f"{file.name}: {done / 1e6:.1f} of {size / 1e6:.1f} MB")

    url = source.site + file.name
    download(url, downloads, file, progress=progress, by_hand=source.by_hand)


def _write_split(folder: Path, source: Source, split: str, files: Files) -> None:
    """Written part by part and not through a memory map, where a full disk would be a crash."""
    count, written, labels = source.splits[split].count, 0, []
    head = {"descr": "|u1", "fortran_order": False, "shape": (count, *source.shape)}
    with replacing(folder / f"{split}-x.npy") as path, open(path, "wb") as file:
        np.lib.format.write_array_header_1_0(file, head)
        for x, y in _read_parts(source, split, files):
            file.write(np.ascontiguousarray(x, np.uint8).data)
            labels.append(y)
            written += len(x)
    if written != count:
        raise InputError(f"{source.name}: {written} images for {split} instead of {count}")
    with replacing(folder / f"{split}-y.npy") as path, open(path, "wb") as file:
        np.save(file, np.concatenate(labels), allow_pickle=False)


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
    remedy = f"gedi data get {name} makes it anew"
    described = read_json(folder / "set.json", remedy)
    with reading(folder, remedy):
        images = folder / f"{split}-x.npy"
        check_file(images, MAPPED)
        x = np.load(images, mmap_mode="r", allow_pickle=False)
        y = read_npy(folder / f"{split}-y.npy")
        count = source.splits[split].count
        if described | _description(source) != described:
            raise ValueError("set.json is of another set")
        if (x.shape, y.shape) != ((count, *source.shape), (count,)):
            raise ValueError(f"images {x.shape} and labels {y.shape}")
        if not x.dtype == y.dtype == np.uint8:
            raise ValueError(f"images are {x.dtype} and labels {y.dtype}")
    return x, y


@contextmanager
def _alone(path: Path, tell: Tell) -> Iterator[bool]:
    """Hold a lock that ends with the process, however it ends; False where there are no locks."""
    lock = FileLock(path)
    try:
        lock.acquire(blocking=False)
    except Timeout:
        tell(f"another process prepares {path.name[1:-5]}: waiting for it")
        lock.acquire()
    except OSError as error:
        if error.errno not in (errno.ENOLCK, errno.EOPNOTSUPP):
            raise
    try:
        yield lock.is_locked
    finally:
        lock.release()


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


# --- the published files ------------------------------------------------------------------------


def _find_files(source: Source, folder: Path, scratch: Path) -> tuple[Files, list[Path]]:
    """Where `folder` holds the files of a set, by their published names, and what was checked.

    These are the published files, plain or (for idx) gunzipped, in the folder or in the sub-folder
    of their archive; or the archive, unpacked into `scratch`; or NAME.npz with x_train, y_train,
    x_test and y_test.
    """
    if not folder.is_dir():
        raise InputError(f"{folder}: no such folder; give the one that holds {_needed(source)}")
    found = {file.name: _find(folder, source, file) for file in source.files}
    here = {name: path for name, path in found.items() if path is not None}
    if len(here) == len(found):
        for file in source.files:
            if here[file.name].name == file.name:
                _check(here[file.name], file)
        return here, list(here.values())
    if source.archive and (archive := folder / source.archive.name).is_file():
        _check(archive, source.archive)
        extract(archive, {f"{source.folder}/{f.name}": f.size for f in source.files}, scratch)
        for file in source.files:
            _check(scratch / file.name, file)
        return {file.name: scratch / file.name for file in source.files}, [archive]
    npz = folder / f"{source.name}.npz"
    if npz.is_file():
        return {npz.name: npz}, [npz]
    missing = [name for name in found if name not in here]
    lack = f"; of the files, {listing(missing)} missing" if here else ""
    raise InputError(f"{folder}: give a folder that holds {_needed(source)}{lack}")


def _needed(source: Source) -> str:
    names = listing([file.name for file in source.files], 4)
    if source.archive:
        return f"{source.archive.name}, or {names}"
    return f"{names}, or {source.name}.npz"


def _find(folder: Path, source: Source, file: File) -> Path | None:
    plain = file.name.removesuffix(".gz")
    for place in (folder, folder / source.folder, folder / source.name):
        for name in (file.name, plain, plain.replace("-idx", ".idx")):
            if (place / name).is_file():
                return place / name
    return None


def _check(path: Path, file: File) -> None:
    with reading(path):
        wrong = checksum_error(path, file)
    if wrong:
        raise InputError(f"{path}: not the published file ({wrong}); fetch it again")


def _read_parts(source: Source, split: str, files: Files) -> Iterator[Part]:
    described = source.splits[split]
    if npz := files.get(f"{source.name}.npz"):
        yield _checked(npz, source, *_read_npz(npz, source, split))
        return
    labels = next((files[file.name] for file in described.labels), None)
    for file in described.images:
        path = files[file.name]
        yield _checked(path, source, *read_published(path, labels, source.classes))


def _checked(path: Path, source: Source, x: np.ndarray, y: np.ndarray | None) -> Part:
    if x.shape[1:] != source.shape:
        raise InputError(f"{path}: images {x.shape[1:]}, but {source.name} has {source.shape}")
    if y is None or len(y) != len(x):
        raise InputError(f"{path}: no label for each image; it is not a file of {source.name}")
    if y.min() < 0 or y.max() >= source.classes:
        raise InputError(f"{path}: labels from {y.min()} to {y.max()}; expected {source.classes}")
    return x, y.astype(np.uint8)


def _read_npz(path: Path, source: Source, split: str) -> Part:
    """x_train and y_train, or x_test and y_test; images may have their channels last, or none."""
    n, (channels, height, width) = source.splits[split].count, source.shape
    channels_last = (n, height, width, channels)
    shapes = [(n, *source.shape), channels_last, *([channels_last[:3]] if channels == 1 else [])]
    expected = {f"x_{split}": shapes, f"y_{split}": [(n,), (n, 1)]}
    if missing := expected.keys() - set(npz_keys(path)):
        raise InputError(
            f"{path}: no array {min(missing)}; give x_train, y_train, x_test and y_test"
        )
    x, y = (read_npz(path, key) for key in expected)
    for array, (key, allowed) in zip((x, y), expected.items(), strict=True):
        if array.shape not in allowed:
            raise InputError(f"{path}[{key}]: shape {array.shape}, expected {allowed[0]}")
    if x.dtype != np.uint8 or y.dtype.kind not in "iu":
        raise InputError(f"{path}: x is {x.dtype} and y {y.dtype}, expected uint8 and integers")
    if x.shape == channels_last:
        x = x.transpose(0, 3, 1, 2)
    return x.reshape(n, *source.shape), y.reshape(-1)
