"""The report of a run: one HTML file that needs nothing else, from the run directory alone.

Everything that comes from files passes through `markup.text`: the name of a data file may be
markup, and a run directory may come from anywhere. A content policy in the page forbids all
requests, and all scripts but the one that is written here.
"""

from __future__ import annotations

import base64
import hashlib
from pathlib import Path
from typing import Any

import numpy as np

from gedilearn.errors import InputError
from gedilearn.explanation import Explanation
from gedilearn.io import json_text, write_text
from gedilearn.report import charts, sections
from gedilearn.report.cards import cards, sizes, with_cards
from gedilearn.report.figures import draw_all
from gedilearn.report.maps import SAMPLES, Map, Maps
from gedilearn.report.markup import digits, folded, text
from gedilearn.report.pictures import Pictures, side_for
from gedilearn.report.run import Preview, Run, number

HERE = Path(__file__).parent
PICTURES = 8  # new ones of a cluster
DENSITY = (
    "The certificate is about the clusters. How well the density and the samples match the data is "
    "for the eye to judge."
)
UNLEARNT = (
    "The density was not learnt: samples are of a network that was not asked for them, and say "
    "little of the data."
)
EARLIER = (
    "This run was fitted by an earlier version, which kept no profiles of the clusters: gedi "
    "explain RUN DATA makes them."
)


def write_report(run: Path) -> Path:
    """Draw the figures of a finished run and write `report.html` beside them."""
    read = Run.read(run)
    summary, preview, explanation = read.finished(), read.preview(), read.profile()
    model, curves = _model(read), sections.training(read.curves(), read.tolerance)
    draw_all(read.files.path)
    maps = Maps(read, preview, explanation)
    parts = [
        _header(read, summary),
        sections.verdict(summary, explanation, read.tolerance),
        _map_section(maps, summary, model),
        _section("Clusters", _clusters(explanation, preview, summary)),
        _section("How sure, and how usual", _grid(_certainty(explanation))),
        _section("Density and samples", _density(explanation, maps, preview, summary, model)),
        _section("Training and settings", _folds(read, summary, curves)),
        _footer(),
    ]
    write_text(read.files.report, _page(read.name, "\n".join(part for part in parts if part), maps))
    return read.files.report


def _model(read: Run) -> Any:
    """The fitted model, for arrays without names; None where the run cannot give it."""
    if not read.has_usable_model:
        return None
    model = read.model()
    if hasattr(model, "feature_names_in_"):
        del model.feature_names_in_
    return model


def _page(name: str, body: str, maps: Maps) -> str:
    style, script = ((HERE / file).read_text(encoding="utf-8") for file in ("page.css", "page.js"))
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode("ascii")
    policy = (
        "default-src 'none'; img-src data:; style-src 'unsafe-inline'; "
        f"script-src 'sha256-{digest}'"
    )
    data = json_text(maps.hover_data()).replace("<", "\\u003c")
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n'
        f"<title>{text(name)}: gedi-learn report</title>\n<style>{style}</style>\n</head>\n<body>\n"
        f'<main>\n{body}\n</main>\n<script type="application/json" id="points">{data}</script>\n'
        f"<script>{script}</script>\n</body>\n</html>\n"
    )


def _header(read: Run, summary: dict[str, Any]) -> str:
    n, *point = read.config.data.shape
    what = (
        f"{len(read.config.data.table or ()) or point[0]:,} columns"
        if len(point) == 1
        else f"images of {' x '.join(map(str, point))}"
    )
    name, c = Path(read.name).name or read.name, len(summary["cluster_sizes"])
    seconds = digits(round(number(summary.get("seconds")), 1))
    said = (f"{n:,} rows", what, f"{c} cluster{'s' if c != 1 else ''}", f"fitted in {seconds} s")
    return (
        f'<header><p class="kicker">gedi-learn report</p><h1>{text(name)}</h1>'
        f'<p class="quiet">{text(" · ".join(said))}</p></header>'
    )


