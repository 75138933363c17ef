"""The number of clusters, chosen without labels: fit every number and compare the evidence.

The largest number whose clusters are certified or supported is recommended: a smaller one joins
them. As many numbers are tried, each must pass the rule for that many tries. If none does, no
number is recommended, and the words say so. Images have no such evidence: there a certificate, or
nearly one, decides, and the size of the gap and the agreement of initialisations rank the rest.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from time import perf_counter
from typing import Any

from sklearn.utils import check_random_state

from gedilearn.data.arrays import check_enough, listing
from gedilearn.errors import InputError
from gedilearn.estimator import GEDI
from gedilearn.evaluation.clustering import ari

# A gap below this many tolerances is nearly certified: a stray point on the wrong side costs a few
# nats over n.
NEARLY = 5

Row = dict[str, Any]


@dataclass(frozen=True)
class Choice:
    """The recommended number of clusters, and the evidence for it.

    n_clusters: the number that ranks first.
    stands_out: whether it is recommended; if not, it is only the least bad.
    recommendation: the same in words.
    rows: for each number of clusters: n_clusters, grade (for as many tries), gap (nats, of the best
        initialisation), certified, stability (agreement of parts of the data, or of
        initialisations), apart (groups of clusters between which the density falls) and trust
        (None without evidence), unused (clusters), score (0 is ideal), rank (1 is best), seconds.
    models: the best fitted model for each number.
    """

    n_clusters: int
    stands_out: bool
    recommendation: str
    rows: list[Row]
    models: dict[int, GEDI]

    @property
    def model(self) -> GEDI:
        """The model with the recommended number of clusters."""
        return self.models[self.n_clusters]

    def to_json(self) -> dict[str, Any]:
        """All but the models."""
        names = ("n_clusters", "stands_out", "recommendation", "rows")
        return {name: getattr(self, name) for name in names}


def choose_n_clusters(
    X: Any,
    max_clusters: int = 10,
    *,
    random_state: Any = None,
    on_row: Callable[[Row], None] = lambda row: None,
    **arguments: Any,
) -> Choice:
    """Fit `X` with 2 to `max_clusters` clusters and recommend a number, without labels.

    Each number is fitted from two seeds, the same ones for every number. `arguments` are those of
    `GEDI`; by default the density is left out (``w_gen=0``). `on_row` is called with each number's
    row when it is fitted, still without a rank.

    >>> from sklearn.datasets import make_blobs
    >>> from gedilearn import choose_n_clusters
    >>> X, _ = make_blobs(300, centers=[[0, 0], [0, 9], [9, 0]], random_state=0)
    >>> choose_n_clusters(X, 4, random_state=0).n_clusters
    3
    """
    if max_clusters < 2:
        raise InputError(f"max_clusters={max_clusters}: clustering needs at least 2")
    check_enough(GEDI().validate(X, reset=True), max_clusters)
    seeds = check_random_state(random_state).randint(2**31 - 1, size=2).tolist()
    arguments.setdefault("w_gen", 0.0)
    rows: list[Row] = []
    models = {}
    for k in range(2, max_clusters + 1):
        started = perf_counter()
        fits = [GEDI(k, random_state=seed, **arguments).fit(X) for seed in seeds]
        models[k] = min(fits, key=lambda model: model.certificate_gap_)
        rows.append(_row(models[k], fits, max_clusters - 1, perf_counter() - started))
        on_row(dict(rows[-1]))
    best, stands_out, recommendation = rank(rows, models[2].settings_.training.tol)
    return Choice(best, stands_out, recommendation, rows, models)


def _row(best: GEDI, fits: list[GEDI], tries: int, seconds: float) -> Row:
    k, gap, evidence = best.settings_.n_clusters, best.certificate_gap_, best.diagnosis_.evidence
    agreed = ari(*(model.labels_ for model in fits))
    unused = k - int(best.diagnosis_["clusters in use"].value)
    grade = best.diagnosis_.graded(tries)
    return {
        "n_clusters": k,
        "grade": grade,
        "gap": gap,
        "certified": grade == "certified" and unused == 0,
        "stability": agreed if evidence is None else evidence.stability,
        "apart": None if evidence is None else evidence.groups(),
        "trust": None if evidence is None else evidence.trust(gap),
        "unused": unused,
        # An undecided prediction has the gap log k, so the first part is 1 for it at any k.
        "score": gap / math.log(k) + 1 - agreed + unused / k,
        "seconds": round(seconds, 3),
    }


def _stands(row: Row, tol: float) -> bool:
    """Whether the clusters of a number are certified, supported or, without evidence, nearly so."""
    nearly = row["apart"] is None and row["unused"] == 0 and row["gap"] < NEARLY * tol
    return bool(row["certified"] or row["grade"] == "supported" or nearly)


def _order(row: Row, tol: float) -> tuple[int, float]:
    """The largest first of those that stand, then by the score."""
    return (0, -row["n_clusters"]) if _stands(row, tol) else (1, row["score"])


def rank(rows: list[Row], tol: float) -> tuple[int, bool, str]:
    """Give each row its rank; the first number, whether it is recommended, and the words for it."""
    ranked = sorted(rows, key=lambda row: _order(row, tol))
    for place, row in enumerate(ranked, start=1):
        row["rank"] = place
    best, largest = ranked[0], max(row["n_clusters"] for row in rows)
    k, gap, stands_out = best["n_clusters"], f"a gap of {best['gap']:.4f} nats", _stands(best, tol)
    if best["certified"]:
        found = f"{k} clusters: certified, with {gap}"
    elif stands_out:
        found = f"{k} clusters, probably: {best['grade']}, with {gap} (certified below {tol:g})"
    else:
        found = f"No number stands out: none up to {largest} is certified or supported. "
        found += f"The least bad is {k} ({best['grade']}), with {gap}"
    if others := [row["n_clusters"] for row in ranked[:0:-1] if _stands(row, tol)]:
        found += f"; {listing(others)}, which join some of them, would do as well"
    whose = "initialisations" if best["apart"] is None else "parts of the data"
    return k, stands_out, f"{found}; {whose} agree to {best['stability']:.2f}."
