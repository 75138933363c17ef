"""The training loop: Algorithm 1 for all members at once, watched by certificate and monitor.

Members are the networks that are trained side by side. `training.n_init` of them compete for one
result, the one with the smallest gap; several results (seeds, points of a sweep) do not compete.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from gedilearn.density.base import CHECKED, HEALTHY
from gedilearn.methods.method import share
from gedilearn.progress import SILENT, Progress
from gedilearn.settings import Settings
from gedilearn.training.environment import (
    Generators,
    launch,
    others_alive,
    reuse_freed_memory,
    working,
)
from gedilearn.training.journal import Journal
from gedilearn.training.result import Result, conclude
from gedilearn.training.run import RunDirectory
from gedilearn.training.setup import LEAST_SHARE, Setup, density_stage
from gedilearn.training.state import TrainState, Tree
from gedilearn.verdict.bound import REPEATS, Measurement, measure
from gedilearn.verdict.monitor import divergence

# Tolerances within which a certificate is still to be had, however slowly the gap falls.
NEAR = 50
# Recoveries from divergence before training gives up.
MOST_RECOVERIES = 5

if TYPE_CHECKING:
    from lightning_fabric import Fabric


def train(
    data: Tensor,
    settings: Settings,
    *,
    run: RunDirectory | None = None,
    progress: Progress = SILENT,
    on_step: Callable[[Setup, TrainState], None] | None = None,
    **more: Any,
) -> list[Result]:
    """Train to the end, from the newest checkpoint, if any.

    `data` is (n, ...), in the network's units, and gives one result; `more` are arguments of
    `Setup.make`, by which there are several. All randomness comes from generators of this training,
    seeded here and saved with every checkpoint. `on_step` is called after every iteration.
    """
    fabric, training = launch(settings.device), settings.training
    journal = Journal(training, fabric, run, progress)
    work = working(settings.device.threads, interruptible=run is not None)
    alive = others_alive(fabric)
    with alive, work as interrupt, Generators(fabric.device) as generators:
        saved = journal.read()
        setup, state = begin(data, settings, fabric, generators, progress=progress, **more)
        state, good = journal.resume(setup, state, saved)  # `good`: the last not diverged
        while state.stopped is None:
            state.iteration += 1
            terms = step(setup, state)
            journal.step(state, terms)
            if is_time_to_check(setup, state):
                state, healthy = check(setup, state, terms, good, journal)
                if healthy and state.stopped is None:
                    good = state.copy()
                journal.save_if_due(state, good)
            if on_step is not None:
                on_step(setup, state)
            if all_agree(setup, state, interrupt.asked):
                journal.save(state, good)
                raise KeyboardInterrupt
        journal.save(state, good)
        return [conclude(setup, state, k, journal) for k in range(setup.n_results)]


def begin(
    data: Tensor,
    settings: Settings,
    fabric: Fabric,
    generators: Generators | None = None,
    **more: Any,
) -> tuple[Setup, TrainState]:
    """All that the first iteration needs; generators are made if none are given."""
    seed = settings.training.seed
    generators = generators or Generators(fabric.device)
    reuse_freed_memory()
    setup = Setup.make(data, settings, fabric, **more)
    if setup.draws_globally:
        generators.borrow_globals()
    generators.seed(seed)
    state = TrainState.begin(setup, generators)
    # From here on ranks draw different views and chains.
    generators.seed(seed + 1_000_003 * (1 + fabric.global_rank))
    return setup, state


def step(setup: Setup, state: TrainState) -> dict[str, Tensor]:
    """One step of Algorithm 1 for every member; the terms, (members,) each."""
    model, method = state.model, state.method
    batch, data = state.next_batch(setup)
    for group in state.optimizer.param_groups:
        group["lr"] = state.stage.rate(state.iteration) * state.damping.factor
    method.begin(model, state.optimizer, data, batch)
    with setup.fabric.autocast():
        terms = method.terms(state.forward, model, batch)
        loss = method.total(terms, batch.progress).sum()
    model.zero_grad()
    setup.fabric.backward(loss)
    largest = setup.settings.optimizer.grad_clip
    if largest is not None:
        model.scale_gradients((largest / model.gradient_norms()).clamp(max=1))
    state.optimizer.step()
    method.after_step(model, batch.progress)
    return {name: term.detach() for name, term in terms.items()}


# --- every now and then --------------------------------------------------------------------------


def is_time_to_check(setup: Setup, state: TrainState) -> bool:
    done, every = state.iteration - state.stage.begin, setup.settings.training.check_every
    return done % every == 0 or state.iteration == state.stage.end


def check(
    setup: Setup, state: TrainState, terms: dict[str, Tensor], good: Tree | None, journal: Journal
) -> tuple[TrainState, bool]:
    """Measure the gap, keep the best members, log, and decide how to go on.

    The state to go on with, and whether this one had not diverged.
    """
    seen, tol = look(setup, state), setup.aim
    troubles = find_troubles(setup, state, terms, seen)
    if troubles and setup.settings.training.on_divergence != "ignore":
        return go_back(setup, state, next(iter(troubles.values())), seen, good, journal), False
    for k in state.results:
        note_trouble(state, k, troubles.get(k), journal)
    if float(seen.gap.min()) < tol:
        # One lucky draw among many looks is no certificate: look again, closely.
        seen = look(setup, state, repeats=REPEATS)
    now = seen
    if setup.views[0].annealed and float(seen.gap.max()) >= tol:
        # Uncertified members are compared under the views of the moment: under wide ones, an
        # undecided clustering looks better than a sharp one of overlapping clusters.
        now = look(setup, state, state.stage.view_progress(state.iteration))
    held = judge_density(setup, state, journal)
    for k in state.results:
        members = state.contenders(k)
        settles = float(seen.gap[members].min()) < tol and setup.trains_bound(k)
        judged = seen if settles else now
        best = members[int(judged.gap[members].argmin())]
        if k == state.results[0]:
            diagnosis = judged.diagnose(best, float(seen.gap[best]), tol)
        # Until there is a certificate the latest state wins: views may be annealed, and where
        # predictions are undecided, an untrained state may have the smallest gap. The density
        # is new in each state, but no certificate is given up for it.
        kept = state.kept[k]
        if held is not None:
            counts = state.iteration > LEAST_SHARE * state.stage.length
            kept.follow_likelihood(held[best], state.iteration, counts)
        worse = kept.falls
        first = settles and not kept.settled
        if first or ((settles or not kept.settled or not ends_early(setup, state)) and not worse):
            keep(state, k, best, float(seen.gap[best]), judged, settles)
    journal.check(state, terms, seen.gap, diagnosis)
    if not seen.gap.isfinite().any():  # the guard is off, and nothing can come back from there
        state.stopped, state.trouble = "diverged", next(iter(troubles.values()))
        return state, False
    return move_on(setup, state, journal), True


def look(
    setup: Setup, state: TrainState, progress: float | None = None, repeats: int = 1
) -> Measurement:
    """What the ranks measure together; all have rank 0's gap, so that all decide alike."""
    data, views = setup.seen_by(state.results)
    judged = state.method.judged(state.model)
    generator = state.generators.device
    seen = measure(judged, data, views, state.prior, generator, progress, repeats, shared=True)
    return seen._replace(gap=setup.fabric.broadcast(seen.gap))


