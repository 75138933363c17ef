"""The rows of `images`: tables of our own, every number of the paper, and the page of results."""

from __future__ import annotations

import shlex
import statistics
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from gedilearn.experiments import table, verdict
from gedilearn.experiments.images import (
    METHODS,
    PAPER_SETS,
    SCALES,
    SHUFFLED,
    TITLES,
    run,
    stands_for,
)
from gedilearn.experiments.kept import Kept, kept_in
from gedilearn.experiments.runner import KMEANS, Row, findings, shortened
from gedilearn.experiments.toy import NAMES as TOY_NAMES
from gedilearn.experiments.verdict import Published
from gedilearn.presets import CHOSEN, CHOSEN_FOR_IMAGES

NAMES = TOY_NAMES | {KMEANS: "k-means, pixels"}
ORDER = (KMEANS, *METHODS)
PICTURES = {  # what they show, and for which methods they are on the page
    "samples": ("samples, sorted by cluster", METHODS),
    "nearest": ("samples beside the training images nearest to them", ("gedi",)),
}

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
    "Frechet: distance of samples to real images, floor: real images in equal number in their "
    "place. Shares off: how far a cluster's share of the samples is from its share of the test "
    "images, as a part of the latter, at most. Bits: of log p(x), for each number of an image that "
    "it was learnt without.",
    "Seconds are those of training, and of measuring. k-means has the pixels of up to 10,000 "
    "training images, and as many clusters as the others.",
)


def _found(group: table.Group) -> str:
    return "" if group[0]["method"] == KMEANS else findings(group)


COLUMNS = (
    table.label("data", TITLES),
    table.label("method", NAMES),
    table.seeds(),
    table.ranged("NMI", "nmi"),
    table.ranged("AMI", "ami"),
    table.ranged("accuracy", "accuracy", short="acc."),
    table.beside("batch-wise NMI (chance)", "batchwise_nmi", "batchwise_chance", 2, short=""),
    table.ranged("clusters used", "clusters_used", short="", digits=0),
    table.ranged("gap", "gap"),
    table.ranged("probe", "probe"),
    table.ranged("kNN", "knn"),
    table.beside("Frechet (floor)", "frechet", "frechet_floor", 1, short="Frechet"),
    table.ranged("shares off", "share_off", short="", digits=2),
    table.ranged("bits", "bits", short="", digits=2),
    table.ranged("iterations", "iterations", short="", digits=0),
    table.ranged("seconds", "seconds", short="s", digits=0),
    table.ranged("measuring", "evaluation_seconds", short="", digits=0),
    table.Column("found", _found, short="", words=True),
)
# The scores of `GEDI.score_samples`, and two of the pixels.
OOD_COLUMNS = (
    table.label("outside"),
    table.label("method", NAMES),
    table.seeds(),
    table.ranged("log p(x)", "log_density"),
    table.ranged("gradient norm", "gradient_norm"),
    table.ranged("confidence", "confidence"),
    table.ranged("mean pixel", "mean_pixel", short="mean"),
    table.ranged("non-zero pixels", "nonzero_share", short="ink"),
)
OOD_NOTE = (
    "AUROC of test images against images outside, by the model's scores, and by two that need no "
    "model, each in the direction that separates better. 0.5 is chance."
)


def title(rows: Sequence[Row]) -> str:
    """What the rows were made with, in words: a scaled-down or shortened run is never unnamed."""
    data, scale = rows[0]["data"], rows[0]["scale"]
    changed = shortened(rows[0]["shortened_to"], rows[0]["changes"])
    return f"{TITLES[data]}, {SCALES[scale].title.format(data=data)}{changed}"


def _own(rows: Sequence[Row], notes: Sequence[str] = (), heading: str = "") -> table.Table:
    groups = table.grouped(rows, "method", method=ORDER)
    return table.Table(title(rows), COLUMNS, groups, [*notes, *space(rows)], heading)


