"""GEN by chains that start from the base, for images and vectors with many columns.

The samples of GEN are short runs: a chain starts at the base, near the data, and makes `steps`
Langevin steps in the coordinates of the base, where it moves equally fast in all directions. The
network g learns to make the ends of such runs like the data. Nijkamp, Hill, Zhu and Wu (2019) call
this a generator that is read off an energy: its samples are good at the length that it was trained
with. It is no estimate of maximum likelihood, so what g says of log p(x) is measured and counts
only where that can be known (`fit.py`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple, Protocol

import torch
from torch import Generator, Tensor, nn

from gedilearn.density.amortised import Amortised
from gedilearn.density.annealing import Path, move
from gedilearn.density.density import Density
from gedilearn.density.importance import copy_of
from gedilearn.sampling.langevin import LogDensity
from gedilearn.settings import Settings, value_at

CHAINS = 1_000  # that are kept
FIRST_LENGTH = 0.3
LARGEST_GRADIENT = 5.0
CHECK_EVERY = 25
CORRECTED_RATE = 1e-3  # that corrected chains follow; at 5e-3 one column of normal data is too fast
MOST_ENERGY = 1e4  # nats of g, which no data asks for
KNOWN = 0.3  # nats of error in log Gamma, of a network that was learnt by chains,
KNOWN_SHARE = 0.05  # and the share of its proposals that counts: beyond them it has no say in p(x)


def is_known(error: float | Tensor, effective: float | Tensor) -> bool:
    """Whether log Gamma is, given its standard error and the share of proposals that counts."""
    return float(error) < KNOWN and float(effective) > KNOWN_SHARE


class Drawer(Protocol):
    """What draws x~ while g is learnt, and what it asks of the learning."""

    @property
    def run(self) -> tuple[int, float]:
        """Steps of the short runs that it makes, and their length; 0 for none."""
        ...

    most_rate: float  # the largest learning rate that it can follow
    smoothness: float  # weight of |d log p(x) / dx|^2 / 2 at the data

    def draw(self, path: Path, n: int, generator: Generator) -> Tensor:
        """(n, d)."""
        ...


class BaseChains:
    """Chains from the base: a share `restart` begins anew each time, the others go on.

    Steps are `corrected` by Metropolis's rule, or all are taken (`annealing.move`). Those that are
    not spread wider than the model, which suits samples of images; for log p(x) they must not.
    """

    smoothness = 0.0

    def __init__(
        self,
        path: Path,
        steps: int,
        restart: float,
        generator: Generator,
        corrected: bool = False,
    ) -> None:
        self.steps, self.restart, self.corrected = steps, restart, corrected
        self.most_rate = CORRECTED_RATE if corrected else math.inf
        self.positions = path.proposal.sample(CHAINS, generator)
        self.length = FIRST_LENGTH

    @property
    def run(self) -> tuple[int, float]:
        return self.steps, self.length

    def draw(self, path: Path, n: int, generator: Generator) -> Tensor:
        device = self.positions.device
        slots = torch.randperm(CHAINS, generator=generator, device=device)[:n]
        fresh = torch.empty(len(slots), 1, device=device).uniform_(generator=generator)
        begin = path.proposal.sample(len(slots), generator)
        begin = torch.where(fresh < self.restart, begin, self.positions[slots])
        end, self.length = move(
            path, begin, 1.0, self.steps, self.length, generator, corrected=self.corrected
        )
        self.positions[slots] = end
        return end


class AmortisedDraws:
    """The points of a generator that is trained beside the model (`amortised.py`)."""

    run = (0, 0.0)
    most_rate, smoothness = 3e-4, 0.1  # with less, or without, model and generator part

    def __init__(self, d: int, generator: Generator, device: torch.device) -> None:
        self.amortised = Amortised(d, generator)
        self.amortised.latent.to(device)  # in place: its optimisers go on

    def draw(self, path: Path, n: int, generator: Generator) -> Tensor:
        return self.amortised.draw(path.model, n, generator)


class Learnt(NamedTuple):
    iterations: int
    diverged: bool  # training then ended with the last good state


def learn_by_chains(
    density: Density,
    y: Tensor,
    drawer: Drawer,
    settings: Settings,
    generator: Generator,
    on_step: Callable[[int, int], None],
    is_over: Callable[[], bool] = lambda: False,
) -> Learnt:
    """Correct the base of `density`, in place, by points y (n, d); `on_step` each time.

    At every check `is_over` is asked whether to end it.
    """
    length = settings.density.iterations
    rate = min(settings.density.learning_rate, drawer.most_rate)
    batch = min(settings.sampler.chains or settings.optimizer.batch_size, CHAINS)
    adam = torch.optim.Adam(density.energy.parameters(), rate, betas=(0.9, 0.99), fused=True)
    good = copy_of(density.energy)
    for iteration in range(1, length + 1):
        on_step(iteration - 1, length)
        for group in adam.param_groups:
            group["lr"] = rate * (1 + math.cos(math.pi * iteration / length)) / 2
        drawn = drawer.draw(density.path, batch, generator)
        index = torch.randint(len(y), (batch,), generator=generator, device=y.device)
        g = density.correction(torch.cat([y[index], drawn]))
        penalty = value_at(settings.weights.energy, iteration / length) * g.square().mean()
        loss = g[batch:].mean() - g[:batch].mean() + penalty
        if drawer.smoothness:
            loss = loss + drawer.smoothness * steepness(density.corrected, y[index])
        adam.zero_grad()
        torch.autograd.backward(loss)
        nn.utils.clip_grad_norm_(density.energy.parameters(), LARGEST_GRADIENT)
        adam.step()
        if iteration % CHECK_EVERY == 0 or iteration == length:
            if not float(g.detach().abs().max()) < MOST_ENERGY:
                density.energy.load_state_dict(good)
                return Learnt(iteration, True)
            if is_over():
                return Learnt(iteration, False)
            good = copy_of(density.energy)
    return Learnt(length, False)


def steepness(log_density: LogDensity, y: Tensor) -> Tensor:
    """The mean of |d log p / dy|^2 / 2, with gradients to the parameters.  y: (n, d)."""
    y = y.detach().requires_grad_()
    (slopes,) = torch.autograd.grad(log_density(y).sum(), y, create_graph=True)
    return slopes.square().sum(-1).mean() / 2
