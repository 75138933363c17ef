"""The rows of `toy` beside the paper's numbers: table, figure, and the page of results."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from gedilearn import panels
from gedilearn.experiments import sensitivity
from gedilearn.experiments.paper import TOY_NMI, TOY_RULE, toy_verdict
from gedilearn.experiments.runner import Kept, Row, findings, kept_in, no_rows
from gedilearn.experiments.table import (
    Column,
    Experiment,
    Group,
    Table,
    grouped,
    label,
    mean_and_deviation,
    share,
    statistic,
)
from gedilearn.experiments.toy import KMEANS, METHODS, NAMES, SETS, run, title
from gedilearn.presets import ABOUT
from gedilearn.training.monitor import CLUSTERS, PERMUTATION, REPRESENTATION

FALSE = 0.95  # a certificate with a lower NMI is a false one
OUR_COLOUR, PAPERS_COLOUR = "#0072B2", "#D55E00"

# --- judging ------------------------------------------------------------------------------------


def _paper(group: Group) -> tuple[float, float] | None:
    return TOY_NMI.get((group[0]["data"], group[0]["method"]))


def judged(group: Group) -> str:
    """The verdict on the seeds of a method, if the paper has a number."""
    paper, nmi = _paper(group), [row["nmi"] for row in group]
    if paper is None:
        return "not in the paper"
    return toy_verdict(statistics.fmean(nmi), statistics.pstdev(nmi), *paper)


def reason(group: Group) -> str:
    """Why the numbers are as they are, from the findings on the seeds alone."""
    return findings(group, FALSE)


# --- showing ------------------------------------------------------------------------------------

NOTES = (
    "NMI: mean ± deviation (of the seeds themselves) on fresh points, beside the paper's; AMI is "
    "the mean, the gap the median. Each seed draws the data anew.",
    "Certified: gap below the tolerance on the training points; the certificate knows no labels, "
    f"and one with NMI < {FALSE:g} counts as false.",
    "R, C, P: seeds with representation collapse, cluster collapse, label permutation, as the "
    "monitor finds them on the training points.",
    "Seconds are those of a cell divided by its seeds, which train side by side. The clusters "
    "of a seed are trained until they are certified; the state that is scored is the certified "
    "one, or else the last.",
)


def _papers(group: Group) -> str:
    paper = _paper(group)
    return "" if paper is None else "{:.2f} ± {:.2f}".format(*paper)


def _false(group: Group) -> str:
    return str(sum(row["certified"] and row["nmi"] < FALSE for row in group))


def _mode(head: str, mode: str) -> Column:
    return Column(head, lambda group: str(sum(mode in row["modes"] for row in group)))


NAMED = (label("data"), label("method", NAMES))
OURS = Column("NMI", mean_and_deviation("nmi"))
PAPERS = Column("paper", _papers)
AMI = statistic("AMI", "ami", statistics.fmean, digits=2)
GAP = statistic("gap", "gap", digits=4)
SECONDS = statistic("seconds", "seconds", statistics.fmean, short="s", digits=1)
COLUMNS = (
    *NAMED,
    OURS,
    PAPERS,
    AMI,
    statistic("accuracy", "accuracy", statistics.fmean, short="", digits=2),
    GAP,
    share("certified", lambda row: row["certified"], short="cert."),
    Column("false certificates", _false, short=""),
    _mode("R", REPRESENTATION),
    _mode("C", CLUSTERS),
    _mode("P", PERMUTATION),
    SECONDS,
)
PAGE_COLUMNS = (
    *NAMED,
    PAPERS,
    replace(OURS, head="ours"),
    Column("verdict", judged, words=True),
    Column("why", reason, words=True),
    AMI,
    GAP,
    SECONDS,
)


def _groups(rows: Sequence[Row]) -> list[list[Row]]:
    return grouped(rows, "data", "method", data=SETS, method=NAMES)


def tables(rows: Sequence[Row]) -> list[Table]:
    """A line for each (data, method) over its seeds."""
    return [Table(f"Moons and circles: {title(rows)}", COLUMNS, _groups(rows), NOTES)]


def markdown(rows: Sequence[Row]) -> str:
    """The same; what it was made with is a note."""
    return tables(rows)[0].markdown([f"{title(rows).capitalize()}.", *NOTES])


def figure(rows: Sequence[Row], path: Path) -> Path:
    """NMI by method: a point a seed, the paper's mean and deviation beside them."""
    there = {r["data"] for r in rows}
    data = [name for name in SETS if name in there]
    methods = [m for m in NAMES if any(r["method"] == m for r in rows)]
    width = 2.2 + len(data) * max(2.6, 0.75 * len(methods))
    fig = panels.new_figure(width, 4.4, f"NMI on fresh points: {title(rows)}")
    all_axes = fig.subplots(1, len(data), sharey=True, squeeze=False)[0]
    for axes, name in zip(all_axes, data, strict=True):
        for i, method in enumerate(methods):
            nmi = [r["nmi"] for r in rows if (r["data"], r["method"]) == (name, method)]
            offset = np.linspace(-0.02, 0.18, len(nmi)) if len(nmi) > 1 else np.zeros(len(nmi))
            axes.scatter(i + offset, nmi, s=26, color=OUR_COLOUR, lw=0, alpha=0.7)
            if nmi:
                axes.hlines(statistics.fmean(nmi), i - 0.06, i + 0.22, color=OUR_COLOUR, lw=2)
            if (name, method) in TOY_NMI:
                mean, std = TOY_NMI[name, method]
                look = {"fmt": "D", "color": PAPERS_COLOUR, "ms": 6, "capsize": 3, "lw": 1.4}
                axes.errorbar(i - 0.22, mean, yerr=std, **look)
        axes.set_xticks(range(len(methods)), [NAMES[m].replace(" ", "\n") for m in methods])
        axes.set(ylim=(-0.05, 1.15), xlim=(-0.6, len(methods) - 0.4))
        axes.grid(axis="y", color="#DDDDDD", lw=0.6)
        axes.set_axisbelow(True)
        panels.dress(axes, name, "", "NMI" if axes is all_axes[0] else "")
    handles = [
        all_axes[0].plot([], [], mark, color=colour, ms=6, lw=2)[0]
        for mark, colour in (("o", OUR_COLOUR), ("-", OUR_COLOUR), ("D", PAPERS_COLOUR))
    ]
    labels = ["a seed", "mean of the seeds", "paper: mean and deviation"]
    fig.legend(handles, labels, loc="outside lower center", ncols=3, fontsize=10, frameon=False)
    return panels.save(fig, path)


