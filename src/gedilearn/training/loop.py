"""The training loop: Algorithm 1 for all members at once, watched by certificate and monitor."""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from gedilearn.data.views import Views, draw_views, make_views
from gedilearn.methods.method import Batch, Method
from gedilearn.methods.priors import Fixed, Prior, fixed, make_prior
from gedilearn.models.build import build_model
from gedilearn.models.energy import EnergyModel
from gedilearn.models.mlp import reuse_freed_memory
from gedilearn.sampling.langevin import Box
from gedilearn.settings import Settings
from gedilearn.training.active import Active, keep_moments
from gedilearn.training.batches import Batches
from gedilearn.training.certificate import REPEATS, Measurement, examine, measure
from gedilearn.training.environment import data_type, flushed_denormals, launch, limited_threads
from gedilearn.training.guard import Guard
from gedilearn.training.interrupt import Interruptible
from gedilearn.training.keeper import Keeper
from gedilearn.training.making import make_method
from gedilearn.training.monitor import Diagnosis, diagnose
from gedilearn.training.progress import Display
from gedilearn.training.run_directory import RunDirectory
from gedilearn.training.stages import Stage, density_stage, first_stage, trains_bound

if TYPE_CHECKING:
    from lightning_fabric import Fabric


@dataclass(frozen=True)
class Result:
    """The best member that training found, and how it ended."""

    model: EnergyModel
    diagnosis: Diagnosis
    prior: Tensor | None  # (clusters,): what the clusters were held against; None is uniform
    box: Box
    iterations: int
    seconds: float
    stopped: str  # 'certified', 'budget' or 'diverged'
    recoveries: int
    trouble: str | None  # what ended a run that diverged


@dataclass
class Kept:
    """The best so far of the members that compete for one result."""

    member: int = 0
    state: dict[str, Tensor] | None = None  # its parameters
    score: float = math.inf  # its gap under the views of its moment
    gap: float = math.inf  # its gap under the certifying views
    settled: bool = False  # whether that ends the search for clusters
    target: Tensor | None = None  # the prior that it was held against


