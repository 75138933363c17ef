"""What several processes (ranks) compute together, with gradients.

Every rank computes the loss of the joined batch, and the backward pass of the training averages
gradients over ranks. The gradient of each exchange below sums over ranks, which cancels that
average: N ranks do what one does on the joined batch.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor


def n_ranks() -> int:
    return dist.get_world_size() if dist.is_available() and dist.is_initialized() else 1


def deal(items: Tensor) -> Tensor:
    """This rank's share of a vector; all have equally many, so a few at the end may be left out."""
    ranks = n_ranks()
    if ranks == 1:
        return items
    return items[: max(len(items) // ranks, 1) * ranks][dist.get_rank() % len(items) :: ranks]


def gather(x: Tensor) -> Tensor:
    """Join all ranks' batches: (members, batch, ...) -> (members, ranks * batch, ...)."""
    if n_ranks() == 1:
        return x
    joined: Tensor = _Gather.apply(x)  # type: ignore[no-untyped-call]
    return joined


def rank_mean(x: Tensor) -> Tensor:
    """The mean over ranks of a tensor of any shape."""
    if n_ranks() == 1:
        return x
    mean: Tensor = _Mean.apply(x)  # type: ignore[no-untyped-call]
    return mean


class _Gather(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.batch = x.shape[1]
        parts = [
            torch.empty_like(x, memory_format=torch.contiguous_format) for _ in range(n_ranks())
        ]
        dist.all_gather(parts, x.contiguous())
        return torch.cat(parts, dim=1)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        # A copy: the gradient given may also be another operation's.
        total = gradient.clone(memory_format=torch.contiguous_format)
        dist.all_reduce(total)
        return total.narrow(1, dist.get_rank() * ctx.batch, ctx.batch)


class _Mean(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        total = x.clone(memory_format=torch.contiguous_format)
        dist.all_reduce(total)
        return total / n_ranks()

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        total = gradient.clone(memory_format=torch.contiguous_format)
        dist.all_reduce(total)
        return total / n_ranks()
