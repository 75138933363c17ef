"""Published image sets: their files, how these are fetched, kept and read.

The files of a set are kept as published in the folder CACHE/NAME; CACHE is $GEDI_CACHE, or else
gedi-learn in the folder that the system has for caches (~/.cache). Pooch downloads them and
compares their checksums. The sets and their files are listed in `published.json`.
"""

from __future__ import annotations

import gzip
import math
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
from gedilearn.io import as_path, check_file, check_size, read_bytes, reading, replacing

SPLITS = ("train", "test")
AGAIN = "fetch it again"
Tell = Callable[[str], None]
Part = tuple[np.ndarray, np.ndarray | None]  # images (n, c, h, w) uint8; labels (n,) or None

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
        paths = (folder / source.folder / file.name for file in described.images)
        parts = [read_published(path, source.classes) for path in paths]
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


def _check(path: Path, *files: File) -> None:
    """Refuse a file whose size and checksum are not those of one of the published `files`."""
    from pooch import file_hash

    with reading(path):
        size = path.stat().st_size
        for file in files:
            kind, _, expected = file.checksum.partition(":")
            if size == file.size and (not kind or file_hash(str(path), alg=kind) == expected):
                return
    names = " or ".join(file.name for file in files)
    raise InputError(f"{path}: not {names} as published (its size or checksum differs); {AGAIN}")


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

IDX_ENDINGS = ("idx3-ubyte", "idx3-ubyte.gz", "idx1-ubyte", "idx1-ubyte.gz")


def read_published(path: Path, classes: int | None = None) -> Part:
    """The images and labels of one file; its name tells the format.

    The labels of an idx file lie beside it. `classes` is for CIFAR, see `read_cifar`.
    """
    if path.suffix.lower() == ".bin":
        return read_cifar(path, classes)
    if path.suffix.lower() == ".mat":
        return _read_svhn(path)
    x, labels = read_idx(path, 3)[:, None], _labels_beside(path)
    y = None if labels is None else read_idx(labels, 1).astype(np.int64)
    if y is not None and len(y) != len(x):
        raise InputError(f"{labels}: {len(y)} labels for {len(x)} images; give files that match")
    return x, y


def _labels_beside(path: Path) -> Path | None:
    """``train-labels-idx1-ubyte`` beside ``train-images-idx3-ubyte``, gzipped or not."""
    name = path.name.replace("images", "labels").replace("idx3", "idx1")
    plain = name.removesuffix(".gz")
    found = (path.with_name(each) for each in (name, plain, f"{plain}.gz"))
    return next((file for file in found if file.is_file() and file != path), None)


def read_idx(path: Path, dimensions: int) -> np.ndarray:
    """The unsigned bytes in an idx file, plain or gzipped: images (n, h, w) or labels (n,)."""
    with reading(path, AGAIN):
        check_file(path)
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as stream:
            if (head := stream.read(4)) != bytes([0, 0, 8, dimensions]):
                raise ValueError(f"no idx file of bytes in {dimensions} dimensions: {head!r}")
            shape = np.frombuffer(stream.read(4 * dimensions), ">u4", dimensions).tolist()
            size = math.prod(shape)
            check_size(size, f"{path}: {tuple(shape)} values")
            content = stream.read(size + 1)
        if not len(content) == size > 0:
            raise ValueError(f"other than {size} values, as its header says")
        return np.frombuffer(content, np.uint8).reshape(shape).copy()


# By number of classes, the number of values of each label byte: CIFAR-100 gives the coarse label,
# then the fine one. Pixels follow: a plane of red, one of green, one of blue, each row by row.
_CIFAR_LABELS = {10: (10,), 100: (20, 100)}


def read_cifar(path: Path, classes: int | None = None) -> Part:
    """Images (n, 3, 32, 32) uint8 and labels (n,) int64 from a `.bin` file.

    `classes` is 10 or 100 and says which layout; without it the content of the file does.
    """
    with reading(path, AGAIN):
        data = np.frombuffer(read_bytes(path), np.uint8)
    for known, limits in _CIFAR_LABELS.items():
        if classes in (None, known) and data.size and data.size % (len(limits) + 3072) == 0:
            y, x = np.split(data.reshape(-1, len(limits) + 3072), [len(limits)], axis=1)
            if (y < limits).all():
                return x.reshape(-1, 3, 32, 32), y[:, -1].astype(np.int64)
    raise InputError(
        f"{path}: {data.size} bytes that are not records of CIFAR-10 (label below 10, 3072 pixels) "
        f"or CIFAR-100 (labels below 20 and 100, 3072 pixels); {AGAIN}"
    )


def _read_svhn(path: Path) -> Part:
    """Images (n, 3, 32, 32) uint8 and digits (n,) int64; the file calls the digit 0 "10".

    Only the published files are read: on a damaged one, scipy's reader may crash.
    """
    from scipy.io import loadmat

    files = [file for source in SOURCES.values() for file in source.files]
    _check(path, *(file for file in files if file.name.endswith(".mat")))
    with reading(path, AGAIN):
        arrays = loadmat(path, variable_names=["X", "y"])
        return arrays["X"].transpose(3, 2, 0, 1), arrays["y"].reshape(-1).astype(np.int64) % 10
