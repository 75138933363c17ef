"""Run by test_ranks.py under torchrun: one training step; rank 0 writes the gradients."""

from __future__ import annotations

import atexit
import sys
from pathlib import Path

import torch
from safetensors.torch import save_file

from gedilearn.settings import build
from gedilearn.training.environment import launch
from gedilearn.training.loop import Trainer

torch.set_num_threads(1)


def say_what_still_runs(out: str) -> None:
    tasks = Path("/proc/self/task")
    names = [(task / "comm").read_text().strip() for task in tasks.glob("*")]
    Path(f"{out}.threads").write_text("\n".join(names))


def main(out: str, devices: int) -> None:
    # Registered before the ranks meet, so called after they have parted.
    atexit.register(say_what_still_runs, f"{out}.{devices}")
    torch.manual_seed(0)
    data = torch.randn(64, 3)
    settings = build(
        {
            "n_clusters": 3,
            "views": {"kind": "noise", "noise": 0.0},
            "weights": {"gen": 0.0, "inv": 1.0, "prior": 2.0},
            "optimizer": {"batch_size": 32},
            "training": {"n_init": 2},
            "device": {"accelerator": "cpu", "devices": devices},
        }
    )
    trainer = Trainer(data, settings)
    trainer.set_up(launch(settings.device))
    terms = trainer.step()
    if trainer.fabric.global_rank == 0:
        gradients = {n: p.grad.clone() for n, p in trainer.model.named_parameters()}
        save_file(gradients | {f"term.{name}": t for name, t in terms.items()}, out)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
