"""The training loop: Algorithm 1 for all members at once, watched by certificate and monitor."""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from gedilearn.data.views import Views, make_views
from gedilearn.errors import InputError
from gedilearn.methods.gedi import GEDI
from gedilearn.methods.priors import Fixed, make_prior
from gedilearn.models.build import build_model
from gedilearn.models.energy import EnergyModel
from gedilearn.sampling.buffer import ReplayBuffer
from gedilearn.sampling.chains import PersistentChains
from gedilearn.sampling.langevin import Box, Kernel
from gedilearn.settings import Settings
from gedilearn.training.batches import Batches
from gedilearn.training.certificate import REPEATS, Measurement, examine, measure
from gedilearn.training.interrupt import Interruptible
from gedilearn.training.keeper import Keeper
from gedilearn.training.monitor import Diagnosis, diagnose
from gedilearn.training.progress import Display
from gedilearn.training.rundir import RunDirectory

if TYPE_CHECKING:
    from lightning_fabric import Fabric


@dataclass(frozen=True)
class Result:
    """The best member that training found, and how it ended."""

    model: EnergyModel
    diagnosis: Diagnosis
    prior: Tensor | None  # (clusters,): what the clusters were held against; None is uniform
    iterations: int
    seconds: float
    stopped: str  # 'certified', 'budget' or 'diverged'


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
        self.settings = settings
        self.encoder = encoder
        self.view_function = view_function
        self.run = run
        self.display = Display(settings.training.max_iter) if verbose else None
        self.data = data
        self.iteration = 0
        self.stopped: str | None = None  # why training ended
        self.best: dict[str, Tensor] | None = None  # the best member's parameters
        self.best_score = math.inf  # its gap under the views of its moment
        self.best_gap = math.inf  # its gap under the certifying views
        self.best_target: Tensor | None = None  # the prior that it was held against
        self.reported: set[str] = set()  # findings that stand
        self.elapsed_before = 0.0  # seconds of the run before a resume
        self.keeper = Keeper(self)

    def fit(self) -> Result:
        """Train until certified or to the end of the budget, from the newest checkpoint if any."""
        fabric = launch(self.settings)
        threads = self.settings.device.threads or (1 if self.data.dim() == 2 else None)
        with (
            torch.random.fork_rng(),
            limited_threads(threads),
            Interruptible(self.run is not None) as interrupt,
        ):
            self._set_up(fabric)
            self.keeper.restore()
            budget, every = self.settings.training.max_iter, self.settings.training.check_every
            if self.display:
                self.display.start(self.iteration)
            try:
                while self.stopped is None:
                    self.iteration += 1
                    terms = self._step()
                    if self.iteration % every == 0 or self.iteration == budget:
                        self._check(terms)
                        self.keeper.save_if_due()
                    if self._all_agree(interrupt.asked):
                        self.keeper.save()
                        raise KeyboardInterrupt
            finally:
                if self.display:
                    self.display.stop()
            self.keeper.save()
            return self._result()

    # --- one iteration -----------------------------------------------------------------------

    def _step(self) -> dict[str, Tensor]:
        progress = self.iteration / self.settings.training.max_iter
        index = self.batches.next().to(self.data.device)
        x = self.data[index]
        view = self.views.draw(index, x, progress)
        with self.fabric.autocast():
            terms = self.method.terms(self.forward, self.model, x, view, progress, self._gather)
            loss = self.method.total(terms, progress).sum()
        self.optimizer.zero_grad()
        self.fabric.backward(loss)
        self._clip()
        self.optimizer.step()
        terms = {name: term.detach() for name, term in terms.items()}
        if self.display:
            self.display.step(self.iteration, terms, self.best_gap)
        return terms

    def _clip(self) -> None:
        largest = self.settings.optimizer.grad_clip
        if largest is not None:
            self.model.scale_gradients((largest / self.model.gradient_norms()).clamp(max=1))

    def _gather(self, logits: Tensor) -> Tensor:
        """Join all ranks' logits, with gradients: (members, batch, c) -> (members, R * batch, c).

        Every rank then computes the same loss of the joined batch; the sum over ranks in the
        gradient of the gathering cancels the mean over ranks of the distributed backward pass.
        """
        if self.fabric.world_size == 1:
            return logits
        joined = self.fabric.all_gather(logits, sync_grads=True)
        return joined.movedim(0, 1).flatten(1, 2)  # type: ignore[union-attr]

    # --- every now and then ------------------------------------------------------------------

    def _check(self, terms: dict[str, Tensor]) -> None:
        """Measure the gap, keep the best member, log, and decide whether to stop."""
        tol = self.settings.training.tol
        seen = self._measure()
        if float(seen.gap.min()) < tol:
            # The lucky draw of one among many looks is no certificate: look again, closely.
            seen = self._measure(repeats=REPEATS)
        now = seen
        if self.views.annealed and float(seen.gap.min()) >= tol:
            # Uncertified members are compared under the views of the moment: under wide ones, an
            # undecided clustering looks better than a sharp one of overlapping clusters.
            now = self._measure(self.iteration / self.settings.training.max_iter)
        best = int(now.gap.argmin())
        diagnosis = diagnose(
            now.features[best],
            now.logits[best],
            now.logits_view[best],
            None if now.target is None else now.target[best],
            float(seen.gap[best]),
            tol,
        )
        # While views are annealed, scores of different moments do not compare: the latest wins.
        better = float(now.gap[best]) < self.best_score or self.views.annealed
        if (better and math.isfinite(now.gap[best])) or self.best is None:
            self.best_score = float(now.gap[best])
            self.best_gap = float(seen.gap[best])
            self.best_target = None if now.target is None else now.target[best]
            self.best = _snapshot(self.model, best)
        gaps = seen.gap.tolist()
        self._log(terms, gaps, diagnosis)
        if not any(math.isfinite(g) for g in gaps):
            self.stopped = "diverged"
            self._event("diverged", f"every member is non-finite at iteration {self.iteration}")
        elif diagnosis.certified:
            self.stopped = "certified"
            self._event("certified", f"gap {self.best_gap:.5f} is below {tol:g} nats")
        elif self.iteration >= self.settings.training.max_iter:
            self.stopped = "budget"
            self._event("budget", f"{self.iteration} iterations done, gap {self.best_gap:.5f} nats")

    def _measure(self, progress: float | None = None, repeats: int = 1) -> Measurement:
        """What rank 0 measures, on every rank, so that all decide alike."""
        seen = measure(self.model, self.data, self.views, self.prior, progress, repeats)
        return seen._replace(gap=self.fabric.broadcast(seen.gap))

    def _log(self, terms: dict[str, Tensor], gaps: list[float], diagnosis: Diagnosis) -> None:
        if self.run is None or self.fabric.global_rank != 0:
            return
        row: dict[str, Any] = {"iteration": self.iteration, "seconds": round(self.elapsed(), 3)}
        row |= {name: term.tolist() for name, term in terms.items()}
        row |= {"gap": gaps, "best_gap": self.best_gap, "best_score": self.best_score}
        row |= {f.name: f.value for f in diagnosis.findings}
        self.run.metric(row)
        for finding in diagnosis.findings:
            if finding.ok == (finding.name in self.reported):
                kind = "mended" if finding.ok else "finding"
                self._event(kind, finding.words, mode=finding.mode, value=finding.value)
        self.reported = {finding.name for finding in diagnosis.problems}

    def _event(self, kind: str, message: str, **details: Any) -> None:
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

    def _set_up(self, fabric: Fabric) -> None:
        settings, seed = self.settings, self.settings.training.seed
        self.fabric = fabric
        self.started = time.perf_counter()
        torch.manual_seed(seed)
        point_shape = tuple(self.data.shape[1:])
        members = settings.training.n_init
        self.model = build_model(
            settings.network, point_shape, settings.n_clusters, members, self.encoder
        )
        adam = torch.optim.Adam(
            self.model.parameters(),
            lr=settings.optimizer.learning_rate,
            betas=settings.optimizer.betas,
            fused=fabric.device.type in ("cpu", "cuda"),
        )
        self.forward, self.optimizer = fabric.setup(self.model, adam)
        self.data = self.data.to(fabric.device, _dtype(settings))
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
        # From here on ranks draw different views and chains.
        torch.manual_seed(seed + 1_000_003 * (1 + fabric.global_rank))
        self.method = GEDI(settings.weights, self.prior, self._chains())

    def _chains(self) -> PersistentChains | None:
        sampler = self.settings.sampler
        if not self.settings.weights.gen:
            return None
        box = Box.around(self.data)
        size = max(sampler.buffer // self.fabric.world_size, self.batches.size)
        buffer = ReplayBuffer(self.model.n_members, size, sampler.restart, box.uniform)
        limits = box if sampler.clamp else None
        kernel = Kernel(sampler.step_size, sampler.noise, sampler.max_move, limits)
        return PersistentChains(buffer, kernel, sampler.steps)

    def elapsed(self) -> float:
        return self.elapsed_before + time.perf_counter() - self.started

    def _result(self) -> Result:
        assert self.best is not None and self.stopped is not None
        model = self.model.select([0])
        model.load_state_dict(self.best)
        model.eval()
        tol = self.settings.training.tol
        prior = Fixed(self.best_target)
        diagnosis = examine(model, self.data, self.views, prior, tol, self.best_gap)
        return Result(
            model.cpu(),
            diagnosis,
            None if self.best_target is None else self.best_target.cpu(),
            self.iteration,
            self.elapsed(),
            self.stopped,
        )


def launch(settings: Settings) -> Fabric:
    """Lightning Fabric for the device settings, with its processes started."""
    from lightning_fabric import Fabric
    from lightning_fabric.utilities.exceptions import MisconfigurationException

    device = settings.device
    try:
        fabric = Fabric(
            accelerator=device.accelerator,
            devices=device.devices,
            num_nodes=device.num_nodes,
            precision=device.precision,
        )
    except (MisconfigurationException, ValueError, RuntimeError) as error:
        reason = str(error).splitlines()[0]
        raise InputError(f"device.accelerator={device.accelerator!r}: {reason}") from None
    fabric.launch()
    return fabric


@contextlib.contextmanager
def limited_threads(number: int | None) -> Iterator[None]:
    """Compute with this many threads; None changes nothing.

    Two threads gain little on small products and wait for each other whenever the machine has other
    work, which can slow a fit down tenfold.
    """
    before = torch.get_num_threads()
    torch.set_num_threads(number or before)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _dtype(settings: Settings) -> torch.dtype:
    return torch.float64 if settings.device.precision.startswith("64") else torch.float32


def _snapshot(model: EnergyModel, member: int) -> dict[str, Tensor]:
    """One member's parameters, copied."""
    return {k: v.detach().clone() for k, v in model.select([member]).state_dict().items()}
