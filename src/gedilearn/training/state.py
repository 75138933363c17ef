"""The state of a training: one value that is saved, loaded, copied and thinned out.

A checkpoint is a saved state, a resume loads it, a recovery from divergence goes back to a copy,
and results that are certified early leave by `select`.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer

from gedilearn.graph.views import draw_views
from gedilearn.methods.method import Batch, Forward, Method
from gedilearn.methods.priors import Prior, fixed
from gedilearn.models.energy import EnergyModel
from gedilearn.training.environment import Generators
from gedilearn.training.setup import (
    Damping,
    Setup,
    Stage,
    density_stage,
    first_stage,
    n_contenders,
)

# What Adam remembers of each entry of a parameter.
MOMENTS = ("exp_avg", "exp_avg_sq")

# Standard errors by which a state must be less likely than the best one to be given up for it.
BEYOND_CHANCE = 2.0

Tree = dict[str, Any]  # nested dicts and lists of tensors and plain values


class Batches:
    """Deals `n` points in batches; each point comes once before any comes again.

    It has a generator of its own, so that all ranks agree; rank r of R takes every R-th point of
    the joined batch. With no more points than `batch_size` every batch is the whole data set.
    """

    def __init__(self, n: int, batch_size: int, seed: int, rank: int = 0, ranks: int = 1) -> None:
        self.size = min(batch_size, n) // ranks * ranks
        self.rank, self.ranks = rank, ranks
        self.generator = torch.Generator().manual_seed(seed)
        self.n = n
        self.order = torch.empty(0, dtype=torch.long)

    @classmethod
    def of(cls, setup: Setup) -> Batches:
        """Those of a training."""
        training, fabric = setup.settings.training, setup.fabric
        size, n = setup.settings.optimizer.batch_size, setup.data.shape[1]
        return cls(n, size, training.seed, fabric.global_rank, fabric.world_size)

    def next(self) -> Tensor:
        """Indices of this rank's share of the next joined batch."""
        while len(self.order) < self.size:
            fresh = torch.randperm(self.n, generator=self.generator)
            self.order = torch.cat([self.order, fresh])
        joined, self.order = self.order[: self.size], self.order[self.size :]
        return joined[self.rank :: self.ranks]

    def state(self) -> Tree:
        return {"order": self.order, "generator": self.generator.get_state()}

    def restore(self, state: Tree) -> None:
        self.order = state["order"]
        self.generator.set_state(state["generator"])


@dataclass
class Kept:
    """The best so far of the members that compete for one result."""

    state: dict[str, Tensor]  # its parameters
    member: int = 0
    gap: float = math.inf  # under the certifying views
    settled: bool = False  # whether that ends the search for clusters
    target: Tensor | None = None  # (clusters,): the prior that it was held against
    # The last gap that was a fifth below such a one before it, and when that was.
    fallen_to: float = math.inf
    fallen_at: int = 0
    # (m,): log p(x) of the rows that choose, in the state where it was highest; the last iteration
    # at which it was not lower beyond chance, and whether it is; the effective proposals that there
    # were when GEN ended for want of them.
    likeliest: Tensor | None = None
    risen_at: int = 0
    falls: bool = False
    counted: float | None = None
    # With the guard off: when and how training diverged first, and whether it did when last seen.
    diverged_at: int | None = None
    trouble: str | None = None
    diverges: bool = False

    def follow_likelihood(self, held: Tensor, iteration: int, counts: bool) -> None:
        """Note how likely rows that choose are in the state of this iteration.

        held: (m,), log p(x) of these rows; minus infinity where no density is learnt. States that
        do not count yet are all surpassed by the next one.
        """
        self.falls = False
        if not held.isfinite().all():
            return
        if not counts or self.likeliest is None or held.mean() > self.likeliest.mean():
            self.likeliest, self.risen_at = held, iteration
            return
        lost = self.likeliest - held
        self.falls = bool(lost.mean() > BEYOND_CHANCE * lost.std() / len(lost) ** 0.5)
        if not self.falls:
            self.risen_at = iteration

    def learns(self, iteration: int, patience: int) -> bool:
        """Whether a density is learnt that has not fallen beyond chance for so long."""
        return (
            self.likeliest is not None
            and self.counted is None
            and (iteration - self.risen_at < patience)
        )

    def network(self, setup: Setup) -> EnergyModel:
        """The network itself."""
        model = setup.network(1, None).to(setup.data)
        model.load_state_dict(self.state)
        return model


