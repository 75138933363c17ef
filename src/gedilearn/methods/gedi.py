"""GEDI: GEN + INV + PRIOR on one network (Eq. 5 of the paper).

The ablations and JEM are the same class with other weights (`settings`): *no gen*, *no inv*
and *no unif* set one weight to 0, JEM keeps GEN alone. A term whose weight is 0 throughout is not
computed.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from gedilearn.methods import terms
from gedilearn.methods.method import Batch, Context, Forward, Method, make_chains, share
from gedilearn.methods.priors import Prior
from gedilearn.models.energy import EnergyModel, Reading, read
from gedilearn.ranks import gather, n_ranks
from gedilearn.sampling.langevin import Sampler
from gedilearn.settings import Weights, value_at


class GEDI(Method):
    """Turns a batch into the terms of Algorithm 1.

    `prior` gives p(y). `chains` draw x~ and are needed only while GEN has weight; `n_chains` of
    them in each iteration, None for one a point. `factors`, (members,) each, multiply the weights
    of terms member by member: the points of a sweep. `start`, (members, n), are the labels of the
    clusters that training begins with.
    """

    def __init__(
        self,
        weights: Weights,
        prior: Prior,
        chains: Sampler | None,
        n_chains: int | None = None,
        factors: dict[str, Tensor] | None = None,
        start: Tensor | None = None,
    ) -> None:
        self.weights = weights
        self.prior = prior
        self.chains = chains if weights.gen else None
        self.n_chains = n_chains
        self.factors = factors or {}
        self.start = start if weights.start else None

    @classmethod
    def make(cls, context: Context) -> GEDI:
        chains, n_chains = make_chains(context) if context.weights.gen else (None, None)
        given = (context.weights, context.prior, chains, n_chains, context.factors, context.start)
        return cls(*given)

    def terms(self, forward: Forward, model: EnergyModel, batch: Batch) -> dict[str, Tensor]:
        """One forward pass over x, x' and x~."""
        parts = [share(batch.x, model)]
        if self.weights.inv:
            parts.append(share(batch.view, model))
        if self.chains is not None:
            number = self.n_chains or parts[0].shape[1]
            with model.fixed():
                parts.append(self.chains.draw(model.log_density, number, batch.generator))
        logits = forward(torch.cat(parts, dim=1)).logits
        data, *others = _readings(logits, [part.shape[1] for part in parts])
        named = {}
        if self.weights.inv:
            named["inv"] = terms.invariance(data, others[0], self.weights.symmetric)
        if self.weights.prior:
            target = self.prior.training(data.log_posterior, batch.progress)
            named["prior"] = terms.prior(data, target)
        if self.start is not None:
            named["start"] = terms.start(data, gather(self.start[:, batch.index]))
        if self.chains is not None:
            named["gen"] = terms.generative(data, others[-1])
            if self.weights.energy:
                named["energy"] = terms.energy_scale(data, others[-1])
        return named

    def total(self, named: dict[str, Tensor], progress: float) -> Tensor:
        weighted = [
            value_at(getattr(self.weights, name), progress) * self.factors.get(name, 1.0) * term
            for name, term in named.items()
        ]
        return torch.stack(weighted).sum(0)

    def select(self, members: Sequence[int]) -> None:
        super().select(members)
        self.factors = {name: factor[list(members)] for name, factor in self.factors.items()}
        if self.start is not None:
            self.start = self.start[list(members)]


def _readings(logits: Tensor, sizes: list[int]) -> list[Reading]:
    """What the logits (members, sum of sizes, clusters) say of each part, joined over ranks."""
    reading = read(gather(logits))
    by_rank = [torch.unflatten(field, 1, (n_ranks(), sum(sizes))) for field in reading]
    density, posterior = (
        [part.flatten(1, 2) for part in torch.split(field, sizes, dim=2)] for field in by_rank
    )
    return [Reading(*fields) for fields in zip(density, posterior, strict=True)]
