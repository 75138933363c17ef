"""From proposals to the model: annealed importance sampling with resampling and Metropolis moves.

A population starts at the proposals q and passes through q^(1-t) (b e^g)^t, t from 0 to 1. Each t
is the largest that leaves half of the population effective; after each, points are drawn anew by
their weights and moved by Langevin steps that Metropolis's rule corrects. Where the proposals are
good enough, the first step is the whole way, and all of this is plain importance sampling.
"""

from __future__ import annotations

import math
from functools import partial
from typing import NamedTuple, Protocol

import torch
from torch import Generator, Tensor

from gedilearn.sampling.langevin import LogDensity, value_and_gradient

EFFECTIVE = 0.5  # of the population, after each step
AT_ONCE = 0.05  # of the proposals: enough to do without steps
MOST_STEPS = 200
AT_A_TIME = 1_024  # points whose gradients are computed at once
MOVES = 5  # after each step but the last
ACCEPTED = 0.6  # the share that the length of a move is tuned to
BISECTIONS = 30
FIRST_LENGTH = 0.1  # of moves, in units of the points' spread


class Known(Protocol):
    """A density that is known exactly, up to no constant, and is drawn from directly."""

    def log_density(self, x: Tensor) -> Tensor:
        """(n, d) -> (n,), with gradients."""
        ...

    def sample(self, n: int, generator: Generator) -> Tensor:
        """Independent points: (n, d)."""
        ...


class Annealed(NamedTuple):
    points: Tensor  # (population, d): of the first run
    length: float  # of the last move there
    log_normaliser: Tensor
    error: Tensor  # its standard error, between the runs and within
    effective: Tensor  # the share of the proposals that counts under the model's weights


class Path(NamedTuple):
    """The densities between the proposals and the model, up to constants."""

    proposal: Known
    model: LogDensity  # of points (n, d)

    def at(self, x: Tensor, t: float) -> Tensor:
        """(n, d) -> (n,)."""
        if t == 1:
            return self.model(x)
        return (1 - t) * self.proposal.log_density(x) + t * self.model(x)

    def slope(self, x: Tensor) -> Tensor:
        """How fast the logarithm rises with t: the model's over the proposals'."""
        parts = torch.split(x, AT_A_TIME)
        return torch.cat([self.model(part) - self.proposal.log_density(part) for part in parts])

    def look(self, x: Tensor, t: float) -> tuple[Tensor, Tensor]:
        """The logarithm, (n,), and its gradient, (n, d)."""
        parts = torch.split(x, AT_A_TIME)
        seen = [value_and_gradient(partial(self.at, t=t), part) for part in parts]
        values, gradients = zip(*seen, strict=True)
        return torch.cat(values), torch.cat(gradients)


@torch.no_grad()
def anneal(path: Path, population: int, runs: int, moves: int, generator: Generator) -> Annealed:
    """Run a population to the model several times; `moves` more at the end of each."""
    points, lengths, *measured = zip(
        *(_run(path, population, moves, generator) for _ in range(runs)), strict=True
    )
    levels, shares, variances = (torch.stack(each) for each in measured)
    whole = log_mean_exp(levels)
    within = variances.mean() / runs
    between = (levels - whole).exp().var() / runs if runs > 1 else within
    error = torch.maximum(within, between).sqrt()
    return Annealed(points[0], lengths[0], whole, error, shares.mean())


def _run(
    path: Path, n: int, moves: int, generator: Generator
) -> tuple[Tensor, float, Tensor, Tensor, Tensor]:
    """Points, the length of a move, log Gamma, the effective share of the proposals, and the
    variance of log Gamma.
    """
    t = 0.0
    x = path.proposal.sample(n, generator)
    slope = path.slope(x)
    share = effective_share(slope)
    level, variance = slope.new_zeros(()), slope.new_zeros(())
    length = FIRST_LENGTH * float(x.std(0).mean())
    for _ in range(MOST_STEPS):
        step = _longest(slope, 1 - t)
        weights = step * slope
        level += torch.logsumexp(weights, 0) - math.log(n)
        variance += (1 / effective_share(weights) - 1).clamp_min(0) / n
        x = x[resampled(weights, generator)]
        t = 1.0 if step >= 1 - t else t + step
        if t == 1.0:
            break
        x, length = move(path, x, t, MOVES, length, generator)
        slope = path.slope(x)
    x, length = move(path, x, 1.0, moves, length, generator)
    return x, length, level, share, variance


def effective_share(weights: Tensor) -> Tensor:
    """Of n weighted points, given the logarithms: 1 for equal weights, 1/n for one that rules."""
    ratio = 2 * torch.logsumexp(weights, -1) - torch.logsumexp(2 * weights, -1)
    return ratio.exp() / weights.shape[-1]


def log_mean_exp(weights: Tensor) -> Tensor:
    """(..., n) -> (...)."""
    return torch.logsumexp(weights, -1) - math.log(weights.shape[-1])


def _longest(slope: Tensor, most: float) -> float:
    """The longest step in t, up to `most`, that leaves enough of the population effective."""
    if float(effective_share(most * slope)) >= (AT_ONCE if most == 1.0 else EFFECTIVE):
        return most
    low, high = 0.0, most
    for _ in range(BISECTIONS):
        middle = (low + high) / 2
        enough = float(effective_share(middle * slope)) >= EFFECTIVE
        low, high = (middle, high) if enough else (low, middle)
    return max(low, 1e-6)


def resampled(weights: Tensor, generator: Generator) -> Tensor:
    """Numbers of points, as many as there are, each as often as its weight says, to within one.

    weights: (n,), logarithms -> (n,).
    """
    n = len(weights)
    turn = torch.rand((), generator=generator, device=weights.device).item()
    marks = (torch.arange(n).to(weights) + turn) / n
    return torch.searchsorted(weights.softmax(0).cumsum(0), marks).clamp_max(n - 1)


def move(
    path: Path,
    x: Tensor,
    t: float,
    moves: int,
    length: float,
    generator: Generator,
    corrected: bool = True,
) -> tuple[Tensor, float]:
    """Langevin steps, each taken or refused by Metropolis's rule, and the length of the next.

    If they are not `corrected`, all are taken, and the rule only tunes their length: far from the
    model it would refuse most.
    """
    if moves == 0:
        return x, length
    value, gradient = path.look(x, t)
    for _ in range(moves):
        half = length**2 / 2
        noise = torch.empty_like(x).normal_(generator=generator)
        there = x + half * gradient + length * noise
        new_value, new_gradient = path.look(there, t)
        back = (x - there - half * new_gradient).square().sum(-1) / (2 * length**2)
        forth = noise.square().sum(-1) / 2
        chance = (new_value - value + forth - back).exp().clamp_max(1)
        draws = torch.empty_like(chance).uniform_(generator=generator)
        taken = (draws < chance)[:, None] if corrected else torch.ones_like(chance).bool()[:, None]
        x = torch.where(taken, there, x)
        value = torch.where(taken[:, 0], new_value, value)
        gradient = torch.where(taken, new_gradient, gradient)
        length *= math.exp(0.5 * (float(chance.mean()) - ACCEPTED))
    return x, length


def settle(path: Path, x: Tensor, steps: int, length: float) -> Tensor:
    """Steps along the gradient alone: what is left is the place around which a chain would move."""
    for _ in range(steps):
        x = x + length**2 / 2 * path.look(x, 1.0)[1]
    return x
