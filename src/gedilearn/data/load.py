"""Data from a path or by name: arrays, tables, images. Nothing is ever written or unpickled."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from gedilearn.data.arrays import CHANNELS, as_labels, listing
from gedilearn.data.dataset import Dataset
from gedilearn.data.dialects import USUAL
from gedilearn.data.image_folder import IMAGE_SUFFIXES, Broken, read_images
from gedilearn.data.numpy_files import npz_keys, read_npy, read_npz
from gedilearn.data.published import (
    IDX_ENDINGS,
    SOURCES,
    labels_beside,
    open_set,
    read_published,
    split_of,
)
from gedilearn.data.table import Table
from gedilearn.data.table_files import read_whole
from gedilearn.data.tables import TABLE_SUFFIXES, read_table
from gedilearn.errors import InputError, closest
from gedilearn.io import MAPPED, as_path, check_file, reading
from gedilearn.registry import DATA_SETS

_SUFFIXES = (".npy", ".npz", *TABLE_SUFFIXES, ".bin", ".mat")

_SHEET = "save the sheet as CSV (UTF-8) and give that file"
_FRAME = "read it with pandas or polars, and give GEDI the frame or save it as .parquet or .csv"
_PACKED = "unpack it first"
_WAYS = dict.fromkeys((".xlsx", ".xls", ".xlsm", ".ods"), _SHEET)
_WAYS |= dict.fromkeys((".json", ".jsonl", ".feather", ".arrow", ".pkl", ".h5", ".sav"), _FRAME)
_WAYS |= dict.fromkeys((".gz", ".zip", ".bz2", ".xz", ".zst", ".7z", ".tar", ".rar"), _PACKED)


def known_formats() -> str:
    """What `load` takes, as text for help pages."""
    return (
        f"built-in: {', '.join(DATA_SETS)}; fetched by gedi data get NAME: {', '.join(SOURCES)}, "
        f"NAME:test for the test images; files: {', '.join(_SUFFIXES)} (the last two: CIFAR and "
        "SVHN as published), MNIST's ...-idx3-ubyte(.gz); or a folder of images "
        f"({', '.join(suffix[1:] for suffix in IMAGE_SUFFIXES)}), also in folders in it"
    )


def is_name(source: str | Path) -> bool:
    """Whether `load` takes this for the name of a set and not for a path."""
    return isinstance(source, str) and (source in DATA_SETS or source.partition(":")[0] in SOURCES)


def is_folder(source: str | Path) -> bool:
    """Whether `load` takes this for a folder of images."""
    return not is_name(source) and as_path(source).is_dir()


def load(
    source: str | Path,
    *,
    label_column: str | None = None,
    columns: Sequence[str] | None = None,
    size: tuple[int, int] | None = None,
    broken: Broken = "refuse",
    separator: str | None = None,
    decimal: str | None = None,
    shared: bool = False,
) -> Dataset:
    """Read a built-in or fetched set, a file or a folder of images; see `known_formats`.

    A string that is the name of a set means that set; write ``./moons`` for a file called so.
    Names are those of `registry.DATA_SETS` and of the published sets (`data.published`).
    Images stored as bytes stay uint8 (n, c, h, w): published sets, those by name memory-mapped,
    folders, and arrays of four axes. Everything else is floating point.
    ``label_column`` names the column of a table that becomes ``y`` and is not a feature.
    ``columns`` names the columns of a table that are the features, in this order; others are not
    looked at. Sources without names of columns are taken as they come.
    ``size`` (height, width) is what the images of a folder are resized to; ``broken="skip"`` leaves
    out those that cannot be read, see `image_folder.read_images`.
    ``separator`` (``","``, ``";"``, ``"tab"``, ``"|"``) and ``decimal`` (``"."``, ``","``) are the
    marks of a table of text, where they are not to be found out from it.
    ``shared`` says that all ranks that torchrun has started read this, so that those of a machine
    may unpack a large Parquet file together.
    """
    if not isinstance(source, str | Path) or not str(source):
        raise InputError(f"source={source!r}: give a path or a name; {known_formats()}")
    path = as_path(source)
    suffix = path.suffix.lower()
    named = is_name(source)
    if label_column is not None and (named or suffix not in TABLE_SUFFIXES):
        raise InputError(f"{source}: label_column is for tables ({', '.join(TABLE_SUFFIXES)})")
    if (size is not None or broken != "refuse") and (named or path.is_file()):
        raise InputError(
            f"{source}: size and broken (--size, --skip-broken) are for folders of images"
        )
    check_marks(source, separator, decimal)
    if named:
        published = split_of(str(source))
        return open_set(*published) if published else _built_in(str(source))
    with reading(path):
        if path.is_dir():
            return read_images(path, size=size, broken=broken)
        _check_file(path)
        if suffix in TABLE_SUFFIXES:
            check_file(path)
            return read_table(path, label_column, columns, separator, decimal)
        if suffix == ".npy":
            return Dataset.checked(path, read_npy(path))
        if suffix == ".npz":
            return _read_npz(path)
        return _read_published(path)


def is_table(source: str | Path) -> bool:
    """Whether `load` takes this for a table."""
    path = as_path(source)
    return not is_name(source) and path.suffix.lower() in TABLE_SUFFIXES and not path.is_dir()


def check_marks(source: str | Path, separator: str | None, decimal: str | None) -> None:
    """Refuse marks of a text for what is none."""
    if (separator or decimal) and (is_name(source) or as_path(source).suffix.lower() not in USUAL):
        raise InputError(
            f"{source}: separator and decimal (--separator, --decimal) are for {', '.join(USUAL)}"
        )


def load_table(
    source: str | Path,
    *,
    expected: Collection[str] = (),
    as_text: bool = False,
    separator: str | None = None,
    decimal: str | None = None,
    shared: bool = False,
) -> Table:
    """A whole table with columns of any type; see `table_files.read_whole`."""
    path = as_path(source)
    check_marks(source, separator, decimal)
    with reading(path):
        _check_file(path)
        check_file(path)
        return read_whole(path, expected, as_text, separator, decimal)


def _built_in(name: str) -> Dataset:
    made = DATA_SETS[name]()
    if not isinstance(made, Dataset):
        raise InputError(f"data set {name!r}: its function gave {type(made).__name__}, no Dataset")
    return made


def _check_file(path: Path) -> None:
    if not path.exists():
        raise InputError(f"{path}: no such file; {_suggestion(path)}")
    suffix = path.suffix.lower()
    if suffix in IMAGE_SUFFIXES:
        raise InputError(f"{path}: one image is not a data set; give the folder that holds it")
    if suffix not in _SUFFIXES and not path.name.endswith(IDX_ENDINGS):
        way = _WAYS.get(suffix)
        if way is not None:
            raise InputError(f"{path}: {suffix} files are not read; {way}")
        raise InputError(f"{path}: unknown extension {suffix!r}; known are {known_formats()}")
    if check_file(path, MAPPED if suffix in (".npy", ".parquet") else 1.0) == 0:
        raise InputError(f"{path}: the file is empty; write it again")


def _suggestion(path: Path) -> str:
    """What may have been meant by a path where there is nothing: a file beside it, or a name."""
    if not path.parent.is_dir():
        return f"there is no folder {path.parent} either"
    choices = {entry.name: str(path.parent / entry.name) for entry in path.parent.iterdir()}
    choices |= {name: f"{name} (built-in)" for name in DATA_SETS}
    choices |= {name: f"{name} (gedi data get {name})" for name in SOURCES}
    near = closest(path.name, choices)
    return f"did you mean {choices[near]}?" if near else known_formats()


def _read_published(path: Path) -> Dataset:
    """One file of CIFAR, SVHN or an MNIST-like set; the latter's labels lie in a file beside it."""
    x, y = read_published(path, labels_beside(path))
    name = path.name.removesuffix(".gz").removesuffix("-idx3-ubyte").removesuffix(path.suffix)
    return Dataset(name, x, y, None, str(path))


