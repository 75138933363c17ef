"""Run folders and models that are damaged, or made to do harm, are refused in one line."""

from __future__ import annotations

import json
import os
import shutil
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import yaml
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from gedilearn import GEDI
from gedilearn.errors import InputError
from gedilearn.training import loop
from gedilearn.training import run as checkpoint
from gedilearn.training.result import Result
from gedilearn.training.run import RunDirectory
from helpers import gedi

X = np.random.default_rng(0).normal(size=(40, 3)) + np.repeat([[-3.0], [3.0]], 20, axis=0)
TINY = {
    "max_iter": 20,
    "random_state": 0,
    "device": "cpu",
    "network.hidden": (6,),
    "training.check_every": 5,
    "training.tol": 0.0,
    "density.base": "none",
    "density.iterations": 10,
    "optimizer.batch_size": 16,
    "sampler.buffer": 32,
    "sampler.chains": 8,
}
KINDS: dict[str, dict[str, Any]] = {
    "clusters": {"n_init": 2, "prior": "auto"},
    "density": {},
    "swav": {"method": "swav", "swav.queue": 16},
    "dino": {"method": "dino"},
    "deepcluster": {"method": "deepcluster"},
    "between": {},
}


@pytest.fixture(scope="module")
def interrupted(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Runs that were interrupted: at a check, in the second stage, between two checks."""
    root, runs = tmp_path_factory.mktemp("interrupted"), {}
    add_metrics, step = RunDirectory.add_metrics, loop.step

    def step_between(setup: Any, state: Any) -> Any:
        if state.iteration == 13:
            os.kill(os.getpid(), signal.SIGINT)
        return step(setup, state)

    for name, settings in KINDS.items():
        rows: list[object] = []
        last = 5 if name == "density" else 3

        def add(run: RunDirectory, row: dict[str, Any], rows: Any = rows, last: int = last) -> None:
            add_metrics(run, row)
            rows.append(row)
            if len(rows) == last:
                os.kill(os.getpid(), signal.SIGINT)

        with pytest.MonkeyPatch.context() as patch, pytest.raises(KeyboardInterrupt):
            if name == "between":
                patch.setattr(loop, "step", step_between)
            else:
                patch.setattr(RunDirectory, "add_metrics", add)
            gedi(2, run_dir=root / name, **TINY | settings).fit(X)
        runs[name] = root / name
    return runs


@pytest.fixture
def copied(interrupted: dict[str, Path], tmp_path: Path) -> Callable[[str], Path]:
    return lambda name: Path(shutil.copytree(interrupted[name], tmp_path / name))


@pytest.fixture(scope="module")
def fitted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    run = tmp_path_factory.mktemp("finished") / "run"
    gedi(2, run_dir=run, **TINY).fit(X)
    return run


@pytest.fixture
def model(fitted: Path, tmp_path: Path) -> Path:
    return Path(shutil.copyfile(fitted / "model.safetensors", tmp_path / "model.safetensors"))


def refusal(function: Callable[..., object], *arguments: object) -> str:
    with pytest.raises(InputError) as caught:
        function(*arguments)
    message = str(caught.value)
    assert "\n" not in message and len(message) < 700
    return message


def resume_refusal(run: Path) -> str:
    """The line that refuses a resume, which leaves what was logged as it was."""
    logged = (run / "metrics.jsonl").read_bytes()
    message = refusal(GEDI.resume, run, X)
    assert (run / "metrics.jsonl").read_bytes() == logged
    return message


# --- checkpoints --------------------------------------------------------------------------------

Edit = Callable[[dict[str, Any], dict[str, Any]], None]


def put(*path: Any, value: Any) -> Edit:
    """Change one value of what is shared, or of a rank's own if the path begins with 'own'."""

    def edit(shared: dict[str, Any], own: dict[str, Any]) -> None:
        tree: Any = own if path[0] == "own" else shared
        *sections, name = path[1:] if path[0] == "own" else path
        for section in sections:
            tree = tree[section]
        tree[name] = value(tree[name]) if callable(value) else value

    return edit


def drop(name: str) -> Edit:
    return lambda shared, own: (shared if name in shared else own).pop(name)


def edited(run: Path, edit: Edit) -> Path:
    folder = checkpoint.latest(run / "checkpoint")
    assert folder is not None
    trees = {name: checkpoint.load_tree(folder, name) for name in ("shared", "rank-0")}
    edit(trees["shared"], trees["rank-0"])
    for name, tree in trees.items():
        checkpoint.save_tree(folder, name, tree)
    return run


def test_an_untouched_checkpoint_is_resumed(copied: Callable[[str], Path]) -> None:
    for name in KINDS:
        assert GEDI.resume(edited(copied(name), lambda shared, own: None), X).n_iter_ > 15


@pytest.mark.parametrize(
    "edit",
    [
        put("recoveries", value=10**9),
        put("recoveries", value=-1),
        put("iteration", value=10**9),
        put("iteration", value="15"),
        put("iteration", value=None),
        put("seconds", value=float("nan")),
        put("seconds", value="soon"),
        put("stage", value="end"),
        put("stage", value="density"),
        put("stage_begin", value=10**9),
        put("results", value=[]),
        put("results", value=[1]),
        put("results", value=[0, 0]),
        put("results", value=None),
        put("stopped", value="maybe"),
        put("stopped", value=True),
        put("trouble", value=[1]),
        put("reported", value="x"),
        put("reported", value=[1]),
        put("kept", value=[]),
        put("kept", 0, "member", value=7),
        put("kept", 0, "gap", value=None),
        put("kept", 0, "settled", value=3),
        put("kept", 0, "state", value={}),
        put("kept", 0, "state", "encoder.weights.0", value=torch.zeros(1, 3, 5)),
        put("kept", 0, "state", "encoder.weights.0", value=torch.zeros(1, 3, 6).long()),
        put("kept", 0, "target", value=torch.zeros(3)),
        put("prior", value=torch.zeros(2, 3)),
        put("prior", value=5),
        put("model", "encoder.weights.0", value=torch.zeros(2, 3, 5)),
        put("model", value={}),
        put("optimizer", value={}),
        put("optimizer", "state", value={0: {}}),
        put("optimizer", "state", 0, "exp_avg", value=torch.zeros(3)),
        put("optimizer", "state", 0, value={"step": torch.tensor(1.0)}),
        put("own", "rng", value=torch.zeros(3, dtype=torch.uint8)),
        put("own", "rng", value=1),
        put("own", "batches", "order", value=torch.tensor([0, 40])),
        put("own", "batches", "order", value=torch.tensor([-1])),
        put("own", "batches", "order", value=torch.zeros(3)),
        put("own", "batches", "generator", value=torch.zeros(3, dtype=torch.uint8)),
        *(drop(name) for name in ("kept", "model", "seconds", "rng", "batches")),
    ],
)
def test_a_checkpoint_that_no_such_training_wrote_is_refused(
    copied: Callable[[str], Path], edit: Edit
) -> None:
    message = resume_refusal(edited(copied("clusters"), edit))
    assert "checkpoint/step-000000015 is damaged (" in message


@pytest.mark.parametrize(
    ("name", "edit"),
    [
        ("density", put("kept", 0, "state", value=None)),
        ("density", put("own", "buffer", value=torch.zeros(1, 32, 4))),
        ("density", put("own", "buffer", value=torch.zeros(1, 31, 3))),
        ("density", drop("buffer")),
        ("swav", put("method", "queue", value=torch.zeros(2, 1, 16, 3))),
        ("swav", put("method", "queue", value=torch.zeros(2, 1, 17, 2))),
        ("swav", put("method", value={})),
        ("dino", put("method", "teacher", value=lambda old: dict(list(old.items())[:-1]))),
        ("dino", put("method", "centre", value=torch.zeros(1, 1, 3))),
        ("deepcluster", put("method", "labels", value=lambda old: old + 2)),
        ("deepcluster", put("method", "labels", value=torch.zeros(1, 39).long())),
        ("between", put("good", "model", "encoder.weights.0", value=torch.zeros(1, 3, 7))),
        ("between", put("good", "recoveries", value=10**9)),
        ("between", put("good", "optimizer", "state", 0, "exp_avg", value=torch.zeros(3))),
        ("between", put("good", value=None)),
        ("between", put("own", "good", "batches", "order", value=torch.tensor([99]))),
        ("between", put("own", "good", value=5)),
    ],
)
def test_what_a_stage_or_a_method_remembers_is_held_against_the_training(
    copied: Callable[[str], Path], name: str, edit: Edit
) -> None:
    assert "is damaged (" in resume_refusal(edited(copied(name), edit))


@pytest.mark.parametrize("name", ["shared.json", "rank-0.json", "shared.safetensors"])
@pytest.mark.parametrize(
    "content", [b"", b"{}", b"null", b"\xff", b"[" * 100_000, b'{"value": {}}']
)
def test_other_content_in_a_checkpoint_is_refused(
    copied: Callable[[str], Path], name: str, content: bytes
) -> None:
    run = copied("clusters")
    (run / "checkpoint/step-000000015" / name).write_bytes(content)
    assert "is damaged (" in resume_refusal(run)


@pytest.mark.parametrize("kind", ["pipe", "folder", "missing"])
@pytest.mark.parametrize("name", ["shared.json", "rank-0.safetensors"])
def test_what_is_no_file_in_a_checkpoint_is_refused(
    copied: Callable[[str], Path], name: str, kind: str
) -> None:
    run = copied("clusters")
    path = run / "checkpoint/step-000000015" / name
    path.unlink()
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    assert name in resume_refusal(run)


@pytest.mark.parametrize(
    "name", ["/etc", "..", ".", "", "step-1/..", "../checkpoint", "step-", "step-1\n", None, ["x"]]
)
def test_a_pointer_names_a_checkpoint_beside_it_and_nothing_else(
    copied: Callable[[str], Path], name: object
) -> None:
    run = copied("clusters")
    pointer = run / "checkpoint/latest.json"
    pointer.write_text(json.dumps({"format": checkpoint.FORMAT, "folder": name}))
    message = resume_refusal(run)
    assert message.startswith(f"{pointer} is damaged")
    assert "/etc" not in message and "remove" not in message


@pytest.mark.parametrize(
    "name, kind",
    [
        ("checkpoint", "file"),
        ("checkpoint", "link"),
        ("checkpoint/step-000000005", "file"),
        ("checkpoint/step-000000005/shared.json", "folder"),
        ("summary.json", "folder"),
        ("labels.csv", "folder"),
        ("events.jsonl", "folder"),
    ],
)
def test_what_a_fit_could_not_write_is_noticed_before_it_begins(
    copied: Callable[[str], Path], name: str, kind: str
) -> None:
    run = copied("clusters")
    shutil.rmtree(run / "checkpoint")  # so that it would begin anew, and log anew
    path = run / name
    path.unlink(missing_ok=True)
    path.parent.mkdir(parents=True, exist_ok=True)
    if kind == "folder":
        path.mkdir()
    elif kind == "file":
        path.touch()
    else:
        path.symlink_to("nowhere")
    assert resume_refusal(run).startswith(f"{path} is damaged (it is ")


def test_what_was_logged_is_read_whole_before_any_of_it_is_dropped(
    copied: Callable[[str], Path],
) -> None:
    run = copied("clusters")
    shutil.rmtree(run / "checkpoint")
    (run / "events.jsonl").unlink()
    os.mkfifo(run / "events.jsonl")
    assert resume_refusal(run).startswith(f"{run / 'events.jsonl'}: not a regular file")


# --- config -------------------------------------------------------------------------------------


def changed(run: Path, *path: str, value: Any = None, gone: bool = False) -> Path:
    """Change or remove one entry of a config."""
    file = run / "config.yaml"
    config = yaml.safe_load(file.read_text())
    section = config
    for name in path[:-1]:
        section = section[name]
    if gone:
        del section[path[-1]]
    else:
        section[path[-1]] = value
    file.write_text(yaml.safe_dump(config))
    return run


ENTRIES = [
    ("settings",), ("objects",), ("data",), ("version",), ("format",), ("data", "shape"),
    ("data", "fingerprint"), ("settings", "n_clusters"), ("settings", "network"),
    ("settings", "training", "max_iter"),
]  # fmt: skip


@pytest.mark.parametrize("path", ENTRIES, ids=".".join)
@pytest.mark.parametrize("value", [None, [1, "a"], "text", -3, {"a": 1}])
def test_a_config_with_an_entry_of_another_kind_is_refused(
    copied: Callable[[str], Path], path: tuple[str, ...], value: object
) -> None:
    if value == "text" and path in (("data", "fingerprint"), ("version",)):
        pytest.skip("of the right kind")
    message = resume_refusal(changed(copied("clusters"), *path, value=value))
    assert "config.yaml is damaged (" in message or "format -3" in message


@pytest.mark.parametrize(
    "path", [entry for entry in ENTRIES if entry[0] != "settings"], ids=".".join
)
def test_a_config_without_an_entry_is_refused(
    copied: Callable[[str], Path], path: tuple[str, ...]
) -> None:
    assert "config.yaml is damaged (" in resume_refusal(
        changed(copied("clusters"), *path, gone=True)
    )


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("n_clusters",), 5),
        (("network", "hidden"), [7]),
        (("network", "hidden"), [30_000, 30_000]),
        (("network", "hidden"), [1] * 3_000),
        (("network", "hidden"), [10**12, 10**12]),
        (("network", "head"), [4]),
        (("network", "features"), 3),
        (("training", "n_init"), 3),
        (("training", "max_iter"), 10),
    ],
)
def test_a_config_of_another_network_than_the_checkpoint_is_refused_before_one_is_built(
    copied: Callable[[str], Path], path: tuple[str, ...], value: object, monkeypatch
) -> None:
    if path[0] != "training":
        monkeypatch.setattr(loop, "begin", lambda *_, **__: pytest.fail("built"))
    run = changed(copied("clusters"), "settings", *path, value=value)
    assert "is damaged (" in resume_refusal(run)


