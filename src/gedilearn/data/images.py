"""Folders of images, flat or one sub-folder per class."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import numpy as np

from gedilearn.data.arrays import as_labels
from gedilearn.data.dataset import Dataset
from gedilearn.data.reading import dataset, reading
from gedilearn.errors import InputError

IMAGE_SUFFIXES = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp")
_DECODERS = ("PNG", "JPEG", "BMP", "GIF", "WEBP")  # no others: a name is no proof of content


def _images_in(folder: Path) -> list[Path]:
    return sorted(
        entry
        for entry in folder.iterdir()
        if entry.suffix.lower() in IMAGE_SUFFIXES and entry.name[0] != "." and entry.is_file()
    )


def _folders_in(folder: Path) -> list[Path]:
    return sorted(entry for entry in folder.iterdir() if entry.is_dir() and entry.name[0] != ".")


def read_images(folder: Path) -> Dataset:
    """Pixels in [0, 1], (n, c, h, w); names of sub-folders become labels."""
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
    return dataset(folder, _stack_images(paths), y)


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
    with reading(path), Image.open(path, formats=_DECODERS) as opened:
        image = ImageOps.exif_transpose(opened)
        if image.mode.startswith("I"):  # 16-bit grey, which convert("L") would clip
            return np.asarray(image).astype(np.uint16)[:, :, None]
        if image.mode in ("1", "L", "LA"):
            return np.asarray(image.convert("L"))[:, :, None]
        if image.mode == "P" and "transparency" in image.info:
            image = image.convert("RGBA")
        return np.asarray(image.convert("RGB"))
