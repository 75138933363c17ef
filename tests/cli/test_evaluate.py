"""`gedi evaluate`: what it measures by default, prints, writes and refuses."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from sklearn.metrics import normalized_mutual_info_score

from gedilearn import GEDI
from gedilearn.data.dataset import Dataset
from gedilearn.errors import InputError
from helpers import run_command as gedi

SHORT = [
    *("--set", "training.max_iter=10", "--set", "training.check_every=10"),
    *("--set", "density.iterations=4", "--set", "sampler.steps=2", "--set", "sampler.buffer=60"),
    *("--set", "optimizer.batch_size=30", "--set", "network.width=8"),
]
CHEAP = ["--samples", 0, "--probe", "none"]


def squares(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Bright squares to the left or to the right: bytes (n, 1, 8, 8), and the side."""
    rng = np.random.default_rng(seed)
    x, y = rng.integers(0, 60, (n, 1, 8, 8), dtype=np.uint8), rng.integers(2, size=n)
    x[y == 0, :, 2:6, :4] += 190
    x[y == 1, :, 2:6, 4:] += 190
    return x, y


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("data")
    for name, (x, y) in {"train": squares(120, 0), "test": squares(80, 1)}.items():
        np.savez(path / f"{name}.npz", x=x, y=y)
    noise = np.random.default_rng(2).integers(0, 256, (40, 3, 10, 10), dtype=np.uint8)
    np.savez(path / "noise.npz", x=noise)
    rng = np.random.default_rng(3)
    rows = [f"{a:.3f},{b:.3f},{k}" for k in (0, 1) for a, b in rng.normal(6 * k, 1, (40, 2))]
    (path / "points.csv").write_text("\n".join(["a,b,kind", *rows]) + "\n")
    turned = [",".join(row.split(",")[1::-1]) for row in rows]
    (path / "bare.csv").write_text("\n".join(["b,a", *turned]) + "\n")
    return path


