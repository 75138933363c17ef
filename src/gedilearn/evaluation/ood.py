"""How well a score separates data from other points (OOD); inside is the positive class."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch
from torch.nn.functional import interpolate

from gedilearn.data.arrays import check_finite, row_chunks
from gedilearn.data.image_views import LUMA
from gedilearn.errors import InputError

Scores = dict[str, np.ndarray]  # (n,) of each kind

# Common values of black and white.
KNOWN_RANGES = ((0.0, 1.0), (-1.0, 1.0), (0.0, 255.0))


class Roc(NamedTuple):
    """Two numbers of the receiver operating characteristic.

    Attributes
    ----------
    auroc: the probability that a point inside scores higher than one outside; ties count one half
    fpr95: the share of points outside above the highest threshold with at least 95% of those inside
    """

    auroc: float
    fpr95: float


def roc(inside: np.ndarray, outside: np.ndarray) -> Roc:
    """Of scores (n,) and (m,), higher for points inside."""
    from sklearn.metrics import auc, roc_curve

    check_finite(inside, "scores inside")
    check_finite(outside, "scores outside")
    truth = np.r_[np.ones(len(inside)), np.zeros(len(outside))]
    fpr, tpr, _ = roc_curve(truth, np.r_[inside, outside], drop_intermediate=False)
    return Roc(float(auc(fpr, tpr)), float(fpr[np.argmax(tpr >= 0.95)]))


def separation(
    inside: Scores, outside: Scores, *, signed: bool = True
) -> dict[str, dict[str, Any]]:
    """``auroc`` and ``fpr95`` of each kind of score, or the reason why there are none.

    Scores that are not `signed` use the direction that separates better, and name it.
    """
    signs = {"higher inside": 1} if signed else {"higher inside": 1, "lower inside": -1}
    numbers: dict[str, dict[str, Any]] = {}
    for kind, scores in inside.items():
        try:
            found = {name: roc(sign * scores, sign * outside[kind]) for name, sign in signs.items()}
        except InputError as error:  # scores of a run that diverged are not finite
            numbers[kind] = {"skipped": str(error)}
            continue
        best = max(found, key=lambda name: found[name].auroc)
        numbers[kind] = found[best]._asdict() | ({} if signed else {"direction": best})
    return numbers


def trivial_scores(reference: np.ndarray, x: np.ndarray) -> Scores:
    """Scores (n,) without a model, which a model has to beat.

    For images the mean pixel and the share of pixels above the smallest of `reference`. For vectors
    the distance from the mean of `reference`.
    """
    if x.ndim == 4:
        low, axes = reference.min(), (1, 2, 3)
        return {
            "mean_pixel": x.mean(axis=axes, dtype=np.float64),
            "nonzero_share": (x > low).mean(axis=axes),
        }
    middle = reference.mean(axis=0, dtype=np.float64)
    return {"distance_from_mean": np.linalg.norm(x - middle, axis=1)}


# --- OOD images, converted to the shape and range of the data ------------------------------------


def value_range(x: np.ndarray) -> tuple[float, float]:
    """Black and white of images: 0 to 255, 0 to 1 or -1 to 1 by their values.

    Otherwise the smallest and largest value.
    """
    low, high = (0.0, 255.0) if x.dtype == np.uint8 else (float(x.min()), float(x.max()))
    if low >= -1 and high <= 1:
        return (0.0 if low >= 0 else -1.0), 1.0
    if low >= 0 and 127 < high <= 255:
        return 0.0, 255.0
    return low, high if high > low else low + 1


def as_bytes(x: np.ndarray, values: tuple[float, float]) -> np.ndarray:
    """Pixels as in an image file, with black and white at `values`, clipped beyond."""
    check_finite(x, "images")
    low, high = values
    share = np.clip((x.astype(np.float64) - low) / (high - low), 0, 1)
    return np.round(255 * share).astype(np.uint8)


def converted(
    x: np.ndarray, shape: tuple[int, ...], values: tuple[float, float]
) -> tuple[np.ndarray, str]:
    """Images (n, c, h, w) in another shape (c, h, w) and range of values, and the changes in words.

    Colour becomes grey by luminance; grey becomes three equal channels. Sizes change by bilinear
    interpolation. Pixels are rounded to 256 levels, as in a file: black stays exactly black.
    """
    (own_channels, *size), (channels, height, width) = x.shape[1:], shape
    if own_channels != channels and {own_channels, channels} != {1, 3}:
        raise InputError(f"images with {own_channels} channels, but the model has {channels}")
    own = value_range(x)
    if own not in KNOWN_RANGES and values not in KNOWN_RANGES:
        values = own  # two sets in other units are assumed to share them
    if x.shape[1:] == shape and own == values:
        return x, "none"
    form = "{}x{}x{}, values {:g}..{:g}"
    changes = f"{form} -> {form}".format(*x.shape[1:], *own, *shape, *values)
    parts = []
    for chunk in row_chunks(x):
        z = (torch.from_numpy(x[chunk].astype(np.float32)) - own[0]) / (own[1] - own[0])
        if channels < own_channels:
            z = (z * torch.tensor(LUMA)[:, None, None]).sum(1, keepdim=True)
        if size != [height, width]:
            z = interpolate(z, (height, width), mode="bilinear", antialias=True)
        z = (z * 255).round() / 255
        z = z.expand(-1, channels, -1, -1) * (values[1] - values[0]) + values[0]
        parts.append(z.numpy())
    return np.concatenate(parts), changes
