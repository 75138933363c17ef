"""The result of `evaluate` for people: a table, a page, and pictures of samples and ROC curves."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from gedilearn import panels
from gedilearn.evaluation.images import image_grid, nearest, save_png, value_range
from gedilearn.evaluation.ood import Roc
from gedilearn.io import write_json, write_text
from gedilearn.training.run import EvaluationFolder

TITLES = {
    "log_density": "log p(x)",
    "gradient_norm": "-||grad log p(x)||",
    "confidence": "max p(y|x)",
    "energy": "logsumexp of the logits",
    "mean_pixel": "mean pixel",
    "nonzero_share": "share of non-zero pixels",
    "distance_from_mean": "distance from the mean",
}
TRIVIAL = ("mean_pixel", "nonzero_share", "distance_from_mean")
SHOWN, COLUMNS = 200, 20  # samples in a picture
COMPARED = 40  # samples beside their nearest training images

# --- words and numbers --------------------------------------------------------------------------

Line = tuple[str, str, str]  # what was measured, its value, what must be read beside it
Clustered = tuple[np.ndarray, np.ndarray]  # points and their clusters


def table(result: Mapping[str, Any]) -> list[Line]:
    """The numbers that count, one a line; parts that were skipped say why."""
    clusters, gap, probe = result["clustering"], result["certificate"], result["probe"]
    lines = [("clusters used", str(clusters["clusters_used"]), f"of {clusters['n_clusters']}")]
    if "skipped" in clusters:
        lines.append(_line("clusters against labels", clusters))
    else:
        batches = clusters["batchwise_nmi"]
        size = f" of {batches['batch_size']}" if "batch_size" in batches else ""
        lines += [
            _line("NMI", clusters, "{nmi:.3f}", "whole test set"),
            _line("AMI", clusters, "{ami:.3f}", "whole test set"),
            _line("ARI", clusters, "{ari:.3f}", "whole test set"),
            _line("accuracy", clusters, "{accuracy:.3f}", "best one-to-one assignment"),
            _line(
                f"NMI, mean of batches{size}", batches, "{nmi:.3f}", "random labels: {chance:.3f}"
            ),
        ]
    said = "certified" if gap.get("certified") else "not certified"
    lines.append(_line("gap", gap, "{gap:.4f} nats", f"{said}, on {{n}} points"))
    for name, part in result["ood"].items():
        for kind, numbers in (part["scores"] | part["trivial"]).items():
            trivial = "; needs no learning, {direction}" if kind in TRIVIAL else ""
            beside = f"FPR at 95%: {{fpr95:.3f}}{trivial}"
            title = f"AUROC against {name}: {TITLES[kind]}"
            lines.append(_line(title, numbers, "{auroc:.3f}", beside))
    if "skipped" in probe:
        lines.append(_line("probe", probe))
    else:
        for name, kind in (("linear probe", "linear"), ("nearest neighbours", "knn")):
            beside = "{method}; {n_train} training points"
            lines.append(_line(f"{name}, accuracy", probe[kind], "{accuracy:.3f}", beside))
    beside = "{finite} finite, in clusters: {clusters_used}"
    lines.append(_line("samples", result["samples"], "{n}", beside))
    distance = result["frechet"]
    beside = "real against real {floor:.2f}; {n} images on each side"
    title = distance.get("title", "Frechet distance")
    return [*lines, _line(title, distance, "{distance:.2f}", beside)]


def _line(title: str, part: Mapping[str, Any], value: str = "", beside: str = "") -> Line:
    """`value` and `beside` with the numbers of the part in their places, or why it was skipped."""
    if "skipped" in part:
        return title, "-", part["skipped"]
    return title, value.format(**part), beside.format(**part)


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
        lines += [f"- {_cell(name)}: {_cell(words)}" for name, words in changes.items()]
    if result["ood"]:
        lines += ["", "Scores that need no learning are given in the direction that separates "]
        lines[-1] += "better, which is chosen by looking at the answer."
    pictures = [name for name in result["files"] if name.endswith(".png")]
    lines += [line for name in pictures for line in ("", f"![{name}]({name})")]
    return "\n".join(lines) + "\n"


def _cell(text: str) -> str:
    """Text on one line that Markdown shows as it is: names come from anywhere."""
    return re.sub(r"([\\`*_\[\]<>|~$&#])", r"\\\1", " ".join(text.split()))


# --- files --------------------------------------------------------------------------------------


def write_result(
    out: Path,
    result: dict[str, Any],
    curves: Mapping[str, Mapping[str, Roc]],
    reference: np.ndarray,
    samples: Clustered,
    buffer: Clustered,
    train: np.ndarray | None,
) -> None:
    """Write numbers, page and pictures into a folder, in the place of those that are there.

    `reference` is data that the model was made for: black and white of images are those of it.
    """
    files = EvaluationFolder(out)
    for picture in files.pictures:
        picture.unlink(missing_ok=True)
    if curves:
        _draw_curves(files.roc, curves)
    if reference.ndim == 4 and reference.shape[1] in (1, 3):
        values = value_range(reference)
        for path, (x, labels) in ((files.samples, samples), (files.buffer, buffer)):
            if len(x):
                save_png(path, image_grid(x[:SHOWN], COLUMNS, labels[:SHOWN], values))
        if train is not None and len(samples[0]):
            _draw_nearest(files.nearest, samples, train, values)
    drawn = [picture.name for picture in files.pictures if picture.exists()]
    result["files"] = [*drawn, files.numbers.name, files.page.name]
    write_json(files.numbers, result)
    write_text(files.page, markdown(result))


def _draw_curves(path: Path, curves: Mapping[str, Mapping[str, Roc]]) -> None:
    """A panel for each set outside; scores that need no learning are dashed."""
    columns = min(3, len(curves))
    rows = -(-len(curves) // columns)
    fig = panels.new_figure(4.8 * columns, 6.2 * rows, "", "compressed")
    # Below the axes: curves of a score that fails lie where a legend would.
    below: dict[str, Any] = {"loc": "upper center", "bbox_to_anchor": (0.5, -0.13), "ncols": 2}
    for place, (other, kinds) in enumerate(curves.items(), start=1):
        axes = fig.add_subplot(rows, columns, place)
        axes.plot([0, 1], [0, 1], color="#B0B0B0", lw=0.8, ls=":")
        for colour, (kind, curve) in zip(panels.COLOURS, kinds.items(), strict=False):
            label, line = f"{curve.auroc:.3f}  {TITLES[kind]}", "--" if kind in TRIVIAL else "-"
            axes.plot(curve.fpr, curve.tpr, color=colour, ls=line, lw=1.6, label=label)
        axes.legend(title="AUROC", fontsize=9, frameon=False, **below)
        axes.set(xlim=(-0.01, 1.01), ylim=(-0.01, 1.01), aspect="equal")
        shares = [f"share of points {side} that pass" for side in ("outside", "inside")]
        panels.label_axes(axes, f"inside against {other}", *shares)
    panels.save(fig, path)


def _draw_nearest(
    path: Path, samples: Clustered, train: np.ndarray, values: tuple[float, float]
) -> None:
    """A row of samples, below it a row of the training images nearest to them, and so on."""
    x, labels = samples
    x = x[np.argsort(labels[:COMPARED], kind="stable")]
    like = train[nearest(x, train)].astype(x.dtype)
    columns = min(COLUMNS, len(x))
    # A short last row is filled up, so that each sample stands above its own image.
    blank = np.full((-len(x) % columns, *x.shape[1:]), values[1])
    both = np.stack([np.concatenate([part, blank]) for part in (x, like)])
    rows = both.reshape(2, -1, columns, *x.shape[1:]).swapaxes(0, 1)
    save_png(path, image_grid(rows.reshape(-1, *x.shape[1:]), columns, None, values))
