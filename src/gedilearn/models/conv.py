"""A small convolutional encoder for small images, and the ways of computing it fast.

Batch normalisation makes one point's density depend on the others of its batch, which an
energy-based model cannot have. So the *weights* are standardised here: filters of mean 0 do not see
a constant background, and the size of activations stays about the same from layer to layer. On
MNIST this found the clusters in far fewer iterations than plain weights did.
"""

from __future__ import annotations

from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

from gedilearn.models.mlp import LEAK, Activation, activate

# Images with a shorter side below this are not made smaller: there is nothing to spare.
SMALLEST_POOLED = 6

# 1 / the standard deviation of the activation of a standard normal number.
GAINS: dict[str, float] = {"leaky_relu": 1.546, "relu": 1.713, "silu": 1.788, "tanh": 1.593}


class SmallConvNet(nn.Module):
    """Four 3x3 convolutions, the first three pooled, then the mean over positions.

    Images (batch, channels, height, width) of any size from 4x4 -> (batch, 3 * width); 158,000
    parameters for grey images. What is already smaller than 6x6 is not pooled further. `normalise`
    adds batch normalisation.
    """

    def __init__(
        self,
        channels: int,
        width: int = 32,
        activation: Activation = "leaky_relu",
        normalise: bool = False,
    ) -> None:
        super().__init__()
        self.activation: Activation = activation
        widths = (channels, width, 2 * width, 3 * width, 3 * width)
        self.convolutions = nn.ModuleList(
            StandardisedConv(inputs, outputs, GAINS[activation])
            for inputs, outputs in pairwise(widths)
        )
        self.norms = nn.ModuleList(
            nn.BatchNorm2d(outputs) if normalise else nn.Identity() for outputs in widths[1:]
        )
        self.to(memory_format=torch.channels_last)  # type: ignore[call-overload]

    def forward(self, x: Tensor) -> Tensor:
        last = len(self.convolutions) - 1
        for k, (conv, norm) in enumerate(zip(self.convolutions, self.norms, strict=True)):
            pooled = k < last and min(x.shape[-2:]) >= SMALLEST_POOLED
            x = activate(norm(conv(x, pooled)), self.activation)
        return x.mean((2, 3))


class StandardisedConv(nn.Module):
    """A 3x3 convolution whose filters have mean 0 and a norm that is a parameter of its own.

    The gain is where the norms start. Weights start from He's normal distribution: their size does
    not change what is computed, but sets how far a step of Adam turns a filter.
    """

    def __init__(self, inputs: int, outputs: int, gain: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(outputs, inputs, 3, 3))
        self.gain = nn.Parameter(torch.full((outputs, 1, 1, 1), gain))
        self.bias = nn.Parameter(torch.zeros(outputs))
        nn.init.kaiming_normal_(self.weight, LEAK)

    def kernel(self) -> Tensor:
        """The filters that the layer applies: (outputs, inputs, 3, 3)."""
        centred = self.weight - self.weight.mean((1, 2, 3), keepdim=True)
        return centred * (self.gain * (centred.square().sum((1, 2, 3), True) + 1e-8).rsqrt())

    def forward(self, x: Tensor, pooled: bool) -> Tensor:
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
    """x (batch, channels, height, width) in the memory order in which convolutions are fastest."""
    return x.contiguous(memory_format=torch.channels_last)
