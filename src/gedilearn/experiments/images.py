"""The image half of the paper: five methods trained on images, each measured on the test images.

A row is one training: (data, method, seed). SVHN, CIFAR-10 and CIFAR-100 are run with the paper's
settings or scaled down, MNIST and the digits with the library's own defaults. k-means on the pixels
has rows as well: what it finds needs no network.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from sklearn.cluster import KMeans

from gedilearn import evaluation
from gedilearn.data.dataset import Dataset, fingerprint
from gedilearn.data.published import is_cached, open_set
from gedilearn.data.toy import digits
from gedilearn.errors import InputError
from gedilearn.estimator import GEDI
from gedilearn.evaluation.clustering import batchwise_nmi, clustering_scores
from gedilearn.experiments.runner import (
    IN_MEMORY,
    KMEANS,
    Key,
    Options,
    Row,
    Runner,
    adjusted,
    chosen,
    outcome,
    timed,
)
from gedilearn.presets import preset
from gedilearn.settings import resolve
from gedilearn.training.run import RunDirectory, read_config, settings_of

METHODS = ("jem", "barlow", "swav", "no-gen", "gedi")
MOST_FOR_KMEANS = 10_000


@dataclass(frozen=True)
class Measuring:
    """How a trained model is measured, see `evaluation.evaluate`."""

    samples: int = 500
    steps: int | None = None
    probe: evaluation.Probe = "fast"
    weights: Path | None = None


class Scale(NamedTuple):
    """How large a run is: the preset, and what is run and measured unless something else is asked.

    At the paper's scale that is its protocol, and half as many samples as there are test images.
    """

    preset: str
    title: str
    seeds: int = 1
    methods: tuple[str, ...] = METHODS
    measuring: Measuring = Measuring()


SCALES = {
    "paper": Scale(
        "paper/{data}", "the paper's settings", measuring=Measuring(5_000, probe="paper")
    ),
    "small": Scale("small/{data}", "scaled down (small/{data})"),
    "default": Scale("default", "default settings", 5, METHODS[-2:]),
}
# The sets, and the others that the paper holds against each.
PAPER_SETS = {
    "svhn": ("cifar10", "cifar100"),
    "cifar10": ("svhn", "cifar100"),
    "cifar100": ("svhn", "cifar10"),
}
OWN_SETS = {"mnist": ("fashion-mnist",), "digits": ()}
TITLES = {
    "svhn": "SVHN", "cifar10": "CIFAR-10", "cifar100": "CIFAR-100", "mnist": "MNIST",
    "digits": "digits", "fashion-mnist": "Fashion-MNIST",
}  # fmt: skip
SHUFFLED = "shuffled patches"
PARTS = 4  # patches on each side: of 7x7 pixels on MNIST, of 2x2 on the digits
TEST_DIGITS = 500
SHAPE = (1, 3, 32, 32)  # tells settings that these are images, of any size

# --- data sets: to train on, to test with, and to hold against those ------------------------------


def load_sets(data: str) -> tuple[Dataset, Dataset]:
    """Images to train on and images to test with; always the same of the digits."""
    if data != "digits":
        return open_set(data, "train"), open_set(data, "test")
    whole = digits()
    assert whole.y is not None
    order = np.random.default_rng(0).permutation(len(whole.x))
    x = whole.x.astype(np.float32).reshape(-1, 1, 8, 8)
    held, kept = np.split(order, [TEST_DIGITS])
    train, test = (
        Dataset(name, x[part], whole.y[part], None, whole.source)
        for name, part in (("digits", kept), ("digits-test", held))
    )
    return train, test


def load_others(data: str, test: Dataset, given: Mapping[str, Dataset]) -> dict[str, Dataset]:
    """What to hold against the test images: the paper's sets that are here, and those given.

    One of these names that is given takes the place of the set in the cache. Grey digits are also
    held against themselves with their patches shuffled, image by image: pixel by pixel they are the
    same, so that brightness and ink tell nothing.
    """
    for name, other in given.items():
        if other.x.ndim != 4:
            raise InputError(f"--ood {name}: vectors, not images; give a set or folder of images")
    names = (PAPER_SETS | OWN_SETS)[data]
    found = {
        name: open_set(name, "test")
        for name in names
        if not any(stands_for(other, name) for other in given) and is_cached(name)
    }
    if data in OWN_SETS:
        x = shuffled_patches(np.asarray(test.x))
        found[SHUFFLED] = Dataset(SHUFFLED, x, None, None, test.source)
    return found | dict(given)


def stands_for(other: str, name: str) -> bool:
    """Whether a set outside is, or is a part of, the set of this name: 'svhn, first 1083'."""
    given = other.lower()
    return any(
        given.startswith(known) and not given[len(known) : len(known) + 1].isalnum()
        for known in (name, TITLES[name].lower())
    )


def shuffled_patches(x: np.ndarray, parts: int = PARTS, seed: int = 0) -> np.ndarray:
    """Images (n, c, h, w) cut into parts x parts patches that change places.

    Pixels that do not make up a whole patch are left out.
    """
    n, c, height, width = x.shape
    h, w = height // parts, width // parts
    cut = x[:, :, : h * parts, : w * parts].reshape(n, c, parts, h, parts, w)
    patches = cut.transpose(0, 2, 4, 1, 3, 5).reshape(n, parts * parts, c, h, w)
    places = np.tile(np.arange(parts * parts), (n, 1))
    places = np.random.default_rng(seed).permuted(places, axis=1)
    mixed = patches[np.arange(n)[:, None], places].reshape(n, parts, parts, c, h, w)
    return mixed.transpose(0, 3, 1, 4, 2, 5).reshape(n, c, h * parts, w * parts)


# --- running ------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Work:
    """What every cell of a run needs."""

    train: Dataset
    test: Dataset
    others: Mapping[str, Dataset]
    measuring: Measuring
    runner: Runner


def run(
    seeds: Sequence[int],
    data: str,
    scale: str,
    methods: Sequence[str] | None = None,
    others: Mapping[str, Dataset] | None = None,
    *,
    runner: Runner = IN_MEMORY,
    iterations: int | None = None,
    changes: Options | None = None,
    measuring: Mapping[str, Any] | None = None,
    sets: tuple[Dataset, Dataset] | None = None,
) -> list[Row]:
    """One row for each (data, method, seed); None for methods is all of the scale's.

    `others` are images outside, by name, beside those of `load_others`. `iterations` shortens the
    training; `changes` are further settings by their dotted names; `measuring` is what differs from
    the scale's `Measuring`, if it is not None. `sets` are images to train on
    and to test with in the place of the published ones. The runner's folder also receives a run
    directory for each training, in runs/, which an interrupted one is continued from, and what the
    measuring writes, in evaluations/.

    To measure trained models in another way, remove rows.jsonl and config.json: the models stay.
    """
    keys = plan(seeds, data, scale, methods)
    train, test = sets or load_sets(data)
    outside = load_others(data, test, others or {})
    given = {name: value for name, value in (measuring or {}).items() if value is not None}
    measured = replace(SCALES[scale].measuring, **given)
    settings = {
        "scale": scale,
        "iterations": iterations,
        "changes": changes or {},
        **{name: getattr(measured, name) for name in ("samples", "steps", "probe")},
        "others": {name: [len(o.x), fingerprint(o.x)[:16]] for name, o in outside.items()},
        "methods": {m: values_of(data, scale, m, iterations, changes) for m in METHODS},
    }
    work = Work(train, test, outside, measured, runner)
    return runner.rows(keys, partial(fit, work), len(train.x), settings)


def plan(seeds: Sequence[int], data: str, scale: str, methods: Sequence[str] | None) -> list[Key]:
    """All (data, method, seed) asked for, k-means with them, seed by seed."""
    chosen("data set", (data,), (*PAPER_SETS, *OWN_SETS))
    chosen("scale", (scale,), ("default",) if data in OWN_SETS else ("paper", "small"))
    trained = chosen("method", SCALES[scale].methods if methods is None else methods, METHODS)
    if not trained or not len(seeds):
        raise InputError("nothing to run: give at least one seed and method")
    return [(data, method, seed) for seed in seeds for method in (KMEANS, *trained)]


def default_scale(data: str) -> str:
    return "default" if data in OWN_SETS else "small"


def values_of(
    data: str,
    scale: str,
    method: str,
    iterations: int | None = None,
    changes: Options | None = None,
) -> Options:
    """The nested settings of a method, shortened and changed as asked."""
    values = preset(SCALES[scale].preset.format(data=data), method)
    if scale == "default":
        values["n_clusters"] = 10
    return adjusted(values, iterations, changes, SHAPE)


def fit(work: Work, data: str, method: str, seed: int, n: int, settings: Options) -> Row:
    """Train one method, or go on with it, and measure it."""
    head = {"scale": settings["scale"], "shortened_to": settings["iterations"]}
    head |= {"changes": settings["changes"] or None, **NOTHING}
    values = settings["methods"][METHODS[-1] if method == KMEANS else method]
    if method == KMEANS:
        return head | _kmeans(work, values["n_clusters"], seed)
    name = f"{data}-{method}-{seed}"
    work.runner.say(f"training {name}")
    values = values | {"training": values.get("training", {}) | {"seed": seed}}
    run_folder = None if work.runner.out is None else work.runner.out / "runs" / name
    model = train(work.train.x, values, run_folder)
    work.runner.say(f"measuring {name}")
    return head | _measure(work, model, name, run_folder)


def train(x: np.ndarray, values: Options, folder: Path | None) -> GEDI:
    """The fitted model: read back, continued or trained in its run directory."""
    settings, run = resolve(values, x.shape), RunDirectory(folder or "")
    if folder is None or not run.config.exists():
        return GEDI.from_settings(settings).fit_run(x, folder)
    if settings_of(run.path, read_config(run.path), x.shape) != settings:
        how = "remove it, or choose another --out"
        raise InputError(f"{folder} was trained with other settings: {how}")
    if run.summary.exists():  # the last that a run writes
        return GEDI.load(run.model)
    return GEDI.resume(run.path, x)


# --- measuring ----------------------------------------------------------------------------------

SCORES = ("nmi", "ami", "ari", "accuracy", "clusters_used")
# What a row holds beside its name; None where a method has no such answer.
NOTHING: Row = dict.fromkeys(
    (
        "n_clusters", *SCORES, "batchwise_nmi", "batchwise_chance", "gap", "certified",
        "verdict", "modes", "stopped", "recoveries", "iterations", "probe", "probe_protocol",
        "knn", "frechet", "frechet_floor", "frechet_title", "frechet_n", "share_off", "bits",
        "ood", "seconds", "evaluation_seconds",
    )
)  # fmt: skip


def _measure(work: Work, model: GEDI, name: str, run_folder: Path | None) -> Row:
    measuring, kept, say = work.measuring, work.runner.out, work.runner.say
    found = evaluation.evaluate(
        model,
        work.train,
        work.test,
        others=work.others,
        n_samples=measuring.samples,
        steps=measuring.steps,
        probe=measuring.probe,
        weights=measuring.weights,
        buffer=evaluation.read_buffer(run_folder, model, say) if run_folder else None,
        out=kept / "evaluations" / name if kept else None,
        tell=say,
    )
    return {
        **{name: _look_up(found, path) for name, path in FIGURES.items()},
        "n_clusters": model.settings_.n_clusters,
        "probe_protocol": measuring.probe,
        "ood": {other: _areas(part) for other, part in found["ood"].items() if "scores" in part},
        "bits": getattr(model.density_, "bits", None),
        **outcome(model),
        "seconds": round(model.seconds_, 1),
    }


# Where in what `evaluate` gives the figures of a row are.
FIGURES = {
    **{name: f"clustering.{name}" for name in SCORES},
    "batchwise_nmi": "clustering.batchwise_nmi.nmi",
    "batchwise_chance": "clustering.batchwise_nmi.chance",
    "probe": "probe.linear.accuracy",
    "knn": "probe.knn.accuracy",
    "frechet": "frechet.distance",
    "frechet_floor": "frechet.floor",
    "frechet_title": "frechet.title",
    "frechet_n": "frechet.n",
    "share_off": "samples.share_off",
    "evaluation_seconds": "seconds",
}


def _look_up(found: Mapping[str, Any], path: str) -> Any:
    """None where a part was skipped."""
    value: Any = found
    for name in path.split("."):
        value = value.get(name) if isinstance(value, Mapping) else None
    return value


def _areas(part: Mapping[str, Any]) -> Row:
    """AUROC of every score, ours and the trivial ones, and how many images were outside."""
    scores = part["scores"] | part["trivial"]
    return {"n": part["n_outside"], **{name: score["auroc"] for name, score in scores.items()}}


def _kmeans(work: Work, n_clusters: int, seed: int) -> Row:
    """k-means on the pixels of some training images, scored as all others are."""
    index = np.random.default_rng(seed).permutation(len(work.train.x))[:MOST_FOR_KMEANS]
    model = KMeans(n_clusters, n_init=3, random_state=seed)
    seconds = timed(lambda: model.fit(_flat(work.train.x[np.sort(index)])))
    row: Row = {"n_clusters": n_clusters, "seconds": round(seconds, 1)}
    if work.test.y is None:
        return row
    labels = model.predict(_flat(work.test.x))
    scores = clustering_scores(work.test.y, labels)
    batchwise = batchwise_nmi(work.test.y, labels, min(64, len(labels)))
    row |= {name: scores[name] for name in SCORES}
    return row | {"batchwise_nmi": batchwise.nmi, "batchwise_chance": batchwise.chance}


def _flat(x: np.ndarray) -> np.ndarray:
    return x.reshape(len(x), -1).astype(np.float32)
