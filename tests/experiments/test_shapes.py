"""The table of shapes, on few points and with short training."""

from __future__ import annotations

import io
import json
import statistics
import sys
from types import SimpleNamespace

import numpy as np
import pytest
from rich.console import Console
from scipy.stats import spearmanr
from sklearn.cluster import AgglomerativeClustering, KMeans
from sklearn.metrics import adjusted_mutual_info_score, normalized_mutual_info_score
from sklearn.preprocessing import StandardScaler
from typer.testing import CliRunner

from gedilearn.cli import app
from gedilearn.errors import InputError
from gedilearn.estimator import GEDI
from gedilearn.experiments import shapes
from gedilearn.experiments.runner import Runner
from gedilearn.experiments.shape_sets import FAMILIES, SHAPES
from gedilearn.experiments.shapes import EXPERIMENT
from gedilearn.presets import CHOSEN

SHORT = {
    "training.max_iter": 20,
    "training.check_every": 10,
    "optimizer.batch_size": 40,
}
SETS = ("blobs-4", "moons-95-5")


@pytest.fixture(scope="module", autouse=True)
def without_genie():
    """Whether it is installed or not."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "genieclust", None)
        yield


@pytest.fixture(scope="module")
def out(tmp_path_factory):
    return tmp_path_factory.mktemp("shapes")


@pytest.fixture(scope="module")
def rows(out):
    return shapes.run([3], SETS, runner=Runner(out), n=80, settings=SHORT)


def find(rows, data, method):
    (row,) = [r for r in rows if (r["data"], r["method"]) == (data, method)]
    return row


def made_up(ami, seed=0, **others):
    row = {"data": "moons", "method": "gedi", "seed": seed, "scored": "fresh", "ami": ami}
    row |= {"nmi": None if ami is None else ami + 0.01, "best_ami": None, "found": 2, "gap": 0.001}
    row |= {"certified": True, "false_certificate": ami is None or ami < 0.95, "points": 1000}
    row |= {"grade": None, "trust": None, "seconds": 1.0 + seed, "iterations": 500}
    return row | others


def of_others(ami, method, **others):
    unsaid = {"certified": None, "false_certificate": None, "gap": None, "iterations": None}
    return made_up(ami, **({"method": method} | unsaid | others))


def lines_of(table):
    """Each line of a table by its first cell, as cells by their heads."""
    lines = [{c.head: c.cell(group) for c in table.columns} for group in table.groups]
    return {next(iter(line.values())): line for line in lines}


def test_every_method_has_a_row_and_unbalanced_moons_one_for_the_true_prior(rows):
    rivals = ["kmeans", "gmm", "spectral", "spectral-local", "hdbscan"]
    priors = ["gedi", "gedi prior=given"]
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
        "spectral-local": "training",
        "hdbscan": "training",
    }


def test_genie_is_left_out_with_one_line_where_it_is_not_installed():
    said = []
    runner = Runner(say=said.append)
    rows = shapes.run([0], ["blobs-4"], ["kmeans", "genie"], runner=runner, n=60)
    assert [row["method"] for row in rows] == ["kmeans"]
    assert len(said) == 1 and "gedi-learn[yardsticks]" in said[0]


def test_genie_has_rows_where_it_is_installed(monkeypatch):
    asked = []

    def genie(**options):
        asked.append(options)
        return AgglomerativeClustering(options["n_clusters"], linkage="single")

    monkeypatch.setitem(sys.modules, "genieclust", SimpleNamespace(Genie=genie))
    (row,) = shapes.run([0], ["blobs-4"], ["genie"], n=60)
    assert (row["scored"], row["ami"]) == ("training", pytest.approx(1))
    assert asked == [{"n_clusters": 4, "gini_threshold": 0.3}]


def test_locally_scaled_weights_are_those_of_a_loop_over_points():
    x = np.random.default_rng(0).normal(size=(40, 3))
    away = np.linalg.norm(x[:, None] - x, axis=-1)
    order = away.argsort(1)  # the first is the point itself
    expected = np.zeros((40, 40))
    for i in range(40):
        for j in order[i, 1:11]:
            scale = away[i, order[i, 7]] * away[j, order[j, 7]]
            expected[i, j] = expected[j, i] = np.exp(-(away[i, j] ** 2) / scale)
    assert shapes.locally_scaled(x).toarray() == pytest.approx(expected)


@pytest.mark.parametrize("data", ["coins-3", "blobs-rounded", "duplicates"])
def test_locally_scaled_weights_are_finite_where_points_are_equal(data):
    x = SHAPES[data].draw(200, 0).x
    for points in (x, np.zeros_like(x)):
        weights = shapes.locally_scaled(points).toarray()
        assert np.isfinite(weights).all() and (weights == weights.T).all() and weights.any()


def test_points_of_no_cluster_are_not_scored():
    (row,) = shapes.run([3], ["moons-in-noise"], ["kmeans"], n=200)
    train, fresh = (SHAPES["moons-in-noise"].draw(200, seed) for seed in (3, 1_000_003))
    scaler = StandardScaler().fit(train.x)
    labels = KMeans(2, n_init=10, random_state=3).fit(scaler.transform(train.x))
    labels = labels.predict(scaler.transform(fresh.x))[fresh.y >= 0]
    expected = adjusted_mutual_info_score(fresh.y[fresh.y >= 0], labels)
    assert row["ami"] == pytest.approx(expected)


def test_without_structure_gedi_alone_is_fitted_and_nothing_is_scored(monkeypatch):
    (row,) = shapes.run([0], ["coins-3"], n=60, settings=SHORT)
    assert row["method"] == "gedi"
    assert row["ami"] is row["nmi"] is row["best_ami"] is None
    assert row["certified"] is row["false_certificate"] is False

    class Sure(GEDI):
        def fit(self, X, y=None):
            super().fit(X)
            self.converged_, self.grade_ = True, "certified"
            return self

    monkeypatch.setattr(shapes, "GEDI", Sure)
    (row,) = shapes.run([0], ["coins-3"], n=60, settings=SHORT)
    assert row["certified"] is row["false_certificate"] is True
    assert row["grade"] == "certified" and 0 < row["trust"] < 1


def test_a_family_stands_for_its_sets():
    rows = shapes.run([0], ["wide", "moons"], ["kmeans"], n=60)
    assert [row["data"] for row in rows] == ["moons", *FAMILIES["wide"]]


def test_the_density_is_left_out_and_the_folder_says_so(rows, out):
    config = json.loads((out / "config.json").read_text())
    assert config["settings"] == {"weights.gen": 0.0} | SHORT


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
    assert 0 < row["gap"] < 0.002 and row["certified"] is True and row["false_certificate"] is False


def test_the_best_possible_ami_is_given_where_the_density_is_known(rows):
    # The centres are ten deviations apart.
    assert find(rows, "blobs-4", "gedi")["best_ami"] == pytest.approx(1)
    assert find(rows, "moons-95-5", "gedi")["best_ami"] is None


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
    assert [(r["data"], r["method"], left) for r, left in told] == [("moons-95-5", "hdbscan", 0)]
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
        same = a.keys() - {"seconds"}  # rows that are kept have their commit too
        assert {k: a[k] for k in same} == pytest.approx({k: b[k] for k in same})


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        ({"data": ["moon"]}, "'moon' .did you mean 'moons'"),
        ({"data": ["structurless"]}, "did you mean 'structureless'"),
        ({"methods": ["kmean"]}, "'kmean' .did you mean 'kmeans'"),
        ({"seeds": []}, "at least one seed"),
        ({"runner": Runner(workers=0)}, "workers=0"),
    ],
)
def test_what_cannot_be_run_is_refused_before_any_fit(asked, says):
    with pytest.raises(InputError, match=says):
        shapes.run(**({"seeds": [0]} | asked))


def test_a_line_counts_and_takes_medians_over_seeds():
    ami = [1.0, 0.95, 0.9, 0.949]
    rows = [made_up(v, seed, best_ami=0.995) for seed, v in enumerate(ami)]
    rows[0] |= {"grade": "certified", "trust": 0.5}
    rows[1] |= {"grade": "supported", "trust": 0.7}
    rows[2] |= {"grade": "certified", "trust": 0.9}
    line = lines_of(shapes.tables(rows)[-1])["moons"]
    assert line["AMI >= 0.95"] == "2/4"
    assert (line["certified"], line["false certificates"]) == ("4/4", "2")
    assert line["median AMI"] == f"{statistics.median(ami):.3f}"
    assert line["min AMI"] == "0.900"
    assert line["seconds"] == "2.50"
    assert line["best possible AMI"] == "0.995"
    assert (line["grades"], line["median trust"]) == ("certified 2, supported 1", "0.70")


def test_the_summary_counts_a_set_once_by_its_median():
    rows = [made_up(ami, seed) for seed, ami in enumerate((0.2, 0.96, 1.0))]
    rows += [made_up(0.4, data="rings"), made_up(0.71, data="iris"), made_up(None, data="coins-3")]
    rows += [of_others(0.5, "kmeans", data=name) for name in ("moons", "rings")]
    rows += [of_others(0.75, "kmeans", data="iris")]
    rows += [of_others(1.0, "genie"), of_others(0.5, "genie", data="rings")]
    summary = lines_of(shapes.tables(rows)[0])
    assert list(summary) == ["GEDI", "KMeans", "Genie"]
    ours = summary["GEDI"]
    assert (ours["sets"], ours["solved"]) == ("3", "1")
    assert ours["mean AMI"] == f"{(0.96 + 0.4 + 0.71) / 3:.3f}"
    assert ours["below KMeans"] == "1"  # rings; on iris it is 0.04
    assert ours["AMI less Genie's"] == "-0.070"  # of moons -0.04, of rings -0.10
    assert summary["KMeans"]["below KMeans"] == summary["Genie"]["AMI less Genie's"] == ""
    assert summary["Genie"]["below KMeans"] == "0"


def test_what_gedi_says_is_counted_without_structure_and_compared_with_ami_elsewhere():
    trust, ami = [0.1, 0.5, 0.4, 0.9], [0.2, 0.3, 0.99, 1.0]
    rows = [made_up(a, k, trust=t) for k, (a, t) in enumerate(zip(ami, trust, strict=True))]
    said = ["certified", "supported", "supported", "no structure found", "doubtful"]
    for seed, grade in enumerate(said):
        sure = grade == "certified"
        row = {"grade": grade, "certified": sure, "false_certificate": sure, "trust": 0.5}
        rows.append(made_up(None, seed, data="coins-3", **row))
    rows.append(of_others(0.5, "kmeans"))
    line = lines_of(shapes.tables(rows)[1])["GEDI"]
    assert line["certified without structure"] == "1/5"
    assert line["supported without structure"] == "2/5"
    assert (line["false certificates"], line["certificates"]) == ("3", "5")
    assert line["rank correlation of trust with AMI"] == f"{spearmanr(trust, ami)[0]:.2f}"
    assert line["the same of sets"] == ""  # there is one


def test_a_set_counts_once_in_the_rank_correlation_of_sets():
    found = {
        "moons": [(0.9, 0.9), (0.1, 0.8), (0.8, 1.0)],
        "rings": [(0.2, 0.3)],
        "iris": [(0.5, 0.2)],
    }
    rows = [
        made_up(ami, seed, data=name, trust=trust)
        for name, pairs in found.items()
        for seed, (trust, ami) in enumerate(pairs)
    ]
    line = lines_of(shapes.tables(rows)[1])["GEDI"]
    assert line["the same of sets"] == f"{spearmanr([0.6, 0.2, 0.5], [0.9, 0.3, 0.2])[0]:.2f}"


def test_what_was_not_measured_is_left_empty():
    rows = [made_up(0.5), made_up(0.7, 1)]
    line = lines_of(shapes.tables(rows)[1])["GEDI"]
    assert line["certified without structure"] == line["supported without structure"] == ""
    assert line["rank correlation of trust with AMI"] == ""
    none, alone = [made_up(None, data="coins-3")], [of_others(0.5, "kmeans")]
    assert [len(shapes.tables(some)) for some in (rows, none, alone)] == [3, 2, 2]


def test_markdown_says_what_the_rows_say():
    rows = [made_up(1.0), made_up(0.876, 1), of_others(0.5, "hdbscan", scored="training")]
    text = EXPERIMENT.markdown(rows)
    ours = "| moons | GEDI | 2 | 1/2 | 0.938 | 0.876 |  | 0.948 | 2/2 | 1 |  |  | 1.50 |"
    assert ours in text
    assert "| moons | HDBSCAN* | 1 | 0/1 | 0.500 | 0.500 |  | 0.510 |  |  |  |  | 1.00 |" in text
    assert "| GEDI | 1 | 0.938 | 0 |  |  |" in text


def test_the_tables_fit_a_terminal_of_80_columns():
    longest = max(SHAPES, key=len)
    rows = [made_up(-0.876, s, method="gedi prior=given", data=longest) for s in range(20)]
    rows += [made_up(0.5, s, method="spectral-local", data=longest) for s in range(20)]
    rows += [made_up(None, s, data=longest, grade="supported") for s in range(20)]
    console = Console(file=io.StringIO(), width=80)
    EXPERIMENT.show(rows, console)
    lines = [line.split() for line in console.file.getvalue().splitlines()]
    given = ["GEDI,", "true", "prior", "20", "0/20", "-0.876", "-0.876", "20/20", "20", "10.50"]
    assert given in lines
    local = ["Spectral,", "local", "20", "0/20", "0.500", "0.500", "20/20", "20", "10.50"]
    assert local in lines
    assert ["GEDI", "20/20", "20/20", "20", "20"] in lines


def test_the_page_names_its_command_seeds_and_versions(rows, out):
    page = EXPERIMENT.page(out).text
    assert "gedi reproduce shapes --seeds 4 --data blobs-4,moons-95-5" in page
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
    assert "| data | method |" in (folder / "shapes.md").read_text()
    result = CliRunner().invoke(app, ["reproduce", "shapes", "--data", "moonz"])
    assert result.exit_code == 2


def test_the_help_page_names_all_methods_and_families():
    help_page = CliRunner().invoke(app, ["reproduce", "shapes", "--help"], terminal_width=500)
    words = "".join(help_page.output.split())
    assert ",".join(shapes.METHODS) in words
    assert ",".join(FAMILIES).replace(",structureless", "orstructureless") in words
