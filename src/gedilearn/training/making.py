"""From a trainer's settings and stage to the method that it trains with."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gedilearn.methods.barlow import BarlowTwins
from gedilearn.methods.deepcluster import DeepCluster
from gedilearn.methods.dino import DINO
from gedilearn.methods.gedi import GEDI
from gedilearn.methods.method import Method
from gedilearn.methods.swav import SwAV
from gedilearn.sampling.buffer import ReplayBuffer
from gedilearn.sampling.chains import PersistentChains
from gedilearn.sampling.langevin import Kernel
from gedilearn.settings import raised

if TYPE_CHECKING:
    from gedilearn.training.loop import Trainer


def make_method(trainer: Trainer) -> Method:
    """The method of the trainer's stage, with fresh chains and nothing remembered."""
    settings = trainer.settings
    if settings.method == "swav":
        return SwAV(settings.swav)
    if settings.method == "barlow":
        return BarlowTwins(settings.barlow)
    if settings.method == "dino":
        return DINO(settings.dino)
    if settings.method == "deepcluster":
        return DeepCluster(settings.deepcluster, settings.training.seed, trainer.stage.length)
    return _make_gedi(trainer)


def _make_gedi(trainer: Trainer) -> GEDI:
    """GEDI or one of its ablations, as calm as the guard wants it."""
    weights, sampler, guard = trainer.stage.weights, trainer.settings.sampler, trainer.guard
    ranks = trainer.fabric.world_size
    if guard.extra_energy:
        energy = raised(weights.energy, guard.extra_energy)
        weights = weights.model_copy(update={"energy": energy})
    chains = None
    of_all_ranks = min(trainer.batches.size, sampler.chains or trainer.batches.size)
    n_chains = max(of_all_ranks // ranks, 1)
    if weights.gen:
        size = max(sampler.buffer // ranks, n_chains)
        box, members = trainer.box, trainer.stage.n_members
        buffer = ReplayBuffer(members, size, sampler.restart, box.uniform)
        kernel = Kernel(
            sampler.step_size * guard.calm,
            sampler.noise * guard.calm**0.5,
            sampler.max_move,
            box if sampler.clamp else None,
        )
        chains = PersistentChains(buffer, kernel, sampler.steps)
    results = trainer.active.results
    each = trainer.stage.n_members // len(results)
    factors = {
        name: factor[results].to(trainer.data).repeat_interleave(each)
        for name, factor in trainer.factors.items()
    }
    return GEDI(weights, trainer.prior, chains, n_chains, factors)
