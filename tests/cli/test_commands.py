"""The command line: what each command writes, prints, and agrees with."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import shutil
import signal
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import yaml
from PIL import Image
from sklearn.metrics import adjusted_mutual_info_score, normalized_mutual_info_score

from gedilearn import GEDI
from gedilearn.cli import fit
from gedilearn.cli.app import Screen
from gedilearn.explanation import Difference, Profile
from gedilearn.registry import PRESETS
from gedilearn.settings import IMAGES, known_paths
from gedilearn.training.run import Config, RunDirectory
from gedilearn.verdict.verdict import Reason, Verdict
from helpers import run_command as gedi

SHORT = [
    *("--set", "training.max_iter=60", "--set", "training.check_every=30"),
    *("--set", "sampler.buffer=400"),
]
NAMES = ["width", "height", "depth"]


def rows_of(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


def config_of(run: Path) -> dict:
    return yaml.safe_load((run / "config.yaml").read_text())


def profile_of(run: Path) -> list[dict]:
    return json.loads((run / "profile.json").read_text())["clusters"]


@pytest.fixture(scope="module")
def points() -> np.ndarray:
    rng = np.random.default_rng(0)
    return np.concatenate([rng.normal(-3, 1, (40, 3)), rng.normal(3, 1, (40, 3))]).round(3)


@pytest.fixture(scope="module")
def table(points, tmp_path_factory) -> Path:
    """A CSV file with a column of text labels in the middle."""
    path = tmp_path_factory.mktemp("data") / "blobs.csv"
    kinds = ["left"] * 40 + ["right"] * 40
    lines = [f"{a},{b},{kind},{c}" for (a, b, c), kind in zip(points, kinds, strict=True)]
    path.write_text("\n".join(["width,height,kind,depth", *lines]) + "\n")
    return path


@pytest.fixture(scope="module")
def run(table, tmp_path_factory) -> Path:
    """A finished run, not to be changed."""
    path = tmp_path_factory.mktemp("runs") / "blobs"
    gedi("fit", table, "--clusters", 2, "--label-column", "kind", "--out", path, *SHORT, "--quiet")
    return path


@pytest.fixture(scope="module")
def model(run) -> GEDI:
    return GEDI.load(run / "model.safetensors")


@pytest.fixture
def here(tmp_path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


# --- fit ----------------------------------------------------------------------------------------


def test_the_output_of_fit_reads_like_this(capsys, monkeypatch, tmp_path):
    monkeypatch.setenv("COLUMNS", "80")
    difference = [Difference("income", 2.1, 9.0, 1.0), Difference("age", -0.7, 30.0, 40.0)]
    profiles = [profile(0, 1200, difference), profile(1, 300, [Difference("age", 0.7, 40, 30)])]
    reason = Reason("stable", "Subsamples find the same clusters (stability 0.99).")
    figures = {"stability": 0.98765, "separate groups": 1, "bound gap (nats)": 0.00012345}
    headline = "supported: the 2 clusters are reproducible, although they touch."
    verdict = Verdict("supported", headline, reason, "check some rows, or try 3", 3, figures)
    rows = [{"size": p.size, "share": p.share, "trust": 0.98765} for p in profiles]
    model = SimpleNamespace(
        summary=lambda: {"clusters": rows},
        columns_=None,
        labels_=np.repeat([0, 1], [1200, 300]),
        point_shape_=(4,),
        verdict_=verdict,
        names_=["cluster 0", "cluster 1"],
    )
    explanation = SimpleNamespace(clusters=profiles)
    monkeypatch.setattr("gedilearn.explanation.read_profile", lambda run: explanation)
    data = {"shape": (1500, 4), "fingerprint": "", "label_column": "kind"}
    config = Config(format=1, version="", settings={}, objects=[], data=data)
    monkeypatch.setattr("gedilearn.training.run.read_config", lambda run: config)
    fit._show(model, model.labels_, "my data.csv", Path("gedi-runs/my data-1"), Screen())
    shown = [line.rstrip() for line in capsys.readouterr().out.splitlines()]
    assert shown == SNAPSHOT.splitlines()


SNAPSHOT = """my data.csv: 1,500 rows, 4 columns

 cluster    rows   share   trust   what defines it
 ───────────────────────────────────────────────────────────────
       0   1,200     80%   0.988   much higher income, lower age
       1     300     20%   0.988   higher age

