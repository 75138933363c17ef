"""Data from a path: arrays, tables, folders of images. Nothing is ever written or unpickled."""

from __future__ import annotations

import csv
import difflib
import zipfile
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from gedilearn.data.arrays import as_labels, as_numbers, listing, row_listing
from gedilearn.data.dataset import Dataset
from gedilearn.data.digits import digits
from gedilearn.data.toy import circles, moons
from gedilearn.errors import InputError

BUILTIN: dict[str, Callable[[], Dataset]] = {"moons": moons, "circles": circles, "digits": digits}
IMAGE_SUFFIXES = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp")
_IMAGE_DECODERS = ("PNG", "JPEG", "BMP", "GIF", "WEBP")  # no others: a name is no proof of content
_DELIMITERS = {".csv": ",", ".tsv": "\t"}
_SUFFIXES = (".npy", ".npz", *_DELIMITERS, ".parquet")


def known_formats() -> str:
    """What `load` takes, as text for help pages."""
    return (
        f"built-in: {', '.join(BUILTIN)}; files: {', '.join(_SUFFIXES)}; or a folder of images "
        f"({', '.join(suffix[1:] for suffix in IMAGE_SUFFIXES)}), flat or one sub-folder per class"
    )


def load(source: str | Path, *, label_column: str | None = None) -> Dataset:
    """Read a built-in set, a file or a folder of images; see `known_formats`.

    A string that is a built-in name means that set; write ``./moons`` for a file called so.
    ``label_column`` names the column of a table that becomes ``y`` and is not a feature.
    """
    if not isinstance(source, str | Path) or not str(source):
        raise InputError(f"source={source!r}: give a path or a name; {known_formats()}")
    path = Path(source).expanduser() if str(source).startswith("~/") else Path(source)
    suffix = path.suffix.lower()
    builtin = isinstance(source, str) and source in BUILTIN
    if label_column is not None and (builtin or suffix not in (*_DELIMITERS, ".parquet")):
        raise InputError(
            f"{source}: label_column is for tables ({', '.join(_DELIMITERS)}, .parquet)"
        )
    if builtin:
        return BUILTIN[str(source)]()
    with _reading(path):
        if path.is_dir():
            return _read_images(path)
        _check_file(path)
        if suffix == ".npy":
            return _dataset(path, _read_npy(path))
        if suffix == ".npz":
            return _read_npz(path)
        if suffix == ".parquet":
            return _read_parquet(path, label_column)
        return _read_delimited(path, _DELIMITERS[suffix], label_column)


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    """Whatever a parser throws at unexpected bytes becomes one line that names the file."""
    try:
        yield
    except InputError:
        raise
    except PermissionError as error:
        raise InputError(
            f"{error.filename or path}: permission denied; make it readable"
        ) from error
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: not UTF-8 text; save it with UTF-8 encoding") from error
    except Exception as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        raise InputError(
            f"{path}: cannot be read, perhaps truncated or corrupt ({reason})"
        ) from error


def _check_file(path: Path) -> None:
    if not path.exists():
        raise InputError(f"{path}: no such file{_suggestion(path)}")
    suffix = path.suffix.lower()
    if suffix in IMAGE_SUFFIXES:
        raise InputError(f"{path}: one image is not a data set; give the folder that holds it")
    if suffix not in _SUFFIXES:
        raise InputError(f"{path}: unknown extension {suffix!r}; known are {known_formats()}")
    if not path.is_file():
        raise InputError(f"{path}: not a regular file; copy its content into one")
    if path.stat().st_size == 0:
        raise InputError(f"{path}: the file is empty; write it again")


def _suggestion(path: Path) -> str:
    if not path.parent.is_dir():
        return f"; there is no folder {path.parent} either"
    choices = {entry.name: str(path.parent / entry.name) for entry in path.parent.iterdir()}
    choices |= {name: f"{name} (built-in)" for name in BUILTIN}
    near = difflib.get_close_matches(path.name, choices, n=1)
    return f"; did you mean {choices[near[0]]}?" if near else f"; {known_formats()}"


def _dataset(
    path: Path,
    x: np.ndarray,
    y: np.ndarray | None = None,
    columns: tuple[str, ...] | None = None,
) -> Dataset:
    x = as_numbers(x, str(path))
    if y is not None and len(y) != len(x):
        raise InputError(f"{path}: {len(y)} labels for {len(x)} rows; give one label per row")
    return Dataset(name=path.stem, x=x, y=y, columns=columns, source=str(path))


# --- arrays -------------------------------------------------------------------------------------


def _refuse_objects(error: ValueError, where: str) -> None:
    if "Object arrays" in str(error):
        as_numbers(np.empty(0, dtype=object), where)


