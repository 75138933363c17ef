"""GEN by chains from the base where importance weights gave way: a network for each fold.

The chains are those of `chains.py`, corrected by Metropolis's rule. They say nothing of log Gamma:
it is annealed at every check, and what a network adds is measured on the fold that it has not seen,
as with weights.
"""

from __future__ import annotations

import math

import torch
from torch import Generator, Tensor, nn

from gedilearn.density.annealing import anneal
from gedilearn.density.chains import BaseChains, is_known, learn_by_chains
from gedilearn.density.density import Density, Sizes
from gedilearn.density.energy import Energy
from gedilearn.density.importance import Learnt, OnStep, copy_of
from gedilearn.settings import Settings

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
