"""The published files of a known set, wherever they lie, as images and labels."""

from __future__ import annotations

import hashlib
import zipfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import numpy as np

from gedilearn.data.arrays import listing
from gedilearn.data.cifar import read_cifar
from gedilearn.data.download import checksum_error, extract
from gedilearn.data.idx import read_idx_images, read_idx_labels
from gedilearn.data.reading import reading
from gedilearn.data.sources import File, Source
from gedilearn.data.svhn import read_svhn
from gedilearn.errors import InputError

Part = tuple[np.ndarray, np.ndarray]  # images (n, c, h, w) uint8, labels (n,) uint8
Parts = Callable[[str], Iterator[Part]]  # the parts of a split, one after the other


def from_folder(source: Source, folder: Path, scratch: Path) -> tuple[Parts, tuple[Path, ...]]:
    """What `folder` holds of a set, and the files that it is read from.

    These are the published files, plain or (for idx) gunzipped, in the folder or in the sub-folder
    of their archive; or the archive, unpacked into `scratch`; or NAME.npz with x_train, y_train,
    x_test and y_test.
    """
    if not folder.is_dir():
        raise InputError(f"{folder}: no such folder; give the one that holds {_needed(source)}")
    files = {file.name: _find(folder, source, file) for file in source.files}
    here = {name: path for name, path in files.items() if path is not None}
    archive = folder / source.archive.name if source.archive else None
    npz = folder / f"{source.name}.npz"
    if len(here) == len(files):
        for file in source.files:
            if here[file.name].name == file.name:
                check(here[file.name], file)
        return from_files(source, here), tuple(here.values())
    if archive is not None and archive.is_file():
        return from_archive(source, archive, scratch), (archive,)
    if npz.is_file():
        return lambda split: iter([_npz_split(npz, source, split)]), (npz,)
    missing = [name for name in files if name not in here]
    lack = f"; of the files, {listing(missing)} missing" if here else ""
    raise InputError(f"{folder}: give a folder that holds {_needed(source)}{lack}")


def from_archive(source: Source, archive: Path, scratch: Path) -> Parts:
    """Check and unpack the published archive."""
    assert source.archive is not None
    check(archive, source.archive)
    extract(archive, {f"{source.folder}/{f.name}": f.size for f in source.files}, scratch)
    files = {file.name: scratch / file.name for file in source.files}
    for file in source.files:
        check(files[file.name], file)
    return from_files(source, files)


def from_files(source: Source, files: Mapping[str, Path]) -> Parts:
    """Read the parts of a split from the files of these published names."""

    def parts(split: str) -> Iterator[Part]:
        described = source.splits[split]
        for file in described.images:
            path = files[file.name]
            y: np.ndarray | None
            if source.layout == "idx":
                x = read_idx_images(path)
                assert described.labels is not None
                y = read_idx_labels(files[described.labels.name], len(x))
            elif source.layout == "svhn":
                x, y = read_svhn(path)
            else:
                x, y = read_cifar(path, 100 if source.layout == "cifar100" else 10)
            yield _checked(path, source, x, y)

    return parts


def check(path: Path, file: File) -> None:
    """Refuse a file that is not the published one."""
    with reading(path):
        wrong = checksum_error(path, file)
    if wrong:
        raise InputError(f"{path}: not the published file ({wrong}); fetch it again")


def md5(path: Path) -> str:
    digest = hashlib.md5(usedforsecurity=False)
    with path.open("rb") as handle:
        while piece := handle.read(2**20):
            digest.update(piece)
    return digest.hexdigest()


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


def _checked(path: Path, source: Source, x: np.ndarray, y: np.ndarray | None) -> Part:
    if x.shape[1:] != source.shape:
        raise InputError(f"{path}: images {x.shape[1:]}, but {source.name} has {source.shape}")
    if y is None or len(y) != len(x):
        raise InputError(f"{path}: no label for each image; it is not a file of {source.name}")
    if y.min() < 0 or y.max() >= source.classes:
        raise InputError(f"{path}: labels from {y.min()} to {y.max()}; expected {source.classes}")
    return x, y.astype(np.uint8)


def _npz_split(path: Path, source: Source, split: str) -> Part:
    """x_train and y_train, or x_test and y_test; the heads are looked at before the values."""
    count, (channels, height, width) = source.splits[split].count, source.shape
    shapes: set[tuple[int, ...]] = {
        (count, channels, height, width),
        (count, height, width, channels),
    }
    if channels == 1:
        shapes.add((count, height, width))
    with reading(path):
        x = _npz_array(path, f"x_{split}", shapes)
        y = _npz_array(path, f"y_{split}", {(count,), (count, 1)}).reshape(-1)
    if x.dtype != np.uint8 or y.dtype.kind not in "iu":
        raise InputError(f"{path}: x is {x.dtype} and y {y.dtype}, expected uint8 and integers")
    if x.shape[1:] == (height, width, channels):
        x = x.transpose(0, 3, 1, 2)
    return _checked(path, source, x.reshape(count, *source.shape), y)


def _npz_array(path: Path, key: str, shapes: set[tuple[int, ...]]) -> np.ndarray:
    form = np.lib.format
    with zipfile.ZipFile(path) as archive:
        if f"{key}.npy" not in archive.namelist():
            raise InputError(f"{path}: no array {key}; give x_train, y_train, x_test and y_test")
        with archive.open(f"{key}.npy") as member:
            old = form.read_magic(member) == (1, 0)
            read = form.read_array_header_1_0 if old else form.read_array_header_2_0
            shape = read(member)[0]
        if shape not in shapes:
            raise InputError(f"{path}[{key}]: shape {shape}, expected {max(shapes, key=len)}")
        with archive.open(f"{key}.npy") as member:
            return form.read_array(member, allow_pickle=False)
