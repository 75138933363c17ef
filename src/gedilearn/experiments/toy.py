"""The synthetic half of the paper's table of NMI: moons and circles, every method, several seeds.

The unit of work is a cell, one method on one set. Its seeds, each with its own draw of the data,
train side by side; every seed is one row, scored on fresh points of the same source. Barlow Twins
is trained once for two rows: clusters by the largest coordinate, and by k-means.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from gedilearn.data import toy as sets
from gedilearn.data.dataset import Dataset
from gedilearn.estimator import GEDI
from gedilearn.evaluation.clustering import clustering_scores
from gedilearn.experiments.runner import (
    FRESH,
    IN_MEMORY,
    N_POINTS,
    Cell,
    Key,
    Options,
    Row,
    Runner,
    adjusted,
    chosen,
    outcome,
    shortened,
)
from gedilearn.methods.barlow import BarlowTwins
from gedilearn.presets import preset as preset_values
from gedilearn.settings import Settings, resolve
from gedilearn.together import fit_together
from gedilearn.training.run import RunDirectory

SETS: dict[str, Callable[[int, int], Dataset]] = {
    "moons": lambda n, seed: sets.moons(n, noise=0.05, random_state=seed),
    "circles": lambda n, seed: sets.circles(n, noise=0.05, factor=0.5, random_state=seed),
}
METHODS = ("jem", "barlow", "swav", "no-unif", "no-inv", "no-gen", "gedi")
OTHERS = ("dino", "deepcluster", "ebclr")  # not in the paper's table: run when asked for
KMEANS = "barlow k-means"
ROWS = {"barlow": ("barlow", KMEANS)}  # a method that has more rows than one
NAMES = {
    "jem": "JEM", "barlow": "Barlow", KMEANS: "Barlow k-means", "swav": "SwAV",
    "no-unif": "no unif", "no-inv": "no inv", "no-gen": "no gen", "gedi": "GEDI",
    "dino": "DINO", "deepcluster": "DeepCluster", "ebclr": "EBCLR",
}  # fmt: skip
PRESETS = ("default", "paper/toy", "paper/toy-literal")  # others are for images
TOGETHER = 10

# --- running ------------------------------------------------------------------------------------


def run(
    seeds: Sequence[int],
    data: Sequence[str] | None = None,
    methods: Sequence[str] | None = None,
    *,
    runner: Runner = IN_MEMORY,
    preset: str = "default",
    iterations: int | None = None,
    together: int | None = None,
    n: int = N_POINTS,
    changes: Options | None = None,
) -> list[Row]:
    """One row for each (data, method, seed); None for data is both, for methods the paper's.

    `iterations` shortens the training. `together` seeds train side by side; None is 1 where a guard
    would put all back, or stop all, for the divergence of one, and 10 where there is none.
    `changes` are further settings by their dotted names. The runner's folder also receives the
    models: workers on other machines must share it.
    """
    values = {m: values_of(preset, m, iterations, changes) for m in (*METHODS, *OTHERS)}
    settings: Options = {"preset": preset, "iterations": iterations, "changes": changes or {}}
    settings |= training_facts(values)
    together = together or (TOGETHER if settings["on_divergence"] == "ignore" else 1)
    names, trained = chosen("data set", data, SETS), chosen_methods(methods)
    cells = [  # in an order that gives every method some rows early
        Cell(name, method, tuple(seeds[i : i + together]), ROWS.get(method, (method,)))
        for i in range(0, len(seeds), together)
        for name in names
        for method in trained
    ]
    settings |= {"together": together, "methods": values}
    models = None if runner.out is None else runner.out.absolute() / "models"
    return runner.rows_of_cells(cells, partial(fit, models=models), n, settings, threads=1)


def chosen_methods(asked: Sequence[str] | None) -> list[str]:
    """Those of the paper's table, if none are asked for."""
    return chosen("method", METHODS if asked is None else asked, (*METHODS, *OTHERS))


