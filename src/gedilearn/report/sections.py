"""The parts of the page that are made of words and tables."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from typing import Any

from gedilearn.errors import InputError
from gedilearn.explanation import Explanation
from gedilearn.explanation.profiles import Histogram
from gedilearn.report import charts
from gedilearn.report.figures import TERM_TITLES
from gedilearn.report.markup import LONG, NUMBER, STATE, TEXT, digits, folded, percent, table, text
from gedilearn.report.run import Curves, Run, number, one_line
from gedilearn.settings import flat, known_paths, nested, resolve
from gedilearn.training.run import Config

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
    "Certified, with remarks": "The gap is below the tolerance, but some findings need a look.",
    "Not certified: training diverged": "The network's output is not finite: there is no result to "
    "use.",
    "Not certified": "No failure mode was found, but the clusters are not proven to be at the "
    "optimum: they may be useful, and need a look. This happens where clusters overlap.",
    "Supported": "Not certified, but no failure mode was found and other measurements support the "
    "clusters: use them, and mind the rows between them.",
    "Doubtful": "The measurements do not agree on these clusters: look at them before any use.",
    "No structure found": "Nothing says that the data has such clusters: do not read a meaning "
    "into them.",
}
FAILED = "Training failed in the named way: do not use these clusters as they are."
GOOD = ("Certified", "Supported")
SURE, DOUBTED = 0.9, 0.5


def verdict(summary: dict[str, Any], explanation: Explanation | None, tolerance: float) -> str:
    """What to think of the result, before any number."""
    findings = summary["diagnosis"]["findings"]
    failed = [f for f in findings if not f.get("ok")]
    head, gap = _head(summary, failed), number(summary.get("gap"))
    warnings = explanation.warnings if explanation else ()
    remarks = [*warnings, *(_remark(f) for f in failed)]
    listed = "".join(f"<li>{text(remark)}</li>" for remark in remarks)
    numbers = (
        f"<p>Gap <b>{digits(gap)}</b> nats, tolerance <b>{digits(tolerance)}</b> nats. "
        f"{text(GAP_MEANING)}</p><p>{text(summary['verdict'])}</p>{_findings(findings)}"
    )
    if "stability" in summary:
        numbers += f"<p>Stability <b>{digits(summary['stability'], 3)}</b>.</p>"
    kind = "good" if head in GOOD else "bad"
    return (
        f'<section class="verdict {kind}" aria-labelledby="verdict">'
        f'<h2 id="verdict">{text(head)}</h2><p class="lead">{text(MEANINGS.get(head, FAILED))}</p>'
        f"<p>{text(_in_short(summary, explanation))}</p>"
        f"{f'<ul>{listed}</ul>' if listed else ''}{folded('The verdict in numbers', numbers)}"
        "</section>"
    )


def _in_short(summary: dict[str, Any], explanation: Explanation | None) -> str:
    """How many rows in how many clusters, and how sure they are."""
    sizes = summary["cluster_sizes"]
    low, high = min(sizes), max(sizes)
    each = f"{low:,} to {high:,}" if low < high else f"{low:,} each"
    said = f"{sum(sizes):,} rows in {len(sizes)} clusters of {each}."
    if len(sizes) == 1:
        said = f"{sum(sizes):,} rows."
    elif explanation and explanation.probabilities.counts:
        sure = _share_above(explanation.probabilities, SURE) / max(sum(sizes), 1)
        said += f" {percent(sure)} of them have a probability of {SURE} or more for their cluster."
    return said


def _head(summary: dict[str, Any], failed: Sequence[dict[str, Any]]) -> str:
    """The verdict in a few words: the grade, where the run has one."""
    modes = list(dict.fromkeys(str(f["mode"]) for f in failed if f.get("mode")))
    certified, grade = bool(summary.get("certified")), str(summary.get("grade", ""))
    if len(summary["cluster_sizes"]) == 1:
        return "One cluster: nothing to certify"
    if certified:
        return "Certified, with remarks" if failed else "Certified"
    if modes:
        return f"Not certified: {' and '.join(modes)}"
    if not math.isfinite(number(summary.get("gap"))):
        return "Not certified: training diverged"
    return grade.capitalize() if grade.capitalize() in MEANINGS else "Not certified"


def _remark(finding: dict[str, Any]) -> str:
    evidence = f" (evidence of {finding['mode']})" if finding.get("mode") else ""
    words = str(finding.get("words", ""))
    return f"{words[:1].upper()}{words[1:]}{evidence}."


def _findings(findings: Sequence[dict[str, Any]]) -> str:
    rows = []
    for f in findings:
        evidence = f" (evidence of {f['mode']})" if f.get("mode") and not f.get("ok") else ""
        value, threshold = digits(f.get("value")), digits(f.get("threshold"))
        state = "ok" if f.get("ok") else "not ok"
        rows.append((f.get("name"), value, threshold, state, f"{f.get('words', '')}{evidence}"))
    numbers = [("number", NUMBER), ("threshold", NUMBER)]
    return table(
        [("finding", TEXT), *numbers, ("state", STATE), ("in words", LONG)], rows, "Findings"
    )


# --- how sure, how unusual ------------------------------------------------------------------------


def certainty(explanation: Explanation) -> str:
    """Histograms of the probabilities, of trust, where it is known, and of log p(x)."""
    found, n = [], max(explanation.n_samples, 1)
    p, density, trust = explanation.probabilities, explanation.log_densities, explanation.trusts
    if p.counts:
        sure = percent(_share_above(p, SURE) / n)
        words = (
            f"{sure} of the rows have a probability of {SURE} or more for their cluster. Rows near "
            "0.5 lie between two clusters."
        )
        title = "probability of a row's own cluster"
        name = f"Histogram of the probabilities: {sure} of the rows have {SURE} or more"
        found.append(("How sure", charts.bars(p.edges, p.counts, name, title), words))
    if trust.counts:
        few = n - _share_above(trust, DOUBTED)
        low, none = percent(few / n), f"None of the rows is below {DOUBTED}."
        words = (
            "How often the row came into the same cluster again when random parts of the data were "
            "clustered, times the probability of its cluster. "
            + (f"{low} of the rows are below {DOUBTED}: look at them first." if few else none)
        )
        name = f"Histogram of the trust in single rows: {low} of them are below {DOUBTED}"
        drawn = charts.bars(trust.edges, trust.counts, name, "trust in a row's cluster")
        found.append(("How far to trust a row", drawn, words))
    if density.counts:
        words = "The rows on the left are unlike the rest; the lowest ones: " + ", ".join(
            f"{row.row} ({digits(row.log_density, 3)})" for row in explanation.outliers
        )
        name = f"Histogram of log p(x), from {digits(density.edges[0], 3)} on"
        drawn = charts.bars(density.edges, density.counts, name, "log p(x) of a row", density.below)
        found.append(("How usual", drawn, f"{words}."))
    return "".join(
        f"<figure><h3>{title}</h3>{drawn}<figcaption>{text(words)}</figcaption></figure>"
        for title, drawn, words in found
    )


def _share_above(histogram: Histogram, least: float) -> int:
    pairs = zip(histogram.edges[:-1], histogram.counts, strict=True)
    return sum(count for edge, count in pairs if edge >= least - 1e-9)


# --- folded away ----------------------------------------------------------------------------------


def training(curves: Curves, tolerance: float) -> str:
    """The terms and the gap over the iterations; the kept member on top of the others."""

    def drawn(values: Any, name: str, unit: str, **more: Any) -> str:
        others = [(values[:, i], "other") for i in range(values.shape[1]) if i != curves.kept]
        series = [*others, (values[:, curves.kept], "kept")]
        chart = charts.lines(curves.iterations, series, name, unit, **more)
        return f"<figure><h3>{text(name)}</h3>{chart}</figure>"

    level = tolerance if math.isfinite(tolerance) else None
    found = [drawn(curves.gap, "gap", "nats, log scale", level=level, logarithmic=True)]
    for name, values in curves.terms.items():
        unit = "nats squared" if name == "energy" else "nats"
        found.append(drawn(values, TERM_TITLES.get(name, one_line(name)), unit))
    words = "The network that was kept is drawn in blue, the others in grey."
    if level:
        words += " Below the dashed line a clustering is certified."
    return f'<div class="grid">{"".join(found)}</div><p class="quiet">{words}</p>'


def events(found: Iterable[dict[str, Any]]) -> str:
    columns = [("time", TEXT), ("iteration", NUMBER), ("kind", TEXT), ("message", LONG)]
    ordered = sorted(found, key=lambda event: str(event.get("time", "")))  # a stable sort
    rows = [[event.get(name, "") for name, _ in columns] for event in ordered]
    return table(columns, rows, "Events")


def settings(config: Config) -> str:
    """Only those that differ from the defaults."""
    values, shape = flat(config.settings), config.data.shape
    rows = [(name, json.dumps(v), _default(name, values, shape)) for name, v in values.items()]
    columns = [("setting", TEXT), ("value", LONG), ("default", LONG)]
    return table(columns, [row for row in rows if row[1] != row[2]], "Settings")


def _default(name: str, used: dict[str, Any], shape: tuple[int, ...]) -> str:
    """What a setting would be in JSON, had it not been given; that may depend on the others."""
    known = known_paths()
    others = {path: value for path, value in used.items() if path in known and path != name}
    try:
        found = resolve(nested(others), shape)
    except InputError:  # the others need it, or are damaged
        found = resolve({}, shape)
    values = flat(json.loads(found.model_dump_json()))
    return json.dumps(values[name]) if name in values else "unknown"


def facts(read: Run, summary: dict[str, Any]) -> str:
    """Where it came from, so that it can be made again."""
    found = {
        "training": f"{summary.get('iterations')} iterations in {summary.get('seconds')} seconds, "
        f"ended by: {summary.get('stopped')}",
        "version": f"gedi-learn {read.config.version}",
        "run directory": read.files.path,
    }
    described = read.config.data.model_dump(mode="json", exclude_unset=True)
    found |= {f"data: {name}": value for name, value in described.items()}
    if read.config.objects:
        found["given as objects"] = read.config.objects
    return table([("", TEXT), ("", LONG)], list(found.items()), "The run")
