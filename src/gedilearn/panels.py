"""The parts that all figures are made of: colours, titles and axes.

Nothing here touches pyplot: a program's own figures and backend stay as they are.
"""

from __future__ import annotations

import textwrap
import warnings
from pathlib import Path
from typing import TYPE_CHECKING

from gedilearn.io import printable, replacing

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Okabe and Ito's eight, which people with colour blindness tell apart, and two more; from the
# eleventh cluster on they come again with another marker.
COLOURS = (
    "#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9",
    "#D55E00", "#000000", "#8A8A8A", "#882255", "#F0E442",
)  # fmt: skip


def new_figure(width: float, height: float, title: str) -> Figure:
    """An empty figure outside pyplot, in inches, made higher for a title of many lines."""
    from matplotlib.figure import Figure

    lines = textwrap.wrap(printable(title), int(width * 9.5), max_lines=4, placeholder=" …")
    size = (width, height + 0.22 * (len(lines) - 1))
    fig = Figure(figsize=size, dpi=130, facecolor="white")
    fig.set_layout_engine("constrained", w_pad=0.1, h_pad=0.06, wspace=0.03)
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


def colour(cluster: int) -> str:
    return COLOURS[cluster % len(COLOURS)]
