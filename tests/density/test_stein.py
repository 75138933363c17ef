"""The kernel Stein test: its kernel against autograd, its error rate, and its power."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.autograd.functional import hessian, jacobian

from gedilearn.density.stein import stein_kernel, stein_test
from helpers import seeded


def draws(n: int, d: int, seed: int) -> Tensor:
    return torch.randn(n, d, generator=seeded(seed), dtype=torch.float64)


def test_the_kernel_is_what_the_definition_gives_by_autograd() -> None:
    x, score = draws(4, 3, 0), draws(4, 3, 1)
    squares = torch.cdist(x, x).square()
    w = squares[~torch.eye(4, dtype=torch.bool)].median()

    def kernel(a: Tensor, b: Tensor) -> Tensor:
        return (1 + (a - b).square().sum() / w) ** -0.5

    found = stein_kernel(x, score)
    for i, j in ((i, j) for i in range(4) for j in range(4) if i != j):
        by_a, by_b = jacobian(kernel, (x[i], x[j]))
        trace = hessian(kernel, (x[i], x[j]))[0][1].trace()
        brute = score[i] @ score[j] * kernel(x[i], x[j]) + score[i] @ by_b + score[j] @ by_a
        assert torch.allclose(found[i, j], brute + trace)


def test_points_of_the_density_are_refuted_as_rarely_as_said_and_others_are() -> None:
    values = [stein_test(x, -x, seeded(k))[1] for k in range(40) for x in [draws(100, 2, k)]]
    assert sum(p < 0.05 for p in values) <= 7  # 2 expected
    x = draws(300, 2, 0)
    for other in (x + 0.5, 1.5 * x):
        assert stein_test(other, -other, seeded())[1] < 0.01
