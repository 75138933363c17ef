"""Pictures of a run, drawn from its run directory alone, and of a choice among several fits.

`training.png` shows the terms and the gap over the iterations, `clusters.png` what the network made
of the data.
"""

from __future__ import annotations

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
    """All figures of a finished run; none is written unless all can be drawn."""
    read = Run.read(run)
    figures = {"training.png": _training(read), "clusters.png": _clusters(read)}
    return [panels.save(fig, read.files.figures / name) for name, fig in figures.items()]


# --- training -------------------------------------------------------------------------------------


def training_figure(run: Path) -> Path:
    """The named terms and the gap over the iterations; also of a run that is still going on."""
    read = Run.read(run)
    return panels.save(_training(read), read.files.figures / "training.png")


def _training(read: Run) -> Figure:
    curves = read.curves()
    n = max(len(curves.terms), 1)
    fig = panels.new_figure(max(10.0, 3.0 * n), 6.8, read.title)
    grid = fig.add_gridspec(2, 1, height_ratios=(1, 1.4))
    small, wide = grid[0].subgridspec(1, n), grid[1].subgridspec(1, 2, width_ratios=(3, 2))
    for i, (name, values) in enumerate(curves.terms.items()):
        axes = fig.add_subplot(small[i])
        _member_lines(axes, curves, values)
        unit = "nats squared" if name == "energy" else "nats"
        panels.label_axes(axes, TERM_TITLES.get(name, one_line(name)), "iteration", unit)
    axes = fig.add_subplot(wide[0])
    _gap_lines(axes, curves, read.tolerance)
    _draw_events(axes, fig.add_subplot(wide[1]), read)
    return fig


def _member_lines(axes: Axes, curves: Curves, values: np.ndarray) -> None:
    """One line a member, the kept one on top.  values: (looks, members)"""
    if not np.isfinite(values).any():
        return panels.note(axes, "not finite")
    marker, label = "o" if len(values) <= 40 else "", None
    others = np.delete(values, curves.kept, axis=1)
    if others.size:
        lines = axes.plot(curves.iterations, others, color="#A0A0A0", lw=1, marker=marker, ms=2)
        lines[0].set_label("other members")
        label = f"member {curves.kept}, kept"
    kept, blue = values[:, curves.kept], panels.COLOURS[0]
    axes.plot(curves.iterations, kept, color=blue, lw=2, marker=marker, ms=4, label=label)
    return None


def _gap_lines(axes: Axes, curves: Curves, tolerance: float) -> None:
    """The gap on a log axis, with the tolerance as a dashed line."""
    positive = np.where(np.isfinite(curves.gap) & (curves.gap > 0), curves.gap, np.nan)
    panels.label_axes(axes, "gap to the optimum of Proposition 1", "iteration", "nats, log scale")
    if np.isnan(positive).all():
        return panels.note(axes, "no finite gap above 0 was measured")
    _member_lines(axes, curves, positive)
    axes.set_yscale("log")
    if tolerance > 0:
        axes.axhline(tolerance, color="black", ls="--", lw=1.2, label=f"tolerance {tolerance:g}")
    if axes.get_legend_handles_labels()[0]:
        axes.legend(fontsize=9, loc="best", framealpha=0.9)
    return None


def _draw_events(axes: Axes, panel: Axes, read: Run) -> None:
    """A dotted line where something happened, and the latest events in words in the panel."""
    panel.set_axis_off()
    panel.set_title("events (dotted lines)", fontsize=11, loc="left")
    lines = []
    for event in read.events:
        kind = str(event.get("kind"))
        colour = EVENT_COLOURS.get(kind, OTHER_EVENT)
        if isinstance(event.get("iteration"), int | float):
            axes.axvline(event["iteration"], color=colour, lw=1.3, ls=":", zorder=0)
        words = f"{event.get('iteration', '-')}  {kind}: {event.get('message', '')}"
        lines.append((one_line(words, 200), colour))
    earlier = len(lines) - MOST_EVENTS
    if earlier > 0:
        said = f"{earlier} earlier ones are in {read.files.events.name}"
        lines = [(said, OTHER_EVENT), *lines[earlier:]]
    # The panel has a width of its own, whatever is said in it.
    style: dict[str, Any] = {"fontsize": 9, "va": "top", "parse_math": False, "in_layout": False}
    y = 0.97
    for words, colour in lines or [("none", OTHER_EVENT)]:
        wrapped = textwrap.wrap(words, 50, max_lines=2, placeholder=" …", subsequent_indent="    ")
        panel.text(0, y, "\n".join(wrapped), color=colour, transform=panel.transAxes, **style)
        y -= 0.05 * len(wrapped) + 0.022


# --- clusters -------------------------------------------------------------------------------------


