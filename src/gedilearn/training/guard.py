"""The guard: notices when energy-based training diverges.

Divergence rarely begins with a NaN. Its sign is the energy gap opening: data and samples drift
apart in log p(x), because the chains no longer reach where the network puts its density. What is
not finite, what has left the scale of energies, and chains far outside the data are signs as well.

Training then goes back to the last good state (`TrainState.recover`) and on with half the learning
rate, half the Langevin step (with its noise), and a penalty on the energies that is ten times
stronger each time; at most `training.max_recoveries` times.
"""

from __future__ import annotations

from torch import Tensor

from gedilearn.sampling.langevin import Box
from gedilearn.training.setup import Setup
from gedilearn.training.state import TrainState

# A model in balance keeps |log p(data) - log p(samples)| within a few nats; broken ones pass 50.
WIDEST_GAP = 25.0
# Root mean square of log p(x). Energies are free up to a constant, but float32 has seven digits.
HIGHEST_ENERGY = 300.0
# Gradients of a healthy step stay well below; a single one of this size undoes a network.
STEEPEST_GRADIENT = 1e5
# Chains this many box widths outside the data's box, and the share of them that counts.
FAR = 1.0
MANY = 0.1


def divergence(
    setup: Setup, state: TrainState, terms: dict[str, Tensor], gaps: Tensor
) -> str | None:
    """What is wrong, in words, or None. `terms` and `gaps` are (members,)."""
    for name, term in terms.items():
        if not term.isfinite().all():
            return f"the term {name} is not finite"
    if not gaps.isfinite().all():
        return "predictions are not finite"
    gradient = float(state.model.gradient_norms().max())
    if not gradient < STEEPEST_GRADIENT:
        return f"the gradient has norm {gradient:.2g}"
    if "gen" in terms and float(terms["gen"].abs().max()) > WIDEST_GAP:
        gap = float(terms["gen"].abs().max())
        return f"the energies of data and samples are {gap:.3g} nats apart"
    if "energy" in terms and float(terms["energy"].max()) > 2 * HIGHEST_ENERGY**2:
        return f"energies have reached {float(terms['energy'].max() / 2) ** 0.5:.3g} nats"
    chains = state.method.chains
    if chains is not None and (share := outside(chains.positions, setup.box)):
        return f"{share:.0%} of the chains are far outside the data"
    return None


def may_recover(setup: Setup, state: TrainState) -> bool:
    """Whether to go back: not when that is not wanted, or was done too often."""
    training = setup.settings.training
    return training.on_divergence == "recover" and state.recoveries < training.max_recoveries


def outside(positions: Tensor, box: Box) -> float:
    """The share of chains farther outside than `FAR` box widths; 0 when that is below `MANY`."""
    width = box.high - box.low
    beyond = (positions < box.low - FAR * width) | (positions > box.high + FAR * width)
    share = float(beyond.flatten(2).any(-1).double().mean())
    return share if share >= MANY else 0.0
