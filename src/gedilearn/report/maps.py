"""Maps of a run's points: the data, what the network sees, and what it would draw.

Every map is a picture that needs no script. The script of the page reads the points from it, and
what is known of them from `hover_data`, which has them in the same order: cluster by cluster.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from gedilearn.data.arrays import Scaling, evenly_spaced
from gedilearn.explanation import Explanation
from gedilearn.report import charts
from gedilearn.report.markup import percent, text
from gedilearn.report.pictures import MOST_ON_SHEET, Pictures
from gedilearn.report.run import Preview, Run, one_line

MOST_NEAR = 1_500  # points whose neighbourhoods are laid out
LEAST_NEAR = 12
NEIGHBOURS = 30.0  # t-SNE's perplexity
SAMPLES = 300
CELLS = 96, 72  # of the areas, columns and rows
HELD = (0.99, 0.9, 0.5)  # shares of the rows that the areas of the density hold
MOST_VALUES = 4  # columns that are told of a point


@dataclass(frozen=True, eq=False)
class Map:
    """A figure: a drawing, its title, and words below it."""

    title: str
    drawing: str
    caption: str
    has_points: bool = True  # that the script can point at

    def html(self) -> str:
        kind = "map points" if self.has_points else "map"
        return (
            f'<figure class="{kind}"><div class="head"><h3>{text(self.title)}</h3></div>'
            f"{self.drawing}<figcaption>{self.caption}</figcaption></figure>"
        )


class Maps:
    """All maps of a run, on the same points in the same order."""

    def __init__(self, read: Run, preview: Preview, explanation: Explanation | None) -> None:
        # By cluster, as the paths are; in a cluster by row.
        self.order = np.argsort(preview.labels, kind="stable")
        self.read, self.preview, self.explanation = read, preview, explanation
        self.labels = preview.labels[self.order]
        self.points = preview.points[self.order].reshape(len(self.order), -1)
        self.n_clusters = len(read.finished()["cluster_sizes"])
        names, d = explanation.columns if explanation else (), self.points.shape[1]
        self.known = names if len(names) == d else [f"column {j}" for j in range(d)]
        self.names = [one_line(name, 40) for name in self.known]
        self._frame()

    def _frame(self) -> None:
        """Where the points lie on the map of the data, (n, 2), and how others are put there."""
        d, is_image = self.points.shape[1], self.preview.points.ndim == 4
        self.is_plane = d == 2 and not is_image
        self.share, self.mostly = np.zeros(2), ["", ""]
        self.place: Callable[[np.ndarray], np.ndarray]
        if self.is_plane:
            self.place = lambda x: x
        elif d == 1:
            self.place = lambda x: np.column_stack([x[:, 0], _spread(len(x))])
        else:
            self._principal(is_image)
        self.at = self.place(self.points)
        alike = not self.is_plane and d > 1
        if self.is_plane:
            span = np.ptp(self.at, axis=0)
            alike = bool(span.min() > 0 and 1 / 3 < span[0] / span[1] < 3)
        self.plane = charts.Plane.around(self.at, alike)

    def _principal(self, is_image: bool) -> None:
        from sklearn.decomposition import PCA

        standard = not is_image and self.read.config.settings.get("scaling") == "standard"
        scaling = Scaling.fit(self.points) if standard else Scaling.identity(self.points)

        def scaled(x: np.ndarray) -> np.ndarray:
            return np.asarray((x - scaling.offset) / scaling.scale)

        found = None
        if len(self.points) > 1:
            with np.errstate(invalid="ignore"):  # the shares of equal points
                found = PCA(2, random_state=0).fit(scaled(self.points))
        if found is None:
            self.place = lambda x: np.zeros((len(x), 2))
            return
        self.place = lambda x: np.asarray(found.transform(scaled(x)))
        self.share = np.nan_to_num(found.explained_variance_ratio_)
        if not is_image:
            for i, weights in enumerate(np.abs(found.components_)):
                first = np.argsort(-weights, kind="stable")[:2]
                self.mostly[i] = " and ".join(self.names[j] for j in first)

    # --- the maps ---------------------------------------------------------------------------------

    def data(self, model: Any) -> Map:
        """The points as they are, or on their first two principal components."""
        under = ""
        if self.is_plane:
            titles = list(self.names)
            words = "Every point is a row, in the colour of its cluster."
            if model is not None:
                columns, rows = CELLS
                found = model.predict(charts.nodes(self.plane, columns, rows))
                kinds = [(k, charts.colour(k)) for k in range(self.n_clusters)]
                under = charts.areas(self.plane, found.reshape(rows, columns), kinds)
                words += " The shades say which cluster a new row there would be given."
        elif self.points.shape[1] == 1:
            titles, words = [self.names[0], ""], "Every point is a row; its height means nothing."
        else:
            shares = [f"component {i + 1} ({percent(self.share[i])})" for i in range(2)]
            pairs = zip(shares, self.mostly, strict=True)
            titles = [one_line(f"{share}: {most}" if most else share, 46) for share, most in pairs]
            words = (
                "Every point is a row, on the two directions in which the data varies most (PCA); "
                f"they hold {percent(self.share.sum())} of the variance. What overlaps here may "
                "lie apart in other directions."
            )
        drawing = self._drawn(self.plane, self.at, np.arange(len(self.at)), titles, under)
        return Map("The data", drawing, words)

    def network(self) -> Map | None:
        """Neighbourhoods in the features enc(x); none for data that a plane shows as it is."""
        features = self.preview.features
        if self.points.shape[1] <= 2 or features is None or not np.isfinite(features).all():
            return None
        some = np.sort(evenly_spaced(len(features), MOST_NEAR))
        chosen = np.flatnonzero(np.isin(self.order, some))
        z = features[self.order[chosen]].astype(np.float64)
        if len(chosen) < LEAST_NEAR or not np.ptp(z, axis=0).any():
            return None
        at = _neighbourhoods(z)
        plane = charts.Plane.around(at, alike=True)
        words = (
            "The same rows as the network sees them: rows with like features lie together (t-SNE "
            "of enc(x)). How far groups lie from each other, and how large they are, means nothing."
        )
        if len(chosen) < len(self.order):
            words += f" {len(chosen):,} of the points."
        drawing = self._drawn(plane, at, chosen, ["", ""])
        return Map("What the network sees", drawing, words)

    def _drawn(
        self,
        plane: charts.Plane,
        at: np.ndarray,
        index: np.ndarray,
        titles: list[str],
        under: str = "",
    ) -> str:
        """Points (n, 2), those of `index`, in the colours of their clusters."""
        labels, paths = self.labels[index], []
        for k in range(self.n_clusters):
            own = labels == k
            path = charts.dots(plane, at[own], charts.colour(k)) if own.any() else ""
            which = " ".join(str(i) for i in _ranges(index[own]))
            paths.append(path.replace("<path ", f'<path data-cluster="{k}" data-index="{which}" '))
        over = charts.marks(plane, at, labels, self.n_clusters)
        sizes = np.bincount(labels, minlength=self.n_clusters)
        said = ", ".join(f"{size:,} of cluster {k}" for k, size in enumerate(sizes[:12]))
        name = f"Map of {len(at):,} points: {said}{', …' if self.n_clusters > 12 else ''}."
        ends = bool(titles[0]) and self.points.shape[1] <= 2
        return plane.chart(under + "".join(paths) + over, name, titles, ends=ends)

    def drawn(self, model: Any) -> Map:
        """New points of vectors, on the map of the data; in a plane, over what holds the rows."""
        samples, labels = model.sample(SAMPLES, random_state=0)
        samples = np.asarray(samples, np.float64)
        finite = np.isfinite(samples).all(1)
        at, labels = self.place(samples[finite]), labels[finite]
        inside = self.plane.holds(at)
        under, words = "", f"{SAMPLES} new rows that the model draws, in the same place and scale"
        if self.is_plane:
            under = self._held(model)
            shares = ", ".join(percent(share) for share in HELD[::-1])
            words += f". The shades are the smallest areas that hold {shares} of the rows"
        else:
            under = charts.dots(self.plane, self.at, "faint")
            words += "; the data in grey"
        outside = SAMPLES - int(inside.sum())
        if outside:
            words += f". {outside} lie outside"
        dots = "".join(
            charts.dots(self.plane, at[inside & (labels == k)], charts.colour(k))
            for k in range(self.n_clusters)
        )
        titles = self.names if self.is_plane else ["", ""]
        name = f"{SAMPLES} samples of the model on the map of the data"
        drawing = self.plane.chart(under + dots, name, titles, ends=self.is_plane)
        return Map("New rows from the model", drawing, f"{words}.", has_points=False)

    def _held(self, model: Any) -> str:
        """The smallest areas of the plane that hold shares of the rows, by their density."""
        density, (columns, rows) = self.preview.log_density, CELLS
        if density is None or not np.isfinite(density).all():
            return ""
        scores = model.score_samples(charts.nodes(self.plane, columns, rows))
        levels = np.quantile(density, [1 - share for share in HELD])
        grid = (scores[:, None] >= levels).sum(1).reshape(rows, columns)
        return charts.areas(self.plane, grid, [(i, f"held{i}") for i in (1, 2, 3)])

    # --- for the script ---------------------------------------------------------------------------

    def hover_data(self) -> dict[str, Any]:
        """What is told of a point: its row, probability, trust, log p(x), some of its values."""
        preview, told = self.preview, {"cluster": self.labels.tolist()}
        rows = preview.rows if preview.rows is not None else np.arange(len(self.order))
        told |= {"row": rows[self.order].tolist(), "names": [], "values": []}
        numbers = {
            "p": preview.probability,
            "trust": preview.trust,
            "density": preview.log_density,
        }
        for name, values in numbers.items():
            if values is not None:
                told[name] = [_brief(v) for v in values[self.order]]
        if preview.points.ndim == 2:
            shown = self._told_columns()
            told["names"] = [self.names[j] for j in shown]
            known = self.explanation.written if self.explanation else (lambda _: None)
            say = {j: known(self.names[j]) or _brief for j in shown}
            told["values"] = [[say[j](v) for v in self.points[:, j]] for j in shown]
        else:
            some = np.flatnonzero(np.isin(self.order, evenly_spaced(len(rows), MOST_ON_SHEET)))
            images = preview.points[self.order[some]]
            told["sheet"] = Pictures.like(preview.points).sheet(images)
            told["pictured"] = some.tolist()
        return told

    def _told_columns(self) -> list[int]:
        """Those that set clusters apart most often, then the first ones."""
        found: dict[str, float] = {}
        for profile in self.explanation.clusters if self.explanation else ():
            for difference in profile.differences:
                size = min(abs(difference.effect), 10.0)
                found[difference.column] = found.get(difference.column, 0.0) + size
        known = {name: j for j, name in enumerate(self.known)}
        best = [known[n] for n in sorted(found, key=lambda n: -found[n]) if n in known]
        wanted = dict.fromkeys([*best, *range(min(len(known), MOST_VALUES))])
        return list(wanted)[:MOST_VALUES]


def _neighbourhoods(z: np.ndarray) -> np.ndarray:
    """t-SNE of features (n, h), always the same for the same features: (n, 2)."""
    from sklearn.decomposition import PCA
    from sklearn.manifold import TSNE
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped, unused-ignore]

    least = min(*z.shape, 20)
    with threadpool_limits(1):  # sums in another order give another map
        z = PCA(least, random_state=0).fit_transform(z / max(float(z.std()), 1e-300))
        perplexity = min(NEIGHBOURS, (len(z) - 1) / 3)
        start = "pca" if least >= 2 else "random"
        made = TSNE(2, perplexity=perplexity, init=start, random_state=0, max_iter=500)
        return np.asarray(made.fit_transform(z.astype(np.float32)), np.float64)


def _spread(n: int) -> np.ndarray:
    """Heights that keep the points of one column apart: evenly spread, and the same every time."""
    return np.asarray((np.arange(n) * 0.6180339887498949) % 1)


def _ranges(index: np.ndarray) -> list[str]:
    """Whole numbers that rise, as `first-last` where they follow each other."""
    if not len(index):
        return []
    parts = np.split(index, np.flatnonzero(np.diff(index) != 1) + 1)
    return [f"{p[0]}-{p[-1]}" if len(p) > 1 else str(p[0]) for p in parts]


def _brief(value: Any) -> float | str:
    """Four digits of a number, for JSON; by name what is not finite."""
    number = float(f"{float(value):.4g}")
    return number if np.isfinite(number) else str(number)
