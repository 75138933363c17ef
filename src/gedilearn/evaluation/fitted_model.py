"""All measures of a fitted model on test data, in one plain dictionary and a table.

Labels are used after the fit only. Numbers that are easy to misread have a reference: the chance
level of the batch-wise NMI, OOD scores without a model, and the Frechet distance between real
images.
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
from gedilearn.evaluation import ood
from gedilearn.evaluation.clustering import batchwise_nmi, clustering_scores
from gedilearn.evaluation.probe import fast_probe, paper_probe
from gedilearn.io import replacing, write_json
from gedilearn.training.environment import check_steps
from gedilearn.training.result import Score

Probe = Literal["fast", "paper", "none"]
Part = dict[str, Any]
Say = Callable[[str], None]
Clustered = tuple[np.ndarray, np.ndarray]  # points and their clusters
Line = tuple[str, str, str]  # a measure, its value, its reference or condition

MOST = 10_000  # points of a set, for parts that do not use all
BATCH = 64  # of the batch-wise NMI
CHAINS_AT_ONCE = 100  # of images
SHOWN, COLUMNS = 200, 20  # samples in a picture
BORDER = 2  # white pixels between images
TITLES = {
    "log_density": "log p(x)",
    "gradient_norm": "-||grad log p(x)||",
    "confidence": "max p(y|x)",
    "energy": "logsumexp of the logits",
    "mean_pixel": "mean pixel",
    "nonzero_share": "share of non-zero pixels",
    "distance_from_mean": "distance from the mean",
}
LEARNT = get_args(Score)  # all other scores need no model


def evaluate(
    model: GEDI,
    train: Dataset | None,
    test: Dataset,
    *,
    others: Mapping[str, Dataset] | None = None,
    n_samples: int = 500,
    steps: int | None = None,
    probe: Probe = "fast",
    certificate: bool = True,
    out: Path | None = None,
    say: Say = lambda text: None,
) -> dict[str, Any]:
    """Measure `model` on `test`; vectors or images. The result is plain JSON.

    Parts that do not apply are ``{"skipped": "why"}``:

    data        {"train", "test": names or None, "n_train", "n_test", "shape", "test_is_train"}
    clustering  {"n", "n_clusters", "clusters_used"} and, with labels, {"nmi", "ami", "ari",
                "accuracy", "batchwise_nmi": {"nmi", "chance", "batch_size"}}, over all of `test`
    certificate {"bound_gap", "certified", "grade", "findings", ..., "n"} of `model.diagnose`
    ood         for each name in `others` {"n_inside", "n_outside", "changes", "scores": {score:
                {"auroc", "fpr95"}}, "trivial": {score: {"auroc", "fpr95", "direction"}}}; the
                trivial scores mean_pixel and nonzero_share of images and distance_from_mean of
                vectors use the direction that separates better
    probe       {"accuracy", "method", "n_train"}
    samples     {"n", "finite", "steps", "clusters_used", "share_off"} (`share_off`)
    frechet     {"title", "distance", "floor", "space", "n"}; the title is FID for that space alone
    files       names of files written into `out`
    seconds     duration

    OOD, the certificate and the Frechet distance use at most `MOST` points of each set, evenly
    spaced. The fast probe uses as many of `train`.

    Parameters
    ----------
    train: the data of the fit, needed for the probe
    test: the data to measure; may be `train` itself, and the result says so
    others: OOD data by name; images are converted to the model's channels, size and range
    n_samples, steps: the number of samples, and of Langevin steps for each; 0 samples skip the
        parts that need them
    probe: 'fast' logistic regression, the 'paper' protocol on all of `train`, or 'none'
    certificate: False where the views of the fit are not available
    out: folder for evaluation.json and, for images, samples.png
    say: receives one line at the begin of each part
    """
    begin = time.perf_counter()
    # Input that would fail later is refused before any work.
    if n_samples < 0:
        raise InputError(f"n_samples={n_samples}: give at least 0")
    if steps is not None:
        check_steps(steps)
    if probe not in get_args(Probe):
        raise InputError(f"probe={probe!r}: expected one of {', '.join(get_args(Probe))}")
    for data in (test, train):
        if data is not None:
            check_same_shape(data.x, model.point_shape_, data.name)
    reference = (train or test).x
    outside = {
        name: _outside(model, reference, name, _some(other.x))
        for name, other in (others or {}).items()
    }
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)

    say(f"clusters of {len(test.x)} points")
    labels, x = model.predict(test.x), _some(test.x)
    result: dict[str, Any] = {
        "data": {
            "train": train.name if train else None,
            "test": test.name,
            "n_train": len(train.x) if train else None,
            "n_test": len(test.x),
            "shape": list(test.x.shape[1:]),
            "test_is_train": train is not None and test.x is train.x,
        },
        "clustering": _clustering(model, test, labels),
        "certificate": _part(_certificate, model, x, certificate),
        "ood": {},
    }
    inside = _scores(model, x) if outside else {}
    for name, (other, changes) in outside.items():
        say(f"OOD data: {name}")
        result["ood"][name] = {"changes": changes, **_ood(model, reference, x, inside, other)}
    say(f"probe: {probe}")
    result["probe"] = _part(_probe, model, train, test, probe)
    samples, result["samples"] = _draw(model, n_samples, steps, labels, say)
    say("Frechet distance")
    result["frechet"] = _part(_frechet, x, samples[0], reference)
    result |= {"files": [], "seconds": round(time.perf_counter() - begin, 3)}
    if out is not None:
        _write(out, result, reference, *samples)
    return result


def _some(x: np.ndarray) -> np.ndarray:
    return np.asarray(x[evenly_spaced(len(x), MOST)])


def _scores(model: GEDI, x: np.ndarray) -> ood.Scores:
    return {kind: model.score_samples(x, kind) for kind in LEARNT}


# --- the parts ----------------------------------------------------------------------------------


def _skipped(why: str) -> Part:
    return {"skipped": why}


def _part(measure: Callable[..., Part], *arguments: Any) -> Part:
    """The numbers, or why there are none: too few points, one class, nothing finite."""
    try:
        return measure(*arguments)
    except InputError as error:
        return _skipped(str(error))


def _clustering(model: GEDI, test: Dataset, labels: np.ndarray) -> Part:
    part: Part = {
        "n": len(labels),
        "n_clusters": model.settings_.n_clusters,
        "clusters_used": len(np.unique(labels)),
    }
    if test.y is None:
        return part | _skipped(f"{test.name} has no labels")
    batchwise = _part(lambda y: batchwise_nmi(y, labels, BATCH)._asdict(), test.y)
    scores = clustering_scores(test.y, labels)
    return part | scores | {"batchwise_nmi": batchwise | {"batch_size": BATCH}}


def _certificate(model: GEDI, x: np.ndarray, available: bool) -> Part:
    if not available:
        return _skipped("the views of the fit are not available")
    part = model.diagnose(x).to_json()
    return {"bound_gap": part.pop("gap"), **part, "n": len(x)}


def _outside(
    model: GEDI, reference: np.ndarray, name: str, x: np.ndarray
) -> tuple[np.ndarray, str]:
    """Points in the shape and range of the model, and the changes; other shapes are refused."""
    if x.ndim == 4 and len(model.point_shape_) == 3:
        return ood.converted(x, model.point_shape_, ood.value_range(reference))
    check_same_shape(x, model.point_shape_, name)
    return x, "none"


def _ood(
    model: GEDI,
    reference: np.ndarray,
    inside: np.ndarray,
    scores_inside: ood.Scores,
    outside: np.ndarray,
) -> Part:
    """How every score separates two sets of points."""
    scores = ood.separation(scores_inside, _scores(model, outside))
    counts = {"n_inside": len(inside), "n_outside": len(outside)}
    if inside.ndim == 2:  # columns have different units
        reference, inside, outside = map(model.scaling_.apply, (reference, inside, outside))
    simple = (ood.trivial_scores(reference, x) for x in (inside, outside))
    trivial = ood.separation(*simple, signed=False)
    return counts | {"scores": scores, "trivial": trivial}


def _probe(model: GEDI, train: Dataset | None, test: Dataset, probe: Probe) -> Part:
    if probe == "none":
        return _skipped("not requested")
    if train is None or train.y is None or test.y is None:
        return _skipped("needs training and test data with labels")
    if test.x is train.x:
        return _skipped("the test data is the training data of the probe")
    fit, method, most = fast_probe, "logistic regression, standardised features", MOST
    if probe == "paper":
        method = "linear layer, SGD with momentum, features as they are"
        fit, most = paper_probe, len(train.x)
    rows = evenly_spaced(len(train.x), most)
    x, y = model.transform(train.x[rows]), train.y[rows]
    accuracy = fit(x, y, model.transform(test.x), test.y)
    return {"accuracy": accuracy, "method": method, "n_train": len(x)}


def _draw(
    model: GEDI, n: int, steps: int | None, labels: np.ndarray, say: Say
) -> tuple[Clustered, Part]:
    """The finite samples, in the data's units, and their clusters."""
    if n == 0:
        return (np.empty(0), np.empty(0)), _skipped("not requested")
    size = CHAINS_AT_ONCE if len(model.point_shape_) == 3 else n
    drawn = []
    for k, start in enumerate(range(0, n, size)):
        say(f"samples: {start} of {n} drawn")
        drawn.append(model.sample(min(size, n - start), steps=steps, random_state=k))
    x, y = (np.concatenate(parts) for parts in zip(*drawn, strict=True))
    finite = np.isfinite(x).all(axis=tuple(range(1, x.ndim)))
    x, y = x[finite], y[finite]
    part = {"n": n, "finite": len(x), "steps": steps, "clusters_used": len(np.unique(y))}
    return (x, y), part | {"share_off": share_off(y, labels)}


