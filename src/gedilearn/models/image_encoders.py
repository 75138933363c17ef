"""Encoders of images: a small convolutional network, and the paper's ResNet-8.

Weights are drawn from the given generator; with None they are left unset.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Generator, Tensor, nn
from torch.nn import functional as F  # noqa: N812

from gedilearn.models.mlp import ACTIVATIONS, LEAK, Activation
from gedilearn.settings import LARGE

# Images with a shorter side below this are not pooled.
SMALLEST_POOLED = 6

# 1 / the standard deviation of the activation of a standard normal number.
GAINS: dict[str, float] = {"leaky_relu": 1.546, "relu": 1.713, "silu": 1.788, "tanh": 1.593}


class Taps(nn.Module):
    """s: one number for an image, computed from all layers of an encoder.

    Noise and the width of strokes distinguish samples from data. INV makes the last layer
    insensitive to them; earlier layers still see them. s starts at 0. While `on` is False, it stays
    0 and takes no time.
    """

    WIDTH = 64
    SCALE = 4.0

    def __init__(self, widths: Sequence[int], generator: Generator | None) -> None:
        super().__init__()
        self.on = True
        self.first = nn.ModuleList(_conv(width, self.WIDTH, 1) for width in widths)
        self.second = nn.ModuleList(_conv(self.WIDTH, 1, 1) for _ in widths)
        for layer in self.first if generator is not None else []:
            assert isinstance(layer, nn.Conv2d) and layer.bias is not None
            bound = layer.in_channels**-0.5
            nn.init.uniform_(layer.weight, -bound, bound, generator)
            nn.init.zeros_(layer.bias)
        for parameter in self.second.parameters() if generator is not None else []:
            nn.init.zeros_(parameter)

    def forward(self, layers: Sequence[Tensor]) -> Tensor:
        """Activations (batch, width, ...) of all layers -> (batch, 1)."""
        if not self.on:
            return layers[0].new_zeros(len(layers[0]), 1)
        read = [
            second(F.silu(first(layer))).mean((2, 3))
            for first, second, layer in zip(self.first, self.second, layers, strict=True)
        ]
        return self.SCALE * torch.stack(read).sum(0)


class SmallConvNet(nn.Module):
    """Four 3x3 convolutions, the first three pooled, then the mean over positions.

    With batch normalisation, the density of a point would depend on the others in its batch, which
    is wrong for an energy-based model. So the *weights* are standardised here. Filters of mean 0
    ignore a constant background, and the size of activations changes little between layers. On
    MNIST this found the clusters in far fewer iterations than plain weights.

    Images (batch, channels, height, width) of any size from 4x4 -> (batch, 3 * width); 158,000
    parameters for grey images. Layers smaller than 6x6 are not pooled further. Images larger than
    48x48 are averaged down before the first convolution. `normalise` adds batch normalisation,
    `tapped` one more number at the end (`Taps`).
    """

    def __init__(
        self,
        channels: int,
        width: int = 32,
        activation: Activation = "leaky_relu",
        normalise: bool = False,
        tapped: bool | None = False,
        *,
        generator: Generator | None,
    ) -> None:
        super().__init__()
        self.activation: Activation = activation
        widths = (channels, width, 2 * width, 3 * width, 3 * width)
        self.convolutions = nn.ModuleList(
            StandardisedConv(inputs, outputs, GAINS[activation], generator)
            for inputs, outputs in pairwise(widths)
        )
        self.norms = nn.ModuleList(
            nn.BatchNorm2d(outputs) if normalise else nn.Identity() for outputs in widths[1:]
        )
        self.taps = Taps(widths[1:], generator) if tapped else None
        self.to(memory_format=torch.channels_last)  # type: ignore[call-overload]

    def forward(self, x: Tensor) -> Tensor:
        last, layers = len(self.convolutions) - 1, []
        x = averaged_down(x)
        for k, (conv, norm) in enumerate(zip(self.convolutions, self.norms, strict=True)):
            pooled = k < last and min(x.shape[-2:]) >= SMALLEST_POOLED
            x = ACTIVATIONS[self.activation](norm(conv(x, pooled)))
            layers.append(x)
        return _with_taps(x.mean((2, 3)), self.taps, layers)


def _with_taps(features: Tensor, taps: Taps | None, layers: Sequence[Tensor]) -> Tensor:
    return features if taps is None else torch.cat([features, taps(layers)], 1)


def averaged_down(x: Tensor) -> Tensor:
    """Images whose shorter side is at most 48 pixels, by means over squares of pixels."""
    factor = -(-min(x.shape[-2:]) // LARGE)
    return x if factor <= 1 else F.avg_pool2d(x, factor, ceil_mode=True)


class StandardisedConv(nn.Module):
    """A 3x3 convolution whose filters have mean 0 and a norm that is a separate parameter.

    Norms start at `gain`. Weights start from He's normal distribution. Their size does not change
    the output, but sets how far a step of Adam turns a filter.
    """

    def __init__(self, inputs: int, outputs: int, gain: float, generator: Generator | None) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(outputs, inputs, 3, 3))
        self.gain = nn.Parameter(torch.full((outputs, 1, 1, 1), gain))
        self.bias = nn.Parameter(torch.zeros(outputs))
        if generator is not None:
            nn.init.kaiming_normal_(self.weight, LEAK, generator=generator)

    def kernel(self) -> Tensor:
        """The standardised filters: (outputs, inputs, 3, 3)."""
        centred = self.weight - self.weight.mean((1, 2, 3), keepdim=True)
        return centred * (self.gain * (centred.square().sum((1, 2, 3), True) + 1e-8).rsqrt())

    def forward(self, x: Tensor, pooled: bool = False) -> Tensor:
        if pooled:
            return pooled_conv(x, self.kernel(), self.bias)
        return F.conv2d(x, self.kernel(), self.bias, padding=1)


def pooled_conv(x: Tensor, kernel: Tensor, bias: Tensor | None) -> Tensor:
    """`avg_pool2d(conv2d(x, kernel, bias, padding=1), 2)` for 3x3 kernels, in 4/9 of the products.

    The mean of a convolution over four neighbouring places is one convolution of stride 2, whose
    4x4 kernel is the mean of the 3x3 kernel shifted to these places.
    """
    mean = F.avg_pool2d(F.pad(kernel, (1, 1, 1, 1)), 2, stride=1)
    return F.conv2d(x, channels_last(mean), bias, stride=2, padding=1)


def channels_last(x: Tensor) -> Tensor:
    """x (batch, channels, height, width) in the memory order of the fastest convolutions."""
    return x.contiguous(memory_format=torch.channels_last)


class ResNet8(nn.Module):
    """The paper's residual network of 8 layers (its table 'Resnet').

    Four residual blocks, the first two pooled, then the mean over positions. The table leaves some
    details open, which are as in its public code. Only the first shortcut has a convolution. The
    first block starts without an activation, and one more activation precedes the mean over
    positions. Weights start from Xavier's uniform distribution with the gain of a ReLU.

    Images (batch, channels, height, width) of any size from 8x8 -> (batch, width); `width` is F of
    the paper: 128 (1,037,184 parameters), or 256 for CIFAR-100 (4,138,752). `normalise` adds batch
    normalisation after each convolution of the blocks, for SwAV and Barlow. Energy-based models use
    `standardised` weights (`StandardisedConv`) instead, in all 3x3 convolutions. `tapped` adds one
    more number at the end (`Taps`).
    """

    def __init__(
        self,
        channels: int = 3,
        width: int = 128,
        normalise: bool = False,
        tapped: bool | None = False,
        standardised: bool | None = False,
        *,
        generator: Generator | None,
    ) -> None:
        super().__init__()
        self.shortcut = _conv(channels, width, 1)
        self.blocks = nn.ModuleList(
            Block(k, width if k else channels, width, normalise, bool(standardised), generator)
            for k in range(4)
        )
        layers = [layer for layer in self.modules() if isinstance(layer, nn.Conv2d)]
        for layer in layers if generator is not None else []:
            nn.init.xavier_uniform_(layer.weight, nn.init.calculate_gain("relu"), generator)
            assert layer.bias is not None
            nn.init.zeros_(layer.bias)
        self.taps = Taps([width] * 4, generator) if tapped else None
        self.to(memory_format=torch.channels_last)  # type: ignore[call-overload]

    def forward(self, x: Tensor) -> Tensor:
        x = channels_last(x)
        first, second, *others = self.blocks
        layers = [first(x).add_(self.shortcut(F.avg_pool2d(x, 2)))]
        layers.append(second(layers[-1]).add_(F.avg_pool2d(layers[-1], 2)))
        for block in others:
            layers.append(block(layers[-1]).add_(layers[-1]))
        last = F.leaky_relu(layers[-1], LEAK, inplace=self.taps is None)
        return _with_taps(last.mean((2, 3)), self.taps, layers)


def _conv(inputs: int, outputs: int, kernel: int, padding: int = 0) -> nn.Conv2d:
    """A convolution with unset weights, which draws nothing from torch's global generator."""
    layer = nn.Conv2d(inputs, outputs, kernel, padding=padding, device="meta")
    return layer.to_empty(device=torch.get_default_device())


