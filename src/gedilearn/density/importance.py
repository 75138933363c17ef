"""Maximum likelihood of g by importance weights: no chains.

With proposals z ~ q, log Gamma is estimated by log mean b(z) exp(g(z)) / q(z), with gradients. Each
member is trained without the rows of one fold, and the state is kept that gains most there: more
training than that only learns the rows by heart.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Generator, Tensor

from gedilearn.density.annealing import effective_share, log_mean_exp
from gedilearn.density.base import Candidate
from gedilearn.density.energy import Energy
from gedilearn.density.gaussians import Gaussians
from gedilearn.generative_sections import Density

POOL, CHECKED = 8_000, 4_000  # proposals to train with, and others to measure with
ROWS, PROPOSALS = 192, 384  # in a batch
CHECK_EVERY, PATIENCE = 50, 5
HEALTHY = 50  # effective proposals, at least


class Learnt(NamedTuple):
    """A base with the network that corrects it."""

    start: Candidate
    energy: Energy
    gain: Tensor  # (folds, m): by how much each held-out row is likelier than under the base
    iterations: int

    @property
    def held_out(self) -> Tensor:
        """log p(x) of rows that it was learnt without: (folds, m)."""
        return self.start.held_out + self.gain


def learn(
    x: Tensor,
    held: Tensor,
    start: Candidate,
    proposal: Gaussians,
    settings: Density,
    generator: Generator,
    on_step: Callable[[int, int], None],
) -> Learnt:
    """Correct a base.

    x: (n, d), single precision; held: (folds, m), the rows that each member does not see; `on_step`
    is called in every iteration, with those done and all.
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
    rate, length = settings.learning_rate, settings.iterations
    adam = torch.optim.Adam(energy.parameters(), rate, fused=True)
    while iteration < length and idle < PATIENCE:
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
            found = test.gains(energy)
            better = found.mean(1) > gain.mean(1)
            idle = 0 if bool(better.any()) else idle + 1
            gain[better] = found[better]
            for name, value in energy.state_dict().items():
                best[name][better] = value[better]
    energy.load_state_dict(best)  # members that gained nowhere correct nothing
    return Learnt(start, energy, gain.double(), iteration)


class Test(NamedTuple):
    """What members are held against: rows and proposals that they have not seen."""

    rows: Tensor  # (members, m, d)
    proposals: Tensor  # (members, checked, d)
    ratio: Tensor  # (checked,): log b - log q of the proposals

    @torch.no_grad()
    def gains(self, energy: Energy) -> Tensor:
        """By how much each row is likelier than under the base, less the error: (members, m).

        Minus infinity where the weights are too uneven to say.
        """
        weights = energy(self.proposals) + self.ratio
        share, n = effective_share(weights), len(self.ratio)
        level = log_mean_exp(weights) + ((1 / share - 1).clamp_min(0) / n).sqrt()
        level = torch.where(share * n > HEALTHY, level, math.inf)
        found: Tensor = energy(self.rows) - level[:, None]
        return found
