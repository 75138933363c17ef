"""The picture of a choice of the number of clusters."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gedilearn.report import panels

if TYPE_CHECKING:
    from gedilearn.selection import Choice


def choice_figure(choice: Choice, path: Path) -> Path:
    """Gap, stability and unused clusters over the number of clusters, the chosen one marked."""
    from matplotlib.ticker import MaxNLocator

    numbers = [row["n_clusters"] for row in choice.rows]
    fig = panels.new_figure(11.5, 4.4, choice.recommendation)
    gap, stability, unused = fig.subplots(1, 3)
    tol = choice.model.settings_.training.tol

    _points(gap, choice.rows, "gap")
    gap.axhline(tol, color="#555555", lw=1, ls="--", label=f"certified below {tol:g}")
    gap.set_yscale("symlog", linthresh=max(tol, 1e-6))
    finite = [row["gap"] for row in choice.rows if math.isfinite(row["gap"])]
    gap.set_ylim(0, 2 * max([tol, *finite]))
    _points(stability, choice.rows, "stability")
    stability.set_ylim(min(0.0, *(row["stability"] for row in choice.rows)) - 0.05, 1.05)
    unused.bar(numbers, [row["unused"] for row in choice.rows], color=panels.COLOURS[0], width=0.6)
    unused.set_ylim(0, max(1, *(row["unused"] for row in choice.rows)) * 1.1)
    unused.yaxis.set_major_locator(MaxNLocator(integer=True))

    panels.dress(gap, "gap of the best initialisation", "clusters", "nats")
    panels.dress(stability, "stability", "clusters", "adjusted Rand index")
    panels.dress(unused, "unused clusters", "clusters", "")
    words = "chosen" if choice.stands_out else "least bad"
    for axes in (gap, stability, unused):
        mark = f"{words}: {choice.n_clusters}"
        axes.axvline(choice.n_clusters, color="#D55E00", lw=8, alpha=0.25, zorder=0, label=mark)
        axes.set_xlim(numbers[0] - 0.6, numbers[-1] + 0.6)
        axes.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
    if not any(row["unused"] for row in choice.rows):
        panels.note(unused, "none")
        unused.tick_params(labelleft=True, labelbottom=True)
    fig.legend(*gap.get_legend_handles_labels(), loc="outside lower center", ncols=3, frameon=False)
    return panels.save(fig, path)


def _points(axes: Any, rows: list[dict[str, Any]], name: str) -> None:
    """A line through the values; filled points are certified."""
    numbers = [row["n_clusters"] for row in rows]
    values = [row[name] if math.isfinite(row[name]) else math.nan for row in rows]
    blue = panels.COLOURS[0]
    axes.plot(numbers, values, color=blue, lw=1.2, zorder=1)
    for state, fill in ((True, blue), (False, "white")):
        chosen = [i for i, row in enumerate(rows) if row["certified"] is state]
        axes.scatter(
            [numbers[i] for i in chosen],
            [values[i] for i in chosen],
            s=46,
            facecolor=fill,
            edgecolor=blue,
            zorder=2,
            label="certified" if state and chosen else None,
        )