def _ood(rows: Sequence[Row], notes: Sequence[str] = ()) -> list[table.Table]:
    """The areas of all sets outside, if there are some."""
    parts = [
        {"outside": f"{TITLES.get(name, name)} ({areas['n']})", **areas}
        | {key: row[key] for key in ("method", "seed")}
        for row in rows
        for name, areas in (row["ood"] or {}).items()
    ]
    groups = table.grouped(parts, "outside", "method", method=ORDER)
    return [table.Table("AUROC", OOD_COLUMNS, groups, notes)] if parts else []


def space(rows: Sequence[Row]) -> list[str]:
    """In what features, and of how many images, the Frechet distance was taken."""
    kinds = {(r["frechet_title"], r["frechet_n"]) for r in rows if r["frechet"] is not None}
    warn = "" if all(kind == "FID" for kind, _ in kinds) else " Not to be held against any FID."
    said = [f"{kind}, {n} images on each side" for kind, n in sorted(kinds)]
    return [f"Frechet: {'; '.join(said)}.{warn}"] if said else []


def tables(rows: Sequence[Row]) -> list[table.Table]:
    """Medians and ranges over the seeds, the AUROCs and, in Markdown, the paper's numbers."""
    data = rows[0]["data"]
    paper = [paper_table(data, rows)] if data in PAPER_SETS else []
    return [_own(rows, NOTES, f"{title(rows)}."), *_ood(rows, [OOD_NOTE]), *paper]


# --- the paper's numbers ------------------------------------------------------------------------

# By (data, measure, set outside), in the order of METHODS: JEM, Barlow, SwAV, no gen, GEDI.
PAPER: dict[tuple[str, str, str | None], tuple[float, ...]] = {
    ("svhn", "NMI", None): (0.00, 0.23, 0.21, 0.21, 0.25),
    ("svhn", "FID", None): (201, 353, 584, 454, 218),
    ("svhn", "OOD", "cifar10"): (0.73, 0.17, 0.26, 0.1, 0.80),  # printed 01 for no gen
    ("svhn", "OOD", "cifar100"): (0.72, 0.24, 0.32, 0.15, 0.80),
    ("svhn", "probe", None): (0.20, 0.74, 0.45, 0.35, 0.55),
    ("cifar10", "NMI", None): (0.00, 0.17, 0.43, 0.44, 0.45),  # the main text: no gen 0.43
    ("cifar10", "FID", None): (263, 392, 415, 424, 197),
    ("cifar10", "OOD", "svhn"): (0.44, 0.32, 0.62, 0.11, 0.57),
    ("cifar10", "OOD", "cifar100"): (0.53, 0.56, 0.51, 0.51, 0.61),
    ("cifar10", "probe", None): (0.23, 0.65, 0.46, 0.54, 0.53),
    ("cifar100", "NMI", None): (0.00, 0.58, 0.65, 0.86, 0.87),
    ("cifar100", "FID", None): (226, 352, 416, 447, 222),
    ("cifar100", "OOD", "svhn"): (0.44, 0.45, 0.3, 0.55, 0.53),
    ("cifar100", "OOD", "cifar10"): (0.49, 0.43, 0.47, 0.46, 0.48),
    ("cifar100", "probe", None): (0.03, 0.27, 0.13, 0.14, 0.12),
}
PAPER_SCORE = "gradient_norm"  # the paper's OOD score, higher for images of the data


class Number(NamedTuple):
    """One number of the paper; `other` is the set outside, for OOD."""

    data: str
    measure: str  # 'NMI', 'FID', 'OOD' or 'probe'
    other: str | None
    method: str
    paper: float

    @property
    def title(self) -> str:
        return self.measure if self.other is None else f"OOD {TITLES[self.other]}"

    @property
    def digits(self) -> int:
        return 0 if self.measure == "FID" else 2

    @property
    def published(self) -> Published:
        return Published(self.paper, rounding=0.5 * 10**-self.digits)

    def printed(self, value: float) -> str:
        return f"{value:.{self.digits}f}"

    def difference(self, ours: Sequence[float]) -> str:
        return verdict.shown(ours, self.published, self.digits + 1)


