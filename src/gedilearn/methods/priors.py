"""The prior p(y) that PRIOR and the certificate compare clusterings with.

Clusters have no names before training, so a prior is a set of proportions: the clustering itself
decides which cluster gets which. Unequal proportions are not applied at once: while predictions are
soft, the wrong points may take the large share and keep it. Training begins under the uniform
prior. Once it has sorted the points (`SETTLED`), the proportions are assigned to the clusters in
the order of their sizes.
"""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor

# Progress after which predictions have sorted the points, though they are still soft.
SETTLED = 0.25


class Prior(Protocol):
    """Gives p(y) for logits (members, batch, clusters): (members, clusters), None for uniform."""

    state: Tensor | None  # what a checkpoint keeps

    def training(self, logits: Tensor, progress: float) -> Tensor | None:
        """The target at `progress` in [0, 1] of the training."""
        ...

    def final(self, logits: Tensor) -> Tensor | None:
        """The target that the certificate compares the clustering with."""
        ...


class Fixed:
    """One target for good; None is the uniform prior of the paper."""

    state: Tensor | None = None

    def __init__(self, target: Tensor | None = None) -> None:
        self.target = target

    def training(self, logits: Tensor, progress: float) -> Tensor | None:
        return self.target

    def final(self, logits: Tensor) -> Tensor | None:
        return self.target


class Given:
    """Given proportions, in any order: the largest belongs to the largest cluster."""

    state: Tensor | None = None

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

    The shares of the clusters are averaged over the last batches before `SETTLED` and frozen there:
    an estimate that went on would make whatever training does right by definition, and small
    clusters would die. No proportion falls below a tenth of the even share, so an empty cluster
    still costs. The risk that remains: clusters that are sorted wrongly by then are held in the
    wrong proportions, and a certificate under an estimated prior says less than one under a known
    prior.
    """

    FLOOR = 0.1
    MEMORY = 0.98

    def __init__(self) -> None:
        self.state: Tensor | None = None  # (members, clusters): averaged shares
        self.settled = False

    def training(self, logits: Tensor, progress: float) -> Tensor | None:
        if progress < SETTLED:
            now = shares(logits)
            self.state = now if self.state is None else self.state.lerp(now, 1 - self.MEMORY)
        self.settled = progress >= SETTLED
        return self.final(logits)

    def final(self, logits: Tensor) -> Tensor | None:
        if self.state is None or not self.settled:
            return None
        target = self.state.to(logits).clamp_min(self.FLOOR / logits.shape[-1])
        return target / target.sum(-1, keepdim=True)


class Found:
    """The proportions of the clusters that training begins with, `prior="auto"` there.

    (members, clusters). No proportion is below `Estimated.FLOOR` of the even share.
    """

    def __init__(self, proportions: Tensor) -> None:
        floor = Estimated.FLOOR / proportions.shape[-1]
        target = proportions.clamp_min(floor)
        self.state: Tensor | None = target / target.sum(-1, keepdim=True)

    def training(self, logits: Tensor, progress: float) -> Tensor | None:
        return self.final(logits)

    def final(self, logits: Tensor) -> Tensor | None:
        assert self.state is not None
        return self.state.to(logits)


def shares(logits: Tensor) -> Tensor:
    """The share of points whose likeliest cluster it is: (..., batch, clusters) -> (..., clusters).

    Labels count, not probabilities: under the uniform prior, a cluster that is too large for it
    keeps its points by a bare majority, and only the labels show its size.
    """
    labels = logits.detach().argmax(-1, keepdim=True)
    return torch.zeros_like(logits.detach()).scatter_(-1, labels, 1.0).mean(-2)


def make_prior(setting: tuple[float, ...] | str, found: Tensor | None = None) -> Prior:
    """From the setting: 'uniform', 'auto', or proportions.

    `found`, (members, clusters), are the proportions that training begins with.
    """
    if setting == "uniform":
        return Fixed()
    if isinstance(setting, str):
        return Estimated() if found is None else Found(found)
    return Given(torch.tensor(setting, dtype=torch.float64))