def values_of(
    preset: str, method: str, iterations: int | None, changes: Options | None = None
) -> Options:
    """The nested settings of a method, shortened and changed as asked."""
    chosen("preset", (preset,), PRESETS)
    return adjusted(preset_values(preset, method), iterations, changes, (N_POINTS, 2))


def training_facts(values: Mapping[str, Options]) -> Options:
    """What a page says of the training of methods: which a certificate ends, and the guard."""
    training = {m: resolve(own, (N_POINTS, 2)).training for m, own in values.items()}
    return {
        "ended_by_certificate": [m for m, one in training.items() if one.early_stopping],
        "on_divergence": training["gedi"].on_divergence,  # the same for all
    }


def seeded(values: Options, seed: int, n: int) -> Settings:
    """All settings of a training of `n` points."""
    return resolve(values | {"training": values.get("training", {}) | {"seed": seed}}, (n, 2))


def fit(cell: Cell, n: int, settings: Options, models: Path | None = None) -> list[Row]:
    """Train the seeds of a cell together, and score each."""
    fitted = train(cell, n, settings["methods"][cell.method], models)
    k = len(cell.seeds)
    return [
        scored_row((cell.data, *name), model, n, settings, k, together=k)
        for name, model in fitted.items()
    ]


def train(
    cell: Cell, n: int, values: Options, models: Path | None = None
) -> dict[tuple[str, int], GEDI]:
    """The fitted model of every (row's method, seed) of a cell, kept in the folder `models`."""
    points = [SETS[cell.data](n, seed).x for seed in cell.seeds]
    fitted = {}
    together = fit_together(points, seeded(values, cell.seeds[0], n))
    for seed, model in zip(cell.seeds, together, strict=True):
        fitted[cell.method, seed] = model
    if cell.method == "barlow":
        for seed, model, x in zip(cell.seeds, together, points, strict=True):
            fitted[KMEANS, seed] = with_kmeans(model, x)
    if models is not None:
        for name, model in fitted.items():
            path = model_file(models, (cell.data, *name))
            path.parent.mkdir(parents=True, exist_ok=True)
            model.save(path, overwrite=True)
    return fitted


def title(rows: Sequence[Row]) -> str:
    """What the rows were made with, in words."""
    names = {f"preset {r['preset']}{shortened(r['shortened_to'], r['changes'])}" for r in rows}
    return "; ".join(sorted(names))


def model_file(models: Path, key: Key) -> Path:
    data, method, seed = key
    return RunDirectory(models / data / method.replace(" ", "-") / f"seed-{seed}").model


def with_kmeans(model: GEDI, x: np.ndarray) -> GEDI:
    """A copy of a fitted Barlow Twins with the clusters of k-means: the training is the same."""
    other = copy.deepcopy(model)
    options = model.settings_.own.model_copy(update={"assign": "kmeans"})
    settings = model.settings_.model_copy(update={"barlow": options})
    scaled = other.prepare(x)
    BarlowTwins(options).conclude(other.model_, scaled[None])
    result = replace(other.result_, settings=settings)
    diagnosis = result.diagnose(scaled, None)
    ended = "certified" if diagnosis.certified else "budget"
    result = replace(
        result,
        diagnosis=diagnosis,
        verdict=diagnosis.verdict,
        stopped="diverged" if model.stopped_ == "diverged" else ended,
    )
    other.adopt(result, other.scaling_, result.labels(scaled))
    return other


def scored_row(
    key: Key, model: GEDI, n: int, settings: Options, trained: int, **others: Any
) -> Row:
    """A model, one of those `trained` together, scored on fresh points."""
    data, method, seed = key
    fresh = SETS[data](n, seed + FRESH)
    assert fresh.y is not None
    scores = clustering_scores(fresh.y, model.predict(fresh.x))
    return {
        "data": data,
        "method": method,
        "seed": seed,
        "preset": settings["preset"],
        "shortened_to": settings["iterations"],
        "changes": settings["changes"] or None,
        **{name: scores[name] for name in ("nmi", "ami", "accuracy")},
        **outcome(model),
        **others,
        "seconds": round(model.seconds_ / trained, 3),
    }
