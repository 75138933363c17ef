"""The state of a training: one value that is saved, loaded and copied.

A checkpoint is a saved state, a resume loads it, a recovery from divergence goes back to a copy.
"""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer

from gedilearn.methods.method import Batch, Forward, Method
from gedilearn.methods.priors import Fixed, Prior
from gedilearn.models.energy import EnergyModel
from gedilearn.training.environment import Generators
from gedilearn.training.setup import (
    Damping,
    Setup,
    Stage,
    density_stage,
    first_stage,
    n_members,
    vote_stage,
)

# Standard errors by which the likelihood must fall before the earlier state is kept.
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
        size, n = setup.settings.optimizer.batch_size, len(setup.data)
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
class Best:
    """The best member so far."""

    state: dict[str, Tensor]  # its parameters
    member: int = 0
    gap: float = math.inf  # the bound gap under the certifying views
    settled: bool = False  # whether that ends the search for clusters
    target: Tensor | None = None  # (clusters,): the prior that it was compared with
    # The bound gap when it last fell by a fifth, and the iteration of that.
    lowest_gap: float = math.inf
    last_improved: int = 0
    # (m,): log p(x) of the validation rows in the state where it was highest; the last iteration
    # at which it was not lower beyond chance, and whether it is lower now.
    likeliest: Tensor | None = None
    last_risen: int = 0
    falls: bool = False
    ess_at_stop: float | None = None  # the effective sample size, if too small a one ended GEN
    # With the guard off: when and how training diverged first, and whether it did when last seen.
    diverged_at: int | None = None
    trouble: str | None = None
    diverges: bool = False

    def follow_likelihood(self, held: Tensor, iteration: int, counts: bool) -> None:
        """Note how likely the validation rows are in the state of this iteration.

        held: (m,), log p(x) of these rows; minus infinity where no density is learnt. The next
        state replaces one that does not count yet.
        """
        self.falls = False
        if not held.isfinite().all():
            return
        if not counts or self.likeliest is None or held.mean() > self.likeliest.mean():
            self.likeliest, self.last_risen = held, iteration
            return
        lost = self.likeliest - held
        self.falls = bool(lost.mean() > BEYOND_CHANCE * lost.std() / len(lost) ** 0.5)
        if not self.falls:
            self.last_risen = iteration

    def learns(self, iteration: int, patience: int) -> bool:
        """Whether a density is learnt whose likelihood has not fallen beyond chance for so long."""
        learnt = self.likeliest is not None and self.ess_at_stop is None
        return learnt and iteration - self.last_risen < patience

    def network(self, setup: Setup) -> EnergyModel:
        """The network itself."""
        model = setup.network(1, None).to(setup.data)
        model.load_state_dict(self.state)
        return model


@dataclass(eq=False)
class TrainState:
    """Everything that changes while training, between two iterations."""

    stage: Stage
    model: EnergyModel
    forward: Forward  # the model, wrapped for the ranks
    optimizer: Optimizer
    prior: Prior
    method: Method  # with its memory and its sampler
    batches: Batches
    best: Best
    generators: Generators  # of all that is drawn, but the order of the batches
    iteration: int = 0
    recoveries: int = 0
    reported: set[str] = field(default_factory=set)  # findings that stand
    # (n, 1 + members): the clusters on which the members agree, then those of each member.
    voted: Tensor | None = None
    stopped: str | None = None  # why training ended: 'certified', 'budget' or 'diverged'
    trouble: str | None = None  # what ended it, if it diverged

    @property
    def damping(self) -> Damping:
        return Damping(self.recoveries)

    def next_batch(self, setup: Setup) -> Batch:
        """This rank's share of the next batch."""
        stage, moment = self.stage, self.stage.view_progress(self.iteration)
        index = self.batches.next().to(setup.data.device)
        x, generator = setup.data[index], self.generators.device
        view = setup.views.draw(index, x, moment, generator)
        if self.method.two_views or setup.settings.views.both:
            x = setup.views.draw(index, x, moment, generator)
        step, progress = self.iteration - stage.begin, stage.progress(self.iteration)
        return Batch(index, x, view, step, progress, generator)

    # --- how it comes about ------------------------------------------------------------------

    @classmethod
    def begin(cls, setup: Setup, generators: Generators) -> TrainState:
        """The state before the first iteration."""
        stage, batches = first_stage(setup.settings), Batches.of(setup)
        state = cls._fresh(setup, stage, setup.prior(stage), batches, Best({}), generators)
        state.best.state = state.method.measured(state.model).state_of(0)
        return state

    @classmethod
    def _fresh(
        cls,
        setup: Setup,
        stage: Stage,
        prior: Prior,
        batches: Batches,
        best: Best,
        generators: Generators,
        **more: Any,
    ) -> TrainState:
        """At the beginning of a stage: networks, a fresh optimiser, a fresh sampler.

        The networks are new while clusters are sought; the density is learnt by the best one.
        """
        if stage.name != "density":
            model = setup.network(n_members(setup.settings, stage), generators.cpu)
        else:
            model = best.network(setup)
            prior = Fixed(None if best.target is None else best.target[None])
        forward, optimizer = setup.optimised(model, stage)
        damping = Damping(more.get("recoveries", 0))
        method = setup.method(stage, prior, damping, generators.device, more.get("voted"))
        return cls(
            stage, model, forward, optimizer, prior, method, batches, best, generators, **more
        )

    def enter(self, setup: Setup, stage: Stage) -> TrainState:
        """The state at the beginning of the next stage."""
        names = ("iteration", "recoveries", "reported", "voted")
        more = {name: getattr(self, name) for name in names}
        prior = setup.prior(stage, self.voted) if stage.name == "vote" else self.prior
        same = (prior, self.batches, self.best, self.generators)
        return self._fresh(setup, stage, *same, **more)

    def recover(self, setup: Setup, good: Tree | None) -> TrainState:
        """The last good state, or the beginning, with new random numbers, chains and more damping.

        The same random numbers would lead to the same divergence.
        """
        recoveries = self.recoveries + 1
        seed = setup.settings.training.seed + 7919 * recoveries + setup.fabric.global_rank
        if good is None:
            self.generators.seed(seed)
            same = (self.stage, self.prior, self.batches, self.best, self.generators)
            return self._fresh(setup, *same, recoveries=recoveries, voted=self.voted)
        back = self.load(setup, copy.deepcopy(good), self.generators)
        self.generators.seed(seed)
        damping, generator = Damping(recoveries), self.generators.device
        method = setup.method(back.stage, back.prior, damping, generator, back.voted)
        method.load_state(copy.deepcopy(good["shared"]["method"]), back.model)
        return replace(back, method=method, recoveries=recoveries)

    # --- saving and loading ------------------------------------------------------------------

    def save(self, with_chains: bool = True) -> Tree:
        """All of it: what the ranks share, and what is this rank's own."""
        shared = {
            "stage": self.stage.name,
            "stage_begin": self.stage.begin,
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "prior": self.prior.state,
            "method": self.method.state(),
            "best": vars(self.best),
            "iteration": self.iteration,
            "recoveries": self.recoveries,
            "reported": sorted(self.reported),
            "voted": self.voted,
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
        elif shared["stage"] == "vote":
            stage = vote_stage(settings, shared["stage_begin"])
        plain = ("iteration", "recoveries", "voted", "stopped", "trouble")
        batches = Batches.of(setup)
        batches.restore(own["batches"])
        state = cls._fresh(
            setup,
            stage,
            setup.prior(stage, shared["voted"]),
            batches,
            Best(**shared["best"]),
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