class Answer(NamedTuple):
    """What was found here, in words, and how it compares."""

    ours: str
    verdict: str
    seeds: str = ""
    difference: str = ""


def numbers(data: str) -> Iterator[Number]:
    """All of the paper's numbers on a data set."""
    for (trained_on, measure, other), line in PAPER.items():
        for method, value in zip(METHODS, line, strict=True):
            if trained_on == data:
                yield Number(data, measure, other, method, value)


def answer(number: Number, rows: Sequence[Row]) -> Answer:
    """What the rows of all runs say to a number: those at full scale if there are some."""
    own = [r for r in rows if (r["data"], r["method"]) == (number.data, number.method)]
    whole = [r for r in own if r["shortened_to"] is None and not r["changes"]]
    full = [r for r in whole if r["scale"] == "paper"]
    group = full or whole or own
    ours = [value for row in group if (value := value_of(number, row)) is not None]
    said, seeds = (words(number, group, ours), str(len(ours))) if ours else ("", "")
    if full:
        if ours:
            return Answer(said, judged(number, ours, group), seeds, number.difference(ours))
        return Answer(said, f"not measured: {MISSING[number.measure].format(number.other)}")
    command = f"gedi reproduce images --data {number.data} --scale paper --methods {number.method}"
    why = "scaled down" if whole else "shortened or changed"
    needed = f"{why}: not comparable; " * bool(own) + f"needs a GPU: `{command}`"
    return Answer(said, needed, seeds)


def value_of(number: Number, row: Row) -> float | None:
    """Our counterpart of a number: measured as the paper did, as far as that is known."""
    value, outside = None, _outside(number, row)
    if number.measure == "NMI":
        value = row["batchwise_nmi"]
    elif number.measure == "FID" and row["frechet_title"] == "FID":
        value = row["frechet"]
    elif number.measure == "probe":
        other = row["scale"] == "paper" and row["probe_protocol"] != "paper"
        value = None if other else row["probe"]
    elif outside is not None:
        value = row["ood"][outside][PAPER_SCORE]
    return None if value is None else float(value)  # what is not finite is written as its name


def _outside(number: Number, row: Row) -> str | None:
    """The set outside, of those that a row was measured with, that the number is about."""
    if number.other is None:
        return None
    return next((name for name in row["ood"] or () if stands_for(name, number.other)), None)


def words(number: Number, group: table.Group, ours: Sequence[float]) -> str:
    """The counterparts over the seeds, and what must be known of them."""
    text = number.printed(statistics.fmean(ours))
    outside = _outside(number, group[0])
    if outside != number.other:
        return f"{text} ({outside})"
    if number.measure != "NMI":
        return text
    names = ("batchwise_chance", "nmi", "ami")
    chance, nmi, ami = (statistics.fmean(table.values(group, name)) for name in names)
    return f"batch-wise {text} (chance {chance:.2f}); whole test NMI {nmi:.2f}, AMI {ami:.2f}"


def judged(number: Number, ours: Sequence[float], group: table.Group) -> str:
    """The verdict; where ours is worse, with what was found on the seeds."""
    fid = number.measure == "FID"
    margin = verdict.FID_MARGIN * number.paper if fid else verdict.MARGIN
    said = verdict.judge(ours, number.published, margin, low=fid)
    return f"{said}: {findings(group)}" if said == "worse" else said


MISSING = {
    "NMI": "the test images have no labels",
    "FID": "FID needs the Inception weights, --weights FILE",
    "OOD": "`gedi data get {0}`, or --ood {0}=DATA",
    "probe": "--probe paper",
}
RULES = (
    verdict.RULE,
    "For images the paper gives single numbers, and says neither their deviation nor, of FID, the "
    "number of samples: they are taken as exact up to their last digit, and the interval is that "
    "of our seeds alone. The paper's own spread would widen it. Of FID the margin is "
    f"{verdict.FID_MARGIN:.0%} of the paper's. Only runs at the paper's scale are judged; where "
    "ours is worse, what was found without labels is named.",
)

