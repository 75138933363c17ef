"""What came of a training: its network measured once more, its evidence, and the density."""

from __future__ import annotations

import copy
import math
from dataclasses import replace

import torch
from torch import Tensor

from gedilearn.data.views import WalkViews
from gedilearn.density.density import Density
from gedilearn.density.findings import Findings
from gedilearn.density.fit import fit_density
from gedilearn.density.importance import CHECKED
from gedilearn.models.energy import labels_of, logits_of, of_all
from gedilearn.sections import AUTO
from gedilearn.training.calibration import temperature
from gedilearn.training.certificate import examine
from gedilearn.training.environment import Interrupt
from gedilearn.training.journal import Journal
from gedilearn.training.result import Result
from gedilearn.training.setup import Setup, learns_density_later
from gedilearn.training.state import TrainState

Learnt = tuple[Density, Findings]


def learn_density(
    setup: Setup,
    state: TrainState,
    k: int,
    labels: Tensor,
    journal: Journal,
    interrupt: Interrupt,
) -> Learnt | None:
    """The density of a result's data, in clusters by `labels`, on a base, if one is asked for.

    It depends on the data, the clusters and the seed alone: a run that is interrupted here begins
    with it anew.
    """
    settings = setup.settings
    if not learns_density_later(settings) or settings.density.base == "none":
        return None

    def on_step(done: int, total: int) -> None:
        if interrupt.asked:
            raise KeyboardInterrupt
        journal.progress.step(done, total)

    journal.progress.phase("density")
    density, findings = fit_density(setup.points_of(k), labels.numpy(), settings, on_step)
    # Of an iteration that no checkpoint has: a resume, which comes here again, drops it.
    done = state.iteration + max(findings.iterations, 1)
    if settings.density.estimator == AUTO and findings.choice is not None:
        details = {"effective": findings.counted, "proposals": CHECKED, "result": k}
        at = state.iteration + max(findings.weighted, 1)
        journal.event(state, "estimator", findings.choice, iteration=at, **details)
    journal.event(state, "density", findings.verdict, result=k, iteration=done)
    return density.cpu(), findings


def conclude(
    setup: Setup, state: TrainState, k: int, journal: Journal, interrupt: Interrupt
) -> Result:
    """What came of a result: its network, measured once more, and the density."""
    assert state.stopped is not None
    kept, tol = state.kept[k], setup.settings.training.tol
    journal.progress.phase("certificate")
    data, views = setup.seen_by([k])
    model = kept.network(setup, state.generators.cpu).eval()
    final = state.method.conclude(model, data)
    known = setup.trains_bound(k) and math.isfinite(kept.gap) and not final
    if isinstance(views[0], WalkViews):  # judged by other walks than those it was trained with
        views, known = [views[0].redrawn(setup.settings.training.seed + 1)], False
    gap = kept.gap if known else None
    diagnosis = examine(model, data, views, kept.target, tol, state.generators.device, gap)
    diagnosis = replace(diagnosis, evidence=setup.evidence(k, journal.progress))
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
    heat, start, points = 1.0, setup.start_of(k), setup.points_of(k)
    labels = labels_of(model, points)
    if setup.settings.n_clusters > 1 and isinstance(views[0], WalkViews) and not final:
        seen = data[0], views[0], state.generators.device
        heat = temperature(lambda at: logits_of(model, data[0, at]), labels.to(data.device), *seen)
    density = learn_density(setup, state, k, labels, journal, interrupt)
    if density is not None:
        verdict += f"; {density[1].verdict}"
    c = setup.settings.n_clusters
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
        levels=None if density is None else density[0].levels(points),
        density=None if density is None else density[0],
        density_findings=None if density is None else density[1],
        training_labels=labels.numpy(),
    )
    if start is None or c == 1:
        return result

    def sure(logits: Tensor, rows: slice) -> Tensor:
        p = result.calibrated(logits.cpu(), points[rows].cpu())
        return p.gather(1, logits.argmax(-1, keepdim=True).cpu())[:, 0]

    both = torch.from_numpy(start.kept), of_all(model, data[0], sure)
    return replace(result, trust=torch.stack(both, 1))
