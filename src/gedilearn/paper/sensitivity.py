"""The paper's heat maps over the weights of INV and PRIOR: NMI and bound gap. GEN weighs 1.

Each point of the grid is a fit of its own. All points of a seed have the same draw of the data.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from gedilearn import panels
from gedilearn.paper import table
from gedilearn.paper.runner import Cell, Options, Runner, chosen
from gedilearn.paper.table import Group, Row, Table, grouped
from gedilearn.paper.toy import N_POINTS, POINTS, SETS, fitted, scored, title, values_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

WEIGHTS = (0, 10, 20, 30, 40, 50)
BASE = {"weights.gen": 1.0, "training.n_init": 1}  # one network, not the best of several
MEASURES: dict[str, tuple[str, int, Callable[[Sequence[float]], float]]] = {
    "nmi": ("Mean NMI", 2, statistics.fmean),
    "bound_gap": ("Median bound gap", 4, statistics.median),
}


def run(
    runner: Runner,
    seeds: Sequence[int] = range(5),
    data: Sequence[str] | None = None,
    preset: str = "default",
    changes: Options | None = None,
    *,
    weights: Sequence[float] = WEIGHTS,
    n: int | None = None,
) -> list[Table]:
    """The paper's heat maps: NMI and bound gap for weights of INV and PRIOR of 0 to 50 each."""
    points = {f"inv={a:g} prior={b:g}": (a, b) for a, b in product(weights, repeat=2)}
    names = chosen("data set", data, SETS)
    cells = [Cell(name, point, seed) for seed in seeds for name in names for point in points]
    options, n = {"preset": preset, "changes": changes or None}, n or POINTS.get(preset, N_POINTS)
    settings = {"options": options, "points": points, "gedi": values_at(1.0, 1.0, options)}
    runner = runner.within(preset, options).within("sensitivity")
    rows = runner.rows(cells, fit, n, settings, threads=1)
    made = runner.finish("sensitivity", rows, tables)
    figure(rows, runner.out / "sensitivity.png")
    return made


def values_at(inv: float, prior: float, options: Row) -> Options:
    """The nested settings of GEDI with these weights, in both stages."""
    weights = {"inv": inv, "prior": prior}
    both = {f"{part}.{k}": float(w) for part in ("weights", "density") for k, w in weights.items()}
    return values_of("gedi", options | {"changes": BASE | both | (options["changes"] or {})})


def fit(cell: Cell, n: int, settings: Options) -> list[Row]:
    """Train with the weights of one point, and score it."""
    inv, prior = settings["points"][cell.method]
    model = fitted(cell, n, values_at(inv, prior, settings["options"]))
    row = {"data": cell.data, "method": cell.method, "seed": cell.seed, "inv": inv, "prior": prior}
    return [row | settings["options"] | scored(cell, model, n)]


def tables(rows: Group) -> list[Table]:
    """For each measure a line for each (data, weight of INV), a column for each weight of PRIOR."""
    made = []
    for name, (words, digits, of) in MEASURES.items():
        cell, lines = table.statistic(name, digits, of), []
        for group in grouped(rows, data=(), inv=()):
            line = {"data": group[0]["data"], "INV": f"{group[0]['inv']:g}"}
            line["seeds"] = table.seeds(group)
            for part in grouped(group, prior=()):
                line[f"PRIOR {part[0]['prior']:g}"] = cell(part)
            lines.append(line)
        made.append(Table(f"{words}: {title(rows)}", lines))
    return made


def heat_map(axes: Axes, rows: Group, name: str) -> None:
    """One measure over the weights."""
    words, digits, of = MEASURES[name]
    lines = [grouped(line, prior=()) for line in grouped(rows, inv=())]
    shown = np.array([[of([float(r[name]) for r in group]) for group in line] for line in lines])
    colours, most = ("viridis", 1) if name == "nmi" else ("viridis_r", None)
    axes.imshow(shown, cmap=colours, vmin=0, vmax=most, origin="lower", alpha=0.5)
    for (i, j), value in np.ndenumerate(shown):
        axes.text(j, i, f"{value:.{digits}f}", ha="center", va="center", fontsize=9)
    axes.set_xticks(range(len(lines[0])), [f"{group[0]['prior']:g}" for group in lines[0]])
    axes.set_yticks(range(len(lines)), [f"{line[0][0]['inv']:g}" for line in lines])
    head = f"{rows[0]['data']}: {words}"
    panels.label_axes(axes, head, "weight of PRIOR", "weight of INV")


def figure(rows: Group, path: Path) -> Path:
    """Heat maps of NMI and bound gap, yellow where they are perfect."""
    by_set = grouped(rows, data=())
    words = f"Weights of INV and PRIOR: {title(rows)}; seeds: {table.seeds(rows)}"
    fig = panels.new_figure(10.5, 4.3 * len(by_set) + 0.4, words)
    grid = fig.subplots(len(by_set), 2, squeeze=False)
    for of_set, line in zip(by_set, grid, strict=True):
        for axes, name in zip(line, MEASURES, strict=True):
            heat_map(axes, of_set, name)
    return panels.save(fig, path)
