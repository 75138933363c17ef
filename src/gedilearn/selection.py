"""The number of clusters, chosen without labels: fit every number and compare what vouches for it.

A wrong number is seldom certified: too many clusters must cut through a connected group, which
long walks notice; too few must join groups of unequal shares, which the prior notices. So the
certificate decides where there is one, or nearly one. Where there is none, the size of the gap, the
agreement of different initialisations and unused clusters rank the numbers, but none is
recommended.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import combinations, cycle
from time import perf_counter
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from gedilearn.data.arrays import Scaling, check_enough, evenly_spaced
from gedilearn.data.graph import surviving_modes, walk_tables
from gedilearn.errors import InputError
from gedilearn.estimator import GEDI
from gedilearn.evaluation.clustering import ari

# Clusters only, and not for long: certified fits end within a few hundred iterations, and the
# others are only compared.
DEFAULTS: dict[str, Any] = {"w_gen": 0.0, "max_iter": 800}
# The seeds take turns with these. One link too many joins two groups of a sparse set, and no number
# is right any more; fewer neighbours keep them apart but may break a group. So both are tried.
NEIGHBOURS = (10, 7)
LINKS = "views.n_neighbors"
OWN = ("n_clusters", "n_init", "random_state", "run_dir")

# A gap below this many tolerances is nearly certified. A stray point on the wrong side costs a few
# nats over n. The smallest gap seen of a wrong number was 9 tolerances: 7 blobs as 3 groups of 2, 2
# and 3, where the prior alone objects.
NEARLY = 5
# Points looked at for the spectrum of the neighbour graph.
MOST_POINTS = 5_000

Row = dict[str, Any]


@dataclass(frozen=True)
class Choice:
    """The recommended number of clusters, and what it rests on.

    n_clusters: the number that ranks first.
    stands_out: whether it is recommended; if not, it is only the least bad.
    recommendation: the same in words.
    slow_modes: groups that long walks on the neighbour graph tell apart, None if unclear. It
        supports the choice and does not make it.
    rows: for each number of clusters: n_clusters, gap (nats, of the best initialisation),
        certified, stability (mean adjusted Rand index between the fits), unused (clusters),
        score (0 is ideal), rank (1 is best), seconds.
    models: the best fitted model for each number.
    """

    n_clusters: int
    stands_out: bool
    recommendation: str
    slow_modes: int | None
    rows: list[Row]
    models: dict[int, GEDI]

    @property
    def model(self) -> GEDI:
        """The model with the recommended number of clusters."""
        return self.models[self.n_clusters]

    def to_json(self) -> dict[str, Any]:
        """All but the models."""
        names = ("n_clusters", "stands_out", "recommendation", "slow_modes", "rows")
        return {name: getattr(self, name) for name in names}


def choose_n_clusters(
    X: Any,
    max_clusters: int = 10,
    *,
    random_state: Any = None,
    n_init: int = 2,
    on_row: Callable[[Row], None] | None = None,
    **arguments: Any,
) -> Choice:
    """Fit `X` with 2 to `max_clusters` clusters and recommend a number, without labels.

    Each number is fitted from `n_init` seeds, the same ones for every number, in turn with 10 and 7
    neighbours in the graph unless ``settings`` has ``views.n_neighbors``. `arguments` are those of
    `GEDI`; by default the density is left out (``w_gen=0``) and training is short. Clusters are
    expected to be of about equal size. `on_row` is called with each number's row when it is fitted,
    still without a rank.

    >>> from sklearn.datasets import make_blobs
    >>> from gedilearn import choose_n_clusters
    >>> X, _ = make_blobs(300, centers=[[0, 0], [0, 9], [9, 0]], random_state=0)
    >>> choose_n_clusters(X, 4, random_state=0).n_clusters
    3
    """
    _check_arguments(max_clusters, n_init, arguments)
    settings = dict(arguments.pop("settings", None) or {})
    arguments = DEFAULTS | arguments
    data = GEDI().validate(X, reset=True)
    try:
        check_enough(data, max_clusters)
    except InputError as error:
        raise InputError(str(error).replace("n_clusters", "max_clusters")) from None
    seeds = check_random_state(random_state).randint(2**31 - 1, size=n_init).tolist()
    rows: list[Row] = []
    models = {}
    for k in range(2, max_clusters + 1):
        started = perf_counter()
        fits = [
            GEDI(k, random_state=seed, settings={LINKS: neighbours} | settings, **arguments).fit(X)
            for seed, neighbours in zip(seeds, cycle(NEIGHBOURS), strict=False)
        ]
        models[k] = min(fits, key=lambda model: model.certificate_gap_)
        rows.append(_row(models[k], fits, perf_counter() - started))
        if on_row is not None:
            on_row(dict(rows[-1]))
    tol = models[2].settings_.training.tol
    ranked = sorted(rows, key=lambda row: _order(row, tol))
    for place, row in enumerate(ranked, start=1):
        row["rank"] = place
    modes = None
    if data.ndim == 2:
        scaled = Scaling.of(data, settings.get("scaling", "standard")).apply(data)
        modes = slow_modes(scaled, max_clusters, settings.get(LINKS, NEIGHBOURS[0]), seeds[0])
    best = ranked[0]
    words = _words(ranked, modes, tol)
    return Choice(best["n_clusters"], _tier(best, tol) < 2, words, modes, rows, models)


def slow_modes(x: np.ndarray, most: int, n_neighbors: int = 10, seed: int = 0) -> int | None:
    """How many groups the walks on the neighbour graph of ``x`` (n, d) tell apart for long.

    The components of the graph if there are several. Of a connected graph, the number of modes
    that survives the most doublings of the walk's length; None if that is 1, or no number lasts.
    """
    x = x[evenly_spaced(len(x), MOST_POINTS)]
    tables = walk_tables(x, most, n_neighbors=n_neighbors, random_state=seed)
    if tables.n_components > 1:
        return tables.n_components
    traces = walk_tables(x, 1, n_neighbors=n_neighbors, random_state=seed).traces
    counted = [round(surviving_modes(traces[i : i + 3])) for i in range(len(traces) - 2)]
    lasting = {k: counted.count(k) for k in range(2, most + 1)}
    longest = max(lasting.values())
    # Without groups the modes die one after another, and two doublings pass any number by.
    leaders = [k for k, doublings in lasting.items() if doublings == longest]
    return leaders[0] if longest >= 3 and len(leaders) == 1 else None


def _check_arguments(max_clusters: int, n_init: int, arguments: dict[str, Any]) -> None:
    if max_clusters < 2:
        raise InputError(f"max_clusters={max_clusters}: clustering needs at least 2")
    if n_init < 2:
        raise InputError(f"n_init={n_init}: stability compares at least 2 initialisations")
    known = set(inspect.signature(GEDI).parameters) - set(OWN)
    for name in arguments:
        if name not in known:
            raise InputError(f"{name}: not an argument of GEDI that can be given here")


def _row(best: GEDI, fits: list[GEDI], seconds: float) -> Row:
    pairs = combinations((model.labels_ for model in fits), 2)
    k, gap = best.settings_.n_clusters, best.certificate_gap_
    stability = float(np.mean([ari(a, b) for a, b in pairs]))
    unused = k - int(best.diagnosis_["clusters in use"].value)
    return {
        "n_clusters": k,
        "gap": gap,
        "certified": best.converged_ and unused == 0,
        "stability": stability,
        "unused": unused,
        # An undecided prediction has the gap log k, so the first part is 1 for it at any k.
        "score": gap / math.log(k) + 1 - stability + unused / k,
        "seconds": round(seconds, 3),
    }


def _tier(row: Row, tol: float) -> int:
    """0: certified, 1: nearly, 2: not."""
    if row["certified"]:
        return 0
    return 1 if row["gap"] < NEARLY * tol and row["unused"] == 0 else 2


def _order(row: Row, tol: float) -> tuple[int, float]:
    """Certified numbers first, then nearly certified ones, the largest first among them.

    The clusters of a smaller certified number are joined from those of the larger one: groups of
    groups. The larger number says more, and nothing vouches for it less.
    """
    tier = _tier(row, tol)
    return tier, -row["n_clusters"] if tier < 2 else row["score"]


def _words(ranked: list[Row], modes: int | None, tol: float) -> str:
    best = ranked[0]
    k, gap = best["n_clusters"], f"a gap of {best['gap']:.4f} nats"
    tried = sorted(row["n_clusters"] for row in ranked)
    span = f"{tried[0]} to {tried[-1]}" if len(tried) > 1 else f"{k}"
    certified = sorted(row["n_clusters"] for row in ranked if row["certified"])
    parts = []
    if _tier(best, tol) == 2:
        parts.append(f"no number stands out: none of {span} is certified, or nearly")
        found = f"the least bad is {k}, with a gap of {best['gap']:.3f} nats"
    elif not certified:
        found = f"{k} clusters, probably: none of {span} is certified, but {k} is nearly, "
        found += f"with {gap} (certified below {tol:g})"
    elif len(certified) == 1:
        found = f"{k} clusters: certified with {gap}, alone among {span}"
    else:
        listed = ", ".join(map(str, certified))
        found = f"{k} clusters: the finest of several certified numbers ({listed}), with {gap}; "
        found += "a smaller one joins its clusters to groups"
    agreement = f"initialisations agree to {best['stability']:.2f} (adjusted Rand index, 1 at best)"
    parts.append(f"{found}; {agreement}")
    if modes is not None:
        also = "also " if modes == k else ""
        parts.append(f"long walks on the neighbour graph {also}tell {modes} groups apart")
    if len(ranked) > 1:
        second = ranked[1]
        state = "certified" if second["certified"] else "not certified"
        parts.append(f"runner-up: {second['n_clusters']}, {state}, gap {second['gap']:.3f} nats")
    return ". ".join(part[0].upper() + part[1:] for part in parts) + "."