def keep(
    state: TrainState, result: int, member: int, gap: float, seen: Measurement, settles: bool
) -> None:
    """Make a member the best so far of a result, unless its predictions are not finite."""
    if not math.isfinite(gap):
        return
    kept = state.kept[result]
    if state.stage.name == "clusters":
        kept.member = member
    kept.gap, kept.settled = gap, settles
    if gap < 0.8 * kept.fallen_to:
        kept.fallen_to, kept.fallen_at = gap, state.iteration
    kept.target = None if seen.target is None else seen.target[member]
    kept.state = state.method.judged(state.model).state_of(member)


def judge_density(setup: Setup, state: TrainState, journal: Journal) -> Tensor | None:
    """log p(x) of the rows that choose, (members, m), where GEN is trained by importance weights.

    Members of which too few proposals count learn no density from here on: single proposals would
    decide about their gradients.
    """
    method = state.method
    if method.sampler is None or not method.sampler.weighted:
        return None
    bases = setup.bases_of(state.results)
    assert bases is not None
    model = method.judged(state.model)
    with model.fixed():
        judged = bases.judge(lambda x: model.log_density(share(x, model)))
    held = setup.fabric.broadcast(judged.held_out)
    effective = setup.fabric.broadcast(judged.effective)
    early = state.iteration < LEAST_SHARE * state.stage.length
    healthy = (effective > HEALTHY) | early
    now = healthy if method.learning is None else healthy & (method.learning > 0)
    for k in state.results:
        own = state.contenders(k)
        if not now[own].any() and state.kept[k].counted is None:
            state.kept[k].counted = counted = float(effective[own].max())
            message = f"{counted:.1f} of {CHECKED:,} proposals count: no density is learnt"
            journal.event(state, "no density", message, result=k)
    method.learning = None if now.all() else now.to(held)
    return torch.where(now[:, None], held, -math.inf)


def ends_early(setup: Setup, state: TrainState) -> bool:
    """Whether a certificate ends the stage, or, for the density, is not given up any more."""
    return state.stage.name == "density" or bool(setup.settings.training.early_stopping)


# --- divergence ----------------------------------------------------------------------------------


