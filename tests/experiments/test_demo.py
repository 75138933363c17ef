import io
import json
import re
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from sklearn.metrics import adjusted_mutual_info_score, normalized_mutual_info_score

from gedilearn import GEDI
from gedilearn.data.toy import circles, digits, moons
from gedilearn.errors import InputError
from gedilearn.experiments import demo


def quiet() -> Console:
    return Console(file=io.StringIO(), width=80)


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[dict[str, Any]], str]:
    """Folder, rows and printed text of a short demo."""
    out = tmp_path_factory.mktemp("demo") / "out"
    console = quiet()
    rows = demo.run(out, console, max_iter=60)
    return out, rows, console.file.getvalue()  # type: ignore[attr-defined]


def test_nmi_and_ami_are_those_of_the_saved_labels(finished: Any) -> None:
    out, rows, printed = finished
    truth = {"moons": moons().y, "circles": circles().y, "digits": digits().y}
    assert [row["data"] for row in rows] == list(truth)
    for row in rows:
        labels = GEDI.load(out / row["data"] / "model.safetensors").labels_
        nmi = normalized_mutual_info_score(truth[row["data"]], labels)
        ami = adjusted_mutual_info_score(truth[row["data"]], labels)
        assert row["nmi"] == pytest.approx(nmi, abs=1e-12)
        assert row["ami"] == pytest.approx(ami, abs=1e-12)
        assert f"NMI {nmi:.3f}, AMI {ami:.3f}, gap {row['gap']:.4f}, " in printed


def test_verdicts_are_those_of_the_runs(finished: Any) -> None:
    out, rows, _ = finished
    for row in rows:
        summary = json.loads((out / row["data"] / "summary.json").read_text())
        findings = summary["diagnosis"]["findings"]
        modes = {f["mode"] for f in findings if f["mode"] and not f["ok"]}
        assert row["certified"] == summary["certified"]
        assert row["gap"] == summary["gap"]
        assert set(row["modes"]) == modes
        assert row["verdict"].startswith(summary["grade"])
        assert all(mode in row["verdict"] for mode in modes)


def test_runs_reports_and_rows_are_written(finished: Any) -> None:
    out, rows, _ = finished
    assert json.loads((out / "demo.json").read_text()) == rows
    for name in ("moons", "circles", "digits"):
        for file in ("report.html", "figures/training.png", "figures/clusters.png"):
            assert (out / name / file).stat().st_size > 1000
    assert {path.name for path in out.iterdir()} == {"moons", "circles", "digits", "demo.json"}


def test_settings_are_the_defaults_but_for_the_clusters_and_the_budget(finished: Any) -> None:
    out, _, _ = finished
    model = GEDI.load(out / "digits" / "model.safetensors")
    expected = GEDI(n_clusters=10, random_state=0, max_iter=60).resolve((1797, 64))
    assert model.settings_ == expected


def test_the_printed_text_explains_labels_gap_and_place(finished: Any) -> None:
    out, _, printed = finished
    assert str(out) in printed
    for name in ("moons", "circles", "digits"):
        assert len(re.findall(rf"^{name} \(.*\.\.\. .* s$", printed, re.MULTILINE)) == 1


def test_an_occupied_folder_is_refused_before_anything_is_done(tmp_path: Path) -> None:
    (tmp_path / "digits").mkdir()
    console = quiet()
    with pytest.raises(InputError, match="exists already"):
        demo.run(tmp_path, console)
    file = tmp_path / "digits" / "file"
    file.write_text("mine")
    with pytest.raises(InputError, match="exists already"):
        demo.run(file, console)
    assert [path.name for path in tmp_path.iterdir()] == ["digits"]
    assert console.file.getvalue() == ""  # type: ignore[attr-defined]
