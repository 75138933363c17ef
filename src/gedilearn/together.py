"""Several fits at once, side by side in batched products: seeds of an experiment, or a sweep."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import cycle

import numpy as np
import torch

from gedilearn.data.arrays import Scaling, check_enough
from gedilearn.estimator import GEDI
from gedilearn.settings import Settings
from gedilearn.training.environment import check_machine
from gedilearn.training.loop import train


def fit_together(
    data: Sequence[np.ndarray],
    settings: Settings,
    factors: dict[str, np.ndarray] | None = None,
) -> list[GEDI]:
    """One fitted estimator for each data set, all trained side by side in batched products.

    The sets have one shape. For a single set, `factors` may give several multiples of the weights
    of terms ('inv', 'prior', 'gen'), one estimator each: a sweep. A divergence of one puts all back
    and calms all.
    """
    multiples = {name: torch.from_numpy(value).float() for name, value in (factors or {}).items()}
    n_results = max(len(data), *map(len, multiples.values()), 1)
    models = [GEDI.from_settings(settings) for _ in range(n_results)]
    pairs = zip(models, cycle(data), strict=False)
    arrays = [model.validate(x, reset=True) for model, x in pairs][: len(data)]
    for array in arrays:
        check_enough(array, settings.n_clusters)
    check_machine(settings, arrays[0].shape[1:])
    scalings = [Scaling.of(array, settings.scaling) for array in arrays]
    scaled = [torch.from_numpy(s.apply(a)) for s, a in zip(scalings, arrays, strict=True)]
    results = train(torch.stack(scaled), settings, n_results=n_results, factors=multiples)
    for model, result, scaling in zip(models, results, cycle(scalings), strict=False):
        model.adopt(
            result,
            scaling,
            result.outputs(torch.empty(0)).labels
            if result.training is None
            else result.training.labels,
        )
    return models
