"""What training gives: the best network, and how it ended."""

from __future__ import annotations

import copy
import math
import operator
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal, get_args

import numpy as np
import torch
from torch import Generator, Tensor

from gedilearn.density.density import Density
from gedilearn.density.fit import Findings
from gedilearn.density.fit import conclude as conclude_density
from gedilearn.density.outliers import Subsamples
from gedilearn.density.samplers import BaseChains
from gedilearn.errors import InputError, Parameter
from gedilearn.graph.views import WalkViews, draws_globally, make_views
from gedilearn.models.build import has_foreign_encoder
from gedilearn.models.energy import (
    EnergyModel,
    gradient_norms,
    log_density,
    logits_of,
    outputs,
)
from gedilearn.sampling.langevin import Box, Kernel, LogDensity, run
from gedilearn.sampling.weights import effective_share
from gedilearn.settings import Settings
from gedilearn.starts.choose import Start, recurrence
from gedilearn.training.environment import check_memory, check_steps, drawing
from gedilearn.training.journal import Journal
from gedilearn.training.run import DENSITY, MODEL, Summary, read_density
from gedilearn.training.setup import Setup
from gedilearn.training.state import TrainState
from gedilearn.verdict.bound import examine, temperature
from gedilearn.verdict.monitor import DIVERGENCE, Diagnosis
from gedilearn.verdict.number import NumberChoice
from gedilearn.verdict.outputs import (
    RARE,
    Outputs,
    logits_and_log_density,
    probabilities,
    quantiles,
)
from gedilearn.verdict.verdict import Verdict, compose

Score = Literal["log_density", "gradient_norm", "confidence", "energy"]
CHAIN_STEPS = 500  # of a sample where there is no base
POOL, AT_ONCE = 4_000, 1_000
MOST_TRIES = 1_000  # draws of a whole sample, until it has enough points of a cluster


