"""Batch normalisation of members against torch.nn.BatchNorm1d for each."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from gedilearn.models.mlp import MLP, BatchNorm
from helpers import SEEDED


def pairs(members: int = 3, width: int = 4) -> tuple[BatchNorm, list[nn.BatchNorm1d]]:
    ours = BatchNorm(width, members)
    theirs = [nn.BatchNorm1d(width) for _ in range(members)]
    with torch.no_grad():
        ours.weight.uniform_(0.5, 2)
        ours.bias.normal_()
        for k, one in enumerate(theirs):
            one.weight.copy_(ours.weight[k, 0])
            one.bias.copy_(ours.bias[k, 0])
    return ours, theirs


def close(ours: Tensor | None, theirs: Tensor | None) -> None:
    assert ours is not None and theirs is not None
    torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-5)


def test_batch_normalisation_equals_that_of_torch() -> None:
    ours, theirs = pairs()
    for _ in range(3):
        x = (3 * torch.randn(3, 11, 4) + torch.randn(3, 1, 4)).requires_grad_()
        towards = torch.randn(3, 11, 4)
        ours.zero_grad()
        out = ours(x)
        (out * towards).sum().backward()
        for k, one in enumerate(theirs):
            one.zero_grad()
            mine = x.detach()[k].clone().requires_grad_()
            expected = one(mine)
            (expected * towards[k]).sum().backward()
            close(out[k], expected)
            close(ours.mean[k, 0], one.running_mean)
            close(ours.variance[k, 0], one.running_var)
            assert x.grad is not None
            close(x.grad[k], mine.grad)
            assert ours.weight.grad is not None and ours.bias.grad is not None
            close(ours.weight.grad[k, 0], one.weight.grad)
            close(ours.bias.grad[k, 0], one.bias.grad)
    ours.eval()
    x, moments = torch.randn(3, 5, 4), ours.mean.clone()
    for k, one in enumerate(theirs):
        close(ours(x)[k], one.eval()(x[k]))
    assert torch.equal(ours.mean, moments)


def trained(members: int) -> MLP:
    """A network with norms whose moments and scales are those of no other member."""
    mlp = MLP((3, 6, 5, 2), members, n_normalised=2, generator=SEEDED)
    with torch.no_grad():
        for norm in mlp.norms:
            norm.weight.uniform_(0.5, 2)
            norm.bias.normal_()
        for _ in range(5):
            mlp(2 * torch.randn(members, 20, 3) + 1)
    return mlp


def test_a_network_with_norms_equals_ordinary_layers() -> None:
    mlp, x = trained(2), torch.randn(2, 9, 3)
    for mode in (True, False):
        mlp.train(mode)
        k, layers = 1, []
        for number, (weight, bias) in enumerate(zip(mlp.weights, mlp.biases, strict=True)):
            linear = nn.Linear(weight.shape[1], weight.shape[2])
            linear.weight.data, linear.bias.data = weight[k].data.T, bias[k, 0].data
            layers.append(linear)
            if number < 2:
                norm, own = nn.BatchNorm1d(weight.shape[2]), mlp.norms[number]
                norm.weight.data, norm.bias.data = own.weight[k, 0].data, own.bias[k, 0].data
                norm.running_mean, norm.running_var = (
                    own.mean[k, 0].clone(),
                    own.variance[k, 0].clone(),
                )
                layers += [norm, nn.LeakyReLU(0.2)]
        expected = nn.Sequential(*layers).train(mode)(x[k])
        close(mlp(x)[k], expected)
