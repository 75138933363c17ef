"""Which points make up the next batch: shuffled epochs, the same on every rank."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


class Batches:
    """Deals `n` points in batches; each point comes once before any comes again.

    It has a generator of its own, so that all ranks agree; rank r of R takes every R-th point of
    the joined batch. With no more points than `batch_size` every batch is the whole data set.
    """

    def __init__(self, n: int, batch_size: int, seed: int, rank: int = 0, ranks: int = 1) -> None:
        self.size = min(batch_size, n) // ranks * ranks
        self.rank, self.ranks = rank, ranks
        self.generator = torch.Generator().manual_seed(seed)
        self.n = n
        self.order = torch.empty(0, dtype=torch.long)

    def next(self) -> Tensor:
        """Indices of this rank's share of the next joined batch."""
        while len(self.order) < self.size:
            fresh = torch.randperm(self.n, generator=self.generator)
            self.order = torch.cat([self.order, fresh])
        joined, self.order = self.order[: self.size], self.order[self.size :]
        return joined[self.rank :: self.ranks]

    def state(self) -> dict[str, Any]:
        return {"order": self.order, "generator": self.generator.get_state()}

    def restore(self, state: dict[str, Any]) -> None:
        self.order = state["order"]
        self.generator.set_state(state["generator"])
