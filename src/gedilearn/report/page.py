"""The report of a run: one HTML file that needs nothing else, from the run directory alone.

The template escapes all text, since a run directory may come from anywhere. A content policy in the
page forbids all requests, and all scripts but its own.
"""

from __future__ import annotations

import base64
import hashlib
import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from gedilearn.data.arrays import evenly_spaced
from gedilearn.errors import InputError
from gedilearn.explanation import Row
from gedilearn.io import digits, write_text
from gedilearn.report import pictures
from gedilearn.report.pictures import Maps, Picture, Thumbnails, one_line, percent
from gedilearn.report.run import Preview, Run
from gedilearn.settings import flat, resolve
from gedilearn.training.run import Config
from gedilearn.verdict.monitor import Finding

HERE = Path(__file__).parent
KINDS = {"typical": "typical", "uncertain": "uncertain", "outliers": "unusual"}
MOST_CARDS = 60  # the largest clusters
MOST_VALUES = 4  # columns in the tooltip of a point
MOST_PICTURED = 600  # images with a tooltip
NEW_IMAGES = 8  # of a cluster


def write_report(run: Path) -> Path:
    """Write `report.html` of a finished run, and its pictures as PNG in `figures/`."""
    read = Run.read(run)
    page = Page(read)
    html = page.html()
    for picture in page.pictures:  # none is written unless all could be drawn
        picture.save(read.files.figures)
    write_text(read.files.report, html)
    return read.files.report


class Page:
    """The content of the page: the values for the template."""

    def __init__(self, read: Run) -> None:
        self.read, self.summary = read, read.summary
        self.name = one_line(read.config.data.source or read.files.path.name)
        self.sizes = self.summary.cluster_sizes
        self.preview, self.explanation, self.model = read.preview(), read.profile(), read.model()
        d, is_image = self.preview.points[0].size, self.preview.points.ndim == 4
        names = self.explanation.columns
        numbered = [f"column {j}" for j in range(d)] if is_image else []
        self.columns = list(names) if len(names) == d else numbered
        used = [k for k, size in enumerate(self.sizes) if size]
        self.shown = sorted(sorted(used, key=lambda k: -self.sizes[k])[:MOST_CARDS])
        self.thumbnails = Thumbnails(self.preview.points) if is_image else None

        scaling = str(read.config.settings.get("scaling"))
        titles = [one_line(name, 40) for name in self.columns]
        self.maps = Maps(self.preview, titles, scaling)
        self.data, self.network = self.maps.data(self.model), self.maps.network()
        self.samples = None if is_image else self._samples()
        self.charts = _charts(self.preview)
        choice = self.summary.choice
        self.numbers = pictures.numbers(choice) if choice else []
        clusters = self.explanation.clusters
        leaves = [f"{p.cluster}: {one_line(p.short_words(3), 50)} ({p.size:,})" for p in clusters]
        self.tree = pictures.hierarchy(self.explanation.hierarchy, leaves)
        self.training = pictures.training(read.curves(), self.summary.diagnosis.tol)

    @property
    def pictures(self) -> list[Picture]:
        drawn = [self.data, self.network, self.samples, self.tree, *self.charts.values()]
        drawn += [*self.numbers, *self.training]
        return [picture for picture in drawn if picture is not None]

    def html(self) -> str:
        """The whole page."""
        options: Any = {"undefined": StrictUndefined, "trim_blocks": True, "lstrip_blocks": True}
        environment = Environment(loader=FileSystemLoader(HERE), autoescape=True, **options)
        environment.filters |= {"digits": digits, "percent": percent, "sentence": _sentence}
        style, script = (
            Markup((HERE / file).read_text(encoding="utf-8")) for file in ("page.css", "page.js")
        )
        return environment.get_template("report.html.j2").render(
            vars(self),
            style=style,
            script=script,
            digest=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode("ascii"),
            next_step=self._next_step(),
            remark=_remark,
            kinds=KINDS,
            profiles=[self.explanation.clusters[k] for k in self.shown],
            images=self._images,
            values=self._values,
            colour=pictures.style_of,
            new_images=self._new_images(),
            events=_events(self.read),
            settings=_changed_settings(self.read.config),
            facts=_facts(self.read),
            tooltips=self._tooltips(),
        )

    def _images(self, rows: Sequence[Row]) -> list[tuple[str, str]]:
        """Address and name of the images of rows."""
        assert self.thumbnails is not None
        places = {int(row): i for i, row in enumerate(self.preview.rows)}
        named = [(places[row.row], row.row) for row in rows if row.row in places]
        images = self.preview.points
        return [(self.thumbnails.url(images[i]), f"row {row:,}") for i, row in named]

    def _values(self, row: Row) -> list[str]:
        """The values of a row, as people write them."""
        named = row.values.items()
        return [(self.explanation.format_of(name) or digits)(value) for name, value in named]

    def _samples(self) -> Picture | None:
        """New rows on the map, of a model that gives some."""
        try:
            return None if self.model is None else self.maps.samples(self.model)
        except InputError:
            return None

    def _new_images(self) -> dict[int, list[tuple[str, str]]]:
        """Address and name of new images, cluster by cluster."""
        if self.model is None or self.thumbnails is None:
            return {}
        n = min(NEW_IMAGES * len(self.sizes), pictures.SAMPLES)
        drawn, labels = self.model.sample(n, random_state=0)
        drawn = np.nan_to_num(drawn)
        return {
            int(k): [
                (self.thumbnails.url(image), f"new image of cluster {k}")
                for image in drawn[labels == k][:NEW_IMAGES]
            ]
            for k in np.unique(labels)
        }

    def _next_step(self) -> str:
        """The last line of the verdict, with a command if the data has a name."""
        config = self.read.config
        return self.summary.verdict.text(config.command(config.data.source)).splitlines()[-1]

    def _tooltips(self) -> dict[str, Any]:
        """The tooltips of the points of the maps, in their order."""
        preview, order = self.preview, self.maps.order
        numbers = {
            "probability": preview.probability,
            "trust": preview.trust,
            "log p(x)": preview.log_density,
        }
        columns = [
            (name, [_brief(v) for v in values[order]])
            for name, values in numbers.items()
            if values is not None
        ]
        shown = {}
        if self.thumbnails is None:
            named = [d.column for profile in self.explanation.clusters for d in profile.differences]
            names = (name for name in [*named, *self.columns] if name in self.columns)
            for name in list(dict.fromkeys(names))[:MOST_VALUES]:
                write = self.explanation.format_of(name) or _brief
                values = self.maps.points[:, self.columns.index(name)]
                columns.append((one_line(name, 40), [write(v) for v in values]))
        else:
            some = np.flatnonzero(np.isin(order, evenly_spaced(len(order), MOST_PICTURED)))
            shown = {int(i): self.thumbnails.url(preview.points[order[i]]) for i in some}
        return {
            "cluster": self.maps.labels.tolist(),
            "row": preview.rows[order].tolist(),
            "near": self.maps.near.tolist(),
            "columns": columns,
            "pictures": shown,
        }


