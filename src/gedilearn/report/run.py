"""The content of a run directory, for the pictures and the page.

It may come from anywhere: damage ends in one line that names the file.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from pydantic import BaseModel, FiniteFloat, NonNegativeInt, TypeAdapter

from gedilearn.errors import InputError
from gedilearn.explanation import Explanation, read_profile
from gedilearn.io import RESTORE, damaged, read_json, read_json_lines, read_tensors, reading
from gedilearn.training.run import Config, RunDirectory, Summary, read_config

if TYPE_CHECKING:
    from gedilearn.estimator import GEDI


class Metrics(BaseModel, extra="allow"):
    """A row of metrics.jsonl. Lists have a number for each member, or for the best one alone."""

    iteration: FiniteFloat
    bound_gap: list[float]
    best: NonNegativeInt  # the member that became the model


@dataclass(frozen=True)
class Curves:
    """Measurements during training; NaN where a term was not computed."""

    iterations: np.ndarray  # (rows,)
    terms: dict[str, np.ndarray]  # (rows, members) each
    bound_gap: np.ndarray  # (rows, members)
    best: int

    @classmethod
    def of(cls, rows: list[Metrics]) -> Curves:
        best, n = rows[-1].best, max(len(row.bound_gap) for row in rows)
        if best >= n:
            raise ValueError(f"best: no member {best}")
        lists = [{name: v for name, v in row if isinstance(v, list)} for row in rows]
        values = {name: np.full((len(rows), n), np.nan) for own in lists for name in own}
        for i, own in enumerate(lists):
            for name, numbers in own.items():
                members = slice(None) if len(numbers) == n else slice(best, best + 1)
                values[name][i, members] = np.array(numbers, float)
        gap = values.pop("bound_gap")
        return cls(np.array([row.iteration for row in rows]), values, gap, best)


@dataclass(frozen=True)
class Preview:
    """Some points with the model's outputs, see `explanation.keep`."""

    points: np.ndarray  # (n, d) or (n, c, h, w), in the data's units
    labels: np.ndarray  # (n,)
    rows: np.ndarray  # (n,): their numbers in the data
    probability: np.ndarray  # (n,): of their clusters
    features: np.ndarray  # (n, h): enc(x)
    log_density: np.ndarray | None = None  # (n,), if it was learnt
    trust: np.ndarray | None = None  # (n,), where training had an initial clustering

    def check(self, n_clusters: int, shape: tuple[int, ...]) -> None:
        """Refuse a preview of other clusters, or of data of another shape."""
        n = len(self.points)
        shapes = {"points": (n, *shape[1:]), "features": (n, self.features.shape[-1])}
        for name, array in vars(self).items():
            if array is not None and array.shape != shapes.get(name, (n,)):
                raise ValueError(f"{name} {array.shape} of data {shape}")
        if n < 2 or self.points.ndim == 3 or not np.isfinite(self.points).all():
            raise ValueError("points: not two or more of finite numbers")
        for indices, end in ((self.labels, n_clusters), (self.rows, shape[0])):
            if indices.dtype.kind != "i" or indices.min() < 0 or indices.max() >= end:
                raise ValueError("clusters or rows that there are not")


@dataclass(frozen=True)
class Run:
    """The readable part of a run directory."""

    files: RunDirectory
    config: Config
    summary: Summary
    events: list[dict[str, Any]]

    @classmethod
    def read(cls, path: str | Path) -> Run:
        files, config = RunDirectory(path), read_config(path)
        return cls(files, config, _summary(files, config), read_json_lines(files.events))

    def curves(self) -> Curves:
        """Terms and bound gaps, member by member."""
        file = self.files.metrics
        rows = read_json_lines(file)
        if not rows:
            raise InputError(
                f"{file} has no measurements: the first comes after training.check_every iterations"
            )
        with reading(file, RESTORE):
            return Curves.of(TypeAdapter(list[Metrics]).validate_python(rows))

    def preview(self) -> Preview:
        """Some points with their clusters, for the maps."""
        file = _existing(self.files, self.files.preview)
        with reading(file, RESTORE):
            arrays: dict[str, Any] = {n: t.numpy() for n, t in read_tensors(file)[0].items()}
            preview = Preview(**arrays | {"points": arrays["points"].astype(np.float64)})
            preview.check(len(self.summary.cluster_sizes), self.config.data.shape)
        return preview

    def profile(self) -> Explanation:
        """What defines each cluster."""
        file = _existing(self.files, self.files.profile)
        explanation = read_profile(self.files)
        if [profile.size for profile in explanation.clusters] != self.summary.cluster_sizes:
            raise damaged(file, "it is of other clusters", RESTORE)
        return explanation

    def model(self) -> GEDI | None:
        """The fitted model, for points as the preview has them.

        None if it has an encoder of the user's, which no file holds, or is not finite.
        """
        from gedilearn.estimator import GEDI

        if not math.isfinite(self.summary.bound_gap) or "encoder" in self.config.objects:
            return None
        model = GEDI.load(_existing(self.files, self.files.model)).on_points()
        if hasattr(model, "feature_names_in_"):
            del model.feature_names_in_  # arrays have no names
        return model


def _existing(files: RunDirectory, file: Path) -> Path:
    if not file.exists():
        raise InputError(f"{file} is missing: finish the training with gedi resume {files.path}")
    return file


def _summary(files: RunDirectory, config: Config) -> Summary:
    file, remedy = files.summary, f"remove it, and gedi resume {files.path} writes it anew"
    content = read_json(_existing(files, file), remedy)
    with reading(file, remedy):
        summary = Summary.model_validate(content)
        sizes, clusters = summary.cluster_sizes, summary.clusters
        if sum(sizes) != config.data.shape[0] or len(clusters) not in (0, len(sizes)):
            raise ValueError("cluster_sizes of another run")
    return summary
