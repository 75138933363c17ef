"""Folders of images and the folders in them, to any depth."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
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
    named = list(_named_as_images(folder))
    paths = [path for path in named if path.is_file()]
    if not paths:
        raise InputError(f"{folder}: a folder without images ({', '.join(IMAGE_SUFFIXES)})")
    skipped = [path.relative_to(folder) for path in named if not path.is_file()]
    images: dict[int, np.ndarray] = {}  # by their number among `paths`
    total = 0
    for i, path in enumerate(paths):
        try:
            pixels = _decode(path, size)
        except InputError as error:
            if broken == "refuse":
                way_out = "or leave such files out with broken='skip' (--skip-broken)"
                raise InputError(f"{error}; {way_out}") from error
            skipped.append(path.relative_to(folder))
            continue
        images[i] = pixels
        first = next(iter(images))
        (height, width), (high, wide) = pixels.shape[:2], images[first].shape[:2]
        if (height, width) != (high, wide):
            raise InputError(
                f"{path}: {width}x{height} pixels, but {paths[first]} has {wide}x{high}; resize "
                "all images to one size with size=(height, width) (--size WxH)"
            )
        total += pixels.nbytes
        check_size(total, f"{folder}: the first {len(images)} of {len(paths)} images")
    if not images:
        raise InputError(f"{folder}: none of the {len(paths)} images can be read; save them again")
    if skipped:
        counts = f"left out {len(skipped)} of {len(named)} images that cannot be read"
        message = f"{folder}: {counts}: {listing(skipped, 10)}"
        warnings.warn(message, SkippedImages, stacklevel=2)
    inside = [path.relative_to(folder) for path in paths]
    has_classes = all(len(path.parts) > 1 for path in inside)
    classes = [inside[i].parts[0] for i in images]
    y = as_labels(classes, str(folder)) if has_classes else None
    data = Dataset.checked(folder, _stack([*images.values()]), y)
    return replace(
        data, paths=tuple(inside[i].as_posix() for i in images), rows=np.array([*images])
    )


def _named_as_images(folder: Path, above: frozenset[Path] = frozenset()) -> Iterator[Path]:
    """Of a folder, then of the folders in it; links back up are not followed."""
    above |= {folder.resolve()}
    entries = sorted(entry for entry in folder.iterdir() if entry.name[0] != ".")
    yield from (e for e in entries if e.suffix.lower() in IMAGE_SUFFIXES and not e.is_dir())
    for entry in entries:
        if entry.is_dir() and entry.resolve() not in above:
            yield from _named_as_images(entry, above)


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

    with reading(path), warnings.catch_warnings():
        warnings.simplefilter("ignore", Image.DecompressionBombWarning)
        check_file(path)
        with Image.open(path, formats=_DECODERS) as opened:
            if opened.width * opened.height > MOST_PIXELS:  # before a single one is decoded
                raise InputError(
                    f"{path}: more than {MOST_PIXELS} pixels; make it smaller, or take it out"
                )
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
