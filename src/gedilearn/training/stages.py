"""The stages of a training run: first the clusters, then the density.

GEN pulls the network towards the data's density while INV and PRIOR are still looking for the
clusters; together they need longer for both. So by default GEN waits until the clusters stand, and
then the kept member learns the density while INV and PRIOR hold the clusters. With
`density.iterations=0` there is one stage with all three terms, as in the paper.
"""

from __future__ import annotations

from dataclasses import dataclass

from gedilearn.settings import Settings, Weights


@dataclass(frozen=True)
class Stage:
    """What is trained from the iteration after `begin` on, for `length` iterations."""

    name: str  # 'clusters' or 'density'
    begin: int
    length: int
    weights: Weights
    learning_rate: float
    n_members: int

    @property
    def end(self) -> int:
        return self.begin + self.length

    def progress(self, iteration: int) -> float:
        """In (0, 1]."""
        return (iteration - self.begin) / self.length

    def view_progress(self, iteration: int) -> float:
        """How far the annealing of the views is: it ends with the clusters."""
        return self.progress(iteration) if self.name == "clusters" else 1.0

    def rate(self, iteration: int) -> float:
        """The learning rate: constant for the clusters, falling to 0 for the density."""
        if self.name == "clusters":
            return self.learning_rate
        return self.learning_rate * (1 - (iteration - self.begin - 1) / self.length)


def first_stage(settings: Settings) -> Stage:
    weights = settings.weights
    if settings.density.iterations:
        weights = weights.model_copy(update={"gen": 0.0, "energy": 0.0})
    return Stage(
        "clusters",
        0,
        settings.training.max_iter,
        weights,
        settings.optimizer.learning_rate,
        settings.training.n_init,
    )


def density_stage(settings: Settings, begin: int) -> Stage | None:
    """The stage after `begin` iterations of the first, if there is one."""
    density = settings.density
    if not density.iterations or not settings.weights.gen:
        return None
    weights = settings.weights.model_copy(update={"inv": density.inv, "prior": density.prior})
    return Stage("density", begin, density.iterations, weights, density.learning_rate, 1)