def _read_npy(path: Path) -> np.ndarray:
    with path.open("rb") as handle:
        try:
            return np.lib.format.read_array(handle, allow_pickle=False)
        except ValueError as error:
            _refuse_objects(error, str(path))
            raise


def _read_npz(path: Path) -> Dataset:
    if not zipfile.is_zipfile(path):
        raise InputError(f"{path}: not an .npz archive, or truncated or corrupt; save it again")
    with path.open("rb") as handle, np.load(handle, allow_pickle=False) as archive:
        keys = list(archive.files)
        label_keys = [key for key in keys if key in ("y", "labels")]
        named = [key for key in keys if key in ("x", "X", "data")]
        others = [key for key in keys if key not in label_keys]
        data_keys = keys if len(keys) == 1 else named or others
        if len(data_keys) != 1 or len(label_keys) > 1:
            raise InputError(
                f"{path}: unclear which array is the data among {listing(keys, 10) or 'none'}; "
                "name it x, and the labels y"
            )
        key = data_keys[0]
        arrays = {}
        for wanted in {key, *label_keys}:
            try:
                arrays[wanted] = archive[wanted]
            except ValueError as error:
                _refuse_objects(error, f"{path}[{wanted}]")
                raise
    x = as_numbers(arrays.pop(key), f"{path}[{key}]")
    if not arrays:
        return _dataset(path, x)
    label_key, y = arrays.popitem()
    if y.size != len(x) or y.ndim == 0:
        raise InputError(
            f"{path}[{label_key}]: shape {y.shape} for {len(x)} rows; one label per row"
        )
    return _dataset(path, x, as_labels(y.reshape(-1), f"{path}[{label_key}]"))


# --- tables -------------------------------------------------------------------------------------


class _Head(NamedTuple):
    """What the first records of a table say about the rest."""

    names: tuple[str, ...] | None
    first: tuple[str, ...]
    line: int
    last_line: int

    def column(self, index: int) -> str:
        return f"{self.names[index]!r}" if self.names else str(index + 1)


def _records(path: Path, delimiter: str) -> Iterator[tuple[int, int, list[str]]]:
    """First line, last line and cells of every record that is not blank."""
    with path.open(encoding="utf-8-sig", newline="") as handle:
        reader = csv.reader(handle, delimiter=delimiter, strict=True)
        last = 0
        try:
            for cells in reader:
                start, last = last + 1, reader.line_num
                if len(cells) > 1 or "".join(cells).strip() or cells == [""]:
                    yield start, last, cells
        except csv.Error as error:
            raise InputError(f"{path}: line {last + 1}: {error}; mend the quotes") from error


def _number(cell: str) -> float | None:
    """The cell's value, NaN when it is missing, None when it is text."""
    text = cell.strip()
    try:
        return None if "_" in text else float(text or "nan")
    except ValueError:
        return None


def _is_header(first: Sequence[str], second: Sequence[str], label_column: str | None) -> bool:
    if label_column is not None and label_column in first:
        return True
    filled = [cell for cell in first if cell]
    if filled and all(_number(cell) is None for cell in filled):
        return True
    # A data frame without names writes its columns as 0, 1, 2, ...: a header, not a point.
    counting = len(first) > 1 and list(filled) == [str(index) for index in range(len(filled))]
    counting = counting and (list(first) == filled or list(first[1:]) == filled)
    return counting and (len(filled) >= 10 or not all(cell.strip().isdigit() for cell in second))


def _read_head(path: Path, delimiter: str, label_column: str | None) -> _Head:
    records = _records(path, delimiter)
    top = next(records, None)
    if top is None:
        raise InputError(f"{path}: the file holds only blank lines; write it again")
    line, last_line, cells = top
    first = tuple(cell.strip() for cell in cells)
    _, _, second = next(records, (0, 0, None))
    if second is not None and not _is_header(first, second, label_column):
        return _Head(None, first, line, last_line)
    if second is None and any(_number(cell) is not None for cell in first if cell):
        return _Head(None, first, line, last_line)
    if second is None:
        raise InputError(f"{path}: zero rows below the header; give at least one")
    names = tuple(cell or f"column {index + 1}" for index, cell in enumerate(first))
    return _Head(names, first, line, last_line)


def _label_index(names: Sequence[str], label_column: str, path: Path) -> int:
    found = [index for index, name in enumerate(names) if name == label_column]
    if len(found) == 1:
        return found[0]
    near = difflib.get_close_matches(label_column, names, n=1)
    hint = f"did you mean {near[0]!r}?" if near else f"there are {listing(names, 6)}"
    count = "no column is" if not found else f"{len(found)} columns are"
    raise InputError(f"{path}: {count} named {label_column!r}; {hint}")


