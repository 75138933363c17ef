"""The rows of `toy` beside the paper's numbers: table, figure, and the page of results."""

from __future__ import annotations

import statistics
from collections.abc import Collection, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np

from gedilearn import panels
from gedilearn.experiments import sensitivity, table, verdict
from gedilearn.experiments.kept import Kept, kept_in
from gedilearn.experiments.runner import KMEANS, Options, Row, diverged, findings, key_of
from gedilearn.experiments.toy import METHODS, NAMES, SETS, run, title
from gedilearn.experiments.verdict import Published, judge, too_wide
from gedilearn.presets import ABOUT, CHOSEN
from gedilearn.training.monitor import CLUSTERS, PERMUTATION, REPRESENTATION

FALSE = 0.95  # a certificate with a lower NMI is a false one
ON_DIVERGENCE = "training.on_divergence"
OUR_COLOUR, PAPERS_COLOUR = "#0072B2", "#D55E00"

# --- the paper's numbers ------------------------------------------------------------------------

# Mean and deviation of the NMI over five runs.
PAPER: dict[tuple[str, str], Published] = {
    ("moons", "jem"): Published(0.00, 0.00), ("circles", "jem"): Published(0.00, 0.00),
    ("moons", "swav"): Published(0.76, 0.36), ("circles", "swav"): Published(0.00, 0.00),
    ("moons", "no-unif"): Published(0.00, 0.00), ("circles", "no-unif"): Published(0.00, 0.00),
    ("moons", "no-inv"): Published(0.11, 0.15), ("circles", "no-inv"): Published(0.22, 0.13),
    ("moons", "no-gen"): Published(0.98, 0.00), ("circles", "no-gen"): Published(0.83, 0.12),
    ("moons", "gedi"): Published(0.94, 0.07), ("circles", "gedi"): Published(1.00, 0.01),
}  # fmt: skip
WIDE = [f"{data} {NAMES[method]}" for (data, method), number in PAPER.items() if too_wide(number)]
RULES = (
    verdict.RULE,
    verdict.WELCH,
    f"The paper's five runs alone make it wider than ±{verdict.MARGIN:g} for {', '.join(WIDE)}, so "
    "that hardly any run of ours can count as reproduced there.",
)


def _paper(group: table.Group) -> Published | None:
    return PAPER.get((group[0]["data"], group[0]["method"]))


def judged(group: table.Group) -> str:
    """The verdict on the seeds of a method, if the paper has a number."""
    paper = _paper(group)
    if paper is None:
        return "not in the paper"
    if group[0]["shortened_to"] is not None:
        return "shortened: not comparable"
    return judge(table.values(group, "nmi"), paper)


def _difference(group: table.Group) -> str:
    paper = _paper(group)
    return "" if paper is None else verdict.shown(table.values(group, "nmi"), paper)


# Why the numbers are as they are, from the findings on the seeds alone.
reason = partial(findings, false_below=FALSE)

# --- showing ------------------------------------------------------------------------------------

NOTES = (
    "NMI: mean ± deviation (of the seeds themselves) on fresh points, beside the paper's; AMI is "
    "the mean, the gap the median. Each seed draws the data anew.",
    "Certified: gap below the tolerance on the training points; the certificate knows no labels, "
    f"and one with NMI < {FALSE:g} counts as false.",
    "R, C, P: seeds with representation collapse, cluster collapse, label permutation, as the "
    "monitor finds them on the training points.",
    "Seconds are those of a cell divided by the seeds that train side by side. The state that is "
    "scored is the last one, or the certified one where a certificate ends the training.",
)


def _papers(group: table.Group) -> str:
    paper = _paper(group)
    return "" if paper is None else f"{paper.mean:.2f} ± {paper.deviation:.2f}"


def _is_false(row: Row) -> bool:
    return bool(row["certified"]) and row["nmi"] < FALSE


def _mode(head: str, mode: str) -> table.Column:
    return table.count(head, lambda row: mode in row["modes"])


