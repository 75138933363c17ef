"""A classifier read as an energy-based model: the only file that knows the two identities.

With logits f_y(enc(x)) / tau (Eq. 6 of the paper):

    p(y | x)  = softmax over y of the logits
    log p(x)  = logsumexp over y of the logits - log Gamma

Gamma does not depend on x, so log-densities here are known up to one constant for each network.
Everything else in the library asks this module.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn

from gedilearn.models.members import MemberModule
from gedilearn.models.mlp import MLP


def log_posterior(logits: Tensor) -> Tensor:
    """log p(y | x).  logits: (..., clusters) -> (..., clusters)."""
    return torch.log_softmax(logits, dim=-1)


def posterior(logits: Tensor) -> Tensor:
    """p(y | x).  logits: (..., clusters) -> (..., clusters)."""
    return torch.softmax(logits, dim=-1)


def log_density(logits: Tensor) -> Tensor:
    """log p(x) up to the constant log Gamma.  logits: (..., clusters) -> (...)."""
    return torch.logsumexp(logits, dim=-1)


class Output(NamedTuple):
    """What the networks say of a batch."""

    features: Tensor  # (members, batch, h): enc(x)
    logits: Tensor  # (members, batch, clusters): f(enc(x)) / tau


class EnergyModel(nn.Module):
    """Encoder, head and temperature tau, for one or several member networks at once.

    Input is (members, batch, ...): a batch that all members share is expanded by the caller, which
    costs no memory.
    """

    def __init__(self, encoder: MemberModule, head: MLP, temperature: float = 1.0) -> None:
        super().__init__()
        self.encoder = encoder
        self.head = head
        self.temperature = temperature

    @property
    def n_members(self) -> int:
        return self.encoder.n_members

    @property
    def n_features(self) -> int:
        """Width h of the representation."""
        return self.head.widths[0]

    def forward(self, x: Tensor) -> Output:
        features = self.encoder(x)
        logits = self.head(features)
        return Output(features, logits if self.temperature == 1.0 else logits / self.temperature)

    def log_density(self, x: Tensor) -> Tensor:
        """log p(x) up to a constant.  x: (members, batch, ...) -> (members, batch)."""
        return log_density(self(x).logits)

    def select(self, indices: Sequence[int]) -> EnergyModel:
        """A copy that holds only these members, in this order."""
        return EnergyModel(
            self.encoder.select(indices), self.head.select(indices), self.temperature
        )

    def gradient_norms(self) -> Tensor:
        """The gradient's Euclidean norm, member by member: (members,)."""
        squares = self.encoder.gradient_squares() + self.head.gradient_squares()
        return squares.sqrt()

    def scale_gradients(self, factors: Tensor) -> None:
        """Multiply each member's gradient by its factor, in place.  factors: (members,)."""
        self.encoder.scale_gradients(factors)
        self.head.scale_gradients(factors)