supported: the 2 clusters are reproducible, although they touch.
Subsamples find the same clusters (stability 0.99).
Next: check some rows, or try 3 (gedi fit 'my data.csv' --label-column=kind -k 3).

 stability                0.988
 separate groups              1
 bound gap (nats)      0.000123
 NMI with the labels          1
 AMI with the labels          1

The cluster of each row is in gedi-runs/my data-1/labels.csv. To see more:
  gedi report 'gedi-runs/my data-1' --open    # the report, with figures
  gedi explain 'gedi-runs/my data-1'          # what defines each cluster, in numbers
  gedi predict 'gedi-runs/my data-1' new.csv  # the clusters of new rows
"""


def profile(cluster: int, size: int, differences: list[Difference]) -> Profile:
    words = ", ".join(difference.words for difference in differences)
    return Profile(cluster, size, size / 1500, 0.9, words, tuple(differences), (), (), (), {})


def test_of_many_clusters_the_largest_are_shown():
    profiles = [profile(k, 10 + k, []) for k in range(20)]
    rows = [{"size": p.size, "share": p.share} for p in profiles]
    grid, left = fit._clusters(rows, profiles, [f"cluster {k}" for k in range(20)])
    assert grid.row_count == fit.MOST_CLUSTERS and left == "and 8 smaller clusters"
    assert [column.header for column in grid.columns] == ["cluster", "rows", "share"]


def test_fit_does_what_the_estimator_does(run, points):
    settings = {"training.check_every": 30, "sampler.buffer": 400, "density.iterations": 10}
    labels = GEDI(2, max_iter=60, random_state=0, settings=settings).fit(points).labels_
    rows = rows_of((run / "labels.csv").read_text())
    assert [int(row["row"]) for row in rows] == list(range(80))
    assert [int(row["cluster"]) for row in rows] == labels.tolist()


def test_fit_without_a_number_chooses_one_and_says_why(here):
    corners = np.repeat([[0.0, 0.0], [9.0, 0.0], [0.0, 9.0]], 40, axis=0)
    np.save("x.npy", corners + np.random.default_rng(0).normal(size=(120, 2)))
    asked = ("--set", "training.max_clusters=5", "--json", "--out", "r")
    content = json.loads(gedi("fit", "x.npy", *SHORT, *asked).stdout)
    assert content["n_clusters"] == 3
    assert [number["n_clusters"] for number in content["choice"]["numbers"]] == [2, 3, 4, 5]
    assert config_of(Path("r"))["choice"] == content["choice"]
    gedi("report", "r")
    page = Path("r/report.html").read_text()
    assert content["choice"]["words"][1:] in page
    assert Path("r/figures/numbers.png").exists() and Path("r/figures/splits.png").exists()


def test_outliers_are_written_as_minus_1_with_p_values_and_reasons(here, points):
    x = np.concatenate([points, [[0.0, 50.0, 0.0]]])
    np.savetxt("x.csv", x, delimiter=",", header=",".join(NAMES), comments="")
    told = gedi("fit", "x.csv", "-k", 2, "--outliers", 0.05, "--out", "r", *SHORT).stderr
    rows = rows_of(Path("r/labels.csv").read_text())
    scores = np.array([float(row["outlier"]) for row in rows])
    assert rows[-1]["cluster"] == "-1" and scores.argmax() == len(points)
    assert float(rows[-1]["pvalue"]) == pytest.approx(2 / (len(x) + 1))
    assert rows[-1]["reason"].startswith(f"{NAMES[1]} 50 where similar rows have ")
    named = sum(row["cluster"] == "-1" for row in rows)
    assert named < 5 and f"{named} of {len(x)} rows are outliers: their cluster is -1" in told
    assert all(row["reason"] == "" for row in rows if row["cluster"] != "-1")
    assert f"{NAMES[1]} 50 where similar rows have" in gedi("explain", "r").stdout
    Path("r/labels.csv").unlink()  # a resumed run has the same level
    assert f"{named} of {len(x)} rows are outliers" in gedi("resume", "r").stderr
    assert rows_of(Path("r/labels.csv").read_text()) == rows
    np.savetxt("new.csv", points + 1e3, delimiter=",", header=",".join(NAMES), comments="")
    result = gedi("predict", "r", "new.csv", "--outliers", 0.05)
    assert {row["cluster"] for row in rows_of(result.stdout)} == {"-1"}
    assert "80 of 80 rows are outliers" in result.stderr


@pytest.mark.parametrize("change", ["weights.gen=0", "method=no-gen"])
def test_outliers_without_a_density_are_refused_before_the_fit(table, here, change):
    name, _, value = change.partition("=")
    how = ("--method", value) if name == "method" else ("--set", change)
    options = ("-k", 2, "--label-column", "kind", "--outliers", 0.05, *how)
    told = gedi("fit", table, *options, code=2).stderr.splitlines()
    assert told[-1] == "error: --outliers 0.05: this fit learns no density"
    assert not Path("gedi-runs").exists()
    gedi("fit", table, "-k", 2, "--label-column", "kind", *how, *SHORT, "--out", "r")
    told = gedi("predict", "r", table, "--outliers", 0.05, code=2).stderr.splitlines()
    assert told[-1].startswith("error: outliers: the model has learned no density")


def test_fit_with_json_prints_json_alone_with_nmi_and_ami(table, here):
    result = gedi("fit", table, "-k", 2, "--label-column", "kind", *SHORT, "--json", "--out", "r")
    content = json.loads(result.stdout)
    clusters = [row["cluster"] for row in rows_of((here / "r/labels.csv").read_text())]
    kinds = ["left"] * 40 + ["right"] * 40
    assert content["nmi"] == pytest.approx(normalized_mutual_info_score(kinds, clusters))
    assert content["ami"] == pytest.approx(adjusted_mutual_info_score(kinds, clusters))
    assert sum(content["cluster_sizes"]) == content["n_samples"] == 80
    assert result.stderr == ""


def test_settings_come_from_preset_then_set_then_options(points, here):
    np.save("x.npy", points)
    sets = ["--set", "training.seed=3", "--set", "weights.prior=[[0, 5], [1, 7.5]]"]
    options = ["--preset", "paper/toy", "--seed", 4]
    gedi("fit", "x.npy", "-k", 3, *SHORT, *sets, *options, "--set", "optimizer.learning_rate=1e-4")
    settings = config_of(here / "gedi-runs/x-1")["settings"]
    assert settings["n_clusters"] == 3
    assert settings["scaling"] == PRESETS["paper/toy"].values["scaling"] == "none"
    assert settings["training"]["seed"] == 4
    assert settings["weights"]["prior"] == [[0, 5], [1, 7.5]]
    assert settings["optimizer"]["learning_rate"] == 1e-4


def test_the_config_says_where_the_data_is(run, table):
    data = config_of(run)["data"]
    assert data["source"] == str(table)
    assert data["label_column"] == "kind"
    assert data["columns"] == NAMES


# --- predict, sample ----------------------------------------------------------------------------


def test_predict_in_a_pipe_is_csv(run, table, model, points):
    result = gedi("predict", run, table)
    rows = rows_of(result.stdout)
    assert list(rows[0]) == ["row", "cluster", "probability", "outlier"]
    assert [int(row["cluster"]) for row in rows] == model.predict(points).tolist()
    assert result.stderr == ""


def test_predict_writes_files_by_their_ending(run, table, model, points, here):
    labels, p = model.predict(points), model.predict_proba(points)
    result = gedi("predict", run, table, "--out", "a.csv")
    assert result.stdout == "" and "80 rows written to a.csv" in result.stderr
    assert [int(r["cluster"]) for r in rows_of(Path("a.csv").read_text())] == labels.tolist()
    assert gedi("predict", run, table, "--out", "a.npy", "-q").output == ""
    assert np.load("a.npy").tolist() == labels.tolist()
    gedi("predict", run, table, "--proba", "--out", "p.npy")
    np.testing.assert_allclose(np.load("p.npy"), p, rtol=1e-6)
    content = json.loads(gedi("predict", run, table, "--proba", "--json").stdout)
    assert content["cluster"] == labels.tolist()
    np.testing.assert_allclose(np.transpose([content["p0"], content["p1"]]), p, rtol=1e-6)
    result = gedi("predict", run, table, "--out", "b.parquet", "--json")
    assert json.loads(result.stdout) == {"out": "b.parquet", "rows": 80}
    assert pd.read_parquet("b.parquet")["cluster"].tolist() == labels.tolist()
    assert sorted(os.listdir()) == ["a.csv", "a.npy", "b.parquet", "p.npy"]


@pytest.mark.parametrize("kind", ["log_density", "gradient_norm", "confidence"])
def test_predict_adds_the_scores_of_the_estimator(run, table, model, points, kind, here):
    expected = model.score_samples(points, kind)
    rows = rows_of(gedi("predict", run, table, "--score", kind, "--proba").stdout)
    np.testing.assert_allclose([float(row[kind]) for row in rows], expected, rtol=1e-5)
    p = np.array([[float(row["p0"]), float(row["p1"])] for row in rows])
    np.testing.assert_allclose(p, model.predict_proba(points), rtol=1e-6)
    gedi("predict", run, table, "--score", kind, "--out", "s.npy")
    np.testing.assert_allclose(np.load("s.npy"), expected, rtol=1e-5)


def test_columns_are_found_by_name_among_others_and_in_any_order(run, table, here, points):
    expected = gedi("predict", run, table).stdout
    lines = [f"{c},note {i},{a},{b}" for i, (a, b, c) in enumerate(points)]
    Path("other.csv").write_text("\n".join(["depth,note,width,height", *lines]) + "\n")
    assert gedi("predict", run, "other.csv").stdout == expected
    plain = [",".join(map(str, row)) for row in points]
    Path("plain.csv").write_text("\n".join(plain) + "\n")
    assert gedi("predict", run, "plain.csv").stdout == expected
    frame = pd.DataFrame(points, columns=NAMES).assign(note="text")[["note", *NAMES[::-1]]]
    frame.to_parquet("other.parquet")
    assert gedi("predict", run, "other.parquet").stdout == expected


def test_a_model_file_will_do_for_a_run(run, points, here):
    np.save("x.npy", points)
    file = run / "model.safetensors"
    assert gedi("predict", file, "x.npy").stdout == gedi("predict", run, "x.npy").stdout


def test_sample_follows_the_seed_and_names_the_columns(run, model, here):
    arguments = ["sample", run, "-n", 5, "--steps", 20, "--seed", 7]
    text = gedi(*arguments).stdout
    points, labels = model.sample(5, steps=20, random_state=7)
    rows = rows_of(text)
    assert list(rows[0]) == [*NAMES, "cluster"]
    np.testing.assert_allclose([[float(row[n]) for n in NAMES] for row in rows], points)
    assert [int(row["cluster"]) for row in rows] == labels.tolist()
    content = json.loads(gedi(*arguments, "--json").stdout)
    np.testing.assert_allclose(np.transpose([content[name] for name in NAMES]), points)
    gedi(*arguments, "--out", "new.npy")
    np.testing.assert_allclose(np.load("new.npy"), points)
    other = gedi(*arguments[:-1], 8).stdout
    assert other != text


def test_many_refused_rows_of_a_sample_are_printed(run, monkeypatch):
    few = lambda self, rows, free=None: np.arange(len(rows)) % 4 > 0  # noqa: E731
    monkeypatch.setattr("gedilearn.data.rules.Rules.broken", few)
    assert "drawn rows were refused" in gedi("sample", run, "-n", 20).stderr


def test_given_columns_of_a_sample_are_as_asked(run, model, here):
    low, high = (model.result_.pool[:, 0].quantile(q).item() for q in (0.3, 0.6))
    low, high = model.scaling_.undo(np.array([[low] * 3, [high] * 3]))[:, 0]
    arguments = ["sample", run, "-n", 5, "--given", f"{NAMES[0]}={low}:{high}"]
    rows = rows_of(gedi(*arguments).stdout)
    assert len(rows) == 5 and all(low <= float(row[NAMES[0]]) <= high for row in rows)
    for wrong, words in (
        ("width", "--given width: write it as COLUMN=VALUE"),
        ("wide=3", "no column 'wide'"),
        ("width=1e9", "too rare (effective sample size 0"),
    ):
        assert words in gedi(*arguments[:-1], wrong, code=2).stderr


def test_images_are_fitted_from_a_folder_and_sampled_to_npy_only(here):
    rng = np.random.default_rng(0)
    for k in range(12):
        Path(f"im/{k % 2}").mkdir(parents=True, exist_ok=True)
        pixels = rng.integers(0, 60, (8, 8)) + 180 * (k % 2)
        Image.fromarray(pixels.astype(np.uint8)).save(f"im/{k % 2}/{k}.png")
    gedi("fit", "im", "-k", 2, "--set", "training.max_iter=2", "--set", "density.iterations=1")
    run = Path("gedi-runs/im-1")
    assert len(rows_of(gedi("predict", run, "im").stdout)) == 12
    sample = ["sample", run, "-n", 3, "--steps", 2]
    for where in ([], ["--json"], ["--out", "x.csv"]):
        assert "--out FILE.npy" in gedi(*sample, *where, code=2).stderr
    gedi(*sample, "--out", "x.npy")
    assert np.load("x.npy").shape == (3, 1, 8, 8)


# --- resume -------------------------------------------------------------------------------------


@pytest.fixture
def interrupted(points, here, monkeypatch) -> Path:
    """A run that Ctrl-C ended half way."""
    np.save("x.npy", points)
    metric = RunDirectory.add_metrics

    def press_ctrl_c(self, row):
        metric(self, row)
        os.kill(os.getpid(), signal.SIGINT)

    with monkeypatch.context() as patch:
        patch.setattr(RunDirectory, "add_metrics", press_ctrl_c)
        result = gedi("fit", "x.npy", "-k", 3, *SHORT, "--out", "my run", code=130)
    last = result.stderr.splitlines()[-1]
    assert last == "interrupted: continue with gedi resume 'my run'"
    assert result.stdout == ""
    refused = gedi("predict", "my run", "x.npy", code=2).stderr
    assert "is not finished: gedi resume 'my run'" in refused
    return Path("my run")


def test_a_resumed_run_equals_one_without_interruption(interrupted):
    resumed = json.loads(gedi("resume", interrupted, "--json").stdout)
    whole = json.loads(gedi("fit", "x.npy", "-k", 3, *SHORT, "--json", "--out", "whole").stdout)
    for key in ("bound_gap", "cluster_sizes", "iterations", "verdict"):
        assert resumed[key] == whole[key]
    assert resumed["iterations"] == 60
    assert resumed["density"] == whole["density"] and resumed["density"]["weight"] >= 0
    labels = [Path(run, "labels.csv").read_text() for run in ("my run", "whole")]
    assert labels[0] == labels[1]


def test_moved_data_is_asked_for_and_taken(interrupted):
    Path("x.npy").rename("y.npy")
    refusal = gedi("resume", interrupted, code=2).stderr
    assert "is no longer at" in refusal
    assert "--data DATA" in refusal
    assert "my run" in gedi("resume", interrupted, "--data", "y.npy").stdout
    Path("my run/profile.json").unlink()
    assert "profile.json is damaged" in gedi("explain", interrupted, code=2).stderr


def test_other_data_is_refused(interrupted, points):
    np.save("z.npy", points + 1)
    assert "other data" in gedi("resume", interrupted, "--data", "z.npy", code=2).stderr


def test_a_finished_run_is_read_back(run):
    before = (run / "model.safetensors").stat().st_mtime_ns
    result = gedi("resume", run, "--json")
    assert result.stderr == f"{run} is finished already\n"
    summary = json.loads((run / "summary.json").read_text())
    assert json.loads(result.stdout)["bound_gap"] == summary["bound_gap"]
    assert (run / "model.safetensors").stat().st_mtime_ns == before


# --- the rest -----------------------------------------------------------------------------------


def test_reproduce_landscape_shows_and_writes_the_table(here):
    result = gedi("reproduce", "landscape", "--out", "tables")
    assert "Table 1" in result.stdout
    assert "| GEDI | Yes: " in Path("tables/landscape.md").read_text()
    assert gedi("reproduce", "landscape", "-q").stdout == ""


def test_settings_lists_every_setting_with_default_and_meaning():
    rows = {row["setting"]: row for row in json.loads(gedi("settings", "--json").stdout)}
    assert {name: row["meaning"] for name, row in rows.items()} == known_paths()
    images = {name: row["for images"] for name, row in rows.items() if "for images" in row}
    assert images == json.loads(json.dumps(IMAGES))
    lines = gedi("settings").stdout.splitlines()
    assert [line.split(" = ")[0] for line in lines] == list(rows)
    assert f"training.seed = 0: {known_paths()['training.seed']}" in lines


def test_settings_lists_the_presets_and_what_each_changes():
    listed = gedi("settings", "--presets").stdout.splitlines()
    assert listed == [f"{name}: {PRESETS[name].about}" for name in PRESETS]
    rows = json.loads(gedi("settings", "paper/toy", "--json").stdout)
    values = {row["setting"]: row["value"] for row in rows}
    assert values["weights.inv"] == PRESETS["paper/toy"].values["weights"]["inv"]
    assert "did you mean 'paper/toy'" in gedi("settings", "papr/toy", code=2).stderr


def test_a_report_is_written_into_the_run(run, monkeypatch):
    told = gedi("report", run).stdout
    page = Path(run, "report.html")
    assert str(page) in told and "verdict" in page.read_text().lower()
    assert Path(run, "figures", "training.png").exists()
    opened = []
    monkeypatch.setattr("gedilearn.report.page.write_report", lambda *_: page)
    monkeypatch.setattr("webbrowser.open", opened.append)
    gedi("report", run, "--open")
    assert opened == [page.absolute().as_uri()]


def test_explain_says_what_the_model_says_of_the_data_of_the_fit(run, model, points):
    expected = model.explain(points, NAMES)
    assert gedi("explain", run).stdout == f"{expected}\n"
    assert "cluster 0: " in str(expected) and "width" in str(expected)
    content = json.loads(gedi("explain", run, "--json").stdout)
    assert [c["size"] for c in content["clusters"]] == [c.size for c in expected.clusters]
    assert content["columns"] == NAMES


def test_explain_shows_the_groups_of_clusters_as_a_tree(tmp_path):
    rng, y = np.random.default_rng(0), np.repeat(np.arange(8), 30)
    x = np.stack([10 * (y // 4) + 3 * (y % 2), 10 * (y // 2 % 2) + 3 * (y % 2)], axis=1)
    x = x + 0.3 * rng.normal(size=x.shape)
    np.save(tmp_path / "x.npy", x)
    gedi(
        "fit", tmp_path / "x.npy", "-k", 8, "--set", "weights.gen=0", "-q", "--out", tmp_path / "r"
    )
    content = json.loads(gedi("explain", tmp_path / "r", "--levels", "--json").stdout)
    assert list(content["groups"]) == ["4", "8"] and len(content["merges"]) == 7
    lines = gedi("explain", tmp_path / "r", "--levels").stdout.splitlines()
    assert lines[0] == "8 clusters, 240 rows"
    assert [line[4:] for line in lines if "clusters, 60" in line] == ["2 clusters, 60 rows"] * 4
    # Below each group are the two clusters of the same place.
    model, below = GEDI.load(tmp_path / "r" / "model.safetensors"), {}
    for line in lines[1:]:
        if " clusters, " in line:
            group = below.setdefault(len(below), set())
        elif found := re.search(r"── cluster (\d+), 30 rows: ", line):
            group |= set((y[model.labels_ == int(found[1])] // 2).tolist())
    assert sorted(below.values(), key=min) == [{0}, {1}, {2}, {3}]


def test_a_run_without_a_hierarchy_says_so_on_one_line(run, tmp_path):
    other = Path(shutil.copytree(run, tmp_path / "run"))
    profile = json.loads((other / "profile.json").read_text())
    (other / "profile.json").write_text(json.dumps(profile | {"merges": []}))
    assert "fit anew" in gedi("explain", other, "--levels", code=2).stderr
    (other / "profile.json").write_text(json.dumps(profile | {"merges": [[0, 0, 1, 2]]}))
    assert "profile.json is damaged" in gedi("explain", other, "--levels", code=2).stderr


def test_explain_prints_no_character_that_a_terminal_would_obey(run, tmp_path):
    other = Path(shutil.copytree(run, tmp_path / "run"))
    profile = other / "profile.json"
    profile.write_text(profile.read_text().replace("width", "wi\\u001b[31mdth"))
    shown = gedi("explain", other).stdout
    assert "\x1b" not in shown and "wi [31mdth" in shown
