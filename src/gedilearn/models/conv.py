"""A small convolutional encoder for small images, without normalisation layers.

Batch normalisation makes one point's density depend on the others of its batch, which an
energy-based model cannot have.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from gedilearn.models.mlp import LEAK


class SmallConvNet(nn.Module):
    """Three 3x3 convolutions with average pooling between them, then the mean over positions.

    Images (batch, channels, height, width) of any size from 4x4 -> (batch, 2 * width).
    """

    def __init__(self, channels: int, width: int = 32) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(channels, width, 3, padding=1),
            nn.LeakyReLU(LEAK),
            nn.AvgPool2d(2),
            nn.Conv2d(width, 2 * width, 3, padding=1),
            nn.LeakyReLU(LEAK),
            nn.AvgPool2d(2),
            nn.Conv2d(2 * width, 2 * width, 3, padding=1),
            nn.LeakyReLU(LEAK),
        )
        for layer in self.layers:
            if isinstance(layer, nn.Conv2d):
                nn.init.kaiming_normal_(layer.weight, LEAK)
                nn.init.zeros_(layer.bias)  # type: ignore[arg-type]

    def forward(self, x: Tensor) -> Tensor:
        return torch.mean(self.layers(x), dim=(2, 3))
