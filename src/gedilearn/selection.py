"""The number of clusters, chosen without labels.

Of vectors, evidence about starts of every number decides (`training.number`), and one network is
fitted. Images have no such evidence: every number is fitted from two seeds. The largest whose gap
is nearly that of a certificate is recommended: a smaller one joins its clusters. If there is none,
the size of the gap and the agreement of the two seeds rank the numbers, and the words say so.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from sklearn.utils import check_random_state

from gedilearn.data.arrays import check_enough, listing
from gedilearn.errors import InputError
from gedilearn.estimator import GEDI
from gedilearn.evaluation.clustering import ari
from gedilearn.progress import SILENT, Progress
from gedilearn.settings import AUTO, is_images

# A gap below this many tolerances is nearly certified: a stray point on the wrong side costs a few
# nats over n.
NEARLY = 5

Row = dict[str, Any]


@dataclass(frozen=True)
class Choice:
    """The recommended number of clusters, and the evidence for it.

    n_clusters: the number for which most speaks.
    stands_out: whether it is recommended; if not, it is only the least bad.
    recommendation: the same in words.
    rows: for each number of clusters what speaks for it. Of vectors as in `GEDI.choice_`; of images
        n_clusters, gap (nats, of the better seed), stability (agreement of the seeds), unused
        (clusters), score (0 is ideal) and reason ('gap', or None if it does not stand out).
    model: fitted with the number.
    """

    n_clusters: int
    stands_out: bool
    recommendation: str
    rows: list[Row]
    model: GEDI

    def to_json(self) -> dict[str, Any]:
        """All but the model."""
        names = ("n_clusters", "stands_out", "recommendation", "rows")
        return {name: getattr(self, name) for name in names}


def choose_n_clusters(
    X: Any,
    max_clusters: int = 10,
    *,
    random_state: Any = None,
    progress: Progress = SILENT,
    **arguments: Any,
) -> Choice:
    """Recommend one of 2 to `max_clusters` clusters for `X`, without labels.

    `arguments` are those of `GEDI`; by default the density is left out (``w_gen=0``).

    >>> from sklearn.datasets import make_blobs
    >>> from gedilearn import choose_n_clusters
    >>> X, _ = make_blobs(300, centers=[[0, 0], [0, 9], [9, 0]], random_state=0)
    >>> choose_n_clusters(X, 4, random_state=0).n_clusters
    3
    """
    if max_clusters < 2:
        raise InputError(f"max_clusters={max_clusters}: clustering needs at least 2")
    arguments = {"w_gen": 0.0} | arguments
    data = GEDI(settings=arguments.get("settings")).validate(X, reset=True)
    check_enough(data, max_clusters)
    if is_images(data.shape):
        return _by_gaps(X, max_clusters, random_state, progress, arguments)
    settings = dict(arguments.pop("settings", None) or {}) | {"training.max_clusters": max_clusters}
    model = GEDI(AUTO, random_state=random_state, settings=settings, **arguments)
    found = model.fit_run(X, None, progress=progress).choice_
    assert found is not None
    words = f"{model.n_clusters_} clusters, {model.grade_}: {found['words']}."
    stands_out = model.grade_ in ("certified", "supported")
    return Choice(model.n_clusters_, stands_out, words, found["numbers"], model)


def _by_gaps(
    X: Any, most: int, random_state: Any, progress: Progress, arguments: dict[str, Any]
) -> Choice:
    """Every number is fitted from the same two seeds."""
    seeds = check_random_state(random_state).randint(2**31 - 1, size=2).tolist()
    rows: list[Row] = []
    models = {}
    progress.phase(f"fits with 2 to {most} clusters")
    for k in range(2, most + 1):
        progress.step(k - 2, most - 1)
        fits = [GEDI(k, random_state=seed, **arguments).fit(X) for seed in seeds]
        models[k] = min(fits, key=lambda model: model.bound_gap_)
        rows.append(_row(models[k], ari(*(model.labels_ for model in fits))))
    best, words = rank(rows, models[2].settings_.training.tol)
    return Choice(best["n_clusters"], bool(best["reason"]), words, rows, models[best["n_clusters"]])


def _row(best: GEDI, agreed: float) -> Row:
    k, gap, tol = best.n_clusters_, best.bound_gap_, best.settings_.training.tol
    unused = k - int(best.diagnosis_["clusters in use"].value)
    nearly = unused == 0 and gap < NEARLY * tol
    # An undecided prediction has the gap log k, so the first part is 1 for it at any k.
    score = gap / math.log(k) + 1 - agreed + unused / k
    row = {"n_clusters": k, "gap": gap, "stability": agreed, "unused": unused, "score": score}
    return row | {"reason": "gap" if nearly else None}


def rank(rows: list[Row], tol: float) -> tuple[Row, str]:
    """The row that goes first, and the words for it."""
    stand = [row for row in rows if row["reason"]]
    best = stand[-1] if stand else min(rows, key=lambda row: row["score"])
    k, gap = best["n_clusters"], f"a gap of {best['gap']:.4f} nats (certified below {tol:g})"
    if stand:
        found = f"{k} clusters, with {gap}"
    else:
        found = f"No number stands out: none is nearly certified. The least bad is {k}, with {gap}"
    if others := [row["n_clusters"] for row in stand[:-1]]:
        found += f"; {listing(others)}, which join some of them, would do as well"
    return best, f"{found}; two initialisations agree to {best['stability']:.2f}."
