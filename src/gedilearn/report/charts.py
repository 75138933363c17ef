"""Charts as inline SVG: shapes and classes, which the page's style gives colours, light or dark."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from gedilearn.report.markup import digits, text

WIDTH, HEIGHT = 440.0, 340.0
COLOURS = 10  # that the style has; from then on they come again as squares
LEFT, RIGHT, TOP, BOTTOM = 14.0, 8.0, 8.0, 34.0


@dataclass(frozen=True)
class Plane:
    """The part of a chart where things are drawn, and what values its edges have."""

    x0: float
    x1: float
    y0: float
    y1: float
    width: float = WIDTH
    height: float = HEIGHT
    left: float = LEFT

    @classmethod
    def around(cls, points: np.ndarray, alike: bool, margin: float = 0.06) -> Plane:
        """Around points (n, 2); with `alike`, both axes have one scale."""
        low, high = points.min(0), points.max(0)
        span = np.where(high > low, high - low, 1.0)
        low, high = low - margin * span, high + margin * span
        plane = cls(low[0], high[0], low[1], high[1])
        if alike:
            wanted = (high - low) / (plane.inner_width, plane.inner_height)
            grow = (wanted.max() / wanted - 1) * (high - low) / 2
            low, high = low - grow, high + grow
            plane = cls(low[0], high[0], low[1], high[1])
        return plane

    @property
    def inner_width(self) -> float:
        return self.width - self.left - RIGHT

    @property
    def inner_height(self) -> float:
        return self.height - TOP - BOTTOM

    def x(self, value: np.ndarray | float) -> np.ndarray:
        """In units of the drawing, from the plane's left edge."""
        return np.asarray((np.asarray(value) - self.x0) / (self.x1 - self.x0) * self.inner_width)

    def y(self, value: np.ndarray | float) -> np.ndarray:
        """In units of the drawing, downwards from the plane's upper edge."""
        return np.asarray((self.y1 - np.asarray(value)) / (self.y1 - self.y0) * self.inner_height)

    def holds(self, points: np.ndarray) -> np.ndarray:
        """Which of the points (n, 2) lie in it; none that is not finite."""
        inside = (points >= (self.x0, self.y0)) & (points <= (self.x1, self.y1))
        return np.asarray(inside.all(1))

    def chart(
        self,
        content: str,
        name: str,
        titles: Sequence[str],
        ends: bool = True,
        outside: str = "",
    ) -> str:
        """The whole drawing: what is in the plane, its frame, titles, and values at the ends.

        `name` says in words what is to be seen. `outside` is drawn over it, on all of the chart.
        """
        w, h, x, y = self.inner_width, self.inner_height, self.left, TOP
        below = y + h + 13
        words = [_label(x + w / 2, below + 12, titles[0], "middle", "title")]
        turn = f' transform="rotate(-90 {self.left - 5:g} {y + h / 2:g})"'
        words.append(_label(self.left - 5, y + h / 2, titles[1], "middle", "title", turn))
        if ends:
            low, high = digits(self.x0, 3), digits(self.x1, 3)
            words.append(_label(x, below, low, "start", "x0"))
            words.append(_label(x + w, below, high, "end", "x1"))
            for at, value, kind in ((y + h - 3, self.y0, "y0"), (y + 10, self.y1, "y1")):
                words.append(_label(x + 4, at, digits(value, 3), "start", kind))
        ranges = " ".join(f"{v:.6g}" for v in (self.x0, self.x1, self.y0, self.y1))
        return (
            f'<svg class="chart" viewBox="0 0 {self.width:g} {self.height:g}" role="img" '
            f'aria-label="{text(name)}">'
            f'<rect class="frame" x="{x:g}" y="{y:g}" width="{w:g}" height="{h:g}" rx="4"/>'
            f'<svg class="plane" x="{x:g}" y="{y:g}" width="{w:g}" height="{h:g}" '
            f'viewBox="0 0 {w:g} {h:g}" data-range="{ranges}">{content}</svg>'
            f"{''.join(words)}{outside}</svg>"
        )