# --- the page -----------------------------------------------------------------------------------

WHY = (
    "*Why* counts, over the seeds, what the monitor found on the training points, without labels: "
    "failure modes, runs that the guard recovered from divergence and those that it could not, "
    "runs that ended above the tolerance with none of these (uncertified), and certificates; those "
    f"with NMI < {FALSE:g} are false."
)


def page(root: Path) -> str:
    """The page of results, as Markdown, from all presets that have rows under `root`."""
    presets = kept_in(root)
    if not presets:
        raise no_rows(root, "toy")
    parts = [
        "# Moons and circles: every number and figure of the paper",
        "Made by `make results-toy`; nothing on this page is typed by hand.",
        TOY_RULE,
        WHY,
        "\n".join(f"- {note}" for note in (NOTES[0], NOTES[-1])),
    ]
    for kept in presets:
        there = {(r["data"], r["method"]) for r in kept.rows}
        missing = [f"{data} {NAMES[m]}" for data, m in TOY_NMI if (data, m) not in there]
        parts += [f"## {title(kept.rows).capitalize()}", ABOUT[kept.rows[0]["preset"]]]
        parts.append(_made(kept, "toy", kept.option("methods", METHODS, without=(KMEANS,))))
        parts.append(Table("", PAGE_COLUMNS, _groups(kept.rows)).markdown().strip())
        parts += [f"Not run: {', '.join(missing)}."] if missing else []
        parts += _shown(kept.folder.name, _drawn(kept))
    for kept in kept_in(root, "*/sensitivity"):
        parts += [f"## Sensitivity: {title(kept.rows)}", _made(kept, "sensitivity")]
        parts += _shown(kept.folder.parent.name, _drawn(kept))
        parts.append(sensitivity.markdown(kept.rows).strip())
    return "\n\n".join(parts) + "\n"


def _made(kept: Kept, name: str, methods: str = "") -> str:
    settings = kept.config["settings"]
    options = f"{name} --preset {settings['preset']} --seeds {kept.seeds[-1] + 1}"
    options += kept.option("data", SETS) + methods
    if settings["iterations"] is not None:
        options += f" --iterations {settings['iterations']}"
    # k-means is trained with Barlow.
    minutes = sum(r["seconds"] for r in kept.rows if r["method"] != KMEANS) / 60
    points = f"{kept.config['n']} points a set, and as many fresh ones"
    training = f"{minutes:.1f} minutes of training on one core in all"
    return kept.made_by(options, [points, training], NAMES)


def _drawn(kept: Kept) -> dict[str, Path]:
    """The figures in a folder, by the names that the page has for them."""
    folder, own = kept.folder, kept.folder.name == "sensitivity"
    preset = folder.parent.name if own else folder.name
    stems = ("sensitivity",) if own else ("toy", "labels", "generation")
    files = {f"{stem}-{preset}.png": folder / f"{stem}.png" for stem in stems}
    return {name: file for name, file in files.items() if file.exists()}


def _shown(preset: str, drawn: dict[str, Path]) -> list[str]:
    return [f"![{preset}: {file.stem}]({name})" for name, file in drawn.items()]


def figures(root: Path) -> dict[str, Path]:
    """The figures that the page shows, by the names it has for them."""
    found: dict[str, Path] = {}
    for kept in (*kept_in(root), *kept_in(root, "*/sensitivity")):
        found |= _drawn(kept)
    return found


EXPERIMENT = Experiment(
    "toy", run, tables, own_markdown=markdown, figure=figure, own_page=page, figures=figures
)
