"""The rows of `images`: tables of our own, every number of the paper, and the page of results."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from pathlib import Path

from gedilearn.experiments.images import (
    KMEANS,
    METHODS,
    PAPER_SETS,
    SCALES,
    SHUFFLED,
    TITLES,
    run,
)
from gedilearn.experiments.paper import IMAGE_RULE, answer, numbers
from gedilearn.experiments.runner import Kept, Row, findings, kept_in, no_rows, shortened
from gedilearn.experiments.table import (
    Column,
    Experiment,
    Table,
    beside,
    grouped,
    label,
    ranged,
    values,
)
from gedilearn.experiments.toy import NAMES as TOY_NAMES

NAMES = TOY_NAMES | {KMEANS: "k-means, pixels"}
ORDER = (KMEANS, *METHODS)
PICTURES = {
    "samples": "samples after Langevin steps from noise, sorted by cluster",
    "nearest": "samples beside the training images nearest to them",
}
SHOWN_FOR = {"samples": METHODS, "nearest": ("gedi",)}

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
COLUMNS = (
    label("data", TITLES),
    label("method", NAMES),
    ranged("NMI", "nmi"),
    ranged("AMI", "ami"),
    ranged("accuracy", "accuracy", short="acc."),
    beside("batch-wise NMI (chance)", "batchwise_nmi", "batchwise_chance", 2, short=""),
    ranged("clusters used", "clusters_used", short="", digits=0),
    ranged("gap", "gap"),
    ranged("probe", "probe"),
    ranged("kNN", "knn"),
    beside("Frechet (floor)", "frechet", "frechet_floor", 1, short="Frechet"),
    ranged("iterations", "iterations", short="", digits=0),
    ranged("seconds", "seconds", short="s", digits=0),
    ranged("measuring", "evaluation_seconds", short="", digits=0),
    Column(
        "found",
        lambda group: "" if group[0]["method"] == KMEANS else findings(group),
        short="",
        words=True,
    ),
)
# The scores of `GEDI.score_samples`, and two of the pixels.
OOD_COLUMNS = (
    label("outside"),
    label("method", NAMES),
    ranged("log p(x)", "log_density"),
    ranged("gradient norm", "gradient_norm"),
    ranged("confidence", "confidence"),
    ranged("mean pixel", "mean_pixel", short="mean"),
    ranged("non-zero pixels", "nonzero_share", short="ink"),
)
OOD_NOTE = (
    "AUROC of test images against images outside, by the model's scores, and by two that need no "
    "model, each in the direction that separates better. 0.5 is chance."
)


def title(rows: Sequence[Row]) -> str:
    """What the rows were made with, in words: a scaled-down or shortened run is never unnamed."""
    data, scale, shorter = rows[0]["data"], rows[0]["scale"], rows[0]["shortened_to"]
    return f"{TITLES[data]}, {SCALES[scale].title.format(data=data)}{shortened(shorter)}"


def _own(rows: Sequence[Row]) -> Table:
    groups = grouped(rows, "method", method=ORDER)
    return Table(title(rows), COLUMNS, groups, [*NOTES[:3], *space(rows)])


def _ood(rows: Sequence[Row]) -> list[Table]:
    """The areas of all sets outside, if there are some."""
    parts = [
        {"outside": f"{TITLES.get(name, name)} ({areas['n']})", "method": row["method"], **areas}
        for row in rows
        for name, areas in (row["ood"] or {}).items()
    ]
    groups = grouped(parts, "outside", "method", method=ORDER)
    return [Table("AUROC", OOD_COLUMNS, groups, [OOD_NOTE])] if parts else []


def tables(rows: Sequence[Row]) -> list[Table]:
    """Medians and ranges over the seeds, and the AUROCs below."""
    return [_own(rows), *_ood(rows)]


def space(rows: Sequence[Row]) -> list[str]:
    """In what features, and of how many images, the Frechet distance was taken."""
    kinds = {(r["frechet_title"], r["frechet_n"]) for r in rows if r["frechet"] is not None}
    warn = "" if all(kind == "FID" for kind, _ in kinds) else " Not to be held against any FID."
    said = [f"{kind}, {n} images on each side" for kind, n in sorted(kinds)]
    return [f"Frechet: {'; '.join(said)}.{warn}"] if said else []


def markdown(rows: Sequence[Row]) -> str:
    """The tables of one run, as Markdown."""
    parts = [f"{title(rows)}.", _own(rows).markdown([*NOTES, *space(rows)])]
    parts += [table.markdown() for table in _ood(rows)]
    if rows[0]["data"] in PAPER_SETS:
        parts.append(paper_table(rows[0]["data"], rows))
    return "\n\n".join(part.strip() for part in parts) + "\n"


# --- the paper's numbers ------------------------------------------------------------------------

PAPER_COLUMNS = (
    label("measure"),
    label("method", NAMES),
    Column("paper", lambda group: str(group[0]["paper"])),
    label("ours"),
    label("verdict"),
)


def paper_table(data: str, rows: Sequence[Row]) -> str:
    """One line for each number of the paper on a data set, from the rows of all scales."""
    lines = []
    for number in numbers(data):
        printed = f"{number.paper:.0f}" if number.measure == "FID" else f"{number.paper:.2f}"
        line = {"measure": number.title, "method": number.method, "paper": printed}
        lines.append([line | answer(number, rows)._asdict()])
    return Table("", PAPER_COLUMNS, lines).markdown()


# --- the page -----------------------------------------------------------------------------------


def page(root: Path) -> str:
    """The page of results, as Markdown, from all runs that have rows under `root`."""
    runs = kept_in(root)
    if not runs:
        raise no_rows(root, "images --data mnist")
    parts = [
        "# Images: every number of the paper, and our own",
        "Made by `make results-images`; nothing on this page is typed by hand.",
        "\n".join(f"- {note}" for note in (*NOTES, OOD_NOTE)),
    ]
    for kept in runs:
        parts += [f"## {title(kept.rows)}", made(kept)]
        parts.append(_own(kept.rows).markdown(space(kept.rows)))
        parts += [table.markdown(()) for table in _ood(kept.rows)]
        parts += [
            f"{NAMES[method]}: {PICTURES[stem]}\n\n![{method}: {stem}]({name})"
            for name, stem, method, _ in _pictures(kept)
        ]
    parts += ["## The paper's numbers", IMAGE_RULE]
    every = [row for kept in runs for row in kept.rows]
    for data in PAPER_SETS:
        parts += [f"### Trained on {TITLES[data]}", paper_table(data, every)]
    return "\n\n".join(part.strip("\n") for part in parts) + "\n"


def made(kept: Kept) -> str:
    """The command, seeds and versions behind a run."""
    settings, rows = kept.config["settings"], kept.rows
    data, scale = rows[0]["data"], rows[0]["scale"]
    options = f"images --data {data} --scale {scale} --seeds {kept.seeds[-1] + 1}"
    options += kept.option("methods", SCALES[scale].methods, without=(KMEANS,))
    if settings["iterations"] is not None:
        options += f" --iterations {settings['iterations']}"
    options += f" --samples {settings['samples']} --steps {settings['steps']}"
    options += f" --probe {settings['probe']}"
    for name in settings["others"]:
        if name != SHUFFLED and name not in TITLES:
            options += f" --ood {shlex.quote(name)}=DATA"
    for name, value in settings["changes"].items():
        options += f" --set {name}={json.dumps(value)}"
    outside = ", ".join(f"{name} ({n} images)" for name, (n, _) in settings["others"].items())
    minutes = sum(sum(values(rows, name)) for name in ("seconds", "evaluation_seconds")) / 60
    facts = [
        f"{kept.config['n']} training images, {max(r['n_clusters'] for r in rows)} clusters",
        f"outside: {outside or 'none'}",
        f"{minutes:.0f} minutes in all",
    ]
    return kept.made_by(options, facts, TOY_NAMES)


def _pictures(kept: Kept) -> list[tuple[str, str, str, Path]]:
    """(name on the page, what it shows, method, file) of the first seed of each method."""
    found = []
    for stem in PICTURES:
        for group in grouped(kept.rows, "method", method=ORDER):
            method = group[0]["method"]
            name = f"{group[0]['data']}-{method}-{min(row['seed'] for row in group)}"
            file = kept.folder / "evaluations" / name / f"{stem}.png"
            if method in SHOWN_FOR[stem] and file.exists():
                found.append((f"{stem}-{kept.folder.name}-{method}.png", stem, method, file))
    return found


def figures(root: Path) -> dict[str, Path]:
    """The pictures that the page shows, by the names it has for them."""
    return {name: file for kept in kept_in(root) for name, _, _, file in _pictures(kept)}


EXPERIMENT = Experiment(
    "images", run, tables, own_markdown=markdown, own_page=page, figures=figures
)
