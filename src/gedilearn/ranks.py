"""What several processes (ranks) compute together.

With gradients: every rank computes the loss of the joined batch, and the backward pass of the
training averages gradients over ranks. The gradient of each exchange below sums over ranks, which
cancels that average: N ranks do what one does on the joined batch.

Without: work on all rows of the data is shared out, and all ranks have what came of it.
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
    """This rank's share of a vector; all have equally many, so a few at the end may be left out."""
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
    """`out` (n, ...), zeros, filled with what `compute` gives for every `step` rows of n.

    Ranks that all do this at the same time have the rows `shared` out among them. The steps do not
    depend on how many ranks there are: numbers that come of products may depend on which rows are
    multiplied at once.
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
    """Where tensors must be to be exchanged: what does it for graphics cards takes no others."""
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


# Held while a library changes what all threads share. scikit-learn lets BLAS compute with a single
# thread meanwhile, which changes the last digits of other products, and then puts back what it
# found: of two overlapping searches, the second finds the first one's limit. `catch_warnings` does
# the same to filters.
ONE_AT_A_TIME = threading.RLock()


@contextmanager
def fitting() -> Iterator[None]:
    """One fit of scikit-learn's at a time; that it has not converged is no warning."""
    from sklearn.exceptions import ConvergenceWarning

    with ONE_AT_A_TIME, warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        yield
