"""Pictures of a run, drawn from its run directory alone, and of a choice among several fits.

`training.png` shows the terms and the gap over the iterations, `clusters.png` what the network made
of the data.
"""

from __future__ import annotations

import math
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from gedilearn import panels
from gedilearn.data.arrays import evenly_spaced
from gedilearn.report.run import Curves, Run, one_line

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from gedilearn.selection import Choice

TERM_TITLES = {
    "gen": "GEN (generative)",
    "inv": "INV (invariance)",
    "prior": "PRIOR (proportions)",
    "energy": "energy scale",
}
SAMPLES = 300
GRID = 200  # cells a side of the decision regions and of log p(x)
EXAMPLES = 10  # images shown of a cluster
HATCHES = ("", "////", "....", "xxxx", "----")
EVENT_COLOURS = {
    "finding": "#C04A00",
    "diverged": "#C04A00",
    "mended": "#00795A",
    "certified": "#0072B2",
}
OTHER_EVENT = "#555555"
MOST_EVENTS = 9  # listed in words


def draw_all(run: Path) -> list[Path]:
    """All figures of a finished run."""
    return [training_figure(run), clusters_figure(run)]


# --- training -------------------------------------------------------------------------------------


def training_figure(run: Path) -> Path:
    """The named terms and the gap over the iterations; also of a run that is still going on."""
    read = Run.read(run)
    curves = read.curves()
    n = max(len(curves.terms), 1)
    fig = panels.new_figure(max(10.0, 3.0 * n), 6.8, read.title)
    grid = fig.add_gridspec(2, 1, height_ratios=(1, 1.4))
    small, wide = grid[0].subgridspec(1, n), grid[1].subgridspec(1, 2, width_ratios=(3, 2))
    for i, (name, values) in enumerate(curves.terms.items()):
        axes = fig.add_subplot(small[i])
        _member_lines(axes, curves, values)
        unit = "nats squared" if name == "energy" else "nats"
        panels.dress(axes, TERM_TITLES.get(name, one_line(name)), "iteration", unit)
    axes = fig.add_subplot(wide[0])
    _gap_lines(axes, curves, read.tolerance)
    _mark_events(axes, read.events)
    _list_events(fig.add_subplot(wide[1]), read)
    return panels.save(fig, read.files.figures / "training.png")


def _member_lines(axes: Axes, curves: Curves, values: np.ndarray) -> None:
    """One line a member, the kept one on top.  values: (looks, members)"""
    if not np.isfinite(values).any():
        return panels.note(axes, "not finite")
    marker = "o" if len(values) <= 40 else ""
    others = [m for m in range(values.shape[1]) if m != curves.kept]
    for m in others:
        label = "other members" if m == others[0] else None
        axes.plot(
            curves.iterations, values[:, m], color="#A0A0A0", lw=1, marker=marker, ms=2, label=label
        )
    axes.plot(
        curves.iterations,
        values[:, curves.kept],
        color="#0072B2",
        lw=2,
        marker=marker,
        ms=4,
        label=f"member {curves.kept}, kept" if others else None,
    )
    return None


def _gap_lines(axes: Axes, curves: Curves, tolerance: float) -> None:
    """The gap on a log axis, with the tolerance as a dashed line."""
    positive = np.where(np.isfinite(curves.gap) & (curves.gap > 0), curves.gap, np.nan)
    panels.dress(axes, "gap to the optimum of Proposition 1", "iteration", "nats, log scale")
    if np.isnan(positive).all():
        return panels.note(axes, "no finite gap above 0 was measured")
    _member_lines(axes, curves, positive)
    axes.set_yscale("log")
    if tolerance > 0:
        axes.axhline(tolerance, color="black", ls="--", lw=1.2, label=f"tolerance {tolerance:g}")
    if axes.get_legend_handles_labels()[0]:
        axes.legend(fontsize=9, loc="best", framealpha=0.9)
    return None


