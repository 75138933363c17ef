"""What a fitted model says of many points, in pieces that fit in memory."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple, get_args

import numpy as np
import torch

from gedilearn.errors import InputError
from gedilearn.estimator import GEDI
from gedilearn.models.energy import log_density, outputs, posterior
from gedilearn.training.result import Score
from gedilearn.training.run import RunDirectory, kept_chains

Tell = Callable[[str], None]
Scores = dict[str, np.ndarray]  # (n,) of each kind

IMAGES_AT_ONCE, VECTORS_AT_ONCE = 256, 4_096  # what a wide network holds in memory


class Seen(NamedTuple):
    """The outputs of one pass over points."""

    features: np.ndarray  # (n, h)
    labels: np.ndarray  # (n,)
    scores: Scores  # those of `GEDI.score_samples` that need no gradient


def read(model: GEDI, x: np.ndarray) -> Seen:
    """Features, clusters, log-density and confidence of x, (n, ...), in the data's units.

    `predict`, `transform` and `score_samples` would give the same in four passes.
    """
    parts = [outputs(model.model_, model.prepare(x[piece])) for piece in _pieces(x)]
    logits = torch.cat([part.logits for part in parts])
    scores = {
        "energy": log_density(logits).numpy(),
        "confidence": posterior(logits).amax(-1).numpy(),
    }
    scores["log_density"] = scores["energy"]
    if model.log_normaliser_ is not None:
        found = [model.score_samples(x[piece]) for piece in _pieces(x)]
        scores["log_density"] = np.concatenate(found)
    features = torch.cat([part.features for part in parts]).numpy()
    return Seen(features, logits.argmax(-1).numpy(), scores)


def every_score(model: GEDI, x: np.ndarray, known: Scores) -> Scores:
    """All kinds of `GEDI.score_samples` of x, of which `known` are those of `read`."""
    gradient = [model.score_samples(x[piece], "gradient_norm") for piece in _pieces(x)]
    scores = known | {"gradient_norm": np.concatenate(gradient)}
    return {kind: scores[kind] for kind in get_args(Score)}


def _pieces(x: np.ndarray) -> list[slice]:
    size = IMAGES_AT_ONCE if x.ndim == 4 else VECTORS_AT_ONCE
    return [slice(start, start + size) for start in range(0, len(x), size)]


def read_buffer(run: Path, model: GEDI, tell: Tell = lambda text: None) -> np.ndarray | None:
    """Images in the replay buffer of a run's newest checkpoint, in the data's units; or None.

    A damaged checkpoint is no reason not to evaluate the model: `tell` receives a line about it.
    """
    try:
        positions = kept_chains(RunDirectory(run).checkpoints)
    except InputError as error:
        tell(f"without the replay buffer: {error}")
        return None
    if positions is None or positions.dim() != 4:
        return None
    chains = model.scaling_.undo(positions.float().numpy())
    finite = chains[np.isfinite(chains).all(axis=(1, 2, 3))]
    return finite if len(finite) else None
