"""Pictures of a run, drawn from its run directory alone.

`figures/training.png` shows the terms and the gap over the iterations, `figures/clusters.png` what
the network made of the data. Nothing here touches pyplot: a program's own figures and backend stay
as they are.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from gedilearn.report import panels
from gedilearn.report.reading import Run, one_line

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

TERM_TITLES = {
    "gen": "GEN (generative)",
    "inv": "INV (invariance)",
    "prior": "PRIOR (proportions)",
    "energy": "energy scale",
}
SAMPLES = 300
GRID = 200  # cells a side of the decision regions and of log p(x)
EXAMPLES = 10  # images shown of a cluster


def draw_all(run: Path) -> list[Path]:
    """All figures of a finished run."""
    return [training_figure(run), clusters_figure(run)]


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
        panels.member_lines(axes, curves, values)
        unit = "nats squared" if name == "energy" else "nats"
        panels.dress(axes, TERM_TITLES.get(name, one_line(name)), "iteration", unit)
    axes = fig.add_subplot(wide[0])
    panels.gap_lines(axes, curves, read.tolerance)
    panels.mark_events(axes, read.events)
    panels.list_events(fig.add_subplot(wide[1]), read.events)
    return panels.save(fig, read.path / "figures" / "training.png")


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
        panels.size_bars(right, sizes)
    return panels.save(fig, read.path / "figures" / "clusters.png")


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
        n = min(EXAMPLES, len(members))
        for i, j in enumerate(members[np.arange(n) * len(members) // max(n, 1)]):
            strip[:, i * (width + 1) : i * (width + 1) + width] = shown[j]
        axes.imshow(strip, interpolation="nearest")
        axes.set(xticks=[], yticks=[])
        axes.spines[:].set_visible(False)
        words = f"cluster {k}\n{sizes[k]} images"
        axes.set_ylabel(words, rotation=0, ha="right", va="center", fontsize=9)
    return fig
