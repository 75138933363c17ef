"""Telling points of the data from others by a score: inside is the positive class."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gedilearn.data.arrays import check_finite
from gedilearn.errors import InputError


class Roc(NamedTuple):
    """The curve from (0, 0) to (1, 1), one point for each threshold that changes it.

    Attributes
    ----------
    fpr: share of points outside that pass for inside
    tpr: share of points inside that do
    """

    fpr: np.ndarray
    tpr: np.ndarray


def ood_scores(inside: np.ndarray, outside: np.ndarray) -> dict[str, float]:
    """``auroc`` and ``fpr95`` of scores (n,) and (m,), higher for points inside.

    ``fpr95`` is the share of points outside that pass at the highest threshold that lets at least
    95% of those inside pass.
    """
    inside, outside = _checked(inside, "inside"), _checked(outside, "outside")
    needed = -(-95 * len(inside) // 100)  # rounded up, in integers: 0.95 * n is not exact
    threshold = np.sort(inside)[len(inside) - needed]
    return {"auroc": auroc(inside, outside), "fpr95": float((outside >= threshold).mean())}


def auroc(inside: np.ndarray, outside: np.ndarray) -> float:
    """How often a point inside scores higher than one outside; a tie counts one half."""
    from sklearn.metrics import roc_auc_score

    return float(roc_auc_score(*_joined(inside, outside)))


def roc(inside: np.ndarray, outside: np.ndarray) -> Roc:
    """The points of the receiver operating characteristic, for a figure."""
    from sklearn.metrics import roc_curve

    fpr, tpr, _ = roc_curve(*_joined(inside, outside))
    return Roc(fpr, tpr)


def _joined(inside: np.ndarray, outside: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    inside, outside = _checked(inside, "inside"), _checked(outside, "outside")
    truth = np.r_[np.ones(len(inside)), np.zeros(len(outside))]
    return truth, np.r_[inside, outside]


def _checked(scores: np.ndarray, name: str) -> np.ndarray:
    scores = np.asarray(scores)
    if scores.ndim != 1 or len(scores) == 0 or scores.dtype.kind not in "biuf":
        raise InputError(
            f"scores {name}: {scores.dtype} of shape {scores.shape}; give numbers of shape (n,)"
        )
    check_finite(scores, f"scores {name}")
    return scores
