"""Several fits at once, side by side in batched products: seeds of an experiment, or a sweep."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from gedilearn.data.arrays import Scaling, check_enough
from gedilearn.errors import InputError
from gedilearn.estimator import GEDI
from gedilearn.settings import Settings, Weights
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
    models = [GEDI.from_settings(settings) for _ in data]
    arrays = [model.validate(x, reset=True) for model, x in zip(models, data, strict=True)]
    n_results = _count_results(arrays, factors or {}, settings)
    for array in arrays:
        check_enough(array, settings.n_clusters)
    check_machine(settings, arrays[0].shape[1:])
    scalings = [Scaling.of(array, settings.scaling) for array in arrays]
    scaled = torch.stack(
        [torch.from_numpy(s.apply(a)) for s, a in zip(scalings, arrays, strict=True)]
    )
    multiples = {name: torch.from_numpy(value).float() for name, value in (factors or {}).items()}
    results = train(scaled, settings, n_results=n_results, factors=multiples)
    fitted = []
    for k, result in enumerate(results):
        own = k if len(data) > 1 else 0
        model = models[own] if own == k else GEDI.from_settings(settings)
        if own != k:
            model.validate(data[0], reset=True)
        model.adopt(result, scalings[own], result.training_labels)
        fitted.append(model)
    return fitted


def _count_results(
    arrays: list[np.ndarray], factors: dict[str, np.ndarray], settings: Settings
) -> int:
    """How many estimators `fit_together` gives; sets and factors that do not match are refused."""
    shapes = {array.shape for array in arrays}
    if len(shapes) != 1:
        given = ", ".join(map(str, sorted(shapes))) or "none"
        raise InputError(f"data sets of shapes {given}: those fitted together must have one shape")
    if factors and not settings.own.weighted:
        raise InputError(
            f"factors for method={settings.method!r}: they multiply the terms of GEDI alone"
        )
    terms = [name for name in Weights.model_fields if name != "symmetric"]
    unknown = sorted(set(factors) - set(terms))
    if unknown:
        raise InputError(f"factors of {unknown}: the terms are {', '.join(terms)}")
    counts = {len(arrays)} if len(arrays) > 1 or not factors else set()
    counts |= {len(value) for value in factors.values()}
    if len(counts) != 1:
        raise InputError(
            f"{len(arrays)} data sets and factors of {sorted(map(len, factors.values()))} values: "
            "give one set and factors of one length, or as many factors as sets"
        )
    return counts.pop()
