"""The pictures of a run. Each is drawn once, by matplotlib: SVG in the page, PNG in `figures/`.

In the page, colours are variables of its style, which has a light and a dark scheme. Text stays
text. The points of a cluster are one path, which the page's script reads.
"""

from __future__ import annotations

import base64
import io
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from markupsafe import Markup, escape

from gedilearn import panels
from gedilearn.data.arrays import evenly_spaced
from gedilearn.evaluation.ood import as_bytes, value_range
from gedilearn.io import printable
from gedilearn.report.run import Curves, Preview
from gedilearn.verdict.number import NumberChoice

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

WIDTH, HEIGHT, LOW = 5.4, 4.15, 2.5  # inches; the last is the height of charts other than maps
RATIO = 1.35  # width by height of a map's axes
FAINT, QUIET = "#c3cad2", "#55606c"
VARIABLES = {colour.lower(): f"var(--c{k})" for k, colour in enumerate(panels.COLOURS)} | {
    "#ffffff": "var(--paper)",
    FAINT: "var(--faint)",
    QUIET: "var(--quiet)",
}
MOST_NEAR, LEAST_NEAR = 1_500, 12  # points of a t-SNE map
PERPLEXITY = 30.0
SAMPLES = 300
GOLDEN = 0.6180339887498949
CELLS = 120, 90  # of the shades, columns and rows
SHARES = (0.99, 0.9, 0.5)  # of the rows in the shaded areas
TERMS = {
    "gen": "GEN (generative)",
    "inv": "INV (invariance)",
    "prior": "PRIOR (proportions)",
    "energy": "energy scale",
}
MOST_LEAVES = 60  # of a tree
WIDEST = 60.0  # points: the band of all rows
BINS = 30
FAR = 6.0  # interquartile ranges below the median
LARGEST, LOSSLESS = 48, 28  # pixels per side of an image in the page, and of one stored exactly


def one_line(text: str, width: int = 90) -> str:
    """Printable text on one line: names of files may hold anything."""
    shown = printable(text).replace("\n", " ")
    return shown if len(shown) <= width else shown[: width - 1] + "…"


def percent(share: float) -> str:
    return f"{100 * share:.1f}".removesuffix(".0") + "%"


@dataclass(frozen=True, eq=False)
class Picture:
    """A figure with its title, and a text for people who do not see it."""

    name: str  # of its file
    title: str
    alt: str
    figure: Figure

    def svg(self) -> Markup:
        """The figure for the page."""
        import matplotlib

        content = io.StringIO()
        with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": self.name}):
            self.figure.savefig(content, format="svg", transparent=True)
        text = re.sub(r"<(metadata|style).*?</\1>", "", content.getvalue(), flags=re.DOTALL)
        text = _POINTS.sub(_as_path, text)
        text = re.sub(r'<g id="([A-Za-z]+)[^"]*"', r'<g class="\1"', text)
        text = re.sub(r'style="[^"<>]*"', _as_variables, text)
        _, size, body = re.split(r'<svg [^>]*(viewBox="[^"]*")[^>]*>', text, maxsplit=1)
        attributes = f'class="chart" role="img" aria-label="{escape(self.alt)}"'
        return Markup(f"<svg {attributes} {size}>{body}")

    def save(self, folder: Path) -> Path:
        """The figure with its title, as PNG."""
        self.figure.suptitle(self.title, fontsize=12, parse_math=False)
        return panels.save(self.figure, folder / f"{self.name}.png")


_POINTS = re.compile(
    r'<g id="(cluster-\d+|faint)">\s*(?:<defs>.*?</defs>\s*)?'
    r'<g (clip-path="[^"]*")>(.*?)</g>\s*</g>',
    re.DOTALL,
)


def _as_path(match: re.Match[str]) -> str:
    """Markers as one path of lines without length; their round ends are visible."""
    gid, clip, uses = match.groups()
    kind = 'class="dots faint"'
    if gid != "faint":
        cluster = int(gid.removeprefix("cluster-"))
        kind = f'class="dots {style_of(cluster)}" data-cluster="{cluster}"'
    places = re.findall(r' x="([^"]*)" y="([^"]*)"', uses)
    steps = "".join(f"M{float(x):.1f} {float(y):.1f}h0" for x, y in places)
    return f'<g {clip}><path {kind} d="{steps}"/></g>'


def _as_variables(match: re.Match[str]) -> str:
    own_font = re.sub(r"font-family: [^;\"]*(; )?", "", match[0])
    return re.sub("#[0-9a-f]{6}", lambda m: VARIABLES.get(m[0], m[0]), own_font)