def _mark_events(axes: Axes, events: list[dict[str, Any]]) -> None:
    """A dotted line where something happened, in the colour of its kind."""
    for event in events:
        if isinstance(event.get("iteration"), int | float):
            shown = EVENT_COLOURS.get(str(event.get("kind")), OTHER_EVENT)
            axes.axvline(event["iteration"], color=shown, lw=1.3, ls=":", zorder=0)


def _list_events(axes: Axes, read: Run) -> None:
    """The latest events in words, from top to bottom."""
    axes.set_axis_off()
    axes.set_title("events (dotted lines)", fontsize=11, loc="left")
    shown, y = read.events[-MOST_EVENTS:], 0.97
    earlier = len(read.events) - len(shown)
    said = f"{earlier} earlier ones are in {read.files.events.name}"
    lines = [(said, OTHER_EVENT)] if earlier else []
    for event in shown:
        kind = str(event.get("kind"))
        words = f"{event.get('iteration', '-')}  {kind}: {event.get('message', '')}"
        lines.append((one_line(words, 200), EVENT_COLOURS.get(kind, OTHER_EVENT)))
    for words, shown_in in lines or [("none", OTHER_EVENT)]:
        wrapped = textwrap.wrap(words, 50, max_lines=2, placeholder=" …", subsequent_indent="    ")
        axes.text(
            0,
            y,
            "\n".join(wrapped),
            transform=axes.transAxes,
            fontsize=9,
            va="top",
            color=shown_in,
            parse_math=False,
            in_layout=False,  # the panel has a width of its own, whatever is said in it
        )
        y -= 0.05 * len(wrapped) + 0.022


# --- clusters -------------------------------------------------------------------------------------


def clusters_figure(run: Path) -> Path:
    """The points by cluster, and what else the network says that can be seen."""
    read = Run.read(run)
    sizes = read.cluster_sizes()
    points, labels = read.preview()
    if points.ndim == 4:
        fig = _image_grid(read.title, points, labels, sizes)
    elif points.shape[1] == 2 and read.has_whole_model:
        fig = _planes(read, points, labels, sizes)
    else:
        fig = panels.new_figure(10.5, max(4.9, 1.6 + 0.22 * min(len(sizes), 30)), read.title)
        left, right = fig.subplots(1, 2, width_ratios=(1.5, 1))
        standardise = read.settings.get("scaling") == "standard"
        panels.project(left, points, labels, len(sizes), standardise)
        _size_bars(right, sizes)
    return panels.save(fig, read.files.figures / "clusters.png")


def _planes(read: Run, points: np.ndarray, labels: np.ndarray, sizes: list[int]) -> Figure:
    """2-D data: points over the decision regions, log p(x), and samples, on the same axes."""
    model = read.model()
    low, high = points.min(0), points.max(0)
    margin = np.where(high > low, 0.15 * (high - low), 1.0)
    (x0, y0), (x1, y1) = low - margin, high + margin
    xs, ys = np.linspace(x0, x1, GRID), np.linspace(y0, y1, GRID)
    nodes = np.stack(np.meshgrid(xs, ys), -1).reshape(-1, 2)
    names = getattr(model, "feature_names_in_", None)
    if names is not None:
        del model.feature_names_in_  # an array without names is what the nodes are
    columns = ["x1", "x2"] if names is None else [one_line(name, 40) for name in names]
    regions = model.predict(nodes).reshape(GRID, GRID)
    density = model.score_samples(nodes).reshape(GRID, GRID)
    samples, drawn = model.sample(SAMPLES, random_state=0)
    inside = ((samples >= (x0, y0)) & (samples <= (x1, y1))).all(1)  # never so for NaN
    outside = SAMPLES - int(inside.sum())

    ratio = (y1 - y0) / (x1 - x0)
    alike = 1 / 3 < ratio < 3  # such ranges are drawn to one scale
    height = 1.9 + (3.8 * ratio if alike else 3.6)
    fig = panels.new_figure(13.5, height, read.title, "compressed")
    left, middle, right = fig.subplots(1, 3, sharex=True, sharey=True)
    shades = np.array([panels.shade(k) for k in range(len(sizes))])[regions]
    left.imshow(shades, origin="lower", extent=(x0, x1, y0, y1), aspect="auto")
    panels.scatter(left, points, labels, len(sizes))
    _density(fig, middle, xs, ys, density)
    panels.scatter(right, samples[inside], drawn[inside], len(sizes))
    drawn_title = f"{SAMPLES} new samples" + (f", {outside} outside" if outside else "")
    titles = ("points and decision regions", "log-density", drawn_title)
    for axes, title in zip((left, middle, right), titles, strict=True):
        axes.set(xlim=(x0, x1), ylim=(y0, y1))
        axes.set_aspect("equal" if alike else "auto")
        panels.dress(axes, title, columns[0], columns[1] if axes is left else "")
    if len(sizes) <= 24:
        fig.legend(
            left.collections[: len(sizes)],
            [f"cluster {k} ({size})" for k, size in enumerate(sizes)],
            loc="outside lower center",
            ncols=min(8, len(sizes)),
            fontsize=10,
            markerscale=2,
            frameon=False,
        )
    return fig


