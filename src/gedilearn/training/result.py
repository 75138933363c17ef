"""What training gives: the best network, and how it ended."""

from __future__ import annotations

import copy
import math
import operator
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal, get_args

import numpy as np
import torch
from torch import Generator, Tensor

from gedilearn.density.density import Density, Energy
from gedilearn.density.fit import Findings
from gedilearn.density.fit import conclude as conclude_density
from gedilearn.density.samplers import BaseChains
from gedilearn.errors import InputError
from gedilearn.graph.views import WalkViews, draws_globally, make_views
from gedilearn.methods.method import learns_density
from gedilearn.models.build import has_foreign_encoder
from gedilearn.models.energy import (
    EnergyModel,
    gradient_norms,
    labels_of,
    log_density,
    logits_of,
    of_all,
    outputs,
    posterior,
)
from gedilearn.sampling.langevin import Box, Kernel, run
from gedilearn.settings import Settings
from gedilearn.starts.choose import recurrence
from gedilearn.training.environment import check_memory, check_steps, drawing
from gedilearn.training.journal import Journal
from gedilearn.training.run import DENSITY, MODEL, Summary, read_density
from gedilearn.training.setup import Setup
from gedilearn.training.state import TrainState
from gedilearn.verdict.bound import examine, temperature
from gedilearn.verdict.monitor import Diagnosis

Score = Literal["log_density", "gradient_norm", "confidence", "energy"]
ELSEWHERE = 0.001  # the share of points that are no likelier than points from elsewhere
CHAIN_STEPS = 500  # of a sample where there is no base
MOST_TRIES = 1_000  # draws of a whole sample, until it has enough points of a cluster


