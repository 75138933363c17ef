"""Images to compare and to look at: in a model's shape, side by side, beside their nearest ones."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from scipy.spatial.distance import cdist
from torch.nn.functional import interpolate

from gedilearn.data.arrays import check_finite, row_chunks
from gedilearn.data.image_views import LUMA
from gedilearn.errors import InputError
from gedilearn.io import replacing

# Black and white in the forms that images come in.
KNOWN_RANGES = ((0.0, 1.0), (-1.0, 1.0), (0.0, 255.0))
GAP = 2  # white pixels between images


def value_range(x: np.ndarray) -> tuple[float, float]:
    """Black and white of images: 0 to 255, 0 to 1 or -1 to 1 where values suggest it.

    Otherwise their smallest and largest value.
    """
    low, high = (0.0, 255.0) if x.dtype == np.uint8 else (float(x.min()), float(x.max()))
    if low >= -1 and high <= 1:
        return (0.0 if low >= 0 else -1.0), 1.0
    if low >= 0 and 127 < high <= 255:
        return 0.0, 255.0
    return low, high if high > low else low + 1


def converted(
    x: np.ndarray, shape: tuple[int, ...], values: tuple[float, float]
) -> tuple[np.ndarray, str]:
    """Images (n, c, h, w) in another shape (c, h, w) and range of values, and what was changed.

    Colour becomes grey by luminance, grey colour by three equal channels; a centre crop gives the
    proportions, bilinear interpolation the size. Where pixels were blended they are rounded to 256
    levels, as in a file, so that black stays black.
    """
    channels, height, width = shape
    own, said = value_range(x), []
    if x.shape[1] == 4 != channels:
        x, said = x[:, :3], ["transparency dropped"]
    if channels != x.shape[1]:
        if channels == 4:
            raise InputError(f"images with {x.shape[1]} channels, but the model has 4: give 4")
        said.append("grey" if channels == 1 else "grey to colour")
    to_grey = channels < x.shape[1]
    share = min(x.shape[2] / height, x.shape[3] / width)
    crop = round(height * share), round(width * share)
    top, left = (x.shape[2] - crop[0]) // 2, (x.shape[3] - crop[1]) // 2
    if crop != x.shape[2:]:
        said.append(f"centre crop {x.shape[2]}x{x.shape[3]} -> {crop[0]}x{crop[1]}")
        x = x[:, :, top : top + crop[0], left : left + crop[1]]
    resized = crop != (height, width)
    if resized:
        said.append(f"resized {crop[0]}x{crop[1]} -> {height}x{width}")
    # Two sets in units of their own are taken to share them.
    mapped = own != values and (own in KNOWN_RANGES or values in KNOWN_RANGES)
    if mapped:
        said.append("values {:g}..{:g} -> {:g}..{:g}".format(*own, *values))
    if not said:
        return x, "none"
    low, high = values if mapped else own
    parts = []
    for chunk in row_chunks(x):
        z = (torch.from_numpy(x[chunk].astype(np.float32)) - own[0]) / (own[1] - own[0])
        if to_grey:
            z = (z * torch.tensor(LUMA)[:, None, None]).sum(1, keepdim=True)
        if resized:
            z = interpolate(z, size=(height, width), mode="bilinear", antialias=True)
        if to_grey or resized:
            z = (z * 255).round() / 255
        z = z.expand(-1, channels, -1, -1) * (high - low) + low
        parts.append(z.numpy())
    return np.concatenate(parts), ", ".join(said)


def image_grid(
    images: np.ndarray,
    columns: int,
    labels: np.ndarray | None = None,
    values: tuple[float, float] = (-1.0, 1.0),
) -> np.ndarray:
    """Images (n, c, h, w), c 1 or 3, row by row in one picture: uint8 (height, width, 3).

    Bytes are shown as they are, other numbers by the black and white in `values`. With `labels`
    (n,) the images are sorted by cluster, in the given order within one, and each cluster starts a
    new row.
    """
    images = np.asarray(images)
    check_images(images)
    n, _, height, width = images.shape
    labels = np.zeros(n) if labels is None else np.asarray(labels)
    if columns < 1:
        raise InputError(f"columns={columns}: give at least 1")
    if labels.shape != (n,):
        raise InputError(f"labels of shape {labels.shape} for {n} images: give one for each")
    if images.dtype != np.uint8:
        images = as_bytes(images, values)
    groups = [np.flatnonzero(labels == value) for value in np.unique(labels)]
    rows = [g[start : start + columns] for g in groups for start in range(0, len(g), columns)]
    down, right = height + GAP, width + GAP
    shape = (len(rows) * down - GAP, max(map(len, rows)) * right - GAP, 3)
    grid = np.full(shape, 255, dtype=np.uint8)
    for i, row in enumerate(rows):
        for j, index in enumerate(row):
            pixels = images[index].transpose(1, 2, 0)
            grid[i * down : i * down + height, j * right : j * right + width] = pixels
    return grid


def check_images(images: np.ndarray) -> None:
    """Refuse what is not grey or colour images."""
    if images.ndim != 4 or images.shape[1] not in (1, 3) or 0 in images.shape:
        raise InputError(f"images of shape {images.shape}: give (n, c, h, w) with 1 or 3 channels")


def as_bytes(x: np.ndarray, values: tuple[float, float]) -> np.ndarray:
    """Numbers as an image file would hold them, black and white at `values`, clipped beyond."""
    check_finite(x, "images")
    low, high = values
    share = np.clip((x.astype(np.float64) - low) / (high - low), 0, 1)
    return np.round(255 * share).astype(np.uint8)


def save_png(path: Path, pixels: np.ndarray) -> None:
    """Write bytes (height, width, 3); an existing file is replaced only by a complete one."""
    from PIL import Image

    try:
        with replacing(path) as temporary:
            Image.fromarray(pixels).save(temporary, format="PNG")
    except OSError as error:
        reason = error.strerror or error
        raise InputError(f"{path}: cannot be written ({reason}); give another path") from error


def nearest(samples: np.ndarray, training: np.ndarray) -> np.ndarray:
    """Index of the training point nearest to each sample, by Euclidean distance: (n,).

    Both are (n, ...) with the same trailing shape. Distances are computed block by block, so that
    memory does not grow with the number of points.
    """
    samples, training = np.asarray(samples), np.asarray(training)
    if samples.shape[1:] != training.shape[1:] or 0 in samples.shape or 0 in training.shape:
        raise InputError(
            f"samples of shape {samples.shape} and training points of shape {training.shape}: "
            "give at least one of each, of equal shape"
        )
    check_finite(samples, "samples")
    check_finite(training, "training")
    flat, data = samples.reshape(len(samples), -1), training.reshape(len(training), -1)
    best, found = np.full(len(flat), np.inf), np.zeros(len(flat), dtype=np.int64)
    for chunk in row_chunks(data):
        distances = cdist(flat, data[chunk], "sqeuclidean")
        index, value = distances.argmin(axis=1), distances.min(axis=1)
        better = value < best
        best[better], found[better] = value[better], chunk.start + index[better]
    return found
