"""Published image sets: their files, how these are fetched, kept and read.

The files of a set are kept as published in the folder CACHE/NAME; CACHE is $GEDI_CACHE, or else
gedi-learn in the folder that the system has for caches (~/.cache). Pooch downloads them and
compares their checksums. The sets and their files are listed in `published.json`.
"""

from __future__ import annotations

import gzip
import os
import shutil
import tarfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from pydantic import TypeAdapter

from gedilearn.data.arrays import listing
from gedilearn.data.dataset import Dataset, npz_keys, read_npz
from gedilearn.errors import InputError, suggestion
from gedilearn.io import as_path, read_bytes, reading, replacing

SPLITS = ("train", "test")
AGAIN = "fetch it again"
Tell = Callable[[str], None]
Part = tuple[np.ndarray, np.ndarray]  # images (n, c, h, w) uint8; labels (n,)

# --- the sets -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class File:
    """One file as its authors publish it; `checksum` is ``sha256:...`` or ``md5:...``, if known."""

    name: str
    size: int
    checksum: str = ""


@dataclass(frozen=True)
class Split:
    """One part of a set.

    images: the files that hold it, in order, with the labels unless these are in `labels`
    count: how many images these hold together
    """

    images: tuple[File, ...]
    count: int
    labels: tuple[File, ...] = ()


@dataclass(frozen=True)
class Source:
    """One set.

    archive: the .tar.gz that holds the files in `folder`; without it, files are fetched one by one
    shape: (channels, height, width)
    """

    name: str
    about: str
    site: str
    shape: tuple[int, int, int]
    classes: int
    splits: dict[str, Split]
    archive: File | None = None
    folder: str = ""

    @property
    def files(self) -> tuple[File, ...]:
        """Every file that is read, without the archive around them."""
        return tuple(f for split in self.splits.values() for f in (*split.images, *split.labels))

    @property
    def downloads(self) -> tuple[File, ...]:
        """The files that are fetched from `site`."""
        return (self.archive,) if self.archive else self.files


_LISTED = Path(__file__).with_suffix(".json").read_text(encoding="utf-8")
SOURCES = {each.name: each for each in TypeAdapter(list[Source]).validate_json(_LISTED)}


def find(name: str) -> Source:
    """The set of this name, or one line that says which there are."""
    if name not in SOURCES:
        raise InputError(f"{name!r} is no known set{suggestion(name, SOURCES)}")
    return SOURCES[name]


def split_of(name: str) -> tuple[str, str] | None:
    """``mnist:test`` is the set mnist and its split test; None for any other text.

    Without a colon it is the training split.
    """
    base, colon, split = name.partition(":")
    if base not in SOURCES:
        return None
    split = split if colon else "train"
    if split not in SOURCES[base].splits:
        names = " or ".join(f"{base}:{each}" for each in SOURCES[base].splits)
        raise InputError(f"{name}: {base} has no split {split!r}; write {names}")
    return base, split


def split_for_testing(source: str | None) -> str | None:
    """The test images of the set whose training images `source` names."""
    name, split = (source and split_of(source)) or ("", "")
    return f"{name}:test" if split == "train" and "test" in SOURCES[name].splits else None


# --- the cache ----------------------------------------------------------------------------------


def cache_root() -> Path:
    """The folder of all cached sets; it need not exist yet."""
    from pooch import os_cache

    return as_path(os.environ.get("GEDI_CACHE") or os_cache("gedi-learn")).absolute()


def is_cached(name: str) -> bool:
    """Whether all files of a set are there, each with its size; or NAME.npz."""
    source, folder = find(name), cache_root() / name
    if (folder / f"{name}.npz").is_file():
        return True
    paths = {folder / source.folder / file.name: file.size for file in source.files}
    return all(path.is_file() and path.stat().st_size == size for path, size in paths.items())


