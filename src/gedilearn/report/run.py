"""What a run directory says, for the pictures and the page.

It may come from anywhere, so nothing in it is trusted: damage ends in one line that names the file.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from gedilearn.errors import InputError
from gedilearn.explanation import Explanation, read_profile
from gedilearn.io import RESTORE, damaged, read_json, read_json_lines, read_tensors, reading
from gedilearn.training.run import Config, RunDirectory, Summary, read_config

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
class Preview:
    """Some points and what the model says of them, see `explanation.keep`."""

    points: np.ndarray  # (n, d) or (n, c, h, w), in the data's units
    labels: np.ndarray  # (n,)
    rows: np.ndarray  # (n,): their numbers in the data
    probability: np.ndarray  # (n,): of their clusters
    features: np.ndarray  # (n, h): enc(x)
    log_density: np.ndarray | None = None  # (n,), if it was learnt
    trust: np.ndarray | None = None  # (n,), where training began with clusters

    def check(self, n_clusters: int, shape: tuple[int, ...]) -> None:
        """Refuse a preview of other clusters, or of data of another shape."""
        n, points = len(self.points), self.points
        if n < 2 or points.ndim not in (2, 4) or points.shape[1:] != shape[1:]:
            raise ValueError(f"points {points.shape} of data {shape}")
        if not np.isfinite(points).all():
            raise ValueError("points that are no finite numbers")
        vectors = (self.labels, self.rows, self.probability, self.log_density, self.trust)
        features = self.features.ndim == 2 and len(self.features) == n
        if not features or any(v is not None and v.shape != (n,) for v in vectors):
            raise ValueError("not a number for each point")
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
        """Terms and gaps, member by member."""
        file = self.files.metrics
        rows = read_json_lines(file)
        if not rows:
            raise InputError(
                f"{file} has no measurements: the first comes after training.check_every iterations"
            )
        with reading(file, RESTORE):
            kept = int(rows[-1]["kept"])
            columns = {k: None for row in rows for k, v in row.items() if isinstance(v, list)}
            curves = {name: _members(rows, name, kept) for name in columns}
            iterations = np.array([float(row["iteration"]) for row in rows])
            gap = curves.pop("gap")
            if not 0 <= kept < gap.shape[1] or not np.isfinite(iterations).all():
                raise ValueError("no such member or iteration")
            return Curves(iterations, curves, gap, kept)

    def preview(self) -> Preview:
        """Some points with their clusters, for the maps."""
        file = _existing(self.files, self.files.preview)
        with reading(file, RESTORE):
            tensors = {name: t.numpy() for name, t in read_tensors(file)[0].items()}
            points = {"points": tensors["points"].astype(np.float64)}
            preview = Preview(**tensors | points)
            preview.check(len(self.summary.cluster_sizes), self.config.data.shape)
        return preview

    def profile(self) -> Explanation:
        """Why each cluster is one."""
        file = _existing(self.files, self.files.profile)
        found = read_profile(self.files)
        if [profile.size for profile in found.clusters] != self.summary.cluster_sizes:
            raise damaged(file, "it is of other clusters", RESTORE)
        return found

    def model(self) -> GEDI | None:
        """The fitted model, for points as the preview has them.

        None where no file has all of it: an encoder of the user's is in none, and after a
        divergence from the start there is no finite network.
        """
        from gedilearn.estimator import GEDI

        if not math.isfinite(self.summary.gap) or "encoder" in self.config.objects:
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


def _members(rows: list[dict[str, Any]], name: str, kept: int) -> np.ndarray:
    """(looks, members); NaN where a term was not computed: the density has the kept one alone."""
    n_members = max(len(row["gap"]) for row in rows)
    values = np.full((len(rows), n_members), np.nan)
    for line, row in zip(values, rows, strict=True):
        if name in row:
            alone = len(row[name]) < n_members
            line[slice(kept, kept + 1) if alone else slice(None)] = [float(v) for v in row[name]]
    return values
