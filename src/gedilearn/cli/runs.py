"""Where runs and their data are: free run directories, and what a config says of its data."""

from __future__ import annotations

import os
import shlex
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gedilearn.data.dataset import Dataset
from gedilearn.data.image_folder import Broken, SkippedImages
from gedilearn.data.load import is_folder, is_name, load
from gedilearn.errors import InputError
from gedilearn.estimator import GEDI
from gedilearn.output import Screen
from gedilearn.settings import Settings
from gedilearn.training.run_directory import read_config

MODEL, SUMMARY, LABELS = "model.safetensors", "summary.json", "labels.csv"


@dataclass(frozen=True)
class Pictures:
    """How a folder of images is read: `size` (height, width) of all, and what of broken files."""

    size: tuple[int, int] | None = None
    broken: Broken = "refuse"

    @classmethod
    def asked(cls, size: str | None, skip_broken: bool) -> Pictures:
        """From the options --size WIDTHxHEIGHT, or one number for both, and --skip-broken."""
        sides = None
        if size is not None:
            width, _, height = size.lower().partition("x")
            if not (width.isdecimal() and (height or width).isdecimal()) or size[-1] in "xX":
                raise InputError(f"--size {size}: give width and height in pixels, as 32x32 or 32")
            sides = (int(height or width), int(width))
        return cls(sides, "skip" if skip_broken else "refuse")

    @classmethod
    def of_run(cls, config: dict[str, Any]) -> Pictures:
        """As the data of a run was read."""
        described = data_section(config)
        size = described.get("size")
        broken: Broken = "skip" if described.get("broken") == "skip" else "refuse"
        return cls(tuple(size) if isinstance(size, list) else None, broken)

    def described(self) -> dict[str, Any]:
        """For the data section of a config, where `of_run` finds it."""
        return {"size": None if self.size is None else list(self.size), "broken": self.broken}


def read(data: str, pictures: Pictures, screen: Screen, **table: Any) -> Dataset:
    """`load`, and one line on stderr that names the images left out."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("ignore")
        warnings.simplefilter("always", SkippedImages)
        dataset = load(data, size=pictures.size, broken=pictures.broken, **table)
    for warning in caught:
        screen.message(" ".join(str(warning.message).split()))
    return dataset


def open_with_data(
    run: Path, data: str | None, pictures: Pictures, screen: Screen
) -> tuple[GEDI, Dataset]:
    """The model of a run directory or of a file, and new data for it, or the data of the fit.

    Columns are those of the fit, found by their names. Images of a folder are resized as they were
    for the fit, unless `pictures` says otherwise.
    """
    model, columns = open_model(run)
    if data is None:
        if not run.is_dir():
            raise InputError(f"{run} is a model file, which does not name its data: give DATA")
        if pictures != Pictures():
            raise InputError("--size and --skip-broken are for DATA: give it, or leave them out")
        return model, load_source(run, read_config(run), None, "give DATA", screen)
    if pictures.size is None and run.is_dir() and is_folder(data):
        pictures = Pictures(Pictures.of_run(read_config(run)).size, pictures.broken)
    dataset = read(data, pictures, screen, columns=columns)
    fitted, given = tuple(model.box_.low.shape), dataset.x.shape[1:]
    if is_folder(data) and len(fitted) == 3 and fitted[1:] != given[1:]:
        sides = f"{fitted[2]}x{fitted[1]}"
        raise InputError(
            f"{data}: images of {given[2]}x{given[1]} pixels, but {run} was fitted to {sides}; "
            f"give --size {sides}"
        )
    return model, dataset


def open_model(run: Path) -> tuple[GEDI, list[str] | None]:
    """The model of a run directory or of a file, and the names of its columns if known."""
    columns = None
    file = run
    if run.is_dir():
        columns = data_section(read_config(run)).get("columns")
        file = run / MODEL
        if not file.exists():
            raise InputError(f"{run} is not finished: gedi resume {quoted(run)}")
    model = GEDI.load(file)
    if columns is None and hasattr(model, "feature_names_in_"):
        columns = model.feature_names_in_.tolist()
    return model, columns


def free_run(name: str, settings: Settings) -> Path:
    """The next free run directory; several processes could not agree on one."""
    if settings.device.devices != 1 or settings.device.num_nodes != 1 or "RANK" in os.environ:
        raise InputError("several processes train together: name their folder with --out RUN")
    return next_free(name)


def next_free(name: str) -> Path:
    root, number = Path("gedi-runs"), 1
    while (root / f"{name or 'run'}-{number}").exists():
        number += 1
    return root / f"{name or 'run'}-{number}"


def lasting(data: str) -> str:
    """What finds the data again from another folder."""
    return data if is_name(data) else str(Path(data).expanduser().absolute())


def column_names(dataset: Dataset) -> list[str] | None:
    """The columns' names, if each names one column."""
    names = dataset.columns
    return list(names) if names is not None and len(set(names)) == len(names) else None


def load_source(
    run: Path, config: dict[str, Any], data: str | None, remedy: str, screen: Screen | None = None
) -> Dataset:
    """The data that a run was fitted to, at its old place or at `data`."""
    described = data_section(config)
    source = data or described.get("source")
    if source is None:
        raise InputError(f"{run} does not name its data: {remedy}")
    if data is None and not is_name(source) and not Path(source).exists():
        raise InputError(f"the data of {run} is no longer at {source}: {remedy}")
    return read(
        source,
        Pictures.of_run(config) if is_folder(source) else Pictures(),
        screen or Screen(),
        label_column=described.get("label_column"),
        columns=described.get("columns"),
    )


def data_section(config: dict[str, Any]) -> dict[str, Any]:
    section = config.get("data")
    return section if isinstance(section, dict) else {}


def quoted(path: Path) -> str:
    return shlex.quote(str(path))
