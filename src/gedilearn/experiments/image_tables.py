"""The rows of `images`: tables of our own, every number of the paper, and the page of results."""

from __future__ import annotations

import json
import shlex
import statistics
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console

from gedilearn.errors import InputError
from gedilearn.experiments.image_numbers import RULE, answer, found, numbers
from gedilearn.experiments.image_sets import PAPER_SETS, SHUFFLED, TITLES
from gedilearn.experiments.images import KMEANS, METHODS, default_methods, preset_name
from gedilearn.experiments.rows import Row, markdown_table, show_table
from gedilearn.experiments.toy import NAMES as TOY_NAMES
from gedilearn.experiments.toy_tables import folders
from gedilearn.training.run_directory import read_lines

NAMES = TOY_NAMES | {KMEANS: "k-means, pixels"}
SCORES = ("log_density", "gradient_norm", "confidence")  # ours, as in `GEDI.score_samples`
TRIVIAL = ("mean_pixel", "nonzero_share")
PICTURES = {"samples": METHODS, "nearest": ("gedi",)}  # by whom they are shown

# --- our own rows -------------------------------------------------------------------------------

NOTES = (
    "Median (least to greatest) over the seeds, which differ in initialisation, batches and chains "
    "alone. All is measured on the test images.",
    "NMI, AMI and accuracy are over the whole test set, and are the figures that count. The "
    "batch-wise NMI is a mean over batches of 64, as the paper's almost surely is; beside it, what "
    "random labels score that way.",
    "Gap: nats to the optimum of Proposition 1, on training images. Found: what the monitor says "
    "of the seeds, without labels.",
    "Probe: accuracy of a linear classifier on the frozen features; kNN: of 20 neighbours.",
    "Frechet: distance of samples from noise to real images, floor: real images in equal number in "
    "their place.",
    "Seconds are those of training, and of measuring. k-means has the pixels of up to 10,000 "
    "training images, and as many clusters as the others.",
)
HEADS = (
    "data", "method", "NMI", "AMI", "accuracy", "batch-wise NMI (chance)", "clusters used", "gap",
    "probe", "kNN", "Frechet (floor)", "iterations", "seconds", "measuring", "found",
)  # fmt: skip
SHORT_HEADS = ("data", "method", "NMI", "AMI", "acc.", "gap", "probe", "kNN", "Frechet", "s")
OOD_HEADS = (
    "outside", "method", "log p(x)", "gradient norm", "confidence", "mean pixel", "non-zero pixels",
)  # fmt: skip
OOD_NOTE = (
    "AUROC of test images against images outside, by the model's scores, and by two that need no "
    "model, each in the direction that separates better. 0.5 is chance."
)


def title(rows: Sequence[Row]) -> str:
    """What the rows were made with, in words: a scaled-down or shortened run is never unnamed."""
    data, scale, shorter = rows[0]["data"], rows[0]["scale"], rows[0]["shortened_to"]
    words = {
        "paper": "the paper's settings",
        "small": f"scaled down ({preset_name(data, scale)})",
        "default": "default settings",
    }
    cut = "" if shorter is None else f", training shortened to {shorter} iterations"
    return f"{TITLES[data]}, {words[scale]}{cut}"


def _groups(rows: Sequence[Row]) -> Iterator[tuple[str, list[Row]]]:
    for method in (KMEANS, *METHODS):
        if group := [r for r in rows if r["method"] == method]:
            yield method, group


def _values(group: Sequence[Row], name: str) -> list[float]:
    return [float(r[name]) for r in group if r[name] is not None]


def _spread(values: Sequence[float], digits: int = 3, spread: bool = True) -> str:
    if not values:
        return ""
    middle, least, most = (
        f"{round(v, digits) + 0.0:.{digits}f}"  # -0.00 reads like a mistake
        for v in (statistics.median(values), min(values), max(values))
    )
    return f"{middle} ({least} to {most})" if spread and least != most else middle


