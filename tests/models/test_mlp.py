"""Batched networks against one torch.nn.Sequential for each member."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from gedilearn.models.mlp import LEAK, MLP, activate
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


def gradients(module: nn.Module) -> list[Tensor]:
    return [p.grad for p in module.parameters() if p.grad is not None]


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


def test_the_input_is_left_as_it_was() -> None:
    x = torch.randn(2, 5, 3)
    before = x.clone()
    MLP((3, 2), 2, activate_last=True, generator=SEEDED)(x)
    assert torch.equal(x, before)


def test_points_of_any_shape_are_flattened_to_vectors() -> None:
    mlp = MLP((12, 4), 2, generator=SEEDED)
    images = torch.randn(2, 5, 3, 2, 2)
    assert torch.equal(mlp(images), mlp(images.reshape(2, 5, 12)))


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_gradients_equal_finite_differences(activation: str) -> None:
    mlp = make(2, activation, activate_last=True)
    x = torch.randn(2, 4, 3, dtype=torch.float64, requires_grad=True)
    parameters = tuple(mlp.parameters())

    def function(x: Tensor, *values: Tensor) -> Tensor:
        named = dict(zip([n for n, _ in mlp.named_parameters()], values, strict=True))
        return torch.func.functional_call(mlp, named, (x,))

    assert torch.autograd.gradcheck(function, (x, *parameters))


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_each_activation_is_the_one_it_is_called(name: str) -> None:
    x = torch.linspace(-3, 3, 31)
    expected = ACTIVATIONS[name]()(x.clone())
    torch.testing.assert_close(activate(x.clone(), name), expected)  # type: ignore[arg-type]


def test_weights_start_uniform_within_one_over_the_root_of_the_inputs() -> None:
    mlp = MLP((25, 400), 3, generator=SEEDED)
    for values in (mlp.weights[0], mlp.biases[0]):
        assert values.abs().max() <= 0.2
        # a uniform variable on (-a, a) has standard deviation a / sqrt(3)
        assert values.std().item() == pytest.approx(0.2 / 3**0.5, rel=0.05)


def test_members_start_from_different_weights() -> None:
    weights = MLP((3, 4), 2, generator=SEEDED).weights[0]
    assert not torch.equal(weights[0], weights[1])


def test_select_copies_the_chosen_members_in_the_given_order() -> None:
    mlp = make(4, activate_last=True)
    x = torch.randn(2, 6, 3, dtype=torch.float64)
    chosen = mlp.select([2, 0])
    assert chosen.n_members == 2
    expected = torch.stack([separate(mlp)[k](row) for k, row in zip([2, 0], x, strict=True)])
    torch.testing.assert_close(chosen(x), expected)
    with torch.no_grad():
        chosen.weights[0].zero_()
    assert mlp.weights[0][2].abs().min() > 0  # the original does not share memory


def test_squared_gradients_are_summed_for_each_member() -> None:
    mlp = make(3)
    mlp(torch.randn(3, 6, 3, dtype=torch.float64)).square().sum().backward()
    expected = [sum(float((g[k] ** 2).sum()) for g in gradients(mlp)) for k in range(3)]
    assert mlp.gradient_squares().tolist() == pytest.approx(expected)


def test_scaling_multiplies_every_gradient_of_a_member_by_its_factor() -> None:
    mlp = make(3)
    mlp(torch.randn(3, 6, 3, dtype=torch.float64)).square().sum().backward()
    before = [g.clone() for g in gradients(mlp)]
    factors = torch.tensor([0.5, 2.0, 0.0], dtype=torch.float64)
    mlp.scale_gradients(factors)
    for old, new in zip(before, gradients(mlp), strict=True):
        for k in range(3):
            torch.testing.assert_close(new[k], old[k] * factors[k])
