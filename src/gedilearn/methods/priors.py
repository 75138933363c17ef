"""The prior p(y) that PRIOR and the certificate hold clusterings against.

Clusters have no names before training, so a prior is a set of proportions: which cluster gets which
is settled by the clustering itself. A prior of unequal proportions is therefore not applied at
once: while predictions are soft, the wrong part of the data may take the large share and keep it.
Training begins under the uniform prior; once it has sorted the points (`SETTLED`), the proportions
are dealt to the clusters in the order of their sizes.
"""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor

# Progress after which predictions have sorted the points, though they are still soft.
SETTLED = 0.25


class Prior(Protocol):
    """Gives p(y) for logits (..., batch, clusters): (..., clusters), or None for uniform."""

    def training(self, logits: Tensor, progress: float) -> Tensor | None:
        """The target at `progress` in [0, 1] of the training."""
        ...

    def final(self, logits: Tensor) -> Tensor | None:
        """The target that a finished clustering is held against."""
        ...


class Uniform:
    """All clusters alike: the prior of the paper."""

    def training(self, logits: Tensor, progress: float) -> None:
        return None

    def final(self, logits: Tensor) -> None:
        return None


class Given:
    """Known proportions, in any order: the largest cluster is held against the largest."""

    def __init__(self, proportions: Tensor) -> None:
        self.descending = proportions.sort(descending=True).values

    def training(self, logits: Tensor, progress: float) -> Tensor | None:
        return None if progress < SETTLED else self.final(logits)

    def final(self, logits: Tensor) -> Tensor:
        order = shares(logits).argsort(dim=-1, descending=True)
        target = self.descending.to(logits).expand(order.shape)
        return torch.empty_like(target).scatter_(-1, order, target)


class Estimated:
    """Proportions read off the clustering itself, `prior="auto"`.

    The risk: what the clustering does is then right by definition, so PRIOR no longer holds
    clusters of the wrong size apart, and small clusters may die. Two things limit it. No proportion
    falls below a tenth of the even share, so an empty cluster still costs; and estimation begins
    only when the points are sorted.
    """

    FLOOR = 0.1

    def training(self, logits: Tensor, progress: float) -> Tensor | None:
        return None if progress < SETTLED else self.final(logits)

    def final(self, logits: Tensor) -> Tensor:
        target = shares(logits).clamp_min(self.FLOOR / logits.shape[-1])
        return target / target.sum(-1, keepdim=True)


def shares(logits: Tensor) -> Tensor:
    """The share of points whose likeliest cluster it is: (..., batch, clusters) -> (..., clusters).

    Labels count, not probabilities: under the uniform prior, a cluster that is too large for it
    keeps its points by a bare majority, and only the labels show its size.
    """
    labels = logits.detach().argmax(-1, keepdim=True)
    return torch.zeros_like(logits.detach()).scatter_(-1, labels, 1.0).mean(-2)


def make_prior(setting: tuple[float, ...] | str | None) -> Prior:
    """From the setting: None, 'auto', or proportions."""
    if setting is None:
        return Uniform()
    if isinstance(setting, str):
        return Estimated()
    return Given(torch.tensor(setting, dtype=torch.float64))
