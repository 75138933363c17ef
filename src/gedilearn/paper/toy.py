"""The synthetic half of the paper: moons and circles, every method, several seeds.

`run` makes its table of NMI, `labels` and `generation` its pictures of predicted clusters and of
samples. Every seed has its own draw of the data and is one row, scored on fresh points of the same
source. Models are kept, and shared by table and pictures.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from gedilearn import panels
from gedilearn.data import toy as sets
from gedilearn.data.dataset import Dataset
from gedilearn.errors import InputError
from gedilearn.estimator import GEDI
from gedilearn.evaluation.clustering import clustering_scores, nmi
from gedilearn.paper import table
from gedilearn.paper.runner import (
    Cell,
    Options,
    Runner,
    changed,
    chosen,
    outcome,
    seeded,
    with_changes,
)
from gedilearn.paper.table import Group, Row, Table
from gedilearn.presets import preset as preset_values
from gedilearn.settings import resolve
from gedilearn.starts.choose import best_assignment
from gedilearn.training.run import RunDirectory

if TYPE_CHECKING:
    from matplotlib.axes import Axes

N_POINTS = 1000
# Points to train on, if others. Here batches are fresh: each point comes eight times in 20,000.
POINTS = {"paper/toy": 1_000_000}
FRESH = 1_000_000  # added to the seed of the points that are scored
SETS: dict[str, Callable[[int, int], Dataset]] = {
    "moons": lambda n, seed: sets.moons(n, noise=0.05, random_state=seed),
    "circles": lambda n, seed: sets.circles(n, noise=0.05, factor=0.5, random_state=seed),
}
KMEANS = "barlow k-means"  # Barlow Twins with clusters by k-means, not by the largest coordinate
NAMES = {
    "jem": "JEM", "barlow": "Barlow", KMEANS: "Barlow k-means", "swav": "SwAV",
    "no-unif": "no unif", "no-inv": "no inv", "no-gen": "no gen", "gedi": "GEDI",
    "dino": "DINO", "deepcluster": "DeepCluster", "ebclr": "EBCLR",
}  # fmt: skip
METHODS = tuple(NAMES)[:8]  # the others are not in the paper's table: run only if named
PICTURED = tuple(method for method in METHODS if method != KMEANS)
PRESETS = (  # others are for images
    *("default", "alike/random", "alike/start"),
    *("paper/toy", "paper/toy-literal"),
)
FALSE = 0.95  # a certificate with a lower NMI is a false one

# --- rows ---------------------------------------------------------------------------------------


def run(
    runner: Runner,
    seeds: Sequence[int] = range(5),
    data: Sequence[str] | None = None,
    methods: Sequence[str] | None = None,
    preset: str = "default",
    changes: Options | None = None,
    *,
    n: int | None = None,
) -> list[Table]:
    """The paper's NMI on moons and circles: every method, several seeds.

    Trained on `n` points; None takes 1,000, or the number in POINTS.
    """
    n = n or POINTS.get(preset, N_POINTS)
    options = {"preset": preset, "changes": changes or None}
    values = {method: values_of(method, options) for method in NAMES}
    names = chosen("data set", data, SETS)
    trained = chosen("method", METHODS if methods is None else methods, NAMES)
    cells = [  # in an order that gives every method some rows early
        Cell(name, method, seed) for seed in seeds for name in names for method in trained
    ]
    settings = {"options": options, "methods": values}
    runner = runner.within(preset, options)
    rows = runner.rows(cells, partial(fit, folder=runner.out), n, settings, threads=1)
    return runner.finish("toy", rows, tables)


def values_of(method: str, options: Row) -> Options:
    """The nested settings of a method, with the given changes."""
    (preset,) = chosen("preset", (options["preset"],), PRESETS)
    values = preset_values(preset, "barlow" if method == KMEANS else method)
    if method == KMEANS:
        values["barlow"] = values.get("barlow", {}) | {"assign": "kmeans"}
    return with_changes(values, (N_POINTS, 2), options)


def fit(cell: Cell, n: int, settings: Options, folder: Path) -> list[Row]:
    """Train one method on one set, and score it."""
    model = train(cell, n, settings["methods"][cell.method], folder)
    row = {"data": cell.data, "method": cell.method, "seed": cell.seed, **settings["options"]}
    return [row | scored(cell, model, n)]


def train(cell: Cell, n: int, values: Options, folder: Path) -> GEDI:
    """The fitted model of a cell, kept in the folder."""
    model = fitted(cell, n, values)
    path = model_file(folder, cell.data, cell.method, cell.seed)
    path.parent.mkdir(parents=True, exist_ok=True)
    model.save(path, overwrite=True)
    return model


def fitted(cell: Cell, n: int, values: Options) -> GEDI:
    """A model of the data of a cell, with nested settings."""
    settings = resolve(seeded(values, cell.seed), (n, 2))
    return GEDI.from_settings(settings).fit(SETS[cell.data](n, cell.seed).x)


def model_file(folder: Path, data: str, method: str, seed: int) -> Path:
    name = method.replace(" ", "-")
    return RunDirectory(folder.absolute() / "models" / data / name / f"seed-{seed}").model


def fresh_points(data: str, seed: int, n: int) -> Dataset:
    """Points to score a model of `n` points on: as many, at most 1,000."""
    return SETS[data](min(n, N_POINTS), seed + FRESH)


def scored(cell: Cell, model: GEDI, n: int) -> Row:
    """The scores of a model on fresh points."""
    fresh = fresh_points(cell.data, cell.seed, n)
    assert fresh.y is not None
    scores = clustering_scores(fresh.y, model.predict(fresh.x))
    found = {name: scores[name] for name in ("nmi", "ami", "accuracy")}
    return found | outcome(model) | {"seconds": round(model.seconds_, 3)}


# --- the table ----------------------------------------------------------------------------------


def title(rows: Group) -> str:
    """The settings of the rows in words."""
    return ", ".join([f"preset {rows[0]['preset']}", *changed(rows[0])])


def paper(group: Group) -> str:
    """Mean and deviation of the paper's NMI over five runs."""
    found = table.PAPER["toy"][group[0]["data"]].get(group[0]["method"])
    return f"{found[0]:.2f} ± {found[1]:.2f}" if found else ""


