"""Importance weights: how many weighted points count, their mean, and points drawn by them."""

from __future__ import annotations

import math

import torch
from torch import Generator, Tensor


def effective_share(weights: Tensor) -> Tensor:
    """Of n weighted points, given the logarithms: 1 for equal weights, 1/n for one that rules.

    (..., n) -> (...).
    """
    ratio = 2 * torch.logsumexp(weights, -1) - torch.logsumexp(2 * weights, -1)
    return ratio.exp() / weights.shape[-1]


def log_mean_exp(weights: Tensor) -> Tensor:
    """(..., n) -> (...)."""
    return torch.logsumexp(weights, -1) - math.log(weights.shape[-1])


def resampled(weights: Tensor, n: int, generator: Generator) -> Tensor:
    """Numbers of n points, each as often as its weight says, to within one, in random order.

    weights: (m,), logarithms -> (n,).
    """
    turn = torch.rand((), generator=generator, device=weights.device).item()
    marks = (torch.arange(n).to(weights) + turn) / n
    chosen = torch.searchsorted(weights.softmax(0).cumsum(0), marks).clamp_max(len(weights) - 1)
    return chosen[torch.randperm(n, generator=generator, device=weights.device)]
