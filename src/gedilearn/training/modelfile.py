"""A fitted model in one file: safetensors whose header carries the rest as JSON."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from torch import Tensor

from gedilearn import __version__
from gedilearn.errors import InputError
from gedilearn.writing import write_tensors

FORMAT = 1
KEY = "gedi-learn"


def save_model(path: Path, tensors: dict[str, Tensor], header: dict[str, Any]) -> None:
    """Write the file whole or not at all."""
    described = json.dumps({"format": FORMAT, "version": __version__} | header)
    write_tensors(path, tensors, {KEY: described})


def load_model(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """The tensors and the header, or one line that says what is wrong with the file."""
    if not path.exists():
        raise InputError(f"{path}: no such file; a model is written by GEDI.save or gedi fit")
    if path.is_dir():
        raise InputError(f"{path} is a folder; give the model file in it, e.g. model.safetensors")
    try:
        with safe_open(path, "pt") as file:
            text = (file.metadata() or {}).get(KEY)
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, OSError) as error:
        raise InputError(f"{path} is not a readable safetensors file ({error})") from None
    if text is None:
        raise InputError(f"{path} is a safetensors file, but not a model of gedi-learn")
    try:
        header = json.loads(text)
    except ValueError:
        header = None
    if not isinstance(header, dict):
        raise InputError(f"{path} is damaged: its header is no JSON object")
    if header.get("format") != FORMAT:
        raise InputError(
            f"{path} has format {header.get('format')}, written by version "
            f"{header.get('version')}; version {__version__} reads format {FORMAT}"
        )
    return tensors, header
