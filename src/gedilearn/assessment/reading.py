"""What a fitted model says of many points, in pieces that fit in memory."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch

from gedilearn.estimator import GEDI
from gedilearn.models.energy import log_density, posterior
from gedilearn.models.inference import outputs

IMAGES_AT_ONCE, VECTORS_AT_ONCE = 256, 4_096  # what a wide network holds in memory


class Reading(NamedTuple):
    """The outputs of one pass over points."""

    features: np.ndarray  # (n, h)
    labels: np.ndarray  # (n,)
    scores: dict[str, np.ndarray]  # (n,) each, as of `GEDI.score_samples`


def read(model: GEDI, x: np.ndarray) -> Reading:
    """Features, clusters, log-density and confidence of x, (n, ...), in the data's units.

    `predict`, `transform` and `score_samples` would give the same in four passes.
    """
    parts = [outputs(model.model_, model._prepare(x[piece])) for piece in _pieces(x)]
    logits = torch.cat([part.logits for part in parts])
    scores = {"log_density": log_density(logits), "confidence": posterior(logits).amax(-1)}
    return Reading(
        torch.cat([part.features for part in parts]).numpy(),
        logits.argmax(-1).numpy(),
        {name: values.numpy() for name, values in scores.items()},
    )


def gradient_scores(model: GEDI, x: np.ndarray) -> np.ndarray:
    """-||d log p(x) / dx||: (n,)."""
    return np.concatenate([model.score_samples(x[piece], "gradient_norm") for piece in _pieces(x)])


def evenly(n: int, most: int) -> np.ndarray:
    """The indices of all of n points, or of `most` of them in equal distances."""
    k = min(n, most)
    return np.arange(k) * n // max(k, 1)


def _pieces(x: np.ndarray) -> list[slice]:
    size = IMAGES_AT_ONCE if x.ndim == 4 else VECTORS_AT_ONCE
    return [slice(start, start + size) for start in range(0, len(x), size)]
