"""A verdict on clusters from elsewhere: from another method, or made by hand.

A network learns the labels. INV, PRIOR and the bound of Proposition 1 then show how well it can.
The density between the clusters and the clusters of subsamples show whether the data supports the
labels. The verdict is that of a fit (docs/trust.md), on the given labels.
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
from gedilearn.starts.classes import UNLABELLED, Classes
from gedilearn.verdict.verdict import Verdict


@dataclass(frozen=True, eq=False)
class Graded:
    """How far to trust the given labels.

    grade: 'certified', 'supported', 'doubtful' or 'no structure found'.
    trust: in the labels as a whole, 0 to 1; None without an initial clustering.
    verdict: the grade, its reason and the next step.
    clusters: for each cluster its name, size, trust, and the clusters that it touches.
    trust_: (n,) for each row, the trust in its label; NaN for rows without one.
    suggested_: (n,) the label that the network gives each row, also rows without one.
    disputed_: the rows to which the network gives another label. Look at these first.
    model: the network that learnt the labels; it labels new rows.
    """

    grade: str
    trust: float | None
    verdict: Verdict
    clusters: list[dict[str, Any]]
    trust_: np.ndarray
    suggested_: np.ndarray
    disputed_: np.ndarray
    model: GEDI


def grade(
    X: Any,
    labels: Any,
    *,
    random_state: Any = None,
    run_dir: str | Path | None = None,
    settings: Mapping[str, Any] | None = None,
) -> Graded:
    """Grade `labels`, (n_samples,), of the rows of `X`; -1, None and NaN are no cluster.

    `X` are vectors or a table, as in `GEDI.fit`. `run_dir` and `settings` are those of `GEDI`. No
    density is learnt, unless ``{'weights.gen': ...}`` asks for one.

    >>> from sklearn.datasets import make_moons
    >>> from gedilearn import grade
    >>> X, y = make_moons(400, noise=0.05, random_state=0)
    >>> grade(X, y, random_state=0).grade
    'certified'
    """
    if len(np.shape(X)) == 4:
        raise InputError("X: grading needs vectors; gedilearn.features turns images into vectors")
    classes = Classes.of(labels, len(X), graded=True)
    model = GEDI(random_state=random_state, settings={"weights.gen": 0.0, **(settings or {})})
    model.fit_run(_safe_indexing(X, classes.rows), run_dir, classes=classes.labelled)
    trust, found, summary = np.full(len(X), np.nan), model.predict(X), model.summary()
    trust[classes.rows] = np.nan if model.trust_ is None else model.trust_
    return Graded(
        grade=model.grade_,
        trust=summary["trust"],
        verdict=model.verdict_,
        clusters=summary["clusters"],
        trust_=trust,
        suggested_=classes.values[found],
        disputed_=np.flatnonzero((classes.labels != UNLABELLED) & (found != classes.labels)),
        model=model,
    )
