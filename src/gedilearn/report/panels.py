"""The parts that figures are made of: colours, axes, and panels that draw into given axes."""

from __future__ import annotations

import os
import textwrap
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from gedilearn.data.arrays import Scaling
from gedilearn.report.reading import Curves, one_line

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Okabe and Ito's eight, which people with colour blindness tell apart, and two more; from the
# eleventh cluster on they come again with another marker and hatch.
COLOURS = (
    "#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9",
    "#D55E00", "#000000", "#8A8A8A", "#882255", "#F0E442",
)  # fmt: skip
MARKERS = "o^sDv"
HATCHES = ("", "////", "....", "xxxx", "----")
EVENT_COLOURS = {
    "finding": "#C04A00",
    "diverged": "#C04A00",
    "mended": "#00795A",
    "certified": "#0072B2",
}
OTHER_EVENT = "#555555"
MOST_EVENTS = 9  # listed in words; all are in events.jsonl


def new_figure(
    width: float,
    height: float,
    title: str,
    layout: Literal["constrained", "compressed"] = "constrained",
) -> Figure:
    """An empty figure outside pyplot, in inches, made higher for a title of many lines."""
    from matplotlib.figure import Figure

    lines = textwrap.wrap(title, int(width * 9.5), max_lines=4, placeholder=" …")
    size = (width, height + 0.22 * (len(lines) - 1))
    fig = Figure(figsize=size, dpi=130, facecolor="white")
    fig.set_layout_engine(layout, w_pad=0.1, h_pad=0.06, wspace=0.03)
    # Text from files must not be read as mathematics.
    fig.suptitle("\n".join(lines), fontsize=12, parse_math=False)
    return fig


def save(fig: Figure, path: Path) -> Path:
    """Write the picture whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.part")
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph")  # a box stands for a missing letter
        fig.savefig(temporary, format="png")
    os.replace(temporary, path)
    return path


def dress(axes: Axes, title: str, x: str, y: str) -> None:
    """Title, labels and quiet frames, the same everywhere."""
    axes.set_title(title, fontsize=11, parse_math=False)
    axes.set_xlabel(x, fontsize=10, parse_math=False)
    axes.set_ylabel(y, fontsize=10, parse_math=False)
    axes.tick_params(labelsize=9)
    axes.spines[["top", "right"]].set_visible(False)


def note(axes: Axes, words: str) -> None:
    """Words in place of a drawing that cannot be made."""
    axes.tick_params(labelleft=False, labelbottom=False)
    axes.text(
        0.5,
        0.5,
        words,
        transform=axes.transAxes,
        ha="center",
        va="center",
        fontsize=10,
        bbox={"facecolor": "white", "edgecolor": "none"},
    )


def colour(cluster: int) -> str:
    return COLOURS[cluster % len(COLOURS)]


def shade(cluster: int) -> np.ndarray:
    """The cluster's colour, light enough to lie under its points: (3,)."""
    from matplotlib.colors import to_rgb

    return 0.22 * np.array(to_rgb(colour(cluster))) + 0.78


def scatter(axes: Axes, points: np.ndarray, labels: np.ndarray, n_clusters: int) -> None:
    """Points (n, 2) in their clusters' colours."""
    size = float(np.clip(12_000 / max(len(points), 1), 9, 28))
    for k in range(n_clusters):
        x, y = points[labels == k].T
        marker = MARKERS[k // len(COLOURS) % len(MARKERS)]
        axes.scatter(x, y, s=size, color=colour(k), marker=marker, lw=0.3, edgecolor="white")


def project(
    axes: Axes, points: np.ndarray, labels: np.ndarray, n_clusters: int, standardise: bool
) -> None:
    """Points (n, d) by cluster: as they are up to d = 2, else their first principal components.

    Where the network sees standardised columns, these are what is projected.
    """
    if points.shape[1] == 1:
        rows = [points[labels == k, 0] for k in range(n_clusters)]
        axes.hist(rows, bins=40, stacked=True, color=[colour(k) for k in range(n_clusters)])
        return dress(axes, "points by cluster", "x1", "points")
    if points.shape[1] == 2:
        scatter(axes, points, labels, n_clusters)
        return dress(axes, "points by cluster", "x1", "x2")
    plane, share = principal_plane(Scaling.fit(points).apply(points) if standardise else points)
    scatter(axes, plane, labels, n_clusters)
    names = [f"principal component {i + 1} ({share[i]:.0%} of variance)" for i in range(2)]
    return dress(axes, "points by cluster", *names)


def principal_plane(points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Coordinates (n, 2) on the first two principal components, and their shares of variance."""
    centred = points.astype(np.float64) - points.mean(0, dtype=np.float64)
    u, s, _ = np.linalg.svd(centred, full_matrices=False)
    s = np.pad(s, (0, 2))  # a single point has no second component
    share = s**2 / max(float((s**2).sum()), np.finfo(np.float64).tiny)
    return np.pad(u, ((0, 0), (0, 2)))[:, :2] * s[:2], share[:2]


def size_bars(axes: Axes, sizes: list[int]) -> None:
    """How many points each cluster has; colours and ticks are the legend of the points."""
    for k, size in enumerate(sizes):
        hatch = HATCHES[k // len(COLOURS) % len(HATCHES)]
        axes.barh(k, size, color=colour(k), hatch=hatch, edgecolor="white")
        if len(sizes) <= 30:
            axes.text(size, k, f" {size}", va="center", fontsize=9)
    if len(sizes) <= 30:
        axes.set_yticks(range(len(sizes)))
    axes.set_xlim(0, 1.15 * max(*sizes, 1))
    axes.invert_yaxis()
    dress(axes, "cluster sizes", "points", "cluster")


def member_lines(axes: Axes, curves: Curves, values: np.ndarray) -> None:
    """One line a member, the kept one on top.  values: (looks, members)"""
    if not np.isfinite(values).any():
        return note(axes, "not finite")
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


def gap_lines(axes: Axes, curves: Curves, tolerance: float) -> None:
    """The gap on a log axis, with the tolerance as a dashed line."""
    positive = np.where(np.isfinite(curves.gap) & (curves.gap > 0), curves.gap, np.nan)
    dress(axes, "gap to the optimum of Proposition 1", "iteration", "nats, log scale")
    if np.isnan(positive).all():
        return note(axes, "no finite gap above 0 was measured")
    member_lines(axes, curves, positive)
    axes.set_yscale("log")
    if tolerance > 0:
        axes.axhline(tolerance, color="black", ls="--", lw=1.2, label=f"tolerance {tolerance:g}")
    if axes.get_legend_handles_labels()[0]:
        axes.legend(fontsize=9, loc="best", framealpha=0.9)
    return None


def mark_events(axes: Axes, events: list[dict[str, Any]]) -> None:
    """A dotted line where something happened, in the colour of its kind."""
    for event in events:
        if isinstance(event.get("iteration"), int | float):
            shown = EVENT_COLOURS.get(str(event.get("kind")), OTHER_EVENT)
            axes.axvline(event["iteration"], color=shown, lw=1.3, ls=":", zorder=0)


def list_events(axes: Axes, events: list[dict[str, Any]]) -> None:
    """The latest events in words, from top to bottom."""
    axes.set_axis_off()
    axes.set_title("events (dotted lines)", fontsize=11, loc="left")
    shown, y = events[-MOST_EVENTS:], 0.97
    earlier = len(events) - len(shown)
    lines = [(f"{earlier} earlier ones are in events.jsonl", OTHER_EVENT)] if earlier else []
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