def _read_npz(path: Path) -> Dataset:
    keys = npz_keys(path)
    label_keys = [key for key in keys if key in ("y", "labels")]
    named = [key for key in keys if key in ("x", "X", "data")]
    others = [key for key in keys if key not in label_keys]
    data_keys = keys if len(keys) == 1 else named or others
    if len(data_keys) != 1 or len(label_keys) > 1:
        raise InputError(
            f"{path}: unclear which array is the data among {listing(keys, 10) or 'none'}; "
            "name it x, and the labels y"
        )
    x = _channels_first(read_npz(path, data_keys[0]))
    data = Dataset.checked(path, x, key=data_keys[0])
    if not label_keys or label_keys == data_keys:
        return data
    y, where = read_npz(path, label_keys[0]), f"{path}[{label_keys[0]}]"
    if y.size != len(data.x) or y.ndim == 0:
        raise InputError(f"{where}: shape {y.shape} for {len(data.x)} rows; one label per row")
    return replace(data, y=as_labels(y.reshape(-1), where))


def _channels_first(x: np.ndarray) -> np.ndarray:
    """Archives of pictures mostly hold bytes (n, h, w, c); as (n, c, h, w) they make no sense."""
    last = x.ndim == 4 and x.shape[1] not in CHANNELS and x.shape[3] in CHANNELS
    return x.transpose(0, 3, 1, 2) if last and x.dtype == np.uint8 else x