class Trainer:
    """Trains `settings.training.n_init` members on `data`, (n, ...), in the network's units.

    The best of them is the result. With `n_results`, that many times as many are trained side by
    side, and only those of one result compete: seeds of an experiment, if `data` is (n_results, n,
    ...) and gives each its own, or points of a sweep, if it is (1, n, ...) and `factors`,
    (n_results,) each, multiply the weights of the terms.

    All randomness comes from torch's global generators: they are seeded here, saved with every
    checkpoint, and put back as they were when `fit` returns.
    """

    # Of the stage that is under way.
    stage: Stage
    active: Active
    model: EnergyModel
    optimizer: Optimizer
    method: Method
    prior: Prior

    def __init__(
        self,
        data: Tensor,
        settings: Settings,
        *,
        encoder: nn.Module | None = None,
        view_function: Callable[[Tensor], Tensor] | None = None,
        run: RunDirectory | None = None,
        verbose: bool = False,
        n_results: int | None = None,
        factors: dict[str, Tensor] | None = None,
    ) -> None:
        self.data = data[None] if n_results is None else data  # (groups, n, ...)
        if n_results is not None and run is not None:
            raise ValueError("several results take no run directory")
        self.settings = settings
        self.encoder = encoder
        self.view_function = view_function
        self.run = run
        self.display = Display() if verbose else None
        self.factors = factors or {}
        self.iteration = 0
        self.stopped: str | None = None  # why training ended
        self.trouble: str | None = None  # what ended it, if it diverged
        self.kept = [Kept() for _ in range(n_results or 1)]
        self.reported: set[str] = set()  # findings that stand
        self.elapsed_before = 0.0  # seconds of the run before a resume
        self.keeper = Keeper(self)
        self.guard = Guard(self)

    def fit(self) -> Result:
        """Train until certified or to the end of the budget, from the newest checkpoint if any."""
        return self.fit_all()[0]

    def fit_all(self) -> list[Result]:
        """The same for several results: until all are certified or the budget ends."""
        fabric = launch(self.settings.device)
        threads = self.settings.device.threads or (1 if self.data.dim() == 3 else None)
        with (
            torch.random.fork_rng(),
            limited_threads(threads),
            flushed_denormals(),
            Interruptible(self.run is not None) as interrupt,
            self.display or contextlib.nullcontext(),
        ):
            self.set_up(fabric)
            self.keeper.restore()
            while self.stopped is None:
                self.iteration += 1
                terms = self.step()
                if self._is_time_to_check():
                    self._check(terms)
                    self.keeper.save_if_due()
                if self._all_agree(interrupt.asked):
                    self.keeper.save()
                    raise KeyboardInterrupt
            self.keeper.save()
            return [self._result(k) for k in range(len(self.kept))]

    # --- one iteration -----------------------------------------------------------------------

    def step(self) -> dict[str, Tensor]:
        """One step of Algorithm 1 for every member; the terms, (members,) each."""
        stage, method, batch = self.stage, self.method, self._batch()
        for group in self.optimizer.param_groups:
            group["lr"] = stage.rate(self.iteration) * self.guard.calm
        method.begin(self.model, self.optimizer, self.active.data, batch)
        with self.fabric.autocast():
            terms = method.terms(self.forward, self.model, batch)
            loss = method.total(terms, batch.progress).sum()
        self.model.zero_grad()
        self.fabric.backward(loss)
        self._clip()
        method.before_step(self.model, batch.progress)
        self.optimizer.step()
        method.after_step(self.model, batch.progress)
        terms = {name: term.detach() for name, term in terms.items()}
        if self.display:
            gap = max(kept.gap for kept in self.kept)
            self.display.step(stage.name, self.iteration, stage.end, terms, gap)
        return terms

    def _batch(self) -> Batch:
        stage, moment = self.stage, self.stage.view_progress(self.iteration)
        index = self.batches.next().to(self.data.device)
        x = self.active.data[:, index]
        view = draw_views(self.active.views, index, x, moment)
        if self.method.two_views:
            x = draw_views(self.active.views, index, x, moment)
        step = self.iteration - stage.begin
        return Batch(index, x, view, step, stage.progress(self.iteration))

    def _clip(self) -> None:
        largest = self.settings.optimizer.grad_clip
        if largest is not None:
            self.model.scale_gradients((largest / self.model.gradient_norms()).clamp(max=1))

    # --- every now and then ------------------------------------------------------------------

    def _is_time_to_check(self) -> bool:
        every = self.settings.training.check_every
        return (self.iteration - self.stage.begin) % every == 0 or self.iteration == self.stage.end

    def _check(self, terms: dict[str, Tensor]) -> None:
        """Measure the gap, keep the best member, log, and decide whether to go on."""
        seen = self._measure()
        trouble = self.guard.reason(terms, seen.gap)
        if trouble is not None:
            if not self.guard.recover(trouble):
                self.stopped, self.trouble = "diverged", trouble
                self.event("diverged", f"{trouble}; {self.guard.recoveries} recoveries")
                for k in self.active.results:
                    if self.kept[k].state is None:
                        self._keep(self.kept[k], seen, seen, self._contenders(k)[0])
            return
        tol = self.settings.training.tol
        if float(seen.gap.min()) < tol:
            # The lucky draw of one among many looks is no certificate: look again, closely.
            seen = self._measure(repeats=REPEATS)
        now = seen
        if self.views[0].annealed and float(seen.gap.max()) >= tol:
            # Uncertified members are compared under the views of the moment: under wide ones, an
            # undecided clustering looks better than a sharp one of overlapping clusters.
            now = self._measure(self.stage.view_progress(self.iteration))
        for k in self.active.results:
            kept, members = self.kept[k], self._contenders(k)
            settles = float(seen.gap[members].min()) < tol and self._trains_bound(k)
            look = seen if settles else now
            best = members[int(look.gap[members].argmin())]
            if k == self.active.results[0]:
                diagnosis = self._diagnose(seen, look, best)
            # Until there is a certificate the latest state wins: views may be annealed, and where
            # predictions are undecided, an untrained state may have the smallest gap. The density
            # is new in each state, but no certificate is given up for it.
            if settles or not kept.settled:
                self._keep(kept, seen, look, best)
                kept.settled = settles
        self._log(terms, seen.gap.tolist(), diagnosis)
        self._move_on()
        if self.stopped is None:
            self._let_go()
            self.guard.keep()

    def _measure(self, progress: float | None = None, repeats: int = 1) -> Measurement:
        """What rank 0 measures, on every rank, so that all decide alike."""
        judged = self.method.judged(self.model)
        data, views = self.active.data, self.active.views
        seen = measure(judged, data, views, self.prior, progress, repeats)
        return seen._replace(gap=self.fabric.broadcast(seen.gap))

    def _contenders(self, result: int) -> list[int]:
        """The members that compete for a result."""
        each = self.stage.n_members // len(self.active.results)
        first = self.active.results.index(result) * each
        return list(range(first, first + each))

    def _diagnose(self, seen: Measurement, look: Measurement, member: int) -> Diagnosis:
        return diagnose(
            look.features[member],
            look.logits[member],
            look.logits_view[member],
            None if look.target is None else look.target[member],
            float(seen.gap[member]),
            self.settings.training.tol,
        )

    def _trains_bound(self, result: int) -> bool:
        """Whether INV and PRIOR both have weight, so that the bound of Proposition 1 is trained.

        Where one is left out, to stop at a small gap would let it in by the back door: an ablation
        is what it comes to in the end.
        """
        both = (self.factors[name][result] for name in ("inv", "prior") if name in self.factors)
        return trains_bound(self.settings) and all(both)

    def _keep(self, kept: Kept, seen: Measurement, look: Measurement, member: int) -> None:
        if self.stage.name == "clusters":
            kept.member = member
        kept.score, kept.gap = float(look.gap[member]), float(seen.gap[member])
        kept.target = None if look.target is None else look.target[member]
        chosen = self.method.judged(self.model).select([member])
        kept.state = {name: value.detach().clone() for name, value in chosen.state_dict().items()}

    def _move_on(self) -> None:
        """Go to the next stage, or end, when this one has done its work."""
        done = self.iteration >= self.stage.end
        gap = max(kept.gap for kept in self.kept)
        kind = "certified" if all(kept.settled for kept in self.kept) else "budget"
        if self.stage.name == "clusters" and (kind == "certified" or done):
            self.event(kind, f"clusters after {self.iteration} iterations: gap {gap:.5f}")
            following = density_stage(self.settings, self.iteration, len(self.kept))
            if following is None:
                self.stopped = kind
            else:
                self.enter(following)
        elif done:
            self.stopped = kind
            self.event("density", f"density learnt, gap {gap:.5f}")

    def _let_go(self) -> None:
        """Of several results, train on only for those whose clusters have no certificate yet."""
        before = self.active.results
        left = [k for k in before if not self.kept[k].settled]
        if self.stage.name != "clusters" or left == before:
            return
        members = [member for k in left for member in self._contenders(k)]
        model, optimizer = self.model, self.optimizer
        self.stage = replace(self.stage, n_members=len(members))
        self._train(model.select(members))
        keep_moments(model, optimizer, members, self.model, self.optimizer)
        self.method.select(members)
        if self.prior.state is not None:
            self.prior.state = self.prior.state[members]
        self.active = self._activate(left)

    def _log(self, terms: dict[str, Tensor], gaps: list[float], diagnosis: Diagnosis) -> None:
        if self.run is None or self.fabric.global_rank != 0:
            return
        row: dict[str, Any] = {"iteration": self.iteration, "stage": self.stage.name}
        row |= {"seconds": round(self.elapsed(), 3)}
        row |= {name: term.tolist() for name, term in terms.items()}
        kept = self.kept[0]
        row |= {"gap": gaps, "kept": kept.member, "best_gap": kept.gap, "best_score": kept.score}
        row |= {f.name: f.value for f in diagnosis.findings}
        self.run.add_metrics(row)
        if self.settings.training.tensorboard:
            self.run.add_to_tensorboard(row)
        for finding in diagnosis.findings:
            if finding.ok == (finding.name in self.reported):
                kind = "mended" if finding.ok else "finding"
                self.event(kind, finding.words, mode=finding.mode, value=finding.value)
        self.reported = {finding.name for finding in diagnosis.problems}

    def event(self, kind: str, message: str, **details: Any) -> None:
        """Write an event to the run directory, if there is one."""
        if self.run is not None and self.fabric.global_rank == 0:
            self.run.add_event(kind, message, iteration=self.iteration, **details)

    def _all_agree(self, asked: bool) -> bool:
        """Whether to end here; several ranks settle it when they all look, or one would hang."""
        if self.stopped is not None or self.fabric.world_size == 1:
            return asked and self.stopped is None
        if self.iteration % self.settings.training.check_every:
            return False
        votes = self.fabric.all_reduce(torch.tensor(float(asked)), reduce_op="sum")
        return bool(votes > 0)  # type: ignore[operator]

    # --- set-up and result -------------------------------------------------------------------

    def set_up(self, fabric: Fabric) -> None:
        """All that the first iteration needs."""
        settings, seed = self.settings, self.settings.training.seed
        self.fabric = fabric
        reuse_freed_memory()
        self.started = time.perf_counter()
        torch.manual_seed(seed)
        self.data = self.data.to(fabric.device, data_type(settings.device))
        points = self.data.flatten(0, 1)
        # No pixel is special: one that never changes in the data must not be fixed in chains.
        box = Box.around(points) if points.dim() == 2 else Box.cube(points)
        self.box = box.widened(settings.sampler.margin)
        self.prior = make_prior(settings.prior)
        self.views: list[Views] = [
            make_views(settings.views, own, settings.n_clusters, seed, self.view_function)
            for own in self.data
        ]
        self.batches = Batches(
            self.data.shape[1],
            settings.optimizer.batch_size,
            seed,
            fabric.global_rank,
            fabric.world_size,
        )
        self.enter(first_stage(settings, len(self.kept)))
        # From here on ranks draw different views and chains.
        torch.manual_seed(seed + 1_000_003 * (1 + fabric.global_rank))

    def enter(self, stage: Stage) -> None:
        """Begin a stage: a fresh optimiser and fresh chains, for the members that go on."""
        self.stage = stage
        self.active = self._activate(list(range(len(self.kept))))
        model = self._network(stage.n_members)
        if stage.name == "density":
            model = EnergyModel.join([self._kept_network(kept) for kept in self.kept])
            self.prior = fixed([kept.target for kept in self.kept], self.settings.n_clusters)
        self._train(model)
        self.arm()

    def _train(self, model: EnergyModel) -> None:
        self.model = model
        adam = torch.optim.Adam(
            model.parameters(),
            lr=self.stage.learning_rate,
            betas=self.settings.optimizer.betas,
            fused=self.fabric.device.type in ("cpu", "cuda"),
        )
        self.forward, self.optimizer = self.fabric.setup(model, adam)

    def arm(self) -> None:
        """The method of the stage with fresh chains, as calm as the guard wants it."""
        self.method = make_method(self)

    def _activate(self, results: list[int]) -> Active:
        """What the members of these results see."""
        data, views = self.data, self.views
        if len(data) > 1 and len(results) < len(data):
            data, views = data[results], [views[k] for k in results]
        return Active(results, data, views)

    def _network(self, n_members: int) -> EnergyModel:
        point = tuple(self.data.shape[2:])
        return build_model(self.settings, point, n_members, self.encoder)

    def _kept_network(self, kept: Kept) -> EnergyModel:
        assert kept.state is not None
        model = self._network(1).to(self.data)
        model.load_state_dict(kept.state)
        return model

    def elapsed(self) -> float:
        return self.elapsed_before + time.perf_counter() - self.started

    def _result(self, k: int) -> Result:
        assert self.stopped is not None
        kept, group = self.kept[k], k if len(self.data) > 1 else 0
        model = self._kept_network(kept).eval()
        data, views = self.data[group : group + 1], self.views[group : group + 1]
        final = self.method.conclude(model, data)
        gap = None if final or not self._trains_bound(k) else kept.gap
        tol = self.settings.training.tol
        diagnosis = examine(model, data, views, Fixed(kept.target), tol, gap)
        stopped = self.stopped
        if stopped != "diverged":  # of several results, each may end differently
            stopped = "certified" if diagnosis.certified else "budget"
        return Result(
            model=model.cpu(),
            diagnosis=diagnosis,
            prior=None if kept.target is None else kept.target.cpu(),
            box=Box(self.box.low.cpu(), self.box.high.cpu()),
            iterations=self.iteration,
            seconds=self.elapsed(),
            stopped=stopped,
            recoveries=self.guard.recoveries,
            trouble=self.trouble,
        )
