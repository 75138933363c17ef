"""What a run directory says, for figures and pages.

It may come from anywhere, so nothing in it is trusted: damage ends in one line that names the file.
"""

from __future__ import annotations

import json
import math
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from gedilearn.errors import InputError
from gedilearn.training.run_directory import RunDirectory, read_config, read_lines

if TYPE_CHECKING:
    from gedilearn.estimator import GEDI


@dataclass(frozen=True)
class Curves:
    """What was measured during training."""

    iterations: np.ndarray  # (looks,)
    terms: dict[str, np.ndarray]  # (looks, members) each
    gap: np.ndarray  # (looks, members)
    kept: int  # the member that became the model


@dataclass(frozen=True)
class Run:
    """The readable part of a run directory."""

    files: RunDirectory
    config: dict[str, Any]
    settings: dict[str, Any]
    data: dict[str, Any]
    summary: dict[str, Any] | None  # None while training has not finished
    events: list[dict[str, Any]]

    @classmethod
    def read(cls, path: str | Path) -> Run:
        files, config = RunDirectory(path), read_config(path)
        settings, data = _dict(config.get("settings")), _dict(config.get("data"))
        return cls(files, config, settings, data, _summary(files), _rows(files.events))

    @property
    def shape(self) -> tuple[int, ...]:
        """Of the data; where that is damaged, of a single number."""
        shape = self.data.get("shape")
        sound = isinstance(shape, list) and all(isinstance(n, int) and n > 0 for n in shape)
        return tuple(shape) if sound and shape else (1, 1)

    @property
    def name(self) -> str:
        """The data's name, for titles."""
        return one_line(self.data.get("name") or self.data.get("source") or self.files.path.name)

    @property
    def title(self) -> str:
        """What data, and the verdict."""
        shape = self.data.get("shape")
        size = " x ".join(str(n) for n in shape) if isinstance(shape, list) else "unknown shape"
        verdict = self.summary["verdict"] if self.summary else "training has not finished"
        return f"{self.name} ({one_line(size)}): {one_line(verdict, 300)}"

    @property
    def tolerance(self) -> float:
        """The gap below which a clustering is certified."""
        return number(_dict(self.settings.get("training")).get("tol"))

    def finished(self) -> dict[str, Any]:
        """The summary, or one line that says how to get one."""
        self._existing(self.files.summary)
        return _dict(self.summary)

    def curves(self) -> Curves:
        """Terms and gaps, member by member."""
        file = self.files.metrics
        rows = _rows(file)
        if not rows:
            raise InputError(
                f"{file} has no measurements: the first comes after training.check_every iterations"
            )
        try:
            kept = int(rows[-1]["kept"])
            columns = {k: None for row in rows for k, v in row.items() if isinstance(v, list)}
            curves = {name: _members(rows, name, kept) for name in columns}
            iterations = np.array([float(row["iteration"]) for row in rows])
            gap = curves.pop("gap")
            return Curves(iterations, curves, gap, kept)
        except (KeyError, TypeError, ValueError) as error:
            raise InputError(f"{file} is damaged ({error!r}): fit anew") from None

    def preview(self) -> tuple[np.ndarray, np.ndarray]:
        """Some points, (n, d) or (n, c, h, w), and their clusters, (n,)."""
        from safetensors import SafetensorError
        from safetensors.numpy import load_file

        file = self._existing(self.files.preview)
        try:
            content = load_file(file)
            points, labels = content["points"], content["labels"]
        except (SafetensorError, KeyError, OSError) as error:
            raise InputError(f"{file} is damaged ({error}): fit anew") from None
        if points.ndim not in (2, 4) or labels.shape != points.shape[:1] or not points.size:
            raise InputError(f"{file} is damaged: points {points.shape}, labels {labels.shape}")
        return points, labels

    @property
    def has_whole_model(self) -> bool:
        """Whether the model file needs nothing else: an encoder of the user's is in no file."""
        return "encoder" not in (self.config.get("objects") or [])

    def model(self) -> GEDI:
        """The fitted model."""
        from gedilearn.estimator import GEDI

        return GEDI.load(self._existing(self.files.model))

    def _existing(self, file: Path) -> Path:
        if not file.exists():
            remedy = f"finish the training with gedi resume {self.files.path}"
            raise InputError(f"{file} is missing: {remedy}")
        return file


def number(value: Any) -> float:
    """A number as a run directory writes it ('inf' and 'nan' by name); NaN for anything else."""
    try:
        return float(value)
    except (TypeError, ValueError):
        return math.nan


def one_line(text: Any, width: int = 90) -> str:
    """Printable text on one line: names of files may hold anything."""
    shown = "".join(c if c.isprintable() else " " for c in str(text))
    return shown if len(shown) <= width else shown[: width - 1] + "…"


def _summary(files: RunDirectory) -> dict[str, Any] | None:
    file = files.summary
    if not file.exists():
        return None
    with suppress(ValueError, KeyError, TypeError):
        summary: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
        sizes, findings = summary["cluster_sizes"], summary["diagnosis"]["findings"]
        whole = all(isinstance(n, int) for n in sizes) and len(sizes) > 0
        if whole and isinstance(summary["verdict"], str) and _all_dicts(findings):
            return summary
    raise InputError(f"{file} is damaged: write it anew with gedi resume {files.path}")


def _rows(file: Path) -> list[dict[str, Any]]:
    with suppress(UnicodeDecodeError):
        rows = read_lines(file)
        if _all_dicts(rows):
            return rows
    raise InputError(f"{file} is damaged: every line must be a JSON object")


def _all_dicts(rows: list[Any]) -> bool:
    return isinstance(rows, list) and all(isinstance(row, dict) for row in rows)


def _dict(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _members(rows: list[dict[str, Any]], name: str, kept: int) -> np.ndarray:
    """(looks, members); NaN where a term was not computed: the density has the kept one alone."""
    n_members = max(len(row["gap"]) for row in rows)
    values = np.full((len(rows), n_members), np.nan)
    for line, row in zip(values, rows, strict=True):
        if name in row:
            alone = len(row[name]) < n_members
            line[slice(kept, kept + 1) if alone else slice(None)] = [float(v) for v in row[name]]
    return values