PAPER_COLUMNS = (
    table.label("measure"),
    table.label("method", NAMES),
    table.Column("paper", lambda group: str(group[0]["paper"])),
    table.label("ours"),
    table.label("seeds"),
    table.Column("difference, 95%", lambda group: str(group[0]["difference"])),
    table.label("verdict"),
)


def paper_table(data: str, rows: Sequence[Row]) -> table.Table:
    """One line for each number of the paper on a data set, from the rows of all scales."""
    lines = []
    for number in numbers(data):
        line = {"measure": number.title, "method": number.method}
        line["paper"] = number.printed(number.paper)
        lines.append([line | answer(number, rows)._asdict()])
    return table.Table("", PAPER_COLUMNS, lines, printed=False)


# --- the page -----------------------------------------------------------------------------------


def page(root: Path) -> table.Page:
    """The page of results, from all runs that have rows under `root`."""
    runs = kept_in(root, command="images --data mnist")
    page = table.Page(
        [
            "# Images: every number of the paper, and our own",
            table.MADE.format("images"),
            "\n".join(table.bullets((*NOTES, OOD_NOTE))),
        ]
    )
    for kept in runs:
        page.add(f"## {title(kept.rows)}", made(kept), chosen_on(kept.rows))
        page.add(*(table.markdown() for table in (_own(kept.rows), *_ood(kept.rows))))
        _add_pictures(page, kept)
    page.add("## The paper's numbers", *RULES)
    every = [row for kept in runs for row in kept.rows]
    for data in PAPER_SETS:
        page.add(f"### Trained on {TITLES[data]}", paper_table(data, every).markdown())
    return page


def chosen_on(rows: Sequence[Row]) -> str:
    """What the settings of a run were chosen on."""
    preset = SCALES[rows[0]["scale"]].preset.format(data=rows[0]["data"])
    return CHOSEN_FOR_IMAGES if preset == "default" else CHOSEN[preset]


def made(kept: Kept) -> str:
    """The command, seeds and versions behind a run."""
    settings, rows = kept.config["settings"], kept.rows
    data, scale = rows[0]["data"], rows[0]["scale"]
    given = [name for name in ("samples", "steps", "probe") if settings[name] is not None]
    more = "".join(f" --{name} {settings[name]}" for name in given)
    for name in settings["others"]:
        if name != SHUFFLED and name not in TITLES:
            more += f" --ood {shlex.quote(name)}=DATA"
    outside = ", ".join(f"{name} ({n} images)" for name, (n, _) in settings["others"].items())
    minutes = sum(table.values(rows, "seconds") + table.values(rows, "evaluation_seconds")) / 60
    facts = [
        f"{kept.config['n']} training images, {max(r['n_clusters'] for r in rows)} clusters",
        f"outside: {outside or 'none'}",
        f"{minutes:.0f} minutes in all",
    ]
    command, usual = f"images --data {data} --scale {scale}", SCALES[scale].methods
    return kept.made_by(command, facts, methods=usual, names=TOY_NAMES, more=more)


def _add_pictures(page: table.Page, kept: Kept) -> None:
    """Those of the first seed of each method."""
    for stem, (about, methods) in PICTURES.items():
        for group in table.grouped(kept.rows, "method", method=ORDER):
            data, method = group[0]["data"], group[0]["method"]
            run = f"{data}-{method}-{min(row['seed'] for row in group)}"
            name = f"{stem}-{kept.folder.name}-{method}.png"
            file = kept.picture(f"evaluations/{run}/{stem}.png", name)
            if method in methods:
                page.add_picture(name, file, f"{method}: {stem}", f"{NAMES[method]}: {about}\n\n")


EXPERIMENT = table.Experiment("images", run, tables, own_page=page)
