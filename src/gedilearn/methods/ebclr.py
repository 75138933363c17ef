"""EBCLR: contrastive learning as a joint density of two views (Kim & Ye, 2022, arXiv 2202.04933).

Symbols, and where they are here:

    v, v'       two views of a point                   `Batch.x`, `Batch.view`
    z, z'       their embeddings, of length 1          `Output.embedding`
    tau         the temperature                        `Options.temperature`
    q(v, v')    exp(-|z - z'|^2 / tau) / Z             `closeness` is its logarithm up to a constant
    q(v)        mean of q(v, v') over the batch of v'  `log_marginal`, without Z
    q(v'|v)     q(v, v') / q(v)                        `contrast`
    lambda      weight of log q(v)                     `Options.generative`

Training maximises log q(v'|v) + lambda log q(v). The first is the term "contrast". As in the public
code of the paper (github.com/1202kbs/EBCLR), each of the 2n views of a batch has to find its
partner among the 2n - 1 others, and both directions are averaged. The gradient of the second is
that of the term "marginal": log q at samples minus log q at data. Samples come from the chains of
`sampling`, which follow the gradient of log q(v) itself; the v' that q(v) is measured against are
the second views of the batch of all ranks, the same for samples and data. The term "length" is the
published penalty on projections before they are normalised.

All log q lie within 4 / tau of each other, so "marginal" cannot run away as GEN can. It has a name
of its own because the guard takes a wide GEN for divergence: here it says that chains do not reach
the data, which calmer steps would not mend.

EBCLR has no clusters. Here k-means finds some in the embedding when training is over, and its
centres, brought to length 1, become the prototypes c of the head, which until then are random and
take no part.
The temperature of the network is tau / 2, so the logits 2 z c / tau are -|z - c|^2 / tau up to a
constant. What the library reads from them as log p(x) is then log q(v), measured against the
centres instead of the v'.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from gedilearn.fields import value_at
from gedilearn.methods.method import Batch, Context, Forward, Method, k_means, make_sampler, share
from gedilearn.methods.settings import Ebclr as Options
from gedilearn.models.energy import EnergyModel, in_batches, log_density, log_posterior
from gedilearn.models.heads import PrototypeHead
from gedilearn.ranks import gather
from gedilearn.sampling.langevin import Sampler


def closeness(a: Tensor, b: Tensor, temperature: float) -> Tensor:
    """(2 - |a - b|^2) / tau of unit vectors: (..., n, d), (..., m, d) -> (..., n, m).

    The 2 is what a product leaves out; `log_marginal` takes it off again, once a point.
    """
    return (a * (2 / temperature)) @ b.mT


def log_marginal(a: Tensor, b: Tensor, temperature: float) -> Tensor:
    """log q(v) + log Z, from -4 / tau to 0, of views a, measured against the views b.

    Unit vectors (..., n, d), (..., m, d) -> (..., n).
    """
    return log_density(closeness(a, b, temperature)) - (2 / temperature + math.log(b.shape[-2]))


def contrast(a: Tensor, b: Tensor, temperature: float) -> Tensor:
    """Mean of -log q(v'|v) over both directions: unit vectors (..., n, d), twice -> (...)."""
    n, both = a.shape[-2], torch.cat([a, b], dim=-2)
    itself = torch.eye(2 * n, dtype=torch.bool, device=a.device)
    others = closeness(both, both, temperature).masked_fill(itself, -math.inf)
    log_q = log_posterior(others)
    forth, back = (log_q.diagonal(offset, dim1=-2, dim2=-1) for offset in (n, -n))
    return -(forth + back).mean(-1) / 2


class EBCLR(Method):
    """Views of a point are close to each other, and likely under their joint density.

    `sampler` draws x~, `n_samples` on each rank and in each iteration; None where lambda is 0.
    `extra` is added to the weight of "length": the damping after a divergence.
    """

    two_views = True

    def __init__(
        self,
        options: Options,
        sampler: Sampler | None = None,
        n_samples: int = 0,
        extra: float = 0.0,
    ) -> None:
        self.options = options
        self.sampler = sampler
        self.n_samples = n_samples
        weight = options.generative
        self.weights = {
            "contrast": 1.0,
            "marginal": weight,
            "length": weight * options.length + extra,
        }

    @classmethod
    def make(cls, context: Context) -> EBCLR:
        options: Options = context.settings.own
        if not options.generative:
            return cls(options)
        # A recovery raises the penalty on energies. These are bounded here; lengths are not.
        extra = value_at(context.weights.energy, 0) - value_at(context.settings.weights.energy, 0)
        return cls(options, *make_sampler(context), extra)

    def terms(self, forward: Forward, model: EnergyModel, batch: Batch) -> dict[str, Tensor]:
        """One pass over both views, and one over the samples, which need those of v' first."""
        n, tau = len(batch.index), self.options.temperature
        out = forward(torch.cat([share(batch.x, model), share(batch.view, model)], dim=1))
        assert out.embedding is not None and out.projection is not None
        z, z_other = (gather(half) for half in torch.split(out.embedding, n, dim=1))
        # The prototypes are not trained, but ranks and optimiser ask for a gradient of each.
        named = {"contrast": contrast(z, z_other, tau) + 0 * out.logits.sum((1, 2))}
        if self.sampler is None:
            return named
        against = z_other.detach()

        def log_q(x: Tensor) -> Tensor:
            embedding = model(x).embedding
            assert embedding is not None
            return log_marginal(embedding, against, tau)

        with model.fixed():
            samples = self.sampler.draw(log_q, self.n_samples, batch.generator).samples
        drawn = forward(samples)
        assert drawn.embedding is not None and drawn.projection is not None
        of_samples = log_marginal(gather(drawn.embedding), z_other, tau)
        named["marginal"] = of_samples.mean(-1) - log_marginal(z, z_other, tau).mean(-1)
        lengths = (gather(p.square().sum(-1)) for p in (out.projection[:, :n], drawn.projection))
        named["length"] = torch.stack([squared.mean(-1) for squared in lengths]).sum(0)
        return named

    def total(self, named: dict[str, Tensor], progress: float) -> Tensor:
        return torch.stack([self.weights[name] * term for name, term in named.items()]).sum(0)

    def conclude(self, model: EnergyModel, data: Tensor) -> bool:
        """Make the directions of the centres of k-means the prototypes."""
        assert isinstance(model.head, PrototypeHead)
        (z,) = in_batches(model, data, lambda network, x: (network(x).embedding,))
        if not z.isfinite().all():  # of a network that never was
            return False
        found = k_means(z.double().cpu().numpy(), model.head.prototypes.shape[-1])
        with torch.no_grad():
            model.head.prototypes.copy_(torch.from_numpy(found.cluster_centers_.T[None]))
        model.head.normalise()
        return True
