"""The number of clusters, recommended without labels.

For vectors, initial clusterings of every number are compared (`verdict.number`), and one network is
fitted. Images have no such evidence: every number is fitted from two seeds. The largest number that
is nearly certified is recommended, because a smaller one merges its clusters. If there is none, the
size of the bound gap and the agreement of the two fits rank the numbers.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from sklearn.utils import check_random_state

from gedilearn.data.arrays import check_enough
from gedilearn.errors import InputError
from gedilearn.estimator import GEDI
from gedilearn.evaluation.clustering import ari
from gedilearn.progress import SILENT, Progress
from gedilearn.settings import AUTO, MAX_CLUSTERS, is_images
from gedilearn.verdict.number import Number, NumberChoice, Support, best_of

# A bound gap below this many tolerances is nearly certified: a stray point on the wrong side costs
# a few nats over n.
NEARLY = 5


def choose_n_clusters(
    X: Any,
    max_clusters: int | None = None,
    *,
    random_state: Any = None,
    progress: Progress = SILENT,
    **arguments: Any,
) -> NumberChoice:
    """Recommend one of 2 to `max_clusters` clusters for `X`, without labels.

    The largest number is 10 if it is not given, or 300 for embeddings, of which not all are tried.
    `arguments` are those of `GEDI`. The density is left out (``w_gen=0``) unless they ask for it.
    The fitted model is the `model` of the result.

    >>> from sklearn.datasets import make_blobs
    >>> from gedilearn import choose_n_clusters
    >>> X, _ = make_blobs(300, centers=[[0, 0], [0, 9], [9, 0]], random_state=0)
    >>> choose_n_clusters(X, 4, random_state=0).n_clusters
    3
    """
    if max_clusters is not None and max_clusters < 2:
        raise InputError(f"max_clusters={max_clusters}: clustering needs at least 2")
    arguments = {"w_gen": 0.0} | arguments
    data = GEDI(settings=arguments.get("settings")).validate(X, reset=True)
    if max_clusters is not None:
        check_enough(data, max_clusters, "max_clusters")
    if is_images(data.shape):
        most = max_clusters or MAX_CLUSTERS["euclidean"]
        return _by_fits(X, most, random_state, progress, arguments)
    settings = dict(arguments.pop("settings", None) or {}) | {"training.max_clusters": max_clusters}
    model = GEDI(AUTO, random_state=random_state, settings=settings, **arguments)
    choice = model.fit_run(X, None, progress=progress).choice_
    if choice is None:
        raise InputError("prior: proportions give the number of clusters already; leave them out")
    return replace(choice, model=model)


def _by_fits(
    X: Any, most: int, random_state: Any, progress: Progress, arguments: dict[str, Any]
) -> NumberChoice:
    """Every number is fitted from the same two seeds."""
    seeds = check_random_state(random_state).randint(2**31 - 1, size=2).tolist()
    numbers, models = list[Number](), list[GEDI]()
    progress.phase("choosing the number of clusters")
    for k in range(2, most + 1):
        progress.step(k - 2, most - 1)
        fits = [GEDI(k, random_state=seed, **arguments).fit(X) for seed in seeds]
        models.append(min(fits, key=lambda model: model.bound_gap_))
        numbers.append(_number(models[-1], ari(*(model.labels_ for model in fits))))
    choice = best_of(numbers)
    return replace(choice, model=models[choice.n_clusters - 2])


def _number(best: GEDI, stability: float) -> Number:
    k, gap = best.n_clusters_, best.bound_gap_
    unused = k - int(best.diagnosis_["clusters in use"].value)
    nearly = unused == 0 and gap < NEARLY * best.settings_.training.tol
    support: Support = "bound gap" if nearly else None
    return Number(k, stability, support, bound_gap=gap, unused=unused)
