"""Which of several results are still in training, and how the others leave it."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from gedilearn.data.views import Views
from gedilearn.models.energy import EnergyModel

# What Adam remembers of each entry of a parameter.
MOMENTS = ("exp_avg", "exp_avg_sq")


@dataclass(frozen=True)
class Active:
    """Results in training, with what their members see; the members of a result are neighbours."""

    results: list[int]
    data: Tensor  # (groups, n, ...): of all of them, or of each
    views: Sequence[Views]  # one a group


def keep_moments(
    model: EnergyModel,
    optimizer: torch.optim.Optimizer,
    members: Sequence[int],
    heir: EnergyModel,
    its_optimizer: torch.optim.Optimizer,
) -> None:
    """Let the optimiser of `heir`, which holds these members of `model`, go on where theirs was.

    Moments are shaped like parameters, so a network that holds them is taken apart in the same way.
    """
    for name in MOMENTS:
        carrier = copy.deepcopy(model)
        with torch.no_grad():
            for moment, parameter in zip(carrier.parameters(), model.parameters(), strict=True):
                moment.copy_(optimizer.state[parameter][name])
        chosen = carrier.select(members).parameters()
        for own, parameter, moment in zip(
            heir.parameters(), model.parameters(), chosen, strict=True
        ):
            steps = optimizer.state[parameter]["step"]
            its_optimizer.state[own] |= {"step": steps.clone(), name: moment.detach()}