def _read_delimited(path: Path, delimiter: str, label_column: str | None) -> Dataset:
    head = _read_head(path, delimiter, label_column)
    width = len(head.first)
    other = next((mark for mark in ";\t|," if mark in head.first[0] and mark != delimiter), None)
    if width == 1 and other:
        raise InputError(
            f"{path}: separated by {other!r}, not {delimiter!r}; save it with the latter"
        )
    label = None
    if label_column is not None:
        label = _label_index(head.names or head.first, label_column, path)
        if width == 1:
            raise InputError(f"{path}: zero columns beside the labels; give at least one")
    columns = head.names
    if columns and label is not None:
        columns = columns[:label] + columns[label + 1 :]
    x = _plain_numbers(path, delimiter, head)
    if x is None:
        x, texts = _parse_cells(path, delimiter, head, label)
        y = as_labels(texts, str(path)) if label is not None else None
        return _dataset(path, x, y, columns)
    if label is None:
        return _dataset(path, x, None, columns)
    return _dataset(path, np.delete(x, label, axis=1), as_labels(x[:, label], str(path)), columns)


def _plain_numbers(path: Path, delimiter: str, head: _Head) -> np.ndarray | None:
    """The fast way, for finite numbers only; None sends everything else to `_parse_cells`."""
    if head.last_line != 1:
        return None
    try:
        with path.open(encoding="utf-8-sig", newline="") as handle:
            skip = 1 if head.names else 0
            x = np.loadtxt(handle, delimiter=delimiter, skiprows=skip, comments=None, ndmin=2)
    except ValueError:
        return None
    return x if x.shape[1] == len(head.first) and np.isfinite(x).all() else None


def _parse_cells(
    path: Path, delimiter: str, head: _Head, label: int | None
) -> tuple[np.ndarray, list[str]]:
    """Cell by cell, so that what is wrong can be named by line and column."""
    width = len(head.first)
    features = [index for index in range(width) if index != label]
    numbers, labels = array("d"), []
    good, bad = [0] * width, [0] * width
    first_bad: dict[int, tuple[int, str]] = {}
    missing: list[tuple[int, int]] = []
    for line, _, cells in _records(path, delimiter):
        if head.names and line == head.line:
            continue
        if len(cells) != width:
            raise InputError(
                f"{path}: line {line} has {len(cells)} cells, line {head.line} has {width}; "
                "give every row the same number"
            )
        if label is not None:
            labels.append(cells[label].strip())
            if labels[-1].lower() in ("", "nan"):
                raise InputError(f"{path}: line {line} has no label in column {head.column(label)}")
        for index in features:
            value = _number(cells[index])
            if value is None:
                bad[index] += 1
                first_bad.setdefault(index, (line, cells[index]))
            elif np.isfinite(value):
                good[index] += 1
            else:
                missing.append((line, index))
            numbers.append(np.nan if value is None else value)
    _refuse_text(path, head, first_bad, [i for i in features if bad[i] > good[i]])
    if missing:
        rows = list(dict.fromkeys(line for line, _ in missing))
        raise InputError(
            f"{path}: {len(missing)} missing or infinite cell{'' if len(missing) == 1 else 's'} in "
            f"{row_listing(rows)} (line numbers in the file), first in column "
            f"{head.column(missing[0][1])}; drop these rows or fill in the values"
        )
    return np.frombuffer(numbers, dtype=np.float64).reshape(-1, len(features)), labels


def _refuse_text(
    path: Path, head: _Head, first_bad: dict[int, tuple[int, str]], text: list[int]
) -> None:
    if text:
        _refuse_columns(path, [head.column(index) for index in text])
    if first_bad:
        (line, cell), index = min((place, index) for index, place in first_bad.items())
        hint = "if line 1 is a header, no name in it may be a number" if line == 1 else "mend it"
        place = f"line {line}, column {head.column(index)}"
        raise InputError(f"{path}: {place}: {cell[:40]!r} is not a number; {hint}")


def _refuse_columns(path: Path, columns: Sequence[str]) -> None:
    noun = "column" if len(columns) == 1 else "columns"
    raise InputError(
        f"{path}: {noun} {listing(columns, 6)} not numbers but text or the like; encode as numbers "
        "or drop, or name one as label_column"
    )


