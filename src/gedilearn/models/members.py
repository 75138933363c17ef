"""Several networks of one shape, trained side by side.

Initialisations, seeds and the points of a weight sweep are all "members": the first axis of every
activation. `models.mlp` computes them in batched products; `Members` does the same for any module,
one forward pass a member.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import Tensor, nn


class MemberModule(nn.Module):
    """A module over (members, batch, ...) whose parameters belong to one member each."""

    n_members: int

    def select(self, indices: Sequence[int]) -> MemberModule:
        """A copy that holds only these members, in this order."""
        raise NotImplementedError

    def join(self, others: Sequence[Any]) -> MemberModule:
        """A copy that holds the members of this one and of others of the same shape."""
        raise NotImplementedError

    def gradient_squares(self) -> Tensor:
        """Sum of squared gradient entries: (members,)."""
        raise NotImplementedError

    def scale_gradients(self, factors: Tensor) -> None:
        """Multiply each member's gradient by its factor, in place.  factors: (members,)."""
        raise NotImplementedError


class Members(MemberModule):
    """Separate networks behind the member interface; outputs are flattened to vectors."""

    def __init__(self, networks: Iterable[nn.Module]) -> None:
        super().__init__()
        self.networks = nn.ModuleList(networks)
        self.n_members = len(self.networks)

    def forward(self, x: Tensor) -> Tensor:
        return torch.stack([net(x[k]).flatten(1) for k, net in enumerate(self.networks)])

    def select(self, indices: Sequence[int]) -> Members:
        return Members(copy.deepcopy(self.networks[k]) for k in indices)

    def join(self, others: Sequence[Members]) -> Members:
        return Members(copy.deepcopy(net) for one in (self, *others) for net in one.networks)

    def gradient_squares(self) -> Tensor:
        return torch.stack(
            [sum((g.square().sum() for g in _gradients(n)), torch.zeros(())) for n in self.networks]
        )

    def scale_gradients(self, factors: Tensor) -> None:
        for net, factor in zip(self.networks, factors, strict=True):
            for gradient in _gradients(net):
                gradient.mul_(factor)


def _gradients(module: nn.Module) -> list[Tensor]:
    return [p.grad for p in module.parameters() if p.grad is not None]
