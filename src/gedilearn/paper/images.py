"""The image half of the paper: five methods trained on images, each measured on the test images.

A row is one training: (data, method, seed). SVHN, CIFAR-10 and CIFAR-100 are run with the paper's
settings, scaled down or with the library's own defaults, MNIST and the digits with the latter.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from gedilearn import evaluation
from gedilearn.data.dataset import Dataset, fingerprint
from gedilearn.data.toy import digits
from gedilearn.errors import InputError
from gedilearn.estimator import GEDI
from gedilearn.paper import plan, table
from gedilearn.paper.published import SETS, is_cached, open_set
from gedilearn.paper.runner import (
    Cell,
    Options,
    Runner,
    changed,
    chosen,
    outcome,
    seeded,
    with_changes,
)
from gedilearn.paper.table import Group, Row, Table, ranged
from gedilearn.paper.toy import NAMES as TOY_NAMES
from gedilearn.presets import preset
from gedilearn.settings import resolve
from gedilearn.training.run import RunDirectory

METHODS = ("jem", "barlow", "swav", "no-gen", "gedi")
NAMES = {method: TOY_NAMES[method] for method in METHODS}
TEST_DIGITS = 500
SHAPE = (1, 3, 32, 32)  # tells settings that these are images, of any size


class Scale(NamedTuple):
    """The size of a run: the preset, and the values of options that are not given.

    At the paper's scale that is its protocol, and half as many samples as there are test images.
    """

    preset: str
    title: str
    seeds: int = 1
    methods: tuple[str, ...] = METHODS
    samples: int = 500
    probe: evaluation.Probe = "fast"


SCALES = {
    "paper": Scale("paper/{data}", "the paper's settings", samples=5_000, probe="paper"),
    "paper-signed": Scale(
        "paper/{data}-signed",
        "the paper's settings, pixels in [-1, 1]",
        samples=5_000,
        probe="paper",
    ),
    "small": Scale("small/{data}", "scaled down (small/{data})"),
    "default": Scale("default", "default settings", 5, METHODS[-2:]),
}
# The sets, and the others that the paper holds against each.
PAPER_SETS = {
    "svhn": ("cifar10", "cifar100"),
    "cifar10": ("svhn", "cifar100"),
    "cifar100": ("svhn", "cifar10"),
}
OWN_SETS = {"mnist": ("fashion-mnist",), "digits": ()}
TITLES = {
    "svhn": "SVHN", "cifar10": "CIFAR-10", "cifar100": "CIFAR-100", "mnist": "MNIST",
    "digits": "digits", "fashion-mnist": "Fashion-MNIST",
}  # fmt: skip

# --- data sets: to train on, to test with, and to hold against those ------------------------------


def load_sets(data: str) -> tuple[Dataset, Dataset]:
    """Images to train on and images to test with; always the same of the digits."""
    if data != "digits":
        return open_set(data, "train"), open_set(data, "test")
    whole = digits()
    assert whole.y is not None
    order = np.random.default_rng(0).permutation(len(whole.x))
    x, y = whole.x.astype(np.float32).reshape(-1, 1, 8, 8)[order], whole.y[order]
    n = TEST_DIGITS
    test = Dataset("digits-test", x[:n], y[:n], None, whole.source)
    return Dataset("digits", x[n:], y[n:], None, whole.source), test


def shape_of(data: str) -> tuple[int, ...]:
    """The shape of the training images, (n, c, h, w), without reading them."""
    if data == "digits":
        return tuple(load_sets(data)[0].x.shape)
    return SETS[data].splits["train"].count, *SETS[data].shape


def load_others(data: str, given: Mapping[str, Dataset]) -> dict[str, Dataset]:
    """Images to hold against the test images: the paper's sets that are here, and those given.

    A part of a set that is given takes the place of the set.
    """
    for name, other in given.items():
        if other.x.ndim != 4:
            raise InputError(f"--ood {name}: vectors, not images; give a set or folder of images")
    found = {
        name: open_set(name, "test")
        for name in (PAPER_SETS | OWN_SETS)[data]
        if not any(stands_for(other, name) for other in given) and is_cached(name)
    }
    return found | dict(given)


def stands_for(other: str, name: str) -> bool:
    """Whether a set outside is, or is a part of, the set of this name: 'svhn, first 1083'."""
    return re.match(rf"{name}\b", other.lower().replace("cifar-", "cifar")) is not None


# --- rows ---------------------------------------------------------------------------------------


class Work(NamedTuple):
    """The same for every cell of a run; `measuring` are arguments of `evaluation.evaluate`."""

    train: Dataset
    test: Dataset
    others: Mapping[str, Dataset]
    measuring: Mapping[str, Any]
    runner: Runner


def run(
    runner: Runner,
    data: Sequence[str] = (),
    scale: str | None = None,
    methods: Sequence[str] | None = None,
    seeds: Sequence[int] | None = None,
    ood: Mapping[str, Dataset] | None = None,
    samples: int | None = None,
    steps: int | None = None,
    changes: Options | None = None,
    dry_run: bool = False,
    *,
    sets: tuple[Dataset, Dataset] | None = None,
) -> list[Table]:
    """The paper's image tables: clusters, samples, OOD and probe of each method on one set.

    `ood` are further out-of-distribution images by name; `sets` replace the published ones. The
    folder also receives the files of the evaluation, in evaluations/, and a run directory for each
    training, in runs/, from which an interrupted one continues. To measure trained models in
    another way, remove rows.jsonl and config.json: the models stay. With `dry_run` nothing is
    trained: the tables say what the run needs and takes.
    """
    if len(data) != 1:
        raise InputError(f"--data: give one of {', '.join((*PAPER_SETS, *OWN_SETS))}")
    (name,) = chosen("data set", data, (*PAPER_SETS, *OWN_SETS))
    scales = ["default"] if name in OWN_SETS else ["small", "paper", "paper-signed", "default"]
    scale = chosen("scale", [scale or scales[0]], scales)[0]
    usual = SCALES[scale]
    trained = chosen("method", usual.methods if methods is None else methods, METHODS)
    seeds = range(usual.seeds) if seeds is None else seeds
    options = {"scale": scale, "changes": changes or None}
    if dry_run:
        methods_of = {method: values_of(name, method, options) for method in trained}
        others = (PAPER_SETS | OWN_SETS)[name]
        return plan.tables((name, *others), methods_of, len(seeds), shape_of(name))
    train, test = sets or load_sets(name)
    outside = load_others(name, ood or {})
    n_samples = usual.samples if samples is None else samples
    measuring = {"n_samples": n_samples, "steps": steps, "probe": usual.probe}
    settings = {
        "options": options,
        **measuring,
        "others": {other: [len(o.x), fingerprint(o.x)[:16]] for other, o in outside.items()},
        "methods": {method: values_of(name, method, options) for method in METHODS},
    }
    runner = runner.within(f"{name}-{scale}", options)
    work = Work(train, test, outside, measuring, runner)
    cells = [Cell(name, m, seed) for seed in seeds for m in trained]
    rows = runner.rows(cells, partial(fit, work), len(train.x), settings)
    return runner.finish("images", rows, tables)


def values_of(data: str, method: str, options: Row) -> Options:
    """The nested settings of a method, with the given changes."""
    values = preset(SCALES[options["scale"]].preset.format(data=data), method)
    if options["scale"] == "default":
        values["n_clusters"] = SETS[data].classes if data in SETS else 10
    return with_changes(values, SHAPE, options)


def fit(work: Work, cell: Cell, n: int, settings: Options) -> list[Row]:
    """Train one method with one seed, or go on with it, and measure it."""
    seed, method = cell.seed, cell.method
    row = {"data": cell.data, "method": method, "seed": seed, **settings["options"]}
    name, out, say = f"{cell.data}-{method}-{seed}", work.runner.out, work.runner.say
    say(f"training {name}")
    model = train(work.train.x, seeded(settings["methods"][method], seed), out / "runs" / name)
    say(f"measuring {name}")
    found = evaluation.evaluate(
        model,
        work.train,
        work.test,
        others=work.others,
        out=out / "evaluations" / name,
        say=say,
        **work.measuring,
    )
    return [row | _figures(model, found)]


def train(x: np.ndarray, values: Options, folder: Path) -> GEDI:
    """The fitted model: read back, continued or trained in its run directory."""
    run = RunDirectory(folder)
    if run.summary.exists():  # the last that a run writes
        return GEDI.load(run.model)
    if run.config.exists():
        return GEDI.resume(folder, x)
    return GEDI.from_settings(resolve(values, x.shape)).fit_run(x, folder)


def _figures(model: GEDI, found: Mapping[str, Any]) -> Row:
    """The figures of a row; None where a part was skipped."""
    clusters, distance = found["clustering"], found["frechet"]
    batchwise = clusters.get("batchwise_nmi") or {}
    areas = {
        other: {"n": part["n_outside"]}
        | {name: score["auroc"] for name, score in (part["scores"] | part["trivial"]).items()}
        for other, part in found["ood"].items()
        if "scores" in part
    }
    return {
        **{name: clusters.get(name) for name in ("nmi", "ami", "accuracy", "clusters_used")},
        **{f"batchwise_{name}": batchwise.get(name) for name in ("nmi", "chance")},
        "probe": found["probe"].get("accuracy"),
        "frechet": distance.get("distance"),
        "frechet_floor": distance.get("floor"),
        "share_off": found["samples"].get("share_off"),
        "evaluation_seconds": found["seconds"],
        "ood": areas,
        "bits": getattr(model.density_, "bits", None),
        "log_p_of": log_p_of(model),
        **outcome(model),
        "seconds": round(model.seconds_, 1),
    }


def log_p_of(model: GEDI) -> str:
    """Whose log p(x) is: bits, and AUROCs of log p(x) and of its gradient, are of the same."""
    if model.density_ is None:
        return "network"  # up to a constant
    return "network on base" if model.density_.weight else "base"


# --- tables -------------------------------------------------------------------------------------


def paper(measure: str | None) -> table.Text:
    """The paper's number for a measure; for None, its AUROC of the set outside."""

    def cell(group: Group) -> str:
        row = group[0]
        sets = (name for name in PAPER_SETS if measure is None and stands_for(row["outside"], name))
        numbers = table.PAPER["images"].get(row["data"], {}).get(measure or next(sets, ""), {})
        number, digits = numbers.get(row["method"]), 0 if measure == "FID" else 2
        return "" if number is None else f"{number:.{digits}f}"

    return cell