def clusters_figure(run: Path) -> Path:
    """The points by cluster, and what else the network says that can be seen."""
    read = Run.read(run)
    return panels.save(_clusters(read), read.files.figures / "clusters.png")


def _clusters(read: Run) -> Figure:
    sizes = read.finished()["cluster_sizes"]
    preview = read.preview()
    points, labels = preview.points, preview.labels
    if points.ndim == 4:
        fig = _image_grid(read.title, points, labels, sizes)
    elif points.shape[1] == 2 and read.has_usable_model:
        fig = _planes(read, points, labels, sizes)
    else:
        fig = panels.new_figure(10.5, max(4.9, 1.6 + 0.22 * min(len(sizes), 30)), read.title)
        left, right = fig.subplots(1, 2, width_ratios=(1.5, 1))
        standardise = read.config.settings.get("scaling") == "standard"
        panels.project(left, points, labels, len(sizes), standardise)
        _size_bars(right, sizes)
    return fig


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
        panels.label_axes(axes, title, columns[0], columns[1] if axes is left else "")
    if len(sizes) <= 24:
        names = [f"cluster {k} ({size})" for k, size in enumerate(sizes)]
        below = {"ncols": min(8, len(sizes)), "fontsize": 10, "markerscale": 2, "frameon": False}
        fig.legend(left.collections[: len(sizes)], names, loc="outside lower center", **below)
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
    clusters = range(len(sizes))
    colours = [panels.colour(k) for k in clusters]
    hatches = [HATCHES[k // len(panels.COLOURS) % len(HATCHES)] for k in clusters]
    bars = axes.barh(clusters, sizes, color=colours, hatch=hatches, edgecolor="white")
    if len(sizes) <= 30:
        axes.bar_label(bars, padding=2, fontsize=9)
        axes.set_yticks(clusters)
    axes.set_xlim(0, 1.15 * max(*sizes, 1))
    axes.invert_yaxis()
    panels.label_axes(axes, "cluster sizes", "points", "cluster")


# --- the choice of the number of clusters ---------------------------------------------------------


def choice_figure(choice: Choice, path: Path) -> Path:
    """Gap, stability and unused clusters over the number of clusters, the chosen one marked."""
    from matplotlib.ticker import MaxNLocator

    numbers, gaps, agreements, unused = (
        np.array([row[name] for row in choice.rows], dtype=float)
        for name in ("n_clusters", "gap", "stability", "unused")
    )
    certified = np.array([row["certified"] for row in choice.rows])
    tol = choice.model.settings_.training.tol
    fig = panels.new_figure(11.5, 4.4, choice.recommendation)
    left, middle, right = fig.subplots(1, 3)

    finite = np.isfinite(gaps)
    _points(left, numbers, np.where(finite, gaps, np.nan), certified)
    left.axhline(tol, color="#555555", lw=1, ls="--", label=f"certified below {tol:g}")
    left.set_yscale("symlog", linthresh=max(tol, 1e-6))
    left.set_ylim(0, 2 * max([tol, *gaps[finite]]))
    _points(middle, numbers, agreements, certified)
    middle.set_ylim(min(0.0, *agreements) - 0.05, 1.05)
    right.bar(numbers, unused, color=panels.COLOURS[0], width=0.6)
    right.set_ylim(0, max(1, *unused) * 1.1)
    right.yaxis.set_major_locator(MaxNLocator(integer=True))

    panels.label_axes(left, "gap of the best initialisation", "clusters", "nats")
    panels.label_axes(middle, "stability", "clusters", "adjusted Rand index")
    panels.label_axes(right, "unused clusters", "clusters", "")
    mark = f"{'chosen' if choice.stands_out else 'least bad'}: {choice.n_clusters}"
    for axes in (left, middle, right):
        axes.axvline(choice.n_clusters, color="#D55E00", lw=8, alpha=0.25, zorder=0, label=mark)
        axes.set_xlim(numbers[0] - 0.6, numbers[-1] + 0.6)
        axes.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
    if not unused.any():
        panels.note(right, "none")
        right.tick_params(labelleft=True, labelbottom=True)
    handles = left.get_legend_handles_labels()
    fig.legend(*handles, loc="outside lower center", ncols=3, frameon=False)
    return panels.save(fig, path)


def _points(axes: Axes, numbers: np.ndarray, values: np.ndarray, certified: np.ndarray) -> None:
    """A line through the values; filled points are certified."""
    blue = panels.COLOURS[0]
    axes.plot(numbers, values, color=blue, lw=1.2, zorder=1)
    for which, fill, label in ((certified, blue, "certified"), (~certified, "white", None)):
        x, y = numbers[which], values[which]
        if len(x):
            axes.scatter(x, y, s=46, facecolor=fill, edgecolor=blue, zorder=2, label=label)
