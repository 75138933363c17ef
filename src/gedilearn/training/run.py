"""The run directory: the contract between training and everything after it.

    config.yaml          the settings, the data's source and fingerprint, the version
    metrics.jsonl        one JSON object a line: the terms and the bound gap of each member
    events.jsonl         warnings, findings of the triad monitor, the verdict
    checkpoint/          everything a resume needs
    model.safetensors    the result, once there is one
    profile.json         what defines each cluster: columns that differ, rows to look at
    preview.safetensors  some of the points with their clusters and scores, for figures
    summary.json         the result in numbers and words; the last file that a fit writes
    labels.csv           the cluster of each row with its ID columns, written by `gedi fit`
    figures/, report.html               written by `gedi report`
    evaluation/                         written by `gedi evaluate`
    .lock                held by the process that trains

All file names are defined here. Other programs can read the files without this library. Lines are
appended and flushed one by one. A resume drops damaged lines and lines later than the checkpoint.

Models are safetensors and JSON. Nothing is pickled: a file from elsewhere cannot run code. The
content of a file is validated before it is used.
"""

from __future__ import annotations

import json
import shlex
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Annotated, Any, Literal

import torch
import yaml
from filelock import FileLock, Timeout
from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    FiniteFloat,
    NonNegativeInt,
    PositiveInt,
)
from torch import Tensor, nn

from gedilearn import __version__
from gedilearn.data.rules import Rules
from gedilearn.density.density import LEVELS, Density
from gedilearn.density.fit import Findings
from gedilearn.errors import InputError
from gedilearn.io import (
    RESTORE,
    is_first_process,
    json_text,
    read_json_lines,
    read_tensors,
    read_yaml,
    reading,
    remove_leftovers,
    write_json,
    write_tensors,
    write_text,
)
from gedilearn.models.build import build_model
from gedilearn.models.energy import EnergyModel
from gedilearn.settings import Settings, resolve
from gedilearn.verdict.monitor import Diagnosis
from gedilearn.verdict.number import NumberChoice, of_vectors
from gedilearn.verdict.verdict import Verdict

RUN_FORMAT = 1