def _label(x: float, y: float, words: str, anchor: str, kind: str, more: str = "") -> str:
    return (
        f'<text class="{kind}" x="{x:g}" y="{y:g}" text-anchor="{anchor}"{more}>{text(words)}'
        "</text>"
    )


def colour(cluster: int) -> str:
    """The classes that give a cluster its colour and shape."""
    square = " square" if cluster // COLOURS % 2 else ""
    return f"c{cluster % COLOURS}{square}"


def dots(plane: Plane, points: np.ndarray, kind: str) -> str:
    """Points (n, 2) as one path, in their order: lines without length, whose ends are seen."""
    xs, ys = plane.x(points[:, 0]), plane.y(points[:, 1])
    steps = "".join(f"M{_short(a)} {_short(b)}h0" for a, b in zip(xs, ys, strict=True))
    return f'<path class="dots {kind}" d="{steps}"/>'


def marks(plane: Plane, points: np.ndarray, labels: np.ndarray, n_clusters: int) -> str:
    """The number of each cluster in the middle of its points, so that colour is not needed."""
    found = []
    for k in range(n_clusters):
        own = points[labels == k]
        if len(own):
            # The point nearest to the medians is one of the cluster's, whatever its shape.
            middle = own[np.abs(own - np.median(own, axis=0)).sum(1).argmin()]
            x, y = _short(plane.x(middle[0])), _short(plane.y(middle[1]))
            found.append(f'<text x="{x}" y="{y}" text-anchor="middle" dy=".35em">{k}</text>')
    return f'<g class="marks" aria-hidden="true">{"".join(found)}</g>'


def areas(plane: Plane, grid: np.ndarray, kinds: Iterable[tuple[int, str]]) -> str:
    """Cells of a grid (rows from below, columns) with a value, as one path for each value."""
    rows, columns = grid.shape
    xs = [_short(x) for x in np.linspace(0, plane.inner_width, columns + 1)]
    ys = [_short(y) for y in np.linspace(plane.inner_height, 0, rows + 1)]
    found = []
    for value, kind in kinds:
        runs = []
        for i, line in enumerate(grid == value):
            edges = np.flatnonzero(np.diff(np.concatenate([[False], line, [False]]).astype(int)))
            for start, end in edges.reshape(-1, 2):
                runs.append(f"M{xs[start]} {ys[i]}H{xs[end]}V{ys[i + 1]}H{xs[start]}z")
        if runs:
            found.append(f'<path class="area {kind}" d="{"".join(runs)}"/>')
    return "".join(found)


def nodes(plane: Plane, columns: int, rows: int) -> np.ndarray:
    """The middles of a grid's cells, row by row from below: (rows * columns, 2)."""
    xs = plane.x0 + (np.arange(columns) + 0.5) * (plane.x1 - plane.x0) / columns
    ys = plane.y0 + (np.arange(rows) + 0.5) * (plane.y1 - plane.y0) / rows
    return np.stack(np.meshgrid(xs, ys), -1).reshape(-1, 2)