@pytest.fixture(scope="module")
def run(folder, tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("runs") / "squares"
    gedi("fit", folder / "train.npz", "-k", 2, "--out", path, "--quiet", *SHORT)
    return path


def test_test_data_outside_data_and_samples_end_up_in_one_folder(
    run, folder, tmp_path, monkeypatch
):
    def missing() -> None:
        raise InputError("no network for features")

    monkeypatch.setattr("gedilearn.evaluation.frechet.extractor", missing)  # it takes seconds
    out = tmp_path / "out"
    asked = ["--test", folder / "test.npz", "--ood", f"random={folder / 'noise.npz'}"]
    result = gedi(
        *("evaluate", run, *asked, "--samples", 12, "--steps", 2, "--out", out, "--json"),
    )
    content = json.loads(result.stdout)
    assert content == json.loads((out / "evaluation.json").read_text())
    assert content["data"]["test"] == "test" and content["data"]["train"] == "train"
    x, y = squares(80, 1)
    labels = GEDI.load(run / "model.safetensors").predict(x)
    assert content["clustering"]["nmi"] == pytest.approx(normalized_mutual_info_score(y, labels))
    assert content["ood"]["random"]["changes"].startswith("3x10x10, values 0..255 -> 1x8x8")
    assert content["probe"]["n_train"] == 120 and content["samples"]["n"] == 12
    assert content["frechet"] == {"skipped": "no network for features"}
    assert sorted(content["files"]) == sorted(path.name for path in out.iterdir())


def test_by_default_the_training_data_is_measured_and_the_table_says_so(run):
    result = gedi("evaluate", run, *CHEAP)
    assert "which is the training data" in result.stdout and "NMI, mean of batches" in result.stdout
    assert f"written to {run / 'evaluation'}" in " ".join(result.stderr.split())
    quiet = gedi("evaluate", run, *CHEAP, "--quiet")
    assert quiet.stdout == quiet.stderr == ""


def test_the_findings_are_listed_for_data_without_labels(run, folder, tmp_path):
    x, _ = squares(80, 1)
    np.save(tmp_path / "x.npy", x)
    diagnosis = GEDI.load(run / "model.safetensors").diagnose(x)
    asked = ["evaluate", run, *CHEAP, "--test", tmp_path / "x.npy"]
    text = gedi(*asked).stdout
    assert all(finding.name in text for finding in diagnosis.findings)
    certificate = json.loads(gedi(*asked, "--json", "-q").stdout)["certificate"]
    assert certificate["bound_gap"] == pytest.approx(diagnosis.gap) and certificate["n"] == 80
    values = {each["name"]: each["value"] for each in certificate["findings"]}
    assert values == pytest.approx({each.name: each.value for each in diagnosis.findings})


def test_a_fetched_set_is_measured_on_its_test_images(tmp_path, monkeypatch):
    def open_set(name: str, split: str) -> Dataset:
        x, y = squares(120 if split == "train" else 80, 0 if split == "train" else 1)
        return Dataset(f"{name}-{split}", x, y, None, f"{name}:{split}")

    monkeypatch.setattr("gedilearn.paper.published.open_set", open_set)
    gedi("fit", "mnist", "-k", 2, "--out", tmp_path / "run", "--quiet", *SHORT)
    content = json.loads(gedi("evaluate", tmp_path / "run", *CHEAP, "--json", "-q").stdout)
    assert content["data"]["test"] == "mnist-test" and not content["data"]["test_is_train"]
    assert content["data"]["n_test"] == 80 and content["data"]["train"] == "mnist-train"


def test_tables_keep_their_columns_and_labels_are_optional(folder, tmp_path):
    run = tmp_path / "run"
    asked = ["--label-column", "kind", "--out", run, "--quiet", *SHORT]
    gedi("fit", folder / "points.csv", "-k", 2, *asked)
    content = json.loads(gedi("evaluate", run, *CHEAP, "--json", "-q").stdout)
    assert "nmi" in content["clustering"] and content["data"]["shape"] == [2]
    # Its columns are the other way round and it has no labels.
    bare = gedi("evaluate", run, *CHEAP, "--test", folder / "bare.csv", "--json", "-q")
    found = json.loads(bare.stdout)
    assert "no labels" in found["clustering"]["skipped"]
    assert found["certificate"]["bound_gap"] == pytest.approx(content["certificate"]["bound_gap"])


def test_a_run_whose_data_is_gone_needs_test_data(run, folder, tmp_path):
    shutil.copytree(run, tmp_path / "run")
    config = tmp_path / "run" / "config.yaml"
    config.write_text(config.read_text().replace("train.npz", "gone.npz"))
    refused = gedi("evaluate", tmp_path / "run", *CHEAP, code=2).stderr
    assert "give --test DATA" in refused and len(refused.splitlines()) == 1
    asked = ["--test", folder / "test.npz", "--json"]
    result = gedi("evaluate", tmp_path / "run", *CHEAP, *asked)
    assert json.loads(result.stdout)["data"]["train"] is None
    assert "without training data" in result.stderr
    config.write_text(config.read_text().replace("gone.npz", "test.npz"))
    changed = gedi("evaluate", tmp_path / "run", *CHEAP)
    assert "warning: test has changed since" in changed.stderr


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--test", "nowhere.npz"], "nowhere.npz: no such file"),
        (["--ood", "nowhere.npz"], "nowhere.npz: no such file"),
        (["--ood", "moons"], "moons has points of shape (2,)"),
        (["--test", "moons"], "moons has points of shape (2,)"),
    ],
)
def test_bad_input_is_one_line(run, options, words, tmp_path):
    out = tmp_path / "out"
    result = gedi("evaluate", run, *CHEAP, *options, "--out", out, code=2)
    assert words in result.stderr and len(result.stderr.splitlines()) == 1
    assert not out.exists()
