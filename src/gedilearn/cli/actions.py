"""What the commands of `gedi` do, once the command line is understood. Imports torch."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType
from typing import Any, cast

import numpy as np
import yaml
from rich.console import Console

from gedilearn.cli.runs import (
    LABELS,
    MODEL,
    SUMMARY,
    Pictures,
    column_names,
    data_section,
    free_run,
    lasting,
    load_source,
    next_free,
    open_model,
    open_with_data,
    quoted,
    read,
)
from gedilearn.cli.tables import going_on, names, teller
from gedilearn.data.dataset import Dataset
from gedilearn.data.load import is_folder
from gedilearn.errors import InputError
from gedilearn.estimator import GEDI, Score
from gedilearn.output import Result, Screen, check_out, csv_text, make_console, write_new_text
from gedilearn.presets import preset as preset_values
from gedilearn.settings import assign, resolve
from gedilearn.training.monitor import Diagnosis
from gedilearn.training.run_directory import is_first_process, read_config
from gedilearn.writing import write_text

# --- fitting ------------------------------------------------------------------------------------


def fit(
    data: str,
    clusters: int,
    out: Path | None,
    preset: str,
    assignments: list[str],
    options: dict[str, Any],
    label_column: str | None,
    pictures: Pictures,
    screen: Screen,
) -> None:
    """Train on `data` and write the run directory. `options` are settings with a value or None."""
    values = make_values(clusters, preset, assignments, options)
    dataset = read(data, pictures, screen, label_column=label_column)
    settings = resolve(values, dataset.x.shape)
    run = out or free_run(dataset.name, settings)
    model = GEDI.from_settings(settings, verbose=screen.interactive)
    source = {
        "source": lasting(data),
        "label_column": label_column,
        "columns": column_names(dataset),
    } | (pictures.described() if is_folder(data) else {})
    with _Resumable(run):
        model.fit_run(dataset.x, run, source)
        _finish(model, dataset, run, screen)


def resume(run: Path, data: str | None, screen: Screen) -> None:
    """Continue a run; a finished one is read back."""
    config = read_config(run)
    described = data_section(config)
    finished = (run / MODEL).exists() and (run / SUMMARY).exists()
    source = data or described.get("source")
    if finished and ((run / LABELS).exists() or source is None):
        screen.message(f"{run} is finished already")
        _report(GEDI.load(run / MODEL), None, run, screen)
        return
    dataset = load_source(run, config, data, "give it with --data DATA", screen)
    with _Resumable(run):
        model = GEDI.resume(run, dataset.x, verbose=screen.interactive)
        _finish(model, dataset, run, screen)


def make_values(
    clusters: int, preset: str, assignments: list[str], options: dict[str, Any]
) -> dict[str, Any]:
    """The preset, changed by `--set name=value`, changed by the options that were given."""
    if clusters < 2:
        raise InputError(f"--clusters {clusters}: clustering needs at least 2")
    values = preset_values(preset, options.get("method"))
    for assignment in assignments:
        path, equals, text = assignment.partition("=")
        if not equals:
            raise InputError(f"--set {assignment}: write it as name=value")
        if path == "n_clusters":
            raise InputError(f"--set {assignment}: say it with --clusters")
        try:
            assign(values, path, yaml.safe_load(text))
        except yaml.YAMLError:
            raise InputError(f"--set {assignment}: the value is not valid YAML") from None
    for path, value in ({"n_clusters": clusters} | options).items():
        if value is not None:
            assign(values, path, value)
    return values


class _Resumable:
    """An interruption says how to continue the run."""

    def __init__(self, run: Path) -> None:
        self.run = run

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is KeyboardInterrupt and (self.run / "config.yaml").exists():
            raise KeyboardInterrupt(f"continue with gedi resume {quoted(self.run)}") from None


def _finish(model: GEDI, dataset: Dataset, run: Path, screen: Screen) -> None:
    if is_first_process():
        rows = zip(
            range(len(model.labels_)),
            model.labels_,
            model.score_samples(dataset.x, "confidence"),
            strict=True,
        )
        write_text(run / LABELS, csv_text(("row", "cluster", "confidence"), rows))
        _report(model, dataset.y, run, screen)


def _report(model: GEDI, y: np.ndarray | None, run: Path, screen: Screen) -> None:
    """The result in a short table and in words, or as JSON."""
    summary = model.summary()
    agreement = {} if y is None else _agreement(y, model.labels_)
    if screen.json:
        screen.content(summary | agreement | {"run": str(run)})
        return
    sizes = summary["cluster_sizes"]
    shown = ", ".join(map(str, sizes[:12])) + (", ..." if len(sizes) > 12 else "")
    rows = [
        ("points", f"{summary['n_samples']}"),
        ("clusters", f"{summary['n_clusters']}"),
        ("cluster sizes", shown),
        ("gap", f"{summary['gap']:.4f} nats"),
        ("iterations", f"{summary['iterations']}"),
        ("seconds", f"{summary['seconds']:.1f}"),
    ]
    rows += [(f"{name.upper()} (afterwards)", f"{v:.4f}") for name, v in agreement.items()]
    lines = [model.verdict_]
    if agreement:
        lines.append("NMI and AMI compare with the labels after the fact; the fit never saw them.")
    found = model.diagnosis_.problems
    lines += [f"- {f.name}: {f.words}" + (f" ({f.mode})" if f.mode else "") for f in found]
    screen.table(("", ""), rows, [*lines, f"run directory: {run}"])


def _agreement(y: np.ndarray, labels: np.ndarray) -> dict[str, float]:
    from sklearn.metrics import adjusted_mutual_info_score, normalized_mutual_info_score

    return {
        "nmi": float(normalized_mutual_info_score(y, labels)),
        "ami": float(adjusted_mutual_info_score(y, labels)),
    }


# --- using a fitted model -----------------------------------------------------------------------


def predict(
    run: Path, data: str, out: Path | None, proba: bool, pictures: Pictures, screen: Screen
) -> None:
    """The cluster of each point of `data`."""
    check_out(out)
    model, dataset = open_with_data(run, data, pictures, screen)
    x = dataset.x
    labels, p = model.predict(x), model.predict_proba(x)
    table = {"row": np.arange(len(x)), "cluster": labels, "confidence": p.max(1)}
    content = {"labels": labels.tolist(), "confidence": p.max(1).tolist()}
    if proba:
        table |= {f"p{k}": p[:, k] for k in range(p.shape[1])}
        content["probabilities"] = p.tolist()
    screen.give(Result(table, p if proba else labels, content), out)


def score(
    run: Path, data: str, kind: str, out: Path | None, pictures: Pictures, screen: Screen
) -> None:
    """How typical each point of `data` is."""
    check_out(out)
    model, dataset = open_with_data(run, data, pictures, screen)
    scores = model.score_samples(dataset.x, cast(Score, kind))
    table = {"row": np.arange(len(scores)), kind: scores}
    screen.give(Result(table, scores, {"kind": kind, "scores": scores.tolist()}), out)


def sample(run: Path, n: int, steps: int, seed: int, out: Path | None, screen: Screen) -> None:
    """New points."""
    check_out(out)
    if not 0 <= seed < 2**32:
        raise InputError(f"--seed {seed}: give a number from 0 to 2**32 - 1")
    model, columns = open_model(run)
    is_image = model.box_.low.dim() > 1
    if is_image and (out is None or out.suffix.lower() != ".npy"):
        raise InputError("samples of images need a file: --out FILE.npy")
    points, labels = model.sample(n, steps=steps, random_state=seed)
    table: dict[str, np.ndarray] = {}
    if not is_image:
        names = columns or [f"x{k + 1}" for k in range(points.shape[1])]
        table = dict(zip(names, points.T, strict=True)) | {"cluster": labels}
    content = {"points": points.tolist(), "labels": labels.tolist()}
    screen.give(Result(table, points, content), out)


def diagnose(run: Path, data: str | None, pictures: Pictures, screen: Screen) -> None:
    """The findings of the triad monitor on `data`, or on the data of the fit."""
    if run.is_dir() and "views" in read_config(run).get("objects", []):
        raise InputError(f"{run} was fitted with a function as views: diagnose it in Python")
    model, dataset = open_with_data(run, data, pictures, screen)
    x = dataset.x
    diagnosis = model.diagnose(x)
    if screen.json:
        screen.content(diagnosis.to_json() | {"n_samples": len(x)})
        return
    screen.table(
        ("finding", "value", "threshold", "ok", ""), _findings(diagnosis), [diagnosis.verdict]
    )


def report(run: Path, screen: Screen) -> None:
    """Figures and the HTML page, into the run directory."""
    from gedilearn.report.page import write_report

    screen.message(f"report: {write_report(run)}")


def _findings(diagnosis: Diagnosis) -> list[tuple[str, ...]]:
    return [
        (f.name, f"{f.value:.4g}", f"{f.threshold:g}", "yes" if f.ok else "NO", f.words)
        for f in diagnosis.findings
    ]


# --- experiments --------------------------------------------------------------------------------


def demo(out: Path | None, console: Console | None = None) -> None:
    """A short tour on made-up data."""
    from gedilearn.experiments.demo import run

    run(out or next_free("demo"), console or make_console())


def landscape(out: Path | None, screen: Screen) -> None:
    """Table 1 of the paper."""
    from gedilearn.experiments.landscape import markdown, run, show

    files = [] if out is None else [out / "landscape.csv", out / "landscape.md"]
    for file in files:
        if file.exists():
            raise InputError(f"{file} exists already: choose another folder")
    rows = run()
    if out is not None:
        texts = [csv_text(list(rows[0]), [list(row.values()) for row in rows]), markdown(rows)]
        out.mkdir(parents=True, exist_ok=True)
        for file, text in zip(files, texts, strict=True):
            write_new_text(file, text)
    show(rows, make_console())
    for file in files:
        screen.message(f"written: {file}")


def shapes(
    seeds: int,
    data: str | None,
    methods: str | None,
    workers: int,
    out: Path | None,
    screen: Screen,
) -> None:
    """The table of shapes; `data` and `methods` are names with commas between them."""
    from gedilearn.experiments import shapes as table

    asked = (range(seeds), names(data), names(methods), workers)
    _reproduce("shapes", table, asked, out, screen)


def gen(seeds: int, data: str | None, out: Path | None, screen: Screen) -> None:
    """The table of what GEN buys; `data` is names with commas between them."""
    from gedilearn.experiments import gen as table

    _reproduce("gen", table, (range(seeds), names(data)), out, screen)


def _reproduce(
    name: str, table: ModuleType, asked: tuple[Any, ...], out: Path | None, screen: Screen
) -> None:
    """Run a table that keeps its rows in a folder, write it there and show it."""
    out = out or Path("gedi-runs") / name
    with going_on():
        rows = table.run(*asked, out=out, tell=teller(screen))
    write_text(out / f"{name}.md", table.markdown(rows))
    table.show(rows, make_console())
    screen.message(f"rows: {out / 'rows.jsonl'}, table: {out / f'{name}.md'}")
