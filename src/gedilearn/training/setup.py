"""What a training works with and never changes: settings, devices, data, views, and its stages.

With importance weights all three terms are trained together, from the first iteration. Chains are
expensive: GEN by chains begins when the clusters are found, and trains the best member alone, while
INV and PRIOR go on. With `density.iterations=0` there is one stage too, as in the paper.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
import torch
from torch import Generator, Tensor, nn

from gedilearn.density.base import Base
from gedilearn.density.fit import fit_base
from gedilearn.fields import raised
from gedilearn.graph.neighbours import distance_features
from gedilearn.graph.views import Views, WalkViews, draws_globally, make_views
from gedilearn.graph.walks import Nodes, find_nodes
from gedilearn.methods.method import Context, Forward, Method
from gedilearn.methods.priors import Prior, make_prior
from gedilearn.models.adam import Adam
from gedilearn.models.build import build_model
from gedilearn.models.energy import EnergyModel
from gedilearn.models.image_encoders import averaged_down
from gedilearn.progress import SILENT, Progress
from gedilearn.registry import imported
from gedilearn.sampling.langevin import Box
from gedilearn.settings import LARGE, Settings, Weights, is_images
from gedilearn.starts.choose import Start, choose_start
from gedilearn.starts.classes import Classes
from gedilearn.training.environment import AnyFabric
from gedilearn.verdict.dips import stratified_rows
from gedilearn.verdict.evidence import Evidence, evidence_of
from gedilearn.verdict.number import Chosen, NumberChoice

# With an initial clustering training may end after this share of its iterations; by then views are
# annealed.
LEAST_SHARE = 1 / 3
# The stage of the vote: its share of the iterations, and the weight decay of its network. Without
# decay, new rows are clustered less well.
VOTE_SHARE, VOTE_DECAY = 0.5, 3.0


@dataclass(frozen=True)
class Stage:
    """What is trained from the iteration after `begin` on, for `length` iterations."""

    name: Literal["clusters", "vote", "density"]
    begin: int
    length: int
    weights: Weights
    learning_rate: float
    warmup: int = 0  # iterations in which the learning rate rises
    falls: Literal["not", "linear", "cosine"] = "not"  # to 0, over the whole stage
    annealed: float = 1.0  # the share of it in which views are annealed
    weight_decay: float = 0.0  # decoupled, as in AdamW

    @property
    def end(self) -> int:
        return self.begin + self.length

    def progress(self, iteration: int) -> float:
        """In (0, 1]."""
        return (iteration - self.begin) / self.length

    def view_progress(self, iteration: int) -> float:
        """How far the annealing of the views is: it ends with the clusters."""
        done = self.progress(iteration) / self.annealed
        return min(done, 1.0) if self.name == "clusters" else 1.0

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
    """INV and PRIOR; with GEN, if no stage of its own follows for it."""
    weights = _weights(settings, settings.weights)
    if has_density_stage(settings) or settings.sampler.kind == "none":
        weights = weights.model_copy(update={"gen": 0.0, "energy": 0.0})
    return Stage(
        "clusters",
        0,
        settings.training.max_iter,
        weights,
        settings.optimizer.learning_rate,
        settings.optimizer.warmup,
        "cosine" if settings.optimizer.schedule == "cosine" else "not",
        LEAST_SHARE if settings.training.start == "chosen" else 1.0,
    )


def vote_stage(settings: Settings, begin: int) -> Stage:
    """After `begin` iterations: one new network learns the clusters that the members agree on."""
    first = first_stage(settings)
    length = max(round(VOTE_SHARE * first.length), 1)
    rate, warmup = first.learning_rate / 2, length // 10
    return Stage(
        "vote", begin, length, first.weights, rate, warmup, "linear", weight_decay=VOTE_DECAY
    )


def density_stage(settings: Settings, begin: int) -> Stage | None:
    """The stage after `begin` iterations of the first, if there is one."""
    if not has_density_stage(settings):
        return None
    density = settings.density
    held = settings.weights.model_copy(update={"inv": density.inv, "prior": density.prior})
    weights = _weights(settings, held)
    rate, length = density.learning_rate, density.iterations or 0
    return Stage("density", begin, length, weights, rate, falls="linear")


def _weights(settings: Settings, weights: Weights) -> Weights:
    """The weights, 0 for the terms that the method leaves out."""
    weighted = settings.own.weighted
    left_out = [name for name in ("gen", "inv", "prior") if weighted and name not in weighted]
    return weights.model_copy(update=dict.fromkeys(left_out, 0.0))


def has_density_stage(settings: Settings) -> bool:
    """Whether GEN waits until the clusters are found."""
    both = settings.learns_density and len(settings.trained) > 1
    return both and settings.sampler.kind != "none" and bool(settings.density.iterations)


def sees_averages(settings: Settings, shape: tuple[int, ...]) -> bool:
    """Whether images of this shape may be averaged down before their views are drawn.

    The encoder averages large ones in any case; views of smaller images take less time. Samples of
    chains without a base have the full size, and the views must be such that sizes do not matter.
    """
    if not is_images(shape) or min(shape[2:]) <= LARGE or settings.network.encoder != "conv":
        return False
    sampled = settings.learns_density and not settings.has_base
    weighted = settings.own.weighted
    return bool(weighted) and not sampled and settings.views.kind in ("grey", "paper")


def n_members(settings: Settings, stage: Stage) -> int:
    """All initialisations compete until the clusters are found; the best learns the density."""
    return settings.training.n_init if stage.name == "clusters" else 1


@dataclass(frozen=True)
class Damping:
    """How much more calmly training goes on after a number of recoveries from divergence."""

    recoveries: int = 0

    @property
    def factor(self) -> float:
        """Multiplies the learning rate and the Langevin step."""
        return 0.5**self.recoveries

    @property
    def extra_energy(self) -> float:
        """Added to the weight of the penalty on energies: 0.01, 0.1, 1, ..."""
        return 0.01 * 10 ** (self.recoveries - 1) if self.recoveries else 0.0


@dataclass(frozen=True, eq=False)
class Setup:
    """Data (n, ...), in the network's units, and all that was decided about it."""

    settings: Settings
    fabric: AnyFabric
    data: Tensor
    views: Views
    box: Box
    encoder: nn.Module | None = None
    start: Start | None = None  # the initial clustering
    whole: Tensor | None = None  # images as they are, where `data` holds them averaged down
    classes: Classes | None = None  # of some points
    choice: NumberChoice | None = None  # of the number of clusters

    @classmethod
    def make(
        cls,
        data: Tensor,
        settings: Settings,
        fabric: AnyFabric,
        *,
        encoder: nn.Module | None = None,
        view_function: Callable[..., Tensor] | None = None,
        classes: Classes | None = None,
        chosen: Chosen | None = None,
        progress: Progress = SILENT,
    ) -> Setup:
        """From data (n, ...)."""
        progress.phase("training")
        data = data.to(fabric.device, torch.float32)
        # No pixel is special: one that never changes in the data must not be fixed in chains.
        box = Box.around(data) if data.dim() == 2 else Box.cube(data)
        whole = None
        if encoder is None and view_function is None and sees_averages(settings, data.shape):
            whole, data = data, averaged_down(data)
        seed, clusters = settings.training.seed, settings.n_clusters
        choice, start, nodes = chosen or (None, None, None)
        most = clusters if choice is None else choice.numbers[-1].n_clusters
        begins = settings.training.start == "chosen" and view_function is None
        walks = settings.views.kind == "walk" and view_function is None and data.dim() == 2
        if nodes is None and (walks or begins):
            points = distance_features(data.cpu().numpy(), seed, settings.metric)
            nodes = find_nodes(points, most, settings.views.n_neighbors, seed, shared=True)
        given = (settings.views, data, clusters, seed, view_function, nodes, settings.metric)
        views = make_views(*given)
        box = box.widened(settings.sampler.margin)
        if not begins or nodes is None:
            start = None
        elif start is None:
            start = _start(nodes, clusters, most, seed, classes)
        made = cls(settings, fabric, data, views, box, encoder, start, whole, classes, choice)
        if first_stage(settings).weights.gen and settings.has_base:
            assert made.base is not None
        return made

    @property
    def points(self) -> Tensor:
        """The data as it was given: (n, ...)."""
        return self.data if self.whole is None else self.whole

    @cached_property
    def start_labels(self) -> Tensor | None:
        """The labels of the initial clustering, if there is one: (n,)."""
        if self.start is None:
            return None
        return torch.from_numpy(self.start.labels).to(self.data.device)

    @cached_property
    def base(self) -> Base | None:
        """What the density is learnt on, if on a base."""
        labels = None if self.start is None else self.start.labels
        return fit_base(self.points, labels, self.settings) if self.settings.has_base else None

    def learnt_labels(self, stage: Stage, voted: Tensor | None) -> Tensor | None:
        """The labels (n,) that the networks of a stage learn, if any: initial ones, or a vote."""
        if stage.name == "vote" and voted is not None:
            return voted[:, 0].to(self.data.device, torch.long)
        return self.start_labels if stage.name == "clusters" else None

    def prior(self, stage: Stage, voted: Tensor | None = None) -> Prior:
        """The prior of the members of a stage, before anything is trained.

        Networks that will vote are trained under the uniform prior: each is more accurate so. The
        network that learns the vote has the proportions of its clusters.
        """
        labels, clusters, found = self.learnt_labels(stage, voted), self.settings.n_clusters, None
        kind = self.settings.prior
        if kind == "auto" and self.settings.training.start == "vote" and stage.name == "clusters":
            kind = "uniform"
        if labels is not None:
            found = torch.bincount(labels, minlength=clusters) / len(labels)
            found = found.expand(n_members(self.settings, stage), -1)
        return make_prior(kind, found)

    @property
    def aim(self) -> float:
        """The bound gap that ends the search for clusters.

        Walks in tables are used again and again. The result is measured under fresh ones, where the
        bound gap is somewhat larger.
        """
        return self.settings.training.tol * (0.5 if isinstance(self.views, WalkViews) else 1.0)

    def graded(self, found: np.ndarray) -> np.ndarray:
        """The labels that a verdict is about: those that the network has found, or given ones."""
        return self.classes.labels if self.classes is not None and self.classes.graded else found

    def evidence(
        self, found: np.ndarray, start: Start | None, progress: Progress = SILENT
    ) -> Evidence | None:
        """The evidence for the clusters (n,) that the network found, and learnt from `start`."""
        clusters = self.settings.n_clusters
        if start is None or clusters == 1:
            return None
        progress.phase("measuring the result")
        seed, labels = self.settings.training.seed, self.graded(found)
        rows = stratified_rows(labels, seed)
        x = distance_features(self.data[rows].cpu().numpy(), seed, self.settings.metric)
        beside = start.labels if labels is found else found
        return evidence_of(x, rows, labels, start, clusters, beside)

    def labelled(self) -> tuple[Tensor, Tensor] | None:
        """The points (m, *point) whose classes (m,) are known and agree with the start."""
        if self.classes is None:
            return None
        rows, labels = self.classes.rows, self.classes.labels
        if self.start is not None:
            rows = rows[self.start.labels[rows] == labels[rows]]
        at = torch.from_numpy(rows).to(self.data.device)
        return self.data[at], torch.from_numpy(labels[rows]).to(at)

    @property
    def draws_globally(self) -> bool:
        """Whether code of the user's own may draw from torch's global generators."""
        return self.encoder is not None or draws_globally(self.views)

    def network(self, n_members: int, generator: Generator | None) -> EnergyModel:
        """Freshly initialised; without a generator its parameters are still to be set."""
        shape = tuple(self.data.shape[1:])
        return build_model(self.settings, shape, n_members, self.encoder, generator=generator)

    def optimised(self, model: EnergyModel, stage: Stage) -> tuple[Forward, torch.optim.Optimizer]:
        """The model wrapped for the ranks, and a fresh optimiser of its parameters."""
        model.train_shift(bool(stage.weights.gen))
        adam = Adam(
            model.parameters(),
            lr=stage.learning_rate,
            fused=self.fabric.device.type in ("cpu", "cuda"),
        )
        wrapped: Any = self.fabric.setup(model, adam)
        forward, optimizer = wrapped
        return forward, optimizer

    def method(
        self,
        stage: Stage,
        prior: Prior,
        damping: Damping,
        generator: Generator,
        voted: Tensor | None = None,
    ) -> Method:
        """The method of a stage with a fresh sampler and nothing remembered."""
        settings = self.settings
        weights = stage.weights.model_copy(
            update={"energy": raised(stage.weights.energy, damping.extra_energy)}
        )
        ranks, batch = self.fabric.world_size, settings.optimizer.batch_size
        context = Context(
            settings=settings,
            weights=weights,
            length=stage.length,
            n_members=n_members(settings, stage),
            batch_size=min(batch, len(self.data)) // ranks * ranks,
            prior=prior,
            box=self.box,
            generator=generator,
            start=self.learnt_labels(stage, voted),
            damping=damping.factor,
            base=self.base if weights.gen else None,
            seen=None if self.whole is None else _averaged_down,
            classes=self.labelled(),
        )
        made: Method = imported(settings.own.method).make(context)
        return made


def _averaged_down(x: Tensor) -> Tensor:
    """Images of members, (members, n, ...), in the size of the data."""
    smaller = averaged_down(x.flatten(0, 1))
    return smaller.view(*x.shape[:2], *smaller.shape[1:])


def _start(
    nodes: Nodes,
    n_clusters: int,
    most: int,
    seed: int,
    classes: Classes | None = None,
) -> Start:
    """The initial clustering; points of a large set have the cluster of their node."""
    points, neighbours, _, nearest = nodes
    if classes is not None and nearest is not None:
        classes = classes.for_nodes(nearest, len(points))
    start = choose_start(points, n_clusters, seed, neighbours, classes, most)
    return start if nearest is None else start.for_points(nearest)