@dataclass(frozen=True, eq=False)
class Result:
    """The best member that training found, and how it ended; points are in the network's units."""

    settings: Settings
    model: EnergyModel
    prior: Tensor  # (clusters,): what the clusters were held against
    box: Box  # around the data, where chains start
    diagnosis: Diagnosis
    stopped: str  # 'certified', 'budget' or 'diverged'
    recoveries: int
    iterations: int
    seconds: float
    temperature: float = 1.0  # divides the logits, which calibrates the probabilities
    # (n, 2): how far to believe in a training row's cluster; the probability of that cluster.
    trust: Tensor | None = None
    levels: Tensor | None = None  # (LEVELS,): quantiles of log p(x) of the training rows
    density: Density | None = None  # where it was learned on a base
    density_findings: Findings | None = None
    choice: NumberChoice | None = None  # of the number of clusters
    disputed: tuple[int, int] | None = None  # given labels that the network disputes; all of them
    training: Outputs | None = None  # of the training rows; files do not keep it

    @cached_property
    def verdict(self) -> Verdict:
        """How far to trust the clusters, in plain sentences."""
        return compose(self.diagnosis, self.density_findings, self.choice, self.disputed)

    def labels(self, x: Tensor) -> np.ndarray:
        """The most likely cluster of each point: (n, ...) -> (n,)."""
        return logits_of(self.model, x.to(self.box.low.dtype)).argmax(-1).numpy()

    def outputs(self, x: Tensor) -> Outputs:
        """Labels, p(y|x) and log p(x) of points (n, ...), in one pass.

        Log densities are in the network's units, and None where none was learned.
        """
        own = (self.model, self.settings.n_clusters, self.density)
        logits, level = logits_and_log_density(*own, x)
        p = self.calibrated(logits, level)
        learned = level.numpy() if self.has_density else None
        return Outputs(logits.argmax(-1).numpy(), p.numpy(), learned)

    def calibrated(self, logits: Tensor, log_density: Tensor) -> Tensor:
        """p(y|x): (n, clusters), given the logits of the points and their log p(x)."""
        least = None
        if self.density is not None and self.levels is not None and self.box.low.dim() == 1:
            least = float(torch.quantile(self.levels, RARE, interpolation="lower"))
        return probabilities(logits, log_density, self.temperature, self.prior, least)

    @cached_property
    def network(self) -> LogDensity:
        """logsumexp f of points (n, *point), as the density needs it."""
        return log_density_of(self.model)

    @property
    def subsamples(self) -> Subsamples:
        """They say how unusual a row is among the bulk."""
        if self.density is None or self.density.subsamples is None:
            raise InputError("outliers: the model has learned no density")
        return self.density.subsamples

    def unusual(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """The outlier scores of points, and their mean z: (n, *point) -> (n,), (n,)."""
        subsamples = self.subsamples
        assert self.density is not None
        return subsamples.measured(self.density.coordinates.leading(x))

    def training_rows(self) -> Tensor:
        """Different training rows, those of the subsamples of vectors: (m, d)."""
        assert self.density is not None
        rows, coordinates = self.subsamples.rows.flatten(0, 1), self.density.coordinates
        return coordinates.points(torch.unique(rows, dim=0).to(coordinates.centre)).to(rows)

    @property
    def has_density(self) -> bool:
        """Whether log p(x) was learnt."""
        return self.settings.learns_density

    def clusters(self, labels: np.ndarray) -> list[dict[str, Any]]:
        """Size and share of each cluster, and how far to trust it, given the points' labels."""
        rows, evidence = [], self.diagnosis.evidence
        for k in range(self.settings.n_clusters):
            own = labels == k
            row: dict[str, Any] = {"cluster": k, "size": int(own.sum()), "share": float(own.mean())}
            if self.trust is not None and evidence is not None and own.any():
                believed, sure = self.trust[torch.from_numpy(own)].T
                row |= {"stability": evidence.recurrence[k], "confidence": float(sure.mean())}
                row |= {"trust": float((believed * sure).mean()), "cut": evidence.cut[k]}
                dip = evidence.dip(k)
                row["density_dip"] = dip if math.isfinite(dip) else None
                row |= {"touches": evidence.touches(k), "place": evidence.place(k)}
            rows.append(row)
        return rows

    def features(self, x: Tensor) -> np.ndarray:
        """enc(x): (n, ...) -> (n, h)."""
        return outputs(self.model, x).features.numpy()

    def scores(self, x: Tensor, kind: Score) -> np.ndarray:
        """How typical each point is, higher for more: (n, ...) -> (n,)."""
        if kind == "gradient_norm" and self.density is not None:
            return np.asarray(-self.density.gradients(x, self.network).norm(dim=1))
        if kind == "gradient_norm":
            return -gradient_norms(self.model, x).numpy()
        if kind == "confidence":
            return np.asarray(self.outputs(x).probabilities.max(-1))
        if kind not in get_args(Score):
            raise InputError(f"kind={kind!r}: expected one of {', '.join(get_args(Score))}")
        if kind == "log_density" and self.density is not None:
            return self.density.log_density(x, self.network).numpy()
        return log_density(logits_of(self.model, x)).numpy()

    @cached_property
    def pool(self) -> Tensor:
        """Points of p(x), whose distribution is compared with that of the training rows."""
        return self.sample(POOL, 0, 0)

    def effective(self, x: Tensor, known: Tensor) -> float:
        """How many of the pool have `known` columns as rare as those of x: (*point), (*point).

        Multiplied by the effective share of the proposals with these columns.
        """
        assert self.density is not None
        generator, propose = Generator().manual_seed(0), self.density.propose_given
        _, ratios, level = propose(x[None], known, POOL, self.network, generator)
        parts = torch.split(self.pool, AT_ONCE)
        levels = torch.cat([propose(part, known, 1, self.network, generator)[2] for part in parts])
        return float((levels <= level).sum() * effective_share(ratios[0]))

    def sample(
        self,
        n: int,
        steps: int | None,
        seed: int,
        cluster: int | None = None,
        given: tuple[Tensor, Tensor] | None = None,
    ) -> Tensor:
        """Points of p(x), or of p(x|y) for a cluster y: (n, ...).

        given: a point, and which of its columns all points have: (*point), (*point)

        A point of p(x) is one of p(x|y) if it is kept with the chance p(y|x), which is that of
        `probabilities`.
        """
        if n < 1:
            raise InputError(Parameter("n_samples", n), ": at least 1 is needed")
        if steps is not None:
            check_steps(steps)
        c = self.settings.n_clusters
        is_number = not isinstance(cluster, bool)  # which would choose rows, not a column
        if cluster is not None and not (is_number and 0 <= operator.index(cluster) < c):
            raise InputError(Parameter("cluster", cluster), f": give a cluster from 0 to {c - 1}")
        # The points, their gradients and noise; in double precision at the end.
        check_memory(f"{n} points", 24 * n * self.box.low.numel(), "n_samples")
        # A copy: chains change the mode of a network, which other threads may be using.
        model = copy.deepcopy(self.model)
        with drawing(seed, has_foreign_encoder(model)) as generator:
            if cluster is None:
                return self._draw(model, n, steps, generator, given)
            kept: list[Tensor] = []
            for _ in range(MOST_TRIES):
                points = self._draw(model, n, steps, generator, given)
                chance = torch.from_numpy(self.outputs(points).probabilities[:, cluster])
                kept.append(points[torch.rand(n, generator=generator) < chance])
                if sum(map(len, kept)) >= n:
                    return torch.cat(kept)[:n]
        raise InputError(
            Parameter("cluster", cluster),
            ": too few of the generated points are in it, "
            f"{sum(map(len, kept))} of {MOST_TRIES * n}",
        )

    def _draw(
        self,
        model: EnergyModel,
        n: int,
        steps: int | None,
        generator: Generator,
        given: tuple[Tensor, Tensor] | None,
    ) -> Tensor:
        """Points of p(x), or of p(x) with given columns: (n, ...)."""
        if self.density is not None and given is not None:
            drawn = self.density.sample_given(n, *given, steps, self.network, generator)
            return drawn.to(self.box.low.dtype)
        if self.density is not None:
            return self.density.sample(n, steps, self.network, generator).to(self.box.low.dtype)
        kernel = Kernel.of(self.settings.sampler, self.box)
        with model.fixed():
            position = self.box.uniform(1, n, generator=generator)
            steps = CHAIN_STEPS if steps is None else steps
            return run(position, model.log_density, kernel, steps, generator)[0]

    def diagnose(self, x: Tensor, views: Callable[..., Tensor] | None) -> Diagnosis:
        """Certificate and findings on data, which may be new; `views` replace the settings'."""
        settings, seed = self.settings, self.settings.training.seed
        given = (settings.views, x, settings.n_clusters, seed, views)
        drawn = make_views(*given, metric=settings.metric)
        target = None if settings.prior == "uniform" else self.prior
        model = copy.deepcopy(self.model)
        with drawing(seed, has_foreign_encoder(model) or draws_globally(drawn)) as generator:
            return examine(model, x, drawn, target, settings.training.tol, generator)

    def tensors(self) -> dict[str, Tensor]:
        """What a file keeps of it, beside the summary."""
        kept = {f"{MODEL}{name}": t for name, t in self.model.state_dict().items()}
        if self.density is not None:
            kept |= {f"{DENSITY}{name}": t for name, t in self.density.state_dict().items()}
        more = {"trust": self.trust, "levels": self.levels}
        kept |= {name: tensor for name, tensor in more.items() if tensor is not None}
        return kept | {"box.low": self.box.low, "box.high": self.box.high, "prior": self.prior}

    def summary(self) -> dict[str, Any]:
        """How it ended, in plain numbers and words."""
        evidence = self.diagnosis.evidence
        return {
            "grade": self.diagnosis.grade,
            "stability": None if evidence is None else evidence.stability,
            "trust": None if evidence is None else evidence.trust(self.diagnosis.gap),
            "bound_gap": self.diagnosis.gap,
            "certified": self.diagnosis.certified,
            "verdict": self.verdict.to_json(),
            "stopped": self.stopped,
            "recoveries": self.recoveries,
            "iterations": self.iterations,
            "seconds": round(self.seconds, 3),
            "temperature": self.temperature,
            "diagnosis": self.diagnosis.to_json(),
            "density": self.density_findings and self.density_findings.to_json(),
            "disputed": self.disputed,
        }

    @classmethod
    def read(
        cls,
        settings: Settings,
        tensors: dict[str, Tensor],
        summary: Summary,
        model: EnergyModel,
    ) -> Result:
        """From the output of `tensors` and `summary`, and the network that was read."""
        box = Box(tensors["box.low"], tensors["box.high"])
        names = ("diagnosis", "stopped", "recoveries", "iterations", "seconds")
        ended = {name: getattr(summary, name) for name in (*names, "choice", "disputed")}
        ended["temperature"] = summary.temperature
        ended |= {name: tensors.get(name) for name in ("trust", "levels")}
        density = read_density(tensors)
        ended |= {"density": density, "density_findings": summary.density if density else None}
        return cls(settings, model, tensors["prior"], box, **ended)


# --- conclusion of a training ---------------------------------------------------------------------
#
# What came of a training: its network measured once more, its evidence, and the density.


def learnt_density(
    setup: Setup, state: TrainState, model: EnergyModel, journal: Journal
) -> tuple[Density, Findings] | None:
    """The density of a network on its base, if it was learnt on one."""
    base, settings = setup.base, setup.settings
    if base is None:
        return None
    journal.progress.phase("measuring the result")
    sampler, trained = state.method.sampler, state.stage.weights.gen
    made_by = (0, 0.0)
    if isinstance(sampler, BaseChains):
        member = state.best.member if len(sampler.lengths) > 1 else 0
        made_by = (sampler.steps, sampler.lengths[member])
    kind = settings.sampler.kind if trained else "none"
    seed, ess = settings.training.seed, state.best.ess_at_stop
    density, findings = conclude_density(base, log_density_of(model), kind, seed, made_by, ess)
    journal.event(state, "density", findings.words)
    return density.cpu(), findings


def log_density_of(model: EnergyModel) -> LogDensity:
    """logsumexp f of points (n, *point), with gradients to them; of vectors in double precision."""
    network = copy.deepcopy(model).eval().requires_grad_(False)
    precise, kind = copy.deepcopy(network).double(), next(network.parameters()).dtype

    def unnormalised(x: Tensor) -> Tensor:
        if x.dim() == 2:
            return precise.log_density(x.double()[None])[0]
        return network.log_density(x.to(kind)[None])[0]

    return unnormalised


def conclude(setup: Setup, state: TrainState, journal: Journal) -> Result:
    """The result of a training: its network, measured once more, the evidence and the density."""
    assert state.stopped is not None
    best, tol, settings = state.best, setup.settings.training.tol, setup.settings
    journal.progress.phase("measuring the result")
    data, views, points = setup.data, setup.views, setup.points
    start = setup.start if state.voted is None else Start.of_vote(state.voted.numpy())
    generator = state.generators.device
    model = best.network(setup).eval()
    final = state.method.conclude(model, data)
    known = settings.certifies and math.isfinite(best.gap) and not final
    if isinstance(views, WalkViews):  # measured under other walks than those of training
        views, known = views.resampled(settings.training.seed + 1), False
    gap = best.gap if known else None
    diagnosis = examine(model, data, views, best.target, tol, generator, gap)

    density, c = learnt_density(setup, state, model, journal) or (None, None), settings.n_clusters
    logits, level = logits_and_log_density(model, c, density[0], points, shared=True)
    labels = logits.argmax(-1)
    evidence = setup.evidence(labels.numpy(), start, journal.progress)
    graded = setup.graded(labels.numpy())
    outlying = () if density[0] is None else density[0].outlying(points, graded, c)
    choice = setup.choice
    tries = 1 if choice is None else choice.tried if choice.stands_out else 0
    diagnosis = replace(diagnosis, evidence=evidence, tries=tries, outlying=outlying)
    if state.stopped == "diverged":
        words = f"training diverged after {state.recoveries} recoveries: {state.trouble}"
        diagnosis = diagnosis.diverged(words)
    elif best.diverged_at is not None:
        words = f"training diverged at iteration {best.diverged_at}: {best.trouble}"
        diagnosis = diagnosis.diverged(words, recovered=not best.diverges)
    stopped = "certified" if diagnosis.certified else "budget"
    stopped = "diverged" if DIVERGENCE in diagnosis.failure_modes else stopped
    heat = 1.0
    if c > 1 and isinstance(views, WalkViews) and not final:
        seen = (labels.to(data.device), data, views, generator)
        heat = temperature(lambda at: logits[at.cpu()].to(data.device), *seen)
    prior = torch.full((c,), 1 / c) if best.target is None else best.target.cpu()
    result = Result(
        settings=settings,
        model=copy.deepcopy(model).cpu(),
        prior=prior.double(),
        box=setup.box.cpu(),
        diagnosis=diagnosis,
        stopped=stopped,
        recoveries=state.recoveries,
        iterations=state.iteration,
        seconds=journal.seconds(),
        temperature=heat,
        levels=None if density[0] is None else quantiles(level),
        density=density[0],
        density_findings=density[1],
        choice=choice,
    )
    p = result.calibrated(logits, level).numpy()
    learned = level.numpy() if result.has_density else None
    outputs = Outputs(labels.numpy(), p, learned)
    if start is None or evidence is None:
        return replace(result, training=outputs)
    again, believed = recurrence(graded, start.subsamples), np.zeros(len(graded))
    for cluster in range(c):
        own = graded == cluster
        believed[own] = evidence.belief(cluster, diagnosis.gap, again[own])
    both = np.stack([believed, outputs.of(graded).probability], axis=1)
    outputs = replace(outputs, trust=both.prod(1))
    return replace(result, training=outputs, trust=torch.from_numpy(both))
