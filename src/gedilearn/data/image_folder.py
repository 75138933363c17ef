"""Folders of images and the folders in them, to any depth."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal

import numpy as np

from gedilearn.data.arrays import as_labels, listing
from gedilearn.data.dataset import Dataset
from gedilearn.errors import InputError
from gedilearn.io import check_file, check_size, reading

IMAGE_SUFFIXES = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp")
_DECODERS = ("PNG", "JPEG", "BMP", "GIF", "WEBP")  # no others: a name is no proof of content
MOST_PIXELS = 50_000_000  # of one image; a small file may claim any number
Broken = Literal["refuse", "skip"]


class SkippedImages(UserWarning):
    """Names the files that were left out; the command line says it on stderr."""


def _images_in(folder: Path) -> list[Path]:
    return [entry for entry in _named_as_images(folder) if entry.is_file()]


def _no_files_in(folder: Path) -> list[Path]:
    """What is named like an image, but is a link that leads nowhere, a pipe or a device."""
    entries = _named_as_images(folder)
    return [entry for entry in entries if not (entry.is_file() or entry.is_dir())]


def _named_as_images(folder: Path) -> list[Path]:
    return sorted(
        entry
        for entry in folder.iterdir()
        if entry.suffix.lower() in IMAGE_SUFFIXES and entry.name[0] != "."
    )


def _folders_in(folder: Path) -> list[Path]:
    return sorted(entry for entry in folder.iterdir() if entry.is_dir() and entry.name[0] != ".")


def read_images(
    folder: Path, *, size: tuple[int, int] | None = None, broken: Broken = "refuse"
) -> Dataset:
    """Pixels from 0 to 255, (n, c, h, w); of all images in the folder and the folders in it.

    Where all lie in sub-folders, the names of these are the labels, however deep an image lies.
    They are bytes, the units of the published sets. Where an image has 16 bits, all are float32
    between 0 and 255: the same units, with the finer steps kept. Grey images are one channel; where
    some are in colour, all are. Transparency is dropped and EXIF orientation applied. Images of
    different sizes are refused, unless `size` (height, width) is given, to which all are resized,
    their proportions aside. A file that is no sound image is refused, or with ``broken="skip"``
    left out and named in a warning, `SkippedImages`. Links that lead nowhere, pipes and devices are
    always left out and named so.
    """
    if size is not None and not (len(size) == 2 and all(1 <= side <= 4096 for side in size)):
        raise InputError(f"size={size}: give (height, width), each from 1 to 4096 pixels")
    if broken not in ("refuse", "skip"):
        raise InputError(f"broken={broken!r}: give 'refuse' or 'skip'")
    paths, names = _paths_and_classes(folder)
    skipped = [path.relative_to(folder) for each in _walk(folder) for path in _no_files_in(each)]
    n_found = len(paths) + len(skipped)
    kept: list[int] = []
    images: list[np.ndarray] = []
    total = 0
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
        (height, width), expected = images[-1].shape[:2], images[0].shape[:2]
        if (height, width) != expected:
            raise InputError(
                f"{path}: {width}x{height} pixels, but {paths[kept[0]]} has "
                f"{expected[1]}x{expected[0]}; resize all images to one size with "
                "size=(height, width) (--size WxH)"
            )
        total += images[-1].nbytes
        check_size(total, f"{folder}: the first {len(images)} of {len(paths)} images")
    if not images:
        raise InputError(f"{folder}: none of the {len(paths)} images can be read; save them again")
    if skipped:
        warnings.warn(
            f"{folder}: left out {len(skipped)} of {n_found} images that cannot be read: "
            f"{listing(skipped, 10)}",
            SkippedImages,
            stacklevel=2,
        )
    y = None if names is None else as_labels([names[i] for i in kept], str(folder))
    inside = tuple(paths[i].relative_to(folder).as_posix() for i in kept)
    data = Dataset.checked(folder, _stack(images), y)
    return replace(data, paths=inside, rows=np.array(kept))


def _walk(folder: Path) -> list[Path]:
    """A folder and all those in it, each before its own; links back up are not followed."""
    found, ahead = [], [(folder, frozenset([folder.resolve()]))]
    while ahead:
        here, above = ahead.pop()
        found.append(here)
        inside = [(sub, sub.resolve()) for sub in _folders_in(here)]
        ahead += [(sub, above | {true}) for sub, true in reversed(inside) if true not in above]
    return found


def _paths_and_classes(folder: Path) -> tuple[list[Path], list[str] | None]:
    """The images in order and, where all lie in sub-folders, the name of each one's."""
    paths = [path for each in _walk(folder) for path in _images_in(each)]
    inside = [path.relative_to(folder).parts for path in paths]
    names = None
    if all(len(parts) > 1 for parts in inside):
        names = [parts[0] for parts in inside]
    if not paths:
        raise InputError(f"{folder}: a folder without images ({', '.join(IMAGE_SUFFIXES)})")
    return paths, names


def _stack(images: Sequence[np.ndarray]) -> np.ndarray:
    """One array of all, with as many channels as the most colourful; bytes if all are."""
    channels = max(pixels.shape[2] for pixels in images)
    dtype = np.result_type(*{pixels.dtype for pixels in images})
    x = np.empty((len(images), channels, *images[0].shape[:2]), dtype)
    for row, pixels in zip(x, images, strict=True):
        row[:] = pixels.transpose(2, 0, 1)
    return x


def _decode(path: Path, size: tuple[int, int] | None) -> np.ndarray:
    """Upright pixels (h, w, 1) or (h, w, 3), bytes or float32; transparency is dropped."""
    from PIL import Image, ImageOps

    too_many = f"{path}: more than {MOST_PIXELS} pixels; make it smaller, or take it out"
    with reading(path), warnings.catch_warnings():
        warnings.simplefilter("error", Image.DecompressionBombWarning)
        check_file(path)
        try:
            opened = Image.open(path, formats=_DECODERS)
        except (Image.DecompressionBombWarning, Image.DecompressionBombError):
            raise InputError(too_many) from None
        with opened:
            if opened.width * opened.height > MOST_PIXELS:  # before a single one is decoded
                raise InputError(too_many)
            image = ImageOps.exif_transpose(opened)
            if image.mode == "P" and "transparency" in image.info:
                image = image.convert("RGBA")
            is_fine = image.mode.startswith("I")  # 16-bit grey, which convert("L") would clip
            if is_fine:
                image = Image.fromarray(np.asarray(image).astype(np.float32))
            else:
                image = image.convert("L" if image.mode in ("1", "L", "LA") else "RGB")
            if size is not None and image.size != size[::-1]:  # averages where it makes smaller
                image = image.resize(size[::-1], Image.Resampling.BILINEAR)
            pixels = np.asarray(image)
            pixels = np.rint(pixels) / 257 if is_fine else pixels  # 257 steps are one of a byte
            return pixels if pixels.ndim == 3 else pixels[:, :, None]
