"""Heads that compare an embedding with prototypes, one for each cluster (SwAV, DINO, EBCLR)."""

from __future__ import annotations

import torch
from torch import Generator, Tensor, nn
from torch.nn import functional as F  # noqa: N812

from gedilearn.models.mlp import MLP, MemberModule


class PrototypeHead(MemberModule):
    """A projector, then the cosines between its output and c prototypes of length 1.

    The training calls `normalise` after each step, as in SwAV: no gradient passes through the
    normalisation of prototypes. Without a generator they are left unset.
    """

    def __init__(self, projector: MLP, n_clusters: int, *, generator: Generator | None) -> None:
        super().__init__()
        self.projector = projector
        self.n_members = projector.n_members
        prototypes = torch.empty(self.n_members, projector.widths[-1], n_clusters)
        if generator is not None:
            prototypes = F.normalize(prototypes.normal_(generator=generator), dim=1)
        self.prototypes = nn.Parameter(prototypes)

    @property
    def n_inputs(self) -> int:
        return self.projector.n_inputs

    def forward(self, features: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The projection, the same at length 1 (the embedding), its cosines with the prototypes.

        (members, batch, h) -> (members, batch, d), twice, and (members, batch, clusters)
        """
        projection = self.projector(features)
        embedding = F.normalize(projection, dim=-1)
        return projection, embedding, torch.bmm(embedding, self.prototypes)

    @torch.no_grad()
    def normalise(self) -> None:
        """Bring the prototypes back to length 1."""
        self.prototypes.copy_(F.normalize(self.prototypes, dim=1))
