"""Images of a run as small pictures in the page."""

from __future__ import annotations

import base64
import io
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gedilearn.report.markup import text

LARGEST = 96  # pixels a side
MOST_PIXELS = 1_000_000  # of all strips of a page: about a megabyte, if they are noise
SHARP = 32  # pixels a side; smaller ones are kept to the pixel
SHEET_SIDE = 28
SHEET_COLUMNS = 40
MOST_ON_SHEET = 1_000
GAP = 2


@dataclass(frozen=True, eq=False)
class Pictures:
    """Images (n, c, h, w) with values between `low` and `high`."""

    low: float
    high: float

    @classmethod
    def like(cls, images: np.ndarray) -> Pictures:
        """The range of these images is that of all: bytes have their own."""
        low, high = float(images.min()), float(images.max())
        return cls(0.0, 255.0) if low >= 0 and 127 < high <= 255 else cls(low, high)

    def bytes(self, images: np.ndarray) -> np.ndarray:
        """(n, h, w, 3)"""
        span = max(self.high - self.low, np.finfo(np.float64).tiny)
        shown = np.moveaxis((images - self.low) / span, 1, -1)
        if shown.shape[-1] == 4:
            shown = shown[..., :3]
        if shown.shape[-1] != 3:
            shown = shown.mean(-1, keepdims=True).repeat(3, -1)
        finite = np.nan_to_num(shown, nan=0.0, posinf=1.0, neginf=0.0)
        return np.asarray((finite.clip(0, 1) * 255).round().astype(np.uint8))

    def strip(self, images: np.ndarray, places: int, side: int, name: str) -> str:
        """Images beside each other, with room for as many as `places`, as one picture.

        None is larger than `side` pixels.
        """
        from PIL import Image

        tiles = [_resized(tile, side) for tile in self.bytes(images)]
        height, width = tiles[0].shape[:2]
        whole = np.zeros((height, max(places, len(tiles)) * (width + GAP) - GAP, 4), np.uint8)
        for i, tile in enumerate(tiles):
            start = i * (width + GAP)
            whole[:, start : start + width, :3], whole[:, start : start + width, 3] = tile, 255
        kind = "PNG" if max(height, width) <= SHARP else "WEBP"
        factor = max(1, round(56 / height))  # of the page's pixels for each of the picture's
        return (
            f'<img alt="{text(name)}" src="{_url(Image.fromarray(whole), kind)}" '
            f'width="{whole.shape[1] * factor}" height="{height * factor}">'
        )

    def sheet(self, images: np.ndarray) -> str:
        """The address of a picture with all images in rows of `SHEET_COLUMNS`, for the script."""
        from PIL import Image

        tiles = [_resized(tile, SHEET_SIDE, exactly=True) for tile in self.bytes(images)]
        rows = -(-len(tiles) // SHEET_COLUMNS)
        whole = np.zeros((rows * SHEET_SIDE, SHEET_COLUMNS * SHEET_SIDE, 3), np.uint8)
        for i, tile in enumerate(tiles):
            y, x = i // SHEET_COLUMNS * SHEET_SIDE, i % SHEET_COLUMNS * SHEET_SIDE
            whole[y : y + SHEET_SIDE, x : x + SHEET_SIDE] = tile
        return _url(Image.fromarray(whole), "JPEG")


def side_for(count: int, shape: Sequence[int]) -> int:
    """How large each of so many images of this shape may be."""
    largest = max(int((MOST_PIXELS / max(count, 1)) ** 0.5), 8)
    return min(LARGEST, largest, max(shape[-2:]))


def _resized(tile: np.ndarray, side: int, exactly: bool = False) -> np.ndarray:
    """(h, w, 3), its longer side no longer than `side`."""
    from PIL import Image

    height, width = tile.shape[:2]
    factor = side / max(height, width)
    if factor >= 1 and not exactly:
        return tile
    size = (max(1, round(width * factor)), max(1, round(height * factor)))
    kind = Image.Resampling.NEAREST if factor >= 1 else Image.Resampling.BOX
    resized = np.asarray(Image.fromarray(tile).resize(size, kind))
    if not exactly:
        return resized
    square = np.zeros((side, side, 3), np.uint8)
    square[: resized.shape[0], : resized.shape[1]] = resized
    return square


def _url(image: Any, kind: str) -> str:
    content = io.BytesIO()
    options: Any = {"PNG": {"optimize": True}, "JPEG": {"quality": 70}, "WEBP": {"quality": 80}}
    image.save(content, kind, **options[kind])
    coded = base64.b64encode(content.getvalue()).decode("ascii")
    return f"data:image/{kind.lower()};base64,{coded}"
