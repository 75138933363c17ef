"""What a run on images takes, before it starts: data, weights, device, passes, bytes and hours."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import torch

from gedilearn.errors import InputError
from gedilearn.paper.published import SETS, is_cached
from gedilearn.paper.runner import Options
from gedilearn.paper.table import Table
from gedilearn.pretrained import EfficientNetLite0
from gedilearn.settings import Settings, resolve
from gedilearn.training.environment import AnyFabric, launch
from gedilearn.training.loop import begin, step
from gedilearn.training.setup import Setup, density_stage
from gedilearn.training.state import TrainState

# Iterations that are timed, after one that is not; random images that they are timed on.
TIMED, IMAGES = 2, 512


class Trial(NamedTuple):
    """One stage of a training: its length, and what an iteration takes."""

    iterations: int
    passes: float  # of a batch: forward 1, backward to the images 1 more, to the weights 2 more
    seconds: float
    parameters: int
    chain_bytes: int


def tables(
    data: Sequence[str],
    methods: Mapping[str, Options],
    n_seeds: int,
    shape: tuple[int, ...],
) -> list[Table]:
    """The needs of a run, and the plan of each method.

    data: the set, then the others that it is compared with; methods: nested settings by name;
    shape: of the training images, (n, c, h, w)
    """
    settings = {name: resolve(values, shape) for name, values in methods.items()}
    fabric = launch(next(iter(settings.values())).device)
    needs = [{"what": name, "state": state} for name, state in needed(data, fabric, shape)]
    lines = []
    for name, own in settings.items():
        trials = tried(own, fabric, shape)
        seconds = sum(trial.iterations * trial.seconds for trial in trials)
        lines.append(
            {
                "method": name,
                "seeds": str(n_seeds),
                "iterations": str(sum(trial.iterations for trial in trials)),
                "passes of a batch": f"{sum(t.iterations * t.passes for t in trials):.3g}",
                "parameters": f"{trials[-1].parameters:,}",
                "chains, MB": f"{max(trial.chain_bytes for trial in trials) / 1e6:.0f}",
                "hours a seed": f"{seconds / 3600:.3g}",
                "hours": f"{n_seeds * seconds / 3600:.3g}",
            }
        )
    words = f"Plan, measured in {TIMED} iterations on {fabric.device}"
    return [Table("Needs", needs), Table(words, lines)]


def needed(data: Sequence[str], fabric: AnyFabric, shape: tuple[int, ...]) -> list[tuple[str, str]]:
    """Files, weights and device, and whether they are there."""
    sets = [name for name in data if name in SETS]
    lines = [(s, "there" if is_cached(s) else f"missing: gedi data get {s}") for s in sets]
    try:
        EfficientNetLite0.installed()
        lines.append(("weights for Frechet distances", "there"))
    except InputError as error:
        lines.append(("weights for Frechet distances", f"missing: {error}"))
    size = 4 * torch.Size(shape).numel() / 1e6
    lines.append(("training images", f"{size:.3g} MB in single precision"))
    if fabric.device.type == "cuda":
        device = torch.cuda.get_device_properties(fabric.device)
        return [*lines, ("device", f"{device.name}, {device.total_memory / 1e9:.0f} GB")]
    return [*lines, ("device", f"{fabric.device}: no GPU was found")]


def tried(settings: Settings, fabric: AnyFabric, shape: tuple[int, ...]) -> list[Trial]:
    """Each stage of a training, tried on random images of this shape."""
    size, generator = (min(IMAGES, shape[0]), *shape[1:]), torch.Generator().manual_seed(0)
    x = 2 * torch.rand(size, generator=generator) - 1
    setup, state = begin(x, settings, fabric)
    trials = [_trial(setup, state)]
    if following := density_stage(settings, 0):
        trials.append(_trial(setup, state.enter(setup, following)))
    return trials


def _trial(setup: Setup, state: TrainState) -> Trial:
    """A few iterations at the beginning of a stage."""
    model, sampler = state.model, state.method.sampler
    seen: list[tuple[int, bool]] = []  # images of each pass; whether weights learn from it

    def count(module: torch.nn.Module, inputs: tuple[torch.Tensor]) -> None:
        seen.append((inputs[0].shape[:2].numel(), next(module.parameters()).requires_grad))

    def iterate() -> None:
        state.iteration += 1
        terms = step(setup, state)
        float(sum(term.sum() for term in terms.values()))  # waits for the device

    hook = model.encoder.register_forward_pre_hook(count)
    iterate()
    hook.remove()
    begun = time.perf_counter()
    for _ in range(TIMED):
        iterate()
    seconds = (time.perf_counter() - begun) / TIMED
    images = sum(n * (3 if learns else 2) for n, learns in seen)
    chains = None if sampler is None else sampler.positions
    return Trial(
        state.stage.length,
        images / setup.settings.optimizer.batch_size,
        seconds,
        sum(parameter.numel() for parameter in model.parameters()),
        0 if chains is None else chains.numel() * chains.element_size(),
    )
