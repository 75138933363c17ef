"""The rows of `toy` beside the paper's numbers: table, figure, and the page of results."""

from __future__ import annotations

import json
import statistics
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from gedilearn.errors import InputError
from gedilearn.experiments.rows import Row, markdown_table, show_table
from gedilearn.experiments.toy import KMEANS, METHODS, NAMES, PAPER, SETS
from gedilearn.presets import ABOUT
from gedilearn.training.monitor import CLUSTERS, PERMUTATION, REPRESENTATION
from gedilearn.training.run_directory import read_lines

MODES = (REPRESENTATION, CLUSTERS, PERMUTATION)
FALSE = 0.95  # a certificate with a lower NMI is a false one
NEAR, FAILED = 0.05, 0.3  # see `verdict`

# --- judging ------------------------------------------------------------------------------------


def verdict(ours: float, our_std: float, paper: float, paper_std: float) -> str:
    """'reproduced', 'better' or 'not reproduced', from means and deviations of the NMI."""
    near = abs(ours - paper) <= max(NEAR, paper_std + our_std)
    if near or (ours < FAILED and paper < FAILED):
        return "reproduced"
    return "better" if ours > paper else "not reproduced"


RULE = (
    f"Verdict: *reproduced* when the means differ by at most {NEAR:g} or by the sum of both "
    f"deviations, whichever is more, or when both are below {FAILED:g} (the method fails in both); "
    "*better* when ours is higher by more than that; else *not reproduced*."
)


def summary(rows: Sequence[Row]) -> list[Row]:
    """One line for each (data, method) over its seeds."""
    found = []
    for data in SETS:
        for method in NAMES:
            group = [r for r in rows if (r["data"], r["method"]) == (data, method)]
            if group:
                found.append({"data": data, "method": method, **_over_seeds(group)})
    return found


def _over_seeds(group: Sequence[Row]) -> Row:
    nmi = [r["nmi"] for r in group]
    gaps = [float(r["gap"]) for r in group]  # infinity is written as its name
    paper = PAPER.get((group[0]["data"], group[0]["method"]))
    mean, std = statistics.fmean(nmi), statistics.pstdev(nmi)
    stuck = [g for g, r in zip(gaps, group, strict=True) if not r["certified"] and not r["modes"]]
    return {
        "seeds": len(group),
        "nmi": mean,
        "nmi_std": std,
        "paper": paper,
        "verdict": None if paper is None else verdict(mean, std, *paper),
        "ami": statistics.fmean(r["ami"] for r in group),
        "accuracy": statistics.fmean(r["accuracy"] for r in group),
        "gap": statistics.median(gaps),
        "certified": sum(r["certified"] for r in group),
        "false": sum(r["certified"] and r["nmi"] < FALSE for r in group),
        "modes": dict(Counter(mode for r in group for mode in r["modes"])),
        "recovered": sum(r["recoveries"] > 0 for r in group),
        "diverged": sum(r["stopped"] == "diverged" for r in group),
        "stuck": (len(stuck), statistics.median(stuck)) if stuck else None,
        "seconds": statistics.fmean(r["seconds"] for r in group),
    }


def reason(line: Row) -> str:
    """Why the numbers are as they are, from the findings on the seeds alone."""
    n = line["seeds"]
    words = [f"{mode} {line['modes'][mode]}/{n}" for mode in MODES if mode in line["modes"]]
    if line["recovered"]:
        words.append(f"recovered {line['recovered']}/{n}")
    if line["diverged"]:
        words.append(f"diverged {line['diverged']}/{n}")
    if line["stuck"]:
        words.append("uncertified {}/{}: gap {:.3f}".format(line["stuck"][0], n, line["stuck"][1]))
    if line["certified"]:
        words.append(f"certified {line['certified']}/{n}")
    if line["false"]:
        words.append(f"falsely so {line['false']}/{n}")
    return ", ".join(words)


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
HEADS = (
    "data", "method", "NMI", "paper", "AMI", "accuracy", "gap", "certified", "false certificates",
    "R", "C", "P", "seconds",
)  # fmt: skip
SHORT_HEADS = ("data", "method", "NMI", "paper", "AMI", "gap", "cert.", "R", "C", "P", "s")


def title(rows: Sequence[Row]) -> str:
    """What the rows were made with, in words."""
    names = {(r["preset"], r["shortened_to"]) for r in rows}
    return "; ".join(f"preset {name}{shortened(least)}" for name, least in sorted(names, key=str))