def ours(group: Group) -> str:
    """The deviation is that of the seeds themselves, not an estimate for others."""
    found = table.values(group, "nmi")
    return f"{statistics.fmean(found):.2f} ± {statistics.pstdev(found):.2f}"


def verdict(group: Group) -> str:
    """Whether our mean, in hundredths, is within two of the paper's deviations of its mean."""
    found = table.PAPER["toy"][group[0]["data"]].get(group[0]["method"])
    if not found:
        return ""
    more = round(statistics.fmean(table.values(group, "nmi")), 2) - found[0]
    if abs(more) <= 2 * found[1] + 1e-9:
        return "reproduced"
    return f"differs: {more:+.2f}"


COLUMNS: dict[str, table.Text] = {
    "data": table.label("data"),
    "method": table.label("method", NAMES),
    "seeds": table.seeds,
    "paper": paper,
    "ours": ours,
    "verdict": verdict,
    "why": partial(table.findings, false_below=FALSE),
    "AMI": table.statistic("ami", 2, statistics.fmean),
    "bound gap": table.statistic("bound_gap", 4),
    "seconds": table.statistic("seconds", 1, statistics.fmean),
}


def tables(rows: Group) -> list[Table]:
    """A line for each (data, method) over its seeds, with verdicts under the paper's settings."""
    groups = table.grouped(rows, data=SETS, method=NAMES)
    of_the_paper = str(rows[0]["preset"]).startswith("paper/")
    columns = {head: cell for head, cell in COLUMNS.items() if of_the_paper or head != "verdict"}
    return [table.make(f"NMI on fresh points: {title(rows)}", columns, groups, ("why",))]


# --- pictures -----------------------------------------------------------------------------------

N_SAMPLES = 500
LEAST_STEPS = 500


