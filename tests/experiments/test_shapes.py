"""The table of shapes, on few points and with short training."""

from __future__ import annotations

import io
import json
import statistics

import numpy as np
import pytest
from rich.console import Console
from sklearn.cluster import KMeans
from sklearn.metrics import adjusted_mutual_info_score, normalized_mutual_info_score
from sklearn.preprocessing import StandardScaler
from typer.testing import CliRunner

from gedilearn.cli import app
from gedilearn.errors import InputError
from gedilearn.experiments import shapes
from gedilearn.experiments.runner import Runner
from gedilearn.experiments.shapes import EXPERIMENT, SHAPES
from gedilearn.presets import CHOSEN

SHORT = {
    "training.max_iter": 20,
    "training.check_every": 10,
    "optimizer.batch_size": 40,
    "weights.gen": 0.0,
}
SETS = ("moons-95-5", "blobs-4")


@pytest.fixture(scope="module")
def out(tmp_path_factory):
    return tmp_path_factory.mktemp("shapes")


@pytest.fixture(scope="module")
def rows(out):
    return shapes.run([3], SETS, runner=Runner(out), n=80, settings=SHORT)


def find(rows, data, method):
    (row,) = [r for r in rows if (r["data"], r["method"]) == (data, method)]
    return row


def made_up(nmi, seed=0, **others):
    row = {"data": "moons", "method": "gedi", "seed": seed, "scored": "fresh", "nmi": nmi}
    row |= {"ami": nmi - 0.01, "bayes_nmi": None, "found": 2, "gap": 0.001, "certified": True}
    row |= {"false_certificate": nmi < 0.95, "seconds": 1.0 + seed, "iterations": 500}
    return row | others


def test_every_method_has_a_row_and_unbalanced_moons_one_for_each_prior(rows):
    rivals = ["kmeans", "gmm", "spectral", "hdbscan"]
    priors = ["gedi", "gedi prior=auto", "gedi prior=given"]
    assert [r["method"] for r in rows if r["data"] == "moons-95-5"] == [*priors, *rivals]
    assert [r["method"] for r in rows if r["data"] == "blobs-4"] == ["gedi", *rivals]
    assert {r["seed"] for r in rows} == {3}
    assert json.loads(json.dumps(rows)) == rows


def test_methods_that_cannot_label_new_points_are_scored_on_the_training_points(rows):
    scored = {r["method"].split()[0]: r["scored"] for r in rows}
    assert scored == {
        "gedi": "fresh",
        "kmeans": "fresh",
        "gmm": "fresh",
        "spectral": "training",
        "hdbscan": "training",
    }


def test_a_row_is_what_scikit_learn_gives_by_hand(rows):
    train, fresh = SHAPES["moons-95-5"].draw(80, 3), SHAPES["moons-95-5"].draw(80, 1_000_003)
    assert not np.array_equal(train.x, fresh.x)
    scaler = StandardScaler().fit(train.x)
    kmeans = KMeans(2, n_init=10, random_state=3).fit(scaler.transform(train.x))
    labels = kmeans.predict(scaler.transform(fresh.x))
    row = find(rows, "moons-95-5", "kmeans")
    assert row["nmi"] == pytest.approx(normalized_mutual_info_score(fresh.y, labels))
    assert row["ami"] == pytest.approx(adjusted_mutual_info_score(fresh.y, labels))
    assert row["gap"] is row["certified"] is row["iterations"] is None


def test_gedi_says_its_gap_and_iterations(rows):
    row = find(rows, "blobs-4", "gedi")
    assert row["iterations"] == 20
    assert row["gap"] > 0 and row["certified"] is False and row["false_certificate"] is False


def test_the_best_possible_nmi_is_given_where_the_density_is_known(rows):
    # The centres are ten deviations apart.
    assert find(rows, "blobs-4", "gedi")["bayes_nmi"] == pytest.approx(1)
    assert find(rows, "moons-95-5", "gedi")["bayes_nmi"] is None


