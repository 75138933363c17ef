"""What a run keeps on the disk so that a resume continues bit for bit."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import torch

from gedilearn.training import checkpoint
from gedilearn.training.stages import density_stage

if TYPE_CHECKING:
    from gedilearn.training.loop import Trainer


class Keeper:
    """Saves and restores the whole state of a `Trainer`, between two iterations.

    Each rank writes what is its own (chains, random states); rank 0 writes what all share. Without
    a run directory there is nothing to do.
    """

    def __init__(self, trainer: Trainer) -> None:
        self.trainer = trainer
        self.saved_at = time.perf_counter()

    def save_if_due(self) -> None:
        """Save when `checkpoint_every` seconds have passed; rank 0's clock counts."""
        trainer = self.trainer
        if trainer.run is None:
            return
        due = time.perf_counter() - self.saved_at >= trainer.settings.training.checkpoint_every
        if trainer.fabric.broadcast(due):
            self.save()

    def save(self) -> None:
        """Write a checkpoint; the newest complete one stays until this one is complete."""
        trainer = self.trainer
        if trainer.run is None:
            return
        rank, root = trainer.fabric.global_rank, trainer.run.checkpoints
        folder = checkpoint.step_folder(root, trainer.iteration)
        folder.mkdir(parents=True, exist_ok=True)
        state = self.state()
        checkpoint.save_tree(folder, f"rank-{rank}", state["own"])
        if rank == 0:
            checkpoint.save_tree(folder, "shared", state["shared"])
        trainer.fabric.barrier()
        if rank == 0:
            checkpoint.publish(root, trainer.iteration)
        self.saved_at = time.perf_counter()

    def restore(self) -> None:
        """Continue from the newest checkpoint; without one, from the beginning."""
        trainer = self.trainer
        if trainer.run is None:
            return
        folder = checkpoint.latest(trainer.run.checkpoints)
        if folder is not None:
            own = f"rank-{trainer.fabric.global_rank}"
            parts = {"shared": "shared", "own": own}
            self.load({part: checkpoint.load_tree(folder, name) for part, name in parts.items()})
            trainer.guard.keep()
        if trainer.fabric.global_rank == 0:
            trainer.run.rewind(trainer.iteration)

    def state(self, with_chains: bool = True) -> dict[str, Any]:
        """Everything: what all ranks share, and what is this rank's own."""
        return {"shared": self._shared(), "own": self._own(with_chains)}

    def load(self, state: dict[str, Any]) -> None:
        """Put the trainer into a state that `state` gave."""
        self._load_shared(state["shared"])
        self._load_own(state["own"])

    def _shared(self) -> dict[str, Any]:
        trainer = self.trainer
        return {
            "stage": trainer.stage.name,
            "stage_begin": trainer.stage.begin,
            "recoveries": trainer.guard.recoveries,
            "trouble": trainer.trouble,
            "model": trainer.model.state_dict(),
            "optimizer": trainer.optimizer.state_dict(),
            "method": trainer.method.state(),
            "kept": [vars(kept) for kept in trainer.kept],
            "prior": trainer.prior.state,
            "reported": sorted(trainer.reported),
            "iteration": trainer.iteration,
            "stopped": trainer.stopped,
            "elapsed": trainer.elapsed(),
        }

    def _load_shared(self, state: dict[str, Any]) -> None:
        trainer = self.trainer
        trainer.guard.recoveries, trainer.trouble = state["recoveries"], state["trouble"]
        for kept, values in zip(trainer.kept, state["kept"], strict=True):
            vars(kept).update(values)
        if state["stage"] == "density" and trainer.stage.name != "density":
            stage = density_stage(trainer.settings, state["stage_begin"], len(trainer.kept))
            assert stage is not None
            trainer.enter(stage)
        elif trainer.guard.recoveries:
            trainer.arm()
        trainer.model.load_state_dict(state["model"])
        trainer.optimizer.load_state_dict(state["optimizer"])
        for parameter, moments in trainer.optimizer.state.items():
            for name, moment in moments.items():
                if moment.shape == parameter.shape:  # fused Adam pairs them as they lie in memory
                    moments[name] = torch.empty_like(parameter).copy_(moment)
        trainer.method.load_state(state["method"])
        if state["prior"] is not None:
            trainer.prior.state = state["prior"].to(trainer.data.device)
        trainer.reported = set(state["reported"])
        trainer.iteration, trainer.stopped = state["iteration"], state["stopped"]
        trainer.elapsed_before = state["elapsed"]

    def _own(self, with_chains: bool) -> dict[str, Any]:
        trainer = self.trainer
        state = {"rng": torch.get_rng_state(), "batches": trainer.batches.state()}
        if trainer.fabric.device.type == "cuda":
            state["cuda_rng"] = torch.cuda.get_rng_state(trainer.fabric.device)
        if trainer.method.chains is not None and with_chains:
            state["buffer"] = trainer.method.chains.buffer.positions
        return state

    def _load_own(self, state: dict[str, Any]) -> None:
        trainer = self.trainer
        trainer.batches.restore(state["batches"])
        if trainer.method.chains is not None and "buffer" in state:
            trainer.method.chains.buffer.positions = state["buffer"].to(trainer.data)
        torch.set_rng_state(state["rng"])
        if "cuda_rng" in state:
            torch.cuda.set_rng_state(state["cuda_rng"], trainer.fabric.device)
