"""The parts that all figures are made of: colours, axes, and points in the colours of clusters.

Nothing here touches pyplot: a program's own figures and backend stay as they are.
"""

from __future__ import annotations

import textwrap
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np

from gedilearn.data.arrays import Scaling
from gedilearn.io import printable, replacing

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
Layout = Literal["constrained", "compressed"]


def new_figure(width: float, height: float, title: str, layout: Layout = "constrained") -> Figure:
    """An empty figure outside pyplot, in inches, made higher for a title of many lines."""
    from matplotlib.figure import Figure

    lines = textwrap.wrap(printable(title), int(width * 9.5), max_lines=4, placeholder=" …")
    size = (width, height + 0.22 * (len(lines) - 1))
    fig = Figure(figsize=size, dpi=130, facecolor="white")
    fig.set_layout_engine(layout, w_pad=0.1, h_pad=0.06, wspace=0.03)
    # Text from files must not be read as mathematics.
    fig.suptitle("\n".join(lines), fontsize=12, parse_math=False)
    return fig


def save(fig: Figure, path: Path) -> Path:
    """Write the picture whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as temporary, warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph")  # a box stands for a missing letter
        fig.savefig(temporary, format="png")
    return path


def label_axes(axes: Axes, title: str, x: str, y: str) -> None:
    """Title, labels and quiet frames, the same everywhere."""
    axes.set_title(printable(title), fontsize=11, parse_math=False)
    axes.set_xlabel(printable(x), fontsize=10, parse_math=False)
    axes.set_ylabel(printable(y), fontsize=10, parse_math=False)
    axes.tick_params(labelsize=9)
    axes.spines[["top", "right"]].set_visible(False)


def note(axes: Axes, words: str) -> None:
    """Words in place of a drawing that cannot be made."""
    axes.tick_params(labelleft=False, labelbottom=False)
    box, at = {"facecolor": "white", "edgecolor": "none"}, axes.transAxes
    axes.text(0.5, 0.5, words, ha="center", va="center", fontsize=10, bbox=box, transform=at)


def colour(cluster: int) -> str:
    return COLOURS[cluster % len(COLOURS)]


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
        return label_axes(axes, "points by cluster", "x1", "points")
    if points.shape[1] == 2:
        scatter(axes, points, labels, n_clusters)
        return label_axes(axes, "points by cluster", "x1", "x2")
    plane, share = principal_plane(Scaling.fit(points).apply(points) if standardise else points)
    scatter(axes, plane, labels, n_clusters)
    names = [f"principal component {i + 1} ({share[i]:.0%} of variance)" for i in range(2)]
    return label_axes(axes, "points by cluster", *names)


def principal_plane(points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Coordinates (n, 2) on the first two principal components, and their shares of variance."""
    centred = points.astype(np.float64) - points.mean(0, dtype=np.float64)
    u, s, _ = np.linalg.svd(centred, full_matrices=False)
    s = np.pad(s, (0, 2))  # a single point has no second component
    share = s**2 / max(float((s**2).sum()), np.finfo(np.float64).tiny)
    return np.pad(u, ((0, 0), (0, 2)))[:, :2] * s[:2], share[:2]