@dataclass(eq=False)
class TrainState:
    """Everything that changes while training, between two iterations."""

    stage: Stage
    results: list[int]  # in training; the members of a result stand side by side
    model: EnergyModel
    forward: Forward  # the model, wrapped for the ranks
    optimizer: Optimizer
    prior: Prior
    method: Method  # with its memory and its sampler
    batches: Batches
    kept: list[Kept]  # of every result
    generators: Generators  # of all that is drawn, but the order of the batches
    iteration: int = 0
    recoveries: int = 0
    reported: set[str] = field(default_factory=set)  # findings that stand
    stopped: str | None = None  # why training ended: 'certified', 'budget' or 'diverged'
    trouble: str | None = None  # what ended it, if it diverged

    @property
    def damping(self) -> Damping:
        return Damping(self.recoveries)

    def contenders(self, result: int) -> list[int]:
        """The members that compete for a result."""
        each = self.model.n_members // len(self.results)
        first = self.results.index(result) * each
        return list(range(first, first + each))

    def next_batch(self, setup: Setup) -> tuple[Batch, Tensor]:
        """This rank's share of the next batch, and the data that it is of: (groups, n, ...)."""
        data, views = setup.seen_by(self.results)
        stage, moment = self.stage, self.stage.view_progress(self.iteration)
        index = self.batches.next().to(data.device)
        x = data[:, index]
        generator = self.generators.device
        view = draw_views(views, index, x, moment, generator)
        if self.method.two_views:
            x = draw_views(views, index, x, moment, generator)
        elif noise := setup.settings.views.data_noise:
            x = x.add(torch.empty_like(x).normal_(generator=generator), alpha=noise)
        step, progress = self.iteration - stage.begin, stage.progress(self.iteration)
        return Batch(index, x, view, step, progress, generator), data

    # --- how it comes about ------------------------------------------------------------------

    @classmethod
    def begin(cls, setup: Setup, generators: Generators) -> TrainState:
        """The state before the first iteration."""
        stage, results = first_stage(setup.settings), list(range(setup.n_results))
        prior = setup.prior(results, n_contenders(setup.settings, stage))
        batches = Batches.of(setup)
        state = cls._fresh(setup, stage, prior, batches, [], generators, results=results)
        judged = state.method.judged(state.model)
        state.kept = [Kept(judged.state_of(state.contenders(k)[0])) for k in results]
        return state

    @classmethod
    def _fresh(
        cls,
        setup: Setup,
        stage: Stage,
        prior: Prior,
        batches: Batches,
        kept: list[Kept],
        generators: Generators,
        **more: Any,
    ) -> TrainState:
        """At the beginning of a stage: networks, a fresh optimiser, a fresh sampler.

        The networks are new while clusters are sought; for the density they are the kept ones.
        """
        results = more.pop("results", list(range(len(kept))))
        n_members = n_contenders(setup.settings, stage) * len(results)
        is_new = stage.name == "clusters"
        model = setup.network(n_members, generators.cpu if is_new else None)
        if not is_new:
            model.to(setup.data).load_members([one.state for one in kept])
            prior = fixed([one.target for one in kept], setup.settings.n_clusters)
        forward, optimizer = setup.optimised(model, stage)
        damping = Damping(more.get("recoveries", 0))
        method = setup.method(stage, results, prior, damping, generators.device)
        trained = (model, forward, optimizer, prior, method, batches, kept, generators)
        return cls(stage, results, *trained, **more)

    def enter(self, setup: Setup, stage: Stage) -> TrainState:
        """The state at the beginning of the next stage, for all results."""
        more = {name: getattr(self, name) for name in ("iteration", "recoveries", "reported")}
        same = (self.prior, self.batches, self.kept, self.generators)
        return self._fresh(setup, stage, *same, **more)

    def recover(self, setup: Setup, good: Tree | None) -> TrainState:
        """The last good state, or the beginning, with new random numbers, chains and more damping.

        The same random numbers would lead to the same divergence.
        """
        recoveries = self.recoveries + 1
        seed = setup.settings.training.seed + 7919 * recoveries + setup.fabric.global_rank
        if good is None:
            self.generators.seed(seed)
            same = (self.stage, self.prior, self.batches, self.kept, self.generators)
            return self._fresh(setup, *same, recoveries=recoveries)
        back = self.load(setup, copy.deepcopy(good), self.generators)
        self.generators.seed(seed)
        damping, generator = Damping(recoveries), self.generators.device
        method = setup.method(back.stage, back.results, back.prior, damping, generator)
        method.load_state(copy.deepcopy(good["shared"]["method"]), back.model)
        return replace(back, method=method, recoveries=recoveries)

    def select(self, setup: Setup, results: list[int]) -> TrainState:
        """The state of the members of these results alone; this one is not to be used any more.

        The optimiser, the chains and what the method remembers go on as if the other members had
        never been there.
        """
        members = [member for k in results for member in self.contenders(k)]
        model = self.model.select(members)
        forward, optimizer = setup.optimised(model, self.stage)
        _keep_moments(self.model, self.optimizer, members, model, optimizer)
        self.method.select(members)
        if self.prior.state is not None:
            self.prior.state = self.prior.state[members]
        return replace(self, results=results, model=model, forward=forward, optimizer=optimizer)

    # --- saving and loading ------------------------------------------------------------------

    def save(self, with_chains: bool = True) -> Tree:
        """All of it: what the ranks share, and what is this rank's own."""
        shared = {
            "stage": self.stage.name,
            "stage_begin": self.stage.begin,
            "results": self.results,
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "prior": self.prior.state,
            "method": self.method.state(),
            "kept": [vars(one) for one in self.kept],
            "iteration": self.iteration,
            "recoveries": self.recoveries,
            "reported": sorted(self.reported),
            "stopped": self.stopped,
            "trouble": self.trouble,
        }
        own: Tree = self.generators.state() | {"batches": self.batches.state()}
        if self.method.sampler is not None and with_chains:
            own["sampler"] = self.method.sampler.state()
        return {"shared": shared, "own": own}

    def copy(self) -> Tree:
        """A saved state that later iterations do not change, to recover from: without chains."""
        return copy.deepcopy(self.save(with_chains=False))

    @classmethod
    def load(cls, setup: Setup, tree: Tree, generators: Generators) -> TrainState:
        """The state that `save` gave; the generators go on from there too."""
        shared, own, settings = tree["shared"], tree["own"], setup.settings
        stage = first_stage(settings)
        if shared["stage"] == "density":
            following = density_stage(settings, shared["stage_begin"])
            assert following is not None
            stage = following
        plain = ("results", "iteration", "recoveries", "stopped", "trouble")
        batches = Batches.of(setup)
        batches.restore(own["batches"])
        state = cls._fresh(
            setup,
            stage,
            setup.prior(shared["results"], n_contenders(settings, stage)),
            batches,
            [Kept(**values) for values in shared["kept"]],
            generators,
            reported=set(shared["reported"]),
            **{name: shared[name] for name in plain},
        )
        state.model.load_state_dict(shared["model"])
        # All else that an optimiser saves comes from the settings.
        groups = state.optimizer.state_dict()["param_groups"]
        moments_of = shared["optimizer"]["state"]
        state.optimizer.load_state_dict({"state": moments_of, "param_groups": groups})
        for parameter, moments in state.optimizer.state.items():
            for name, moment in moments.items():
                if moment.shape == parameter.shape:  # fused Adam pairs them as they lie in memory
                    moments[name] = torch.empty_like(parameter).copy_(moment)
        state.method.load_state(shared["method"], state.model)
        if shared["prior"] is not None:
            state.prior.state = shared["prior"].to(setup.data.device)
        if state.method.sampler is not None and "sampler" in own:
            state.method.sampler.load_state(own["sampler"])
        generators.load_state(own)
        return state


def _keep_moments(
    model: EnergyModel,
    optimizer: Optimizer,
    members: Sequence[int],
    chosen: EnergyModel,
    its_optimizer: Optimizer,
) -> None:
    """Let the optimiser of `chosen`, which holds these members of `model`, go on where theirs was.

    Moments are shaped like parameters, so a network that holds them is taken apart in the same way.
    """
    for name in MOMENTS:
        carrier = copy.deepcopy(model)
        with torch.no_grad():
            for moment, parameter in zip(carrier.parameters(), model.parameters(), strict=True):
                if parameter in optimizer.state:
                    moment.copy_(optimizer.state[parameter][name])
        moments = carrier.select(members).parameters()
        for own, parameter, moment in zip(
            chosen.parameters(), model.parameters(), moments, strict=True
        ):
            if parameter in optimizer.state:
                steps = optimizer.state[parameter]["step"]
                its_optimizer.state[own] |= {"step": steps.clone(), name: moment.detach()}
