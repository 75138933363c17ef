"""A trained network on data of any size: one member, no gradients kept, batch by batch."""

from __future__ import annotations

import copy
from collections.abc import Callable

import torch
from torch import Tensor

from gedilearn.models.energy import EnergyModel, Output
from gedilearn.sampling.langevin import value_and_gradient

BATCH = 4_096


def outputs(model: EnergyModel, x: Tensor) -> Output:
    """Features (n, h) and logits (n, clusters) of x, (n, ...)."""

    def function(network: EnergyModel, batch: Tensor) -> tuple[Tensor, ...]:
        with torch.no_grad():
            return tuple(network(batch[None])[:2])

    features, logits = _in_batches(model, x, function)
    return Output(features, logits)


def gradient_norms(model: EnergyModel, x: Tensor) -> Tensor:
    """||d log p(x) / dx||: (n,)."""

    def function(network: EnergyModel, batch: Tensor) -> tuple[Tensor, ...]:
        with network.fixed():
            _, gradient = value_and_gradient(network.log_density, batch[None])
        return (gradient.flatten(2).norm(dim=-1),)

    (norms,) = _in_batches(model, x, function)
    return norms


def _in_batches(
    model: EnergyModel, x: Tensor, function: Callable[[EnergyModel, Tensor], tuple[Tensor, ...]]
) -> list[Tensor]:
    """Apply `function` batch by batch and join what it returns, without the member axis.

    Vectors are evaluated in double precision, so that a point's result does not depend on which
    others share its batch; images stay in single precision for speed.
    """
    network = copy.deepcopy(model).eval()
    if x.dim() == 2:
        network, x = network.double(), x.double()
    parts = [function(network, batch) for batch in torch.split(x, BATCH)]
    return [torch.cat(column, dim=1)[0] for column in zip(*parts, strict=True)]