class RunDirectory:
    """The paths of a run directory, and how a fit writes to them."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.config = self.path / "config.yaml"
        self.metrics = self.path / "metrics.jsonl"
        self.events = self.path / "events.jsonl"
        self.checkpoints = self.path / "checkpoint"
        self.model = self.path / "model.safetensors"
        self.preview = self.path / "preview.safetensors"
        self.profile = self.path / "profile.json"
        self.summary = self.path / "summary.json"
        self.labels = self.path / "labels.csv"
        self.figures = self.path / "figures"
        self.report = self.path / "report.html"
        self.evaluation = self.path / "evaluation"
        self.lock = self.path / ".lock"

    @classmethod
    @contextmanager
    def create(cls, path: str | Path, config: dict[str, Any]) -> Iterator[RunDirectory]:
        """A new run directory, locked; a folder that is not empty is refused.

        A fit that is refused before its first checkpoint leaves nothing behind.
        """
        run, head = cls(path), {"format": RUN_FORMAT, "version": __version__}
        if not is_first_process():
            yield run
            return
        # Its own folder first, then those around it.
        made = [folder for folder in (run.path, *run.path.parents) if not folder.exists()]
        run.refuse_used()
        run.path.mkdir(parents=True, exist_ok=True)
        with run.held():
            run.refuse_used()  # another process may have come before
            write_text(run.config, yaml.safe_dump(head | config, sort_keys=False))
            try:
                yield run
            except (ValueError, TypeError):  # also of views or an encoder of the user's own
                if not run.checkpoints.exists():
                    for file in (run.config, run.metrics, run.events, run.lock):
                        file.unlink(missing_ok=True)
                    with suppress(OSError):  # the user may have put something there
                        for folder in made:
                            folder.rmdir()
                raise

    @contextmanager
    def held(self) -> Iterator[None]:
        """Keep other processes from training here; the lock ends with the process.

        The first of several ranks holds it for all.
        """
        if not is_first_process():
            yield
            return
        try:
            with FileLock(self.lock, timeout=0):
                steps = self.checkpoints.glob("step-*")
                remove_leftovers(self.path, self.checkpoints, *steps)
                yield
        except Timeout:
            raise InputError(
                f"{self.path} is in use by another process: wait until that has ended, or choose "
                "another folder"
            ) from None

    def refuse_used(self) -> None:
        """Refuse a file, and a folder with files that are not hidden."""
        if self.path.is_dir():
            used = any(not entry.name.startswith(".") for entry in self.path.iterdir())
        else:
            used = self.path.exists() or self.path.is_symlink()
        if used:
            raise InputError(
                f"{self.path} exists already: choose another folder, or resume the fit in it"
            )

    def add_metrics(self, row: dict[str, Any]) -> None:
        """Append a line to the metrics."""
        _append(self.metrics, row)

    def add_event(self, kind: str, message: str, **details: Any) -> None:
        """Append a line to the events."""
        stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        _append(self.events, {"time": stamp, "kind": kind, "message": message} | details)

    def write_summary(self, content: dict[str, Any]) -> None:
        """Write the result of the fit."""
        write_json(self.summary, content)

    def rewind(self, iteration: int) -> None:
        """Drop lines after `iteration` and damaged lines of the metrics and events."""
        read = {path: read_json_lines(path) for path in (self.metrics, self.events)}
        for path, rows in read.items():
            kept = [row for row in rows if _is_until(row, iteration)]
            write_text(path, "".join(json.dumps(row) + "\n" for row in kept))


def _append(path: Path, row: dict[str, Any]) -> None:
    with open(path, "a", encoding="utf-8") as file:
        file.write(json_text(row) + "\n")


def _is_until(row: dict[str, Any], iteration: int) -> bool:
    """Whether a row was logged no later; rows from before training have no iteration."""
    at = row.get("iteration", 0)
    return isinstance(at, int | float) and at <= iteration


# --- config ---------------------------------------------------------------------------------------
#
# The settings of a run, and the source of its data.


class DataSource(BaseModel):
    """The data of a run; an array from a program has no source."""

    model_config = ConfigDict(frozen=True, extra="allow")

    source: str | None = None  # a path, or the name of a set
    label_column: str | None = None
    class_column: str | None = None  # of labels that were learnt or graded
    labels: str | None = None  # the fingerprint of these
    columns: list[str] | None = None
    table: list[str] | None = None  # all columns of one that is encoded, see data.columns
    separator: str | None = None  # of a text, and its decimal mark, if they were given
    decimal: str | None = None
    size: tuple[PositiveInt, PositiveInt] | None = None  # height and width of resized images
    broken: Literal["refuse", "skip"] = "refuse"
    # The level at which outliers are marked in the file of labels.
    outliers: Annotated[float, Field(gt=0, lt=1)] | None = None
    shape: Annotated[tuple[PositiveInt, ...], Field(min_length=2)]
    fingerprint: str


class Fit(BaseModel):
    """The content that config and model file share."""

    model_config = ConfigDict(frozen=True)

    format: int
    version: str
    settings: dict[str, Any]
    objects: list[str]  # arguments of the fit that no file can hold


class Config(Fit):
    """The content of `config.yaml`."""

    data: DataSource
    choice: Annotated[NumberChoice, AfterValidator(of_vectors)] | None = None

    @property
    def graded(self) -> bool:
        """Whether the run grades labels."""
        return "labels" in self.objects

    def command(self, source: str | None) -> str | None:
        """The shell command of a fit of the same data, named `source`, and the same labels."""
        if source is None:
            return None
        options = {"--label-column": self.data.label_column}
        options["--drop" if self.graded else "--class-column"] = self.data.class_column
        names = [f"{option}={name}" for option, name in options.items() if name]
        return shlex.join(["gedi", "fit", source, *names])

    @property
    def labelled(self) -> bool:
        """Whether the run learns labels."""
        return self.graded or "classes" in self.objects


def read_config(path: str | Path) -> Config:
    """The config of an existing run directory, or one line that says what is missing."""
    path, file = Path(path), RunDirectory(path).config
    if not path.is_dir():
        raise InputError(f"{path} is not a run directory: no such folder")
    if not file.exists():
        raise InputError(f"{path} is not a run directory: it has no {file.name}")
    content = read_yaml(file)
    with reading(file, RESTORE):
        check_format(path, content, RUN_FORMAT)
        return Config.model_validate(content)


def check_format(path: Path, content: dict[str, Any], known: int) -> None:
    """Refuse content in a format other than `known`."""
    found, version = int(content["format"]), str(content.get("version", "unknown"))
    if found != known:
        raise InputError(
            f"{path} has format {found}, written by version {version[:20]} of gedi-learn: use that "
            f"one; version {__version__} reads format {known}"
        )


def settings_of(run: str | Path, config: Config, shape: tuple[int, ...]) -> Settings:
    """The settings of a run, for its data of this shape."""
    return settings_in_file(RunDirectory(run).config, config.settings, shape)


def settings_in_file(file: Path, values: dict[str, Any], shape: tuple[int, ...]) -> Settings:
    """The settings that a file holds, for data of this shape."""
    with reading(file, RESTORE, ours=True):
        return resolve(values, shape)


# --- model file -----------------------------------------------------------------------------------
#
# A fitted model is a safetensors file. Its header holds everything that is not a tensor.
#
# The file may come from anywhere. Its header is validated, and its tensors are compared with the
# network of the settings, before any memory is taken for that network.


MODEL_FORMAT = 2
KEY = "gedi-learn"
MODEL = "model."  # prefix of the network's tensors
DENSITY = "density."  # prefix of the tensors of a density on a base
DIRECTIONS = "scaling.directions"  # of embeddings
USED = f"{DENSITY}coordinates.used"  # the numbers of its columns or pixels


class Summary(BaseModel):
    """The part of a summary that a model needs; files hold more for people."""

    model_config = ConfigDict(frozen=True)

    cluster_sizes: list[NonNegativeInt]
    bound_gap: float
    certified: bool
    verdict: Verdict
    stopped: Literal["certified", "budget", "diverged"]
    recoveries: NonNegativeInt
    iterations: NonNegativeInt
    seconds: FiniteFloat
    temperature: float = Field(1.0, ge=1, le=1e6)
    diagnosis: Diagnosis
    density: Findings | None = None
    clusters: list[dict[str, float | str | list[int] | None]] = []
    choice: Annotated[NumberChoice, AfterValidator(of_vectors)] | None = None
    classes: list[str] = []  # names of known classes, which the first clusters have
    disputed: tuple[int, int] | None = None  # given labels that the network disputes; all of them


class Header(Fit):
    """The header of a model file."""

    scaling: str
    columns: str | None = None  # how the columns of a table are encoded
    rules: Rules | None = None  # what all training rows keep
    feature_names_in: list[str]
    summary: Summary


def save_model(path: Path, tensors: dict[str, Tensor], header: dict[str, Any]) -> None:
    """Write a model file, whole or not at all."""
    described = json.dumps({"format": MODEL_FORMAT, "version": __version__} | header)
    write_tensors(path, tensors, {KEY: described})


def open_model(path: Path) -> tuple[dict[str, Tensor], Header]:
    """The tensors, not yet checked, and the header of a model file."""
    if not path.exists():
        raise InputError(f"{path}: no such file: give a model file, e.g. model.safetensors")
    if path.is_dir():
        raise InputError(f"{path} is a folder; give the model file in it, e.g. model.safetensors")
    tensors, metadata = read_tensors(path)
    if KEY not in metadata:
        raise InputError(f"{path} is a safetensors file, but not a model of gedi-learn")
    with reading(path, RESTORE):
        header = json.loads(metadata[KEY])
        check_format(path, header, MODEL_FORMAT)
        return tensors, Header.model_validate(header)


def read_network(
    path: Path, tensors: dict[str, Tensor], settings: Settings, encoder: nn.Module | None
) -> EnergyModel:
    """The network of a model file.

    Tensors that do not fit the settings, or are not finite, are refused. A header that claims large
    layers takes no memory.
    """
    remedy = RESTORE if encoder is None else "restore it, or give the encoder of the fit"
    with reading(path, remedy, ours=True):
        network = _load(tensors, settings, encoder)
    with reading(path, remedy):
        for name, tensor in tensors.items():
            if not tensor.isfinite().all():
                raise InputError(
                    f"{path}: {name} is not finite: training diverged, or the file is damaged; fit "
                    "anew"
                )
        low, high, n = tensors["box.low"], tensors["box.high"], len(tensors["labels"])
        forms = {"prior": (settings.n_clusters,), "trust": (n, 2), "levels": (LEVELS,)}
        for name in forms.keys() & tensors.keys():
            if (tensors[name].dtype, tensors[name].shape) != (torch.float64, forms[name]):
                raise ValueError(f"{name} has another type or shape")
        limits = {"labels": settings.n_clusters, "disputed": n, USED: low.numel()}
        for name in limits.keys() & tensors.keys():
            numbers = tensors[name]
            inside = ((numbers >= 0) & (numbers < limits[name])).all()
            if (numbers.dtype, numbers.dim()) != (torch.int64, 1) or not inside:
                raise ValueError(f"{name} is not from 0 to {limits[name] - 1}")
        if (low.dtype, low.shape) != (high.dtype, high.shape) or (low > high).any():
            raise ValueError("box.low does not match box.high")
        if (density := read_density(tensors)) is not None:  # fails if its parts do not match
            y = density.coordinates(density.coordinates.values_of(low[None]))[0]
            density.tilted(y, lambda x: x.flatten(1).sum(1), 0.5)
            density.q.log_density(y)
            if density.subsamples is not None:
                scores, _ = density.subsamples.measured(density.coordinates.leading(low[None]))
                density.subsamples.pvalues(scores)
    return network.eval()


def _load(tensors: dict[str, Tensor], settings: Settings, encoder: nn.Module | None) -> EnergyModel:
    """The network of the settings, with its tensors."""
    low = tensors["box.low"]
    if low.dtype not in (torch.float32, torch.float64):
        raise ValueError(f"box.low is {low.dtype}")
    if len(settings.network.hidden) + len(settings.network.head) > len(tensors):
        raise ValueError("it has fewer tensors than layers")
    with torch.device("meta"):  # shapes without values
        network = build_model(settings, tuple(low.shape), 1, encoder, generator=None).to(low.dtype)
    forms = network.state_dict()
    own = {k.removeprefix(MODEL): t for k, t in tensors.items() if k.startswith(MODEL)}
    network.load_state_dict(own, assign=True)  # checks names and shapes
    # The layout in memory is that of the fit: others give other bits.
    own = {k: torch.empty_like(form, device="cpu").copy_(own[k]) for k, form in forms.items()}
    network.load_state_dict(own, assign=True)
    return network


def read_density(tensors: dict[str, Tensor]) -> Density | None:
    """The density on a base, if the file has one."""
    own = {k.removeprefix(DENSITY): t for k, t in tensors.items() if k.startswith(DENSITY)}
    return Density.read(own).eval() if own else None
