"""How far generated images are from real ones: the Frechet distance between their features.

A distance alone says little: it is biased upwards for few images, and it depends on the network of
the features. A result includes the distance between real images in equal numbers, and names its
space. Only features of Inception with the published weights give FID.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import avg_pool2d, conv2d, interpolate, max_pool2d, pad, relu

from gedilearn.data.arrays import check_finite
from gedilearn.errors import InputError
from gedilearn.evaluation.ood import as_bytes, value_range
from gedilearn.io import cache_root
from gedilearn.pretrained import EfficientNetLite0, FeatureNetwork, features


@dataclass(frozen=True)
class FrechetResult:
    """The distance from real to generated images, and from real to real.

    Attributes
    ----------
    distance: from n real images to n generated ones
    floor: from the same n real images to n others; a perfect generator scores about this
    space: the name of the features
    n: images on each side
    """

    distance: float
    floor: float
    space: str
    n: int

    @property
    def title(self) -> str:
        """The name of the distance; FID for the space of Inception alone."""
        return "FID" if self.space == Inception.space else f"Frechet distance in {self.space}"


def frechet_distance(real_features: np.ndarray, fake_features: np.ndarray) -> float:
    """|m - m'|^2 + tr(S + S' - 2 (S S')^(1/2)) of the means and covariances of (n, d), (m, d).

    With S = A^T A and S' = B^T B, the trace of the root is the sum of the singular values of A B^T.
    No root of a matrix is needed, and the result is exact also for fewer points than columns.
    """
    real, fake = (np.asarray(x, dtype=np.float64) for x in (real_features, fake_features))
    check_finite(real, "real_features")
    check_finite(fake, "fake_features")
    shift = real.mean(0) - fake.mean(0)
    # The triangular factor R has R^T R = X^T X, and no more rows than columns.
    scaled = ((x - x.mean(0)) / np.sqrt(len(x) - 1) for x in (real, fake))
    a, b = (np.asarray(np.linalg.qr(x, mode="r")) for x in scaled)
    overlap = np.linalg.svd(a @ b.T, compute_uv=False).sum()
    distance = shift @ shift + (a**2).sum() + (b**2).sum() - 2 * overlap
    return max(float(distance), 0.0)  # rounding can give a negative distance of equals


def frechet(
    real: np.ndarray,
    fake: np.ndarray,
    extract: FeatureNetwork,
    *,
    reference: np.ndarray | None = None,
    random_state: int = 0,
) -> FrechetResult:
    """Compare images (n, c, h, w), in equal numbers, drawn at random.

    The floor needs two disjoint sets of real images. Black and white are those of `reference`, or
    of `real`.
    """
    n = min(len(real) // 2, len(fake))
    if n < 2:
        raise InputError(
            f"{len(real)} real and {len(fake)} generated images: give at least 4 and 2"
        )
    values = value_range(real if reference is None else reference)
    # Samples and data sets are often sorted by cluster or class.
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
    """The best feature space available, without downloads.

    Inception, which gives FID, if its weight file is in ``inception/`` of the cache folder
    (`io.cache_root`); otherwise EfficientNet-Lite0, if its package is installed.
    """
    folder = cache_root() / "inception"
    for file in sorted(folder.glob("*-2015-12-05-6726825d.pth")):  # it has two published names
        return Inception.load(file)
    try:
        return EfficientNetLite0.installed()
    except InputError as error:
        raise InputError(f"{error}, or for FID put {Inception.published} into {folder}") from None


# --- Inception-v3 -------------------------------------------------------------------------------

Pool = Callable[[Tensor], Tensor]
MEAN: Pool = partial(avg_pool2d, kernel_size=3, stride=1, padding=1, count_include_pad=False)
LARGEST: Pool = partial(max_pool2d, kernel_size=3, stride=1, padding=1)
HALVE: Pool = partial(max_pool2d, kernel_size=3, stride=2)

AT_35 = ("branch1x1", "branch5x5", "branch3x3dbl")
AT_17 = ("branch1x1", "branch7x7", "branch7x7dbl")
AT_8 = ("branch1x1", "branch3x3", "branch3x3dbl")


class Inception(FeatureNetwork):
    """Inception-v3 (Szegedy et al., 2015) as FID uses it, without torchvision: (n, 2048).

    The weights of FID come from a TensorFlow graph of December 2015. It differs from later versions
    in three ways: it has 1008 outputs, its average pooling leaves the padding out of the mean, and
    its last block has maximum pooling in the place of average pooling.
    """

    space = "Inception-v3 features"
    published = "pt_inception-2015-12-05-6726825d.pth"
    sha256 = "6726825d0af5f729cebd5821db510b11b1cfad8faad88a03f1befd49fb9129b2"
    size = 299

    def forward(self, pixels: Tensor) -> Tensor:
        colours = pixels.expand(-1, 3, -1, -1).double()  # grey is three equal channels
        x = (resize_as_tensorflow_1(colours, self.size).float() - 128) / 128
        x = self._layer(x, "Conv2d_1a_3x3", stride=2)
        x = self._layer(x, "Conv2d_2a_3x3", pads=False)
        x = HALVE(self._layer(x, "Conv2d_2b_3x3"))
        x = self._layer(x, "Conv2d_3b_1x1")
        x = HALVE(self._layer(x, "Conv2d_4a_3x3", pads=False))
        for block in ("Mixed_5b", "Mixed_5c", "Mixed_5d"):
            x = self.block(x, block, AT_35)
        x = self._halved(x, "Mixed_6a", ("branch3x3", "branch3x3dbl"))
        for block in ("Mixed_6b", "Mixed_6c", "Mixed_6d", "Mixed_6e"):
            x = self.block(x, block, AT_17)
        x = self._halved(x, "Mixed_7a", ("branch3x3", "branch7x7x3"))
        x = self.block(x, "Mixed_7b", AT_8)
        return self.block(x, "Mixed_7c", AT_8, LARGEST).mean(dim=(2, 3))

    def block(self, x: Tensor, name: str, branches: Sequence[str], pool: Pool = MEAN) -> Tensor:
        """Branches side by side on the same input, joined along the channels."""
        found = [self._branch(x, f"{name}.{branch}") for branch in branches]
        return torch.cat([*found, self._branch(pool(x), f"{name}.branch_pool")], dim=1)

    def _halved(self, x: Tensor, name: str, branches: Sequence[str]) -> Tensor:
        """The same, each branch with half of the height and width."""
        found = [self._branch(x, f"{name}.{branch}", 2) for branch in branches]
        return torch.cat([*found, HALVE(x)], dim=1)

    def _branch(self, x: Tensor, name: str, last_stride: int = 1) -> Tensor:
        """The layer `name`, or `name_1`, `name_2`, ...; two with one number share their input."""
        numbered = [[f"{name}_{i}{part}" for part in ("", "a", "b")] for i in range(1, 6)]
        present = [[n for n in names if f"{n}.conv.weight" in self.weights] for names in numbered]
        steps = [names for names in present if names] or [[name]]
        for names in steps:
            stride = last_stride if names is steps[-1] else 1
            x = torch.cat([self._layer(x, each, stride) for each in names], dim=1)
        return x

    def _layer(self, x: Tensor, name: str, stride: int = 1, pads: bool = True) -> Tensor:
        """Convolution, batch normalisation, ReLU; with stride 1 and padding it keeps the size."""
        kernel = self.weights[f"{name}.conv.weight"]
        padding = [side // 2 if pads and stride == 1 else 0 for side in kernel.shape[2:]]
        return relu(self.normalised(conv2d(x, kernel, None, stride, padding), f"{name}.bn"))


def resize_as_tensorflow_1(x: Tensor, size: int) -> Tensor:
    """Bilinear resizing as in FID's graph: pixel i of the result is read at i * old / new.

    Torch aligns the centres of pixels or the corners instead, which changes every FID a little. If
    the last pixel is repeated, aligned corners are at multiples of the ratio.
    """
    larger = pad(x, (0, 1, 0, 1), mode="replicate")
    resized = interpolate(larger, (size + 1, size + 1), mode="bilinear", align_corners=True)
    return resized[..., :-1, :-1]
