"""Maximum likelihood of g by importance weights: no chains.

With proposals z ~ q, log Gamma is estimated by log mean b(z) exp(g(z)) / q(z), with gradients. Each
member is trained without the rows of one fold, and the state is kept that gains most there: more
training than that only learns the rows by heart.

At every check the effective number of proposals is counted, with the network of the moment. Where
too few count, the weights say nothing of the model; `density.estimator="auto"` then leaves them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Generator, Tensor, nn

from gedilearn.density.annealing import effective_share, log_mean_exp
from gedilearn.density.base import Candidate, Gaussians
from gedilearn.density.density import Density, Energy
from gedilearn.settings import AUTO, Settings

OnStep = Callable[[int, int], None]

POOL, CHECKED = 8_000, 4_000  # proposals to train with, and others to measure with
ROWS, PROPOSALS = 192, 384  # in a batch
CHECK_EVERY, PATIENCE = 50, 5
# Effective proposals below which weights are not healthy. The standard error of log Gamma is about
# one over the root of their number: 0.14 nats at 50. With fewer, single proposals decide about the
# gradient, and the error itself is not known.
HEALTHY = 50


class Weighed(NamedTuple):
    """How healthy the weights were."""

    iterations: int  # by weights
    counted: float | None = None  # effective proposals of `CHECKED`; None: never measured
    healthy: bool = True  # to the end; otherwise training ended there


class Learnt(NamedTuple):
    """A base with the network that corrects it."""

    start: Candidate
    energy: Energy
    gain: Tensor  # (folds, m): by how much each held-out row is likelier than under the base
    weighed: Weighed

    @property
    def held_out(self) -> Tensor:
        """log p(x) of rows that it was learnt without: (folds, m)."""
        return self.start.held_out + self.gain


def learn(
    x: Tensor,
    held: Tensor,
    start: Candidate,
    proposal: Gaussians,
    settings: Settings,
    generator: Generator,
    on_step: OnStep,
) -> Learnt:
    """Correct a base.

    x: (n, d), single precision; held: (folds, m), the rows that each member does not see; `on_step`
    is called in every iteration, with those done and all. With 'auto' it ends when the weights of
    no member are healthy.
    """
    members, (n, d) = len(held), x.shape
    z = proposal.sample(POOL + CHECKED, generator)
    ratio = (start.base.log_density(z) - proposal.log_density(z)).float()
    z = z.float()
    test = Test(x[held], z[POOL:].expand(members, -1, -1), ratio[POOL:])
    every = torch.arange(n)
    rows = torch.stack([every[~torch.isin(every, own)] for own in held])
    member, batch = torch.arange(members)[:, None], min(ROWS, rows.shape[1])
    energy = Energy(d, members, generator=generator)
    best = {name: torch.zeros_like(value) for name, value in energy.state_dict().items()}
    gain = torch.zeros(held.shape)
    idle = iteration = 0
    weighed = Weighed(0)
    rate, length = settings.density.learning_rate, settings.density.iterations
    adam = torch.optim.Adam(energy.parameters(), rate, fused=True)
    while iteration < length and idle < PATIENCE and weighed.healthy:
        on_step(iteration, length)
        for group in adam.param_groups:
            group["lr"] = rate * (1 + math.cos(math.pi * iteration / length)) / 2
        iteration += 1
        chosen = torch.randint(rows.shape[1], (members, batch), generator=generator)
        drawn = torch.randint(POOL, (PROPOSALS,), generator=generator)
        points = torch.cat([x[rows[member, chosen]], z[drawn].expand(members, -1, -1)], 1)
        data, proposed = energy(points).split([batch, PROPOSALS], 1)
        loss = (log_mean_exp(proposed + ratio[drawn]) - data.mean(1)).sum()
        adam.zero_grad()
        loss.backward()
        adam.step()
        if iteration % CHECK_EVERY == 0:
            found, counted = test.gains(energy)
            better = found.mean(1) > gain.mean(1)
            idle = 0 if bool(better.any()) else idle + 1
            gain[better] = found[better]
            for name, value in energy.state_dict().items():
                best[name][better] = value[better]
            # At the end of its patience what it learns is the rows by heart, healthy or not.
            if idle < PATIENCE:
                weighed = _weighed(iteration, float(counted.max()), settings)
    energy.load_state_dict(best)  # members that gained nowhere correct nothing
    return Learnt(start, energy, gain.double(), weighed._replace(iterations=iteration))


def _weighed(iteration: int, counted: float, settings: Settings) -> Weighed:
    asked = settings.density.estimator != AUTO  # for weights: they go on in any case
    return Weighed(iteration, counted, asked or counted > HEALTHY)


class Test(NamedTuple):
    """What members are held against: rows and proposals that they have not seen."""

    rows: Tensor  # (members, m, d)
    proposals: Tensor  # (members, checked, d)
    ratio: Tensor  # (checked,): log b - log q of the proposals

    @torch.no_grad()
    def gains(self, energy: Energy) -> tuple[Tensor, Tensor]:
        """By how much each row is likelier than under the base, less the error: (members, m).

        Minus infinity where the weights are too uneven to say. And how many proposals count:
        (members,).
        """
        level, counted = level_of(energy(self.proposals) + self.ratio)
        found: Tensor = energy(self.rows) - level[:, None]
        return found, counted


def level_of(weights: Tensor) -> tuple[Tensor, Tensor]:
    """log Gamma and its error, summed, and how many of the weights count: (..., n) -> (...), both.

    The sum is infinite where they are not healthy.
    """
    share, n = effective_share(weights), weights.shape[-1]
    level = log_mean_exp(weights) + ((1 / share - 1).clamp_min(0) / n).sqrt()
    return torch.where(share * n > HEALTHY, level, math.inf), share * n


def learn_on_own_base(
    density: Density,
    y: Tensor,
    fresh: Tensor,
    settings: Settings,
    generator: Generator,
    on_step: OnStep,
) -> tuple[Weighed, float]:
    """Correct the base of `density`, in place, by points y (n, d), with proposals from that base.

    The state is kept that gains most on points `fresh` (m, d); if none gains, the first. Says how
    healthy the weights were, and the mean gain.
    """
    rate, length = settings.density.learning_rate, settings.density.iterations
    batch = settings.sampler.chains or settings.optimizer.batch_size
    adam = torch.optim.Adam(density.energy.parameters(), rate, fused=True)
    best, most, idle, weighed = copy_of(density.energy), 0.0, 0, Weighed(0)
    for iteration in range(1, length + 1):
        on_step(iteration - 1, length)
        for group in adam.param_groups:
            group["lr"] = rate * (1 + math.cos(math.pi * (iteration - 1) / length)) / 2
        index = torch.randint(len(y), (batch,), generator=generator, device=y.device)
        drawn = density.base.sample(PROPOSALS * batch // ROWS, generator)
        g = density.correction(torch.cat([y[index], drawn]))
        loss = log_mean_exp(g[batch:]) - g[:batch].mean()
        adam.zero_grad()
        torch.autograd.backward(loss)
        adam.step()
        if iteration % CHECK_EVERY == 0 or iteration == length:
            gain, counted = _gain_on_own_base(density, fresh, generator)
            idle = 0 if gain > most else idle + 1
            if gain > most:
                best, most = copy_of(density.energy), gain
            if idle == PATIENCE:
                break
            weighed = _weighed(iteration, counted, settings)
            if not weighed.healthy:
                break
    density.energy.load_state_dict(best)
    return weighed._replace(iterations=iteration), most


@torch.no_grad()
def _gain_on_own_base(density: Density, fresh: Tensor, generator: Generator) -> tuple[float, float]:
    """What the network adds to points (m, d), less the error, and how many proposals count."""
    size = density.effort.batch
    weights = [
        density.correction(density.base.sample(min(size, CHECKED - done), generator))
        for done in range(0, CHECKED, size)
    ]
    level, counted = level_of(torch.cat(weights))
    own = torch.cat([density.correction(part) for part in torch.split(fresh, size)])
    return float(own.mean() - level), float(counted)


def copy_of(module: nn.Module) -> dict[str, Tensor]:
    """Its state."""
    return {name: value.detach().clone() for name, value in module.state_dict().items()}
