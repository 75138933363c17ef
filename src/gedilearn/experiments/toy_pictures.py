"""The paper's pictures of moons and circles: what each method predicts, and what it generates.

Both are drawn from one model for each (data, method), of one seed. Models are kept in a folder, and
those that the table of `toy` left there are used, so that nothing is trained twice.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from gedilearn import panels
from gedilearn.errors import InputError
from gedilearn.evaluation.clustering import classes_of_clusters, nmi
from gedilearn.experiments.runner import FRESH, N_POINTS, chosen, shortened
from gedilearn.experiments.toy import (
    NAMES,
    SETS,
    chosen_methods,
    model_file,
    seeded,
    train,
    values_of,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from gedilearn.estimator import GEDI

N_SAMPLES = 500
LEAST_STEPS = 500
Models = dict[tuple[str, str], "GEDI"]

# --- models -------------------------------------------------------------------------------------


def models(
    out: Path,
    data: Sequence[str] | None = None,
    methods: Sequence[str] | None = None,
    *,
    seed: int = 0,
    preset: str = "default",
    iterations: int | None = None,
    n: int = N_POINTS,
    changes: dict[str, Any] | None = None,
    tell: Callable[[str], None] | None = None,
) -> Models:
    """A fitted model for each (data, method): from the folder `out`, or trained and kept there."""
    names, wanted = chosen("data set", data, SETS), chosen_methods(methods)
    if not names or not wanted:
        raise InputError("nothing to draw: give at least one data set and method")
    asked = {method: values_of(preset, method, iterations, changes) for method in wanted}
    found = {}
    for name in names:
        for method, values in asked.items():
            model = _kept(model_file(out / "models", name, method, seed), values, n)
            if model is None:
                if tell is not None:
                    tell(f"training {NAMES[method]} on {name}")
                model = train(name, method, (seed,), n, values, out / "models")[method, seed]
            found[name, method] = model
    return found


def _kept(file: Path, values: dict[str, Any], n: int) -> GEDI | None:
    """The model in a file, if it was trained with these settings and as many points."""
    from gedilearn.estimator import GEDI

    if not file.exists():
        return None
    model = GEDI.load(file)
    # Seeds that train together have one seed between them for all but the data.
    same = model.settings_ == seeded(values, model.settings_.training.seed)
    return model if same and len(model.labels_) == n else None


# --- drawing ------------------------------------------------------------------------------------


def labels(
    out: Path,
    data: Sequence[str] | None = None,
    methods: Sequence[str] | None = None,
    **asked: Any,
) -> Path:
    """Fresh points in the colours of the clusters predicted for them; `asked` as in `models`."""
    fitted = models(out, data, methods, **asked)
    seed, n = asked.get("seed", 0), asked.get("n", N_POINTS)
    grid = _Grid(fitted, "truth", f"Predicted clusters on fresh points: {_made(asked)}")
    for name, method, axes in grid.panels():
        fresh = SETS[name](n, seed + FRESH)
        assert fresh.y is not None
        if method is None:
            grid.draw(axes, name, fresh.x, fresh.y)
            continue
        predicted = fitted[name, method].predict(fresh.x)
        colours = classes_of_clusters(fresh.y, predicted, 2)[predicted]
        words = f"{NAMES[method]}\nNMI {nmi(fresh.y, predicted):.2f}"
        grid.draw(axes, name, fresh.x, colours, words)
    return panels.save(grid.figure, out / "labels.png")


def generation(
    out: Path,
    data: Sequence[str] | None = None,
    methods: Sequence[str] | None = None,
    *,
    steps: int | None = None,
    **asked: Any,
) -> Path:
    """Samples of each method in the colours of their clusters; `asked` as in `models`.

    None for `steps` takes as many as let a chain diffuse over about one unit of the data, 500 at
    least: the paper's steps are so small that fewer would stay where they started.
    """
    fitted = models(out, data, methods, **asked)
    seed, n = asked.get("seed", 0), asked.get("n", N_POINTS)
    taken = steps or max(steps_for(model) for model in fitted.values())
    title = f"{N_SAMPLES} samples, {taken} Langevin steps each: {_made(asked)}"
    grid = _Grid(fitted, "real points", title)
    for name, method, axes in grid.panels():
        fresh = SETS[name](n, seed + FRESH)
        assert fresh.y is not None
        if method is None:
            grid.draw(axes, name, fresh.x[:N_SAMPLES], fresh.y[:N_SAMPLES])
            continue
        model = fitted[name, method]
        points, clusters = model.sample(N_SAMPLES, steps=taken, random_state=seed)
        colours = classes_of_clusters(fresh.y, model.predict(fresh.x), 2)[clusters]
        outside = N_SAMPLES - int(grid.inside(name, points).sum())
        words = f"{NAMES[method]}\n{outside} outside" if outside else f"{NAMES[method]}\n"
        grid.draw(axes, name, points, colours, words)
    return panels.save(grid.figure, out / "generation.png")


def steps_for(model: GEDI) -> int:
    return max(LEAST_STEPS, math.ceil(1 / model.settings_.sampler.step_size))


def _made(asked: dict[str, Any]) -> str:
    words = f"preset {asked.get('preset', 'default')}, seed {asked.get('seed', 0)}"
    return words + shortened(asked.get("iterations"))


class _Grid:
    """A row for each data set, a column for the real points and each method, same axes in a row."""

    def __init__(self, fitted: Models, first: str, title: str) -> None:
        self.data = list(dict.fromkeys(name for name, _ in fitted))
        self.methods = list(dict.fromkeys(method for _, method in fitted))
        self.first = first
        width = max(1.55 * (len(self.methods) + 1) + 0.5, 6.0)
        self.figure = panels.new_figure(width, 2.0 * len(self.data) + 0.6, title)
        self.box = {name: _box(SETS[name](N_POINTS, FRESH).x) for name in self.data}

    def panels(self) -> list[tuple[str, str | None, Axes]]:
        """(data, method, axes) of every panel; the method of the first column is None."""
        columns = [None, *self.methods]
        axes = self.figure.subplots(len(self.data), len(columns), squeeze=False)
        return [
            (name, method, axes[i, j])
            for i, name in enumerate(self.data)
            for j, method in enumerate(columns)
        ]

    def inside(self, name: str, points: np.ndarray) -> np.ndarray:
        low, high = self.box[name]
        return np.asarray(((points >= low) & (points <= high)).all(1))  # never so for NaN

    def draw(
        self, axes: Axes, name: str, points: np.ndarray, colours: np.ndarray, words: str = ""
    ) -> None:
        seen = self.inside(name, points)
        for k in range(2):
            x, y = points[seen & (colours == k)].T
            axes.scatter(x, y, s=5, color=panels.colour(k), lw=0)
        (x0, y0), (x1, y1) = self.box[name]
        axes.set(xlim=(x0, x1), ylim=(y0, y1), xticks=[], yticks=[])
        axes.set_box_aspect(1)
        axes.set_title(words or f"{self.first}\n", fontsize=10)
        if not words:
            axes.set_ylabel(name, fontsize=11)


def _box(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    low, high = x.min(0), x.max(0)
    return low - 0.15 * (high - low), high + 0.15 * (high - low)
