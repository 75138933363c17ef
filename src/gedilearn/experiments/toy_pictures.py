"""The paper's pictures of moons and circles: what each method predicts, and what it generates.

Both are drawn from one model for each (data, method), of one seed. Models are kept in a folder, and
those that the table of `toy` left there are used, so that nothing is trained twice.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from gedilearn import panels
from gedilearn.errors import InputError
from gedilearn.estimator import GEDI
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

N_SAMPLES = 500
LEAST_STEPS = 500
Models = dict[tuple[str, str], GEDI]

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
    if not file.exists():
        return None
    model = GEDI.load(file)
    # Seeds that train together have one seed between them for all but the data.
    same = model.settings_ == seeded(values, model.settings_.training.seed, n)
    return model if same and len(model.labels_) == n else None


# --- drawing ------------------------------------------------------------------------------------


class Panel(NamedTuple):
    """What one method has to show: points, their colours, and words below its name."""

    points: np.ndarray  # (n, 2)
    colours: np.ndarray  # (n,): 0 or 1
    words: str = ""


def labels(
    out: Path,
    data: Sequence[str] | None = None,
    methods: Sequence[str] | None = None,
    **asked: Any,
) -> Path:
    """Fresh points in the colours of the clusters predicted for them; `asked` as in `models`."""

    def panel(model: GEDI, x: np.ndarray, y: np.ndarray) -> Panel:
        predicted = model.predict(x)
        colours = classes_of_clusters(y, predicted, 2)[predicted]
        return Panel(x, colours, f"NMI {nmi(y, predicted):.2f}")

    fitted = models(out, data, methods, **asked)
    words = f"Predicted clusters on fresh points: {_made(asked)}"
    return _draw(out / "labels.png", words, fitted, "truth", None, panel, asked)


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

    def panel(model: GEDI, x: np.ndarray, y: np.ndarray) -> Panel:
        seed = asked.get("seed", 0)
        points, clusters = model.sample(N_SAMPLES, steps=taken, random_state=seed)
        return Panel(points, classes_of_clusters(y, model.predict(x), 2)[clusters])

    fitted = models(out, data, methods, **asked)
    taken = steps or max(steps_for(model) for model in fitted.values())
    words = f"{N_SAMPLES} samples, {taken} Langevin steps each: {_made(asked)}"
    return _draw(out / "generation.png", words, fitted, "real points", N_SAMPLES, panel, asked)


def steps_for(model: GEDI) -> int:
    return max(LEAST_STEPS, math.ceil(1 / model.settings_.sampler.step_size))


def _made(asked: dict[str, Any]) -> str:
    words = f"preset {asked.get('preset', 'default')}, seed {asked.get('seed', 0)}"
    return words + shortened(asked.get("iterations"))


def _draw(
    path: Path,
    title: str,
    fitted: Models,
    first: str,
    most: int | None,
    panel: Callable[[GEDI, np.ndarray, np.ndarray], Panel],
    asked: dict[str, Any],
) -> Path:
    """A row for each data set, with the same axes: up to `most` real points, then every method."""
    names, methods = (list(dict.fromkeys(key[k] for key in fitted)) for k in (0, 1))
    width = max(1.55 * (len(methods) + 1) + 0.5, 6.0)
    figure = panels.new_figure(width, 2.0 * len(names) + 0.6, title)
    grid = figure.subplots(len(names), len(methods) + 1, squeeze=False)
    for name, line in zip(names, grid, strict=True):
        fresh = SETS[name](asked.get("n", N_POINTS), asked.get("seed", 0) + FRESH)
        assert fresh.y is not None
        box = _box(SETS[name](N_POINTS, FRESH).x)
        _scatter(line[0], box, first, Panel(fresh.x[:most], fresh.y[:most]))
        line[0].set_ylabel(name, fontsize=11)
        for axes, method in zip(line[1:], methods, strict=True):
            _scatter(axes, box, NAMES[method], panel(fitted[name, method], fresh.x, fresh.y))
    return panels.save(figure, path)


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
