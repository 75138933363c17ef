"""The training loop: Algorithm 1 for all members at once, watched by certificate and monitor.

Members are the networks that are trained side by side, `training.n_init` of them. They compete, and
the one with the smallest bound gap is the result; or they vote, and one network learns the vote.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from gedilearn.data.arrays import evenly_spaced
from gedilearn.density.base import HEALTHY
from gedilearn.methods.method import k_means, share
from gedilearn.models.energy import posterior
from gedilearn.progress import SILENT, Progress
from gedilearn.settings import Settings
from gedilearn.training.environment import (
    AnyFabric,
    Generators,
    launch,
    others_alive,
    reuse_freed_memory,
    working,
)
from gedilearn.training.journal import Journal
from gedilearn.training.result import Result, conclude
from gedilearn.training.run import RunDirectory
from gedilearn.training.setup import LEAST_SHARE, Setup, density_stage, vote_stage
from gedilearn.training.state import TrainState, Tree
from gedilearn.verdict.bound import REPEATS, Measurement, measure
from gedilearn.verdict.monitor import divergence

# Tolerances within which a certificate is still possible, however slowly the bound gap falls.
NEAR = 50
# Points that decide the vote, points whose predictions are computed at once, and tries of k-means.
MOST_VOTERS, AT_ONCE, VOTE_TRIES = 20_000, 10_000, 10
# Recoveries from divergence before training gives up.
MOST_RECOVERIES = 5


def train(
    data: Tensor,
    settings: Settings,
    *,
    run: RunDirectory | None = None,
    progress: Progress = SILENT,
    on_step: Callable[[Setup, TrainState], None] | None = None,
    **more: Any,
) -> Result:
    """Train to the end, from the newest checkpoint, if any.

    `data` is (n, ...), in the network's units; `more` are arguments of `Setup.make`. All randomness
    comes from generators of this training, seeded here and saved with every checkpoint. `on_step`
    is called after every iteration.
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
            journal.step(state)
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
        return conclude(setup, state, journal)


