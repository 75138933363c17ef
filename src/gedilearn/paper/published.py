"""Published image sets: their files, how these are downloaded, kept and read.

The files of a set are kept as published in the folder NAME of the cache (`io.cache_root`). Pooch
downloads them and compares their checksums. The sets and their files are listed in
`published.json`; `registry.DATA_SETS` has their names.
"""

from __future__ import annotations

import gzip
import shutil
import tarfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from pydantic import TypeAdapter

from gedilearn.data.arrays import listing
from gedilearn.data.dataset import Dataset, npz_keys, read_npz
from gedilearn.errors import InputError, Parameter, suggestion
from gedilearn.io import as_path, cache_root, read_bytes, reading, replacing

SPLITS = ("train", "test")
AGAIN = "download it again"
Tell = Callable[[str], None]
Labelled = tuple[np.ndarray, np.ndarray]  # images (n, c, h, w) uint8; labels (n,)

# --- the sets -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class File:
    """One file as its authors publish it; `checksum` is ``sha256:...`` or ``md5:...``, if known."""

    name: str
    size: int
    checksum: str = ""


@dataclass(frozen=True)
class Split:
    """The training or the test images of a set.

    images: the files that hold them, in order, with the labels unless these are in `labels`
    count: how many images these hold together
    """

    images: tuple[File, ...]
    count: int
    labels: tuple[File, ...] = ()


@dataclass(frozen=True)
class PublishedSet:
    """One set; called with the name of a split, it gives the data.

    archive: the .tar.gz that holds the files in `folder`; None: each file is downloaded by itself
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

    def __call__(self, split: str = "train") -> Dataset:
        return open_set(self.name, split)

    @property
    def files(self) -> tuple[File, ...]:
        """Every file that is read, without the archive around them."""
        return tuple(f for split in self.splits.values() for f in (*split.images, *split.labels))

    @property
    def downloads(self) -> tuple[File, ...]:
        """The files that are downloaded from `site`."""
        return (self.archive,) if self.archive else self.files


_LISTED = Path(__file__).with_suffix(".json").read_text(encoding="utf-8")
SETS = {each.name: each for each in TypeAdapter(list[PublishedSet]).validate_json(_LISTED)}


def find(name: str) -> PublishedSet:
    """The set of this name, or one line that says which there are."""
    if name not in SETS:
        raise InputError(f"{name!r} is no known set{suggestion(name, SETS)}")
    return SETS[name]


def split_for_testing(source: str | None) -> str | None:
    """The test images of the set whose training images `source` names."""
    name, _, split = (source or "").partition(":")
    has_test = name in SETS and "test" in SETS[name].splits
    return f"{name}:test" if has_test and split in ("", "train") else None


# --- the cache ----------------------------------------------------------------------------------


def is_cached(name: str) -> bool:
    """Whether all files of a set are there, each with its size; or NAME.npz."""
    known, folder = find(name), cache_root() / name
    if (folder / f"{name}.npz").is_file():
        return True
    paths = {folder / known.folder / file.name: file.size for file in known.files}
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
    `tell` is given lines on the progress.
    """
    known, folder = find(name), cache_root() / name
    if is_cached(name):
        tell(f"{name} is there already: {folder}")
        return folder
    if directory is None:
        _download(known, folder, tell)
    else:
        _import(known, as_path(directory), folder)
    tell(f"{name} is ready: {folder}")
    return folder


def _read_split(known: PublishedSet, split: str, folder: Path) -> Labelled:
    described = known.splits[split]
    if (npz := folder / f"{known.name}.npz").is_file():
        read = [_read_npz(npz, split)]
    else:
        read = _read_files(known, described, folder)
    x, y = (
        np.concatenate(arrays) if len(read) > 1 else arrays[0] for arrays in zip(*read, strict=True)
    )
    shape = (described.count, *known.shape)
    fits = (x.dtype, x.shape, y.shape) == (np.uint8, shape, shape[:1])
    if not fits or not np.isin(y, np.arange(known.classes)).all():
        raise InputError(
            f"{known.name}: {split} is {x.dtype} images {x.shape} with labels {y.shape} from "
            f"{y.min()} to {y.max()}; expected uint8 {shape} and labels below {known.classes}"
        )
    return x, y.astype(np.int64)


# --- the files ----------------------------------------------------------------------------------


