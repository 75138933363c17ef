"""What the config of a run says: its settings, and where its data came from."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, PositiveInt, model_validator

from gedilearn import __version__
from gedilearn.errors import InputError
from gedilearn.files import RESTORE, read_yaml, reading
from gedilearn.settings import Settings, resolve
from gedilearn.training.run_directory import FORMAT, RunDirectory


class Described(BaseModel):
    """The data of a run; a program that fits an array has nothing to say of its source."""

    model_config = ConfigDict(frozen=True, extra="allow")

    source: str | None = None  # a path, or the name of a set
    label_column: str | None = None
    columns: list[str] | None = None
    table: list[str] | None = None  # all columns of one that is encoded, see data.columns
    separator: str | None = None  # of a text, and its decimal mark, where they were asked for
    decimal: str | None = None
    size: tuple[PositiveInt, PositiveInt] | None = None  # height and width that images were given
    broken: Literal["refuse", "skip"] = "refuse"
    shape: Annotated[tuple[PositiveInt, ...], Field(min_length=2)]
    fingerprint: str

    @model_validator(mode="after")
    def _consistent(self) -> Described:
        names = self.columns
        if names is not None and (len(names) != self.shape[1] or len(set(names)) != len(names)):
            raise ValueError(
                f"{len(names)} columns for data of shape {self.shape}, or doubled ones"
            )
        return self


class Config(BaseModel):
    """What `config.yaml` holds."""

    model_config = ConfigDict(frozen=True)

    format: int
    version: str
    settings: dict[str, Any]
    objects: list[str]  # arguments of the fit that no file can hold
    data: Described


def read_config(path: str | Path) -> Config:
    """The config of an existing run directory, or one line that says why it is none."""
    path, file = Path(path), RunDirectory(path).config
    if not path.is_dir():
        raise InputError(f"{path} is not a run directory: no such folder")
    if not file.exists():
        raise InputError(f"{path} is not a run directory: it has no {file.name}")
    content = read_yaml(file)
    with reading(file, RESTORE):
        form, version = int(content["format"]), str(content.get("version", "unknown"))
        if form != FORMAT:
            raise InputError(
                f"{path} was written in format {form} by version {version[:20]}; version "
                f"{__version__} reads format {FORMAT}"
            )
        return Config.model_validate(content)


def settings_of(run: str | Path, config: Config, shape: tuple[int, ...]) -> Settings:
    """The settings of a run, for its data of this shape."""
    return settings_in_file(RunDirectory(run).config, config.settings, shape)


def settings_in_file(file: Path, values: dict[str, Any], shape: tuple[int, ...]) -> Settings:
    """The settings that a file holds, for data of this shape."""
    with reading(file, RESTORE, ours=True):
        return resolve(values, shape)