@dataclass(frozen=True, eq=False)
class Result:
    """The best member that training found, and how it ended; points are in the network's units."""

    settings: Settings
    model: EnergyModel
    prior: Tensor  # (clusters,): what the clusters were held against
    box: Box  # around the data, where chains start
    diagnosis: Diagnosis
    verdict: str
    stopped: str  # 'certified', 'budget' or 'diverged'
    recoveries: int
    iterations: int
    seconds: float
    temperature: float = 1.0  # divides the logits, for probabilities that mean what they say
    # (n, 2): how far to believe in a point's cluster; the probability that it is of it.
    trust: Tensor | None = None
    levels: Tensor | None = None  # (LEVELS,): log p(x) of the training points, evenly spaced
    density: Density | None = None  # with its findings, where it was learnt on a base
    density_findings: Findings | None = None
    # (n,): of the training points; files do not keep them.
    training_labels: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))

    def labels(self, x: Tensor) -> np.ndarray:
        """The most likely cluster of each point: (n, ...) -> (n,)."""
        return logits_of(self.model, x.to(self.box.low.dtype)).argmax(-1).numpy()

    def probabilities(self, x: Tensor) -> np.ndarray:
        """p(y|x): (n, ...) -> (n, clusters).

        With a density of vectors, points may also come from elsewhere, where all places are as
        likely as those that a thousandth of the data is less likely than: of such points nothing is
        known but the prior.
        """
        return self.calibrated(logits_of(self.model, x), x).numpy()

    def calibrated(self, logits: Tensor, x: Tensor) -> Tensor:
        """The same, given the logits of the clusters' network at the points."""
        p = posterior(logits / self.temperature)
        if self.density is not None and self.levels is not None and x.dim() == 2:
            level = self.density.log_density(x, self.energy)
            inside = torch.sigmoid(level - self.level(ELSEWHERE))[:, None]
            p = inside * p + (1 - inside) * self.prior
        return p

    @cached_property
    def energy(self) -> Energy:
        """logsumexp f of points (n, *point), as the density needs it."""
        return energy_of(self.model)

    def level(self, share: float) -> float:
        """The log p(x) below which at most this share of the training points is."""
        if self.levels is None:
            raise InputError(
                f"outliers={share}: the model has no density to find them by; fit it with w_gen > 0"
            )
        if not 0 <= share < 1:
            raise InputError(f"outliers={share}: give the share of points to leave out, below 1")
        return float(torch.quantile(self.levels, share, interpolation="lower"))

    @property
    def has_density(self) -> bool:
        """Whether log p(x) was learnt."""
        return learns_density(self.settings)

    def clusters(self, labels: np.ndarray) -> list[dict[str, Any]]:
        """Size and share of each cluster, and how far to trust it, given the points' labels."""
        rows, evidence = [], self.diagnosis.evidence
        for k in range(self.settings.n_clusters):
            own = labels == k
            row: dict[str, Any] = {"cluster": k, "size": int(own.sum()), "share": float(own.mean())}
            if self.trust is not None and evidence is not None and own.any():
                believed, sure = self.trust[torch.from_numpy(own)].T
                row |= {"stability": evidence.kept[k], "confidence": float(sure.mean())}
                row |= {"trust": float((believed * sure).mean()), "cut": evidence.cut[k]}
                prominence = evidence.prominence(k)
                row["prominence"] = prominence if math.isfinite(prominence) else None
                row |= {"touches": evidence.touched(k), "place": evidence.place(k)}
            rows.append(row)
        return rows

    def features(self, x: Tensor) -> np.ndarray:
        """enc(x): (n, ...) -> (n, h)."""
        return outputs(self.model, x).features.numpy()

    def scores(self, x: Tensor, kind: Score) -> np.ndarray:
        """How typical each point is, higher for more: (n, ...) -> (n,)."""
        if kind == "gradient_norm" and self.density is not None:
            return np.asarray(-self.density.slopes(x, self.energy).norm(dim=1))
        if kind == "gradient_norm":
            return -gradient_norms(self.model, x).numpy()
        if kind == "confidence":
            return np.asarray(self.probabilities(x).max(-1))
        if kind not in get_args(Score):
            raise InputError(f"kind={kind!r}: expected one of {', '.join(get_args(Score))}")
        if kind == "log_density" and self.density is not None:
            return self.density.log_density(x, self.energy).numpy()
        return log_density(logits_of(self.model, x)).numpy()

    def sample(self, n: int, steps: int | None, seed: int, cluster: int | None = None) -> Tensor:
        """Points of p(x), or of p(x|y) for a cluster y: (n, ...).

        A point of p(x) is one of p(x|y) if it is kept with the chance p(y|x), which is that of
        `probabilities`.
        """
        if n < 1:
            raise InputError(f"n_samples={n}: at least 1 is needed")
        if steps is not None:
            check_steps(steps)
        c = self.settings.n_clusters
        is_number = not isinstance(cluster, bool)  # which would choose rows, not a column
        if cluster is not None and not (is_number and 0 <= operator.index(cluster) < c):
            raise InputError(f"cluster={cluster}: give the number of one of {c}, from 0")
        # The points, their gradients and noise; in double precision at the end.
        check_memory(f"{n} points", 24 * n * self.box.low.numel(), "n_samples")
        # A copy: chains change the mode of a network, which other threads may be using.
        model = copy.deepcopy(self.model)
        with drawing(seed, has_foreign_encoder(model)) as generator:
            if cluster is None:
                return self._draw(model, n, steps, generator)
            kept: list[Tensor] = []
            for _ in range(MOST_TRIES):
                points = self._draw(model, n, steps, generator)
                chance = torch.from_numpy(self.probabilities(points)[:, cluster])
                kept.append(points[torch.rand(n, generator=generator) < chance])
                if sum(map(len, kept)) >= n:
                    return torch.cat(kept)[:n]
        raise InputError(
            f"cluster={cluster}: too few of the model's points are of it; "
            f"{sum(map(len, kept))} of {MOST_TRIES * n}"
        )

    def _draw(self, model: EnergyModel, n: int, steps: int | None, generator: Generator) -> Tensor:
        """Points of p(x): (n, ...)."""
        if self.density is not None:
            return self.density.sample(n, steps, self.energy, generator).to(self.box.low.dtype)
        kernel = Kernel.of(self.settings.sampler, self.box)
        with model.fixed():
            position = self.box.uniform(1, n, generator=generator)
            steps = CHAIN_STEPS if steps is None else steps
            return run(position, model.log_density, kernel, steps, generator)[0]

    def diagnose(self, x: Tensor, views: Callable[..., Tensor] | None) -> Diagnosis:
        """Certificate and findings on data, which may be new; `views` replace the settings'."""
        settings, seed = self.settings, self.settings.training.seed
        drawn = make_views(settings.views, x, settings.n_clusters, seed, views)
        target = None if settings.prior == "uniform" else self.prior
        model = copy.deepcopy(self.model)
        with drawing(seed, has_foreign_encoder(model) or draws_globally(drawn)) as generator:
            return examine(model, x[None], [drawn], target, settings.training.tol, generator)

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
            "gap": self.diagnosis.gap,
            "certified": self.diagnosis.certified,
            "verdict": self.verdict,
            "stopped": self.stopped,
            "recoveries": self.recoveries,
            "iterations": self.iterations,
            "seconds": round(self.seconds, 3),
            "temperature": self.temperature,
            "diagnosis": self.diagnosis.to_json(),
            "density": self.density_findings and self.density_findings.to_json(),
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
        names = ("diagnosis", "verdict", "stopped", "recoveries", "iterations", "seconds")
        ended = {name: getattr(summary, name) for name in (*names, "temperature")}
        ended |= {name: tensors.get(name) for name in ("trust", "levels")}
        density = read_density(tensors)
        ended |= {"density": density, "density_findings": summary.density if density else None}
        return cls(settings, model, tensors["prior"], box, **ended)


# --- conclusion of a training ---------------------------------------------------------------------
#
# What came of a training: its network measured once more, its evidence, and the density.