def open_set(name: str, split: str) -> Dataset:
    """A cached set: `x` is uint8 (n, c, h, w), `y` int64 (n,)."""
    if not is_cached(name):
        raise InputError(f"{name} is not on this machine: gedi data get {name}")
    folder = cache_root() / name
    with reading(folder, f"remove it, then gedi data get {name}", ours=True):
        x, y = _read_split(find(name), split, folder)
    title = name if split == "train" else f"{name}-{split}"
    return Dataset(title, x, y, None, f"{name}:{split}")


def get(name: str, directory: str | Path | None = None, tell: Tell = lambda line: None) -> Path:
    """Make a set ready for `open_set` and return its folder; one that is there stays as it is.

    The files come from their official site, or from the folder `directory` (see `_import`).
    `tell` is given lines on how it goes.
    """
    source, folder = find(name), cache_root() / name
    if is_cached(name):
        tell(f"{name} is there already: {folder}")
        return folder
    if directory is None:
        _download(source, folder, tell)
    else:
        _import(source, as_path(directory), folder)
    tell(f"{name} is ready: {folder}")
    return folder


def _read_split(source: Source, split: str, folder: Path) -> tuple[np.ndarray, np.ndarray]:
    described = source.splits[split]
    if (npz := folder / f"{source.name}.npz").is_file():
        parts = [_read_npz(npz, split)]
    else:
        parts = _read_files(source, described, folder)
    x, y = (
        np.concatenate(arrays) if len(parts) > 1 else arrays[0]
        for arrays in zip(*parts, strict=True)
    )
    shape = (described.count, *source.shape)
    fits = (x.dtype, x.shape, y.shape) == (np.uint8, shape, shape[:1])
    if not fits or not np.isin(y, np.arange(source.classes)).all():
        raise InputError(
            f"{source.name}: {split} is {x.dtype} images {x.shape} with labels {y.shape} from "
            f"{y.min()} to {y.max()}; expected uint8 {shape} and labels below {source.classes}"
        )
    return x, y.astype(np.int64)


# --- the files ----------------------------------------------------------------------------------


def _download(source: Source, folder: Path, tell: Tell) -> None:
    import pooch
    import requests

    headers = {"User-Agent": "gedi-learn", "Accept-Encoding": "identity"}
    downloader = pooch.HTTPDownloader(chunk_size=2**18, headers=headers)
    checksums = {file.name: file.checksum for file in source.downloads}
    fetcher = pooch.create(folder, source.site, registry=checksums, retry_if_failed=1)
    pooch.get_logger().setLevel("WARNING")
    for file in source.downloads:
        tell(f"{file.name}: {file.size / 1e6:.1f} MB from {source.site}")
        try:
            fetcher.fetch(file.name, downloader=downloader)
        except (requests.RequestException, ValueError) as error:
            reason = " ".join(str(error).split())[:200]
            raise InputError(
                f"{source.site}{file.name}: {reason}; try again, or fetch {', '.join(checksums)} "
                f"from {source.site} in another way into a folder DIR, then "
                f"gedi data get {source.name} --from DIR"
            ) from error
    if source.archive:
        _unpack(folder / source.archive.name, source, folder)
        (folder / source.archive.name).unlink()


def _import(source: Source, directory: Path, folder: Path) -> None:
    """The files of a set, checked, from a folder of the user's.

    These are the published files, in it or in the sub-folder of their archive; or the archive; or
    NAME.npz with x_train, y_train, x_test and y_test.
    """
    places = (directory, directory / source.folder)
    paths = (place / file.name for place in places for file in source.files)
    found = {path.name: path for path in paths if path.is_file()}
    npz = directory / f"{source.name}.npz"
    if len(found) == len(source.files):
        for file in source.files:
            _check(found[file.name], file)
            _copy(found[file.name], folder / source.folder)
    elif source.archive and (archive := directory / source.archive.name).is_file():
        _check(archive, source.archive)
        _unpack(archive, source, folder)
    elif npz.is_file():
        for split in source.splits:
            _read_split(source, split, directory)
        _copy(npz, folder)
    else:
        missing = listing([file.name for file in source.files if file.name not in found], 4)
        other = source.archive.name if source.archive else npz.name
        words = f"a folder without {missing}; give one that holds them, or {other}"
        raise InputError(f"{directory}: {words}")


