"""The report of a run: one HTML file that needs nothing else, from the run directory alone.

The template escapes all text, since a run directory may come from anywhere. A content policy in the
page forbids all requests, and all scripts but its own.
"""

from __future__ import annotations

import base64
import hashlib
import json
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from gedilearn.data.arrays import evenly_spaced
from gedilearn.errors import InputError
from gedilearn.explanation import Explanation
from gedilearn.explanation.profiles import Histogram, Profile, Row
from gedilearn.io import write_text
from gedilearn.report import pictures
from gedilearn.report.numbers import beside, digits, number, one_line, percent
from gedilearn.report.pictures import Maps, Picture, Thumbnails
from gedilearn.report.run import Run
from gedilearn.settings import flat, resolve
from gedilearn.training.run import Config

HERE = Path(__file__).parent
GRADES = ("Supported", "Doubtful", "No structure found")
KINDS = {"typical": "typical", "doubtful": "least certain", "outliers": "unusual"}
MOST_CARDS = 60  # the largest clusters
MOST_VALUES = 4  # columns that are told of a point
MOST_PICTURED = 600  # images that are shown when they are pointed at
NAMED_IMAGES, NEW_IMAGES = 15, 8  # of a cluster


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
    """The content of the page: what the template is filled with."""

    def __init__(self, read: Run) -> None:
        self.read, self.summary = read, read.summary
        self.sizes: list[int] = self.summary["cluster_sizes"]
        self.preview, self.explanation, self.model = read.preview(), read.profile(), read.model()
        d, is_image = self.preview.points[0].size, self.preview.points.ndim == 4
        known = self.explanation.columns if self.explanation else ()
        self.columns = list(known) if len(known) == d else [f"column {j}" for j in range(d)]
        used = [k for k, size in enumerate(self.sizes) if size]
        self.shown = sorted(sorted(used, key=lambda k: -self.sizes[k])[:MOST_CARDS])
        count = len(self.shown) * (NAMED_IMAGES + NEW_IMAGES)
        self.thumbnails = Thumbnails(self.preview.points, count) if is_image else None

        scaling = str(read.config.settings.get("scaling"))
        names = [one_line(name, 40) for name in self.columns]
        self.maps = Maps(self.preview, names, scaling, len(self.sizes))
        self.data, self.network = self.maps.data(self.model), self.maps.network()
        self.samples = None if is_image else self._samples()
        self.charts = {} if self.explanation is None else _charts(self.explanation)
        self.training = pictures.training(read.curves(), read.tolerance, read.events)

    @property
    def pictures(self) -> list[Picture]:
        drawn = [self.data, self.network, self.samples, *self.charts.values(), *self.training]
        return [picture for picture in drawn if picture is not None]

    def html(self) -> str:
        """The whole page."""
        options: Any = {"undefined": StrictUndefined, "trim_blocks": True, "lstrip_blocks": True}
        environment = Environment(loader=FileSystemLoader(HERE), autoescape=True, **options)
        environment.filters |= {"digits": digits, "percent": percent, "sentence": _sentence}
        style, script = (
            Markup((HERE / file).read_text(encoding="utf-8")) for file in ("page.css", "page.js")
        )
        findings = self.summary["diagnosis"]["findings"]
        failed = [f for f in findings if not f.get("ok")]
        return environment.get_template("report.html.j2").render(
            vars(self),
            style=style,
            script=script,
            digest=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode("ascii"),
            head=_head(self.summary, failed),
            failed=failed,
            remark=_remark,
            findings=[_finding(f) for f in findings],
            kinds=KINDS,
            cards=self._cards(),
            colour=pictures.style_of,
            share=_share,
            new_images=self._new_images(),
            events=_events(self.read),
            settings=_changed_settings(self.read.config),
            facts=_facts(self.read),
            told=self._told(),
        )

    # --- clusters ---------------------------------------------------------------------------------

    def _cards(self) -> list[dict[str, Any]]:
        """The profile of each cluster, with further numbers and images of its rows."""
        if self.explanation is None:
            return []
        found = self.summary.get("clusters")
        more = found if isinstance(found, list) and len(found) == len(self.sizes) else []
        return [
            {
                "profile": profile,
                "differences": _differences(profile),
                "figures": _further_numbers(more[profile.cluster]) if more else {},
                "images": {kind: self._images(getattr(profile, kind)) for kind in KINDS},
                "rows": _row_table(profile, self.explanation.written),
            }
            for profile in (self.explanation.clusters[k] for k in self.shown)
        ]

    def _images(self, rows: Sequence[Row]) -> list[tuple[str, str]]:
        """Address and name of the images of rows; of vectors none."""
        if self.thumbnails is None or self.preview.rows is None:
            return []
        places = {int(row): i for i, row in enumerate(self.preview.rows)}
        named = [(places[row.row], row.row) for row in rows if row.row in places]
        images = self.preview.points
        return [(self.thumbnails.url(images[i]), f"row {row:,}") for i, row in named]

    # --- new rows ---------------------------------------------------------------------------------

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
        return {
            int(k): [
                (self.thumbnails.url(image), f"new image of cluster {k}")
                for image in drawn[labels == k][:NEW_IMAGES]
            ]
            for k in np.unique(labels)
        }

    # --- for the script ---------------------------------------------------------------------------

    def _told(self) -> dict[str, Any]:
        """What the script tells of the points of the maps, in their order."""
        preview, order = self.preview, self.maps.order
        rows = preview.rows if preview.rows is not None else np.arange(len(order))
        numbers = {
            "probability": preview.probability,
            "trust": preview.trust,
            "log p(x)": preview.log_density,
        }
        told: dict[str, Any] = {
            "cluster": self.maps.labels.tolist(),
            "row": rows[order].tolist(),
            "near": self.maps.near.tolist(),
            "columns": [
                (name, [_brief(v) for v in values[order]])
                for name, values in numbers.items()
                if values is not None
            ],
            "pictures": {},
        }
        if preview.points.ndim == 2:
            written = self.explanation.written if self.explanation else (lambda _: None)
            for j in self._told_columns():
                say = written(self.columns[j]) or _brief
                name = one_line(self.columns[j], 40)
                told["columns"].append((name, [say(v) for v in self.maps.points[:, j]]))
        else:
            some = np.flatnonzero(np.isin(order, evenly_spaced(len(order), MOST_PICTURED)))
            small = Thumbnails(preview.points, len(some))
            told["pictures"] = {int(i): small.url(preview.points[order[i]]) for i in some}
        return told

    def _told_columns(self) -> list[int]:
        """Those that set a cluster apart most, then the first ones."""
        clusters = self.explanation.clusters if self.explanation else ()
        found = [difference for profile in clusters for difference in profile.differences]
        best = sorted(found, key=lambda difference: -abs(difference.effect))
        known = {name: j for j, name in enumerate(self.columns)}
        names = dict.fromkeys([*(d.column for d in best), *self.columns])
        return [known[name] for name in names if name in known][:MOST_VALUES]