class Block(nn.Module):
    """The residual branch of the k-th block: two convolutions, each after an activation.

    The first block takes the image itself and starts without an activation. With standardised
    weights the branch starts at half the gain: its sum with the shortcut then grows slowly.
    """

    def __init__(
        self,
        k: int,
        channels: int,
        width: int,
        normalise: bool,
        standardised: bool,
        generator: Generator | None,
    ) -> None:
        super().__init__()
        self.pooled = k < 2
        self.first = k == 0
        gain = GAINS["leaky_relu"]
        self.enter: nn.Conv2d | StandardisedConv
        self.leave: nn.Conv2d | StandardisedConv
        if standardised:
            self.enter = StandardisedConv(channels, width, gain, generator)
            self.leave = StandardisedConv(width, width, gain / 2, generator)
        else:
            self.enter = _conv(channels, width, 3, padding=1)
            self.leave = _conv(width, width, 3, padding=1)
        self.norm_enter = nn.BatchNorm2d(width) if normalise else nn.Identity()
        self.norm_leave = nn.BatchNorm2d(width) if normalise else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        # The shortcut still needs the input; nothing else needs the output of `enter`.
        x = self.enter(x if self.first else F.leaky_relu(x, LEAK))
        x = F.leaky_relu(self.norm_enter(x), LEAK, inplace=True)
        leave = self.leave
        if isinstance(leave, StandardisedConv):
            x = leave(x, self.pooled)
        else:
            x = pooled_conv(x, leave.weight, leave.bias) if self.pooled else leave(x)
        out: Tensor = self.norm_leave(x)
        return out
