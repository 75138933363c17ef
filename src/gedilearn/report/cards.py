"""A card for each cluster: what sets it apart, rows to look at, and what it is confused with."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gedilearn.explanation import Explanation
from gedilearn.explanation.profiles import MOST_ROWS, Profile, Row
from gedilearn.report import charts
from gedilearn.report.markup import (
    KIND,
    NUMBER,
    TEXT,
    beside,
    digits,
    folded,
    percent,
    scrolled,
    table,
    text,
)
from gedilearn.report.pictures import Pictures, side_for
from gedilearn.report.run import Preview, number

MOST_CARDS = 60  # the largest clusters; all are in the table of sizes
Say = Callable[[str], Callable[[float], str] | None]  # how values of a column are written
KINDS = {"typical": "typical", "doubtful": "least certain", "outliers": "unusual"}


def cards(explanation: Explanation, preview: Preview, figures: Any) -> str:
    """Of the clusters that have rows; `figures` are further numbers of each, if a run has some."""
    shown = [explanation.clusters[k] for k in with_cards([p.size for p in explanation.clusters])]
    strips = _Strips(preview, sum(len(_rows(p)) for p in shown))
    more = (
        figures if isinstance(figures, list) and len(figures) == len(explanation.clusters) else []
    )
    linked = {p.cluster for p in shown}
    say = explanation.written
    found = [_card(p, strips, more[p.cluster] if more else {}, linked, say) for p in shown]
    left = sum(1 for p in explanation.clusters if p.size) - len(shown)
    note = f'<p class="quiet">And {left} smaller clusters.</p>' if left > 0 else ""
    return f'<div class="cards">{"".join(found)}</div>{note}'


def with_cards(cluster_sizes: Sequence[int]) -> list[int]:
    """The clusters that have a card: the largest, in their order."""
    used = [k for k, size in enumerate(cluster_sizes) if size]
    return sorted(sorted(used, key=lambda k: -cluster_sizes[k])[:MOST_CARDS])


def sizes(summary: dict[str, Any]) -> str:
    """How many rows each cluster has, where nothing else is known."""
    total = max(sum(summary["cluster_sizes"]), 1)
    rows = [(k, f"{n:,}", percent(n / total)) for k, n in enumerate(summary["cluster_sizes"])]
    columns = [("cluster", TEXT), ("rows", NUMBER), ("share", NUMBER)]
    return table(columns, rows, "Cluster sizes")


def _card(profile: Profile, strips: _Strips, figures: Any, linked: set[int], say: Say) -> str:
    k, colour = profile.cluster, charts.colour(profile.cluster)
    rows = "row" if profile.size == 1 else "rows"
    words = f'<p class="words">{text(_sentence(profile.words))}</p>' if profile.words else ""
    return (
        f'<article class="card" id="cluster-{k}" aria-labelledby="title-{k}">'
        f'<h3 id="title-{k}"><span class="swatch {colour}"></span>Cluster {k}'
        f'<span class="size">{profile.size:,} {rows}, {percent(profile.share)}</span></h3>'
        f'<div class="share" aria-hidden="true"><span class="{colour}" '
        f'style="width:{100 * profile.share:.2f}%"></span></div>'
        f"{words}{_differences(profile)}{_doubts(profile, figures, linked)}"
        f"{strips.of(profile)}{_named_rows(profile, say)}</article>"
    )


def _sentence(words: str) -> str:
    return f"{words[:1].upper()}{words[1:]}."


def _differences(profile: Profile) -> str:
    """The columns that set it apart, with means and bars."""
    if not profile.differences:
        return ""
    head = '<tr><th scope="col">column</th><th scope="col" class="number">mean</th>'
    head += '<th scope="col" class="number">others</th><th scope="col">effect</th></tr>'
    lines = ""
    for d in profile.differences:
        mean, others = d.shown(d.mean), d.shown(d.others)
        if d.kind in ("number", "count"):
            mean, others = beside(d.mean, d.others)
        lines += (
            f'<tr><th scope="row">{text(d.column)}</th><td class="number">{mean}</td>'
            f'<td class="number">{others}</td><td class="effect">'
            f"{charts.effect_bar(d.effect)}<span>{_effect(d.effect)}</span></td></tr>"
        )
    return scrolled(
        f'<table class="differences"><thead>{head}</thead><tbody>{lines}</tbody></table>',
        f"Columns that set cluster {profile.cluster} apart",
    )


def _effect(effect: float) -> str:
    if abs(effect) < 100:
        return f"{effect:+.1f}"
    return "above 100" if effect > 0 else "below -100"


def _doubts(profile: Profile, figures: Any, linked: set[int]) -> str:
    """How sure it is of its rows, what they are taken for, and further numbers of it."""
    said = [f"Mean probability {digits(profile.probability, 3)}"]
    if profile.neighbours:
        near = ", ".join(
            f"{_link(n.cluster, linked)} ({digits(n.probability, 2)})" for n in profile.neighbours
        )
        said.append(f"Taken for {near}")
    more = figures.items() if isinstance(figures, dict) else ()
    known = ("cluster", "size", "share")
    for name, value in more:
        if name not in known and isinstance(value, int | float) and not isinstance(value, bool):
            said.append(f"{text(str(name).capitalize())} {digits(number(value), 3)}")
    return f'<p class="quiet">{". ".join(said)}.</p>'


def _link(cluster: int, linked: set[int]) -> str:
    name = f"cluster {cluster}"
    return f'<a href="#cluster-{cluster}">{name}</a>' if cluster in linked else name


def _named_rows(profile: Profile, say: Say) -> str:
    """All rows worth a look in one table, folded away."""
    names = list(next(iter(profile.typical)).values)
    trusted = all(r.trust is not None for r in _rows(profile))
    scored = all(r.log_density is not None for r in _rows(profile))
    rows = []
    for key, kind in KINDS.items():
        for r in getattr(profile, key):
            own = [_cell(r.values.get(name), say(name)) for name in names]
            sure = [f"{r.probability:.2f}", *([f"{r.trust:.2f}"] if trusted else [])]
            usual = [digits(r.log_density, 3)] if scored else []
            rows.append((kind, f"{r.row:,}", *sure, _otherwise(r), *usual, *own))
    heads = ["row", "p", *(["trust"] if trusted else []), "or"]
    heads += [*(["log p(x)"] if scored else []), *names]
    columns = [("kind", KIND), *((head, NUMBER) for head in heads)]
    title = f"Rows of cluster {profile.cluster} to look at"
    return folded("Rows to look at", table(columns, rows, title))


def _cell(value: Any, say: Callable[[float], str] | None) -> str:
    return say(number(value)) if say and np.isfinite(number(value)) else digits(value)


def _otherwise(row: Row) -> str:
    """The cluster that it could be as well."""
    return "" if row.second is None or row.second_probability < 0.005 else f"cluster {row.second}"


def _rows(profile: Profile) -> list[Row]:
    return [row for key in KINDS for row in getattr(profile, key)]


class _Strips:
    """Rows of images as pictures beside each other; of vectors, nothing."""

    def __init__(self, preview: Preview, count: int) -> None:
        self.images, rows = preview.points, preview.rows
        self.places: dict[int, int] = {}
        if self.images.ndim == 4 and rows is not None:
            self.places = {int(row): i for i, row in enumerate(rows)}
            self.pictures = Pictures.like(self.images)
            self.side = side_for(count, self.images.shape)

    def of(self, profile: Profile) -> str:
        found = []
        for key, kind in KINDS.items():
            rows: Sequence[Row] = getattr(profile, key)
            index = [self.places[r.row] for r in rows if r.row in self.places]
            if index:
                numbers = ", ".join(str(row.row) for row in rows)
                name = f"{kind} images of cluster {profile.cluster}: rows {numbers}"
                strip = self.pictures.strip(
                    self.images[np.array(index)], MOST_ROWS, self.side, name
                )
                found.append(f"<figure><figcaption>{kind}</figcaption>{strip}</figure>")
        return f'<div class="strips">{"".join(found)}</div>' if found else ""
