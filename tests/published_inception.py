"""Inception-v3 of FID, layer by layer as published: names, channels and kernels."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor, nn
from torch.nn.functional import avg_pool2d, max_pool2d, relu

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
        self.bn = nn.BatchNorm2d(outputs, eps=1e-3)

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


class Published(Block):
    """From images (n, 3, 299, 299), in [-1, 1], to (n, 2048)."""

    def __init__(self) -> None:
        super().__init__(3, [NETWORK])
        self.fc = nn.Linear(self.outputs, 1008)

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x).mean(dim=(2, 3))
