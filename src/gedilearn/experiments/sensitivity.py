"""How much the weights of INV and PRIOR matter: NMI and gap over a grid of both, GEN's being 1.

All points of the grid train side by side on one draw of the data: they are members of one training
whose weights are multiplied member by member. One such training is the unit of work.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from gedilearn import panels
from gedilearn.experiments import table
from gedilearn.experiments.runner import IN_MEMORY, N_POINTS, Cell, Options, Row, Runner, chosen
from gedilearn.experiments.toy import SETS, scored_row, seeded, title, training_facts, values_of
from gedilearn.together import fit_together

WEIGHTS = (0, 10, 20, 30, 40, 50)
# The weights themselves are the members' factors; a point is one network, not the best of several.
UNIT = {f"{part}.{name}": 1.0 for part in ("weights", "density") for name in ("inv", "prior")}
BASE = UNIT | {"weights.gen": 1.0, "training.n_init": 1}

# --- running ------------------------------------------------------------------------------------


def run(
    seeds: Sequence[int],
    data: Sequence[str] | None = None,
    *,
    runner: Runner = IN_MEMORY,
    preset: str = "default",
    iterations: int | None = None,
    weights: Sequence[float] = WEIGHTS,
    n: int = N_POINTS,
    changes: Options | None = None,
) -> list[Row]:
    """One row for each (data, weights, seed).

    `iterations` shortens the training. `weights` are those of the grid, of both terms. `changes`
    are further settings by their dotted names.
    """
    names = chosen("data set", data, SETS)
    points = tuple(point_name(inv, prior) for inv, prior in product(weights, repeat=2))
    cells = [Cell(name, "grid", (seed,), points) for seed in seeds for name in names]
    gedi = values_of(preset, "gedi", iterations, BASE | (changes or {}))
    settings: Options = {"preset": preset, "iterations": iterations, "changes": changes or {}}
    settings |= {"weights": list(weights), "gedi": gedi, **training_facts({"gedi": gedi})}
    return runner.rows_of_cells(cells, fit, n, settings, threads=1)


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
            key = cell.data, point_name(a, b), seed
            rows.append(scored_row(key, model, n, settings, len(grid), inv=a, prior=b))
    return rows


# --- showing ------------------------------------------------------------------------------------

NOTES = (
    "Rows: weight of INV; columns: weight of PRIOR; the weight of GEN is 1. NMI on fresh points, "
    "mean over the seeds; the gap is the median, in nats.",
    "All points of a grid train side by side on one draw of the data: the guard, where there is "
    "one, puts all back and calms all for the divergence of one.",
    "With the default preset training begins with clusters that were found before it. Where these "
    "are right, weights change little, also where they are 0: `--set training.start=random` begins "
    "at random, as the paper does.",
)
DIGITS = {"nmi": 2, "gap": 4}


def maps(rows: Sequence[Row]) -> dict[str, dict[str, np.ndarray]]:
    """For each set the mean NMI and the median gap, (INV weights, PRIOR weights)."""
    inv, prior = axes_of(rows)
    found: dict[str, dict[str, np.ndarray]] = {}
    for group in table.grouped(rows, "data", "inv", "prior"):
        first = group[0]
        nothing = {name: np.full((len(inv), len(prior)), np.nan) for name in ("nmi", "gap")}
        both = found.setdefault(first["data"], nothing)
        place = inv.index(first["inv"]), prior.index(first["prior"])
        both["nmi"][place] = statistics.fmean(table.values(group, "nmi"))
        both["gap"][place] = statistics.median(table.values(group, "gap"))
    return found


def axes_of(rows: Sequence[Row]) -> tuple[list[float], list[float]]:
    return sorted({r["inv"] for r in rows}), sorted({r["prior"] for r in rows})


def _map(rows: Sequence[Row], measure: str, title: str, **others: Any) -> table.Table:
    """A line for each weight of INV, a column for each of PRIOR."""
    inv, prior = axes_of(rows)
    names = [f"PRIOR {weight:g}" for weight in prior]
    lines = [
        [
            {"data": data, "INV": f"{weight:g}", "seeds": n_seeds(rows, data)}
            | dict(zip(names, line, strict=True))
        ]
        for data, both in maps(rows).items()
        for weight, line in zip(inv, both[measure], strict=True)
    ]
    numbers = [table.statistic(name, name, digits=DIGITS[measure]) for name in names]
    columns = [*map(table.label, ("data", "INV", "seeds")), *numbers]
    return table.Table(title, columns, lines, heading=title, **others)


def tables(rows: Sequence[Row]) -> list[table.Table]:
    """The maps of the NMI and, in Markdown, of the gap."""
    notes = (f"{title(rows).capitalize()}; {_seeds(rows)}.", *NOTES)
    return [
        _map(rows, "nmi", "Mean NMI", notes=notes),
        _map(rows, "gap", "Median gap", printed=False),
    ]


def n_seeds(rows: Sequence[Row], data: str | None = None) -> int:
    """Of one set, or in all."""
    return len({r["seed"] for r in rows if data in (None, r["data"])})


def _seeds(rows: Sequence[Row]) -> str:
    n = n_seeds(rows)
    return f"{n} seed" + "s" * (n != 1)


def figure(rows: Sequence[Row], path: Path) -> Path:
    """Heat maps of the NMI, yellow where it is perfect, and of the gap, yellow where it is 0."""
    found = maps(rows)
    inv, prior = axes_of(rows)
    words = f"Weights of INV and PRIOR: {title(rows)}; {_seeds(rows)}"
    fig = panels.new_figure(10.5, 4.3 * len(found) + 0.4, words)
    grid = fig.subplots(len(found), 2, squeeze=False)
    for (data, both), line in zip(found.items(), grid, strict=True):
        finite = both["gap"][np.isfinite(both["gap"])]
        top = max(float(finite.max()) if finite.size else 0.0, 1e-3)
        for axes, name, most, colours, said in (
            (line[0], "nmi", 1.0, "viridis", "NMI, mean"),
            (line[1], "gap", top, "viridis_r", "gap in nats, median"),
        ):
            values = both[name]
            shown = axes.imshow(values, cmap=colours, vmin=0, vmax=most, origin="lower")
            for (i, j), value in np.ndenumerate(values):
                light = (value / most > 0.5) == (name == "nmi")
                ink = "black" if light else "white"
                number = f"{value:.{DIGITS[name]}f}"
                axes.text(j, i, number, ha="center", va="center", color=ink, fontsize=9)
            axes.set_xticks(range(len(prior)), [f"{weight:g}" for weight in prior])
            axes.set_yticks(range(len(inv)), [f"{weight:g}" for weight in inv])
            panels.label_axes(axes, f"{data}: {said}", "weight of PRIOR", "weight of INV")
            fig.colorbar(shown, ax=axes, fraction=0.046, pad=0.03).ax.tick_params(labelsize=9)
    return panels.save(fig, path)


EXPERIMENT = table.Experiment("sensitivity", run, tables, figure=figure)
