"""Images of one set in the shape and range of values of another, so that one model takes both."""

from __future__ import annotations

import numpy as np
import torch
from torch.nn.functional import interpolate

from gedilearn.data.arrays import row_chunks
from gedilearn.data.image_views import LUMA
from gedilearn.errors import InputError

# Black and white in the forms that images come in.
KNOWN = ((0.0, 1.0), (-1.0, 1.0), (0.0, 255.0))


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


def matched(
    x: np.ndarray, shape: tuple[int, ...], values: tuple[float, float]
) -> tuple[np.ndarray, str]:
    """Images (n, c, h, w) in another shape (c, h, w) and range of values, and what was changed.

    Colour becomes grey by luminance, grey colour by three equal channels; a centre crop gives the
    proportions, bilinear interpolation the size. Where pixels were blended they are rounded to 256
    levels, as in a file, so that black stays black.
    """
    channels, height, width = shape
    own = value_range(x)
    said = []
    if x.shape[1] == 4 != channels:
        x, said = x[:, :3], ["transparency dropped"]
    if channels != x.shape[1]:
        if channels == 4:
            raise InputError(f"images with {x.shape[1]} channels, but the model has 4: give 4")
        said.append("grey" if channels == 1 else "grey to colour")
    to_grey = channels == 1 and x.shape[1] == 3
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
    mapped = own != values and (own in KNOWN or values in KNOWN)
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
