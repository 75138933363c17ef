"""The number of clusters, chosen without labels: fit every number and compare the evidence.

The largest certified number is recommended, or the largest nearly certified one: a smaller number
joins its clusters. Where none is certified but some are supported, two measures must agree: the
number after which modes of the walk decay much faster, and the number at which parts of the data
agree best. If they disagree, no number is recommended, and the words say so. Images have no such
evidence: the size of the gap and the agreement of initialisations rank the numbers.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from time import perf_counter
from typing import Any

from sklearn.utils import check_random_state

from gedilearn.data.arrays import check_enough
from gedilearn.errors import InputError
from gedilearn.estimator import GEDI
from gedilearn.evaluation.clustering import ari

# A gap below this many tolerances is nearly certified: a stray point on the wrong side costs a few
# nats over n.
NEARLY = 5
# Without a certificate: how many times faster the next mode must decay, and by how much another
# number may be more stable.
STEP, AS_STABLE = 1.5, 0.03

Row = dict[str, Any]


@dataclass(frozen=True)
class Choice:
    """The recommended number of clusters, and the evidence for it.

    n_clusters: the number that ranks first.
    stands_out: whether it is recommended; if not, it is only the least bad.
    recommendation: the same in words.
    rows: for each number of clusters: n_clusters, grade, gap (nats, of the best initialisation),
        certified, stability (agreement of parts of the data, or of initialisations), step (how many
        times faster the next mode decays; None without evidence), unused (clusters), score (0 is
        ideal), rank (1 is best), seconds.
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
        rows.append(_row(models[k], fits, perf_counter() - started))
        on_row(dict(rows[-1]))
    best, stands_out, recommendation = rank(rows, models[2].settings_.training.tol)
    return Choice(best, stands_out, recommendation, rows, models)


def _row(best: GEDI, fits: list[GEDI], seconds: float) -> Row:
    k, gap, evidence = best.settings_.n_clusters, best.certificate_gap_, best.diagnosis_.evidence
    agreed = ari(*(model.labels_ for model in fits))
    unused = k - int(best.diagnosis_["clusters in use"].value)
    return {
        "n_clusters": k,
        "grade": best.grade_,
        "gap": gap,
        "certified": best.converged_ and unused == 0,
        "stability": agreed if evidence is None else evidence.stability,
        "step": None if evidence is None else evidence.step,
        "unused": unused,
        # An undecided prediction has the gap log k, so the first part is 1 for it at any k.
        "score": gap / math.log(k) + 1 - agreed + unused / k,
        "seconds": round(seconds, 3),
    }


def _tier(row: Row, tol: float) -> int:
    """0: certified, 1: nearly, 2: supported, 3: neither."""
    if row["certified"]:
        return 0
    trusted = row["unused"] == 0 and (row["step"] is None or row["grade"] == "supported")
    if trusted and row["gap"] < NEARLY * tol:
        return 1
    return 2 if row["grade"] == "supported" else 3


def _order(row: Row, tol: float) -> tuple[int, float]:
    """By tier; the largest first among certified numbers, the largest step among supported ones."""
    tier = _tier(row, tol)
    if tier < 2:
        return tier, -row["n_clusters"]
    return tier, -row["step"] if tier == 2 else row["score"]


def rank(rows: list[Row], tol: float) -> tuple[int, bool, str]:
    """Give each row its rank; the first number, whether it is recommended, and the words for it."""
    ranked = sorted(rows, key=lambda row: _order(row, tol))
    for place, row in enumerate(ranked, start=1):
        row["rank"] = place
    best, largest = ranked[0], max(row["n_clusters"] for row in rows)
    k, tier, gap = best["n_clusters"], _tier(best, tol), f"a gap of {best['gap']:.4f} nats"
    stands_out = tier < 2
    if tier == 0:
        found = f"{k} clusters: the largest certified number up to {largest}, with {gap}"
    elif tier == 1:
        found = f"{k} clusters, probably: nearly certified, with {gap} (certified below {tol:g})"
    elif tier == 2:
        supported = [row for row in ranked if _tier(row, tol) == 2]
        stable = max(supported, key=lambda row: row["stability"])
        is_stable = best["stability"] >= stable["stability"] - AS_STABLE
        stands_out = bool(best["step"] > STEP and is_stable)
        step = f"the next mode of walks decays {best['step']:.1f} times faster"
        found = f"{k} clusters, probably: supported, not certified; {step}"
        if not stands_out:
            found = "No number stands out: the evidence disagrees, or is weak. "
            found += f"{k} clusters by the walks ({step}), {stable['n_clusters']} by stability"
    else:
        found = f"No number stands out: none up to {largest} is certified or supported. "
        found += f"The least bad is {k} ({best['grade']}), with {gap}"
    whose = "initialisations" if best["step"] is None else "parts of the data"
    return k, stands_out, f"{found}; {whose} agree to {best['stability']:.2f}."
