"""The report of a run: one HTML file that needs nothing else, from the run directory alone.

Everything that comes from files passes through `_text`: the name of a data file may be markup, and
a run directory may come from anywhere. A content policy in the page forbids scripts and requests
as well.
"""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Iterable, Sequence
from html import escape
from pathlib import Path
from typing import Any

from gedilearn.errors import InputError
from gedilearn.files import read_bytes
from gedilearn.report.figures import draw_all
from gedilearn.report.run import Run, number
from gedilearn.settings import flat, known_paths, nested, resolve
from gedilearn.training.config import Config
from gedilearn.writing import write_text

STYLE = """
:root { color-scheme: light dark; --ink: #1b1f24; --paper: #ffffff; --soft: #f3f5f7;
  --line: #d5dae0; --quiet: #57606a; --good: #00694d; --bad: #b03a00; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6e9ed; --paper: #14171b; --soft: #1f242a;
  --line: #363d45; --quiet: #a3adb8; --good: #4fd1a8; --bad: #ff9d6b; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 60rem; padding: 1rem; background: var(--paper);
  color: var(--ink); font: 1rem/1.5 system-ui, sans-serif; overflow-wrap: anywhere; }
h1 { font-size: 1.5rem; margin: 0.5rem 0; } h2 { font-size: 1.15rem; margin: 2rem 0 0.5rem; }
.verdict { border-left: 0.4rem solid; padding: 0.7rem 1rem; background: var(--soft); }
.verdict p { margin: 0.3rem 0; color: var(--ink); } .verdict strong { font-size: 1.25rem; }
.good { color: var(--good); } .bad { color: var(--bad); } .quiet { color: var(--quiet); }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-size: 0.92rem; }
th, td { text-align: left; vertical-align: top; padding: 0.35rem 1rem 0.35rem 0;
  border-bottom: 1px solid var(--line); overflow-wrap: normal; }
td.long { overflow-wrap: anywhere; min-width: 9rem; }
@media (max-width: 36rem) { th, td { padding-right: 0.5rem; } table { font-size: 0.85rem; } }
.number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
img { width: 100%; height: auto; background: white; border-radius: 0.4rem; margin: 0.4rem 0;
  min-width: 40rem; }
"""
# Nothing may be loaded or run, whatever the page says.
POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"
GAP_MEANING = (
    "The gap is the distance in nats to the best value that INV and PRIOR can reach together "
    "(Proposition 1), measured on the training data without labels. It is 0 only for confident "
    "clusters that stay the same under views of the points and have the prior's proportions."
)
# What the heads of the verdict mean.
MEANINGS = {
    "One cluster: nothing to certify": "The network learned the density alone.",
    "Certified": "The clusters are confident, stay the same under views of the points and have the "
    "prior's proportions; no failure mode was found. Whether they are the groups you had in mind, "
    "no number without labels can say.",
    "Certified, with remarks": "The gap is below the tolerance, but some findings below need a "
    "look.",
    "Not certified: training diverged": "The network's output is not finite: there is no result to "
    "use.",
    "Not certified": "No failure mode was found, but the clusters are not proven to be at the "
    "optimum: they may be useful, and need a look. This happens where clusters overlap.",
}
FAILED = "Training failed in the named way: do not use these clusters as they are."
DENSITY = (
    "The certificate is about the clusters. How well the density and the samples match the data is "
    "for the eye to judge."
)
CAPTIONS = ("Terms and gap during training", "The clusters of the data")  # of the two figures

# A column of a table: its title and the class of its cells.
Column = tuple[str, str]
TEXT, NUMBER, LONG, STATE = "", "number", "long", "state"


def write_report(run: Path) -> Path:
    """Draw the figures of a finished run and write `report.html` beside them."""
    read = Run.read(run)
    summary = read.finished()
    name = _text(read.name)
    figures = "\n".join(map(_image, draw_all(read.files.path), CAPTIONS))
    sections = {
        "Findings": _findings(summary["diagnosis"]["findings"]),
        "Cluster sizes": _sizes(summary["cluster_sizes"]),
        "Figures": f'{figures}\n<p class="quiet">{DENSITY}</p>',
        "Events": _events(read.events),
        "Settings that differ from the defaults": _settings(read.config),
        "Run": _facts(read, summary),
    }
    body = "\n".join(f"<h2>{title}</h2>\n{content}" for title, content in sections.items())
    page = (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{name}: gedi-learn report</title>\n<style>{STYLE}</style>\n</head>\n<body>\n"
        f"<h1>{name}</h1>\n{_verdict(summary, read.tolerance)}\n{body}\n</body>\n</html>\n"
    )
    write_text(read.files.report, page)
    return read.files.report