def _section(title: str, content: str) -> str:
    name = title.split()[0].lower().strip(",")
    return (
        f'<section aria-labelledby="part-{name}"><h2 id="part-{name}">{text(title)}</h2>{content}'
        "</section>"
        if content
        else ""
    )


def _grid(content: str) -> str:
    return f'<div class="grid">{content}</div>' if content else ""


def _map_section(maps: Maps, summary: dict[str, Any], model: Any) -> str:
    found = [maps.data(model), maps.network() if not maps.is_plane else _drawn(maps, model)]
    items = ""
    for k in with_cards(summary["cluster_sizes"]):
        size = f'<span class="size">{summary["cluster_sizes"][k]:,} rows</span>'
        name = f'<span class="swatch {charts.colour(k)}"></span><b>{k}</b>{size}'
        link = f' href="#cluster-{k}"' if maps.explanation else ""  # without one, no card
        items += f'<li><a{link} data-cluster="{k}">{name}</a></li>'
    legend = f'<ul class="legend" aria-label="Clusters and their rows">{items}</ul>'
    drawn = "".join(each.html() for each in found if each is not None)
    shown, n = len(maps.order), summary.get("n_samples")
    some = ""
    if isinstance(n, int) and shown < n:
        some = f'<p class="quiet">{shown:,} of the {n:,} rows are drawn, evenly spaced.</p>'
    return _section("Map", legend + _grid(drawn) + some)


def _clusters(explanation: Explanation | None, preview: Preview, summary: dict[str, Any]) -> str:
    if explanation is None:
        return sizes(summary) + f'<p class="quiet">{EARLIER}</p>'
    note = (
        "Effects are differences of means in standard deviations (Cohen's d), against all other "
        "rows: 0.5 is a difference that one sees, 2 leaves little overlap."
    )
    about = f'<p class="quiet">{text(note)}</p>' if explanation.columns else ""
    return about + cards(explanation, preview, summary.get("clusters"))


def _certainty(explanation: Explanation | None) -> str:
    return "" if explanation is None else sections.certainty(explanation)


def _density(
    explanation: Explanation | None,
    maps: Maps,
    preview: Preview,
    summary: dict[str, Any],
    model: Any,
) -> str:
    """What the density is worth, and new points."""
    found = summary.get("density")
    words = f"{found['verdict']}. " if isinstance(found, dict) and found.get("verdict") else ""
    words += UNLEARNT if explanation and not explanation.outliers else DENSITY
    said = f"<p>{text(words[:1].upper() + words[1:])}</p>"
    if preview.points.ndim == 4:
        return said + _samples(preview, model)
    drawn = None if maps.is_plane else _drawn(maps, model)  # of a plane it is among the maps
    return said if drawn is None else _grid(f"{drawn.html()}<div>{said}</div>")


def _drawn(maps: Maps, model: Any) -> Map | None:
    """New points of a model that gives some."""
    try:
        return None if model is None else maps.drawn(model)
    except InputError:
        return None


def _samples(preview: Preview, model: Any) -> str:
    """New images, cluster by cluster."""
    if model is None:
        return ""
    n = PICTURES * model.settings_.n_clusters
    images, labels = model.sample(min(n, SAMPLES), random_state=0)
    pictures, side = Pictures.like(preview.points), side_for(n, preview.points.shape)
    strips = []
    for k in range(model.settings_.n_clusters):
        own = images[np.flatnonzero(labels == k)[:PICTURES]]
        if len(own):
            strip = pictures.strip(own, PICTURES, side, f"new images of cluster {k}")
            strips.append(f"<figure><figcaption>cluster {k}</figcaption>{strip}</figure>")
    return f'<div class="strips samples">{"".join(strips)}</div>'


def _folds(read: Run, summary: dict[str, Any], curves: str) -> str:
    return (
        folded("Training curves", curves)
        + folded("Events", sections.events(read.events))
        + folded("Settings that differ from the defaults", sections.settings(read.config))
        + folded("The run", sections.facts(read, summary))
    )


def _footer() -> str:
    return (
        '<footer class="quiet"><p>Rows are counted from 0, in the order of the data. Made by gedi '
        "report from the run directory alone; this file needs nothing else.</p></footer>"
    )