def _events(read: Run) -> list[list[Any]]:
    """The cells of the events, in the order of time."""
    ordered = sorted(read.events, key=lambda event: str(event.get("time", "")))
    return [[e.get(name, "") for name in ("time", "iteration", "kind", "message")] for e in ordered]


def _facts(read: Run) -> dict[str, Any]:
    """The origin of the run, so that it can be made again."""
    described = read.config.data.model_dump(mode="json", exclude_unset=True)
    found = {"version": f"gedi-learn {read.config.version}", "run directory": read.files.path}
    found |= {f"data: {name}": value for name, value in described.items()}
    return found | ({"given as objects": read.config.objects} if read.config.objects else {})


def _charts(found: Explanation) -> dict[str, Picture]:
    """Histograms of the probabilities, of trust, where it is known, and of log p(x)."""
    wanted = [
        (found.probabilities, "probability", "How sure", "probability of its cluster"),
        (found.trusts, "trust", "How far to trust a row", "trust in its cluster"),
        (found.log_densities, "density", "How usual", "log p(x)"),
    ]
    return {name: pictures.bars(h, name, *titles) for h, name, *titles in wanted if h.counts}


def _head(summary: dict[str, Any], failed: Sequence[dict[str, Any]]) -> str:
    """The verdict in a few words: the grade, where the run has one."""
    modes = list(dict.fromkeys(str(f["mode"]) for f in failed if f.get("mode")))
    grade = str(summary.get("grade", "")).capitalize()
    if len(summary["cluster_sizes"]) == 1:
        return "One cluster: nothing to certify"
    if summary.get("certified"):
        return "Certified, with remarks" if failed else "Certified"
    if modes:
        return f"Not certified: {' and '.join(modes)}"
    if not math.isfinite(number(summary.get("gap"))):
        return "Not certified: training diverged"
    return grade if grade in GRADES else "Not certified"