# --- what was logged ----------------------------------------------------------------------------


def test_a_stray_byte_in_what_was_logged_costs_its_line_alone(
    copied: Callable[[str], Path],
) -> None:
    run, untouched = copied("clusters"), copied("density")
    lines = (run / "metrics.jsonl").read_bytes().splitlines(keepends=True)
    assert len(lines) == 3
    lines[1] = lines[1].replace(b":", b"\xff", 1)
    (run / "metrics.jsonl").write_bytes(b"".join([*lines, b'{"iteration": 99}\n', b'{"itera']))
    (run / "events.jsonl").write_bytes(b'\x00\n{"iteration": "x"}\n[]\n{"kind": "a"}\n')
    assert GEDI.resume(run, X).n_iter_ == 30
    rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    assert [row["iteration"] for row in rows] == [5, 15, 20, 25, 30]
    assert json.loads((run / "events.jsonl").read_text().splitlines()[0]) == {"kind": "a"}
    assert GEDI.resume(untouched, X).n_iter_ == 30


# --- models -------------------------------------------------------------------------------------


def rewritten(path: Path, tensors: dict[str, Any] | None = None, **header: Any) -> Path:
    """The model with other tensors (None: without) or other entries of its header."""
    with safe_open(path, "pt") as file:
        described = json.loads(file.metadata()["gedi-learn"]) | header
    joined = load_file(path) | (tensors or {})
    kept = {name: tensor for name, tensor in joined.items() if tensor is not None}
    save_file(kept, path, {"gedi-learn": json.dumps(described)})
    return path


