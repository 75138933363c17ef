"""Run by test_ranks.py under torchrun: one training step a method; rank 0 writes the gradients.

Then some more steps, and what the networks have become.
"""

from __future__ import annotations

import atexit
import itertools
import sys
from pathlib import Path

import torch
from safetensors.torch import save_file
from torch import Generator, Tensor

from gedilearn.ranks import n_ranks, own_share
from gedilearn.registry import SAMPLERS
from gedilearn.sampling.langevin import LogDensity, value_and_gradient
from gedilearn.settings import resolve
from gedilearn.training import loop
from gedilearn.training.environment import launch
from gedilearn.training.state import TrainState

torch.set_num_threads(1)


def say_what_still_runs(out: str) -> None:
    tasks = Path("/proc/self/task")
    names = [(task / "comm").read_text().strip() for task in tasks.glob("*")]
    Path(f"{out}.threads").write_text("\n".join(names))


class TwoViews:
    """Views that differ from each other, but not between ranks."""

    def __init__(self) -> None:
        self.turns = itertools.cycle([lambda x: 1.2 * x, torch.tanh])

    def __call__(self, x: Tensor) -> Tensor:
        return next(self.turns)(x)


class Climbing:
    """Draws by a step uphill, without chance, from the same points however many ranks share them.

    Like chains it needs the density of a point alone, on each rank that of the joined batch.
    """

    def __init__(self, n_members: int, n_chains: int) -> None:
        generator = torch.Generator().manual_seed(5)
        own = own_share(torch.randn(n_chains * n_ranks(), 3, generator=generator))
        self.positions = own.expand(n_members, -1, -1).clone()

    def draw(self, log_density: LogDensity, batch: int, generator: Generator) -> Tensor:
        assert batch == self.positions.shape[1]
        return self.positions + 0.05 * value_and_gradient(log_density, self.positions)[1]


SAMPLERS.register("climbing", lambda settings, box, members, n, *_: Climbing(members, n))


STEPS = 10


def step(method: str, devices: int) -> tuple[bool, dict[str, Tensor]]:
    """Whether this is rank 0, and what is compared of the training of two members."""
    torch.manual_seed(0)
    data = torch.randn(64, 3)
    settings = resolve(
        {
            "method": method,
            "n_clusters": 3,
            "network": {"head": (20,)},
            "weights": {"inv": 1.0, "prior": 2.0},
            "sampler": {"kind": "climbing"},
            "optimizer": {"batch_size": 32},
            "training": {"n_init": 2},
            "device": {"accelerator": "cpu", "devices": devices},
        },
        tuple(data.shape),
    )
    fabric = launch(settings.device)
    setup, state = loop.begin(data, settings, fabric, view_function=TwoViews())
    terms = loop.step(setup, state)
    seen = loop.look(setup, state)  # each rank at half of the points
    assert seen.logits.shape == (2, len(data), 3)
    found = results(state, terms | {"gap": seen.gap})
    if method == "no-gen":
        for _ in range(STEPS):
            state.iteration += 1
            loop.step(setup, state)
        # Weights, and what they say: biases that a norm takes away may be anything.
        weights = state.model.state_dict()
        found |= {f"after/{name}": weights[name] for name in weights if ".weights." in name}
        with torch.no_grad():
            found["after/logits"] = state.model(data.expand(2, -1, -1)).logits
    return fabric.global_rank == 0, found


def results(state: TrainState, terms: dict[str, Tensor]) -> dict[str, Tensor]:
    """Gradients, terms, moments of batches, and what the method remembers that has no order."""
    found = {name: p.grad for name, p in state.model.named_parameters()}
    found |= {f"term.{name}": term for name, term in terms.items()}
    found |= dict(state.model.named_buffers())
    remembered = state.method.state()
    found |= {name: remembered[name] for name in ("centre", "labels") if name in remembered}
    return {name: tensor.contiguous().clone() for name, tensor in found.items()}


def main(out: str, devices: int, methods: list[str]) -> None:
    # Registered before the ranks meet, so called after they have parted.
    atexit.register(say_what_still_runs, f"{out}.{devices}")
    tensors: dict[str, Tensor] = {}
    for method in methods:
        first, found = step(method, devices)
        tensors |= {f"{method}/{name}": t for name, t in found.items()}
    if first:
        save_file(tensors, out)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), sys.argv[3:])
