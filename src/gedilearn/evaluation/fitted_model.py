"""Everything that can be said of a fitted model on test data, in one plain dictionary.

Labels are used here and only here, after the fact. Numbers that are easily misread never come
alone: the batch-wise NMI has its chance level beside it, OOD scores have what counting pixels
achieves, and a Frechet distance has the distance between real images.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np

from gedilearn.data.arrays import check_same_shape, evenly_spaced
from gedilearn.data.dataset import Dataset
from gedilearn.errors import InputError
from gedilearn.estimator import GEDI
from gedilearn.evaluation import frechet as distances
from gedilearn.evaluation.clustering import batchwise_nmi, clustering_scores
from gedilearn.evaluation.network import Seen, Tell, every_score, read
from gedilearn.evaluation.ood import Roc, compare, converted_for
from gedilearn.evaluation.probe import fast_probe, knn_accuracy, paper_probe
from gedilearn.evaluation.result_page import SHOWN, Clustered, write_result
from gedilearn.training.environment import check_steps

Probe = Literal["fast", "paper", "none"]
Part = dict[str, Any]

BATCH = 64  # of the batch-wise NMI
NEIGHBOURS = 20
NOTHING: Clustered = np.empty(0), np.empty(0, dtype=int)
CHAINS_AT_ONCE = 100  # of images; a wide network holds no more in memory


def evaluate(
    model: GEDI,
    train: Dataset | None,
    test: Dataset,
    *,
    others: Mapping[str, Dataset] | None = None,
    n_samples: int = 500,
    steps: int | None = None,
    probe: Probe = "fast",
    frechet: bool = True,
    weights: Path | None = None,
    certificate: bool = True,
    buffer: np.ndarray | None = None,
    most: int = 10_000,
    out: Path | None = None,
    tell: Tell = lambda text: None,
) -> dict[str, Any]:
    """Measure `model` on `test`; vectors or images. The result is plain JSON.

    Parts that do not apply hold ``{"skipped": "why"}`` instead of their numbers:

    data        {"train", "test": names or None, "n_train", "n_test", "shape", "test_is_train"}
    clustering  {"n", "n_clusters", "clusters_used"} and, with labels, {"nmi", "ami", "ari",
                "accuracy", "batchwise_nmi": {"nmi", "chance", "batch_size"}}, over all of `test`
    certificate {"gap", "certified", "grade", "verdict", "findings", ..., "n"} of `model.diagnose`
    ood         for each name in `others` {"n_inside", "n_outside", "changes", "scores": {score:
                {"auroc", "fpr95"}}, "trivial": {score: {"auroc", "fpr95", "direction"}}}; scores
                log_density, gradient_norm, confidence; trivial ones mean_pixel, nonzero_share for
                images and distance_from_mean for vectors, in the direction that separates better
    probe       {"linear", "knn": {"accuracy", "method", "settings", "n_train", "n_test"}}
    samples     {"n", "finite", "steps", "clusters_used", "share_off", "seconds"}; share_off is how
                far a cluster's share of them is from its share of `test`, as a part of the
                latter, at most
    frechet     {"title", "distance", "floor", "space", "n"}; the title is FID only where it is
    files       names of what was written into `out`
    seconds     the time that measuring took

    Parameters
    ----------
    train: what the model was fitted to; needed for the probe and for nearest training images
    test: the data measured; may be `train` itself, and the result says so
    others: data outside, by name; images are brought to the model's channels, size and range
    n_samples, steps: how many samples, and Langevin steps for each; 0 samples skip all that needs
        them
    probe: 'fast' logistic regression, the 'paper' protocol on all of `train`, or 'none' (no kNN)
    frechet: whether to compare samples with real images; weights: a file of Inception, for FID
    certificate: False where the views of the fit are not at hand
    buffer: images of the replay buffer, in the data's units (`read_buffer`), for a picture
    most: points used at most of each set for OOD, the certificate and the Frechet distance, and of
        `train` for the fast probe and kNN, evenly drawn; clustering uses all
    out: folder for evaluation.json, evaluation.md, roc.png, samples.png, nearest.png, buffer.png
    tell: receives one line for each part begun
    """
    begin = time.perf_counter()
    # What would fail in the end is refused before any work.
    for name, value, least in (("n_samples", n_samples, 0), ("most", most, 2)):
        if value < least:
            raise InputError(f"{name}={value}: give at least {least}")
    if steps is not None:
        check_steps(steps)
    if probe not in get_args(Probe):
        raise InputError(f"probe={probe!r}: expected one of {', '.join(get_args(Probe))}")
    for data in (test, train):
        if data is not None:
            check_same_shape(data.x, model.point_shape_, data.name)
    reference = (train or test).x
    outside = {
        name: converted_for(model, reference, name, other, most)
        for name, other in (others or {}).items()
    }
    extract = _extractor(model, frechet, weights, n_samples)
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)

    tell(f"clusters of {len(test.x)} points")
    seen = read(model, test.x)
    inside = evenly_spaced(len(test.x), most)
    x = test.x[inside]
    result: dict[str, Any] = {
        "data": {
            "train": train.name if train else None,
            "test": test.name,
            "n_train": len(train.x) if train else None,
            "n_test": len(test.x),
            "shape": list(test.x.shape[1:]),
            "test_is_train": train is not None and test.x is train.x,
        },
        "clustering": _clustering(model, test, seen),
        "certificate": _part(_certificate, model, x, certificate),
        "ood": {},
    }
    curves: dict[str, dict[str, Roc]] = {}
    known = {kind: values[inside] for kind, values in seen.scores.items()}
    ours = every_score(model, x, known) if outside else {}
    for name, (other, changes) in outside.items():
        tell(f"points outside: {name}")
        part, curves[name] = compare(model, reference, x, ours, other)
        result["ood"][name] = {"changes": changes, **part}

    if probe != "none":
        tell(f"probe: {probe}")
    result["probe"] = _part(_probe, model, train, test, seen, probe, most)

    samples, result["samples"] = _draw(model, n_samples, steps, seen, tell)
    if not isinstance(extract, str):
        tell(f"Frechet distance in {extract.space}")
    result["frechet"] = _part(_frechet, extract, x, samples[0], reference)

    result |= {"files": [], "seconds": round(time.perf_counter() - begin, 3)}
    if out is not None:
        chains = NOTHING
        if buffer is not None:
            shown = buffer[evenly_spaced(len(buffer), SHOWN)]
            chains = shown, read(model, shown).labels
        write_result(out, result, curves, reference, samples, chains, train.x if train else None)
    return result


# --- the parts ----------------------------------------------------------------------------------


def _skipped(why: str) -> Part:
    return {"skipped": why}


def _part(measure: Callable[..., Part], *arguments: Any) -> Part:
    """What is measured, or why it cannot be: too few points, a single class, nothing finite."""
    try:
        return measure(*arguments)
    except InputError as error:
        return _skipped(str(error))


def _clustering(model: GEDI, test: Dataset, seen: Seen) -> Part:
    part: Part = {
        "n": len(seen.labels),
        "n_clusters": model.settings_.n_clusters,
        "clusters_used": len(np.unique(seen.labels)),
    }
    if test.y is None:
        return part | _skipped(f"{test.name} has no labels")
    part |= clustering_scores(test.y, seen.labels)
    in_batches = _skipped(f"fewer than {BATCH} points")
    if len(seen.labels) >= BATCH:
        in_batches = batchwise_nmi(test.y, seen.labels, BATCH)._asdict() | {"batch_size": BATCH}
    return part | {"batchwise_nmi": in_batches}


def _certificate(model: GEDI, x: np.ndarray, wanted: bool) -> Part:
    if not wanted:
        return _skipped("no views at hand")
    return model.diagnose(x).to_json() | {"n": len(x)}


def _probe(
    model: GEDI, train: Dataset | None, test: Dataset, seen: Seen, probe: Probe, most: int
) -> Part:
    if probe == "none":
        return _skipped("not asked")
    if train is None or train.y is None or test.y is None:
        return _skipped("needs training and test data with labels")
    if test.x is train.x:
        return _skipped("the test data is the training data, which a probe would know already")
    n = len(train.x)
    rows = evenly_spaced(n, most if probe == "fast" else n)
    x, y = read(model, train.x[rows]).features, train.y[rows]
    few = evenly_spaced(len(x), most)  # the paper's probe takes all, neighbours do not
    k, n_test = min(NEIGHBOURS, len(few)), {"n_test": len(test.x)}
    fit = fast_probe if probe == "fast" else paper_probe
    linear = vars(fit(x, y, seen.features, test.y)) | {"n_train": len(x)}
    knn = vars(knn_accuracy(x[few], y[few], seen.features, test.y, k)) | {"n_train": len(few)}
    return {"linear": linear | n_test, "knn": knn | n_test}


def _draw(model: GEDI, n: int, steps: int | None, seen: Seen, tell: Tell) -> tuple[Clustered, Part]:
    """Samples in the data's units, those that are finite, and their clusters."""
    if n == 0:
        return NOTHING, _skipped("not asked")
    begin = time.perf_counter()
    size = CHAINS_AT_ONCE if len(model.point_shape_) == 3 else n
    drawn = []
    for k, start in enumerate(range(0, n, size)):
        tell(f"samples: {start} of {n} drawn")
        drawn.append(model.sample(min(size, n - start), steps=steps, random_state=k))
    x, y = (np.concatenate(parts) for parts in zip(*drawn, strict=True))
    finite = np.isfinite(x).all(axis=tuple(range(1, x.ndim)))
    x, y = x[finite], y[finite]
    part = {"n": n, "finite": len(x), "steps": steps, "clusters_used": len(np.unique(y))}
    seconds = round(time.perf_counter() - begin, 3)
    return (x, y), part | {"share_off": share_off(y, seen.labels), "seconds": seconds}