def _verdict(summary: dict[str, Any], tolerance: float) -> str:
    """What to think of the result, before any number."""
    failed = [f for f in summary["diagnosis"]["findings"] if not f.get("ok")]
    modes = list(dict.fromkeys(str(f["mode"]) for f in failed if f.get("mode")))
    certified, gap = bool(summary.get("certified")), number(summary.get("gap"))
    if len(summary["cluster_sizes"]) == 1:
        head = "One cluster: nothing to certify"
    elif certified:
        head = "Certified, with remarks" if failed else "Certified"
    elif modes:
        head = f"Not certified: {' and '.join(modes)}"
    else:
        head = "Not certified" if math.isfinite(gap) else "Not certified: training diverged"
    kind = "good" if certified and not failed else "bad"
    return (
        f'<div class="verdict {kind}"><strong>{_text(head)}</strong>'
        f"<p>{_text(MEANINGS.get(head, FAILED))}</p>"
        f"<p>Gap <b>{_number(gap)}</b> nats, tolerance <b>{_number(tolerance)}</b> nats.</p>"
        f'<p class="quiet">{_text(summary["verdict"])}</p></div>'
        f'<p class="quiet">{_text(GAP_MEANING)}</p>'
    )


def _findings(findings: Sequence[dict[str, Any]]) -> str:
    rows = []
    for f in findings:
        evidence = f" (evidence of {f['mode']})" if f.get("mode") and not f.get("ok") else ""
        value, threshold = _number(f.get("value")), _number(f.get("threshold"))
        state = "ok" if f.get("ok") else "not ok"
        rows.append((f.get("name"), value, threshold, state, f"{f.get('words', '')}{evidence}"))
    numbers = [("number", NUMBER), ("threshold", NUMBER)]
    return _table([("finding", TEXT), *numbers, ("", STATE), ("in words", LONG)], rows)


def _sizes(sizes: list[int]) -> str:
    total = max(sum(sizes), 1)
    rows = [(k, size, f"{size / total:.1%}") for k, size in enumerate(sizes)]
    return _table([("cluster", TEXT), ("points", NUMBER), ("share", NUMBER)], rows)


def _events(events: Iterable[dict[str, Any]]) -> str:
    columns = [("time", TEXT), ("iteration", NUMBER), ("kind", TEXT), ("message", LONG)]
    ordered = sorted(events, key=lambda event: str(event.get("time", "")))  # a stable sort
    return _table(columns, [[event.get(name, "") for name, _ in columns] for event in ordered])


def _settings(config: Config) -> str:
    values, shape = flat(config.settings), config.data.shape
    rows = [(name, json.dumps(v), _default(name, values, shape)) for name, v in values.items()]
    columns = [("setting", TEXT), ("value", LONG), ("default", LONG)]
    return _table(columns, [row for row in rows if row[1] != row[2]])


def _default(name: str, used: dict[str, Any], shape: tuple[int, ...]) -> str:
    """What a setting would be in JSON, had it not been given; that may depend on the others."""
    known = known_paths()
    others = {path: value for path, value in used.items() if path in known and path != name}
    try:
        settings = resolve(nested(others), shape)
    except InputError:  # the others need it, or are damaged
        settings = resolve({}, shape)
    values = flat(json.loads(settings.model_dump_json()))
    return json.dumps(values[name]) if name in values else "unknown"


def _facts(read: Run, summary: dict[str, Any]) -> str:
    facts = {
        "training": f"{summary.get('iterations')} iterations in {summary.get('seconds')} seconds, "
        f"ended by: {summary.get('stopped')}",
        "version": f"gedi-learn {read.config.version}",
        "run directory": read.files.path,
    }
    described = read.config.data.model_dump(mode="json", exclude_unset=True)
    facts |= {f"data: {name}": value for name, value in described.items()}
    if read.config.objects:
        facts["given as objects"] = read.config.objects
    return _table([("", TEXT), ("", LONG)], list(facts.items()))


def _table(columns: Sequence[Column], rows: Sequence[Sequence[Any]]) -> str:
    """A table of whatever the cells are, as text."""
    if not rows:
        return "<p>None.</p>"
    titles = (
        f'<th scope="col" class="{kind if kind == NUMBER else TEXT}">{_text(name)}</th>'
        for name, kind in columns
    )
    kinds = [kind for _, kind in columns]
    lines = ("".join(map(_cell, kinds, row)) for row in rows)
    body = "\n".join(f"<tr>{line}</tr>" for line in lines)
    top = f"<thead><tr>{''.join(titles)}</tr></thead>" if any(name for name, _ in columns) else ""
    return f'<div class="scroll"><table>{top}<tbody>{body}</tbody></table></div>'


def _cell(kind: str, value: Any) -> str:
    if kind == STATE:
        kind = "good" if value == "ok" else "bad"
    return f'<td class="{kind}">{_text(value)}</td>'


def _image(path: Path, caption: str) -> str:
    content = base64.b64encode(read_bytes(path)).decode("ascii")
    image = f'<img alt="{_text(caption)}" src="data:image/png;base64,{content}">'
    return f'<div class="scroll">{image}</div>'


def _number(value: Any) -> str:
    """Four digits, or a word for what is not a number."""
    as_number = number(value)
    return f"{as_number:.4g}" if math.isfinite(as_number) else "not finite"


def _text(value: Any) -> str:
    """Text from anywhere, harmless in an element or an attribute."""
    return escape(str(value), quote=True)
