"""The network g that corrects a base density: of vectors, or of images."""

from __future__ import annotations

import math

import torch
from torch import Generator, Tensor, nn

from gedilearn.models.image_encoders import SmallConvNet
from gedilearn.models.mlp import MLP

WIDTH = 64
SINES = 32
SCALE = 2.0  # of their frequencies
CHANNELS = 32  # of the first convolution


class Energy(nn.Module):
    """A perceptron on x and on sines of it, for several members at once.

    Perceptrons learn last what changes over short distances; sines let them see it. The frequencies
    are trained too; they start such that a typical direction sees about the same number of waves
    in any dimension.

    (members, n, d) -> (members, n).
    """

    def __init__(self, d: int, members: int, *, generator: Generator | None) -> None:
        super().__init__()
        self.frequencies = nn.Parameter(torch.empty(members, d, SINES))
        self.phases = nn.Parameter(torch.empty(members, 1, SINES))
        if generator is not None:
            with torch.no_grad():
                self.frequencies.normal_(0, SCALE * math.sqrt(2 / d), generator=generator)
                self.phases.uniform_(0, 2 * math.pi, generator=generator)
        self.layers = MLP((d + SINES, WIDTH, WIDTH, 1), members, "silu", generator=generator)

    def forward(self, x: Tensor) -> Tensor:
        waves = torch.sin(torch.baddbmm(self.phases, x, self.frequencies))
        out: Tensor = self.layers(torch.cat([x, waves], -1))[..., 0]
        return out


class ImageEnergy(nn.Module):
    """Convolutions and a perceptron, which corrects nothing to begin with.

    Convolutions are pooled, never strided alone: those see some pixels more than others, and their
    gradients draw a checkerboard.  (1, n, channels, height, width) -> (1, n).
    """

    def __init__(self, channels: int, *, generator: Generator | None) -> None:
        super().__init__()
        self.convolutions = SmallConvNet(channels, CHANNELS, "silu", generator=generator)
        self.layers = MLP((3 * CHANNELS, WIDTH, 1), 1, "silu", generator=generator)
        if generator is not None:
            nn.init.zeros_(self.layers.weights[-1])
            nn.init.zeros_(self.layers.biases[-1])

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.layers(self.convolutions(x[0])[None])[..., 0]
        return out
