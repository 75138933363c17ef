"""Views of images: batches (batch, channels, height, width) in [-1, 1] -> the same.

Each image is changed independently, on the device of the batch, with draws from the generator given
to the view.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache

import torch
from torch import Generator, Tensor
from torch.nn import functional as F  # noqa: N812

ImageView = Callable[[Tensor, Generator], Tensor]

# The padding before a crop, as a share of the shorter side, and so the largest shift: in the paper
# 4 of 32 pixels.
PADDING = 1 / 8

# The largest changes of brightness, contrast, saturation and hue.
JITTER = (0.4, 0.4, 0.4, 0.1)

# The brightness of red, green and blue, by ITU-R BT.601.
LUMA = (0.299, 0.587, 0.114)

# The side of the lattice of random arrows, from which an elastic change is interpolated.
ARROWS = 5


def grey_views(
    noise: float,
    degrees: float = 10.0,
    scale: float = 0.15,
    shear: float = 0.2,
    shift: float = 0.06,
    elastic: float = 0.05,
) -> ImageView:
    """For drawings such as digits: a small affine and elastic change, then noise.

    Rotation is up to `degrees` either way, scale within 1 +- `scale` for each axis, shear up to
    `shear` either way, shift up to `shift` of the width. `elastic` is the standard deviation of the
    smooth displacement, in halves of the width. There is one interpolation: strokes are blurred
    once.
    """

    def view(x: Tensor, generator: Generator) -> Tensor:
        matrices = _affine(len(x), degrees, scale, shear, shift, x.dtype, generator)
        arrows = elastic * _smooth_arrows(x, generator) if elastic else 0.0
        return _with_noise(_resampled(x, matrices, arrows), noise, generator)

    return view


def paper_views(noise: float, flip: bool, jitter_p: float = 0.1, grey_p: float = 0.1) -> ImageView:
    """The paper's views of colour images, in its order; `flip` is False for SVHN.

    Reflective padding by an eighth of the shorter side, colour jitter with probability `jitter_p`,
    grey with probability `grey_p`, a random crop back to the size, a horizontal flip in half of the
    images, Gaussian noise. Only images of three channels have their colours changed.
    """
    jitter = _jitter(jitter_p)

    def view(x: Tensor, generator: Generator) -> Tensor:
        padded = _reflect(x)
        if x.shape[1] == 3:
            padded = _grey(jitter(padded, generator), grey_p, generator)
        cropped = _crop(padded, x.shape[-2], x.shape[-1], flip, generator)
        return _with_noise(cropped, noise, generator)

    return view


def _jitter(p: float) -> ImageView:
    """Random changes of colour in a share p of the images."""
    from kornia.augmentation import ColorJitter  # not at the top: a slow import

    change = ColorJitter(*JITTER, p=1.0)

    def view(x: Tensor, generator: Generator) -> Tensor:
        def jittered(chosen: Tensor) -> Tensor:
            drawn = jitter_parameters(len(chosen), generator)
            changed: Tensor = change((chosen + 1) / 2, params=drawn)
            return changed * 2 - 1

        return _sometimes(x, p, jittered, generator)

    return view


def jitter_parameters(batch: int, generator: Generator) -> dict[str, Tensor]:
    """The draws of kornia's ColorJitter, in its order, but not from torch's global generator."""
    brightness, contrast, saturation, hue = JITTER
    reaches = {"brightness": brightness, "contrast": contrast, "hue": hue, "saturation": saturation}
    ends = torch.tensor([-1, 1], dtype=torch.float32, device=generator.device)
    drawn = {"batch_prob": torch.ones(batch, dtype=torch.bool)}
    for name, reach in reaches.items():
        low, high = reach * ends + (0 if name == "hue" else 1)
        drawn[f"{name}_factor"] = low + (high - low) * _rand(batch, generator=generator)
    return drawn | {"order": torch.randperm(4, generator=generator, device=generator.device).cpu()}


def _grey(x: Tensor, p: float, generator: Generator) -> Tensor:
    """A share p of the images in grey."""
    luma = torch.tensor(LUMA, dtype=x.dtype, device=x.device)[:, None, None]
    return _sometimes(x, p, lambda rgb: (luma * rgb).sum(1, keepdim=True).expand_as(rgb), generator)


def _sometimes(
    x: Tensor, p: float, change: Callable[[Tensor], Tensor], generator: Generator
) -> Tensor:
    """Each image of x changed with probability p; the others are not computed."""
    chosen = (_rand(len(x), generator=generator) < p).nonzero()[:, 0]
    return x.index_copy(0, chosen, change(x[chosen])) if len(chosen) else x


def _reflect(x: Tensor) -> Tensor:
    pad = round(PADDING * min(x.shape[-2:]))
    return F.pad(x, (pad, pad, pad, pad), mode="reflect")


def _crop(padded: Tensor, height: int, width: int, flip: bool, generator: Generator) -> Tensor:
    """A random window of this size of each image, half of them mirrored if `flip`."""
    batch, device = len(padded), padded.device
    top, left = (
        torch.randint(room + 1, (batch, 1), generator=generator, device=device)
        for room in (padded.shape[2] - height, padded.shape[3] - width)
    )
    rows = top + torch.arange(height, device=device)
    columns = left + torch.arange(width, device=device)
    if flip:
        mirrored = _rand(batch, 1, generator=generator) < 0.5
        columns = torch.where(mirrored, columns.flip(1), columns)
    images = torch.arange(batch, device=device)[:, None, None]
    return padded[images, :, rows[:, :, None], columns[:, None, :]].permute(0, 3, 1, 2)


def _resampled(x: Tensor, matrices: Tensor, arrows: Tensor | float) -> Tensor:
    """The images at the places given by matrices (batch, 2, 3) and arrows (batch, h, w, 2)."""
    grid = F.affine_grid(matrices, list(x.shape), align_corners=False) + arrows
    return F.grid_sample(x, grid, padding_mode="border", align_corners=False)


def _affine(
    batch: int,
    degrees: float,
    scale: float,
    shear: float,
    shift: float,
    dtype: torch.dtype,
    generator: Generator,
) -> Tensor:
    """Random matrices (batch, 2, 3) from places in the view to places in the image."""
    draws = 2 * _rand(7, batch, generator=generator, dtype=dtype) - 1
    angle = math.radians(degrees) * draws[0]
    scale_x, scale_y = 1 + scale * draws[1:3]
    shear_x, shear_y = shear * draws[3:5]
    cos, sin = angle.cos(), angle.sin()
    # rotation times [[scale_x, shear_x], [shear_y, scale_y]]
    first = (cos * scale_x - sin * shear_y, cos * shear_x - sin * scale_y, 2 * shift * draws[5])
    second = (sin * scale_x + cos * shear_y, sin * shear_x + cos * scale_y, 2 * shift * draws[6])
    return torch.stack([torch.stack(first, 1), torch.stack(second, 1)], 1)


def _smooth_arrows(x: Tensor, generator: Generator) -> Tensor:
    """A smooth random displacement for each image, (b, h, w, 2), standard normal everywhere."""
    height, width = x.shape[-2:]
    arrows = x.new_empty(len(x), 2, ARROWS, ARROWS).normal_(generator=generator)
    field: Tensor = _blend(height).to(x) @ arrows @ _blend(width).to(x).T
    return field.permute(0, 2, 3, 1)


@lru_cache(maxsize=8)
def _blend(length: int) -> Tensor:
    """The weight of each arrow for each pixel of a side: (length, ARROWS), rows of norm 1.

    Gaussian weights, as wide as the arrows' spacing. Norm 1 makes the variance the same everywhere.
    """
    pixels = (torch.arange(length) + 0.5) / length
    arrows = torch.linspace(0, 1, ARROWS)
    bells = torch.exp(-0.5 * ((pixels[:, None] - arrows) * (ARROWS - 1)).square())
    rows: Tensor = bells / bells.square().sum(1, keepdim=True).sqrt()
    return rows


def _rand(*shape: int, generator: Generator, dtype: torch.dtype = torch.float32) -> Tensor:
    """Uniform numbers, on the generator's device."""
    return torch.rand(shape, generator=generator, dtype=dtype, device=generator.device)


def _with_noise(x: Tensor, noise: float, generator: Generator) -> Tensor:
    if noise:
        x = x.add(torch.empty_like(x).normal_(generator=generator), alpha=noise)
    return x.clamp(-1, 1)
