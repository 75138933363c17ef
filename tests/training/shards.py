"""Run by test_ranks.py, alone or under torchrun: fits of a mapped file.

    python shards.py FOLDER OUT
    python shards.py gedi ...

Sizes from which things are done for large data are set low. What was found is written to
FOLDER/OUT-RANK.npz: for each fit the node of each point, labels, trust, weights and probabilities.
The second form is the command `gedi`.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch

from gedilearn import GEDI
from gedilearn.cli import main as command
from gedilearn.data import arrays, graph
from gedilearn.data import walks as landmarks
from gedilearn.data.views import WalkViews
from gedilearn.training import loop
from gedilearn.training.setup import Setup

torch.set_num_threads(1)
SETTINGS = {"training.max_iter": 60, "training.check_every": 20, "optimizer.batch_size": 100}
made: list[Setup] = []


def lower_limits() -> None:
    """As if 4,000 points were very many."""
    landmarks.MOST_NODES, landmarks.NODES_EACH, landmarks.ALL_PAIRS = 300, 20, 1
    graph.SINGLE, arrays._CHUNK_VALUES = 8_000, 5_000


def keep_what_is_made() -> None:
    begin = loop.begin

    def begin_and_keep(*args: Any, **more: Any) -> Any:
        setup, state = begin(*args, **more)
        made.append(setup)
        return setup, state

    loop.begin = begin_and_keep


def bent(x: torch.Tensor) -> torch.Tensor:
    """Views that ranks do not draw differently."""
    return 1.1 * x + 0.1 * torch.sin(x)


def fit(path: Path, name: str, **more: Any) -> dict[str, np.ndarray]:
    """What a fit finds, by names that begin with `name`."""
    made.clear()
    x = np.load(path, mmap_mode="r")
    model = GEDI(4, w_gen=0, random_state=0, device="cpu", settings=SETTINGS, **more).fit(x)
    views = made[0].views[0]
    found = {f"weights/{k}": v.numpy() for k, v in model.model_.state_dict().items()}
    found |= {"labels": model.labels_, "probabilities": model.predict_proba(x)}
    if isinstance(views, WalkViews):
        assert views.tables.node is not None and model.trust_ is not None
        found |= {"node": views.tables.node.numpy(), "trust": model.trust_}
    return {f"{name}/{k}": v for k, v in found.items()}


def main(folder: Path, out: str) -> None:
    lower_limits()
    keep_what_is_made()
    path = folder / "x.npy"
    found = fit(path, "walks") | fit(path, "fixed", views=bent)
    np.savez(folder / f"{out}-{os.environ.get('RANK', '0')}.npz", **found)


if __name__ == "__main__":
    if sys.argv[1] == "gedi":
        sys.argv.pop(0)
        lower_limits()
        command()
    else:
        main(Path(sys.argv[1]), sys.argv[2])