def _remark(finding: dict[str, Any]) -> str:
    mode = "" if finding.get("ok") else finding.get("mode")
    return f"{finding.get('words', '')}{f' (evidence of {mode})' if mode else ''}"


def _finding(finding: dict[str, Any]) -> tuple[Any, ...]:
    """The cells of a finding in the table."""
    numbers = digits(finding.get("value")), digits(finding.get("threshold"))
    state = "ok" if finding.get("ok") else "not ok"
    return (finding.get("name"), *numbers, state, _remark(finding))


def _sentence(words: Any) -> str:
    """With a capital letter and a full stop."""
    words = str(words).removesuffix(".")
    return f"{words[:1].upper()}{words[1:]}."


def _differences(profile: Profile) -> list[tuple[str, str, str, float]]:
    """Column, means of the cluster and of the others, and effect."""
    found = []
    for d in profile.differences:
        is_plain = d.kind in ("number", "count")
        means = beside(d.mean, d.others) if is_plain else (d.shown(d.mean), d.shown(d.others))
        found.append((d.column, *means, d.effect))
    return found


def _further_numbers(own: Any) -> dict[str, float]:
    """Numbers of a cluster beside those of its profile."""
    found = own.items() if isinstance(own, dict) else ()
    beyond = {name: v for name, v in found if isinstance(v, float) and name != "share"}
    return {str(name).capitalize(): value for name, value in beyond.items()}


def _share(histogram: Histogram, least: float) -> float:
    """The share of the rows in the bins from `least` on."""
    pairs = zip(histogram.edges[:-1], histogram.counts, strict=True)
    above = sum(count for edge, count in pairs if edge >= least - 1e-9)
    return above / max(sum(histogram.counts), 1)


def _row_table(profile: Profile, written: Callable[[str], Callable[[float], str] | None]) -> Any:
    """All rows worth a look: the heads of the columns, and the cells of each row."""
    names = list(profile.typical[0].values) if profile.typical else []
    rows = [(kind, row) for key, kind in KINDS.items() for row in getattr(profile, key)]
    optional = {"trust": [r.trust for _, r in rows], "log p(x)": [r.log_density for _, r in rows]}
    known = {name: values for name, values in optional.items() if None not in values}
    cells = []
    for i, (kind, r) in enumerate(rows):
        is_sure = r.second is None or r.second_probability < 0.005
        other = "" if is_sure else f"cluster {r.second}"
        numbers = [digits(values[i], 3) for values in known.values()]
        own = [_cell(r.values.get(name), written(name)) for name in names]
        cells.append([kind, f"{r.row:,}", f"{r.probability:.2f}", other, *numbers, *own])
    return {"heads": ["kind", "row", "p", "or", *known, *names], "cells": cells}


def _cell(value: Any, say: Callable[[float], str] | None) -> str:
    return say(number(value)) if say and math.isfinite(number(value)) else digits(value)


def _changed_settings(config: Config) -> list[tuple[str, str, str]]:
    """Name, value and default of the settings that differ from the defaults for such data."""
    defaults = flat(json.loads(resolve({}, config.data.shape).model_dump_json()))
    rows = [
        (name, json.dumps(value), json.dumps(defaults[name]) if name in defaults else "unknown")
        for name, value in flat(config.settings).items()
    ]
    return [row for row in rows if row[1] != row[2]]


def _brief(value: Any) -> float | str:
    """Four digits of a number, for JSON; by name what is not finite."""
    short = float(f"{float(value):.4g}")
    return short if math.isfinite(short) else str(short)