def bars(
    edges: Sequence[float], counts: Sequence[int], name: str, x_title: str, below: int = 0
) -> str:
    """A histogram; heights grow with the square root, so that few are seen beside many."""
    plane = Plane(edges[0], edges[-1], 0, math.sqrt(max(*counts, 1)) * 1.12, height=190.0)
    found = []
    for left, right, count in zip(edges[:-1], edges[1:], counts, strict=True):
        if count:
            x0, x1, y = plane.x(left) + 0.5, plane.x(right) - 0.5, plane.y(math.sqrt(count))
            high = plane.inner_height - y
            found.append(
                f'<rect class="bar" x="{_short(x0)}" y="{_short(y)}" '
                f'width="{_short(max(float(x1 - x0), 0.5))}" height="{_short(high)}">'
                f"<title>{digits(left, 3)} to {digits(right, 3)}: {count:,}</title></rect>"
            )
    note = ""
    if below:
        note = _label(plane.left + 6, TOP + 24, f"← {below:,} lower still", "start", "note")
    chart = plane.chart("".join(found), name, (x_title, ""), ends=False, outside=note)
    ends = [
        _label(plane.left, plane.height - BOTTOM + 13, digits(edges[0], 3), "start", "x0"),
        _label(plane.width - RIGHT, plane.height - BOTTOM + 13, digits(edges[-1], 3), "end", "x1"),
    ]
    return chart.removesuffix("</svg>") + "".join(ends) + "</svg>"


def lines(
    x: np.ndarray,
    series: Sequence[tuple[np.ndarray, str]],
    name: str,
    y_title: str,
    level: float | None = None,
    logarithmic: bool = False,
) -> str:
    """Curves over iterations, (looks,) each, with the class of their line; gaps where not finite.

    `level` is a dashed line.
    """
    values = np.concatenate([v for v, _ in series] + ([[level]] if level else []))
    usable = np.isfinite(values) & ((values > 0) | (not logarithmic))
    if not usable.any():
        return f"<p>{text(name)}: no finite value to draw.</p>"
    scale = np.log10 if logarithmic else np.asarray
    low, high = (float(scale(v)) for v in (values[usable].min(), values[usable].max()))
    pad = 0.06 * (high - low) or 0.5
    right = float(x.max()) if len(x) > 1 else float(x.max()) + 1
    plane = Plane(float(x.min()), right, low - pad, high + pad, height=190.0)
    drawn = []
    if level and (level > 0 or not logarithmic):
        at = _short(plane.y(scale(level)))
        drawn.append(f'<path class="level" d="M0 {at}h{plane.inner_width:g}"/>')
    for curve, kind in series:
        good = np.isfinite(curve) & ((curve > 0) | (not logarithmic))
        path, pen = [], "M"
        for a, b, fine in zip(x, curve, good, strict=True):
            if fine:
                path.append(f"{pen}{_short(plane.x(a))} {_short(plane.y(scale(b)))}")
            pen = "L" if fine else "M"
        # A single look is a dot.
        drawn.append(f'<path class="line {kind}" d="{"".join(path)}{"h0" if path else ""}"/>')
    highest = digits(10**high if logarithmic else high, 3)
    lowest = digits(10**low if logarithmic else low, 3)
    chart = plane.chart("".join(drawn), name, ("iteration", ""), ends=False)
    bottom = plane.height - BOTTOM
    words = [
        _label(plane.left, bottom + 13, digits(plane.x0, 6), "start", "x0"),
        _label(plane.width - RIGHT, bottom + 13, digits(plane.x1, 6), "end", "x1"),
        _label(plane.left + 4, TOP + 11, f"{highest} {y_title}", "start", "y1"),
        _label(plane.left + 4, bottom - 4, lowest, "start", "y0"),
    ]
    return chart.removesuffix("</svg>") + "".join(words) + "</svg>"


def effect_bar(effect: float) -> str:
    """A bar to the left or right of the middle, as long as the effect, up to three deviations."""
    length = 30 * min(abs(effect), 3.0) / 3
    x = 32 - length if effect < 0 else 32
    kind = "less" if effect < 0 else "more"
    return (
        '<svg class="effect" viewBox="0 0 64 12" width="64" height="12" aria-hidden="true">'
        f'<path class="middle" d="M32 0v12"/><rect class="{kind}" x="{_short(x)}" y="2" '
        f'width="{_short(length)}" height="8" rx="1"/></svg>'
    )


def _short(value: np.ndarray | float) -> str:
    """One digit after the point, and no zero there."""
    return f"{float(value):.1f}".removesuffix(".0")
