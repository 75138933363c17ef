"""`make demo`: the lines it prints are those of the runs it writes."""

from __future__ import annotations

import json
import runpy
from pathlib import Path

import pytest
from sklearn.metrics import normalized_mutual_info_score

from gedilearn import GEDI
from gedilearn.data.toy import circles, digits, moons

DEMO = Path(__file__).parents[1] / "docs" / "demo.py"
TRUTH = {"moons": moons, "circles": circles, "digits": digits}


@pytest.mark.skipif(not DEMO.exists(), reason="the documentation is not part of this installation")
def test_each_set_has_a_line_with_its_grade_and_scores_and_a_report(monkeypatch, tmp_path, capsys):
    fit = GEDI.fit
    monkeypatch.setattr(GEDI, "fit", lambda self, x: fit(self.set_params(max_iter=60, w_gen=0), x))
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(DEMO))
    lines = capsys.readouterr().out.splitlines()
    for (name, draw), line in zip(TRUTH.items(), lines, strict=False):
        run = tmp_path / "gedi-runs" / "demo" / name
        summary = json.loads((run / "summary.json").read_text())
        labels = GEDI.load(run / "model.safetensors").labels_
        nmi = normalized_mutual_info_score(draw().y, labels)
        assert line.startswith(f"{name} (") and f" ... {summary['grade']}" in line
        assert f"NMI {nmi:.3f}" in line and f"bound gap {summary['bound_gap']:.4f}, " in line
        assert (run / "report.html").stat().st_size > 1000