def _brief(value: Any) -> float | str:
    """Four digits of a number, for JSON; by name what is not finite."""
    short = float(f"{float(value):.4g}")
    return short if math.isfinite(short) else str(short)


def _sentence(words: str) -> str:
    """With a capital letter and a full stop."""
    words = words.removesuffix(".")
    return f"{words[:1].upper()}{words[1:]}."


def _remark(finding: Finding) -> str:
    shows = finding.mode and not finding.ok
    return f"{finding.words} (evidence of {finding.mode})" if shows else finding.words


def _charts(preview: Preview) -> dict[str, Picture]:
    """Histograms of the probabilities, and of trust and log p(x), where they are known."""
    charts = (
        pictures.bars(preview.probability, "probability", "Probability", "of its cluster, p(y|x)"),
        pictures.bars(preview.trust, "trust", "Trust in single rows", "trust in its cluster"),
        pictures.bars(preview.log_density, "density", "Density", "log p(x)", are_shares=False),
    )
    return {chart.name: chart for chart in charts if chart is not None}


def _events(read: Run) -> list[list[Any]]:
    """The cells of the events, in the order of time."""
    ordered = sorted(read.events, key=lambda event: str(event.get("time", "")))
    return [[e.get(name, "") for name in ("time", "iteration", "kind", "message")] for e in ordered]


def _changed_settings(config: Config) -> list[tuple[str, str, str]]:
    """Name, value and default of the settings that differ from the defaults for such data."""
    defaults = flat(json.loads(resolve({}, config.data.shape).model_dump_json()))
    rows = [
        (
            name,
            json.dumps(value, default=str),
            json.dumps(defaults[name]) if name in defaults else "unknown",
        )
        for name, value in flat(config.settings).items()
    ]
    return [row for row in rows if row[1] != row[2]]


def _facts(read: Run) -> dict[str, Any]:
    """The origin of the run."""
    data = read.config.data.model_dump(mode="json", exclude_unset=True)
    facts = {"version": f"gedi-learn {read.config.version}", "run directory": read.files.path}
    facts |= {f"data: {name}": value for name, value in data.items()}
    return facts | ({"given as objects": read.config.objects} if read.config.objects else {})
