"""`gedi demo`: what it prints and writes."""

from __future__ import annotations

import json
import re

import pytest
from sklearn.metrics import adjusted_mutual_info_score, normalized_mutual_info_score

from gedilearn import GEDI
from gedilearn.data.toy import circles, digits, moons
from helpers import run_command as gedi

TRUTH = {"moons": moons, "circles": circles, "digits": digits}


@pytest.fixture
def short(monkeypatch, tmp_path):
    """The demo with a short training, in an empty folder."""
    fit_run = GEDI.fit_run
    monkeypatch.setattr(GEDI, "fit_run", lambda self, *a: fit_run(self.set_params(max_iter=60), *a))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_scores_and_verdicts_are_those_of_the_runs_it_writes(short):
    lines = gedi("demo").stdout.splitlines()
    out = short / "gedi-runs" / "demo-1"
    assert {path.name for path in out.iterdir()} == set(TRUTH)
    for (name, draw), line in zip(TRUTH.items(), lines, strict=False):
        labels = GEDI.load(out / name / "model.safetensors").labels_
        summary = json.loads((out / name / "summary.json").read_text())
        nmi = normalized_mutual_info_score(draw().y, labels)
        ami = adjusted_mutual_info_score(draw().y, labels)
        assert line.startswith(f"{name} (") and f" ... {summary['grade']}" in line
        modes = {f["mode"] for f in summary["diagnosis"]["findings"] if f["mode"] and not f["ok"]}
        assert all(mode in line for mode in modes)
        assert f"NMI {nmi:.3f}, AMI {ami:.3f}, gap {summary['gap']:.4f}, " in line
        assert re.search(r"\d s$", line)
        for file in ("report.html", "figures/training.png", "figures/clusters.png"):
            assert (out / name / file).stat().st_size > 1000
    assert "gedi-runs/demo-1/<data>" in lines[-1]


def test_a_used_folder_is_refused_and_json_has_a_row_for_each_set(short, monkeypatch):
    monkeypatch.setattr("gedilearn.cli.fit.DEMO", {"moons": 2})
    (row,) = json.loads(gedi("demo", "--json", "--out", "tour").stdout)
    assert row["data"] == "moons" and 0 <= row["nmi"] <= 1
    refused = gedi("demo", "--out", "tour", code=2)
    assert "exists already" in refused.stderr and refused.stderr.count("\n") == 1
