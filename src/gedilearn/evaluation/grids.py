"""Images side by side, and the training images nearest to samples."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np

from gedilearn.data.arrays import check_finite
from gedilearn.errors import InputError

GAP = 2  # white pixels between images
_BLOCK_VALUES = 2**24  # distances held at a time


def image_grid(
    images: np.ndarray,
    columns: int,
    labels: np.ndarray | None = None,
    *,
    low: float = -1.0,
    high: float = 1.0,
) -> np.ndarray:
    """Images (n, c, h, w), c 1 or 3, row by row in one picture: uint8 (height, width, 3).

    Bytes are shown as they are; other numbers as black at `low` and white at `high`, clipped. With
    `labels` (n,) the images are sorted by cluster, in the given order within one, and each
    cluster starts a new row.
    """
    images = _as_bytes(np.asarray(images), low, high)
    if columns < 1:
        raise InputError(f"columns={columns}: give at least 1")
    n, _, height, width = images.shape
    rows = _rows(n, columns, labels)
    down, right = height + GAP, width + GAP
    shape = (len(rows) * down - GAP, min(columns, max(map(len, rows))) * right - GAP, 3)
    grid = np.full(shape, 255, dtype=np.uint8)
    for i, row in enumerate(rows):
        for j, index in enumerate(row):
            pixels = images[index].transpose(1, 2, 0)
            grid[i * down : i * down + height, j * right : j * right + width] = pixels
    return grid


def save_grid(
    path: str | Path,
    images: np.ndarray,
    columns: int,
    labels: np.ndarray | None = None,
    *,
    low: float = -1.0,
    high: float = 1.0,
) -> None:
    """Write `image_grid` as a PNG; an existing file is replaced only by a complete one."""
    from PIL import Image

    path = Path(path)
    grid = image_grid(images, columns, labels, low=low, high=high)
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        Image.fromarray(grid).save(temporary, format="PNG")
        os.replace(temporary, path)
    except OSError as error:
        reason = error.strerror or error
        raise InputError(f"{path}: cannot be written ({reason}); give another path") from error
    finally:
        temporary.unlink(missing_ok=True)


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
    best = np.full(len(flat), np.inf)
    found = np.zeros(len(flat), dtype=np.int64)
    step = max(1, _BLOCK_VALUES // max(len(flat), flat.shape[1]))
    # |x - t|^2 loses digits where points are far from 0 and near to one another.
    middle = data[:step].mean(axis=0, dtype=np.float64)
    flat = flat - middle
    for start in range(0, len(data), step):
        block = data[start : start + step] - middle
        # |x|^2 is the same for all candidates of x.
        distances = (block**2).sum(axis=1) - 2 * flat @ block.T
        index = distances.argmin(axis=1)
        value = distances[np.arange(len(flat)), index]
        better = value < best
        best[better], found[better] = value[better], start + index[better]
    return found


def _rows(n: int, columns: int, labels: np.ndarray | None) -> list[np.ndarray]:
    """The indices of the images in each row of the grid."""
    groups = [np.arange(n)]
    if labels is not None:
        labels = np.asarray(labels)
        if labels.shape != (n,):
            raise InputError(f"labels of shape {labels.shape} for {n} images: give one for each")
        groups = [np.flatnonzero(labels == value) for value in np.unique(labels)]
    return [
        group[start : start + columns]
        for group in groups
        for start in range(0, len(group), columns)
    ]


def _as_bytes(images: np.ndarray, low: float, high: float) -> np.ndarray:
    if images.ndim != 4 or images.shape[1] not in (1, 3) or 0 in images.shape:
        raise InputError(f"images of shape {images.shape}: give (n, c, h, w) with 1 or 3 channels")
    if images.dtype == np.uint8:
        return images
    if images.dtype.kind not in "biuf" or not low < high:
        raise InputError(
            f"images of {images.dtype} between low={low:g} and high={high:g}: give numbers, "
            "low below high"
        )
    check_finite(images, "images")
    share = np.clip((images.astype(np.float64) - low) / (high - low), 0, 1)
    return np.round(255 * share).astype(np.uint8)
