"""Fits of a fraction of a second, and the runs that cases begin with."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from fuzz.entries import TEMPLATES
from fuzz.player import Player

SETTINGS: dict[str, Any] = {
    "training.max_iter": 4,
    "training.check_every": 2,
    "training.checkpoint_every": 0,
    "density.iterations": 2,
    "optimizer.batch_size": 8,
    "sampler.buffer": 16,
    "sampler.steps": 2,
    "network.hidden": [4],
    "network.width": 2,
}
RNG = np.random.default_rng(0)
POINTS = np.concatenate([RNG.normal(-3, 1, (12, 2)), RNG.normal(3, 1, (12, 2))]).round(3)
IMAGES = RNG.integers(0, 256, (12, 1, 8, 8), dtype=np.uint8)


def options(changed: dict[str, Any] | None = None) -> list[str]:
    """`--set` for each of the settings, with some of them changed."""
    return [
        part
        for name, value in (SETTINGS | (changed or {})).items()
        for part in ("--set", f"{name}={value}")
    ]


# Ends a fit as Ctrl-C in its third iteration does, at the same iteration every time.
INTERRUPTED = """
import sys
from gedilearn.cli import main
from gedilearn.training import loop
loop.all_agree = lambda setup, state, asked: state.iteration == 3
sys.argv = ["gedi", *{arguments!r}]
main()
"""


def make_templates(player: Player) -> None:
    """A run that is finished, one of images, and one that was interrupted, each beside its data."""
    for name, x in (("finished", POINTS), ("images", IMAGES), ("interrupted", POINTS)):
        folder = player.empty_folder(f"template-{name}")
        np.save(folder / "x.npy", x)
        arguments = ["fit", "x.npy", "-k", "2", "--out", "run", "--quiet", *options()]
        ended = {"arguments": arguments}
        if name == "interrupted":
            ended = {"script": INTERRUPTED.format(arguments=arguments)}
        (end,) = player.play(folder, **ended, seconds=60)
        assert end.code == (130 if name == "interrupted" else 0), end
        # The config names the place of the data: where it will lie in the folder of a case.
        config = folder / "run" / "config.yaml"
        config.write_text(config.read_text().replace(str(folder), "t"))
        TEMPLATES[name] = folder


def names_in(template: str) -> list[str]:
    """The files of a template's run, by their names below it; the lock holds nothing."""
    folder: Path = TEMPLATES[template]
    files = [
        path for path in (folder / "run").rglob("*") if path.is_file() and path.name != ".lock"
    ]
    return sorted(str(path.relative_to(folder)) for path in files)
