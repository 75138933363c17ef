"""Whether what a checkpoint holds can be a state of this training, before it is made one.

Names and shapes of the network are torch's to check. Here is what would be noticed only later, far
from the file: plain values out of their range, and tensors of another training.
"""

from __future__ import annotations

from typing import Any, Literal

import torch
from pydantic import BaseModel, ConfigDict, Field, FiniteFloat, NonNegativeInt
from torch import Tensor, nn
from torch.optim import Optimizer

from gedilearn.files import RESTORE, forms, reading
from gedilearn.models.build import build_model
from gedilearn.models.energy import EnergyModel
from gedilearn.settings import Settings
from gedilearn.training.checkpoint import SHARED, latest, open_tensors
from gedilearn.training.run_directory import RunDirectory
from gedilearn.training.setup import Setup, density_stage, first_stage

# What Adam remembers of each entry of a parameter.
MOMENTS = ("exp_avg", "exp_avg_sq")


class _Plain(BaseModel):
    model_config = ConfigDict(strict=True, arbitrary_types_allowed=True)


class _Kept(_Plain):
    member: NonNegativeInt
    state: dict[str, Tensor]
    gap: float
    settled: bool
    target: Tensor | None
    fallen_to: float
    fallen_at: NonNegativeInt
    diverged_at: NonNegativeInt | None
    trouble: str | None
    diverges: bool


class _Shared(_Plain):
    """What `TrainState.save` gives for all ranks, and `Journal.save` adds."""

    stage: Literal["clusters", "density"]
    stage_begin: NonNegativeInt
    results: list[NonNegativeInt] = Field(min_length=1)
    model: dict[str, Tensor]
    optimizer: dict[str, Any]
    prior: Tensor | None
    method: dict[str, Any]
    kept: list[_Kept]
    iteration: NonNegativeInt
    recoveries: NonNegativeInt
    reported: list[str]
    stopped: Literal["certified", "budget", "diverged"] | None
    trouble: str | None
    seconds: FiniteFloat = Field(ge=0)


class _Batches(_Plain):
    order: Tensor
    generator: Tensor


class _Own(_Plain):
    """What it gives for one rank."""

    rng: Tensor
    batches: _Batches
    buffer: Tensor | None = None
    ages: Tensor | None = None


def check_saved(setup: Setup, shared: Any, own: Any) -> None:
    """Refuse, by a `ValueError`, what no training with this setup can have saved."""
    settings, found = setup.settings, _Shared.model_validate(shared)
    stage = first_stage(settings)
    if found.stage == "density":
        following = density_stage(settings, found.stage_begin)
        _demand(following is not None, "stage", "there is no density to learn")
        assert following is not None
        stage = following
    at, known = found.iteration, range(setup.n_results)
    _demand(found.stage_begin <= settings.training.max_iter, "stage_begin", found.stage_begin)
    _demand(stage.begin <= at <= stage.end, "iteration", at)
    _demand(found.recoveries <= settings.training.max_recoveries, "recoveries", found.recoveries)
    _demand(
        found.results == [k for k in known if k in set(found.results)], "results", found.results
    )
    _demand(len(found.kept) == setup.n_results, "kept", f"{len(found.kept)} results")
    _check_kept(setup, found)
    order, n = _Own.model_validate(own).batches.order, setup.data.shape[1]
    _demand(order.dtype == torch.long and order.dim() == 1, "order", f"{order.dtype}")
    _demand(bool(((order >= 0) & (order < n)).all()), "order", f"not all below {n}")


def _check_kept(setup: Setup, found: _Shared) -> None:
    with torch.device("meta"):
        network = setup.network(1, None).to(setup.data.dtype)
    expected, clusters = forms(network.state_dict()), setup.settings.n_clusters
    for one in found.kept:
        members = setup.settings.training.n_init * setup.n_results
        _demand(one.member < members, "kept.member", one.member)
        _demand(forms(one.state) == expected, "kept.state", "another network")
        _demand(has_shape(one.target, (clusters,)), "kept.target", "another number of clusters")


def check_loaded(model: EnergyModel, optimizer: Optimizer, prior: Tensor | None, c: int) -> None:
    """Refuse, by a `ValueError`, what an optimiser or a prior takes from any file."""
    parameters = list(model.parameters())
    _demand(len(optimizer.state) in (0, len(parameters)), "optimizer", "another network")
    for parameter in parameters if optimizer.state else []:
        shape = tuple(parameter.shape)
        expected = {"step": ()} | dict.fromkeys(MOMENTS, shape)
        found = optimizer.state[parameter]
        sound = found.keys() == expected.keys()
        sound = sound and all(has_shape(found[name], expected[name]) for name in expected)
        _demand(sound, "optimizer", "another network")
    _demand(has_shape(prior, (model.n_members, c)), "prior", "another number of clusters")


def has_shape(tensor: Tensor | None, shape: tuple[int, ...]) -> bool:
    """Whether there is no tensor, or one of this shape with finite or infinite numbers."""
    return tensor is None or (tuple(tensor.shape) == shape and tensor.is_floating_point())


def check_checkpoint(
    run: RunDirectory, settings: Settings, points: tuple[int, ...], encoder: nn.Module | None
) -> None:
    """Hold the network of the settings against the newest checkpoint, before it is built.

    Layers of several members have them as their first axis.
    """
    folder = latest(run.checkpoints)
    if folder is None:
        return
    file, network = open_tensors(folder, SHARED), settings.network
    with reading(folder, RESTORE):
        if len(network.hidden) + len(network.head) > len(file.forms):
            raise ValueError("it has fewer tensors than the settings layers")
        with torch.device("meta"):
            expected = forms(build_model(settings, points, 1, encoder, generator=None).state_dict())
        for name, (_, shape) in expected.items():
            found = file.forms.get(f"/model/{name}")
            if found is None or found[1][1:] != shape[1:]:
                raise ValueError(f"the network of the settings has {name} {shape}, not {found}")


def _demand(holds: bool, name: str, value: object) -> None:
    if not holds:
        raise ValueError(f"{name}: {value} is not of this training")
