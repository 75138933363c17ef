"""How far generated images are from real ones: the Frechet distance between their features.

A distance means little alone. It is biased upwards by the number of images, and it depends on the
network that makes the features; so a result comes with the distance between real images in equal
numbers, and names its space. Only features of Inception with the published weights give FID.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import avg_pool2d, interpolate, max_pool2d, pad, relu

from gedilearn.data.arrays import check_finite
from gedilearn.data.published import cache_root
from gedilearn.errors import InputError
from gedilearn.evaluation.ood import as_bytes, value_range
from gedilearn.pretrained import EfficientNetLite0, FeatureNetwork, batch_norm, features


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
    extract: FeatureNetwork,
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
        features(as_bytes(x[generator.permutation(len(x))[:most]], values), extract)
        for x, most in ((real, 2 * n), (fake, n))
    )
    return FrechetResult(
        distance=frechet_distance(ours[:n], theirs),
        floor=frechet_distance(ours[:n], ours[n:]),
        space=extract.space,
        n=n,
    )


def extractor() -> FeatureNetwork:
    """The best feature space available; nothing is downloaded.

    Inception, hence FID, when its weight file lies in ``inception/`` of the cache folder
    (`published.cache_root`); otherwise EfficientNet-Lite0 when its package is there.
    """
    folder = cache_root() / "inception"
    for file in sorted(folder.glob("*-2015-12-05-6726825d.pth")):  # published under two names
        return Inception.load(file)
    try:
        return EfficientNetLite0.installed()
    except InputError as error:
        raise InputError(f"{error}, or for FID put {Inception.published} into {folder}") from None


# --- Inception-v3 -------------------------------------------------------------------------------
#
# Names of layers are those of the published weight files.

Pool = Callable[[Tensor], Tensor]
MEAN: Pool = partial(avg_pool2d, kernel_size=3, stride=1, padding=1, count_include_pad=False)
LARGEST: Pool = partial(max_pool2d, kernel_size=3, stride=1, padding=1)
HALVE: Pool = partial(max_pool2d, kernel_size=3, stride=2)

# Output channels, height and width of the kernel, stride, and whether a layer of stride 1 pads.
Layer = tuple[int, int, int] | tuple[int, int, int, int] | tuple[int, int, int, int, bool]
# One after another: a pool, or layers and blocks by name that share their input.
Branch = list["Pool | dict[str, Layer | list[Branch]]"]


class Unit(nn.Module):
    """Convolution, batch normalisation, ReLU; with stride 1 it keeps the size, if it pads."""

    def __init__(
        self, inputs: int, outputs: int, height: int, width: int, stride: int = 1, pads: bool = True
    ) -> None:
        super().__init__()
        self.outputs = outputs
        padding = (height // 2, width // 2) if pads and stride == 1 else (0, 0)
        self.conv = nn.Conv2d(inputs, outputs, (height, width), stride, padding, bias=False)
        self.bn = batch_norm(outputs)

    def forward(self, x: Tensor) -> Tensor:
        return relu(self.bn(self.conv(x)))


class Block(nn.Module):
    """Branches side by side on the same input, joined along the channels."""

    def __init__(self, inputs: int, branches: list[Branch]) -> None:
        super().__init__()
        self.branches, self.outputs = branches, 0
        for branch in branches:
            channels = inputs
            for step in (step for step in branch if isinstance(step, dict)):
                given, channels = channels, 0
                for name, part in step.items():
                    made = Block(given, part) if isinstance(part, list) else Unit(given, *part)
                    self.add_module(name, made)
                    channels += made.outputs
            self.outputs += channels

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([self._along(branch, x) for branch in self.branches], dim=1)

    def _along(self, branch: Branch, x: Tensor) -> Tensor:
        for step in branch:
            if isinstance(step, dict):
                x = torch.cat([self.get_submodule(name)(x) for name in step], dim=1)
            else:
                x = step(x)
        return x


def _chain(name: str, *layers: Layer) -> Branch:
    """`name_1`, `name_2`, ..."""
    return [{f"{name}_{i}": layer} for i, layer in enumerate(layers, 1)]


def _at_35(pooled: int) -> list[Branch]:
    return [
        [{"branch1x1": (64, 1, 1)}],
        _chain("branch5x5", (48, 1, 1), (64, 5, 5)),
        _chain("branch3x3dbl", (64, 1, 1), (96, 3, 3), (96, 3, 3)),
        [MEAN, {"branch_pool": (pooled, 1, 1)}],
    ]


FROM_35_TO_17: list[Branch] = [
    [{"branch3x3": (384, 3, 3, 2)}],
    _chain("branch3x3dbl", (64, 1, 1), (96, 3, 3), (96, 3, 3, 2)),
    [HALVE],
]


def _at_17(n: int) -> list[Branch]:
    return [
        [{"branch1x1": (192, 1, 1)}],
        _chain("branch7x7", (n, 1, 1), (n, 1, 7), (192, 7, 1)),
        _chain("branch7x7dbl", (n, 1, 1), (n, 7, 1), (n, 1, 7), (n, 7, 1), (192, 1, 7)),
        [MEAN, {"branch_pool": (192, 1, 1)}],
    ]


FROM_17_TO_8: list[Branch] = [
    _chain("branch3x3", (192, 1, 1), (320, 3, 3, 2)),
    _chain("branch7x7x3", (192, 1, 1), (192, 1, 7), (192, 7, 1), (192, 3, 3, 2)),
    [HALVE],
]


def _at_8(pool: Pool) -> list[Branch]:
    wide, high = (384, 1, 3), (384, 3, 1)
    double = _chain("branch3x3dbl", (448, 1, 1), (384, 3, 3))
    return [
        [{"branch1x1": (320, 1, 1)}],
        [{"branch3x3_1": (384, 1, 1)}, {"branch3x3_2a": wide, "branch3x3_2b": high}],
        [*double, {"branch3x3dbl_3a": wide, "branch3x3dbl_3b": high}],
        [pool, {"branch_pool": (192, 1, 1)}],
    ]


NETWORK: Branch = [
    {"Conv2d_1a_3x3": (32, 3, 3, 2)}, {"Conv2d_2a_3x3": (32, 3, 3, 1, False)},
    {"Conv2d_2b_3x3": (64, 3, 3)}, HALVE,
    {"Conv2d_3b_1x1": (80, 1, 1)}, {"Conv2d_4a_3x3": (192, 3, 3, 1, False)}, HALVE,
    {"Mixed_5b": _at_35(32)}, {"Mixed_5c": _at_35(64)}, {"Mixed_5d": _at_35(64)},
    {"Mixed_6a": FROM_35_TO_17}, {"Mixed_6b": _at_17(128)}, {"Mixed_6c": _at_17(160)},
    {"Mixed_6d": _at_17(160)}, {"Mixed_6e": _at_17(192)}, {"Mixed_7a": FROM_17_TO_8},
    {"Mixed_7b": _at_8(MEAN)}, {"Mixed_7c": _at_8(LARGEST)},
]  # fmt: skip


class Inception(Block, FeatureNetwork):
    """Inception-v3 (Szegedy et al., 2015) as FID uses it, without torchvision: (n, 2048).

    The weights behind FID come from a TensorFlow graph of December 2015, which differs from later
    versions in three ways: 1008 outputs, average pooling that leaves the padding out of the mean,
    and maximum pooling in place of average pooling in the last block.
    """

    space = "Inception-v3 features"
    published = "pt_inception-2015-12-05-6726825d.pth"
    sha256 = "6726825d0af5f729cebd5821db510b11b1cfad8faad88a03f1befd49fb9129b2"
    size = 299

    def __init__(self) -> None:
        super().__init__(3, [NETWORK])
        self.fc = nn.Linear(self.outputs, 1008)

    def forward(self, pixels: Tensor) -> Tensor:
        colours = pixels.expand(-1, 3, -1, -1).double()  # grey is three equal channels
        x = (resize_as_tensorflow_1(colours, self.size).float() - 128) / 128
        return super().forward(x).mean(dim=(2, 3))


def resize_as_tensorflow_1(x: Tensor, size: int) -> Tensor:
    """Bilinear resizing as in FID's graph: pixel i of the result is read at i * old / new.

    Torch aligns the centres of pixels or the corners instead, which moves every FID a little. With
    the last pixel repeated, aligned corners are at multiples of the ratio.
    """
    larger = pad(x, (0, 1, 0, 1), mode="replicate")
    resized = interpolate(larger, (size + 1, size + 1), mode="bilinear", align_corners=True)
    return resized[..., :-1, :-1]
