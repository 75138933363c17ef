"""The guard: notices when energy-based training diverges, goes back, and goes on more calmly.

Divergence rarely begins with a NaN. Its sign is the energy gap opening: data and samples drift
apart in log p(x), because the chains no longer reach where the network puts its density. What is
not finite, what has left the scale of energies, and chains far outside the data are signs as well.
"""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from gedilearn.sampling.langevin import Box

if TYPE_CHECKING:
    from gedilearn.training.loop import Trainer

# A model in balance keeps |log p(data) - log p(samples)| within a few nats; broken ones pass 50.
WIDEST_GAP = 25.0
# Root mean square of log p(x). Energies are free up to a constant, but float32 has seven digits.
HIGHEST_ENERGY = 300.0
# Gradients of a healthy step stay well below; a single one of this size undoes a network.
STEEPEST_GRADIENT = 1e5
# Chains this many box widths outside the data's box, and the share of them that counts.
FAR = 1.0
MANY = 0.1


class Guard:
    """Watches a `Trainer` at its checks; `recover` puts it back to the last good state.

    After a recovery the chains restart, and everything that feeds the divergence is calmed: half
    the learning rate, half the Langevin step (with its noise), and a penalty on the energies, ten
    times stronger each time. At most `max_recoveries` times.
    """

    def __init__(self, trainer: Trainer) -> None:
        self.trainer = trainer
        self.recoveries = 0
        self.good: dict[str, Any] | None = None

    # What the trainer multiplies its settings with.

    @property
    def calm(self) -> float:
        return 0.5**self.recoveries

    @property
    def extra_energy(self) -> float:
        """Weight added to the penalty on energies: 0.01, 0.1, 1, ..."""
        return 0.01 * 10 ** (self.recoveries - 1) if self.recoveries else 0.0

    def reason(self, terms: dict[str, Tensor], gaps: Tensor) -> str | None:
        """What is wrong, in words, or None. `terms` and `gaps` are (members,)."""
        for name, term in terms.items():
            if not term.isfinite().all():
                return f"the term {name} is not finite"
        if not gaps.isfinite().all():
            return "predictions are not finite"
        gradient = float(self.trainer.model.gradient_norms().max())
        if not gradient < STEEPEST_GRADIENT:
            return f"the gradient has norm {gradient:.2g}"
        if "gen" in terms and float(terms["gen"].abs().max()) > WIDEST_GAP:
            gap = float(terms["gen"].abs().max())
            return f"the energies of data and samples are {gap:.3g} nats apart"
        if "energy" in terms and float(terms["energy"].max()) > 2 * HIGHEST_ENERGY**2:
            return f"energies have reached {float(terms['energy'].max() / 2) ** 0.5:.3g} nats"
        chains = self.trainer.method.chains
        if chains is not None and (share := outside(chains.buffer.positions, self.trainer.box)):
            return f"{share:.0%} of the chains are far outside the data"
        return None

    def keep(self) -> None:
        """Remember the present state as good; the chains are not needed, they would restart."""
        self.good = copy.deepcopy(self.trainer.keeper.state(with_chains=False))

    def recover(self, reason: str) -> bool:
        """Go back and calm down; False when that is not wanted or was done too often."""
        training = self.trainer.settings.training
        if training.on_divergence == "stop" or self.recoveries >= training.max_recoveries:
            return False
        iteration, recoveries = self.trainer.iteration, self.recoveries + 1
        if self.good is not None:
            self.trainer.keeper.load(copy.deepcopy(self.good))
        # New random numbers, or the same road would be taken again.
        torch.manual_seed(training.seed + 7919 * recoveries + self.trainer.fabric.global_rank)
        self.recoveries = recoveries
        if self.good is None:
            self.trainer.iteration = 0
            self.trainer.enter(self.trainer.stage)
        else:
            self.trainer.arm()
            self.trainer.method.load_state(copy.deepcopy(self.good["shared"]["method"]))
        self.trainer.event(
            "recovered",
            f"{reason}; back to iteration {self.trainer.iteration} with new chains, learning rate "
            f"and Langevin step times {self.calm:g}, energy penalty plus {self.extra_energy:g}",
            diverged_at=iteration,
            recovery=recoveries,
        )
        return True


def outside(positions: Tensor, box: Box) -> float:
    """The share of chains farther outside than `FAR` box widths; 0 when that is below `MANY`."""
    width = box.high - box.low
    beyond = (positions < box.low - FAR * width) | (positions > box.high + FAR * width)
    share = float(beyond.flatten(2).any(-1).double().mean())
    return share if share >= MANY else 0.0