def picture(
    kind: str,
    runner: Runner,
    data: Sequence[str] | None = None,
    methods: Sequence[str] | None = None,
    preset: str = "default",
    changes: Options | None = None,
    seed: int = 0,
    steps: int | None = None,
    *,
    n: int | None = None,
) -> list[Table]:
    """A row of panels for each set: real points, then every method, with the same axes.

    Models are read from the folder of the run, or trained and kept there. `steps` are those of
    generated points; None takes as many as let a chain diffuse over about one unit of the data,
    500 at least: the paper's steps are so small that fewer would stay where they started.
    """
    n = n or POINTS.get(preset, N_POINTS)
    names = chosen("data set", data, SETS)
    trained = chosen("method", PICTURED if methods is None else methods, NAMES)
    if not names or not trained:
        raise InputError("nothing to draw: give at least one data set and method")
    options = {"preset": preset, "changes": changes or None}
    values = {method: values_of(method, options) for method in trained}
    runner = runner.within(preset, options)
    models = {(d, m): kept_model(runner, d, m, seed, n, values[m]) for d in names for m in trained}
    taken = steps or max(LEAST_STEPS, *map(steps_for, models.values()))
    head = "Predicted clusters" if kind == "labels" else f"Samples after {taken} Langevin steps"
    head = f"{head}, seed {seed}: {title([options])}"
    size = max(1.55 * (len(trained) + 1) + 0.5, 6.0), 2.0 * len(names) + 0.6
    fig = panels.new_figure(*size, head)
    grid = fig.subplots(len(names), len(trained) + 1, squeeze=False)
    for name, line in zip(names, grid, strict=True):
        real = fresh_points(name, seed, n)
        assert real.y is not None
        everywhere = SETS[name](N_POINTS, FRESH).x
        shown = slice(n if kind == "labels" else N_SAMPLES)
        scatter(line[0], everywhere, "real points", real.x[shown], real.y[shown])
        line[0].set_ylabel(name, fontsize=11)
        for axes, method in zip(line[1:], trained, strict=True):
            predicted = models[name, method].predict(real.x)
            classes = best_assignment(predicted, real.y, 2)
            if kind == "labels":
                head = f"{NAMES[method]}\nNMI {nmi(real.y, predicted):.2f}"
                scatter(axes, everywhere, head, real.x, classes[predicted])
            else:
                found = models[name, method].sample(N_SAMPLES, steps=taken, random_state=seed)
                scatter(axes, everywhere, NAMES[method], found[0], classes[found[1]])
    file = panels.save(fig, runner.out / f"{kind}.png")
    runner.say(f"written: {file}")
    return []


labels, generation = partial(picture, "labels"), partial(picture, "generation")


def steps_for(model: GEDI) -> int:
    return math.ceil(1 / model.settings_.sampler.step_size)


def kept_model(runner: Runner, data: str, method: str, seed: int, n: int, values: Options) -> GEDI:
    """The model of the run, if one with these settings is there; trained otherwise."""
    file = model_file(runner.out, data, method, seed)
    if file.exists():
        model = GEDI.load(file)
        same = model.settings_ == resolve(seeded(values, seed), (n, 2))
        if same and len(model.labels_) == n:
            return model
    runner.say(f"training {NAMES[method]} on {data}")
    return train(Cell(data, method, seed), n, values, runner.out)


def scatter(
    axes: Axes, everywhere: np.ndarray, title: str, points: np.ndarray, classes: np.ndarray
) -> None:
    """The points in a box around all data; the number of those outside is in the title."""
    low, high = everywhere.min(0), everywhere.max(0)
    low, high = low - 0.15 * (high - low), high + 0.15 * (high - low)
    seen = np.asarray(((points >= low) & (points <= high)).all(1))  # never so for NaN
    for k in range(2):
        x, y = points[seen & (classes == k)].T
        axes.scatter(x, y, s=5, color=panels.colour(k), lw=0)
    outside = f"\n{len(seen) - int(seen.sum())} outside" if not seen.all() else ""
    axes.set(xlim=(low[0], high[0]), ylim=(low[1], high[1]), xticks=[], yticks=[])
    axes.set_box_aspect(1)
    axes.set_title(title if "\n" in title else f"{title}{outside}", fontsize=10)