def header_of(path: Path) -> dict[str, Any]:
    with safe_open(path, "pt") as file:
        return dict(json.loads(file.metadata()["gedi-learn"]))


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
@pytest.mark.parametrize("name", ["model.encoder.weights.0", "box.high", "prior"])
def test_a_model_that_is_not_finite_is_refused(model: Path, name: str, value: float) -> None:
    tensor = load_file(model)[name]
    tensor.view(-1)[0] = value
    message = refusal(GEDI.load, rewritten(model, {name: tensor}))
    assert message.startswith(f"{model}: {name} is not finite")


@pytest.mark.parametrize(
    "tensors",
    [
        {"labels": None},
        {"box.low": None},
        {"model.encoder.weights.0": None},
        {"model.encoder.weights.0": torch.zeros(1, 3, 7)},
        {"model.encoder.weights.0": torch.zeros(1, 3, 6).double()},
        {"model.more": torch.zeros(2)},
        {"prior": torch.zeros(3).double()},
        {"labels": torch.full((40,), 2)},
        {"labels": torch.full((40,), -1)},
        {"labels": torch.zeros(40, 2).long()},
        {"labels": torch.zeros(40)},
        {"box.low": torch.zeros(4)},
        {"box.low": torch.full((3,), 1e9)},
        {"box.low": torch.zeros(3).half()},
        {"box.low": torch.zeros(())},
    ],
)
def test_a_model_with_other_tensors_is_refused(model: Path, tensors: dict[str, Any]) -> None:
    assert refusal(GEDI.load, rewritten(model, tensors)).startswith(f"{model} is damaged (")