NAMED = (table.label("data"), table.label("method", NAMES), table.seeds())
OURS = table.Column("NMI", table.mean_and_deviation("nmi"))
PAPERS = table.Column("paper", _papers)
AMI = table.statistic("AMI", "ami", statistics.fmean, digits=2)
GAP = table.statistic("gap", "gap", digits=4)
SECONDS = table.statistic("seconds", "seconds", statistics.fmean, short="s", digits=1)
COLUMNS = (
    *NAMED,
    OURS,
    PAPERS,
    AMI,
    table.statistic("accuracy", "accuracy", statistics.fmean, short="", digits=2),
    GAP,
    table.share("certified", lambda row: row["certified"], short="cert."),
    table.count("false certificates", _is_false, short=""),
    _mode("R", REPRESENTATION),
    _mode("C", CLUSTERS),
    _mode("P", PERMUTATION),
    SECONDS,
)
PAGE_COLUMNS = (
    *NAMED,
    PAPERS,
    replace(OURS, head="ours"),
    table.Column("difference, 95%", _difference),
    table.Column("verdict", judged, words=True),
    table.Column("why", reason, words=True),
    AMI,
    GAP,
    SECONDS,
)


def _groups(rows: Sequence[Row]) -> list[list[Row]]:
    return table.grouped(rows, "data", "method", data=SETS, method=NAMES)


def tables(rows: Sequence[Row]) -> list[table.Table]:
    """A line for each (data, method) over its seeds."""
    notes = [f"{title(rows).capitalize()}.", *NOTES]
    return [table.Table("Moons and circles", COLUMNS, _groups(rows), notes)]


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
            if (name, method) in PAPER:
                number = PAPER[name, method]
                look = {"fmt": "D", "color": PAPERS_COLOUR, "ms": 6, "capsize": 3, "lw": 1.4}
                axes.errorbar(i - 0.22, number.mean, yerr=number.deviation, **look)
        axes.set_xticks(range(len(methods)), [NAMES[m].replace(" ", "\n") for m in methods])
        axes.set(ylim=(-0.05, 1.15), xlim=(-0.6, len(methods) - 0.4))
        axes.grid(axis="y", color="#DDDDDD", lw=0.6)
        axes.set_axisbelow(True)
        panels.label_axes(axes, name, "", "NMI" if axes is all_axes[0] else "")
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
    "failure modes, runs that the guard recovered from divergence and those that diverged without "
    "or in spite of it, runs that ended above the tolerance with no failure mode (uncertified), "
    f"and certificates; those with NMI < {FALSE:g} are false."
)


def page(root: Path) -> table.Page:
    """The page of results, from all presets that have rows under `root`."""
    page = table.Page(
        [
            "# Moons and circles: every number and figure of the paper",
            table.MADE.format("toy"),
            *RULES,
            WHY,
            "\n".join(table.bullets((NOTES[0], NOTES[-1]))),
        ]
    )
    runs = kept_in(root, command="toy")
    for kept in runs:
        name, first = kept.folder.name, kept.rows[0]
        about = f"{ABOUT[first['preset']]} {CHOSEN[first['preset']]}"
        page.add(f"## {title(kept.rows).capitalize()}", about)
        page.add(_made(kept, "toy", METHODS))
        page.add(table.Table("", PAGE_COLUMNS, _groups(kept.rows)).markdown())
        there = {(r["data"], r["method"]) for r in kept.rows}
        missing = [f"{data} {NAMES[m]}" for data, m in PAPER if (data, m) not in there]
        if missing and not first["changes"]:
            page.add(f"Not run: {', '.join(missing)}.")
        page.add_figure(f"toy-{name}.png", figure, kept.rows, f"{name}: toy")
        for stem in ("labels", "generation"):
            shown = f"{stem}-{name}.png"
            page.add_picture(shown, kept.picture(f"{stem}.png", shown), f"{name}: {stem}")
    page.add(*_guards(runs))
    for kept in kept_in(root, "*/sensitivity"):
        name = kept.folder.parent.name
        page.add(f"## Sensitivity: {title(kept.rows)}", _made(kept, "sensitivity"))
        shown, draw = f"sensitivity-{name}.png", sensitivity.figure
        page.add_figure(shown, draw, kept.rows, f"{name}: sensitivity")
        page.add(sensitivity.EXPERIMENT.markdown(kept.rows))
    return page


