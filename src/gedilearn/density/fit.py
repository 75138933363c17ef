"""Learn the density of data: choose a base, correct it, and say how far to trust the result."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import torch
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped, unused-ignore]
from torch import Generator, Tensor, nn

from gedilearn.data.arrays import evenly_spaced
from gedilearn.density.annealing import anneal
from gedilearn.density.base import (
    FLOOR,
    Candidate,
    Gaussians,
    kernels,
    mixing_weights,
    weighted,
    wide,
    wide_gaussian,
)
from gedilearn.density.chains import (
    AmortisedDraws,
    BaseChains,
    Drawer,
    is_known,
    learn_by_chains,
)
from gedilearn.density.density import Density, Energy, Sizes, bits_per_dimension
from gedilearn.density.findings import Findings, stein_test
from gedilearn.density.importance import (
    Learnt,
    OnStep,
    Weighed,
    copy_of,
    learn,
    learn_on_own_base,
)
from gedilearn.density.principal import Principal, fit_principal
from gedilearn.ranks import ONE_AT_A_TIME
from gedilearn.sampling.langevin import value_and_gradient
from gedilearn.settings import AUTO, Settings, has_base_in_columns

FOLDS = 3
MOST_HELD_OUT = 1_000  # rows of a fold
MOST_FOR_WIDE = 4  # columns; in more, no proposals cover what a wide Gaussian leaves to the network
NEAR = 1.0  # width of the kernels among the proposals
MOST_IN_STEIN = 500


class Ended(NamedTuple):
    """How the learning of the network ended."""

    estimator: str  # that it ended with
    iterations: int
    weighed: Weighed
    diverged: bool = False


def fit_density(
    data: Tensor,
    labels: np.ndarray,
    settings: Settings,
    on_step: OnStep = lambda done, total: None,
) -> tuple[Density, Findings]:
    """The density of data (n, *point) in clusters, labels (n,), and how far to trust it.

    `on_step` is called in every iteration, with those done and all, and may raise. The same seed
    gives the same density.
    """
    if len(data) < FOLDS:  # two rows: each stands for itself among those that are held out
        data, labels = torch.cat([data] * FOLDS), np.tile(labels, FOLDS)
    seed, weights = settings.training.seed, settings.density.estimator in (AUTO, "importance")
    if weights and has_base_in_columns(tuple(data.shape)):
        return _in_columns(data, labels, settings, Generator().manual_seed(seed), on_step)
    generator = Generator(data.device).manual_seed(seed)
    return _in_principal_directions(data, labels, settings, generator, on_step)


# --- images, and vectors with many columns: a mixture in principal directions --------------------


def _in_principal_directions(
    data: Tensor,
    labels: np.ndarray,
    settings: Settings,
    generator: Generator,
    on_step: OnStep,
) -> tuple[Density, Findings]:
    n, seed = len(data), settings.training.seed
    order = torch.randperm(n, generator=generator, device=data.device)
    held = order[: max(1, min(MOST_HELD_OUT, n // 10))]
    found = fit_principal(data, labels, held, seed, generator)
    density = _on_principal_base(found, tuple(data.shape[1:]), generator)
    coordinates, squash = density.coordinates, density.coordinates.squash
    y, volume = (
        torch.cat(parts)
        for parts in zip(
            *(
                coordinates(squash.spread(part, generator))
                for part in torch.split(coordinates.taken(data[order]), density.effort.batch)
            ),
            strict=True,
        )
    )
    fresh, volume = y[: len(held)], volume[: len(held)]
    end = _correct(density, y[len(held) :], fresh, settings, generator, on_step)
    density.normalise(generator)
    with torch.no_grad():
        base = density.base.log_density(fresh)
        own = density.corrected(fresh) - density.log_normaliser
    parts = torch.stack([base, own], -1).double()
    known = is_known(density.error, density.effective)
    weights = mixing_weights(parts) if known else torch.tensor([0.0, -math.inf]).to(parts)
    density.weight = weights[1].exp().to(density.weight)
    together = torch.logsumexp(parts + weights, -1)
    held_out = float((together + volume).mean())
    bits = bits_per_dimension(held_out, y.shape[1], squash.cell) if data.dim() > 2 else None
    gain = together - parts[:, 0]
    some = fresh[:MOST_IN_STEIN]
    findings = _findings(density, found.name, end, held_out, gain, some, generator)
    return density, replace(findings, bits=bits)


def _correct(
    density: Density,
    y: Tensor,
    fresh: Tensor,
    settings: Settings,
    generator: Generator,
    on_step: OnStep,
) -> Ended:
    """Learn the network, in place, by points y (n, d); `fresh` (m, d) judge importance weights.

    With 'auto' these are tried first on vectors. They draw from a generator of their own: where
    they are not healthy, or add nothing, chains then begin as if they had never been tried, and the
    network is kept that gains more. Images have chains at once, which draw better samples of them.
    """
    asked, weighed, gained = settings.density.estimator, Weighed(0), 0.0
    if asked == "importance" or (asked == AUTO and not density.is_of_images):
        first = copy_of(density.energy)
        own = Generator(y.device).manual_seed(generator.initial_seed() + 1)
        weighed, gained = learn_on_own_base(density, y, fresh, settings, own, on_step)
        if asked == "importance" or (weighed.healthy and gained > 0):
            return Ended("importance", weighed.iterations, weighed)
        weights = copy_of(density.energy)
        density.energy.load_state_dict(first)

    def later(done: int, total: int) -> None:
        on_step(weighed.iterations + done, weighed.iterations + total)

    drawer: Drawer
    if asked == "amortised":
        drawer = AmortisedDraws(y.shape[1], _on_processor(generator), y.device)
    else:
        steps, restart = settings.sampler.steps, settings.density.restart
        drawer = BaseChains(density.path, steps, restart, generator)
    learnt = learn_by_chains(density, y, drawer, settings, generator, later)
    done = weighed.iterations + learnt.iterations
    if gained > 0:
        check = Check(density, fresh, torch.full_like(fresh[:, 0], gained), own)
        check()
        if check.best is None:
            density.energy.load_state_dict(weights)
            return Ended("importance", done, weighed)
    density.run = torch.tensor(drawer.run).to(density.run)
    estimator = "amortised" if asked == "amortised" else "chains"
    return Ended(estimator, done, weighed, learnt.diverged)


def _on_principal_base(found: Principal, point: tuple[int, ...], generator: Generator) -> Density:
    coordinates, base = found.coordinates, found.base
    sizes = Sizes(
        point,
        len(coordinates.used),
        len(coordinates.directions),
        len(base.frame),
        len(base.mixture),
        *(0, 0, 0, 0, 0),
        1,
    )
    made = Density(sizes, _on_processor(generator)).to(coordinates.centre.device)
    made.coordinates, made.base = coordinates, base
    return made


def _on_processor(generator: Generator) -> Generator:
    """Networks are made there."""
    return Generator().manual_seed(generator.initial_seed())


# --- vectors with few columns: mixtures and kernels in all of them -------------------------------


def _in_columns(
    data: Tensor,
    labels: np.ndarray,
    settings: Settings,
    generator: Generator,
    on_step: OnStep,
) -> tuple[Density, Findings]:
    seed = settings.training.seed
    whole = data.cpu().double().numpy()
    used = np.flatnonzero(whole.max(0) > whole.min(0))
    if not len(used):  # one point, again and again: a density of no width is shown as a narrow one
        used = np.arange(whole.shape[1])
    x = _spread_out(whole[:, used], np.random.default_rng(seed))
    mixture, proposal, learnt, end = _learn(x, labels, settings, generator, on_step)
    parts = torch.stack([mixture.held_out, learnt.held_out], -1)
    weights = mixing_weights(parts.flatten(0, 1))
    together = torch.logsumexp(parts + weights, -1)
    density = _assemble(mixture.base, proposal, learnt, used, whole[0])
    density.weight = (
        weights[1].exp() if bool((learnt.gain != 0).any()) else torch.zeros(()).double()
    )
    density.normalise(generator)
    gain = (together - mixture.held_out).flatten()
    some = torch.from_numpy(x[evenly_spaced(len(x), MOST_IN_STEIN)])
    held_out = float(together.mean())
    return density, _findings(density, mixture.name, end, held_out, gain, some, generator)


def _findings(
    density: Density,
    base: str,
    end: Ended,
    held_out: float,
    gain: Tensor,
    y: Tensor,
    generator: Generator,
) -> Findings:
    """What was found; y (n, d) are points that the fit is tested with."""
    slopes = torch.cat([value_and_gradient(density.both, p)[1] for p in torch.split(y, 100)])
    sampling = gain.double().var() / max(len(gain), 1) if len(gain) > 1 else torch.tensor(math.inf)
    error = float((sampling + (density.weight * density.error).double() ** 2).sqrt())
    return Findings(
        base=base,
        estimator=end.estimator,
        weight=float(density.weight),
        held_out=held_out,
        gain=float(gain.mean()),
        gain_error=error,
        log_normaliser=float(density.log_normaliser),
        log_normaliser_error=float(density.error),
        effective=float(density.effective),
        stein=stein_test(y.double(), slopes.double(), generator)[1],
        iterations=end.iterations,
        diverged=end.diverged,
        weighted=end.weighed.iterations,
        counted=end.weighed.counted,
    )


def _learn(
    x: np.ndarray,
    labels: np.ndarray,
    settings: Settings,
    generator: Generator,
    on_step: OnStep,
) -> tuple[Candidate, Gaussians, Learnt, Ended]:
    """The mixture, what proposes points, the network on its base, and how its learning ended.

    Where data are shapes in few columns, a wide Gaussian leaves all of them to the network, which
    cannot undo the roughness of a mixture; in many columns it needs the mixture to begin with.
    """
    n, seed = len(x), settings.training.seed
    order = np.random.default_rng(seed).permutation(n)
    each = min(n // FOLDS, MOST_HELD_OUT)
    held = order[: FOLDS * each].reshape(FOLDS, each)
    # More threads than one only wait for each other here; the limit is the whole process's.
    with ONE_AT_A_TIME, threadpool_limits(1):
        mixture = weighted(x, labels, held, seed)
        proposal = _proposals(x, mixture.base)
    start, asked = mixture, settings.density.base
    few = x.shape[1] <= MOST_FOR_WIDE
    if asked == "gaussian" or (asked == "auto" and few):
        start = wide(x, held)
    points, index = torch.from_numpy(x).float(), torch.from_numpy(held)
    learnt = learn(points, index, start, proposal, settings, generator, on_step)
    weighed = learnt.weighed
    if weighed.healthy:
        return mixture, proposal, learnt, Ended("importance", weighed.iterations, weighed)
    found, more = learn_folds_by_chains(points, index, learnt, settings, generator, on_step)
    kept = bool((learnt.gain != 0).any()) and torch.equal(found.gain, learnt.gain)
    estimator = "importance" if kept else "chains"
    return mixture, proposal, found, Ended(estimator, weighed.iterations + more, weighed)


def _proposals(x: np.ndarray, base: Gaussians) -> Gaussians:
    """Where to look for the model's mass: at the base, a little beyond it, and near the data."""
    shares = {"base": 0.4, "near": 0.4, "wide": 0.2}
    if x.shape[1] > MOST_FOR_WIDE:  # near the data is no place of its own any more
        shares = {"base": 0.9, "wide": 0.1}
    parts = {"base": base, "wide": wide_gaussian(x)}
    if "near" in shares:
        (parts["near"],) = kernels(x, NEAR)
    weights = torch.tensor(list(shares.values()), dtype=torch.float64)
    return Gaussians.mixed([parts[name] for name in shares], weights.log())


