"""Data from a path or by name: arrays, tables, images. Nothing is written or unpickled."""

from __future__ import annotations

import warnings
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from gedilearn.data.arrays import CHANNELS, as_labels, listing
from gedilearn.data.columns import numeric_frame
from gedilearn.data.dataset import Dataset, npz_keys, read_npy, read_npz
from gedilearn.data.files import TABLE_SUFFIXES, USUAL_SEPARATORS, as_text, check_names, read_table
from gedilearn.errors import InputError, Parameter, closest
from gedilearn.io import as_path, check_file, check_size, reading
from gedilearn.registry import DATA_SETS

IMAGE_SUFFIXES = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp")
_DECODERS = ("PNG", "JPEG", "BMP", "GIF", "WEBP")  # no others, even if a file is named so
MOST_PIXELS = 50_000_000  # of one image; a small file can claim any number
Broken = Literal["refuse", "skip"]
_SUFFIXES = (".npy", ".npz", *TABLE_SUFFIXES)


class SkippedImages(UserWarning):
    """Names the images that were left out."""


def known_formats() -> str:
    """What `load` takes, as text for help pages."""
    return (
        f"sets by name: {', '.join(DATA_SETS)} (gedi data get downloads those of images, NAME:test "
        f"has the test images); files: {', '.join(_SUFFIXES)}; or a folder of images "
        f"({', '.join(suffix[1:] for suffix in IMAGE_SUFFIXES)}), also in folders in it"
    )


def is_name(source: str | Path) -> bool:
    """Whether `load` takes this for the name of a set, or NAME:SPLIT, and not for a path."""
    return isinstance(source, str) and source.partition(":")[0] in DATA_SETS


def is_folder(source: str | Path) -> bool:
    """Whether `load` takes this for a folder of images."""
    return not is_name(source) and as_path(source).is_dir()


def is_table(source: str | Path) -> bool:
    """Whether `load` takes this for a table."""
    path = as_path(source)
    return not is_name(source) and path.suffix.lower() in TABLE_SUFFIXES and not path.is_dir()


def load(
    source: str | Path,
    *,
    label_column: str | None = None,
    columns: Sequence[str] | None = None,
    text: Collection[str] | None = None,
    size: tuple[int, int] | None = None,
    broken: Broken = "refuse",
    separator: str | None = None,
    decimal: str | None = None,
) -> Dataset:
    """Read a set, a file or a folder of images; see `known_formats`.

    Images stored as bytes stay uint8 (n, c, h, w): published sets, folders, and arrays of four
    axes. All other data becomes floating point.

    Parameters
    ----------
    source: a path, or the name of a set in `registry.DATA_SETS`; ``mnist:test`` is a split of a
        set. Write ``./moons`` for a file with the name of a set
    label_column: the column of a table that becomes ``y`` and is not a feature
    columns: the columns of a table that are the features, in this order. In a file without names
        they name all columns
    text: the columns of a table to read as text, with 01 as 01. If given, even empty, columns may
        be of any type, and ``x`` is a data frame
    size: (height, width) to which the images of a folder are resized
    broken: 'skip' leaves out images that cannot be read, see `read_images`
    separator: of a text file: comma, semicolon, tab, bar, or the mark itself; None: detected
    decimal: the decimal mark of a text file: point, comma, or the mark itself; None: a point
    """
    if not isinstance(source, str | Path) or not str(source):
        raise InputError(f"source={source!r}: give a path or a name; {known_formats()}")
    path, named = as_path(source), is_name(source)
    suffix = "" if named or path.is_dir() else path.suffix.lower()
    if label_column is not None and suffix not in TABLE_SUFFIXES:
        raise _only_for(f"tables ({', '.join(TABLE_SUFFIXES)})", source, "label_column")
    if (separator or decimal) and suffix not in USUAL_SEPARATORS:
        text_files = f"text files ({', '.join(USUAL_SEPARATORS)})"
        raise _only_for(text_files, source, "separator", "decimal")
    if (size is not None or broken != "refuse") and (named or path.is_file()):
        raise _only_for("folders of images", source, "size", "broken")
    if named:
        return _open_set(str(source))
    with reading(path):
        if path.is_dir():
            return read_images(path, size=size, broken=broken)
        _check_file(path)
        if suffix == ".npy":
            return Dataset.checked(path, read_npy(path))
        if suffix == ".npz":
            return _read_npz(path)
        how = {"text": text or (), "separator": separator, "decimal": decimal}
        data = _read_table(path, label_column, columns, how)
        return data if text is not None else replace(data, x=numeric_frame(data.x).to_numpy())