def test_finished_rows_are_not_run_again(rows, out, monkeypatch):
    calls = []
    monkeypatch.setattr(shapes, "fit", lambda *key: (calls.append(key), made_up(0.5))[1])
    assert shapes.run([3], SETS, runner=Runner(out), n=80, settings=SHORT) == rows
    assert calls == []


def test_a_line_cut_by_a_crash_is_run_again_and_the_others_are_not(rows, out, tmp_path):
    whole = (out / "rows.jsonl").read_text()
    (tmp_path / "config.json").write_text((out / "config.json").read_text())
    (tmp_path / "rows.jsonl").write_text(whole[:-30])
    told = []
    again = shapes.run(
        [3],
        SETS,
        runner=Runner(tmp_path, tell=lambda r, left: told.append((r, left))),
        n=80,
        settings=SHORT,
    )
    assert [(r["data"], r["method"], left) for r, left in told] == [("blobs-4", "hdbscan", 0)]
    assert [r["nmi"] for r in again] == [r["nmi"] for r in rows]
    lines = (tmp_path / "rows.jsonl").read_text().splitlines()
    assert [json.loads(line) for line in lines] == again


def test_rows_of_other_settings_are_not_mixed(rows, out):
    with pytest.raises(InputError, match="other n"):
        shapes.run([3], SETS, runner=Runner(out), n=81, settings=SHORT)
    with pytest.raises(InputError, match="other settings"):
        shapes.run([3], SETS, runner=Runner(out), n=80)


@pytest.mark.slow  # each process imports torch
def test_two_processes_give_the_rows_of_one(rows):
    asked = {"n": 80, "settings": SHORT}
    two = shapes.run([3], ["blobs-4"], ["gedi", "kmeans"], runner=Runner(workers=2), **asked)
    one = [find(rows, "blobs-4", "gedi"), find(rows, "blobs-4", "kmeans")]
    for a, b in zip(two, one, strict=True):
        assert {k: v for k, v in a.items() if k != "seconds"} == pytest.approx(
            {k: v for k, v in b.items() if k != "seconds"}
        )


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        ({"data": ["moon"]}, "'moon' .did you mean 'moons'"),
        ({"methods": ["kmean"]}, "'kmean' .did you mean 'kmeans'"),
        ({"seeds": []}, "at least one seed"),
        ({"runner": Runner(workers=0)}, "workers=0"),
    ],
)
def test_what_cannot_be_run_is_refused_before_any_fit(asked, says):
    with pytest.raises(InputError, match=says):
        shapes.run(**({"seeds": [0]} | asked))


def test_the_summary_counts_and_takes_medians_over_seeds():
    nmi = [1.0, 0.99, 0.9, 0.989]
    rows = [made_up(v, seed, bayes_nmi=0.995) for seed, v in enumerate(nmi)]
    (table,) = shapes.tables(rows)
    (group,) = table.groups
    line = {column.head: column.cell(group) for column in table.columns}
    assert line["NMI >= 0.99"] == "2/4"
    assert (line["certified"], line["false certificates"]) == ("4/4", "1")
    assert line["median NMI"] == f"{statistics.median(nmi):.3f}"
    assert line["min NMI"] == "0.900"
    assert line["seconds"] == "2.50"
    assert line["best possible NMI"] == "0.995"


def test_markdown_says_what_the_rows_say():
    rows = [made_up(1.0), made_up(0.876, 1), made_up(0.5, method="hdbscan", scored="training")]
    rows[2] |= {"certified": None, "false_certificate": None, "gap": None}
    lines = EXPERIMENT.markdown(rows).splitlines()
    assert lines[2] == "| moons | GEDI | 2 | 1/2 | 0.938 | 0.876 | 0.928 |  | 2/2 | 1 | 1.50 |"
    assert lines[3] == "| moons | HDBSCAN* | 1 | 0/1 | 0.500 | 0.500 | 0.490 |  |  |  | 1.00 |"