def begin(
    data: Tensor,
    settings: Settings,
    fabric: AnyFabric,
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
    batch = state.next_batch(setup)
    for group in state.optimizer.param_groups:
        group["lr"] = state.stage.rate(state.iteration) * state.damping.factor
    method.begin(model, state.optimizer, setup.data, batch)
    with setup.fabric.autocast():
        terms = method.terms(state.forward, model, batch)
        loss = method.total(terms, batch.progress).sum()
    model.zero_grad()
    setup.fabric.backward(loss)
    largest = setup.settings.optimizer.grad_clip
    if largest is not None:
        model.scale_gradients((largest / model.gradient_norms()).clamp(max=1))
    if state.stage.weight_decay:
        model.decay(1 - state.stage.weight_decay * state.optimizer.param_groups[0]["lr"])
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
    """Measure the bound gap, keep the best member, log, and decide how to go on.

    The state to go on with, and whether this one had not diverged.
    """
    seen, tol, best = look(setup, state), setup.aim, state.best
    trouble = find_trouble(setup, state, terms, seen)
    if trouble is not None and setup.settings.training.on_divergence != "ignore":
        return go_back(setup, state, trouble, seen, good, journal), False
    note_trouble(state, trouble, journal)
    if float(seen.gap.min()) < tol:
        # One lucky draw among many looks is no certificate: look again, closely.
        seen = look(setup, state, repeats=REPEATS)
    settles = float(seen.gap.min()) < tol and setup.settings.certifies
    now = seen
    if setup.views.annealed and float(seen.gap.max()) >= tol:
        # Uncertified members are compared under the views of the moment: under wide ones, an
        # undecided clustering looks better than a sharp one of overlapping clusters.
        now = look(setup, state, state.stage.view_progress(state.iteration))
    compared = seen if settles else now
    member = int(compared.gap.argmin())
    held = follow_density(setup, state, journal)
    if held is not None:
        counts = state.iteration > LEAST_SHARE * state.stage.length
        best.follow_likelihood(held[member], state.iteration, counts)
    diagnosis = compared.diagnose(member, float(seen.gap[member]), tol)
    # Until there is a certificate the latest state wins: views may be annealed, and where
    # predictions are undecided, an untrained state may have the smallest bound gap. The density is
    # new in each state, but no certificate is given up for it.
    first = settles and not best.settled
    if first or ((settles or not best.settled or not ends_early(setup, state)) and not best.falls):
        keep(state, member, float(seen.gap[member]), compared, settles)
    journal.check(state, terms, seen.gap, diagnosis)
    if not seen.gap.isfinite().any():  # the guard is off, and nothing can come back from there
        state.stopped, state.trouble = "diverged", trouble
        return state, False
    return move_on(setup, state, journal), True


def look(
    setup: Setup, state: TrainState, progress: float | None = None, repeats: int = 1
) -> Measurement:
    """What the ranks measure together; all have rank 0's bound gap, and decide alike."""
    model, generator = state.method.measured(state.model), state.generators.device
    given = (setup.data, setup.views, state.prior, generator, progress, repeats)
    seen = measure(model, *given, shared=True)
    return seen._replace(gap=setup.fabric.broadcast(seen.gap))


def keep(state: TrainState, member: int, gap: float, seen: Measurement, settles: bool) -> None:
    """Make a member the best so far, unless its predictions are not finite."""
    if not math.isfinite(gap):
        return
    best = state.best
    if state.stage.name == "clusters":
        best.member = member
    best.gap, best.settled = gap, settles
    if gap < 0.8 * best.lowest_gap:
        best.lowest_gap, best.last_improved = gap, state.iteration
    best.target = None if seen.target is None else seen.target[member]
    best.state = state.method.measured(state.model).state_of(member)


def follow_density(setup: Setup, state: TrainState, journal: Journal) -> Tensor | None:
    """log p(x) of the validation rows, (members, m), where importance weights train GEN.

    A member with too small an effective sample size stops learning the density: single proposals
    would decide about its gradients.
    """
    method = state.method
    if method.sampler is None or not method.sampler.weighted:
        return None
    assert setup.base is not None
    model = method.measured(state.model)
    with model.fixed():
        found = setup.base.evaluate(lambda x: model.log_density(share(x, model)))
    held, ess = map(setup.fabric.broadcast, (found.held_out, found.ess))
    early = state.iteration < LEAST_SHARE * state.stage.length
    healthy = (ess > HEALTHY) | early
    now = healthy if method.learning is None else healthy & (method.learning > 0)
    if not now.any() and state.best.ess_at_stop is None:
        state.best.ess_at_stop = most = float(ess.max())
        message = f"the density is not learnt: too few effective samples ({most:.1f})"
        journal.event(state, "no density", message)
    method.learning = None if now.all() else now.to(held)
    return torch.where(now[:, None], held, -math.inf)


def ends_early(setup: Setup, state: TrainState) -> bool:
    """Whether a certificate ends the stage, or, for the density, is not given up any more."""
    return state.stage.name == "density" or bool(setup.settings.training.early_stopping)


@torch.no_grad()
def vote(setup: Setup, state: TrainState) -> Tensor:
    """The clusters on which the members agree, then those of each member: (n, 1 + members).

    k-means of the square roots of p(y|x) of all members: points are near each other if all members
    predict the same for them (the Hellinger distance).
    """
    from sklearn.decomposition import PCA

    model, c = state.method.measured(state.model), setup.settings.n_clusters
    seed = setup.settings.training.seed

    def predictions(x: Tensor) -> tuple[np.ndarray, Tensor]:
        p = posterior(model(share(x, model)).logits).transpose(0, 1).cpu()
        return p.sqrt().flatten(1).numpy(), p.argmax(-1)

    some = setup.data[torch.from_numpy(evenly_spaced(len(setup.data), MOST_VOTERS))]
    roots = np.concatenate([predictions(x)[0] for x in torch.split(some, AT_ONCE)])
    used = min(c, *roots.shape)
    pca = PCA(used, svd_solver="covariance_eigh", random_state=seed).fit(roots)
    found, parts = k_means(pca.transform(roots), c, VOTE_TRIES, seed), []
    for x in torch.split(setup.data, AT_ONCE):
        own, labels = predictions(x)
        agreed = torch.from_numpy(found.predict(pca.transform(own)))
        parts.append(torch.cat([agreed[:, None], labels], 1))
    voted: Tensor = setup.fabric.broadcast(torch.cat(parts).int())
    return voted


# --- divergence ----------------------------------------------------------------------------------


def find_trouble(
    setup: Setup, state: TrainState, terms: dict[str, Tensor], seen: Measurement
) -> str | None:
    """How a member has diverged, if one has."""
    sampler = state.method.sampler
    # With importance weights GEN is no difference between data and samples: it may be large.
    weighted = sampler is not None and sampler.weighted
    watched = {name: term for name, term in terms.items() if not (weighted and name == "gen")}
    chains = None if sampler is None else sampler.positions
    return divergence(watched, seen.gap, state.model.gradient_norms(), chains, setup.box)


def note_trouble(state: TrainState, trouble: str | None, journal: Journal) -> None:
    """Keep in mind when and how training diverged for the first time, and whether it still does."""
    best = state.best
    best.diverges = trouble is not None
    if trouble is not None and best.diverged_at is None:
        best.diverged_at, best.trouble = state.iteration, trouble
        journal.event(state, "diverged", f"training diverged, and the guard is off: {trouble}")


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
            f"{trouble}; training went back to iteration {back.iteration}: new chains, learning "
            f"rate and Langevin step times {back.damping.factor:g}, energy penalty plus "
            f"{back.damping.extra_energy:g}",
            diverged_at=state.iteration,
            recovery=back.recoveries,
        )
        return back
    state.stopped, state.trouble = "diverged", trouble
    message = f"training diverged after {state.recoveries} recoveries: {trouble}"
    journal.event(state, "diverged", message)
    if math.isinf(state.best.gap):  # no state was ever good: the last one is kept
        keep(state, 0, float(seen.gap[0]), seen, settles=False)
    return state


