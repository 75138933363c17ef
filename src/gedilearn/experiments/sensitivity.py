"""The paper's heat maps over the weights of INV and PRIOR: NMI and gap, with a weight of GEN of 1.

All points of the grid train side by side on one draw of the data: they are members of one training
whose weights are multiplied member by member. One such training is the unit of work.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from itertools import product
from pathlib import Path

import numpy as np

from gedilearn import panels
from gedilearn.experiments import table
from gedilearn.experiments.runner import Cell, Options, Runner, changed, chosen
from gedilearn.experiments.table import Group, Row, Table, grouped
from gedilearn.experiments.toy import N_POINTS, SETS, scored_row, seeded, title, values_of
from gedilearn.together import fit_together

WEIGHTS = (0, 10, 20, 30, 40, 50)
# The weights themselves are the members' factors; a point is one network, not the best of several.
UNIT = {f"{part}.{name}": 1.0 for part in ("weights", "density") for name in ("inv", "prior")}
BASE = UNIT | {"weights.gen": 1.0, "training.n_init": 1}
MEASURES: dict[str, tuple[str, int, Callable[[Sequence[float]], float]]] = {
    "nmi": ("Mean NMI", 2, statistics.fmean),
    "gap": ("Median gap", 4, statistics.median),
}


def run(
    runner: Runner,
    seeds: Sequence[int] = range(5),
    data: Sequence[str] | None = None,
    preset: str = "default",
    iterations: int | None = None,
    changes: Options | None = None,
    *,
    weights: Sequence[float] = WEIGHTS,
    n: int = N_POINTS,
) -> list[Table]:
    """The paper's heat maps: NMI and gap for weights of INV and PRIOR of 0 to 50 each."""
    points = tuple(point_name(inv, prior) for inv, prior in product(weights, repeat=2))
    names = chosen("data set", data, SETS)
    cells = [Cell(name, "grid", (seed,), points) for seed in seeds for name in names]
    gedi = values_of(preset, "gedi", iterations, BASE | (changes or {}))
    settings: Options = {"preset": preset, "iterations": iterations, "changes": changes or {}}
    settings |= {"weights": list(weights), "gedi": gedi}
    runner = runner.within(preset, *changed(iterations, changes)).within("sensitivity")
    rows = runner.rows(cells, fit, n, settings, threads=1)
    return runner.finish("sensitivity", rows, tables, figure)


def point_name(inv: float, prior: float) -> str:
    return f"inv={inv:g} prior={prior:g}"


def fit(cell: Cell, n: int, settings: Options) -> list[Row]:
    """All points of the grid for each seed."""
    grid = list(product(settings["weights"], repeat=2))
    inv, prior = np.array(grid, dtype=np.float64).T
    rows = []
    for seed in cell.seeds:
        x, own = SETS[cell.data](n, seed).x, seeded(settings["gedi"], seed, n)
        models = fit_together([x], own, {"inv": inv, "prior": prior})
        for (a, b), model in zip(grid, models, strict=True):
            name, trained = point_name(a, b), len(grid)
            row = scored_row(cell.data, name, seed, model, n, settings, trained, inv=a, prior=b)
            rows.append(row)
    return rows


def tables(rows: Group) -> list[Table]:
    """For each measure a line for each (data, weight of INV), a column for each weight of PRIOR."""
    made = []
    for name, (words, digits, of) in MEASURES.items():
        cell = table.statistic(name, digits, of)
        lines = [
            {
                "data": line[0]["data"],
                "INV": f"{line[0]['inv']:g}",
                "seeds": table.seeds(line),
                **{
                    f"PRIOR {group[0]['prior']:g}": cell(group) for group in grouped(line, prior=())
                },
            }
            for line in grouped(rows, data=(), inv=())
        ]
        made.append(Table(f"{words}: {title(rows)}", lines))
    return made


def figure(rows: Group, path: Path) -> Path:
    """Heat maps of the NMI, yellow where it is perfect, and of the gap, yellow where it is 0."""
    by_set = grouped(rows, data=())
    words = f"Weights of INV and PRIOR: {title(rows)}; seeds: {table.seeds(rows)}"
    fig = panels.new_figure(10.5, 4.3 * len(by_set) + 0.4, words)
    grid = fig.subplots(len(by_set), 2, squeeze=False)
    for of_set, line in zip(by_set, grid, strict=True):
        for axes, (name, (said, digits, of)) in zip(line, MEASURES.items(), strict=True):
            shown = np.array(
                [
                    [of([float(r[name]) for r in group]) for group in grouped(row, prior=())]
                    for row in grouped(of_set, inv=())
                ]
            )
            finite = shown[np.isfinite(shown)]
            most = 1.0 if name == "nmi" else max(float(finite.max(initial=0.0)), 1e-3)
            colours = "viridis" if name == "nmi" else "viridis_r"
            image = axes.imshow(shown, cmap=colours, vmin=0, vmax=most, origin="lower")
            for (i, j), value in np.ndenumerate(shown):
                light = (value / most > 0.5) == (name == "nmi")
                look = {"color": "black" if light else "white", "fontsize": 9}
                axes.text(j, i, f"{value:.{digits}f}", ha="center", va="center", **look)
            for of_axis, weight in ((axes.set_xticks, "prior"), (axes.set_yticks, "inv")):
                ticks = [f"{group[0][weight]:g}" for group in grouped(of_set, **{weight: ()})]
                of_axis(range(len(ticks)), ticks)
            head = f"{of_set[0]['data']}: {said}"
            panels.label_axes(axes, head, "weight of PRIOR", "weight of INV")
            fig.colorbar(image, ax=axes, fraction=0.046, pad=0.03).ax.tick_params(labelsize=9)
    return panels.save(fig, path)