def shortened(iterations: int | None) -> str:
    """Named wherever results are shown."""
    return "" if iterations is None else f", training shortened to {iterations} iterations"


def _spread(mean: float, std: float) -> str:
    return f"{mean:.2f} ± {std:.2f}"


def _two(value: float) -> str:
    return f"{round(value, 2) + 0.0:.2f}"  # -0.00 reads like a mistake


def _cells(rows: Sequence[Row]) -> Iterator[list[str]]:
    for line in summary(rows):
        yield [
            line["data"],
            NAMES[line["method"]],
            _spread(line["nmi"], line["nmi_std"]),
            "" if line["paper"] is None else _spread(*line["paper"]),
            _two(line["ami"]),
            f"{line['accuracy']:.2f}",
            f"{line['gap']:.4f}",
            f"{line['certified']}/{line['seeds']}",
            str(line["false"]),
            *(str(line["modes"].get(mode, 0)) for mode in MODES),
            f"{line['seconds']:.1f}",
        ]


def markdown(rows: Sequence[Row]) -> str:
    """The summary and what its columns mean, as Markdown."""
    return markdown_table(HEADS, _cells(rows), (f"{title(rows).capitalize()}.", *NOTES))


def show(rows: Sequence[Row], console: Console) -> None:
    """Print the summary, without accuracy and false certificates, in 80 columns."""
    cells = [[*line[:5], *line[6:8], *line[9:]] for line in _cells(rows)]
    show_table(f"Moons and circles: {title(rows)}", SHORT_HEADS, cells, NOTES, console)


def figure(rows: Sequence[Row], path: Path) -> Path:
    """NMI by method: a point a seed, the paper's mean and deviation beside them."""
    from gedilearn import panels

    there = {r["data"] for r in rows}
    data = [name for name in SETS if name in there]
    methods = [m for m in NAMES if any(r["method"] == m for r in rows)]
    width = 2.2 + len(data) * max(2.6, 0.75 * len(methods))
    fig = panels.new_figure(width, 4.4, f"NMI on fresh points: {title(rows)}")
    all_axes = fig.subplots(1, len(data), sharey=True, squeeze=False)[0]
    for axes, name in zip(all_axes, data, strict=True):
        for i, method in enumerate(methods):
            nmi = [r["nmi"] for r in rows if (r["data"], r["method"]) == (name, method)]
            offset = np.linspace(-0.02, 0.18, len(nmi)) if len(nmi) > 1 else np.zeros(1)
            if nmi:
                label = "a seed" if i == 0 else None
                axes.scatter(i + offset, nmi, s=26, color="#0072B2", lw=0, alpha=0.7, label=label)
                label = "mean of the seeds" if i == 0 else None
                mean = statistics.fmean(nmi)
                axes.hlines(mean, i - 0.06, i + 0.22, color="#0072B2", lw=2, label=label)
            if (name, method) in PAPER:
                mean, std = PAPER[name, method]
                axes.errorbar(
                    i - 0.22, mean, yerr=std, fmt="D", color="#D55E00", ms=6, capsize=3, lw=1.4
                )
        axes.set_xticks(range(len(methods)), [NAMES[m].replace(" ", "\n") for m in methods])
        axes.set(ylim=(-0.05, 1.15), xlim=(-0.6, len(methods) - 0.4))
        axes.grid(axis="y", color="#DDDDDD", lw=0.6)
        axes.set_axisbelow(True)
        panels.dress(axes, name, "", "NMI" if axes is all_axes[0] else "")
    handles = [*all_axes[0].get_legend_handles_labels()[0]]
    handles.append(all_axes[0].plot([], [], "D", color="#D55E00", ms=6)[0])
    labels = [*all_axes[0].get_legend_handles_labels()[1], "paper: mean and deviation"]
    fig.legend(handles, labels, loc="outside lower center", ncols=3, fontsize=10, frameon=False)
    return panels.save(fig, path)


# --- the page -----------------------------------------------------------------------------------


def folders(root: Path, kind: str = "") -> list[Path]:
    """The folders of presets under `root` that hold rows, of `toy` or of another experiment."""
    found = [path / kind for path in sorted(root.glob("*")) if path.is_dir()]
    files = {path: path / "rows.jsonl" for path in found}
    return [path for path, file in files.items() if file.exists() and file.stat().st_size]


