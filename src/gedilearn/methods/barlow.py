"""Barlow Twins: redundancy reduction (Zbontar et al., 2021).

Symbols of that paper and where they are here:

    Z^A, Z^B    embeddings of two views         the model's logits, times its temperature
    C           their cross-correlation         `cross_correlation`
    lambda      weight of its off-diagonal      `barlow.off_diagonal`

It has no clusters of its own, and the GEDI paper does not say how it gets some. The embedding has
one coordinate a cluster, and either the largest coordinate is the cluster, or k-means on the
embedding decides: k-means labels are those of a linear classifier, which is then built into the
network's last layer.
"""

from __future__ import annotations

import torch
from torch import Tensor

from gedilearn.methods.method import Batch, Forward, Method, k_means, share
from gedilearn.models.energy import EnergyModel, logits_of
from gedilearn.models.mlp import MLP
from gedilearn.ranks import gather

EPSILON = 1e-5  # added to variances, as batch normalisation does


def cross_correlation(a: Tensor, b: Tensor) -> Tensor:
    """Correlations over the batch: (..., batch, d), (..., batch, d) -> (..., d, d)."""
    return _standardised(a).mT @ _standardised(b) / a.shape[-2]


def redundancy(correlation: Tensor, off_diagonal: float) -> Tensor:
    """Distance of the diagonal from 1 and, weighted, of the rest from 0: (..., d, d) -> (...)."""
    diagonal = correlation.diagonal(dim1=-2, dim2=-1)
    on = (diagonal - 1).square().sum(-1)
    off = correlation.square().sum((-2, -1)) - diagonal.square().sum(-1)
    return on + off_diagonal * off


class BarlowTwins(Method):
    """Embeddings of two views agree in each coordinate, and coordinates say different things."""

    two_views = True

    def terms(self, forward: Forward, model: EnergyModel, batch: Batch) -> dict[str, Tensor]:
        """One pass a view, each with its own batch statistics, as published."""
        a, b = (gather(forward(share(x, model)).logits) for x in (batch.x, batch.view))
        loss = redundancy(cross_correlation(a, b), self.options.off_diagonal)
        return {"redundancy": self.options.scale * loss}

    def conclude(self, model: EnergyModel, data: Tensor) -> bool:
        """Build the clusters of k-means into the last layer, if they are asked for."""
        if self.options.assign == "argmax":
            return False
        assert isinstance(model.head, MLP)
        embedding = logits_of(model, data) * model.temperature  # what the last layer gives
        found = k_means(embedding.double().cpu().numpy(), embedding.shape[-1])
        centres = torch.from_numpy(found.cluster_centers_).to(model.head.weights[-1])
        _append(model.head, 2 * centres.mT, -centres.square().sum(-1))
        return True


@torch.no_grad()
def _append(head: MLP, weight: Tensor, bias: Tensor) -> None:
    """Compose the last layer with another: z -> z weight + bias.

    Of -|z - c|^2 the part that differs between centres c is 2 z c - |c|^2: linear in z.
    """
    head.biases[-1].copy_(head.biases[-1] @ weight + bias)
    head.weights[-1].copy_(head.weights[-1] @ weight)


def _standardised(z: Tensor) -> Tensor:
    centred = z - z.mean(-2, keepdim=True)
    return centred * (centred.square().mean(-2, keepdim=True) + EPSILON).rsqrt()
