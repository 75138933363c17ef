"""GEDI: GEN + INV + PRIOR on one network (Eq. 5 of the paper).

The ablations and JEM are the same class with other weights (`settings`): *no gen*, *no inv*
and *no unif* set one weight to 0, JEM keeps GEN alone. A term whose weight is 0 throughout is not
computed.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext

import torch
from torch import Tensor

from gedilearn.fields import value_at
from gedilearn.methods import terms
from gedilearn.methods.method import Batch, Context, Forward, Method, make_sampler, share
from gedilearn.methods.priors import Prior
from gedilearn.models.energy import EnergyModel, Reading, read
from gedilearn.ranks import gather, n_ranks
from gedilearn.sampling.langevin import Sampler
from gedilearn.settings import Weights

# Points with a known class in an iteration.
LABELLED = 64


class GEDI(Method):
    """Turns a batch into the terms of Algorithm 1.

    `prior` gives p(y). `sampler` draws x~, `n_samples` in each iteration, None for one a point. It
    is needed only while GEN has weight, and `seen` brings its points to the size of the data.
    `start`, (n,), are the labels of the initial clustering. `classes` are points (m, *point) with
    their classes (m,): the supervised half of p(x, y), Eq. 6.
    """

    remembered = ("learning",)

    def __init__(
        self,
        weights: Weights,
        prior: Prior,
        sampler: Sampler | None,
        n_samples: int | None = None,
        start: Tensor | None = None,
        seen: Callable[[Tensor], Tensor] | None = None,
        classes: tuple[Tensor, Tensor] | None = None,
    ) -> None:
        self.weights = weights
        self.prior = prior
        self.sampler = sampler if weights.gen else None
        self.n_samples = n_samples
        self.start = start if weights.start else None
        self.seen = seen or (lambda x: x)
        self.classes = classes if weights.classes and classes and len(classes[1]) else None

    @classmethod
    def make(cls, context: Context) -> GEDI:
        sampler, n_samples = make_sampler(context) if context.weights.gen else (None, None)
        given = (context.weights, context.prior, sampler, n_samples)
        return cls(*given, context.start, context.seen, context.classes)

    def terms(self, forward: Forward, model: EnergyModel, batch: Batch) -> dict[str, Tensor]:
        """One forward pass over x, x', x~ and the data that x~ is compared with."""
        parts = {"x": share(batch.x, model)}
        if self.weights.inv:
            parts["view"] = share(batch.view, model)
        labels = None
        if self.classes is not None:
            points, classes = self.classes
            size = (min(len(classes), LABELLED),)
            at = torch.randint(len(classes), size, generator=batch.generator, device=classes.device)
            parts["classes"], labels = share(points[at], model), share(classes[at], model)
        drawn = None
        if self.sampler is not None and (self.learning is None or self.learning.any()):
            number = self.n_samples or parts["x"].shape[1]
            with nullcontext() if self.sampler.weighted else model.fixed():
                drawn = self.sampler.draw(model.log_density, number, batch.generator)
            parts["samples"] = self.seen(drawn.samples)
            if drawn.data is not None:
                parts["data"] = self.seen(drawn.data)
        logits = forward(torch.cat(list(parts.values()), dim=1)).logits
        sizes = [part.shape[1] for part in parts.values()]
        readings = dict(zip(parts, _readings(logits, sizes), strict=True))
        x, named = readings["x"], {}
        if self.weights.inv:
            named["inv"] = terms.invariance(x, readings["view"], self.weights.symmetric)
        if self.weights.prior:
            target = self.prior.training(x.log_posterior, batch.progress)
            named["prior"] = terms.prior(x, target)
        if self.start is not None and value_at(self.weights.start, batch.progress):
            named["start"] = terms.start(x, gather(share(self.start[batch.index], model)))
        if labels is not None:
            named["classes"] = terms.start(readings["classes"], gather(labels))
        if drawn is not None:
            data, samples = readings.get("data", x), readings["samples"]
            weights = None if drawn.log_weights is None else gather(drawn.log_weights)
            named["gen"] = terms.generative(data, samples, weights)
            if self.weights.energy and weights is None:
                named["energy"] = terms.energy_scale(data, samples)
            if self.learning is not None:
                named["gen"] = named["gen"] * self.learning
        return named

    def total(self, named: dict[str, Tensor], progress: float) -> Tensor:
        weighted = [
            value_at(getattr(self.weights, name), progress) * term for name, term in named.items()
        ]
        return torch.stack(weighted).sum(0)


def _readings(logits: Tensor, sizes: list[int]) -> list[Reading]:
    """What the logits (members, sum of sizes, clusters) say of each part, joined over ranks."""
    reading = read(gather(logits))
    by_rank = [torch.unflatten(field, 1, (n_ranks(), sum(sizes))) for field in reading]
    density, posterior = (
        [part.flatten(1, 2) for part in torch.split(field, sizes, dim=2)] for field in by_rank
    )
    return [Reading(*fields) for fields in zip(density, posterior, strict=True)]
