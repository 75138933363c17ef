"""A verdict on clusters that were made elsewhere: by another method, or by hand.

A network learns the labels, and is then held against INV, PRIOR and the bound of Proposition 1; the
labels themselves are held against the density between them, and against the clusters that parts of
the data have. It is the verdict of a fit (docs/trust.md), on labels that are given.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.utils import _safe_indexing

from gedilearn.errors import InputError
from gedilearn.estimator import GEDI
from gedilearn.starts.known import UNKNOWN, Known


@dataclass(frozen=True, eq=False)
class Graded:
    """How far to trust labels that were given.

    grade: 'certified', 'supported', 'doubtful' or 'no structure found'.
    trust: in the labels as a whole, 0 to 1.
    verdict: the result in one sentence.
    clusters: for each cluster its name, size, trust, and what it touches.
    trust_: (n,) for each row, how far to believe in its label; NaN for rows without one.
    suggested_: (n,) the label that the network gives each row, also those without one.
    elsewhere_: the rows whose label is another; look at these.
    model: the network that learnt the labels; it labels new rows.
    """

    grade: str
    trust: float
    verdict: str
    clusters: list[dict[str, Any]]
    trust_: np.ndarray
    suggested_: np.ndarray
    elsewhere_: np.ndarray
    model: GEDI


def grade(
    X: Any,
    labels: Any,
    *,
    random_state: Any = None,
    run_dir: str | Path | None = None,
    settings: Mapping[str, Any] | None = None,
) -> Graded:
    """Judge `labels`, (n_samples,), of the rows of `X`; -1, None and NaN are no cluster.

    `X` are vectors or a table, as in `GEDI.fit`. `run_dir` and `settings` are those of `GEDI`; the
    density is left out, unless ``{'weights.gen': ...}`` asks for it.

    >>> from sklearn.datasets import make_moons
    >>> from gedilearn import grade
    >>> X, y = make_moons(400, noise=0.05, random_state=0)
    >>> grade(X, y, random_state=0).grade
    'certified'
    """
    known = Known.of(labels, len(X), judged=True)
    inside = labelled_rows(known)
    model = GEDI(random_state=random_state, settings={"weights.gen": 0.0, **(settings or {})})
    model.fit_run(_safe_indexing(X, inside), run_dir, known=known.values(inside), judged=True)
    return graded(model, X, known)


def labelled_rows(known: Known) -> np.ndarray:
    """The rows with a label, checked."""
    if len(known.classes) < 2:
        raise InputError(f"labels: all rows are in {known.classes[0]!r}; give two clusters or more")
    return known.rows


def graded(model: GEDI, X: Any, known: Known) -> Graded:
    """What a model that has learnt the labels says of them; `X` are all rows."""
    if model.trust_ is None:
        raise InputError(
            "labels are judged for vectors; gedilearn.features turns images into vectors"
        )
    trust = np.full(len(known.labels), np.nan)
    trust[known.rows] = model.trust_
    found = model.predict(X)
    summary = model.summary()
    return Graded(
        grade=model.grade_,
        trust=summary["trust"],
        verdict=model.verdict_,
        clusters=summary["clusters"],
        trust_=trust,
        suggested_=known.classes[found],
        elsewhere_=np.flatnonzero((known.labels != UNKNOWN) & (found != known.labels)),
        model=model,
    )
