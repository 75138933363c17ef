"""Inception-v3 as FID uses it: the network of Szegedy et al. (2015), without torchvision.

The weights behind FID come from a TensorFlow graph of December 2015, which differs from later
versions of Inception-v3 in three ways: 1008 outputs, average pooling that leaves the padding out of
the mean, and maximum pooling in place of average pooling in the last block. Names of layers are
those of the published weight file.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import avg_pool2d, max_pool2d, relu

from gedilearn.evaluation.weights import read_weights

SPACE = "Inception-v3 features"
FILES = (  # the same bytes under two names
    "pt_inception-2015-12-05-6726825d.pth",
    "weights-inception-2015-12-05-6726825d.pth",
)
SHA256 = "6726825d0af5f729cebd5821db510b11b1cfad8faad88a03f1befd49fb9129b2"
SIZE = 299

Pool = Callable[[Tensor], Tensor]
MEAN: Pool = partial(avg_pool2d, kernel_size=3, stride=1, padding=1, count_include_pad=False)
LARGEST: Pool = partial(max_pool2d, kernel_size=3, stride=1, padding=1)
HALVE: Pool = partial(max_pool2d, kernel_size=3, stride=2)


class Conv(NamedTuple):
    """A convolution of a branch; with stride 1 it keeps the size, with stride 2 it does not pad."""

    name: str
    outputs: int
    kernel: tuple[int, int] = (1, 1)
    stride: int = 1


class Branch(NamedTuple):
    """Pooling, if any, then steps; the convolutions of one step run side by side."""

    steps: list[tuple[Conv, ...]]
    pool: Pool | None = None


class Unit(nn.Module):
    """Convolution, batch normalisation, ReLU."""

    def __init__(
        self,
        inputs: int,
        outputs: int,
        kernel: tuple[int, int],
        stride: int = 1,
        padding: tuple[int, int] = (0, 0),
    ) -> None:
        super().__init__()
        self.conv = nn.Conv2d(inputs, outputs, kernel, stride, padding, bias=False)
        self.bn = nn.BatchNorm2d(outputs, eps=1e-3)

    def forward(self, x: Tensor) -> Tensor:
        return relu(self.bn(self.conv(x)))


class Mixed(nn.Module):
    """Branches side by side on the same input, joined along the channels."""

    def __init__(self, inputs: int, branches: list[Branch]) -> None:
        super().__init__()
        self.branches = branches
        self.outputs = 0
        for branch in branches:
            channels = inputs
            for step in branch.steps:
                for conv in step:
                    high, wide = conv.kernel
                    padding = (high // 2, wide // 2) if conv.stride == 1 else (0, 0)
                    unit = Unit(channels, conv.outputs, conv.kernel, conv.stride, padding)
                    self.add_module(conv.name, unit)
                channels = sum(conv.outputs for conv in step)
            self.outputs += channels

    def forward(self, x: Tensor) -> Tensor:
        found = []
        for branch in self.branches:
            y = x if branch.pool is None else branch.pool(x)
            for step in branch.steps:
                y = torch.cat([self.get_submodule(conv.name)(y) for conv in step], dim=1)
            found.append(y)
        return torch.cat(found, dim=1)


def _chain(*convs: Conv, pool: Pool | None = None) -> Branch:
    return Branch([(conv,) for conv in convs], pool)


def _at_35(pooled: int) -> list[Branch]:
    return [
        _chain(Conv("branch1x1", 64)),
        _chain(Conv("branch5x5_1", 48), Conv("branch5x5_2", 64, (5, 5))),
        _chain(
            Conv("branch3x3dbl_1", 64),
            Conv("branch3x3dbl_2", 96, (3, 3)),
            Conv("branch3x3dbl_3", 96, (3, 3)),
        ),
        _chain(Conv("branch_pool", pooled), pool=MEAN),
    ]


def _from_35_to_17() -> list[Branch]:
    return [
        _chain(Conv("branch3x3", 384, (3, 3), 2)),
        _chain(
            Conv("branch3x3dbl_1", 64),
            Conv("branch3x3dbl_2", 96, (3, 3)),
            Conv("branch3x3dbl_3", 96, (3, 3), 2),
        ),
        Branch([], HALVE),
    ]


def _at_17(inner: int) -> list[Branch]:
    return [
        _chain(Conv("branch1x1", 192)),
        _chain(
            Conv("branch7x7_1", inner),
            Conv("branch7x7_2", inner, (1, 7)),
            Conv("branch7x7_3", 192, (7, 1)),
        ),
        _chain(
            Conv("branch7x7dbl_1", inner),
            Conv("branch7x7dbl_2", inner, (7, 1)),
            Conv("branch7x7dbl_3", inner, (1, 7)),
            Conv("branch7x7dbl_4", inner, (7, 1)),
            Conv("branch7x7dbl_5", 192, (1, 7)),
        ),
        _chain(Conv("branch_pool", 192), pool=MEAN),
    ]


def _from_17_to_8() -> list[Branch]:
    return [
        _chain(Conv("branch3x3_1", 192), Conv("branch3x3_2", 320, (3, 3), 2)),
        _chain(
            Conv("branch7x7x3_1", 192),
            Conv("branch7x7x3_2", 192, (1, 7)),
            Conv("branch7x7x3_3", 192, (7, 1)),
            Conv("branch7x7x3_4", 192, (3, 3), 2),
        ),
        Branch([], HALVE),
    ]


def _at_8(pool: Pool) -> list[Branch]:
    def fork(name: str) -> tuple[Conv, Conv]:
        return Conv(f"{name}a", 384, (1, 3)), Conv(f"{name}b", 384, (3, 1))

    deep = [(Conv("branch3x3dbl_1", 448),), (Conv("branch3x3dbl_2", 384, (3, 3)),)]
    return [
        _chain(Conv("branch1x1", 320)),
        Branch([(Conv("branch3x3_1", 384),), fork("branch3x3_2")]),
        Branch([*deep, fork("branch3x3dbl_3")]),
        _chain(Conv("branch_pool", 192), pool=pool),
    ]


class Inception(nn.Module):
    """Pixels, bytes (n, 3, h, w), to the 2048 features before the classifier: (n, 2048)."""

    space = SPACE

    def __init__(self) -> None:
        super().__init__()
        self.Conv2d_1a_3x3 = Unit(3, 32, (3, 3), stride=2)
        self.Conv2d_2a_3x3 = Unit(32, 32, (3, 3))
        self.Conv2d_2b_3x3 = Unit(32, 64, (3, 3), padding=(1, 1))
        self.Conv2d_3b_1x1 = Unit(64, 80, (1, 1))
        self.Conv2d_4a_3x3 = Unit(80, 192, (3, 3))
        self.mixed = []
        channels = 192
        for name, branches in {
            "5b": _at_35(32), "5c": _at_35(64), "5d": _at_35(64), "6a": _from_35_to_17(),
            "6b": _at_17(128), "6c": _at_17(160), "6d": _at_17(160), "6e": _at_17(192),
            "7a": _from_17_to_8(), "7b": _at_8(MEAN), "7c": _at_8(LARGEST),
        }.items():  # fmt: skip
            block = Mixed(channels, branches)
            self.add_module(f"Mixed_{name}", block)
            self.mixed.append(f"Mixed_{name}")
            channels = block.outputs
        self.fc = nn.Linear(channels, 1008)

    @classmethod
    def load(cls, path: str | Path) -> Inception:
        """The network with the weights of FID, ready for use."""
        network = cls()
        network.load_state_dict(read_weights(path, SHA256, f"the weight file {FILES[0]} of FID"))
        return network.eval().requires_grad_(False)

    def forward(self, pixels: Tensor) -> Tensor:
        x = (resize_as_tensorflow_1(pixels.float(), SIZE) - 128) / 128
        x = self.Conv2d_2b_3x3(self.Conv2d_2a_3x3(self.Conv2d_1a_3x3(x)))
        x = HALVE(x)
        x = HALVE(self.Conv2d_4a_3x3(self.Conv2d_3b_1x1(x)))
        for name in self.mixed:
            x = self.get_submodule(name)(x)
        return x.mean(dim=(2, 3))


def resize_as_tensorflow_1(x: Tensor, size: int) -> Tensor:
    """Bilinear resizing as in FID's graph: pixel i of the result is read at i * old / new.

    Torch aligns the centres of pixels instead, which moves every FID a little.
    """
    rows, columns = (_interpolation(old, size).to(x) for old in x.shape[-2:])
    return rows @ x @ columns.T


def _interpolation(old: int, new: int) -> Tensor:
    """The matrix (new, old) that interpolates along one axis."""
    position = torch.arange(new, dtype=torch.float64) * old / new
    left = position.long()
    right = (left + 1).clamp(max=old - 1)
    weight = position - left
    index = torch.arange(new)
    matrix = torch.zeros(new, old, dtype=torch.float64)
    matrix[index, left] += 1 - weight
    matrix[index, right] += weight
    return matrix
