import pytest
import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812

from gedilearn.models import mlp
from gedilearn.models.image_encoders import (
    GAINS,
    SmallConvNet,
    averaged_down,
    pooled_conv,
)
from helpers import SEEDED

ACTIVATIONS = {
    "leaky_relu": lambda x: torch.where(x > 0, x, 0.2 * x),
    "silu": lambda x: x / (1 + torch.exp(-x)),
}


def lively(*arguments: object) -> SmallConvNet:
    """A network in double precision with random biases and gains: a lost one is noticed."""
    net = SmallConvNet(*arguments, generator=SEEDED).double()  # type: ignore[arg-type]
    for name, parameter in net.named_parameters():
        if name.endswith(("bias", "gain")):
            nn.init.normal_(parameter)
    return net


@pytest.mark.parametrize("size", [(8, 8), (7, 7), (9, 6), (2, 3), (28, 28)])
def test_a_pooled_convolution_is_a_convolution_then_average_pooling(size: tuple[int, int]) -> None:
    torch.manual_seed(0)
    conv = nn.Conv2d(3, 5, 3, padding=1).double()
    x = torch.randn(2, 3, *size, dtype=torch.float64)
    pooled = pooled_conv(x, conv.weight, conv.bias)
    torch.testing.assert_close(pooled, F.avg_pool2d(conv(x), 2))


@pytest.mark.parametrize(("side", "factor"), [(48, 1), (49, 2), (64, 2), (96, 2), (97, 3)])
def test_large_images_are_averaged_down_by_a_whole_factor(side: int, factor: int) -> None:
    net, x = lively(3, 4), torch.randn(2, 3, side, side + 7, dtype=torch.float64)
    small = averaged_down(x)
    first = x[:, :, :factor, :factor].mean((2, 3))
    torch.testing.assert_close(small[:, :, 0, 0], first)
    assert small.shape[2:] == (-(-side // factor), -(-(side + 7) // factor))
    torch.testing.assert_close(net(x), net(small))


@pytest.mark.parametrize("activation", list(ACTIVATIONS))
@pytest.mark.parametrize(
    ("size", "pooled"),
    [((28, 28), 3), ((32, 24), 3), ((8, 8), 1), ((13, 12), 2), ((4, 4), 0), ((4, 40), 0)],
)
def test_the_small_network_equals_its_layers_one_by_one(
    activation: str, size: tuple[int, int], pooled: int
) -> None:
    torch.manual_seed(1)
    net = lively(2, 4, activation)
    x = first = torch.randn(3, 2, *size, dtype=torch.float64)
    for k, conv in enumerate(net.convolutions):
        filters = conv.weight.flatten(1)
        filters = F.normalize(filters - filters.mean(1, keepdim=True)) * conv.gain.flatten(1)
        x = F.conv2d(x, filters.view_as(conv.weight), conv.bias, padding=1)
        x = ACTIVATIONS[activation](F.avg_pool2d(x, 2) if k < pooled else x)
    assert x.shape[1] == 12
    torch.testing.assert_close(net(first), x.mean((2, 3)), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("activation", ["leaky_relu", "relu", "silu", "tanh"])
def test_gains_restore_the_deviation_after_an_activation(activation: str) -> None:
    torch.manual_seed(4)
    standard = torch.randn(1_000_000, dtype=torch.float64)
    activated = mlp.ACTIVATIONS[activation](standard)  # type: ignore[index]
    assert activated.std() * GAINS[activation] == pytest.approx(1, abs=5e-3)
