"""GEDI: GEN + INV + PRIOR on one network (Eq. 5 of the paper).

The ablations and JEM are the same class with other weights: *no gen*, *no inv* and *no unif* set
one weight to 0, JEM keeps GEN alone. A term whose weight is 0 throughout is not computed.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from gedilearn.methods import terms
from gedilearn.methods.priors import Prior
from gedilearn.models.energy import EnergyModel, Output, Reading, read
from gedilearn.sampling.chains import PersistentChains
from gedilearn.settings import Weights, at

Gather = Callable[[Tensor], Tensor]


class GEDI:
    """Turns a batch into named loss terms, each (members,).

    `prior` gives p(y). `chains` draw x~ and are needed only while GEN has weight.
    """

    def __init__(self, weights: Weights, prior: Prior, chains: PersistentChains | None) -> None:
        self.weights = weights
        self.prior = prior
        self.chains = chains if weights.gen else None

    def terms(
        self,
        forward: Callable[[Tensor], Output],
        model: EnergyModel,
        x: Tensor,
        view: Tensor,
        progress: float,
        gather: Gather,
    ) -> dict[str, Tensor]:
        """The terms of Algorithm 1 for x and its views, (batch, *point) each.

        One forward pass over x, x' and x~. `gather` joins the logits of all ranks, with gradients,
        so that N ranks compute what one rank computes on the joined batch.
        """
        parts = [share(x, model)]
        if self.weights.inv:
            parts.append(share(view, model))
        if self.chains is not None:
            parts.append(self._sample(model, len(x)))
        logits = forward(torch.cat(parts, dim=1)).logits
        # (members, parts, batch, clusters), joined over ranks along the batch
        joined = gather(logits.reshape(-1, len(x), logits.shape[-1]))
        logits = joined.reshape(-1, len(parts), *joined.shape[1:])
        data, *others = map(Reading, *(field.unbind(1) for field in read(logits)))
        named = {}
        if self.weights.inv:
            named["inv"] = terms.invariance(data, others[0])
        if self.weights.prior:
            named["prior"] = terms.prior(data, self.prior.training(logits[:, 0], progress))
        if self.chains is not None:
            named["gen"] = terms.generative(data, others[-1])
            if self.weights.energy:
                named["energy"] = terms.energy_scale(data, others[-1])
        return named

    def total(self, named: dict[str, Tensor], progress: float) -> Tensor:
        """The weighted sum at `progress` in [0, 1]: (members,)."""
        weighted = [
            at(getattr(self.weights, name), progress) * term for name, term in named.items()
        ]
        return torch.stack(weighted).sum(0)

    def _sample(self, model: EnergyModel, batch: int) -> Tensor:
        assert self.chains is not None
        with model.fixed():
            return self.chains.draw(model.log_density, batch)


def share(x: Tensor, model: EnergyModel) -> Tensor:
    """One batch for all members: (batch, ...) -> (members, batch, ...), without a copy."""
    return x.expand(model.n_members, *x.shape)
