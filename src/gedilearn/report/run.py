"""What a run directory says, for figures and pages.

It may come from anywhere, so nothing in it is trusted: damage ends in one line that names the file.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from gedilearn.errors import InputError
from gedilearn.explanation import Explanation, read_profile
from gedilearn.io import RESTORE, damaged, read_json, read_json_lines, read_tensors, reading
from gedilearn.report.numbers import number, one_line
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
    """Some points and what the model says of them; runs of earlier versions keep the first two."""

    points: np.ndarray  # (n, d) or (n, c, h, w), in the data's units
    labels: np.ndarray  # (n,)
    rows: np.ndarray | None = None  # (n,): their numbers in the data
    probability: np.ndarray | None = None  # (n,): of their clusters
    log_density: np.ndarray | None = None  # (n,)
    features: np.ndarray | None = None  # (n, h): enc(x)
    trust: np.ndarray | None = None  # (n,), where training began with clusters


@dataclass(frozen=True)
class Run:
    """The readable part of a run directory."""

    files: RunDirectory
    config: Config
    summary: dict[str, Any]
    events: list[dict[str, Any]]

    @classmethod
    def read(cls, path: str | Path) -> Run:
        files, config = RunDirectory(path), read_config(path)
        return cls(files, config, _summary(files, config), read_json_lines(files.events))

    @property
    def name(self) -> str:
        """The data's name, for titles."""
        return one_line(self.config.data.source or self.files.path.name)

    @property
    def tolerance(self) -> float:
        """The gap below which a clustering is certified."""
        training = self.config.settings.get("training")
        return number(training.get("tol")) if isinstance(training, dict) else math.nan

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
        """Some points with their clusters, for figures."""
        file = _existing(self.files, self.files.preview)
        with reading(file, RESTORE):
            tensors = {name: t.numpy() for name, t in read_tensors(file)[0].items()}
            tensors["points"] = tensors["points"].astype(np.float64)
            known = {field.name for field in fields(Preview)}
            preview = Preview(**{k: v for k, v in tensors.items() if k in known})
            _check_preview(preview, len(self.summary["cluster_sizes"]), self.config.data.shape)
        return preview

    def profile(self) -> Explanation | None:
        """Why each cluster is one; runs of earlier versions do not say."""
        if not self.files.profile.exists():
            return None
        found = read_profile(self.files)
        sizes = [profile.size for profile in found.clusters]
        if sizes != self.summary["cluster_sizes"]:
            raise damaged(self.files.profile, "it is of other clusters", RESTORE)
        return found

    def model(self) -> GEDI | None:
        """The fitted model, for points as the preview has them.

        None where no file has all of it: an encoder of the user's is in none, and after a
        divergence from the start there is no finite network.
        """
        from gedilearn.estimator import GEDI

        is_finite = math.isfinite(number(self.summary.get("gap")))
        if not is_finite or "encoder" in self.config.objects:
            return None
        model = GEDI.load(_existing(self.files, self.files.model)).on_points()
        if hasattr(model, "feature_names_in_"):
            del model.feature_names_in_  # arrays have no names
        return model


def _check_preview(preview: Preview, n_clusters: int, shape: tuple[int, ...]) -> None:
    points, labels, rows, features = preview.points, preview.labels, preview.rows, preview.features
    n = len(points)
    if points.ndim not in (2, 4) or points.shape[1:] != shape[1:] or not points.size:
        raise ValueError(f"points {points.shape} of data {shape}")
    if not np.isfinite(points).all() or not _are_indices(labels, n, n_clusters):
        raise ValueError("points or labels are no finite numbers, or labels of other clusters")
    if rows is not None and not _are_indices(rows, n, shape[0]):
        raise ValueError("rows that there are not")
    for values in (preview.probability, preview.log_density, preview.trust):
        if values is not None and (values.shape != (n,) or values.dtype.kind not in "if"):
            raise ValueError("not a number for each point")
    if features is not None and (features.ndim, len(features), features.dtype.kind) != (2, n, "f"):
        raise ValueError(f"features {features.shape}")


def _are_indices(values: np.ndarray, n: int, end: int) -> bool:
    """Whether these are `n` whole numbers from 0 to below `end`."""
    is_whole = values.shape == (n,) and values.dtype.kind == "i"
    return is_whole and bool(((values >= 0) & (values < end)).all())


def _existing(files: RunDirectory, file: Path) -> Path:
    if not file.exists():
        raise InputError(f"{file} is missing: finish the training with gedi resume {files.path}")
    return file


def _summary(files: RunDirectory, config: Config) -> dict[str, Any]:
    file, remedy = files.summary, f"remove it, and gedi resume {files.path} writes it anew"
    summary: dict[str, Any] = read_json(_existing(files, file), remedy)
    with reading(file, remedy):
        sizes = Summary.model_validate(summary).cluster_sizes
        if len(sizes) != config.settings.get("n_clusters") or sum(sizes) != config.data.shape[0]:
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
