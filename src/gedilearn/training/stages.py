"""The stages of a training run: first the clusters, then the density.

GEN pulls the network towards the data's density while INV and PRIOR are still looking for the
clusters; together they need longer for both. So by default GEN waits until the clusters stand, and
then the kept member learns the density while INV and PRIOR hold the clusters. With
`density.iterations=0` there is one stage with all three terms, as in the paper.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from gedilearn.registry import METHODS
from gedilearn.sections import Weights
from gedilearn.settings import Settings


@dataclass(frozen=True)
class Stage:
    """What is trained from the iteration after `begin` on, for `length` iterations."""

    name: Literal["clusters", "density"]
    begin: int
    length: int
    weights: Weights
    learning_rate: float
    warmup: int = 0  # iterations in which the learning rate rises
    falls: Literal["not", "linear", "cosine"] = "not"  # to 0, over the whole stage

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
        """The learning rate of an iteration."""
        done = iteration - self.begin - 1
        rate = self.learning_rate * min(1.0, (done + 1) / (self.warmup + 1))
        if self.falls == "linear":
            rate *= 1 - done / self.length
        elif self.falls == "cosine":
            rate *= (1 + math.cos(math.pi * done / self.length)) / 2
        return rate


def first_stage(settings: Settings) -> Stage:
    """Clusters; with GEN, if no stage of its own follows for it."""
    weights = _weights(settings, settings.weights)
    if _has_density_stage(settings):
        weights = weights.model_copy(update={"gen": 0.0, "energy": 0.0})
    return Stage(
        "clusters",
        0,
        settings.training.max_iter,
        weights,
        settings.optimizer.learning_rate,
        settings.optimizer.warmup,
        "cosine" if settings.optimizer.schedule == "cosine" else "not",
    )


def density_stage(settings: Settings, begin: int) -> Stage | None:
    """The stage after `begin` iterations of the first, if there is one."""
    if not _has_density_stage(settings):
        return None
    density = settings.density
    held = settings.weights.model_copy(update={"inv": density.inv, "prior": density.prior})
    weights = _weights(settings, held)
    rate = density.learning_rate
    return Stage("density", begin, density.iterations, weights, rate, falls="linear")


def trains_bound(settings: Settings) -> bool:
    """Whether the method has clusters to find by INV and PRIOR, or by means of its own."""
    weights = _weights(settings, settings.weights)
    return not METHODS[settings.method].weighted or bool(weights.inv and weights.prior)


def _weights(settings: Settings, weights: Weights) -> Weights:
    """The weights, 0 for the terms that the method leaves out."""
    weighted = METHODS[settings.method].weighted
    left_out = [name for name in ("gen", "inv", "prior") if weighted and name not in weighted]
    return weights.model_copy(update=dict.fromkeys(left_out, 0.0))


def _has_density_stage(settings: Settings) -> bool:
    """Whether there is a density to learn, and clusters to be found before it."""
    weights = _weights(settings, settings.weights)
    clusters = bool(weights.inv or weights.prior)
    learns = "gen" in METHODS[settings.method].weighted and bool(weights.gen)
    return learns and clusters and settings.density.iterations > 0
