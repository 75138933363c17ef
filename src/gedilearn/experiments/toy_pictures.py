"""The paper's pictures of moons and circles: what each method predicts, and what it generates.

Both are drawn from one model for each (data, method), of one seed. Models are kept in a folder, and
those that the table of `toy` left there are used, so that nothing is trained twice.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from gedilearn import panels
from gedilearn.errors import InputError
from gedilearn.estimator import GEDI
from gedilearn.evaluation.clustering import classes_of_clusters, nmi
from gedilearn.experiments.runner import FRESH, N_POINTS, Cell, Options, chosen, shortened
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

N_SAMPLES = 500
LEAST_STEPS = 500
Models = dict[tuple[str, str], GEDI]
Draw = Callable[[GEDI, np.ndarray, np.ndarray], "Panel"]  # of a model and fresh points

# --- models -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Asked:
    """What is drawn, of which models: one seed of each method on each set; None stands for all.

    Models are read from the folder `out`, or trained and kept there. `steps` are those of samples;
    None takes as many as let a chain diffuse over about one unit of the data, 500 at least: the
    paper's steps are so small that fewer would stay where they started.
    """

    out: Path
    data: Sequence[str] | None = None
    methods: Sequence[str] | None = None
    seed: int = 0
    preset: str = "default"
    iterations: int | None = None
    n: int = N_POINTS
    changes: Options | None = None
    steps: int | None = None
    tell: Callable[[str], None] = lambda line: None

    def models(self) -> Models:
        """A fitted model for each (data, method)."""
        names, wanted = chosen("data set", self.data, SETS), chosen_methods(self.methods)
        if not names or not wanted:
            raise InputError("nothing to draw: give at least one data set and method")
        values = {m: values_of(self.preset, m, self.iterations, self.changes) for m in wanted}
        return {(name, m): self._model(name, m, values[m]) for name in names for m in wanted}

    def _model(self, name: str, method: str, values: Options) -> GEDI:
        folder = self.out / "models"
        file = model_file(folder, (name, method, self.seed))
        if file.exists():
            model = GEDI.load(file)
            # Seeds that train together have one seed between them for all but the data.
            same = seeded(values, model.settings_.training.seed, self.n)
            if model.settings_ == same and len(model.labels_) == self.n:
                return model
        self.tell(f"training {NAMES[method]} on {name}")
        cell = Cell(name, method, (self.seed,), (method,))
        return train(cell, self.n, values, folder)[method, self.seed]

    def __str__(self) -> str:
        changed = shortened(self.iterations, self.changes)
        return f"preset {self.preset}, seed {self.seed}{changed}"


# --- drawing ------------------------------------------------------------------------------------


class Panel(NamedTuple):
    """What one method has to show: points, their colours, and words below its name."""

    points: np.ndarray  # (n, 2)
    colours: np.ndarray  # (n,): 0 or 1
    words: str = ""


def labels(asked: Asked) -> Path:
    """Fresh points in the colours of the clusters predicted for them."""

    def panel(model: GEDI, x: np.ndarray, y: np.ndarray) -> Panel:
        predicted = model.predict(x)
        colours = classes_of_clusters(y, predicted, 2)[predicted]
        return Panel(x, colours, f"NMI {nmi(y, predicted):.2f}")

    title = f"Predicted clusters on fresh points: {asked}"
    return _draw("labels.png", title, asked, asked.models(), "truth", asked.n, panel)


def generation(asked: Asked) -> Path:
    """Samples of each method in the colours of their clusters."""
    fitted = asked.models()
    taken = asked.steps or max(steps_for(model) for model in fitted.values())

    def panel(model: GEDI, x: np.ndarray, y: np.ndarray) -> Panel:
        points, clusters = model.sample(N_SAMPLES, steps=taken, random_state=asked.seed)
        return Panel(points, classes_of_clusters(y, model.predict(x), 2)[clusters])

    title = f"{N_SAMPLES} samples, {taken} Langevin steps each: {asked}"
    return _draw("generation.png", title, asked, fitted, "real points", N_SAMPLES, panel)


def steps_for(model: GEDI) -> int:
    return max(LEAST_STEPS, math.ceil(1 / model.settings_.sampler.step_size))


def _draw(
    file: str, title: str, asked: Asked, fitted: Models, first: str, most: int, panel: Draw
) -> Path:
    """A row for each data set, with the same axes: up to `most` real points, then every method."""
    names, methods = (list(dict.fromkeys(key[k] for key in fitted)) for k in (0, 1))
    width = max(1.55 * (len(methods) + 1) + 0.5, 6.0)
    figure = panels.new_figure(width, 2.0 * len(names) + 0.6, title)
    grid = figure.subplots(len(names), len(methods) + 1, squeeze=False)
    for name, line in zip(names, grid, strict=True):
        fresh = SETS[name](asked.n, asked.seed + FRESH)
        assert fresh.y is not None
        box = _box(SETS[name](N_POINTS, FRESH).x)
        _scatter(line[0], box, first, Panel(fresh.x[:most], fresh.y[:most]))
        line[0].set_ylabel(name, fontsize=11)
        for axes, method in zip(line[1:], methods, strict=True):
            _scatter(axes, box, NAMES[method], panel(fitted[name, method], fresh.x, fresh.y))
    return panels.save(figure, asked.out / file)


def _box(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    low, high = x.min(0), x.max(0)
    return low - 0.15 * (high - low), high + 0.15 * (high - low)


def _scatter(axes: Axes, box: tuple[np.ndarray, np.ndarray], name: str, panel: Panel) -> None:
    """The points in a box; those outside are counted."""
    low, high = box
    inside = (panel.points >= low) & (panel.points <= high)  # never so for NaN
    seen = np.asarray(inside.all(1))
    for k in range(2):
        x, y = panel.points[seen & (panel.colours == k)].T
        axes.scatter(x, y, s=5, color=panels.colour(k), lw=0)
    outside = len(seen) - int(seen.sum())
    words = panel.words or (f"{outside} outside" if outside else "")
    axes.set(xlim=(low[0], high[0]), ylim=(low[1], high[1]), xticks=[], yticks=[])
    axes.set_box_aspect(1)
    axes.set_title(f"{name}\n{words}", fontsize=10)


PICTURES = {"labels": labels, "generation": generation}