def _beside(group: Sequence[Row], name: str, other: str, digits: int) -> str:
    """A figure with its yardstick in brackets; medians, because two brackets are too many."""
    first, second = (_spread(_values(group, n), digits, False) for n in (name, other))
    return f"{first} ({second})" if first else ""


def _cells(rows: Sequence[Row]) -> Iterator[list[str]]:
    for method, group in _groups(rows):
        yield [
            TITLES[group[0]["data"]],
            NAMES[method],
            *(_spread(_values(group, name)) for name in ("nmi", "ami", "accuracy")),
            _beside(group, "batchwise_nmi", "batchwise_chance", 2),
            _spread(_values(group, "clusters_used"), 0),
            *(_spread(_values(group, name)) for name in ("gap", "probe", "knn")),
            _beside(group, "frechet", "frechet_floor", 1),
            _spread(_values(group, "iterations"), 0),
            *(_spread(_values(group, name), 0) for name in ("seconds", "evaluation_seconds")),
            "" if method == KMEANS else found(group),
        ]


def _ood_cells(rows: Sequence[Row]) -> Iterator[list[str]]:
    names = dict.fromkeys(name for row in rows for name in row["ood"] or {})
    for other in names:
        for method, group in _groups(rows):
            parts = [r["ood"][other] for r in group if other in (r["ood"] or {})]
            if parts:
                scores = [_spread(_values(parts, name)) for name in (*SCORES, *TRIVIAL)]
                yield [f"{TITLES.get(other, other)} ({parts[0]['n']})", NAMES[method], *scores]


def space(rows: Sequence[Row]) -> list[str]:
    """In what features, and of how many images, the Frechet distance was taken."""
    kinds = {(r["frechet_title"], r["frechet_n"]) for r in rows if r["frechet"] is not None}
    warn = "" if all(kind == "FID" for kind, _ in kinds) else " Not to be held against any FID."
    said = [f"{kind}, {n} images on each side" for kind, n in sorted(kinds)]
    return [f"Frechet: {'; '.join(said)}.{warn}"] if said else []


def markdown(rows: Sequence[Row]) -> str:
    """The tables of one run, as Markdown."""
    parts = [f"{title(rows)}.", markdown_table(HEADS, _cells(rows), (*NOTES, *space(rows))).strip()]
    if cells := list(_ood_cells(rows)):
        parts.append(markdown_table(OOD_HEADS, cells, (OOD_NOTE,)).strip())
    if rows[0]["data"] in PAPER_SETS:
        parts.append(paper_table(rows[0]["data"], rows))
    return "\n\n".join(parts) + "\n"


def show(rows: Sequence[Row], console: Console) -> None:
    """Print medians in 80 columns, and the AUROCs below."""
    middle = [[cell.split(" ", 1)[0] for cell in line[2:]] for line in _cells(rows)]
    words = [line[:2] for line in _cells(rows)]
    chosen = (0, 1, 2, 5, 6, 7, 8, 10)
    cells = [[*w, *(m[i] for i in chosen)] for w, m in zip(words, middle, strict=True)]
    notes = (*NOTES[:3], *space(rows))
    show_table(title(rows), SHORT_HEADS, cells, notes, console)
    ood = [[*line[:2], *(cell.split(" ", 1)[0] for cell in line[2:])] for line in _ood_cells(rows)]
    if ood:
        show_table("AUROC", (*OOD_HEADS[:5], "mean", "ink"), ood, (OOD_NOTE,), console)


# --- the paper's numbers ------------------------------------------------------------------------

PAPER_HEADS = ("measure", "method", "paper", "ours", "verdict")


def paper_table(data: str, rows: Sequence[Row]) -> str:
    """One line for each number of the paper on a data set, from the rows of all scales."""
    cells = [
        [
            number.title,
            NAMES[number.method],
            f"{number.paper:.0f}" if number.measure == "FID" else f"{number.paper:.2f}",
            *answer(number, rows),
        ]
        for number in numbers(data)
    ]
    return markdown_table(PAPER_HEADS, cells, ()).strip()