@pytest.mark.parametrize("column", [-1, 3, 2**62])
def test_a_density_of_columns_that_there_are_not_is_refused(tmp_path: Path, column: int) -> None:
    short = {"training.max_iter": 2, "density.iterations": 2, "network.hidden": (4,)}
    x, model = np.random.default_rng(0).normal(size=(40, 3)), tmp_path / "model.safetensors"
    GEDI(2, random_state=0, settings=short).fit(x).save(model)
    used = {"density.coordinates.used": torch.tensor([0, 1, column])}
    assert refusal(GEDI.load, rewritten(model, used)).startswith(f"{model} is damaged (")


@pytest.mark.parametrize(
    "hidden", [[30_000, 30_000], [7], [], [10**12, 10**12], [1] * 100_000, ["x"], None, [0]]
)
def test_a_header_of_another_network_is_refused_before_one_is_built(
    model: Path, hidden: Any, monkeypatch
) -> None:
    monkeypatch.setattr(Result, "read", lambda *_: pytest.fail("built"))
    settings = header_of(model)["settings"]
    settings["network"]["hidden"] = hidden
    assert "is damaged (" in refusal(GEDI.load, rewritten(model, settings=settings))


@pytest.mark.parametrize("value", [None, [1, "a"], "text", -3, {"a": 1}, 10**30])
@pytest.mark.parametrize(
    "name",
    ["settings", "objects", "scaling", "n_features_in", "feature_names_in", "summary", "format"],
)
def test_a_header_with_an_entry_of_another_kind_is_refused(
    model: Path, name: str, value: object
) -> None:
    assert str(model) in refusal(GEDI.load, rewritten(model, **{name: value}))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("diagnosis", {}),
        ("diagnosis", None),
        ("verdict", 5),
        ("stopped", "maybe"),
        ("seconds", "soon"),
        ("iterations", None),
        ("recoveries", -1),
        ("cluster_sizes", None),
    ],
)
def test_a_header_with_another_summary_is_refused(model: Path, name: str, value: object) -> None:
    summary = header_of(model)["summary"] | {name: value}
    assert f"is damaged (summary.{name}" in refusal(GEDI.load, rewritten(model, summary=summary))


@pytest.mark.parametrize("offset", [[0.0], [[[0.0]]], [0.0, 0.0, float("nan")], [0, 0, 0, 0]])
def test_a_scaling_of_other_data_is_refused(model: Path, offset: Any) -> None:
    scaling = json.dumps({"offset": offset, "scale": np.ones_like(offset).tolist()})
    assert "scaling" in refusal(GEDI.load, rewritten(model, scaling=scaling))


def test_a_pipe_is_no_model(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert "not a regular file" in refusal(GEDI.load, tmp_path / "pipe")