def _only_for(what: str, source: str | Path, *names: str) -> InputError:
    listed = [part for name in names for part in (", ", Parameter(name))][1:]
    return InputError(f"{source}: ", *listed, f": only for {what}")


def _open_set(source: str) -> Dataset:
    name, colon, split = source.partition(":")
    opened = DATA_SETS[name]
    splits = list(getattr(opened, "splits", ()))
    if colon and split not in splits:
        names = " or ".join(f"{name}:{each}" for each in splits) or name
        raise InputError(f"{source}: {name} has no split {split!r}; write {names}")
    data: Dataset = opened(split) if colon else opened()
    return data


def _read_table(
    path: Path, label_column: str | None, columns: Sequence[str] | None, how: dict[str, Any]
) -> Dataset:
    """A table with columns of any type: `x` is a data frame, `frame` also has the labels."""
    labels = [] if label_column is None else [label_column]
    whole, named = read_table(path, expected={*(columns or ()), *labels}, **how)
    check_names(labels, whole.columns, str(path))
    y = None if label_column is None else _labels(path, whole[label_column])
    frame = whole.drop(columns=labels)
    if not frame.shape[1]:
        raise InputError(f"{path}: no columns except the labels; give at least one")
    if columns is not None:
        if not named and len(columns) == frame.shape[1]:
            frame = frame.set_axis(list(columns), axis=1)
        check_names(columns, frame.columns, str(path))
        frame = frame[list(columns)]
    names = tuple(frame.columns) if named or columns is not None else None
    return Dataset(path.stem, frame, y, names, str(path), frame=whole)


def _labels(path: Path, cells: Any) -> np.ndarray:
    for row in np.flatnonzero(cells.isna())[:1]:
        raise InputError(
            f"{path}: row {row} (counted from 0) has no label in column {cells.name!r}; fill it in"
        )
    is_number = cells.dtype.kind in "biuf"
    return as_labels(cells.to_numpy() if is_number else as_text(cells).tolist(), str(path))


def _check_file(path: Path) -> None:
    if not path.exists():
        raise InputError(f"{path}: no such file; {_suggestion(path)}")
    suffix = path.suffix.lower()
    if suffix not in _SUFFIXES:
        way = "unpack an archive; save a sheet or a data frame as .csv or .parquet"
        raise InputError(f"{path}: unknown extension {suffix!r}; {way}; known: {known_formats()}")
    if check_file(path, mapped=suffix == ".npy") == 0:
        raise InputError(f"{path}: the file is empty; write it again")


def _suggestion(path: Path) -> str:
    """The nearest file in the same folder, or the nearest name of a set."""
    files = [entry.name for entry in path.parent.iterdir()] if path.parent.is_dir() else []
    near = closest(path.name, [*files, *DATA_SETS])
    return f"did you mean {near}?" if near else known_formats()


def _read_npz(path: Path) -> Dataset:
    """The data is called x, X or data, or is the only array that is not y or labels."""
    keys = npz_keys(path)
    labels = [key for key in keys if key in ("y", "labels") and len(keys) > 1]
    others = [key for key in keys if key not in labels]
    arrays = [key for key in others if key in ("x", "X", "data")] or others
    if len(arrays) != 1 or len(labels) > 1:
        among = listing(keys, 10) or "none"
        raise InputError(f"{path}: which array is the data? There are {among}; name it x")
    x = read_npz(path, arrays[0])
    if x.dtype == np.uint8 and x.ndim == 4 and x.shape[1] not in CHANNELS:
        x = x.transpose(0, 3, 1, 2)  # image archives often have the channels last
    data = Dataset.checked(path, x, key=arrays[0])
    if not labels:
        return data
    y, where = read_npz(path, labels[0]), f"{path}[{labels[0]}]"
    if y.size != len(data.x) or y.ndim == 0:
        raise InputError(f"{where}: shape {y.shape} for {len(data.x)} rows; one label per row")
    return replace(data, y=as_labels(y.reshape(-1), where))


# --- folders of images --------------------------------------------------------------------------


