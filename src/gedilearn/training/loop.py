"""The training loop: Algorithm 1 for all members at once, watched by certificate and monitor."""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from gedilearn.data.views import Views, make_views
from gedilearn.methods.gedi import GEDI
from gedilearn.methods.priors import Fixed, make_prior
from gedilearn.models.build import build_model
from gedilearn.models.energy import EnergyModel
from gedilearn.models.mlp import reuse_freed_memory
from gedilearn.sampling.buffer import ReplayBuffer
from gedilearn.sampling.chains import PersistentChains
from gedilearn.sampling.langevin import Box, Kernel
from gedilearn.settings import Settings, raised
from gedilearn.training.batches import Batches
from gedilearn.training.certificate import REPEATS, Measurement, examine, measure
from gedilearn.training.environment import data_type, gather, launch, limited_threads
from gedilearn.training.guard import Guard
from gedilearn.training.interrupt import Interruptible
from gedilearn.training.keeper import Keeper
from gedilearn.training.monitor import Diagnosis, diagnose
from gedilearn.training.progress import Display
from gedilearn.training.rundir import RunDirectory
from gedilearn.training.stages import Stage, density_stage, first_stage

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


class Trainer:
    """Trains `settings.training.n_init` members on `data`, (n, ...), in the network's units.

    All randomness comes from torch's global generators: they are seeded here, saved with every
    checkpoint, and put back as they were when `fit` returns.
    """

    def __init__(
        self,
        data: Tensor,
        settings: Settings,
        *,
        encoder: nn.Module | None = None,
        view_function: Callable[[Tensor], Tensor] | None = None,
        run: RunDirectory | None = None,
        verbose: bool = False,
    ) -> None:
        self.data = data
        self.settings = settings
        self.encoder = encoder
        self.view_function = view_function
        self.run = run
        self.display = Display() if verbose else None
        self.iteration = 0
        self.stopped: str | None = None  # why training ended
        self.trouble: str | None = None  # what ended it, if it diverged
        self.best: dict[str, Tensor] | None = None  # the best member's parameters
        self.best_score = math.inf  # its gap under the views of its moment
        self.best_gap = math.inf  # its gap under the certifying views
        self.best_target: Tensor | None = None  # the prior that it was held against
        self.kept = 0  # its number
        self.reported: set[str] = set()  # findings that stand
        self.elapsed_before = 0.0  # seconds of the run before a resume
        self.keeper = Keeper(self)
        self.guard = Guard(self)

    def fit(self) -> Result:
        """Train until certified or to the end of the budget, from the newest checkpoint if any."""
        fabric = launch(self.settings.device)
        threads = self.settings.device.threads or (1 if self.data.dim() == 2 else None)
        with (
            torch.random.fork_rng(),
            limited_threads(threads),
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
            return self._result()

    # --- one iteration -----------------------------------------------------------------------

    def step(self) -> dict[str, Tensor]:
        """One step of Algorithm 1 for every member; the terms, (members,) each."""
        stage, progress = self.stage, self.stage.progress(self.iteration)
        index = self.batches.next().to(self.data.device)
        x = self.data[index]
        view = self.views.draw(index, x, stage.view_progress(self.iteration))
        for group in self.optimizer.param_groups:
            group["lr"] = stage.rate(self.iteration) * self.guard.calm
        with self.fabric.autocast():
            terms = self.method.terms(self.forward, self.model, x, view, progress, gather)
            loss = self.method.total(terms, progress).sum()
        self.model.zero_grad()
        self.fabric.backward(loss)
        self._clip()
        self.optimizer.step()
        terms = {name: term.detach() for name, term in terms.items()}
        if self.display:
            self.display.step(stage.name, self.iteration, stage.end, terms, self.best_gap)
        return terms

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
                if self.best is None:
                    self._keep(seen, seen, 0)
            return
        tol = self.settings.training.tol
        if float(seen.gap.min()) < tol:
            # The lucky draw of one among many looks is no certificate: look again, closely.
            seen = self._measure(repeats=REPEATS)
        now = seen
        if self.views.annealed and float(seen.gap.min()) >= tol:
            # Uncertified members are compared under the views of the moment: under wide ones, an
            # undecided clustering looks better than a sharp one of overlapping clusters.
            now = self._measure(self.stage.view_progress(self.iteration))
        best = int(now.gap.argmin())
        target = None if now.target is None else now.target[best]
        diagnosis = diagnose(
            now.features[best],
            now.logits[best],
            now.logits_view[best],
            target,
            float(seen.gap[best]),
            tol,
        )
        if self._is_better(float(now.gap[best]), diagnosis.certified):
            self._keep(seen, now, best)
        self._log(terms, seen.gap.tolist(), diagnosis)
        self._move_on(diagnosis.certified)
        if self.stopped is None:
            self.guard.keep()

    def _measure(self, progress: float | None = None, repeats: int = 1) -> Measurement:
        """What rank 0 measures, on every rank, so that all decide alike."""
        seen = measure(self.model, self.data, self.views, self.prior, progress, repeats)
        return seen._replace(gap=self.fabric.broadcast(seen.gap))

    def _is_better(self, score: float, certified: bool) -> bool:
        if self.stage.name == "density":
            # The density is new in each state, but no certificate is given up for it.
            return certified or self.best_gap >= self.settings.training.tol
        # While views are annealed, scores of different moments do not compare: the latest wins.
        return self.views.annealed or score < self.best_score or self.best is None

    def _keep(self, seen: Measurement, now: Measurement, member: int) -> None:
        if self.stage.name == "clusters":
            self.kept = member
        self.best_score, self.best_gap = float(now.gap[member]), float(seen.gap[member])
        self.best_target = None if now.target is None else now.target[member]
        self.best = {
            name: value.detach().clone()
            for name, value in self.model.select([member]).state_dict().items()
        }

    def _move_on(self, certified: bool) -> None:
        """Go to the next stage, or end, when this one has done its work."""
        done = self.iteration >= self.stage.end
        if self.stage.name == "clusters" and (certified or done):
            kind = "certified" if certified else "budget"
            self.event(kind, f"clusters after {self.iteration} iterations: gap {self.best_gap:.5f}")
            following = density_stage(self.settings, self.iteration)
            if following is None:
                self.stopped = kind
            else:
                self.enter(following)
        elif done:
            certified = self.best_gap < self.settings.training.tol
            self.stopped = "certified" if certified else "budget"
            self.event("density", f"density learnt, gap {self.best_gap:.5f}")

    def _log(self, terms: dict[str, Tensor], gaps: list[float], diagnosis: Diagnosis) -> None:
        if self.run is None or self.fabric.global_rank != 0:
            return
        row: dict[str, Any] = {"iteration": self.iteration, "stage": self.stage.name}
        row |= {"seconds": round(self.elapsed(), 3)}
        row |= {name: term.tolist() for name, term in terms.items()}
        row |= {"gap": gaps, "kept": self.kept}
        row |= {"best_gap": self.best_gap, "best_score": self.best_score}
        row |= {f.name: f.value for f in diagnosis.findings}
        self.run.metric(row)
        if self.settings.training.tensorboard:
            self.run.show_in_tensorboard(row)
        for finding in diagnosis.findings:
            if finding.ok == (finding.name in self.reported):
                kind = "mended" if finding.ok else "finding"
                self.event(kind, finding.words, mode=finding.mode, value=finding.value)
        self.reported = {finding.name for finding in diagnosis.problems}

    def event(self, kind: str, message: str, **details: Any) -> None:
        """Write an event to the run directory, if there is one."""
        if self.run is not None and self.fabric.global_rank == 0:
            self.run.event(kind, message, iteration=self.iteration, **details)

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
        self.box = Box.around(self.data).widened(settings.sampler.margin)
        self.prior = make_prior(settings.prior)
        self.views: Views = make_views(
            settings.views, self.data, settings.n_clusters, seed, self.view_function
        )
        self.batches = Batches(
            len(self.data),
            settings.optimizer.batch_size,
            seed,
            fabric.global_rank,
            fabric.world_size,
        )
        self.enter(first_stage(settings))
        # From here on ranks draw different views and chains.
        torch.manual_seed(seed + 1_000_003 * (1 + fabric.global_rank))

    def enter(self, stage: Stage) -> None:
        """Begin a stage: a fresh optimiser and fresh chains, for the members that go on."""
        self.stage = stage
        model = build_model(
            self.settings.network,
            tuple(self.data.shape[1:]),
            self.settings.n_clusters,
            stage.n_members,
            self.encoder,
        )
        if stage.name == "density" and self.best is not None:
            model.load_state_dict(self.best)
        self.model = model
        adam = torch.optim.Adam(
            model.parameters(),
            lr=stage.learning_rate,
            betas=self.settings.optimizer.betas,
            fused=self.fabric.device.type in ("cpu", "cuda"),
        )
        self.forward, self.optimizer = self.fabric.setup(model, adam)
        self.arm()

    def arm(self) -> None:
        """The method of the stage with fresh chains, as calm as the guard wants it."""
        weights, sampler = self.stage.weights, self.settings.sampler
        if self.guard.extra_energy:
            energy = raised(weights.energy, self.guard.extra_energy)
            weights = weights.model_copy(update={"energy": energy})
        chains = None
        if weights.gen:
            size = max(sampler.buffer // self.fabric.world_size, self.batches.size)
            buffer = ReplayBuffer(self.stage.n_members, size, sampler.restart, self.box.uniform)
            kernel = Kernel(
                sampler.step_size * self.guard.calm,
                sampler.noise * self.guard.calm**0.5,
                sampler.max_move,
                self.box if sampler.clamp else None,
            )
            chains = PersistentChains(buffer, kernel, sampler.steps)
        self.method = GEDI(weights, self.prior, chains)

    def elapsed(self) -> float:
        return self.elapsed_before + time.perf_counter() - self.started

    def _result(self) -> Result:
        assert self.best is not None and self.stopped is not None
        model = self.model.select([0])
        model.load_state_dict(self.best)
        model.eval()
        target, tol = self.best_target, self.settings.training.tol
        diagnosis = examine(model, self.data, self.views, Fixed(target), tol, self.best_gap)
        return Result(
            model=model.cpu(),
            diagnosis=diagnosis,
            prior=None if target is None else target.cpu(),
            box=Box(self.box.low.cpu(), self.box.high.cpu()),
            iterations=self.iteration,
            seconds=self.elapsed(),
            stopped=self.stopped,
            recoveries=self.guard.recoveries,
            trouble=self.trouble,
        )
