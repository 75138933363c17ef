"""How well a model tells its own data from other sets, and how well counting pixels would."""

from __future__ import annotations

from typing import Any, get_args

import numpy as np

from gedilearn.assessment.matching import matched, value_range
from gedilearn.assessment.reading import evenly, gradient_scores, read
from gedilearn.assessment.showing import Curve
from gedilearn.data.dataset import Dataset
from gedilearn.errors import InputError
from gedilearn.estimator import GEDI, Score
from gedilearn.evaluation.ood import auroc, ood_scores, roc

Scores = dict[str, np.ndarray]


def brought(
    model: GEDI, reference: np.ndarray, name: str, other: Dataset, most: int
) -> tuple[np.ndarray, str]:
    """At most `most` points of `other` as the model takes them, and what was changed.

    What does not fit is refused. `reference` is data that the model was made for.
    """
    shape = tuple(model.box_.low.shape)
    x = other.x[evenly(len(other.x), most)]
    if x.ndim == 4 and len(shape) == 3:
        return matched(x, shape, value_range(reference))
    if x.shape[1:] != shape:
        raise InputError(
            f"{name} has points of shape {x.shape[1:]}, but the model was fitted to {shape}"
        )
    return x, "none"


def separate(
    model: GEDI, reference: np.ndarray, inside: np.ndarray, ours: Scores, outside: np.ndarray
) -> tuple[dict[str, Any], dict[str, Curve]]:
    """AUROC and FPR95 of every score between two sets of points, and the curves behind them.

    `ours` are the model's scores of the points inside. Scores that need no learning have no sign
    of their own: they are taken in the direction that separates better, and say which.
    """
    theirs = read(model, outside).scores | {"gradient_norm": gradient_scores(model, outside)}
    curves: dict[str, Curve] = {}
    scores: dict[str, Any] = {}
    for kind in get_args(Score):
        try:
            scores[kind] = ood_scores(ours[kind], theirs[kind])
        except InputError as error:  # energies of a run that diverged are not finite
            scores[kind] = {"skipped": str(error)}
            continue
        curves[kind] = Curve(roc(ours[kind], theirs[kind]), scores[kind]["auroc"])
    trivial: dict[str, Any] = {}
    plain_inside, plain_outside = (trivial_scores(model, reference, x) for x in (inside, outside))
    for kind, a in plain_inside.items():
        b = plain_outside[kind]
        direction = "higher inside"
        if auroc(a, b) < 0.5:
            a, b, direction = -a, -b, "lower inside"
        trivial[kind] = ood_scores(a, b) | {"direction": direction}
        curves[kind] = Curve(roc(a, b), trivial[kind]["auroc"])
    counts = {"n_inside": len(inside), "n_outside": len(outside)}
    return counts | {"scores": scores, "trivial": trivial}, curves


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
