"""The result of `evaluate` for people: a table, a page, and pictures of samples and ROC curves."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from gedilearn import panels
from gedilearn.evaluation.images import image_grid, nearest, save_png, value_range
from gedilearn.evaluation.ood import Roc
from gedilearn.training.run_directory import RunDirectory, plain
from gedilearn.writing import write_text

TITLES = {
    "log_density": "log p(x)",
    "gradient_norm": "-||grad log p(x)||",
    "confidence": "max p(y|x)",
    "mean_pixel": "mean pixel",
    "nonzero_share": "share of non-zero pixels",
    "distance_from_mean": "distance from the mean",
}
TRIVIAL = ("mean_pixel", "nonzero_share", "distance_from_mean")
ROC, SAMPLES, NEAREST, BUFFER = "roc.png", "samples.png", "nearest.png", "buffer.png"
PICTURES = {ROC, SAMPLES, NEAREST, BUFFER}
SHOWN, COLUMNS = 200, 20  # samples in a picture
COMPARED = 40  # samples beside their nearest training images

# --- words and numbers --------------------------------------------------------------------------

Line = tuple[str, str, str]  # what was measured, its value, what must be read beside it
Part = Mapping[str, Any]


def table(result: Mapping[str, Any]) -> list[Line]:
    """The numbers that count, one a line; parts that were skipped say why."""
    clusters = result["clustering"]
    parts = [
        ("clusters against labels", clusters, _agreement),
        ("gap", result["certificate"], _gap),
        *(
            (f"AUROC against {name}: {TITLES[kind]}", numbers, _auroc)
            for name, part in result["ood"].items()
            for kind, numbers in (part["scores"] | part["trivial"]).items()
        ),
        ("probe", result["probe"], _probes),
        ("samples", result["samples"], _samples),
        ("Frechet distance", result["frechet"], _distance),
    ]
    lines = [("clusters used", str(clusters["clusters_used"]), f"of {clusters['n_clusters']}")]
    for title, part, shown in parts:
        lines += [(title, "-", part["skipped"])] if "skipped" in part else shown(title, part)
    return lines


def _agreement(title: str, part: Part) -> list[Line]:
    lines = [
        (kind.upper(), _number(part[kind]), "whole test set") for kind in ("nmi", "ami", "ari")
    ]
    lines.append(("accuracy", _number(part["accuracy"]), "best one-to-one assignment"))
    batches = part["batchwise_nmi"]
    if "skipped" in batches:
        return [*lines, ("NMI, mean of batches", "-", batches["skipped"])]
    beside = f"random labels: {_number(batches['chance'])}"
    name = f"NMI, mean of batches of {batches['batch_size']}"
    return [*lines, (name, _number(batches["nmi"]), beside)]


def _gap(title: str, part: Part) -> list[Line]:
    said = "certified" if part["certified"] else "not certified"
    return [(title, f"{part['gap']:.4f} nats", f"{said}, on {part['n']} points")]


def _auroc(title: str, part: Part) -> list[Line]:
    trivial = f"; needs no learning, {part['direction']}" if "direction" in part else ""
    return [(title, _number(part["auroc"]), f"FPR at 95%: {_number(part['fpr95'])}{trivial}")]


def _probes(title: str, part: Part) -> list[Line]:
    return [
        (
            f"{name}, accuracy",
            _number(part[kind]["accuracy"]),
            f"{part[kind]['method']}; {part[kind]['n_train']} training points",
        )
        for name, kind in (("linear probe", "linear"), ("nearest neighbours", "knn"))
    ]


def _samples(title: str, part: Part) -> list[Line]:
    beside = f"{part['finite']} finite, {part['steps']} steps from noise, in clusters: "
    return [(title, str(part["n"]), f"{beside}{part['clusters_used']}")]


def _distance(title: str, part: Part) -> list[Line]:
    beside = f"real against real {part['floor']:.2f}; {part['n']} images on each side"
    return [(part["title"], f"{part['distance']:.2f}", beside)]


def _number(value: float) -> str:
    return f"{value:.3f}"


def sentences(result: Mapping[str, Any]) -> list[str]:
    """What was measured, and the verdict; it is never hidden that test data was training data."""
    data = result["data"]
    words = f"Measured on {data['n_test']} points of {data['test']}"
    if data["test_is_train"]:
        words += ", which is the training data."
    elif data["train"] is None:
        words += "; the training data was not at hand."
    else:
        words += f"; the model was fitted to {data['train']}."
    verdict = result["certificate"].get("verdict")
    return [words] if verdict is None else [words, f"There: {verdict}."]


def markdown(result: Mapping[str, Any]) -> str:
    """The table as a page, with the pictures that lie beside it."""
    lines = ["# Evaluation", "", *(f"{_cell(words)}\n" for words in sentences(result))]
    lines += ["| measure | value | beside it |", "| --- | ---: | --- |"]
    lines += ["| " + " | ".join(map(_cell, line)) + " |" for line in table(result)]
    changes = {
        name: part["changes"] for name, part in result["ood"].items() if part["changes"] != "none"
    }
    if changes:
        lines += ["", "Images outside were changed to fit the model:", ""]
        lines += [f"- {_cell(name)}: {words}" for name, words in changes.items()]
    if result["ood"]:
        lines += ["", "Scores that need no learning are given in the direction that separates "]
        lines[-1] += "better, which is chosen by looking at the answer."
    pictures = [name for name in result["files"] if name.endswith(".png")]
    lines += [line for name in pictures for line in ("", f"![{name}]({name})")]
    return "\n".join(lines) + "\n"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def write_result(out: Path, result: dict[str, Any]) -> None:
    """Write the numbers and the page; pictures of an earlier evaluation do not stay beside them."""
    for name in PICTURES - set(result["files"]):
        (out / name).unlink(missing_ok=True)
    files = RunDirectory(out)
    result["files"] += [files.evaluation.name, files.evaluation_page.name]
    write_text(files.evaluation, json.dumps(plain(result), indent=2) + "\n")
    write_text(files.evaluation_page, markdown(result))


# --- pictures -----------------------------------------------------------------------------------


class Pictures:
    """Writes into a folder, if there is one and if there is something to see."""

    def __init__(self, out: Path | None, reference: np.ndarray) -> None:
        self.out = out
        self.written: list[str] = []
        self.is_image = reference.ndim == 4 and reference.shape[1] in (1, 3)
        self.low, self.high = value_range(reference) if self.is_image else (0.0, 1.0)

    def samples(self, x: np.ndarray, labels: np.ndarray, train: np.ndarray | None) -> None:
        """Samples by cluster, and some of them above the training images nearest to them."""
        self._grid(SAMPLES, x[:SHOWN], labels[:SHOWN])
        if train is not None and self._can_show(x):
            self._nearest(x[np.argsort(labels[:COMPARED], kind="stable")], train)

    def buffer(self, x: np.ndarray, labels: np.ndarray) -> None:
        """Chains of the replay buffer by cluster."""
        self._grid(BUFFER, x, labels)

    def roc(self, curves: Mapping[str, Mapping[str, Roc]]) -> None:
        """A panel for each set outside; scores that need no learning are dashed."""
        if self.out is None or not curves:
            return
        columns = min(3, len(curves))
        rows = -(-len(curves) // columns)
        fig = panels.new_figure(4.8 * columns, 6.2 * rows, "", "compressed")
        all_axes = fig.subplots(rows, columns, squeeze=False).flatten()
        for axes in all_axes[len(curves) :]:
            axes.set_visible(False)
        for axes, (other, kinds) in zip(all_axes, curves.items(), strict=False):
            axes.plot([0, 1], [0, 1], color="#B0B0B0", lw=0.8, ls=":")
            for colour, (kind, curve) in zip(panels.COLOURS, kinds.items(), strict=False):
                label, line = f"{curve.auroc:.3f}  {TITLES[kind]}", "--" if kind in TRIVIAL else "-"
                axes.plot(curve.fpr, curve.tpr, color=colour, ls=line, lw=1.6, label=label)
            # Below the axes: curves of a score that fails lie where a legend would.
            axes.legend(
                loc="upper center", bbox_to_anchor=(0.5, -0.13), ncols=2, fontsize=9, frameon=False,
                title="AUROC",
            )  # fmt: skip
            axes.set(xlim=(-0.01, 1.01), ylim=(-0.01, 1.01), aspect="equal")
            shares = [f"share of points {side} that pass" for side in ("outside", "inside")]
            panels.dress(axes, f"inside against {other}", *shares)
        panels.save(fig, self.out / ROC)
        self.written.append(ROC)

    def _can_show(self, x: np.ndarray) -> bool:
        return self.out is not None and self.is_image and len(x) > 0

    def _grid(
        self, name: str, x: np.ndarray, labels: np.ndarray | None, columns: int = COLUMNS
    ) -> None:
        """Images (n, c, h, w) in the data's units, sorted by cluster if there are labels."""
        if self.out is None or not self._can_show(x):
            return
        save_png(self.out / name, image_grid(x, columns, labels, low=self.low, high=self.high))
        self.written.append(name)

    def _nearest(self, x: np.ndarray, train: np.ndarray) -> None:
        """A row of samples, below it a row of the training images nearest to them, and so on."""
        like = train[nearest(x, train)].astype(x.dtype)
        columns = min(COLUMNS, len(x))
        # A short last row is filled up, so that each sample stands above its own image.
        blank = np.full((-len(x) % columns, *x.shape[1:]), self.high)
        x, like = np.concatenate([x, blank]), np.concatenate([like, blank])
        rows = [slice(start, start + columns) for start in range(0, len(x), columns)]
        both = np.concatenate([part[row] for row in rows for part in (x, like)])
        self._grid(NEAREST, both, None, columns)