def _density(fig: Figure, axes: Axes, xs: np.ndarray, ys: np.ndarray, density: np.ndarray) -> None:
    """log p(x) as filled contours with their scale.  density: (ys, xs)"""
    if not np.isfinite(density).all():
        return panels.note(axes, "log p(x) is not finite")
    # A few cells far from the data fall deep: they must not use up the colours.
    floor, top = float(np.quantile(density, 0.02)), float(density.max())
    levels = np.linspace(floor, max(top, floor + 1e-6), 21)
    filled = axes.contourf(xs, ys, density, levels, cmap="cividis", extend="min")
    bar = fig.colorbar(filled, cax=axes.inset_axes((1.03, 0.0, 0.04, 1.0)))
    bar.set_ticks([float(level) for level in levels[::5]], labels=[f"{v:.3g}" for v in levels[::5]])
    bar.ax.tick_params(labelsize=9)
    bar.set_label("log p(x), up to a constant", fontsize=9)
    return None


def _image_grid(title: str, images: np.ndarray, labels: np.ndarray, sizes: list[int]) -> Figure:
    """A row of examples of each cluster, evenly spaced in the order of the data."""
    low, high = float(images.min()), float(images.max())
    shown = np.moveaxis((images - low) / max(high - low, np.finfo(np.float64).tiny), 1, -1)
    if shown.shape[-1] != 3:
        shown = shown.mean(-1, keepdims=True).repeat(3, -1)
    height, width = shown.shape[1:3]
    fig = panels.new_figure(9.5, 1.0 + 0.85 * min(len(sizes), 30), title)
    rows = fig.subplots(len(sizes), 1, squeeze=False)[:, 0]
    for k, axes in enumerate(rows):
        strip = np.ones((height, EXAMPLES * (width + 1) - 1, 3))
        members = np.flatnonzero(labels == k)
        for i, j in enumerate(members[evenly_spaced(len(members), EXAMPLES)]):
            strip[:, i * (width + 1) : i * (width + 1) + width] = shown[j]
        axes.imshow(strip, interpolation="nearest")
        axes.set(xticks=[], yticks=[])
        axes.spines[:].set_visible(False)
        words = f"cluster {k}\n{sizes[k]} images"
        axes.set_ylabel(words, rotation=0, ha="right", va="center", fontsize=9)
    return fig


def _size_bars(axes: Axes, sizes: list[int]) -> None:
    """How many points each cluster has; colours and ticks are the legend of the points."""
    for k, size in enumerate(sizes):
        hatch = HATCHES[k // len(panels.COLOURS) % len(HATCHES)]
        axes.barh(k, size, color=panels.colour(k), hatch=hatch, edgecolor="white")
        if len(sizes) <= 30:
            axes.text(size, k, f" {size}", va="center", fontsize=9)
    if len(sizes) <= 30:
        axes.set_yticks(range(len(sizes)))
    axes.set_xlim(0, 1.15 * max(*sizes, 1))
    axes.invert_yaxis()
    panels.dress(axes, "cluster sizes", "points", "cluster")


# --- the choice of the number of clusters ---------------------------------------------------------


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
