"""Telling points of the data from others by a score: inside is the positive class."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from gedilearn.data.arrays import check_finite, check_same_shape, evenly_spaced
from gedilearn.data.dataset import Dataset
from gedilearn.errors import InputError
from gedilearn.estimator import GEDI
from gedilearn.evaluation.images import converted, value_range
from gedilearn.evaluation.network import Scores, every_score, read


class Roc(NamedTuple):
    """The receiver operating characteristic from (0, 0) to (1, 1), a point for each threshold.

    Attributes
    ----------
    fpr: share of points outside that pass for inside
    tpr: share of points inside that do
    """

    fpr: np.ndarray
    tpr: np.ndarray

    @property
    def auroc(self) -> float:
        """How often a point inside scores higher than one outside; a tie counts one half."""
        from sklearn.metrics import auc

        return float(auc(self.fpr, self.tpr))

    @property
    def fpr95(self) -> float:
        """Share outside at the highest threshold that lets at least 95% of those inside pass."""
        return float(self.fpr[np.argmax(self.tpr >= 0.95)])


def roc(inside: np.ndarray, outside: np.ndarray) -> Roc:
    """The curve of scores (n,) and (m,), higher for points inside."""
    from sklearn.metrics import roc_curve

    inside, outside = _checked(inside, "inside"), _checked(outside, "outside")
    truth = np.r_[np.ones(len(inside)), np.zeros(len(outside))]
    fpr, tpr, _ = roc_curve(truth, np.r_[inside, outside], drop_intermediate=False)
    return Roc(fpr, tpr)


def separation(
    inside: Scores, outside: Scores, *, signed: bool = True
) -> tuple[dict[str, dict[str, Any]], dict[str, Roc]]:
    """``auroc`` and ``fpr95`` of each kind of score, and its curve; or why there is none.

    Scores that are not `signed` need not be higher inside: they are taken in the direction that
    separates better, and say which.
    """
    numbers: dict[str, dict[str, Any]] = {}
    curves = {}
    for kind, ours in inside.items():
        try:
            curve = roc(ours, outside[kind])
        except InputError as error:  # energies of a run that diverged are not finite
            numbers[kind] = {"skipped": str(error)}
            continue
        direction = {} if signed else {"direction": "higher inside"}
        if not signed and curve.auroc < 0.5:
            curve, direction = roc(-ours, -outside[kind]), {"direction": "lower inside"}
        numbers[kind] = {"auroc": curve.auroc, "fpr95": curve.fpr95} | direction
        curves[kind] = curve
    return numbers, curves


def _checked(scores: np.ndarray, name: str) -> np.ndarray:
    scores = np.asarray(scores)
    if scores.ndim != 1 or len(scores) == 0 or scores.dtype.kind not in "biuf":
        raise InputError(
            f"scores {name}: {scores.dtype} of shape {scores.shape}; give numbers of shape (n,)"
        )
    check_finite(scores, f"scores {name}")
    return scores


# --- of a fitted model -------------------------------------------------------------------------


def converted_for(
    model: GEDI, reference: np.ndarray, name: str, other: Dataset, most: int
) -> tuple[np.ndarray, str]:
    """At most `most` points of `other` as the model takes them, and what was changed.

    What does not fit is refused. `reference` is data that the model was made for.
    """
    shape = model.point_shape_
    x = other.x[evenly_spaced(len(other.x), most)]
    if x.ndim == 4 and len(shape) == 3:
        return converted(x, shape, value_range(reference))
    check_same_shape(x, shape, name)
    return x, "none"


def compare(
    model: GEDI, reference: np.ndarray, inside: np.ndarray, ours: Scores, outside: np.ndarray
) -> tuple[dict[str, Any], dict[str, Roc]]:
    """How every score separates two sets of points, and the curves; `ours` are those inside."""
    scores, curves = separation(ours, every_score(model, outside, read(model, outside).scores))
    a, b = (trivial_scores(model, reference, x) for x in (inside, outside))
    trivial, more = separation(a, b, signed=False)
    counts = {"n_inside": len(inside), "n_outside": len(outside)}
    return counts | {"scores": scores, "trivial": trivial}, curves | more


def trivial_scores(model: GEDI, reference: np.ndarray, x: np.ndarray) -> Scores:
    """Scores (n,) that need no learning: what a model has to beat.

    Of images the mean pixel, and the share of pixels above the smallest of `reference`; of vectors
    the distance from the mean of `reference`, in the network's units.
    """
    if x.ndim == 4:
        low, axes = reference.min(), (1, 2, 3)
        return {
            "mean_pixel": x.mean(axis=axes, dtype=np.float64),
            "nonzero_share": (x > low).mean(axis=axes),
        }
    middle = model.scaling_.apply(reference).mean(axis=0, dtype=np.float64)
    return {"distance_from_mean": np.linalg.norm(model.scaling_.apply(x) - middle, axis=1)}