def read_images(
    folder: Path, *, size: tuple[int, int] | None = None, broken: Broken = "refuse"
) -> Dataset:
    """All images in a folder and its sub-folders, pixels from 0 to 255, (n, c, h, w).

    If all images are in sub-folders, the names of the first level are the labels. Pixels are bytes.
    If an image has 16 bits, all images are float32 in the same units. Grey images have one channel;
    if one is in colour, all are. Transparency is dropped and EXIF orientation applied. Images of
    different sizes are refused without `size` (height, width), to which all are resized. A broken
    image or link is refused, or with ``broken="skip"`` left out and named in a warning,
    `SkippedImages`.
    """
    if size is not None and not (len(size) == 2 and all(1 <= side <= 4096 for side in size)):
        words = ": give (height, width), each from 1 to 4096 pixels"
        raise InputError(Parameter("size", size), words)
    paths = list(_image_paths(folder))
    inside = [path.relative_to(folder) for path in paths]
    if not paths:
        raise InputError(f"{folder}: a folder without images ({', '.join(IMAGE_SUFFIXES)})")
    images: dict[int, np.ndarray] = {}  # by their number among `paths`
    total = 0
    for i, path in enumerate(paths):
        try:
            pixels = _decode(path, size)
        except InputError as error:
            if broken == "refuse":
                way_out = "; or leave such files out: ", Parameter("broken", "skip")
                raise InputError(*error.parts, *way_out) from error
            continue
        images[i] = pixels
        first = next(iter(images))
        (height, width), (high, wide) = pixels.shape[:2], images[first].shape[:2]
        if (height, width) != (high, wide):
            raise InputError(
                f"{path}: {width}x{height} pixels, but {paths[first]} has {wide}x{high}; resize "
                "all images to one size, for instance ",
                Parameter("size", (high, wide)),
            )
        total += pixels.nbytes
        check_size(total, f"{folder}: the first {len(images)} of {len(paths)} images")
    if not images:
        raise InputError(f"{folder}: none of the {len(paths)} images can be read; save them as PNG")
    if skipped := [path for i, path in enumerate(inside) if i not in images]:
        counts = f"left out {len(skipped)} of {len(paths)} images that cannot be read"
        message = f"{folder}: {counts}: {listing(skipped, 10)}"
        warnings.warn(message, SkippedImages, stacklevel=2)
    has_classes = all(len(path.parts) > 1 for path in inside)
    classes = [inside[i].parts[0] for i in images]
    y = as_labels(classes, str(folder)) if has_classes else None
    data = Dataset.checked(folder, _stack([*images.values()]), y)
    names = (inside[i].as_posix().encode(errors="backslashreplace").decode() for i in images)
    return replace(data, paths=tuple(names), rows=np.array([*images]))


def _image_paths(folder: Path, above: frozenset[Path] = frozenset()) -> Iterator[Path]:
    """Those of the folder, then of its sub-folders; links to a folder above are not followed."""
    above |= {folder.resolve()}
    entries = sorted(entry for entry in folder.iterdir() if entry.name[0] != ".")
    yield from (e for e in entries if e.suffix.lower() in IMAGE_SUFFIXES and not e.is_dir())
    for entry in entries:
        if entry.is_dir() and entry.resolve() not in above:
            yield from _image_paths(entry, above)


def _stack(images: Sequence[np.ndarray]) -> np.ndarray:
    """One array (n, c, h, w) of all images, with the largest number of channels."""
    channels = max(pixels.shape[2] for pixels in images)
    dtype = np.result_type(*{pixels.dtype for pixels in images})
    x = np.empty((len(images), channels, *images[0].shape[:2]), dtype)
    for row, pixels in zip(x, images, strict=True):
        row[:] = pixels.transpose(2, 0, 1)
    return x


def _decode(path: Path, size: tuple[int, int] | None) -> np.ndarray:
    """Upright pixels (h, w, 1) or (h, w, 3), bytes or float32; transparency is dropped."""
    from PIL import Image, ImageOps

    with reading(path), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Pillow on many pixels and palettes
        check_file(path)
        with Image.open(path, formats=_DECODERS) as opened:
            if opened.width * opened.height > MOST_PIXELS:  # before decoding
                raise InputError(f"{path}: more than {MOST_PIXELS} pixels; resize it, or remove it")
            image = ImageOps.exif_transpose(opened)
            is_fine = image.mode.startswith("I")  # 16-bit grey, which convert("L") would clip
            if is_fine:
                image = Image.fromarray(np.asarray(image).astype(np.float32))
            else:
                image = image.convert("L" if image.mode in ("1", "L", "LA") else "RGB")
            if size is not None and image.size != size[::-1]:  # averages when it shrinks
                image = image.resize(size[::-1], Image.Resampling.BILINEAR)
            pixels = np.asarray(image)
            pixels = np.rint(pixels) / 257 if is_fine else pixels  # 16 bits to 8
            return pixels if pixels.ndim == 3 else pixels[:, :, None]