# --- the page -----------------------------------------------------------------------------------


def page(root: Path) -> str:
    """The page of results, as Markdown, from all runs that have rows under `root`."""
    there = folders(root)
    if not there:
        raise InputError(f"{root} holds no rows: gedi reproduce images --data mnist --out {root}")
    parts = [
        "# Images: every number of the paper, and our own",
        "Made by `make results-images`; nothing on this page is typed by hand.",
        "\n".join(f"- {note}" for note in (*NOTES, OOD_NOTE)),
    ]
    every = []
    for folder in there:
        rows = read_lines(folder / "rows.jsonl")
        every += rows
        parts += [f"## {title(rows)}", made(folder, rows)]
        parts.append(markdown_table(HEADS, _cells(rows), space(rows)).strip())
        if cells := list(_ood_cells(rows)):
            parts.append(markdown_table(OOD_HEADS, cells, ()).strip())
        parts += _pictures(root, folder)
    parts += ["## The paper's numbers", RULE]
    for data in PAPER_SETS:
        parts += [f"### Trained on {TITLES[data]}", paper_table(data, every)]
    return "\n\n".join(parts) + "\n"


def made(folder: Path, rows: Sequence[Row]) -> str:
    """The command, seeds and versions behind a run."""
    config: dict[str, Any] = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    settings, data, scale = config["settings"], rows[0]["data"], rows[0]["scale"]
    seeds = sorted({r["seed"] for r in rows})
    command = f"gedi reproduce images --data {data} --scale {scale} --seeds {max(seeds) + 1}"
    methods = [m for m in METHODS if any(r["method"] == m for r in rows)]
    if methods != list(default_methods(scale)):
        command += f" --methods {','.join(methods)}"
    if settings["iterations"] is not None:
        command += f" --iterations {settings['iterations']}"
    command += f" --samples {settings['samples']} --steps {settings['steps']}"
    command += f" --probe {settings['probe']}"
    for name in settings["others"]:
        if name != SHUFFLED and name not in TITLES:
            command += f" --ood {shlex.quote(name)}=DATA"
    for name, value in settings["changes"].items():
        command += f" --set {name}={json.dumps(value)}"
    outside = ", ".join(f"{name} ({n} images)" for name, (n, _) in settings["others"].items())
    versions = ", ".join(f"{package} {version}" for package, version in config["versions"].items())
    clusters = max(r["n_clusters"] for r in rows)
    minutes = sum(sum(_values(rows, name)) for name in ("seconds", "evaluation_seconds")) / 60
    return (
        f"    {command}\n\nSeeds {', '.join(map(str, seeds))}; {config['n']} training images, "
        f"{clusters} clusters; outside: {outside or 'none'}; {minutes:.0f} minutes in all; "
        f"{versions}."
    )


def figures(root: Path) -> dict[str, Path]:
    """The pictures that the page shows, by the names it has for them: of the first seed each."""
    found_ = {}
    for folder in folders(root):
        rows = read_lines(folder / "rows.jsonl")
        for stem, methods in PICTURES.items():
            for method, group in _groups(rows):
                name = f"{group[0]['data']}-{method}-{min(r['seed'] for r in group)}"
                file = folder / "evaluations" / name / f"{stem}.png"
                if method in methods and file.exists():
                    found_[f"{stem}-{folder.name}-{method}.png"] = file
    return found_


def _pictures(root: Path, folder: Path) -> list[str]:
    said = {
        "samples": "samples after Langevin steps from noise, sorted by cluster",
        "nearest": "samples beside the training images nearest to them",
    }
    return [
        f"{NAMES[method]}: {said[stem]}\n\n![{method}: {stem}]({name})"
        for name, file in figures(root).items()
        if folder in file.parents
        for stem, method in [_named(name, folder.name)]
    ]


def _named(picture: str, folder: str) -> tuple[str, str]:
    """'samples-mnist-default-gedi.png' -> samples, gedi."""
    stem, method = picture.removesuffix(".png").split(f"-{folder}-")
    return stem, method
