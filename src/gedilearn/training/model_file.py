"""The file of a fitted model: safetensors whose header holds all that is no tensor.

It may come from anywhere. Its header is held against a stated shape, and its tensors against the
network that the header describes, before that network is built and before a tensor is read.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Literal

import torch
from pydantic import BaseModel, ConfigDict, Field, FiniteFloat, NonNegativeInt, PositiveInt
from torch import Tensor, nn

from gedilearn import __version__
from gedilearn.density.density import LEVELS, Density, Sizes
from gedilearn.density.findings import Findings
from gedilearn.errors import InputError
from gedilearn.files import RESTORE, Form, TensorFile, forms, reading
from gedilearn.models.build import build_model
from gedilearn.settings import Settings
from gedilearn.training.config import settings_in_file
from gedilearn.training.monitor import Diagnosis
from gedilearn.writing import write_tensors

FORMAT = 1
KEY = "gedi-learn"
MODEL = "model."  # prefix of the network's tensors
DENSITY = "density."  # prefix of those of a density on a base
USED = f"{DENSITY}coordinates.used"  # the columns or pixels that it is of


class Summary(BaseModel):
    """How a training ended; files hold more of it, which is there for people."""

    model_config = ConfigDict(frozen=True)

    cluster_sizes: list[NonNegativeInt]
    gap: float
    certified: bool
    verdict: str
    stopped: Literal["certified", "budget", "diverged"]
    recoveries: NonNegativeInt
    iterations: NonNegativeInt
    seconds: FiniteFloat
    temperature: float = Field(1.0, ge=1, le=1e6)
    diagnosis: Diagnosis
    density: Findings | None = None


class Header(BaseModel):
    """What the header of a model file holds."""

    model_config = ConfigDict(frozen=True)

    format: int
    version: str
    settings: dict[str, Any]
    objects: list[str]  # arguments of the fit that no file can hold
    scaling: str
    columns: str | None = None  # how those of a table are encoded
    n_features_in: PositiveInt
    feature_names_in: list[str]
    summary: Summary


def save_model(path: Path, tensors: dict[str, Tensor], header: dict[str, Any]) -> None:
    """Write the file whole or not at all."""
    described = json.dumps({"format": FORMAT, "version": __version__} | header)
    write_tensors(path, tensors, {KEY: described})


def open_model(path: Path) -> tuple[TensorFile, Header]:
    """The header, and the tensors still unread, or one line that says what is wrong."""
    if not path.exists():
        raise InputError(f"{path}: no such file; a model is written by GEDI.save or gedi fit")
    if path.is_dir():
        raise InputError(f"{path} is a folder; give the model file in it, e.g. model.safetensors")
    file = TensorFile.open(path)
    if KEY not in file.metadata:
        raise InputError(f"{path} is a safetensors file, but not a model of gedi-learn")
    with reading(path, RESTORE):
        header = json.loads(file.metadata[KEY])
        form, version = int(header["format"]), str(header.get("version", "unknown"))
        if form != FORMAT:
            raise InputError(
                f"{path} has format {form}, written by version {version[:20]}; version "
                f"{__version__} reads format {FORMAT}"
            )
        return file, Header.model_validate(header)


def settings_in(file: TensorFile, header: Header) -> Settings:
    """The settings of the model, for points of its shape."""
    with reading(file.path, RESTORE):
        shape = (*file.forms["labels"][1], *file.forms["box.low"][1])
    return settings_in_file(file.path, header.settings, shape)


def read_tensors(
    file: TensorFile, settings: Settings, encoder: nn.Module | None
) -> dict[str, Tensor]:
    """The tensors, if they are those of the network that the settings describe, and finite."""
    remedy = RESTORE if encoder is None else "restore it, or give the encoder of the fit"
    with reading(file.path, remedy, ours=True):
        file.check(_expected(file, settings, encoder))
    with reading(file.path, remedy):
        tensors = file.read()
        for name, tensor in tensors.items():
            if not tensor.isfinite().all():
                raise InputError(
                    f"{file.path}: {name} is not finite: training diverged, or the file is "
                    "damaged; fit anew"
                )
        counted = {"labels": settings.n_clusters, USED: tensors["box.low"].numel()}
        for name, most in counted.items():
            if name in tensors and not ((tensors[name] >= 0) & (tensors[name] < most)).all():
                raise ValueError(f"{name} is not from 0 to {most - 1}")
        if (tensors["box.low"] > tensors["box.high"]).any():
            raise ValueError("box.low above box.high")
    return tensors


def read_density(tensors: dict[str, Tensor]) -> Density | None:
    """The density on a base, if the file has one."""
    own = {k.removeprefix(DENSITY): t for k, t in tensors.items() if k.startswith(DENSITY)}
    if not own:
        return None
    point = tuple(tensors["box.low"].shape)
    density = Density(Sizes.of(point, {name: tuple(t.shape) for name, t in own.items()}))
    density.load_state_dict(own)
    return density.eval()


def _expected(file: TensorFile, settings: Settings, encoder: nn.Module | None) -> dict[str, Form]:
    """The forms of all tensors of a model with these settings; nothing large is built."""
    kind, points = file.forms["box.low"]
    (n_labels,) = file.forms["labels"][1]
    if kind not in ("F32", "F64"):
        raise ValueError(f"tensor box.low is {kind}")
    if len(settings.network.hidden) + len(settings.network.head) > len(file.forms):
        raise ValueError("it has fewer tensors than layers")
    with torch.device("meta"):
        network = build_model(settings, points, 1, encoder, generator=None)
    network.to(torch.float32 if kind == "F32" else torch.float64)
    expected = {f"{MODEL}{name}": form for name, form in forms(network.state_dict()).items()}
    shapes = {
        name.removeprefix(DENSITY): shape
        for name, (_, shape) in file.forms.items()
        if name.startswith(DENSITY)
    }
    if shapes:
        with torch.device("meta"):
            density = Density(Sizes.of(points, shapes))
        expected |= {f"{DENSITY}{name}": form for name, form in forms(density.state_dict()).items()}
    optional = {"trust": ("F64", (n_labels, 2)), "levels": ("F64", (LEVELS,))}
    expected |= {name: form for name, form in optional.items() if name in file.forms}
    return expected | {
        "box.low": (kind, points),
        "box.high": (kind, points),
        "prior": ("F64", (settings.n_clusters,)),
        "labels": ("I64", (n_labels,)),
    }