def find_troubles(
    setup: Setup, state: TrainState, terms: dict[str, Tensor], seen: Measurement
) -> dict[int, str]:
    """The results of which a member has diverged, and how."""
    sampler, gradients = state.method.sampler, state.model.gradient_norms()
    chains = None if sampler is None else sampler.positions
    # With importance weights GEN is no gap of energies: it may be wide.
    weighted = sampler is not None and sampler.weighted
    told = {name: term for name, term in terms.items() if not (weighted and name == "gen")}
    troubles = {}
    for k in state.results:
        own = state.contenders(k)
        positions = None if chains is None else chains[own]
        theirs = {name: term[own] for name, term in told.items()}
        trouble = divergence(theirs, seen.gap[own], gradients[own], positions, setup.box)
        if trouble is not None:
            troubles[k] = trouble
    return troubles


def note_trouble(state: TrainState, k: int, trouble: str | None, journal: Journal) -> None:
    """Keep in mind when and how a result diverged for the first time, and whether it still does."""
    kept = state.kept[k]
    kept.diverges = trouble is not None
    if trouble is not None and kept.diverged_at is None:
        kept.diverged_at, kept.trouble = state.iteration, trouble
        journal.event(state, "diverged", f"{trouble}; the guard is off", result=k)


def go_back(
    setup: Setup,
    state: TrainState,
    trouble: str,
    seen: Measurement,
    good: Tree | None,
    journal: Journal,
) -> TrainState:
    """The state to go on with after a divergence; or this one, stopped.

    After a recovery training goes on with half the learning rate, half the Langevin step (with its
    noise), and a penalty on the energies that is ten times stronger each time.
    """
    training = setup.settings.training
    if training.on_divergence == "recover" and state.recoveries < MOST_RECOVERIES:
        back = state.recover(setup, good)
        journal.event(
            back,
            "recovered",
            f"{trouble}; back to iteration {back.iteration} with new chains, learning rate and "
            f"Langevin step times {back.damping.factor:g}, energy penalty plus "
            f"{back.damping.extra_energy:g}",
            diverged_at=state.iteration,
            recovery=back.recoveries,
        )
        return back
    state.stopped, state.trouble = "diverged", trouble
    journal.event(state, "diverged", f"{trouble}; {state.recoveries} recoveries")
    for k in state.results:
        if math.isinf(state.kept[k].gap):  # of what was never good, the last is kept
            first = state.contenders(k)[0]
            keep(state, k, first, float(seen.gap[first]), seen, settles=False)
    return state


def move_on(setup: Setup, state: TrainState, journal: Journal) -> TrainState:
    """The next stage, or the end, when this one has done its work.

    Of several results, those whose clusters have a certificate leave, if that ends training.
    """
    early = ends_early(setup, state)
    patience = setup.settings.training.patience
    learns = any(state.kept[k].learns(state.iteration, patience) for k in state.results)
    done = state.iteration >= state.stage.end
    done |= early and not learns and nothing_moves(setup, state)
    gap = max(kept.gap for kept in state.kept)
    kind = "certified" if all(kept.settled for kept in state.kept) else "budget"
    if state.stage.name == "density":
        if done:
            state.stopped = kind
            journal.event(state, "density", f"density learnt, gap {gap:.5f}")
        return state
    if (kind == "certified" and early and not learns) or done:
        message = f"clusters after {state.iteration} iterations: gap {gap:.5f}"
        journal.event(state, kind, message)
        following = density_stage(setup.settings, state.iteration)
        if following is not None:
            return state.enter(setup, following)
        state.stopped = kind
        return state
    left = [
        k
        for k in state.results
        if not (early and state.kept[k].settled) or state.kept[k].learns(state.iteration, patience)
    ]
    return state if left == state.results else state.select(setup, left)


def nothing_moves(setup: Setup, state: TrainState) -> bool:
    """Whether the gap of no result in training falls any more.

    Where training begins with clusters, most of them are right or wrong by then; the gap of those
    that can be certified goes on falling.
    """
    if setup.starts is None or state.iteration < LEAST_SHARE * state.stage.length:
        return False
    training, kept = setup.settings.training, [state.kept[k] for k in state.results]
    return all(
        one.gap > NEAR * training.tol and state.iteration - one.fallen_at >= training.patience
        for one in kept
    )


def all_agree(setup: Setup, state: TrainState, asked: bool) -> bool:
    """Whether to end here; several ranks settle it when they all look, or one would hang."""
    if state.stopped is not None or setup.fabric.world_size == 1:
        return asked and state.stopped is None
    if state.iteration % setup.settings.training.check_every:
        return False
    votes = setup.fabric.all_reduce(torch.tensor(float(asked)), reduce_op="sum")
    return bool(votes > 0)  # type: ignore[operator]