def share_off(drawn: np.ndarray, labels: np.ndarray) -> float | None:
    """The largest relative difference between a cluster's share of samples and its share of data.

    Clusters without data are left out; None without samples.
    """
    if not len(drawn):
        return None
    clusters, counts = np.unique(labels, return_counts=True)
    shares = (drawn[:, None] == clusters).mean(0)
    return float(np.abs(shares / (counts / len(labels)) - 1).max())


def _frechet(x: np.ndarray, samples: np.ndarray, reference: np.ndarray) -> Part:
    if not len(samples):
        return _skipped("no samples")
    if x.ndim != 4 or x.shape[1] not in (1, 3):
        return _skipped("only for images with 1 or 3 channels")
    result = distances.frechet(x, samples, distances.extractor(), reference=reference)
    return {"title": result.title, **vars(result)}


# --- the table ------------------------------------------------------------------------------------


def table(result: Mapping[str, Any]) -> list[Line]:
    """The main numbers, one per line; parts that were skipped say why."""
    clusters, certificate = result["clustering"], result["certificate"]
    lines = [("clusters used", str(clusters["clusters_used"]), f"of {clusters['n_clusters']}")]
    if "skipped" in clusters:
        lines.append(_line("clusters compared with labels", clusters))
    else:
        batches, whole = clusters["batchwise_nmi"], "whole test set"
        lines += [
            _line(name.upper(), clusters, f"{{{name}:.3f}}", whole)
            for name in ("nmi", "ami", "ari")
        ]
        lines.append(_line("accuracy", clusters, "{accuracy:.3f}", "best one-to-one assignment"))
        title, chance = f"NMI, mean of batches of {BATCH}", "random labels: {chance:.3f}"
        lines.append(_line(title, batches, "{nmi:.3f}", chance))
    status = "certified" if certificate.get("certified") else "not certified"
    lines.append(
        _line("bound gap", certificate, "{bound_gap:.3g} nats", status + ", on {n} points")
    )
    for name, part in result["ood"].items():
        for kind, numbers in (part["scores"] | part["trivial"]).items():
            trivial = "; without a model, {direction}" if kind not in LEARNT else ""
            title, beside = f"AUROC, {name}: {TITLES[kind]}", "FPR at 95% TPR: {fpr95:.3f}"
            lines.append(_line(title, numbers, "{auroc:.3f}", beside + trivial))
    beside = "{method}; {n_train} training points"
    lines.append(_line("linear probe, accuracy", result["probe"], "{accuracy:.3f}", beside))
    samples, distance = result["samples"], result["frechet"]
    lines.append(_line("samples", samples, "{n}", "{finite} finite, in clusters: {clusters_used}"))
    title = distance.get("title", "Frechet distance")
    beside = "real to real: {floor:.2f}; {n} images on each side"
    return [*lines, _line(title, distance, "{distance:.2f}", beside)]