def _read_parquet(path: Path, label_column: str | None) -> Dataset:
    try:
        import pyarrow as pa  # type: ignore[import-untyped, unused-ignore]
        import pyarrow.parquet as pq  # type: ignore[import-untyped, unused-ignore]
    except ImportError as error:
        raise InputError(
            f'{path}: reading .parquet needs pyarrow; pip install "gedi-learn[parquet]"'
        ) from error
    with path.open("rb") as handle:
        table = pq.read_table(handle)
    index = (table.schema.pandas_metadata or {}).get("index_columns", [])
    kept = [name for name in table.column_names if name not in index or name == label_column]
    table = table.select(kept) if len(set(kept)) == len(kept) else table
    label = None
    if label_column is not None:
        label = _label_index(table.column_names, label_column, path)
    features = [i for i in range(table.num_columns) if i != label]
    if not features or table.num_rows == 0:
        raise InputError(f"{path}: zero {'columns' if not features else 'rows'}; give at least one")

    def numeric(i: int) -> bool:
        kind = table.schema.field(i).type
        is_type = pa.types
        tests = (is_type.is_integer, is_type.is_floating, is_type.is_boolean, is_type.is_decimal)
        return any(test(kind) for test in tests)

    def numbers(i: int) -> Any:
        return table.column(i).cast(pa.float64(), safe=False).to_numpy()

    names = tuple(table.column_names[i] for i in features)
    not_numbers = [repr(table.column_names[i]) for i in features if not numeric(i)]
    if not_numbers:
        _refuse_columns(path, not_numbers)
    x = np.column_stack([numbers(i) for i in features])
    if label is None:
        return _dataset(path, x, None, names)
    if table.column(label).null_count:
        raise InputError(
            f"{path}: {table.column(label).null_count} rows without a label; drop them"
        )
    values = numbers(label) if numeric(label) else [str(v) for v in table.column(label).to_pylist()]
    return _dataset(path, x, as_labels(values, str(path)), names)


# --- images -------------------------------------------------------------------------------------


def _images_in(folder: Path) -> list[Path]:
    return sorted(
        entry
        for entry in folder.iterdir()
        if entry.suffix.lower() in IMAGE_SUFFIXES and entry.name[0] != "." and entry.is_file()
    )


def _folders_in(folder: Path) -> list[Path]:
    return sorted(entry for entry in folder.iterdir() if entry.is_dir() and entry.name[0] != ".")


def _read_images(folder: Path) -> Dataset:
    paths = _images_in(folder)
    classes = [(sub, _images_in(sub)) for sub in _folders_in(folder)]
    inside = [(sub, images) for sub, images in classes if images]
    if paths and inside:
        raise InputError(
            f"{folder}: images both beside and inside the sub-folder {inside[0][0].name!r}; "
            "keep all flat, or all in one sub-folder per class"
        )
    y = None
    if inside:
        for sub, _ in inside:
            if any(_images_in(deeper) for deeper in _folders_in(sub)):
                raise InputError(f"{sub}: holds folders of images; keep classes one level deep")
        paths = [path for _, images in inside for path in images]
        names = [sub.name for sub, images in inside for _ in images]
        y = as_labels(names, str(folder))
    if not paths:
        raise InputError(f"{folder}: a folder without images ({', '.join(IMAGE_SUFFIXES)})")
    return _dataset(folder, _stack_images(paths), y)


def _stack_images(paths: Iterable[Path]) -> np.ndarray:
    """Decode as stored bytes first: four times smaller than the floats, until modes are known."""
    images: list[tuple[Path, np.ndarray]] = []
    for path in paths:
        pixels = _decode(path)
        images.append((path, pixels))
        (first_path, first), size = images[0], pixels.shape[:2]
        if first.shape[:2] != size:
            raise InputError(
                f"{path}: {size[1]}x{size[0]} pixels, but {first_path} has "
                f"{first.shape[1]}x{first.shape[0]}; resize all images to one size"
            )
    channels = max(pixels.shape[2] for _, pixels in images)
    height, width = images[0][1].shape[:2]
    x = np.empty((len(images), channels, height, width), dtype=np.float32)
    for row, (_, pixels) in zip(x, images, strict=True):
        row[:] = pixels.transpose(2, 0, 1)
        row /= np.iinfo(pixels.dtype).max
    return x


def _decode(path: Path) -> np.ndarray:
    """Upright pixels (h, w, 1) or (h, w, 3), 8 or 16 bits; transparency is dropped."""
    try:
        from PIL import Image, ImageOps
    except ImportError as error:
        raise InputError(f"{path}: reading images needs pillow; pip install pillow") from error
    with _reading(path), Image.open(path, formats=_IMAGE_DECODERS) as opened:
        image = ImageOps.exif_transpose(opened)
        if image.mode.startswith("I"):  # 16-bit grey, which convert("L") would clip
            return np.asarray(image).astype(np.uint16)[:, :, None]
        if image.mode in ("1", "L", "LA"):
            return np.asarray(image.convert("L"))[:, :, None]
        if image.mode == "P" and "transparency" in image.info:
            image = image.convert("RGBA")
        return np.asarray(image.convert("RGB"))