def test_the_table_fits_a_terminal_of_80_columns():
    rows = [made_up(0.876, method="gedi prior=auto", data="circles-rotated")]
    rows += [made_up(0.5, s, method="spectral", data="circles-rotated") for s in range(20)]
    console = Console(file=io.StringIO(), width=80)
    EXPERIMENT.show(rows, console)
    lines = [line.split() for line in console.file.getvalue().splitlines()]
    first = ["circles-rotated", "GEDI", 'prior="auto"', "1", "0/1", "0.876", "0.876", "1/1", "1"]
    assert [*first, "1.00"] in lines
    assert ["SpectralClustering", "20", "0/20", "0.500", "0.500", "20/20", "20", "10.50"] in lines


def test_the_page_names_its_command_seeds_and_versions(rows, out):
    page = EXPERIMENT.page(out).text
    assert "gedi reproduce shapes --seeds 4 --data moons-95-5,blobs-4" in page
    assert CHOSEN["default"] in page
    assert "Seeds 3; 80 points" in page and "max_iter=20" in page and "scikit-learn " in page
    assert EXPERIMENT.markdown(rows) in page
    with pytest.raises(InputError, match="holds no rows"):
        EXPERIMENT.page(out / "elsewhere")


def test_the_command_keeps_rows_and_table_in_its_folder(tmp_path, monkeypatch):
    folder = tmp_path / "made"
    asked = ["--seeds", "1", "--data", "moons", "--methods", "kmeans,hdbscan", "--out", str(folder)]
    result = CliRunner().invoke(app, ["reproduce", "shapes", *asked])
    assert result.exit_code == 0, result.output
    assert "HDBSCAN*" in result.output
    assert len((folder / "rows.jsonl").read_text().splitlines()) == 2
    assert (folder / "shapes.md").read_text().startswith("| data | method |")
    result = CliRunner().invoke(app, ["reproduce", "shapes", "--data", "moonz"])
    assert result.exit_code == 2


# --- the tables among the sets


def test_only_the_first_twenty_columns_of_the_mixture_tell_the_clusters() -> None:
    data = shapes.mixture_50(2000, 0)
    means = np.stack([data.x[data.y == k].mean(0) for k in range(4)])
    assert data.x.shape == (2000, 50)
    assert np.abs(means[:, :20] - shapes.CENTRES_20).max() < 0.3
    assert np.abs(means[:, 20:]).max() < 0.3
    assert (shapes.likeliest_of_mixture(data.x) == data.y).mean() > 0.99


def test_one_point_in_fifty_is_an_outlier() -> None:
    data = shapes.outliers(1000, 0)
    far = (data.x < -5).any(1) | (data.x > 11).any(1)
    assert 10 <= far.sum() <= 20
    assert not far[20:].any()


def test_duplicates_come_in_fives_that_share_their_label() -> None:
    data = shapes.duplicates(100, 0)
    groups = data.x.reshape(20, 5, 2)
    assert (groups.max(1) - groups.min(1)).max() < 1e-3
    assert (data.y.reshape(20, 5) == data.y.reshape(20, 5)[:, :1]).all()


def test_tails_are_heavy_about_the_centres() -> None:
    data = shapes.heavy_tails(30_000, 0)
    away = data.x - shapes.CENTRES_TAILS[data.y]
    assert np.abs(np.median(away, axis=0)).max() < 0.05
    # Of Student's t with two degrees of freedom, 0.98 % lies beyond 10; of a Gaussian, nothing.
    assert np.mean(np.abs(away) > 10) == pytest.approx(0.0098, abs=0.002)


@pytest.mark.parametrize(("name", "shape"), [("iris", (150, 4)), ("breast-cancer", (569, 30))])
def test_real_tables_are_whole_whatever_number_is_asked_for(name: str, shape: object) -> None:
    assert SHAPES[name].draw(10, 3).x.shape == shape