def _copy(path: Path, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    with replacing(folder / path.name) as copy:
        shutil.copyfile(path, copy)


def _check(path: Path, file: File) -> None:
    """Refuse a file whose size and checksum are not the published ones."""
    from pooch import file_hash

    kind, _, expected = file.checksum.partition(":")
    with reading(path):
        is_same = path.stat().st_size == file.size
        if not is_same or (kind and file_hash(str(path), alg=kind) != expected):
            raise InputError(f"{path}: not {file.name} as published; {AGAIN}")


def _unpack(archive: Path, source: Source, folder: Path) -> None:
    """The files of a set, from an archive whose checksum is right; nothing else is unpacked."""
    sizes = {f"{source.folder}/{file.name}": file.size for file in source.files}
    with reading(archive, AGAIN), tarfile.open(archive) as tar:
        members = [m for m in tar if m.isreg() and sizes.get(m.name.removeprefix("./")) == m.size]
        tar.extractall(folder, members, filter="data")


def _read_npz(path: Path, split: str) -> Part:
    """x_train and y_train, or x_test and y_test; images may have their channels last, or none."""
    keys = [f"x_{split}", f"y_{split}"]
    if missing := set(keys) - set(npz_keys(path)):
        raise InputError(f"{path}: no array {min(missing)}; give {{x,y}}_train and {{x,y}}_test")
    x, y = (read_npz(path, key) for key in keys)
    if x.ndim == 4 and x.shape[3] in (1, 3):
        x = x.transpose(0, 3, 1, 2)
    return x[:, None] if x.ndim == 3 else x, y.reshape(-1)


# --- the formats --------------------------------------------------------------------------------


def _read_files(source: Source, split: Split, folder: Path) -> list[Part]:
    """The images and labels of a split, file by file; the names tell the format."""
    images, labels = (
        [folder / source.folder / file.name for file in files]
        for files in (split.images, split.labels)
    )
    if labels:
        pairs = zip(images, labels, strict=True)
        return [(_read_idx(x, 3)[:, None], _read_idx(y, 1)) for x, y in pairs]
    if images[0].suffix == ".mat":
        return [_read_svhn(path) for path in images]
    return [_read_cifar(path, 1 if source.classes == 10 else 2) for path in images]


def _read_idx(path: Path, dimensions: int) -> np.ndarray:
    """The bytes in a gzipped idx file: images (n, h, w) or labels (n,)."""
    content = gzip.decompress(read_bytes(path))
    shape = np.frombuffer(content, ">u4", dimensions, offset=4)
    return np.frombuffer(content, np.uint8, offset=4 + 4 * dimensions).reshape(shape).copy()


def _read_cifar(path: Path, heads: int) -> Part:
    """Images (n, 3, 32, 32) uint8 and labels (n,).

    A record begins with its labels: one, or the coarse and the fine one of CIFAR-100. Pixels
    follow: a plane of red, one of green, one of blue, each row by row.
    """
    records = np.frombuffer(read_bytes(path), np.uint8).reshape(-1, heads + 3072)
    return records[:, heads:].reshape(-1, 3, 32, 32), records[:, heads - 1]


def _read_svhn(path: Path) -> Part:
    """Images (n, 3, 32, 32) uint8 and digits (n,); the file calls the digit 0 "10"."""
    from scipy.io import loadmat

    arrays = loadmat(path, variable_names=["X", "y"])
    return arrays["X"].transpose(3, 2, 0, 1), arrays["y"].reshape(-1) % 10
