"""What a training works with and never changes: settings, devices, data, views, and its stages.

By importance weights all three terms are trained together, from the first iteration. Chains are
dear: GEN by chains comes in when the clusters stand, and the kept member then learns the density
while INV and PRIOR go on; with `density.iterations=0` there is one stage too, as in the paper.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import torch
from torch import Generator, Tensor, nn

from gedilearn.density.base import Bases
from gedilearn.density.fit import fit_bases
from gedilearn.fields import raised
from gedilearn.graph.neighbours import distance_features
from gedilearn.graph.views import Views, WalkViews, draws_globally, make_views
from gedilearn.methods.method import Context, Forward, Method, learns_density
from gedilearn.methods.priors import Prior, make_prior
from gedilearn.models.build import build_model
from gedilearn.models.energy import EnergyModel
from gedilearn.models.image_encoders import averaged_down
from gedilearn.progress import SILENT, Progress
from gedilearn.registry import imported
from gedilearn.sampling.langevin import Box
from gedilearn.settings import LARGE, Settings, Weights, is_images
from gedilearn.starts.choose import Start, choose_start
from gedilearn.starts.classes import Classes
from gedilearn.verdict.dips import stratified_rows
from gedilearn.verdict.evidence import Evidence, evidence_of
from gedilearn.verdict.number import NumberChoice

if TYPE_CHECKING:
    from lightning_fabric import Fabric


# Where training begins with clusters, it may end after this share of its iterations; by then views
# are annealed.
LEAST_SHARE = 1 / 3


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
    annealed: float = 1.0  # the share of it in which views are annealed

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
    """Clusters; with GEN, if no stage of its own follows for it."""
    weights = _weights(settings, settings.weights)
    if learns_density_later(settings) or settings.sampler.kind == "none":
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


def density_stage(settings: Settings, begin: int) -> Stage | None:
    """The stage after `begin` iterations of the first, if there is one."""
    if not learns_density_later(settings):
        return None
    density = settings.density
    held = settings.weights.model_copy(update={"inv": density.inv, "prior": density.prior})
    weights = _weights(settings, held)
    rate, length = density.learning_rate, density.iterations or 0
    return Stage("density", begin, length, weights, rate, falls="linear")


def trains_bound(settings: Settings) -> bool:
    """Whether the method has clusters to find by INV and PRIOR, or by means of its own."""
    weights = _weights(settings, settings.weights)
    return not settings.own.weighted or bool(weights.inv and weights.prior)


def _weights(settings: Settings, weights: Weights) -> Weights:
    """The weights, 0 for the terms that the method leaves out."""
    weighted = settings.own.weighted
    left_out = [name for name in ("gen", "inv", "prior") if weighted and name not in weighted]
    return weights.model_copy(update=dict.fromkeys(left_out, 0.0))


def learns_density_later(settings: Settings) -> bool:
    """Whether there is a density to learn, and clusters to be found before it."""
    weights = _weights(settings, settings.weights)
    clusters, sampled = bool(weights.inv or weights.prior), settings.sampler.kind != "none"
    return learns_density(settings) and clusters and sampled and bool(settings.density.iterations)


def sees_averages(settings: Settings, shape: tuple[int, ...]) -> bool:
    """Whether images of this shape may be averaged down before their views are drawn.

    The encoder averages large ones in any case; views of smaller images take less time. Samples of
    chains without a base have the full size, and the views must be such that sizes do not matter.
    """
    if not is_images(shape) or min(shape[2:]) <= LARGE or settings.network.encoder != "conv":
        return False
    sampled = learns_density(settings) and settings.density.base == "none"
    weighted = settings.own.weighted
    return bool(weighted) and not sampled and settings.views.kind in ("grey", "paper")


def n_contenders(settings: Settings, stage: Stage) -> int:
    """How many members compete for a result: all initialisations, until the clusters stand."""
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
    """Data, (groups, n, ...), in the network's units, and all that was decided about it.

    One group serves all results, or each result has its own: seeds of an experiment. `factors`,
    (results,) each, multiply the weights of terms: the points of a sweep.
    """

    settings: Settings
    fabric: Fabric
    data: Tensor
    views: Sequence[Views]  # one a group
    box: Box
    n_results: int = 1
    encoder: nn.Module | None = None
    factors: dict[str, Tensor] | None = None
    starts: Sequence[Start] | None = None  # one a group
    whole: Tensor | None = None  # images as they are, where `data` holds them averaged down
    classes: Classes | None = None  # of some points
    choice: NumberChoice | None = None  # of the number of clusters

    @classmethod
    def make(
        cls,
        data: Tensor,
        settings: Settings,
        fabric: Fabric,
        *,
        encoder: nn.Module | None = None,
        view_function: Callable[..., Tensor] | None = None,
        n_results: int | None = None,
        factors: dict[str, Tensor] | None = None,
        classes: Classes | None = None,
        choice: NumberChoice | None = None,
        progress: Progress = SILENT,
    ) -> Setup:
        """From data (n, ...), or, with `n_results`, (groups, n, ...)."""
        data = data[None] if n_results is None else data
        data = data.to(fabric.device, torch.float32)
        points = data.flatten(0, 1)
        # No pixel is special: one that never changes in the data must not be fixed in chains.
        box = Box.around(points) if points.dim() == 2 else Box.cube(points)
        whole = None
        if encoder is None and view_function is None and sees_averages(settings, points.shape):
            whole, data = data, torch.stack([averaged_down(own) for own in data])
        seed, clusters = settings.training.seed, settings.n_clusters
        if settings.views.kind == "walk" and view_function is None:
            progress.phase("neighbours")
        views = [
            make_views(settings.views, own, clusters, seed, view_function, True) for own in data
        ]
        box = box.widened(settings.sampler.margin)
        starts = None
        if settings.training.start == "chosen" and view_function is None:
            progress.phase("starts")
            both = zip(data, views, strict=True)
            starts = [_start(x, own, clusters, seed, progress, classes) for x, own in both]
        results = n_results or 1
        own = (encoder, factors, starts, whole, classes, choice)
        made = cls(settings, fabric, data, views, box, results, *own)
        if first_stage(settings).weights.gen and made.learns_on_base:
            progress.phase("base")
            assert made.bases is not None
        return made

    def seen_by(self, results: Sequence[int]) -> tuple[Tensor, Sequence[Views]]:
        """The data of these results, (groups, n, ...), with its views."""
        if len(self.data) == 1 or len(results) == len(self.data):
            return self.data, self.views
        return self.data[list(results)], [self.views[k] for k in results]

    def points_of(self, result: int) -> Tensor:
        """The data of a result as it was given: (n, ...)."""
        data = self.data if self.whole is None else self.whole
        return data[result if len(data) > 1 else 0]

    def start_of(self, result: int) -> Start | None:
        """The clusters that a result begins with, if it begins with any."""
        if self.starts is None:
            return None
        return self.starts[result if len(self.starts) > 1 else 0]

    def start_labels(self, results: Sequence[int], each: int) -> Tensor | None:
        """The clusters that `each` members of these results begin with: (members, n)."""
        if self.starts is None:
            return None
        alike = len(self.starts) == 1
        own = [torch.from_numpy(self.starts[0 if alike else k].labels) for k in results]
        labels = torch.stack(own[:1] if alike else own).to(self.data.device)
        members = each * len(results)
        return labels.expand(members, -1) if alike else labels.repeat_interleave(each, 0)

    @property
    def learns_on_base(self) -> bool:
        return learns_density(self.settings) and self.settings.density.base != "none"

    @cached_property
    def bases(self) -> Bases | None:
        """The bases of all groups, where the density is learnt on one."""
        if not self.learns_on_base:
            return None
        labels = None if self.starts is None else [start.labels for start in self.starts]
        return fit_bases(self.data if self.whole is None else self.whole, labels, self.settings)

    def bases_of(self, results: Sequence[int]) -> Bases | None:
        """Those of the data of these results."""
        if self.bases is None or len(self.bases.bases) == 1:
            return self.bases
        return self.bases.select(results)

    def group_of(self, result: int) -> int:
        """The group of the data that a result is of."""
        return result if len(self.data) > 1 else 0

    def prior(self, results: Sequence[int], each: int) -> Prior:
        """The prior of `each` members of these results, before anything is trained."""
        labels, clusters = self.start_labels(results, each), self.settings.n_clusters
        found = None
        if labels is not None:
            counts = [torch.bincount(own, minlength=clusters) for own in labels]
            found = torch.stack(counts) / labels.shape[1]
        return make_prior(self.settings.prior, found)

    @property
    def aim(self) -> float:
        """The gap that ends the search for clusters.

        Walks in tables are met again and again: under fresh ones, by which the result is judged,
        the gap is somewhat larger.
        """
        return self.settings.training.tol * (0.5 if isinstance(self.views[0], WalkViews) else 1.0)

    def graded(self, found: np.ndarray) -> np.ndarray:
        """The labels that a verdict is about: those that the network has found, or given ones."""
        return self.classes.labels if self.classes is not None and self.classes.graded else found

    def evidence(
        self, result: int, found: np.ndarray, progress: Progress = SILENT
    ) -> Evidence | None:
        """What speaks for the clusters that the network of a result has found.  found: (n,)."""
        start, clusters = self.start_of(result), self.settings.n_clusters
        if start is None or clusters == 1:
            return None
        progress.phase("evidence")
        seed, labels = self.settings.training.seed, self.graded(found)
        rows = stratified_rows(labels, seed)
        x = distance_features(self.seen_by([result])[0][0][rows].cpu().numpy(), seed)
        beside = start.labels if labels is found else found
        return evidence_of(x, rows, labels, start, clusters, beside)

    def labelled(self) -> tuple[Tensor, Tensor] | None:
        """The points (m, *point) whose classes (m,) are known and agree with the start."""
        if self.classes is None:
            return None
        rows, labels = self.classes.rows, self.classes.labels
        if self.starts is not None:
            rows = rows[self.starts[0].labels[rows] == labels[rows]]
        at = torch.from_numpy(rows).to(self.data.device)
        return self.data[0][at], torch.from_numpy(labels[rows]).to(at)

    def trains_bound(self, result: int) -> bool:
        """Whether INV and PRIOR both have weight, so that the bound of Proposition 1 is trained.

        Where one is left out, a small gap does not end training: an ablation would then be judged
        by a term that it does not have.
        """
        factors = self.factors or {}
        both = (factors[name][result] for name in ("inv", "prior") if name in factors)
        return trains_bound(self.settings) and all(both)

    @property
    def draws_globally(self) -> bool:
        """Whether code of the user's own may draw from torch's global generators."""
        return self.encoder is not None or any(map(draws_globally, self.views))

    def network(self, n_members: int, generator: Generator | None) -> EnergyModel:
        """Freshly initialised; without a generator its parameters are still to be set."""
        shape = tuple(self.data.shape[2:])
        return build_model(self.settings, shape, n_members, self.encoder, generator=generator)

    def optimised(self, model: EnergyModel, stage: Stage) -> tuple[Forward, torch.optim.Optimizer]:
        """The model wrapped for the ranks, and a fresh optimiser of its parameters."""
        model.train_shift(bool(stage.weights.gen))
        adam = torch.optim.Adam(
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
        results: Sequence[int],
        prior: Prior,
        damping: Damping,
        generator: Generator,
    ) -> Method:
        """The method of a stage with a fresh sampler and nothing remembered."""
        settings = self.settings
        weights = stage.weights.model_copy(
            update={"energy": raised(stage.weights.energy, damping.extra_energy)}
        )
        each = n_contenders(settings, stage)
        factors = {
            name: factor[list(results)].to(self.data).repeat_interleave(each)
            for name, factor in (self.factors or {}).items()
        }
        ranks, batch = self.fabric.world_size, settings.optimizer.batch_size
        context = Context(
            settings=settings,
            weights=weights,
            length=stage.length,
            n_members=each * len(results),
            batch_size=min(batch, self.data.shape[1]) // ranks * ranks,
            prior=prior,
            box=self.box,
            factors=factors,
            generator=generator,
            start=self.start_labels(results, each) if stage.name == "clusters" else None,
            damping=damping.factor,
            bases=self.bases_of(results) if weights.gen else None,
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
    data: Tensor,
    views: Views,
    n_clusters: int,
    seed: int,
    progress: Progress,
    classes: Classes | None = None,
) -> Start:
    """The clusters that training begins with; points of a large set have those of their nodes."""
    if not isinstance(views, WalkViews) or views.nodes is None:
        points = distance_features(data.cpu().numpy(), seed)
        return choose_start(points, n_clusters, seed, progress, classes=classes)
    points, neighbours = views.nodes
    node = None if views.tables.node is None else views.tables.node.cpu().numpy()
    if classes is not None and node is not None:
        classes = classes.for_nodes(node, len(points))
    start = choose_start(points, n_clusters, seed, progress, neighbours, classes)
    return start if node is None else start.for_points(node)