COLUMNS = {
    "data": table.label("data", TITLES),
    "method": table.label("method", NAMES),
    "seeds": table.seeds,
    "NMI": ranged("nmi"),
    "AMI": ranged("ami"),
    "accuracy": ranged("accuracy"),
    "batch-wise NMI (chance)": table.pair("batchwise_nmi", "batchwise_chance", 2),
    "paper's NMI": paper("NMI"),
    "clusters used": ranged("clusters_used", 0),
    "bound gap": ranged("bound_gap"),
    "probe": ranged("probe"),
    "paper's probe": paper("probe"),
    "Frechet (floor)": table.pair("frechet", "frechet_floor", 1),
    "paper's FID": paper("FID"),
    "shares off": ranged("share_off", 2),
    "bits": ranged("bits", 2),
    "log p(x) of": lambda group: group[0].get("log_p_of") or "",
    "iterations": ranged("iterations", 0),
    "seconds": ranged("seconds", 0),
    "measuring": ranged("evaluation_seconds", 0),
    "found": table.findings,
}
WIDE = (
    *("batch-wise NMI (chance)", "paper's NMI", "clusters used", "paper's probe"),
    *("paper's FID", "shares off", "bits", "log p(x) of", "iterations", "measuring", "found"),
)
OOD_COLUMNS = {
    "outside": table.label("outside"),
    "method": table.label("method", NAMES),
    "seeds": table.seeds,
    "log p(x) of": COLUMNS["log p(x) of"],
    "log p(x)": ranged("log_density"),
    "gradient norm": ranged("gradient_norm"),
    "paper's": paper(None),  # by the gradient norm
    "network's energy": ranged("energy"),
    "confidence": ranged("confidence"),
    "mean pixel": ranged("mean_pixel"),
    "non-zero pixels": ranged("nonzero_share"),
}


def tables(rows: Group) -> list[Table]:
    """Medians and ranges over the seeds, and the AUROCs, with the paper's numbers."""
    data, scale = rows[0]["data"], rows[0]["scale"]
    words = [TITLES[data], SCALES[scale].title.format(data=data), *changed(rows[0])]
    head = ", ".join(words)
    made = [table.make(head, COLUMNS, table.grouped(rows, method=NAMES), WIDE)]
    parts = [
        {"outside": f"{TITLES.get(name, name)} ({areas['n']})", **areas}
        | {key: row.get(key) for key in ("data", "method", "seed", "log_p_of")}
        for row in rows
        for name, areas in (row.get("ood") or {}).items()
    ]
    if parts:
        groups = table.grouped(parts, outside=(), method=NAMES)
        made.append(table.make("AUROC of test images against images outside", OOD_COLUMNS, groups))
    return made
