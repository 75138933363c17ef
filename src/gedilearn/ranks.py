"""What several processes (ranks) compute together.

With gradients: every rank computes the loss of the joined batch, and the backward pass of the
training averages gradients over ranks. The gradient of each exchange below sums over ranks, which
cancels that average. N ranks are then equal to one on the joined batch.

Without gradients: ranks divide the rows of the data among them, and all receive the results.
"""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor


def n_ranks() -> int:
    return dist.get_world_size() if dist.is_available() and dist.is_initialized() else 1


def own_rank() -> int:
    return dist.get_rank() if n_ranks() > 1 else 0


def own_share(items: Tensor) -> Tensor:
    """This rank's share of a vector; shares are equal, and a few last items may be left out."""
    ranks = n_ranks()
    if ranks == 1:
        return items
    return items[: max(len(items) // ranks, 1) * ranks][dist.get_rank() % len(items) :: ranks]


def gather(x: Tensor) -> Tensor:
    """Join all ranks' batches: (members, batch, ...) -> (members, ranks * batch, ...)."""
    if n_ranks() == 1:
        return x
    batch, begin = x.shape[1], own_rank() * x.shape[1]
    joined = x.new_zeros(len(x), n_ranks() * batch, *x.shape[2:])
    joined[:, begin : begin + batch] = x
    return _rank_sum(joined)


def rank_mean(x: Tensor) -> Tensor:
    """The mean over ranks of a tensor of any shape."""
    return x if n_ranks() == 1 else _rank_sum(x) / n_ranks()


def by_shares(
    out: Tensor, step: int, compute: Callable[[slice], Tensor], shared: bool = True
) -> Tensor:
    """`out` (n, ...), zeros, filled with the results of `compute` for every `step` rows.

    `shared`: all ranks call this at the same time and divide the rows among them. The steps do not
    depend on the number of ranks: rounding in a product may depend on which rows are multiplied at
    once.
    """
    rank, ranks = (own_rank(), n_ranks()) if shared else (0, 1)
    parts = -(-len(out) // step)
    for k in range(parts * rank // ranks, parts * (rank + 1) // ranks):
        rows = slice(k * step, min((k + 1) * step, len(out)))
        out[rows] = compute(rows)
    if ranks > 1:
        joined = out.to(_place())
        dist.all_reduce(joined)
        out = joined.to(out.device)
    return out


def _place() -> str:
    """The device of exchanged tensors: NCCL takes those of graphics cards alone."""
    return "cuda" if dist.get_backend() == "nccl" else "cpu"


def _rank_sum(x: Tensor) -> Tensor:
    total: Tensor = _RankSum.apply(x)  # type: ignore[no-untyped-call]
    return total


class _RankSum(torch.autograd.Function):
    """The sum over ranks, of values and of gradients."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        total = x.clone(memory_format=torch.contiguous_format)
        dist.all_reduce(total)
        return total

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        return _RankSum.forward(ctx, gradient)


# --- threads --------------------------------------------------------------------------------------
#
# What several threads of one process do one after another.


# Held while a library changes state that all threads share. scikit-learn limits BLAS to a single
# thread, which changes the last digits of other products, and later restores the earlier limit. Of
# two overlapping searches, the second would restore the limit of the first. `catch_warnings` does
# the same to filters.
ONE_AT_A_TIME = threading.RLock()


@contextmanager
def fitting() -> Iterator[None]:
    """For a fit of scikit-learn's: one at a time, without warnings that it has not converged."""
    from sklearn.exceptions import ConvergenceWarning

    with ONE_AT_A_TIME, warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        yield