def share_off(drawn: np.ndarray, labels: np.ndarray) -> float | None:
    """How far a cluster's share of samples is from its share of data, as a part of it, at most.

    Clusters that the data does not have are left out; None without samples.
    """
    if not len(drawn):
        return None
    clusters, counts = np.unique(labels, return_counts=True)
    shares = (drawn[:, None] == clusters).mean(0)
    return float(np.abs(shares / (counts / len(labels)) - 1).max())


def _extractor(
    model: GEDI, wanted: bool, weights: Path | None, n_samples: int
) -> distances.Extractor | str:
    """The network for features, or why there is none; a bad file is refused before any work."""
    shape = model.point_shape_
    if not wanted or n_samples == 0:
        return "not asked" if not wanted else "no samples"
    if len(shape) != 3 or shape[0] not in (1, 3):
        return "only for images with 1 or 3 channels"
    try:
        return distances.extractor(weights)
    except InputError as error:
        if weights is not None:
            raise
        return str(error)


def _frechet(
    extract: distances.Extractor | str, x: np.ndarray, samples: np.ndarray, reference: np.ndarray
) -> Part:
    if isinstance(extract, str):
        return _skipped(extract)
    result = distances.frechet(x, samples, extract, reference=reference)
    return {"title": result.title, **vars(result)}