def learnt_density(
    setup: Setup, state: TrainState, k: int, model: EnergyModel, journal: Journal
) -> tuple[Density, Findings] | None:
    """The density of a result's network on its base, if it was learnt on one."""
    bases, settings = setup.bases, setup.settings
    if bases is None:
        return None
    journal.progress.phase("density")
    sampler, trained = state.method.sampler, state.stage.weights.gen
    made_by = (0, 0.0)
    if isinstance(sampler, BaseChains):
        made_by = (sampler.steps, sampler.memory[state.results.index(k)])
    kind = settings.sampler.kind if trained else "none"
    seed, counted = settings.training.seed, state.kept[k].counted
    density, findings = conclude_density(
        bases, setup.group_of(k), energy_of(model), kind, seed, made_by, counted
    )
    journal.event(state, "density", findings.verdict, result=k)
    return density.cpu(), findings


def energy_of(model: EnergyModel) -> Energy:
    """logsumexp f of points (n, *point), with gradients to them; of vectors in double precision."""
    network = copy.deepcopy(model).eval().requires_grad_(False)
    precise, kind = copy.deepcopy(network).double(), next(network.parameters()).dtype

    def energy(x: Tensor) -> Tensor:
        if x.dim() == 2:
            return precise.log_density(x.double()[None])[0]
        return network.log_density(x.to(kind)[None])[0]

    return energy


def conclude(setup: Setup, state: TrainState, k: int, journal: Journal) -> Result:
    """What came of a result: its network, measured once more, and the density."""
    assert state.stopped is not None
    kept, tol = state.kept[k], setup.settings.training.tol
    journal.progress.phase("certificate")
    data, views = setup.seen_by([k])
    model = kept.network(setup).eval()
    final = state.method.conclude(model, data)
    known = setup.trains_bound(k) and math.isfinite(kept.gap) and not final
    if isinstance(views[0], WalkViews):  # judged by other walks than those it was trained with
        views, known = [views[0].redrawn(setup.settings.training.seed + 1)], False
    gap = kept.gap if known else None
    diagnosis = examine(model, data, views, kept.target, tol, state.generators.device, gap)
    heat, start, points = 1.0, setup.start_of(k), setup.points_of(k)
    labels = labels_of(model, points)
    evidence = setup.evidence(k, labels.numpy(), journal.progress)
    tries = setup.settings.training.tries
    diagnosis = replace(diagnosis, evidence=evidence, tries=tries)
    if state.stopped == "diverged" or kept.diverges:
        diagnosis = diagnosis.diverged("training diverged")
    stopped, verdict = state.stopped, diagnosis.verdict
    if stopped == "diverged":
        times = f"after {state.recoveries} recoveries"
        verdict += f"; training diverged {times}: {state.trouble}"
    else:  # of several results, each may end differently
        stopped = "certified" if diagnosis.certified else "budget"
    if kept.diverged_at is not None:
        stopped = "diverged" if kept.diverges else stopped
        since = "ever since" if kept.diverges else "but not at the end"
        verdict += (
            f"; training diverged at iteration {kept.diverged_at}, {since}, with the guard off: "
            f"{kept.trouble}"
        )
    if setup.settings.n_clusters > 1 and isinstance(views[0], WalkViews) and not final:
        seen = data[0], views[0], state.generators.device
        heat = temperature(lambda at: logits_of(model, data[0, at]), labels.to(data.device), *seen)
    density = learnt_density(setup, state, k, model, journal)
    if density is not None:
        verdict += f"; {density[1].verdict}"
    c, energy = setup.settings.n_clusters, energy_of(copy.deepcopy(model).cpu())
    prior = torch.full((c,), 1 / c) if kept.target is None else kept.target.cpu()
    result = Result(
        settings=setup.settings,
        model=copy.deepcopy(model).cpu(),
        prior=prior.double(),
        box=setup.box.cpu(),
        diagnosis=diagnosis,
        verdict=verdict,
        stopped=stopped,
        recoveries=state.recoveries,
        iterations=state.iteration,
        seconds=journal.seconds(),
        temperature=heat,
        levels=None if density is None else density[0].levels(points, energy),
        density=None if density is None else density[0],
        density_findings=None if density is None else density[1],
        training_labels=labels.numpy(),
    )
    if start is None or evidence is None:
        return result

    judged = setup.graded(result.training_labels)

    def sure(logits: Tensor, rows: slice) -> Tensor:
        p = result.calibrated(logits.cpu(), points[rows].cpu())
        return p.gather(1, torch.from_numpy(judged[rows, None]))[:, 0]

    again = recurrence(judged, start.subsamples)
    believed = torch.zeros(len(again), dtype=torch.float64)
    for cluster in range(c):
        own = judged == cluster
        believed[torch.from_numpy(own)] = torch.from_numpy(
            evidence.belief(cluster, diagnosis.gap, again[own])
        )
    return replace(result, trust=torch.stack([believed, of_all(model, data[0], sure)], 1))
