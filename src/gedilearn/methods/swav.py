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

from collections.abc import Sequence

import torch
from torch import Tensor

from gedilearn.errors import InputError
from gedilearn.methods.method import Batch, Forward, Method, share
from gedilearn.models.energy import EnergyModel, log_posterior
from gedilearn.models.heads import PrototypeHead
from gedilearn.ranks import gather
from gedilearn.settings import SwAV as Options


def sinkhorn(scores: Tensor, epsilon: float = 0.05, iterations: int = 3) -> Tensor:
    """Assignments that use all clusters about equally: (..., batch, clusters) -> the same.

    Sinkhorn-Knopp in the log domain, so that scores of +-1e4 neither overflow nor turn into NaN.
    Rows sum to 1; columns are as near to batch / clusters as `iterations` rounds bring them.
    """
    if not epsilon > 0 or iterations < 1:
        raise InputError(f"epsilon={epsilon}, iterations={iterations}: both must be positive")
    log_q = scores.detach().to(torch.promote_types(scores.dtype, torch.float32)) / epsilon
    for _ in range(iterations):
        log_q = log_q - log_q.logsumexp(-2, keepdim=True)
        log_q = log_q - log_q.logsumexp(-1, keepdim=True)
    return log_q.exp()


class SwAV(Method):
    """Each view predicts the assignment of the other.

    A queue, when asked for, holds embeddings of the last batches of each view: they take part in
    the assignments, which few points could not spread over many clusters, and in nothing else.
    """

    two_views = True
    remembered = ("queue",)

    def __init__(self, options: Options) -> None:
        self.options = options
        self.queue: Tensor | None = None  # (2, members, n, d), newest last

    def terms(self, forward: Forward, model: EnergyModel, batch: Batch) -> dict[str, Tensor]:
        """One pass over both views, which therefore share batch statistics, as in SwAV's code."""
        head = model.head
        assert isinstance(head, PrototypeHead)
        n = len(batch.index)
        out = forward(torch.cat([share(batch.x, model), share(batch.view, model)], dim=1))
        assert out.embedding is not None
        logits = torch.stack([gather(half) for half in torch.split(out.logits, n, dim=1)])
        scores = logits.detach() * model.temperature  # (2, members, batch, clusters)
        if self.options.queue:
            scores = self._with_queue(head, out.embedding.detach(), scores, batch.progress)
        assignments = sinkhorn(scores, self.options.epsilon, self.options.iterations)
        assignments = assignments[..., -logits.shape[-2] :, :]
        swapped = -(assignments.flip(0) * log_posterior(logits)).sum(-1)
        return {"swap": swapped.mean((0, -1))}

    def before_step(self, model: EnergyModel, progress: float) -> None:
        """Freeze the prototypes at the beginning, if asked for."""
        assert isinstance(model.head, PrototypeHead)
        if progress <= self.options.freeze and model.head.prototypes.grad is not None:
            model.head.prototypes.grad.zero_()

    def after_step(self, model: EnergyModel, progress: float) -> None:
        assert isinstance(model.head, PrototypeHead)
        model.head.normalise()

    def _with_queue(
        self, head: PrototypeHead, embedding: Tensor, scores: Tensor, progress: float
    ) -> Tensor:
        """Scores of the queue before those of the batch; the batch then joins the queue."""
        half = embedding.shape[1] // 2
        new = torch.stack([gather(part) for part in torch.split(embedding, half, dim=1)])
        old, size = self.queue, self.options.queue
        if old is not None:
            old = old.to(new)  # a checkpoint comes without its device
        self.queue = (new if old is None else torch.cat([old, new], dim=-2))[..., -size:, :]
        if old is None or old.shape[-2] < size or progress < self.options.queue_from:
            return scores
        with torch.no_grad():
            past = torch.stack([head.compare(view) for view in old])
        return torch.cat([past, scores], dim=-2)

    def select(self, members: Sequence[int]) -> None:
        if self.queue is not None:
            self.queue = self.queue[:, list(members)]
