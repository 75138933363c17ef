"""The paper's encoder for 32x32 images: a residual network of 8 layers (its table 'Resnet').

What the table leaves open is as in the public code that it comes from: only the first shortcut has
a convolution, the first block starts without an activation, one more activation stands before the
mean over positions, and weights start from Xavier's uniform distribution with the gain of a ReLU.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

from gedilearn.models.conv import channels_last, pooled_conv
from gedilearn.models.mlp import LEAK


class ResNet8(nn.Module):
    """Four residual blocks, the first two pooled, then the mean over positions.

    Images (batch, channels, height, width) of any size from 8x8 -> (batch, width); `width` is F of
    the paper: 128 (1,037,184 parameters), or 256 for CIFAR-100 (4,138,752). `normalise` adds batch
    normalisation after each convolution of the blocks, for SwAV and Barlow; energy-based models
    cannot have it.
    """

    def __init__(self, channels: int = 3, width: int = 128, normalise: bool = False) -> None:
        super().__init__()
        self.shortcut = nn.Conv2d(channels, width, 1)
        self.blocks = nn.ModuleList(
            Block(width if k else channels, width, pooled=k < 2, first=k == 0, normalise=normalise)
            for k in range(4)
        )
        for layer in self.modules():
            if isinstance(layer, nn.Conv2d):
                nn.init.xavier_uniform_(layer.weight, nn.init.calculate_gain("relu"))
                assert layer.bias is not None
                nn.init.zeros_(layer.bias)
        self.to(memory_format=torch.channels_last)  # type: ignore[call-overload]

    def forward(self, x: Tensor) -> Tensor:
        x = channels_last(x)
        first, second, *others = self.blocks
        x = first(x).add_(self.shortcut(F.avg_pool2d(x, 2)))
        x = second(x).add_(F.avg_pool2d(x, 2))
        for block in others:
            x = block(x).add_(x)
        return F.leaky_relu(x, LEAK, inplace=True).mean((2, 3))


class Block(nn.Module):
    """The long way of a residual block: two convolutions, each behind an activation.

    The first block works on the image itself, so it begins without one.
    """

    def __init__(
        self, channels: int, width: int, *, pooled: bool, first: bool, normalise: bool
    ) -> None:
        super().__init__()
        self.pooled = pooled
        self.first = first
        self.enter = nn.Conv2d(channels, width, 3, padding=1)
        self.leave = nn.Conv2d(width, width, 3, padding=1)
        self.norm_enter = nn.BatchNorm2d(width) if normalise else nn.Identity()
        self.norm_leave = nn.BatchNorm2d(width) if normalise else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        # The input is still needed by the shortcut; what `enter` gives is needed by nothing else.
        x = self.enter(x if self.first else F.leaky_relu(x, LEAK))
        x = F.leaky_relu(self.norm_enter(x), LEAK, inplace=True)
        leave = self.leave
        x = pooled_conv(x, leave.weight, leave.bias) if self.pooled else leave(x)
        out: Tensor = self.norm_leave(x)
        return out