def move_on(setup: Setup, state: TrainState, journal: Journal) -> TrainState:
    """The next stage, or the end, when this one has done its work."""
    best, early = state.best, ends_early(setup, state)
    learns = best.learns(state.iteration, setup.settings.training.patience)
    done = state.iteration >= state.stage.end
    done |= early and not learns and nothing_moves(setup, state)
    kind = "certified" if best.settled else "budget"
    if state.stage.name == "density":
        if done:
            state.stopped = kind
            journal.event(state, "density", f"the density is learnt; bound gap {best.gap:.5f}")
        return state
    if (best.settled and early and not learns) or done:
        message = f"the clusters are found; bound gap {best.gap:.5f}"
        journal.event(state, kind, message)
        following = density_stage(setup.settings, state.iteration)
        if setup.settings.training.start == "vote" and state.stage.name == "clusters":
            state.voted = vote(setup, state)
            following = vote_stage(setup.settings, state.iteration)
        if following is not None:
            return state.enter(setup, following)
        state.stopped = kind
    return state


def nothing_moves(setup: Setup, state: TrainState) -> bool:
    """Whether the bound gap has stopped falling, far from a certificate.

    Most initial clusterings are right or wrong from the beginning. The bound gap of one that can be
    certified goes on falling.
    """
    if setup.start is None or state.iteration < LEAST_SHARE * state.stage.length:
        return False
    training, best = setup.settings.training, state.best
    waited = state.iteration - best.last_improved
    return best.gap > NEAR * training.tol and waited >= training.patience


def all_agree(setup: Setup, state: TrainState, interrupted: bool) -> bool:
    """Whether to end here; several ranks settle it when they all look, or one would hang."""
    if state.stopped is not None or setup.fabric.world_size == 1:
        return interrupted and state.stopped is None
    if state.iteration % setup.settings.training.check_every:
        return False
    votes = setup.fabric.all_reduce(torch.tensor(float(interrupted)), reduce_op="sum")
    return bool(votes > 0)  # type: ignore[operator]
