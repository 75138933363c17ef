"""Folders of images, flat or one sub-folder per class."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np

from gedilearn.data.arrays import as_labels, listing
from gedilearn.data.dataset import Dataset, reading
from gedilearn.errors import InputError

if TYPE_CHECKING:
    from PIL.Image import Image

IMAGE_SUFFIXES = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp")
_DECODERS = ("PNG", "JPEG", "BMP", "GIF", "WEBP")  # no others: a name is no proof of content
MOST_PIXELS = 50_000_000  # of one image; a small file may claim any number
Broken = Literal["refuse", "skip"]


class SkippedImages(UserWarning):
    """Names the files that were left out; the command line says it on stderr."""


def _images_in(folder: Path) -> list[Path]:
    return sorted(
        entry
        for entry in folder.iterdir()
        if entry.suffix.lower() in IMAGE_SUFFIXES and entry.name[0] != "." and entry.is_file()
    )


def _folders_in(folder: Path) -> list[Path]:
    return sorted(entry for entry in folder.iterdir() if entry.is_dir() and entry.name[0] != ".")


def read_images(
    folder: Path, *, size: tuple[int, int] | None = None, broken: Broken = "refuse"
) -> Dataset:
    """Pixels from 0 to 255, (n, c, h, w); names of sub-folders become labels.

    They are bytes, the units of the published sets. Where an image has 16 bits, all are float32
    between 0 and 255: the same units, with the finer steps kept. Grey images are one channel; where
    some are in colour, all are. Transparency is dropped and EXIF orientation applied. Images of
    different sizes are refused, unless `size` (height, width) is given, to which all are resized,
    their proportions aside. A file that is no sound image is refused, or with ``broken="skip"``
    left out and named in a warning, `SkippedImages`.
    """
    if size is not None and not (len(size) == 2 and all(1 <= side <= 4096 for side in size)):
        raise InputError(f"size={size}: give (height, width), each from 1 to 4096 pixels")
    if broken not in ("refuse", "skip"):
        raise InputError(f"broken={broken!r}: give 'refuse' or 'skip'")
    paths, names = _paths_and_classes(folder)
    kept, skipped, images = [], [], []
    for i, path in enumerate(paths):
        try:
            images.append(_decode(path, size))
            kept.append(i)
        except InputError as error:
            if broken == "refuse":
                way_out = "or leave such files out with broken='skip' (--skip-broken)"
                raise InputError(f"{error}; {way_out}") from error
            skipped.append(path.relative_to(folder))
            continue
        _check_size(paths[kept[0]], images[0], path, images[-1])
    if not images:
        raise InputError(f"{folder}: none of the {len(paths)} images can be read; save them again")
    if skipped:
        warnings.warn(
            f"{folder}: left out {len(skipped)} of {len(paths)} images that cannot be read: "
            f"{listing(skipped, 10)}",
            SkippedImages,
            stacklevel=2,
        )
    y = None if names is None else as_labels([names[i] for i in kept], str(folder))
    return Dataset.checked(folder, _stack(images), y)


def _paths_and_classes(folder: Path) -> tuple[list[Path], list[str] | None]:
    """The images in order and, where they lie in sub-folders, the name of each one's."""
    paths = _images_in(folder)
    classes = [(sub, _images_in(sub)) for sub in _folders_in(folder)]
    inside = [(sub, images) for sub, images in classes if images]
    if paths and inside:
        raise InputError(
            f"{folder}: images both beside and inside the sub-folder {inside[0][0].name!r}; "
            "keep all flat, or all in one sub-folder per class"
        )
    names = None
    if inside:
        for sub, _ in inside:
            if any(_images_in(deeper) for deeper in _folders_in(sub)):
                raise InputError(f"{sub}: holds folders of images; keep classes one level deep")
        paths = [path for _, images in inside for path in images]
        names = [sub.name for sub, images in inside for _ in images]
    if not paths:
        raise InputError(f"{folder}: a folder without images ({', '.join(IMAGE_SUFFIXES)})")
    return paths, names


def _check_size(first_path: Path, first: np.ndarray, path: Path, pixels: np.ndarray) -> None:
    if first.shape[:2] != pixels.shape[:2]:
        raise InputError(
            f"{path}: {pixels.shape[1]}x{pixels.shape[0]} pixels, but {first_path} has "
            f"{first.shape[1]}x{first.shape[0]}; resize all images to one size with "
            "size=(height, width) (--size WxH)"
        )


def _stack(images: Sequence[np.ndarray]) -> np.ndarray:
    """One array of all; bytes unless an image has 16 bits, of which 257 steps are one of a byte."""
    channels = max(pixels.shape[2] for pixels in images)
    height, width = images[0].shape[:2]
    is_fine = any(pixels.dtype != np.uint8 for pixels in images)
    shape = (len(images), channels, height, width)
    x = np.empty(shape, dtype=np.float32 if is_fine else np.uint8)
    for row, pixels in zip(x, images, strict=True):
        row[:] = pixels.transpose(2, 0, 1)
        if pixels.dtype != np.uint8:
            row /= 257
    return x


def _decode(path: Path, size: tuple[int, int] | None) -> np.ndarray:
    """Upright pixels (h, w, 1) or (h, w, 3), 8 or 16 bits; transparency is dropped."""
    from PIL import Image, ImageOps

    too_many = f"{path}: more than {MOST_PIXELS} pixels; make it smaller, or take it out"
    with reading(path), warnings.catch_warnings():
        warnings.simplefilter("error", Image.DecompressionBombWarning)
        try:
            opened = Image.open(path, formats=_DECODERS)
        except (Image.DecompressionBombWarning, Image.DecompressionBombError):
            raise InputError(too_many) from None
        with opened:
            if opened.width * opened.height > MOST_PIXELS:  # before a single one is decoded
                raise InputError(too_many)
            image = ImageOps.exif_transpose(opened)
            if image.mode.startswith("I"):  # 16-bit grey, which convert("L") would clip
                return _sixteen_bits(np.asarray(image).astype(np.uint16), size)
            if image.mode in ("1", "L", "LA"):
                return np.asarray(_resized(image.convert("L"), size))[:, :, None]
            if image.mode == "P" and "transparency" in image.info:
                image = image.convert("RGBA")
            return np.asarray(_resized(image.convert("RGB"), size))


def _resized(image: Image, size: tuple[int, int] | None) -> Image:
    from PIL.Image import Resampling

    if size is None or image.size == size[::-1]:
        return image
    return image.resize(size[::-1], Resampling.BILINEAR)  # averages where it makes smaller


def _sixteen_bits(pixels: np.ndarray, size: tuple[int, int] | None) -> np.ndarray:
    """Pillow resizes 16 bits only by way of floats."""
    from PIL.Image import fromarray

    if size is not None:
        pixels = np.rint(np.asarray(_resized(fromarray(pixels.astype(np.float32)), size)))
    return pixels.astype(np.uint16)[:, :, None]
