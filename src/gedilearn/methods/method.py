"""What the training loop asks of an objective: the small protocol that all methods share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Generator, Tensor

from gedilearn.density.base import Base
from gedilearn.methods.priors import Prior
from gedilearn.models.energy import EnergyModel, Output
from gedilearn.ranks import fitting, n_ranks
from gedilearn.registry import SAMPLERS
from gedilearn.sampling.langevin import Box, Sampler, SamplerContext
from gedilearn.settings import Settings, Weights

Forward = Callable[[Tensor], Output]


@dataclass(frozen=True)
class Context:
    """What a method is made from at the beginning of a stage."""

    settings: Settings
    weights: Weights  # of the stage
    length: int  # iterations of the stage
    n_members: int
    batch_size: int  # of the batch that all ranks have together
    prior: Prior
    box: Box  # around the data
    generator: Generator  # of what is drawn while it is made, on the device
    start: Tensor | None = None  # (n,): the labels of the initial clustering
    damping: float = 1.0  # below 1 after a divergence: multiplies the step of chains
    base: Base | None = None  # if GEN is learnt on one
    seen: Callable[[Tensor], Tensor] | None = None  # averages samples down as the data are
    classes: tuple[Tensor, Tensor] | None = None  # points (m, *point), their classes (m,)


@dataclass(frozen=True, eq=False)
class Batch:
    """The data of one iteration, the same for all members."""

    index: Tensor  # (batch,): which points of the data
    x: Tensor  # (batch, *point); for methods that compare two views, the first
    view: Tensor  # (batch, *point)
    iteration: int  # of the stage, from 1
    progress: float  # of the stage, in (0, 1]
    generator: Generator  # of whatever the iteration draws, on the device


class Method:
    """Turns a batch into named loss terms, each (members,), and their sum.

    Whatever else a method needs (a teacher, a queue, pseudo-labels) happens in the hooks, which do
    nothing here. It draws from the batch's generator. `two_views` asks for two views of each point
    instead of the point and a view. `remembered` names attributes, tensors (members, ...) or None,
    that go from iteration to iteration and into checkpoints.
    """

    two_views: ClassVar[bool] = False
    remembered: ClassVar[tuple[str, ...]] = ()
    sampler: Sampler | None = None  # what draws x~, if it needs that
    # (members,): 0 for those that learn no density any more, 1 for all others; None: all do
    learning: Tensor | None = None

    def __init__(self, options: Any) -> None:
        self.options = options

    @classmethod
    def make(cls, context: Context) -> Method:
        """A method for a stage, with a fresh sampler and nothing remembered."""
        return cls(context.settings.own)

    def terms(self, forward: Forward, model: EnergyModel, batch: Batch) -> dict[str, Tensor]:
        """The terms to minimise, (members,) each; batches of all ranks are joined for them.

        `forward` is `model`, wrapped for the ranks.
        """
        raise NotImplementedError

    def total(self, named: dict[str, Tensor], progress: float) -> Tensor:
        """The weighted sum at `progress` in [0, 1]: (members,)."""
        return torch.stack(list(named.values())).sum(0)

    def begin(
        self, model: EnergyModel, optimizer: torch.optim.Optimizer, data: Tensor, batch: Batch
    ) -> None:
        """Before the terms of an iteration.  data: (n, *point)."""

    def after_step(self, model: EnergyModel, progress: float) -> None:
        """When the parameters have changed."""

    def measured(self, model: EnergyModel) -> EnergyModel:
        """The network that is measured and kept."""
        return model

    def conclude(self, model: EnergyModel, data: Tensor) -> bool:
        """Make the clusters of a kept network final, in place; whether that changed anything.

        model has one member; data is (n, *point).
        """
        return False

    def state(self) -> dict[str, Any]:
        """What a checkpoint keeps in addition to the network."""
        return {name: getattr(self, name) for name in self.remembered}

    def load_state(self, state: dict[str, Any], model: EnergyModel) -> None:
        """Continue from what `state` gave, for a network like `model`."""
        for name in self.remembered:
            setattr(self, name, state[name])


def make_sampler(context: Context) -> tuple[Sampler, int]:
    """What draws x~ on this rank, and how many of them in an iteration."""
    settings = context.settings.sampler
    n_samples = settings.chains or context.batch_size
    if context.base is None:  # compared with the batch
        n_samples = min(context.batch_size, n_samples)
    n_samples = max(n_samples // n_ranks(), 1)
    made: Sampler = SAMPLERS[settings.kind](
        SamplerContext(
            settings,
            context.box,
            context.n_members,
            n_samples,
            context.generator,
            context.damping,
            context.base,
        )
    )
    return made, n_samples


def share(x: Tensor, model: EnergyModel) -> Tensor:
    """The same data for all members, not copied: (batch, ...) -> (members, batch, ...)."""
    return x.expand(model.n_members, *x.shape)


def k_means(x: np.ndarray, n_clusters: int, n_init: int = 10, seed: int = 0) -> Any:
    """scikit-learn's, fitted to x (n, d); of fewer distinct rows than clusters some stay empty."""
    from sklearn.cluster import KMeans

    with fitting():
        return KMeans(n_clusters, n_init=n_init, random_state=seed).fit(x)
