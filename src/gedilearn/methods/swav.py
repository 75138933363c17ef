"""SwAV: swapped prediction of cluster assignments (Caron et al., 2020).

Symbols of that paper and where they are here:

    z       the embedding, of length 1          `Output.embedding`
    C       the prototypes, of length 1         `PrototypeHead.prototypes`
    z^T C / tau, the logits of p                `Output.logits` (tau is the model's temperature)
    q       Sinkhorn(z^T C / epsilon)           `sinkhorn`, no gradient passes
    L(z_t, z_s) = l(z_t, q_s) + l(z_s, q_t)     the term "swap", here the mean of the two

In Eq. 2 of the GEDI paper's words: p(y|x) is the softmax, q(y|x') comes from Sinkhorn.
"""

from __future__ import annotations

import torch
from torch import Tensor

from gedilearn.methods.method import Batch, Forward, Method, share
from gedilearn.models.energy import EnergyModel, log_posterior
from gedilearn.models.heads import PrototypeHead
from gedilearn.ranks import gather


def sinkhorn(scores: Tensor, epsilon: float = 0.05, iterations: int = 3) -> Tensor:
    """Assignments that use all clusters about equally: (..., batch, clusters) -> the same.

    Sinkhorn-Knopp in the log domain, so that scores of +-1e4 neither overflow nor turn into NaN.
    Rows sum to 1; columns are as near to batch / clusters as `iterations` rounds bring them.
    """
    log_q = scores.detach().to(torch.promote_types(scores.dtype, torch.float32)) / epsilon
    for _ in range(iterations):
        log_q = log_q - log_q.logsumexp(-2, keepdim=True)
        log_q = log_q - log_q.logsumexp(-1, keepdim=True)
    return log_q.exp()


class SwAV(Method):
    """Each view predicts the assignment of the other."""

    two_views = True

    def terms(self, forward: Forward, model: EnergyModel, batch: Batch) -> dict[str, Tensor]:
        """One pass over both views, which therefore share batch statistics, as in SwAV's code."""
        n = len(batch.index)
        out = forward(torch.cat([share(batch.x, model), share(batch.view, model)], dim=1))
        logits = torch.stack([gather(half) for half in torch.split(out.logits, n, dim=1)])
        scores = logits.detach() * model.temperature  # (2, members, batch, clusters)
        assignments = sinkhorn(scores, self.options.epsilon, self.options.iterations)
        swapped = -(assignments.flip(0) * log_posterior(logits)).sum(-1)
        return {"swap": swapped.mean((0, -1))}

    def after_step(self, model: EnergyModel, progress: float) -> None:
        assert isinstance(model.head, PrototypeHead)
        model.head.normalise()
