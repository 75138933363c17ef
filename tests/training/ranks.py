"""Run by test_ranks.py.

    python ranks.py FOLDER NAME DEVICES

Alone or under torchrun: one training step of each method, more of the first, and fits of the mapped
file FOLDER/x.npy; sizes from which things are done for large data are set low. Rank 0 writes the
gradients to FOLDER/NAME.safetensors, each rank what the fits found to FOLDER/NAME-RANK.npz.

    python ranks.py FOLDER

In forked processes the same for one rank, NAME "one", then fits of x.npy by two: one to its end,
and one that loses a rank and is resumed.
"""

from __future__ import annotations

import atexit
import itertools
import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import save_file
from torch import Generator, Tensor

from gedilearn import GEDI
from gedilearn.data import arrays
from gedilearn.graph import neighbours as graph
from gedilearn.graph import walks as landmarks
from gedilearn.graph.views import WalkViews
from gedilearn.ranks import n_ranks, own_share
from gedilearn.registry import SAMPLERS
from gedilearn.sampling.langevin import LogDensity, SampleBatch, value_and_gradient
from gedilearn.settings import resolve
from gedilearn.training import loop
from gedilearn.training.environment import launch
from gedilearn.training.setup import Setup
from gedilearn.training.state import TrainState

METHODS = ["no-gen", "swav", "barlow", "dino", "deepcluster", "ebclr"]
STEPS = 10
FIT = {"training.max_iter": 60, "training.check_every": 20, "optimizer.batch_size": 100}
LOSING = {
    "optimizer.batch_size": 50,
    "training.max_iter": 40,
    "training.check_every": 10,
    "training.checkpoint_every": 0,
    "training.tol": 0.0,
    "density.base": "none",
    "density.iterations": 5,
    "device.accelerator": "cpu",
    "device.devices": 2,
}


def say_what_still_runs(out: str) -> None:
    tasks = Path("/proc/self/task")
    names = [(task / "comm").read_text().strip() for task in tasks.glob("*")]
    Path(f"{out}.threads").write_text("\n".join(names))


def lower_limits() -> None:
    """As if 2,000 points were very many."""
    landmarks.MOST_NODES, landmarks.NODES_EACH, landmarks.ALL_PAIRS = 300, 20, 1
    graph.SINGLE, arrays._CHUNK_VALUES = 8_000, 5_000


# --- steps --------------------------------------------------------------------------------------


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

    def draw(self, log_density: LogDensity, batch: int, generator: Generator) -> SampleBatch:
        assert batch == self.positions.shape[1]
        slope = value_and_gradient(log_density, self.positions)[1]
        return SampleBatch(self.positions + 0.05 * slope)


SAMPLERS.register("climbing", lambda own: Climbing(own.n_members, own.n_samples))


def step(method: str, devices: int) -> dict[str, Tensor]:
    """What is compared of the training of two members."""
    torch.manual_seed(0)
    data = torch.randn(64, 3)
    settings = resolve(
        {
            "method": method,
            "n_clusters": 3,
            "network": {"head": (20,)},
            "weights": {"inv": 1.0, "prior": 2.0},
            "sampler": {"kind": "climbing"},
            "optimizer": {"batch_size": 32, "learning_rate": 1e-2},
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
    if method == METHODS[0]:
        for _ in range(STEPS):
            state.iteration += 1
            loop.step(setup, state)
        # Weights, and what they say: biases that a norm takes away may be anything.
        weights = state.model.state_dict()
        found |= {f"after/{name}": weights[name] for name in weights if ".weights." in name}
        with torch.no_grad():
            found["after/logits"] = state.model(data.expand(2, -1, -1)).logits
    return {f"{method}/{name}": tensor for name, tensor in found.items()}


def results(state: TrainState, terms: dict[str, Tensor]) -> dict[str, Tensor]:
    """Gradients, terms, moments of batches, and what the method remembers that has no order."""
    found = {name: p.grad for name, p in state.model.named_parameters()}
    found |= {f"term.{name}": term for name, term in terms.items()}
    found |= dict(state.model.named_buffers())
    remembered = state.method.state()
    found |= {name: remembered[name] for name in ("centre", "labels") if name in remembered}
    return {name: tensor.contiguous().clone() for name, tensor in found.items()}


# --- fits ---------------------------------------------------------------------------------------


def bent(x: Tensor) -> Tensor:
    """Views that ranks do not draw differently."""
    return 1.1 * x + 0.1 * torch.sin(x)


def fit(path: Path, name: str, **more: Any) -> dict[str, np.ndarray]:
    """What a fit finds, by names that begin with `name`."""
    made: list[Setup] = []
    begin = loop.begin

    def begin_and_keep(*args: Any, **options: Any) -> Any:
        setup, state = begin(*args, **options)
        made.append(setup)
        return setup, state

    loop.begin = begin_and_keep
    x = np.load(path, mmap_mode="r")
    model = GEDI(4, w_gen=0, random_state=0, device="cpu", settings=FIT, **more).fit(x)
    loop.begin = begin
    views = made[0].views
    found = {f"weights/{k}": v.numpy() for k, v in model.model_.state_dict().items()}
    found |= {"labels": model.labels_, "probabilities": model.predict_proba(x)}
    if isinstance(views, WalkViews):
        assert views.tables.node is not None and model.trust_ is not None
        found |= {"node": views.tables.node.numpy(), "trust": model.trust_}
    return {f"{name}/{k}": v for k, v in found.items()}


def main(folder: Path, name: str, devices: int) -> None:
    rank, out = int(os.environ.get("RANK", "0")), folder / name
    # Registered before the ranks meet, so called after they have parted.
    atexit.register(say_what_still_runs, f"{out}-{rank}")
    tensors: dict[str, Tensor] = {}
    for method in METHODS:
        tensors |= step(method, devices)
    if rank == 0:
        save_file(tensors, f"{out}.safetensors")
    path = folder / "x.npy"
    np.savez(f"{out}-{rank}.npz", **fit(path, "walks"), **fit(path, "fixed", views=bent))


# --- a rank is lost -----------------------------------------------------------------------------


def fork(folder: Path) -> None:
    """Prints how the processes of each case ended and what they said, as JSON."""
    from fuzz.interruptions import environments
    from fuzz.play import Player, Stop

    player, alone = Player(folder), "import __main__; __main__.main(__main__.Path(), 'one', 1)"
    sets = [part for name, value in LOSING.items() for part in ("--set", f"{name}={value}")]
    begin = ["fit", "x.npy", "-k", "4", "--seed", "1", "--quiet", *sets, "--out"]
    stop = Stop("gedilearn.training.loop.step", 15, int(signal.SIGKILL), rank=1)
    ends = [player.play(folder, script=alone, seconds=60)]
    ends += [
        player.play(folder, arguments, stop=stopped, ranks=environments(2), seconds=60)
        for arguments, stopped in (
            ([*begin, "straight"], None),
            ([*begin, "run"], stop),
            (["resume", "run", "--quiet"], None),
        )
    ]
    names = ("alone", "straight", "lost", "resumed")
    found = [[(end.code, end.err) for end in ranks] for ranks in ends]
    print(json.dumps(dict(zip(names, found, strict=True))))


if __name__ == "__main__":
    if len(sys.argv) == 2:
        from fuzz.play import get_ready

        get_ready()
    torch.set_num_threads(1)
    lower_limits()
    if len(sys.argv) == 2:
        fork(Path(sys.argv[1]))
    else:
        main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]))