def _download(known: PublishedSet, folder: Path, tell: Tell) -> None:
    import pooch
    import requests

    headers = {"User-Agent": "gedi-learn", "Accept-Encoding": "identity"}
    downloader = pooch.HTTPDownloader(chunk_size=2**18, headers=headers)
    checksums = {file.name: file.checksum for file in known.downloads}
    fetcher = pooch.create(folder, known.site, registry=checksums, retry_if_failed=1)
    pooch.get_logger().setLevel("WARNING")
    for file in known.downloads:
        tell(f"{file.name}: {file.size / 1e6:.1f} MB from {known.site}")
        try:
            fetcher.fetch(file.name, downloader=downloader)
        except (requests.RequestException, ValueError) as error:
            reason = " ".join(str(error).split())[:200]
            raise InputError(
                f"{known.site}{file.name}: {reason}; try again, or download "
                f"{', '.join(checksums)} from {known.site} in another way and name the folder: ",
                Parameter("directory", "DIR"),
            ) from error
    if known.archive:
        _unpack(folder / known.archive.name, known, folder)
        (folder / known.archive.name).unlink()


def _import(known: PublishedSet, directory: Path, folder: Path) -> None:
    """The files of a set, checked, from a folder of the user's.

    These are the published files, in it or in the sub-folder of their archive; or the archive; or
    NAME.npz with x_train, y_train, x_test and y_test.
    """
    places = (directory, directory / known.folder)
    paths = (place / file.name for place in places for file in known.files)
    found = {path.name: path for path in paths if path.is_file()}
    npz = directory / f"{known.name}.npz"
    if len(found) == len(known.files):
        for file in known.files:
            _check(found[file.name], file)
            _copy(found[file.name], folder / known.folder)
    elif known.archive and (archive := directory / known.archive.name).is_file():
        _check(archive, known.archive)
        _unpack(archive, known, folder)
    elif npz.is_file():
        for split in known.splits:
            _read_split(known, split, directory)
        _copy(npz, folder)
    else:
        missing = listing([file.name for file in known.files if file.name not in found], 4)
        other = known.archive.name if known.archive else npz.name
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


def _unpack(archive: Path, known: PublishedSet, folder: Path) -> None:
    """The files of a set, from an archive whose checksum is right; nothing else is unpacked."""
    sizes = {f"{known.folder}/{file.name}": file.size for file in known.files}
    with reading(archive, AGAIN), tarfile.open(archive) as tar:
        members = [m for m in tar if m.isreg() and sizes.get(m.name.removeprefix("./")) == m.size]
        tar.extractall(folder, members, filter="data")


def _read_npz(path: Path, split: str) -> Labelled:
    """x_train and y_train, or x_test and y_test; images may have their channels last, or none."""
    keys = [f"x_{split}", f"y_{split}"]
    if missing := set(keys) - set(npz_keys(path)):
        raise InputError(f"{path}: no array {min(missing)}; give {{x,y}}_train and {{x,y}}_test")
    x, y = (read_npz(path, key) for key in keys)
    if x.ndim == 4 and x.shape[3] in (1, 3):
        x = x.transpose(0, 3, 1, 2)
    return x[:, None] if x.ndim == 3 else x, y.reshape(-1)


# --- the formats --------------------------------------------------------------------------------


def _read_files(known: PublishedSet, split: Split, folder: Path) -> list[Labelled]:
    """The images and labels of a split, file by file; the names tell the format."""
    images, labels = (
        [folder / known.folder / file.name for file in files]
        for files in (split.images, split.labels)
    )
    if labels:
        pairs = zip(images, labels, strict=True)
        return [(_read_idx(x, 3)[:, None], _read_idx(y, 1)) for x, y in pairs]
    if images[0].suffix == ".mat":
        return [_read_svhn(path) for path in images]
    return [_read_cifar(path, 1 if known.classes == 10 else 2) for path in images]


def _read_idx(path: Path, dimensions: int) -> np.ndarray:
    """The bytes in a gzipped idx file: images (n, h, w) or labels (n,)."""
    content = gzip.decompress(read_bytes(path))
    shape = np.frombuffer(content, ">u4", dimensions, offset=4)
    return np.frombuffer(content, np.uint8, offset=4 + 4 * dimensions).reshape(shape).copy()


def _read_cifar(path: Path, heads: int) -> Labelled:
    """Images (n, 3, 32, 32) uint8 and labels (n,).

    A record begins with its labels: one, or the coarse and the fine one of CIFAR-100. Pixels
    follow: a plane of red, one of green, one of blue, each row by row.
    """
    records = np.frombuffer(read_bytes(path), np.uint8).reshape(-1, heads + 3072)
    return records[:, heads:].reshape(-1, 3, 32, 32), records[:, heads - 1]


def _read_svhn(path: Path) -> Labelled:
    """Images (n, 3, 32, 32) uint8 and digits (n,); the file calls the digit 0 "10"."""
    from scipy.io import loadmat

    arrays = loadmat(path, variable_names=["X", "y"])
    return arrays["X"].transpose(3, 2, 0, 1), arrays["y"].reshape(-1) % 10