def _line(title: str, part: Mapping[str, Any], value: str = "", beside: str = "") -> Line:
    """`value` and `beside` filled with the numbers of the part, or why it was skipped."""
    if "skipped" in part:
        return title, "-", part["skipped"]
    return title, value.format(**part), beside.format(**part)


def heading(result: Mapping[str, Any]) -> str:
    """Which data was measured, and whether the model was fitted to it."""
    data = result["data"]
    where = f". The model was fitted to {data['train'] or 'data that was not found'}."
    if data["test_is_train"]:
        where = ", which is the training data."
    return f"Measured on {data['n_test']} points of {data['test']}{where}"


# --- files ----------------------------------------------------------------------------------------


def _write(
    out: Path, result: dict[str, Any], reference: np.ndarray, x: np.ndarray, labels: np.ndarray
) -> None:
    """Write numbers and, for images, a picture of samples, in the place of earlier ones.

    Black and white are those of `reference`, data like that of the fit.
    """
    from PIL import Image

    numbers, picture = out / "evaluation.json", out / "samples.png"
    picture.unlink(missing_ok=True)
    result["files"] = [numbers.name]
    if reference.ndim == 4 and reference.shape[1] in (1, 3) and len(x):
        pixels = ood.as_bytes(x[:SHOWN], ood.value_range(reference))
        with replacing(picture) as temporary:
            Image.fromarray(image_grid(pixels, labels[:SHOWN])).save(temporary, format="PNG")
        result["files"].append(picture.name)
    write_json(numbers, result)


def image_grid(images: np.ndarray, labels: np.ndarray, columns: int = COLUMNS) -> np.ndarray:
    """Bytes (n, c, h, w), c 1 or 3, in one picture (height, width, 3) with white lines between.

    Images are sorted by label.
    """
    n, _, height, width = images.shape
    columns = min(columns, n)
    framed = np.full((n + -n % columns, height + BORDER, width + BORDER, 3), 255, dtype=np.uint8)
    framed[:n, :height, :width] = images[np.argsort(labels, kind="stable")].transpose(0, 2, 3, 1)
    rows = framed.reshape(-1, columns, *framed.shape[1:])
    picture = rows.swapaxes(1, 2).reshape(-1, columns * (width + BORDER), 3)
    return picture[:-BORDER, :-BORDER]
