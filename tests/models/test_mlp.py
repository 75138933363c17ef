"""Batched networks against one torch.nn.Sequential for each member."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from gedilearn.models.mlp import LEAK, MLP
from helpers import SEEDED

ACTIVATIONS = {
    "leaky_relu": lambda: nn.LeakyReLU(LEAK),
    "relu": nn.ReLU,
    "silu": nn.SiLU,
    "tanh": nn.Tanh,
}
WIDTHS = (3, 7, 5, 2)


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(0)


def make(members: int, activation: str = "leaky_relu", activate_last: bool = False) -> MLP:
    return MLP(WIDTHS, members, activation, activate_last, generator=SEEDED).double()  # type: ignore[arg-type]


def separate(mlp: MLP) -> list[nn.Sequential]:
    """Each member as ordinary layers with the same weights."""
    networks = []
    for k in range(mlp.n_members):
        layers: list[nn.Module] = []
        for number, (weight, bias) in enumerate(zip(mlp.weights, mlp.biases, strict=True)):
            linear = nn.Linear(weight.shape[1], weight.shape[2], dtype=weight.dtype)
            with torch.no_grad():
                linear.weight.copy_(weight[k].T)
                linear.bias.copy_(bias[k, 0])
            layers.append(linear)
            if number < len(mlp.weights) - 1 or mlp.activate_last:
                layers.append(ACTIVATIONS[mlp.activation]())
        networks.append(nn.Sequential(*layers))
    return networks


@pytest.mark.parametrize("activate_last", [False, True])
@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("members", [1, 3])
def test_outputs_and_all_gradients_equal_those_of_separate_networks(
    members: int, activation: str, activate_last: bool
) -> None:
    mlp = make(members, activation, activate_last)
    x = torch.randn(members, 11, 3, dtype=torch.float64, requires_grad=True)
    towards = torch.randn(members, 11, 2, dtype=torch.float64)
    out = mlp(x)
    (out * towards).sum().backward()
    for k, network in enumerate(separate(mlp)):
        own = x.detach()[k].clone().requires_grad_(True)
        expected = network(own)
        (expected * towards[k]).sum().backward()
        torch.testing.assert_close(out[k], expected)
        torch.testing.assert_close(x.grad[k], own.grad)  # type: ignore[index]
        linear = [layer for layer in network if isinstance(layer, nn.Linear)]
        for weight, bias, layer in zip(mlp.weights, mlp.biases, linear, strict=True):
            torch.testing.assert_close(weight.grad[k].T, layer.weight.grad)
            torch.testing.assert_close(bias.grad[k, 0], layer.bias.grad)


def test_a_shared_expanded_batch_equals_copies_and_its_gradient_is_summed_over_members() -> None:
    mlp = make(3)
    x = torch.randn(11, 3, dtype=torch.float64, requires_grad=True)
    out = mlp(x.expand(3, 11, 3))
    out.square().sum().backward()
    total = torch.zeros_like(x)
    for k, network in enumerate(separate(mlp)):
        own = x.detach().clone().requires_grad_(True)
        expected = network(own)
        torch.testing.assert_close(out[k], expected)
        (gradient,) = torch.autograd.grad(expected.square().sum(), own)
        total += gradient
    torch.testing.assert_close(x.grad, total)


def test_weights_start_uniform_within_one_over_the_root_of_the_inputs() -> None:
    mlp = MLP((25, 400), 3, generator=SEEDED)
    for values in (mlp.weights[0], mlp.biases[0]):
        assert values.abs().max() <= 0.2
        # a uniform variable on (-a, a) has standard deviation a / sqrt(3)
        assert values.std().item() == pytest.approx(0.2 / 3**0.5, rel=0.05)