def _made(kept: Kept, name: str, methods: Sequence[str] = ()) -> str:
    # k-means is trained with Barlow.
    minutes = sum(r["seconds"] for r in kept.rows if KMEANS not in r["method"]) / 60
    settings = kept.config["settings"]
    facts = [
        f"{kept.config['n']} points a set, and as many fresh ones",
        _ending({r["method"] for r in kept.rows} & {*NAMES} or {"gedi"}, settings),
        GUARDS[settings["on_divergence"]],
        *(
            [f"up to {most} seeds side by side"]
            if (most := settings.get("together", 1)) > 1
            else []
        ),
        f"{minutes:.1f} minutes of training on one core in all",
    ]
    command = f"{name} --preset {settings['preset']}"
    return kept.made_by(command, facts, data=SETS, methods=methods, names=NAMES)


def _ending(trained: Collection[str], settings: Options) -> str:
    """What ends the training of the methods of a run."""
    ended = [m for m in settings["ended_by_certificate"] if m in trained]
    if not ended:
        return "all train to the end"
    if len(ended) == len(trained):
        return "a certificate ends the training"
    names = " and ".join(NAMES[m] for m in ended)
    return f"a certificate ends the training of {names}, all others train to the end"


# --- what the guard does ------------------------------------------------------------------------

GUARDS = {
    "recover": "the guard is on (recover)",
    "stop": "a divergence stops training",
    "ignore": "the guard is off (ignore)",
}
GUARD = (
    "When energies diverge, the guard goes back to the last good state and goes on more calmly "
    "(`training.on_divergence=recover`); without it training goes on as it is (`ignore`). Compared "
    "are the runs above that differ in nothing else but how many seeds train side by side, on the "
    "seeds that both have."
)
GUARD_COLUMNS = (
    *NAMED[:2],
    table.Column("guard", lambda group: GUARDS[group[0]["guard"]], words=True),
    NAMED[2],
    OURS,
    table.share("certified", lambda row: row["certified"]),
    table.share("diverged at some time", lambda row: diverged(row) or row["recoveries"] > 0),
    table.share("recovered", lambda row: row["recoveries"] > 0 and not diverged(row)),
    table.share("diverged at the end", lambda row: row["stopped"] == "diverged"),
)


def _guards(runs: Sequence[Kept]) -> list[str]:
    """Runs that differ in the guard alone, line by line."""
    alike: dict[str, list[Kept]] = {}
    for kept in runs:
        first = kept.rows[0]
        others = {k: v for k, v in (first["changes"] or {}).items() if k != ON_DIVERGENCE}
        alike.setdefault(title([first | {"changes": others}]), []).append(kept)
    parts = []
    for name, group in alike.items():
        both = set.intersection(*({key_of(row) for row in kept.rows} for kept in group))
        rows = [
            row | {"guard": kept.config["settings"]["on_divergence"]}
            for kept in group
            for row in kept.rows
            if key_of(row) in both
        ]
        if len(group) > 1 and rows:
            by = ("data", "method", "guard")
            lines = table.grouped(rows, *by, data=SETS, method=NAMES, guard=GUARDS)
            parts += [f"### {name.capitalize()}", table.Table("", GUARD_COLUMNS, lines).markdown()]
    return ["## What the guard does", GUARD, *parts] if parts else []


EXPERIMENT = table.Experiment("toy", run, tables, figure=figure, own_page=page)
