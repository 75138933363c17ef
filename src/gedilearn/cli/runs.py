"""Where runs and their data are: free run directories, and what a config says of its data."""

from __future__ import annotations

import os
import shlex
from pathlib import Path
from typing import Any

from gedilearn.data.dataset import Dataset
from gedilearn.data.files import is_name, load
from gedilearn.errors import InputError
from gedilearn.estimator import GEDI
from gedilearn.settings import Settings
from gedilearn.training.rundir import read_config

MODEL, SUMMARY, LABELS = "model.safetensors", "summary.json", "labels.csv"


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


def load_source(run: Path, config: dict[str, Any], data: str | None, remedy: str) -> Dataset:
    """The data that a run was fitted to, at its old place or at `data`."""
    described = data_section(config)
    source = data or described.get("source")
    if source is None:
        raise InputError(f"{run} does not name its data: {remedy}")
    if data is None and not is_name(source) and not Path(source).exists():
        raise InputError(f"the data of {run} is no longer at {source}: {remedy}")
    return load(
        source, label_column=described.get("label_column"), columns=described.get("columns")
    )


def data_section(config: dict[str, Any]) -> dict[str, Any]:
    section = config.get("data")
    return section if isinstance(section, dict) else {}


def quoted(path: Path) -> str:
    return shlex.quote(str(path))