def _spread_out(x: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Move each value by up to half the distance of two neighbouring values of its column.

    Values that repeat have no density; spread over their own cell of the scale, they have the one
    that a histogram shows. Of columns with any value, this moves the last digits alone.
    """
    steps = (np.diff(np.unique(column)) for column in x.T)
    gaps = [float(np.median(own)) if len(own) else FLOOR**0.5 for own in steps]
    return np.asarray(x + rng.uniform(-0.5, 0.5, x.shape) * gaps)


def _assemble(
    mixture: Gaussians, proposal: Gaussians, learnt: Learnt, used: np.ndarray, resting: np.ndarray
) -> Density:
    parts = {"base": mixture, "start": learnt.start.base, "proposal": proposal}
    counts = [len(m) for part in parts.values() for m in (part.full_means, part.round_means)]
    sizes = (len(used), 0, 0, *counts, len(learnt.energy.phases))
    density = Density(Sizes(resting.shape, *sizes))
    for name, part in parts.items():
        setattr(density, name, part)
    density.energy.load_state_dict(learnt.energy.state_dict())
    density.coordinates.used = torch.from_numpy(used)
    density.coordinates.resting = torch.from_numpy(resting.copy())
    return density


# --- chains for each fold -------------------------------------------------------------------------
#
# GEN by chains from the base where importance weights gave way: a network for each fold.
#
# The chains are those of `chains.py`, corrected by Metropolis's rule. They say nothing of log
# Gamma: it is annealed at every check, and what a network adds is measured on the fold that it has
# not seen, as with weights.


POPULATION = 1_000  # that log Gamma is annealed with
PATIENCE = 2  # checks in a row that gain nothing; the first must


def learn_folds_by_chains(
    x: Tensor,
    held: Tensor,
    weights: Learnt,
    settings: Settings,
    generator: Generator,
    on_step: OnStep,
) -> tuple[Learnt, int]:
    """Go on from what weights have learnt; says for how long.

    x: (n, d), single precision; held: (folds, m). The gain is nowhere less than with weights. The
    first fold that chains add nothing to ends it: what one part of the data refutes is no density
    of the data, and chains cost far more than weights.
    """
    every, iterations = torch.arange(len(x)), 0
    states, gain = copy_of(weights.energy), weights.gain.clone()
    for k, own in enumerate(held):
        fold = _of_fold(weights, k, generator)
        steps, restart = settings.sampler.steps, settings.density.restart
        chains = BaseChains(fold.path, steps, restart, generator, corrected=True)
        check = Check(fold, x[own], weights.gain[k], generator)
        seen = x[every[~torch.isin(every, own)]]
        run = learn_by_chains(fold, seen, chains, settings, generator, on_step, check)
        iterations = max(iterations, run.iterations)
        if check.best is None:
            break
        gain[k] = check.gain
        for name, value in check.best.items():
            states[name][k] = value[0]
    weights.energy.load_state_dict(states)
    return weights._replace(gain=gain), iterations


class Check:
    """Keeps the state of a network that gains most, and ends training that gains nothing.

    rows: (m, d), which the network has not seen; gain: (m,), to be surpassed in the mean.
    """

    def __init__(self, fold: Density, rows: Tensor, gain: Tensor, generator: Generator) -> None:
        self.fold, self.rows, self.generator = fold, rows, generator
        self.gain, self.idle = gain, 0
        self.best: dict[str, Tensor] | None = None  # None: nothing surpassed it

    @torch.no_grad()
    def __call__(self) -> bool:
        found = anneal(self.fold.path, POPULATION, 1, 0, self.generator)
        known = is_known(found.error, found.effective)
        level = found.log_normaliser + found.error if known else math.inf
        gain = (self.fold.correction(self.rows) - level).to(self.gain)
        self.idle += 1
        if float(gain.mean()) > float(self.gain.mean()):
            self.gain, self.best, self.idle = gain, copy_of(self.fold.energy), 0
        return self.best is None or self.idle == PATIENCE


def _of_fold(weights: Learnt, k: int, generator: Generator) -> Density:
    """The base and member k; a member that weights left at 0 begins anew, correcting nothing."""
    base = weights.start.base
    d = base.full_means.shape[1]
    counts = (len(base.full_means), len(base.round_means), 0, 0, 0, 0, 1)
    fold = Density(Sizes((d,), d, 0, 0, *counts), generator).float()
    fold.base.load_state_dict(base.state_dict())
    if bool((weights.gain[k] != 0).any()):
        own = {name: value[k : k + 1] for name, value in weights.energy.state_dict().items()}
        fold.energy.load_state_dict(own)
        return fold
    assert isinstance(fold.energy, Energy)
    nn.init.zeros_(fold.energy.layers.weights[-1])
    nn.init.zeros_(fold.energy.layers.biases[-1])
    return fold
