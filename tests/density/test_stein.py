"""The kernel Stein test: its kernel against autograd, its error rate, and its power."""

from __future__ import annotations

import torch
from torch import Generator, Tensor

from gedilearn.density.findings import stein_kernel, stein_test


def draws(n: int, d: int, seed: int) -> Tensor:
    return torch.randn(n, d, generator=Generator().manual_seed(seed), dtype=torch.float64)


def test_the_kernel_is_what_the_definition_gives_by_autograd() -> None:
    x, score = draws(6, 3, 0), draws(6, 3, 1)
    squares = torch.cdist(x, x).square()
    w = squares[~torch.eye(6, dtype=torch.bool)].median()

    def kernel(a: Tensor, b: Tensor) -> Tensor:
        return (1 + (a - b).square().sum() / w) ** -0.5

    found = stein_kernel(x, score)
    for i in range(6):
        for j in range(6):
            if i == j:
                continue
            a, b = x[i].clone().requires_grad_(), x[j].clone().requires_grad_()
            k = kernel(a, b)
            by_a, by_b = torch.autograd.grad(k, (a, b), create_graph=True)
            rows = [torch.autograd.grad(by_a[m], b, retain_graph=True)[0][m] for m in range(3)]
            brute = score[i] @ score[j] * k + score[i] @ by_b + score[j] @ by_a + sum(rows)
            assert torch.allclose(found[i, j], brute)


def test_points_of_the_density_are_refuted_as_rarely_as_said() -> None:
    values = [
        stein_test(x, -x, Generator().manual_seed(k))[1]
        for k in range(40)
        for x in [draws(100, 2, k)]
    ]
    assert sum(p < 0.05 for p in values) <= 7  # 2 expected


def test_points_of_another_density_are_refuted() -> None:
    x = draws(300, 2, 0)
    shifted, wider = x + 0.5, 1.5 * x
    for other in (shifted, wider):
        assert stein_test(other, -other, Generator().manual_seed(0))[1] < 0.01