def style_of(cluster: int) -> str:
    """The CSS classes for the colour and shape of a cluster."""
    return f"c{cluster % len(panels.COLOURS)}{' square' if _is_square(cluster) else ''}"


def _is_square(cluster: int) -> bool:
    return bool(cluster // len(panels.COLOURS) % 2)


def _chart(height: float, x_title: str, y_title: str = "") -> tuple[Figure, Axes]:
    """Empty axes with grey frames."""
    figure = panels.new_figure(WIDTH, height, "")
    axes = figure.subplots()
    _quiet(axes, x_title, y_title)
    return figure, axes


def _quiet(axes: Axes, x_title: str, y_title: str) -> None:
    panels.label_axes(axes, "", x_title, y_title)
    axes.tick_params(colors=QUIET, labelcolor=QUIET)
    axes.spines[:].set_color(FAINT)
    axes.spines[:].set_visible(True)
    axes.ticklabel_format(useOffset=False)
    for label in (axes.xaxis.label, axes.yaxis.label):
        label.set_color(QUIET)


# --- maps -----------------------------------------------------------------------------------------


class Maps:
    """The maps of a run, with the same rows in the same order: cluster by cluster.

    One or two columns are shown as they are (`kind` 'line' and 'plane'), more by their first two
    principal components ('components'), which have a `share` of the variance.
    """

    def __init__(self, preview: Preview, names: Sequence[str], scaling: str) -> None:
        self.preview = preview
        self.order = np.argsort(preview.labels, kind="stable")
        self.labels = preview.labels[self.order]
        self.points = preview.points[self.order].reshape(len(self.order), -1)
        is_image = preview.points.ndim == 4
        self.titles: Sequence[str] = names
        self.place: Callable[[np.ndarray], np.ndarray]
        if self.points.shape[1] == 1:
            self.kind, self.titles = "line", (names[0], "")
            # Heights have no meaning; evenly spread, they separate the points.
            self.place = lambda x: np.column_stack([x[:, 0], np.arange(len(x)) * GOLDEN % 1])
        elif self.points.shape[1] == 2 and not is_image:
            self.kind, self.place = "plane", lambda x: x
        else:
            self.kind = "components"
            self._find_components([] if is_image else names, scaling == "standard" and not is_image)
        self.at = self.place(self.points)
        span = np.ptp(self.at, axis=0)
        similar = self.kind == "plane" and span.min() > 0 and 1 / 3 < span[0] / span[1] < 3
        self.is_equal = bool(similar) or self.kind == "components"  # one scale for both axes
        self.low, self.high = _edges(self.at, self.is_equal)
        self.near = self._near()
        self.outside = 0  # samples that are not on the map

    def _find_components(self, names: Sequence[str], standardise: bool) -> None:
        """Project rows on their first two principal components."""
        from sklearn.decomposition import PCA
        from sklearn.pipeline import make_pipeline
        from sklearn.preprocessing import StandardScaler

        pca = PCA(2, random_state=0)
        scaled = make_pipeline(StandardScaler() if standardise else "passthrough", pca)
        with np.errstate(invalid="ignore"):  # the shares of equal points
            scaled.fit(self.points)
        shares, self.titles = np.nan_to_num(pca.explained_variance_ratio_), []
        for i, weights in enumerate(np.abs(pca.components_)):
            most = [names[j] for j in np.argsort(-weights, kind="stable")[:2]] if names else []
            title = f"component {i + 1} ({percent(shares[i])})"
            self.titles.append(one_line(f"{title}: {' and '.join(most)}" if most else title, 46))
        self.place, self.share = scaled.transform, float(shares.sum())

    def _near(self) -> np.ndarray:
        """The points of the network's map; none if a plane shows the data as it is."""
        features = self.preview.features
        if self.points.shape[1] <= 2 or not np.isfinite(features).all():
            return np.zeros(0, int)
        near = np.flatnonzero(np.isin(self.order, evenly_spaced(len(features), MOST_NEAR)))
        is_flat = not np.ptp(features[self.order[near]], axis=0).any()
        return near[:0] if len(near) < LEAST_NEAR or is_flat else near

    def data(self, model: Any) -> Picture:
        """The points; in a plane, over the clusters of new rows at each place."""
        figure, axes = self._axes()
        if self.kind == "plane" and model is not None:
            x, y, nodes = self._nodes()
            labels = model.predict(nodes).reshape(len(y), len(x))
            for k in np.unique(labels):
                own, colour = (labels == k).astype(float), panels.colour(int(k))
                axes.contourf(x, y, own, [0.5, 1.5], colors=[colour], alpha=0.13)
        self._draw(axes, self.at, self.labels)
        return Picture("clusters", "The data", _alt(self.labels), figure)

    def network(self) -> Picture | None:
        """Neighbourhoods of the features enc(x)."""
        if not len(self.near):
            return None
        at = _neighbourhoods(self.preview.features[self.order[self.near]].astype(np.float64))
        figure, axes = _chart(HEIGHT, "")
        axes.set(xticks=[], yticks=[])
        axes.set_aspect("equal", adjustable="datalim")
        labels = self.labels[self.near]
        self._draw(axes, at, labels)
        return Picture("network", "The features of the network", _alt(labels), figure)

    def samples(self, model: Any) -> Picture:
        """Generated rows on the map of the data; in a plane, over the density."""
        drawn, labels = model.sample(SAMPLES, random_state=0)
        drawn = np.asarray(drawn, np.float64)
        finite = np.isfinite(drawn).all(1)
        at, labels = self.place(drawn[finite]), labels[finite]
        inside = ((at >= self.low) & (at <= self.high)).all(1)
        self.outside = SAMPLES - int(inside.sum())
        figure, axes = self._axes()
        if self.kind == "plane":
            self._shade_density(axes, model)
        else:
            _points(axes, self.at, "faint", FAINT)
        self._draw(axes, at[inside], labels[inside], with_numbers=False)
        alt = f"{SAMPLES} samples of the model on the map of the data"
        return Picture("samples", "Rows generated by the model", alt, figure)

    def _axes(self) -> tuple[Figure, Axes]:
        """Axes of the map of the data."""
        figure, axes = _chart(HEIGHT, *self.titles)
        (left, bottom), (right, top) = self.low, self.high
        axes.set(xlim=(left, right), ylim=(bottom, top))
        axes.set_aspect("equal" if self.is_equal else "auto")
        if self.kind == "components":
            axes.set_xticks([])
        if self.kind != "plane":
            axes.set_yticks([])
        return figure, axes

    def _draw(
        self, axes: Axes, at: np.ndarray, labels: np.ndarray, with_numbers: bool = True
    ) -> None:
        """Points (n, 2) in the colours of their clusters, with the clusters' numbers on them."""
        style: dict[str, Any] = {"ha": "center", "va": "center", "fontsize": 11, "weight": "bold"}
        for k in np.unique(labels):
            own, marker = at[labels == k], "s" if _is_square(k) else "o"
            _points(axes, own, f"cluster-{k}", panels.colour(int(k)), marker)
            if with_numbers:
                # The point nearest to the medians is one of the cluster's, whatever its shape.
                x, y = own[np.abs(own - np.median(own, axis=0)).sum(1).argmin()]
                axes.text(x, y, str(k), gid="mark", zorder=4, clip_on=True, **style)

    def _nodes(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """A grid over the map: x, y, and its nodes (y * x, 2)."""
        x, y = (np.linspace(*ends) for ends in zip(self.low, self.high, CELLS, strict=True))
        return x, y, np.stack(np.meshgrid(x, y), -1).reshape(-1, 2)

    def _shade_density(self, axes: Axes, model: Any) -> None:
        """The smallest areas of the plane with shares of the rows, by their density."""
        density = self.preview.log_density
        if density is None or not np.isfinite(density).all():
            return
        x, y, nodes = self._nodes()
        scores = model.score_samples(nodes).reshape(len(y), len(x))
        for level in np.quantile(density, [1 - share for share in SHARES]):
            if level < scores.max():
                levels = [level, np.nextafter(scores.max(), np.inf)]
                axes.contourf(x, y, scores, levels, colors=[QUIET], alpha=0.13)


def _alt(labels: np.ndarray) -> str:
    return f"Map of {len(labels):,} points in {len(np.unique(labels))} clusters"


def _points(axes: Axes, at: np.ndarray, gid: str, colour: str, marker: str = "o") -> None:
    """Points (n, 2) of one colour and shape."""
    axes.plot(*at.T, gid=gid, color=colour, marker=marker, ls="", ms=4, mew=0, alpha=0.72)


def _edges(points: np.ndarray, is_equal: bool) -> tuple[np.ndarray, np.ndarray]:
    """The edges of a map around points (n, 2): (2,), (2,); `is_equal` gives both axes one scale."""
    low, high = points.min(0), points.max(0)
    span = np.where(high > low, high - low, 1.0)
    low, high = low - 0.06 * span, high + 0.06 * span
    if is_equal:
        sides = (high - low) / (RATIO, 1)
        more = (sides.max() / sides - 1) * (high - low) / 2
        low, high = low - more, high + more
    return low, high


def _neighbourhoods(z: np.ndarray) -> np.ndarray:
    """t-SNE of features (n, h), always the same for the same features: (n, 2)."""
    from sklearn.manifold import TSNE
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped, unused-ignore]

    z = (z / max(float(z.std()), 1e-300)).astype(np.float32)
    perplexity, init = min(PERPLEXITY, (len(z) - 1) / 3), "pca" if z.shape[1] > 1 else "random"
    tsne = TSNE(2, perplexity=perplexity, init=init, random_state=0, max_iter=500)
    with threadpool_limits(1):  # sums in another order give another map
        return np.asarray(tsne.fit_transform(z), np.float64)


# --- charts ---------------------------------------------------------------------------------------


def bars(
    values: np.ndarray | None, name: str, title: str, x_title: str, are_shares: bool = True
) -> Picture | None:
    """A histogram; heights grow with the square root, to show few rows among many.

    Shares have bins from 0 to 1; other values are counted in the first bin from `FAR` on.
    """
    from matplotlib.ticker import MaxNLocator

    finite = np.zeros(0) if values is None else values[np.isfinite(values)]
    if not len(finite):
        return None
    q1, median, q3 = np.quantile(finite, (0.25, 0.5, 0.75))
    low, high = max(finite.min(), median - FAR * (q3 - q1)), finite.max()
    ends = (0.0, 1.0) if are_shares else (low, high)
    counts, edges = np.histogram(finite.clip(*ends), BINS, ends)
    figure, axes = _chart(LOW, x_title, "rows")
    look: dict[str, Any] = {"color": panels.COLOURS[0], "edgecolor": "white", "lw": 0.6}
    axes.bar(edges[:-1], counts, np.diff(edges), align="edge", **look)
    axes.set_yscale("function", functions=(lambda v: np.sqrt(np.maximum(v, 0)), np.square))
    axes.yaxis.set_major_locator(MaxNLocator(4, integer=True))
    axes.set(xlim=(edges[0], edges[-1]), ylim=(0, 1.25 * counts.max()))
    return Picture(name, title, f"Histogram: {x_title}, {len(finite):,} rows", figure)


def training(curves: Curves, tolerance: float) -> list[Picture]:
    """The bound gap and the terms over the iterations; the best member on top of the others."""
    positive = np.where(curves.bound_gap > 0, curves.bound_gap, np.nan)
    positive[~np.isfinite(positive)] = np.nan
    gap = _curve("training", "bound gap", curves, positive, "nats, log scale")
    (axes,) = gap.figure.axes
    if np.isfinite(positive).any():
        axes.set_yscale("log")
    if 0 < tolerance < np.inf:
        axes.axhline(tolerance, color="black", ls="--", lw=1.2)
    drawn = [gap]
    for i, (name, values) in enumerate(curves.terms.items()):
        file = f"training-{name if name.isascii() and name.isidentifier() else i}"
        unit = "nats squared" if name == "energy" else "nats"
        drawn.append(_curve(file, TERMS.get(name, one_line(name)), curves, values, unit))
    return drawn


def _curve(name: str, title: str, curves: Curves, values: np.ndarray, unit: str) -> Picture:
    """A line for each member, with gaps where it is not finite.  values: (looks, members)"""
    figure, axes = _chart(LOW, "iteration", unit)
    values = np.where(np.isfinite(values), values, np.nan)
    marker = "o" if len(values) <= 40 else ""
    x, best = curves.iterations, values[:, curves.best]
    axes.plot(x, np.delete(values, curves.best, axis=1), color=FAINT, lw=1, marker=marker, ms=2)
    axes.plot(x, best, color=panels.COLOURS[0], lw=2, marker=marker, ms=3.5)
    return Picture(name, title, f"{title} over {int(x.max()):,} iterations", figure)


# --- the hierarchy --------------------------------------------------------------------------------


def hierarchy(merges: np.ndarray, names: Sequence[str]) -> Picture | None:
    """How clusters merge, from the left to the right; of many clusters the last merges.

    merges: (clusters - 1, 4); names: of the clusters
    """
    from scipy.cluster.hierarchy import dendrogram

    if len(merges) < 2:
        return None
    leaves = min(len(names), MOST_LEAVES)
    parts = dict(enumerate(merges[:, 3].astype(int), start=len(names)))
    figure, axes = _chart(0.9 + 0.17 * leaves, "distance")
    look: dict[str, Any] = {"orientation": "left", "leaf_font_size": 8, "ax": axes}
    look["link_color_func"] = lambda _: panels.COLOURS[0]
    look["leaf_label_func"] = lambda k: names[k] if k < len(names) else f"{parts[k]} clusters"
    dendrogram(merges, leaves, "lastp", **look)
    for label in axes.get_yticklabels():
        label.set(color=QUIET, parse_math=False)
    alt = f"A tree of {len(names)} clusters: those that are joined further left are less similar"
    return Picture("hierarchy", "How the clusters merge", alt, figure)


# --- the number of clusters -----------------------------------------------------------------------


def numbers(choice: NumberChoice) -> list[Picture]:
    """The evidence for each number of clusters, and how clusters split as the number grows."""
    from matplotlib.ticker import MaxNLocator

    figure = panels.new_figure(WIDTH, HEIGHT, "")
    tried = [number.n_clusters for number in choice.numbers]
    measures = {"stability": "stability", "groups": "separate groups", "cut": "cut"}
    if choice.of_halves:
        measures = {"stability": "stability"}
    rows = figure.subplots(len(measures), sharex=True, squeeze=False)[:, 0]
    for axes, (name, title) in zip(rows, measures.items(), strict=True):
        _quiet(axes, "number of clusters" if axes is rows[-1] else "", title)
        values = [getattr(number, name) for number in choice.numbers]
        axes.plot(tried, values, color=panels.COLOURS[0], marker="o", ms=4, lw=1.5)
        axes.axvspan(choice.n_clusters - 0.3, choice.n_clusters + 0.3, color=FAINT, alpha=0.4)
        low = min(values) - 0.05 if name == "stability" else 0
        axes.set(xlim=(1.5, tried[-1] + 0.5), ylim=(low, low + 1.15 * (max(*values, 1e-3) - low)))
        if choice.of_halves:
            axes.set(xscale="log")
        else:
            axes.set(xticks=tried)
        axes.yaxis.set_major_locator(MaxNLocator(3, integer=name == "groups"))
    alt = f"Evidence for {tried[0]} to {tried[-1]} clusters; {choice.n_clusters} are chosen"
    drawn = [Picture("numbers", "The number of clusters", alt, figure)]
    return [*drawn, _splits(choice)] if len(tried) > 1 and not choice.of_halves else drawn


def _splits(choice: NumberChoice) -> Picture:
    """A dot for each cluster of each number, and bands as wide as the share of rows they join."""
    figure, axes = _chart(HEIGHT, "number of clusters")
    height = np.array([0.25, 0.75])
    for k, number in enumerate(choice.numbers[1:], start=3):
        shares = np.array(number.splits, float)
        shares /= max(shares.sum(), 1.0)
        origin = height @ shares / np.maximum(shares.sum(0), 1e-12)
        following = (np.argsort(np.argsort(origin)) + 0.5) / k
        for i, j in np.argwhere(shares):
            ends = (height[i], following[j])
            axes.plot((k - 1, k), ends, lw=WIDEST * shares[i, j], color=FAINT, zorder=1)
        for at, own in ((k - 1, height), (k, following)):
            colour = panels.COLOURS[0] if at == choice.n_clusters else QUIET
            axes.scatter([at] * at, own, 30, color=colour, zorder=2)
        height = following
    axes.set(xticks=range(2, k + 1), yticks=[], ylim=(0, 1))
    alt = f"How rows move between the clusters of 2 to {k} clusters"
    return Picture("splits", "How clusters split", alt, figure)


# --- images ---------------------------------------------------------------------------------------


class Thumbnails:
    """Images (c, h, w) as small pictures for the page."""

    def __init__(self, images: np.ndarray) -> None:
        """The range of values is that of these images (n, c, h, w)."""
        self.values = value_range(images)
        height, width = images.shape[-2:]
        factor = min(1.0, LARGEST / max(height, width))
        self.size = max(1, round(width * factor)), max(1, round(height * factor))
        self.shown_width = self.size[0] * max(1, round(56 / self.size[1]))  # in the page's pixels

    def url(self, image: np.ndarray) -> str:
        """A data URL of the image; of fewer than three channels the first, in grey."""
        from PIL import Image

        colours = image[:3] if len(image) >= 3 else image[:1].repeat(3, axis=0)
        whole = Image.fromarray(np.moveaxis(as_bytes(colours, self.values), 0, -1).copy())
        content = io.BytesIO()
        small = whole.resize(self.size, Image.Resampling.BOX)
        small.save(content, "WEBP", lossless=max(self.size) <= LOSSLESS, quality=75)
        return f"data:image/webp;base64,{base64.b64encode(content.getvalue()).decode('ascii')}"
