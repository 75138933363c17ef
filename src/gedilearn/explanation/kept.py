"""What a fitted result says of data, and what of it a run keeps for its report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from torch import Tensor

from gedilearn.data.arrays import Scaling, evenly_spaced
from gedilearn.data.tables import Meaning
from gedilearn.explanation.explain import explain
from gedilearn.explanation.profiles import Explanation
from gedilearn.io import RESTORE, read_json, reading
from gedilearn.training.result import Result
from gedilearn.training.run import RunDirectory, read_config

MOST_PREVIEWED = 5_000  # rows,
LEAST_PREVIEWED = 100  # fewer where they are large
MOST_BYTES = 64_000_000


def explain_result(
    result: Result,
    scaling: Scaling,
    x: np.ndarray,
    names: Sequence[str] | None,
    meanings: Mapping[int, Meaning] | None = None,
) -> Explanation:
    """The clusters of x, in the data's units, as the result sees them."""
    z = _scaled(result, scaling, x)
    seen = result.labels(z), result.probabilities(z), _log_density(result, scaling, z)
    return explain(x, names, *seen, meanings=meanings)


def keep(
    directory: RunDirectory,
    result: Result,
    scaling: Scaling,
    x: np.ndarray,
    names: Sequence[str] | None,
    meanings: Mapping[int, Meaning] | None = None,
) -> None:
    """Write the profiles of the clusters, and rows of the data with what was found of them.

    These are evenly spaced ones, and all that the profiles name.
    """
    names = read_config(directory.path).data.columns if names is None else names
    z = _scaled(result, scaling, x)
    labels, p = result.labels(z), result.probabilities(z)
    log_density = _log_density(result, scaling, z)
    trust = None if result.trust is None else result.trust.prod(1).numpy()
    found = explain(x, names, labels, p, log_density, trust, meanings)
    directory.write_profile(found.to_json())

    kind = x.dtype if x.dtype == np.uint8 else np.dtype(np.float64)
    each = x[:1].size * kind.itemsize + 4 * result.model.n_features
    most = min(MOST_PREVIEWED, max(LEAST_PREVIEWED, MOST_BYTES // each))
    rows = np.union1d(evenly_spaced(len(x), most), np.array(found.rows, int)).astype(np.int64)
    kept = {
        "rows": rows,
        "points": x[rows].astype(kind),
        "labels": labels[rows].astype(np.int64),
        "probability": p[rows, labels[rows]].astype(np.float64),
        "features": result.features(z[torch.from_numpy(rows)]).astype(np.float32),
    }
    for name, values in {"log_density": log_density, "trust": trust}.items():
        if values is not None:
            kept[name] = values[rows].astype(np.float64)
    directory.write_preview(kept)


def read_profile(directory: RunDirectory) -> Explanation:
    """What `keep` wrote, or one line that says what is wrong with it."""
    content = read_json(directory.profile)
    with reading(directory.profile, RESTORE):
        return Explanation.from_json(content)


def _scaled(result: Result, scaling: Scaling, x: np.ndarray) -> Tensor:
    return torch.from_numpy(scaling.apply(x)).to(result.box.low.dtype)


def _log_density(result: Result, scaling: Scaling, z: Tensor) -> np.ndarray | None:
    """log p(x) in the data's units, as `GEDI.score_samples` gives it: (n,); None if not learnt."""
    if not result.has_density:
        return None
    scores = result.scores(z, "log_density")
    return scores if result.density is None else scores - result.density.volume(scaling.scale)