def figures(root: Path) -> dict[str, Path]:
    """The figures that the page shows, by the names it has for them."""
    kinds = (("", ("toy", "labels", "generation")), ("sensitivity", ("sensitivity",)))
    files = [
        (folder.parent if kind else folder, folder / f"{stem}.png")
        for kind, stems in kinds
        for folder in folders(root, kind)
        for stem in stems
    ]
    return {f"{file.stem}-{top.name}.png": file for top, file in files if file.exists()}


PAGE_HEADS = ("data", "method", "paper", "ours", "verdict", "why", "AMI", "gap", "seconds")


def page(root: Path) -> str:
    """The page of results, as Markdown, from all presets that have rows under `root`."""
    from gedilearn.experiments import sensitivity

    presets = folders(root)
    if not presets:
        raise InputError(f"{root} holds no rows: gedi reproduce toy --out {root}")
    parts = [
        "# Moons and circles: every number and figure of the paper",
        "Made by `make results-toy`; nothing on this page is typed by hand.",
        RULE,
        "*Why* counts, over the seeds, what the monitor found on the training points, without "
        "labels: failure modes, runs that the guard recovered from divergence and those that it "
        "could not, runs that ended above the tolerance with none of these "
        f"(uncertified), and certificates; those with NMI < {FALSE:g} are false.",
        "\n".join(f"- {note}" for note in NOTES[:1] + NOTES[-1:]),
    ]
    for folder in presets:
        parts += _section(folder, read_lines(folder / "rows.jsonl"))
        parts += _pictures(root, folder, ("toy", "labels", "generation"))
    for folder in folders(root, "sensitivity"):
        rows = read_lines(folder / "rows.jsonl")
        parts += [f"## Sensitivity: {title(rows)}", _made(folder, rows, "sensitivity")]
        parts += _pictures(root, folder.parent, ("sensitivity",))
        parts.append(sensitivity.markdown(rows).strip())
    return "\n\n".join(parts) + "\n"


def _section(folder: Path, rows: Sequence[Row]) -> list[str]:
    cells = [
        [
            line["data"],
            NAMES[line["method"]],
            "" if line["paper"] is None else _spread(*line["paper"]),
            _spread(line["nmi"], line["nmi_std"]),
            line["verdict"] or "not in the paper",
            reason(line),
            _two(line["ami"]),
            f"{line['gap']:.4f}",
            f"{line['seconds']:.1f}",
        ]
        for line in summary(rows)
    ]
    there = {(r["data"], r["method"]) for r in rows}
    missing = [f"{d} {NAMES[m]}" for d, m in PAPER if (d, m) not in there]
    table = markdown_table(PAGE_HEADS, cells, ()).strip()
    about = ABOUT[rows[0]["preset"]]
    parts = [f"## {title(rows).capitalize()}", about, _made(folder, rows, "toy"), table]
    return parts + ([f"Not run: {', '.join(missing)}."] if missing else [])


def _made(folder: Path, rows: Sequence[Row], name: str) -> str:
    config: dict[str, Any] = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    seeds = sorted({r["seed"] for r in rows})
    settings = config["settings"]
    command = f"gedi reproduce {name} --preset {settings['preset']} --seeds {max(seeds) + 1}"
    for option, known in (("data", SETS), ("methods", METHODS if name == "toy" else ())):
        there = list(dict.fromkeys(r[option.removesuffix("s")] for r in rows))
        there = [value for value in there if value != KMEANS]
        if known and set(there) != set(known):
            command += f" --{option} {','.join(there)}"
    if settings["iterations"] is not None:
        command += f" --iterations {settings['iterations']}"
    minutes = sum(r["seconds"] for r in rows if r["method"] != KMEANS) / 60  # trained with Barlow
    versions = ", ".join(f"{package} {version}" for package, version in config["versions"].items())
    of_method = {method: {r["seed"] for r in rows if r["method"] == method} for method in NAMES}
    fewer = [
        f"{NAMES[method]} {len(own)}"
        for method, own in of_method.items()
        if 0 < len(own) < len(seeds)
    ]
    some = f" (not all of them for every method: {', '.join(fewer)})" if fewer else ""
    return (
        f"    {command}\n\nSeeds {', '.join(map(str, seeds))}{some}; {config['n']} points a set, "
        f"and as many fresh ones; {minutes:.1f} minutes of training on one core in all; {versions}."
    )


def _pictures(root: Path, folder: Path, stems: Sequence[str]) -> list[str]:
    return [
        f"![{folder.name}: {path.stem}]({name})"
        for name, path in figures(root).items()
        if path.stem in stems and folder in path.parents
    ]
