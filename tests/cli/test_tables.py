"""Tables as people have them, through the command line."""

from __future__ import annotations

import csv
import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import yaml
from sklearn.cluster import KMeans
from sklearn.impute import KNNImputer, SimpleImputer
from sklearn.metrics import normalized_mutual_info_score
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import messy
from gedilearn import GEDI
from gedilearn.data.columns import Cells, Columns
from gedilearn.data.files import as_frame
from gedilearn.errors import InputError, Parameter
from helpers import run_command as gedi

SHORT = ["--set", "training.max_iter=20", "--set", "weights.gen=0"]
MIXED = messy.RECIPES["mixed"]


@pytest.fixture
def here(tmp_path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """A table, new rows for it, and a finished run; not to be changed."""
    path = tmp_path_factory.mktemp("tables")
    messy.write(messy.make(MIXED, 0)[0], path / "people.csv")
    messy.write(messy.new_rows(MIXED, 1), path / "new.csv")
    gedi("fit", path / "people.csv", "-k", 3, "--out", path / "run", *SHORT, "--quiet")
    return path


def rows_of(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(text.splitlines()))


@pytest.mark.parametrize("name", messy.RECIPES)
def test_messy_tables_are_fitted_by_one_command_and_new_rows_predicted(name, here):
    recipe = replace(messy.RECIPES[name], rows=150)
    table, _ = messy.make(recipe, 0)
    messy.write(table, Path("table.csv"))
    messy.write(messy.new_rows(recipe, 1), Path("new.csv"))
    result = gedi("fit", "table.csv", "-k", recipe.clusters, "-v", "--out", "run", *SHORT)
    said = result.stderr
    assert result.stdout.startswith(f"table.csv: {recipe.rows} rows, ")
    ids = [column for column in table if column.endswith("_id")]
    for column in ids:
        assert f"{column} (" in said and "taken for an ID" in said
    for column in ("country", "measure 0 again"):
        assert f"{column} (" in said.partition("left out: ")[2]
    rows = rows_of(Path("run/labels.csv").read_text())
    assert list(rows[0]) == ["row", *ids, "cluster", "probability", "trust"]
    for column in ids:
        assert [row[column] for row in rows] == table[column]
    predicted = rows_of(gedi("predict", "run", "new.csv").stdout)
    assert [int(row["row"]) for row in predicted] == list(range(recipe.rows))
    assert {int(row["cluster"]) for row in predicted} <= set(range(recipe.clusters))
    again = GEDI.load("run/model.safetensors").predict_proba(pd.read_csv("new.csv"))
    np.testing.assert_allclose([float(row["probability"]) for row in predicted], again.max(1))


def test_what_was_taken_for_what_is_said_and_can_be_changed(folder, here, monkeypatch):
    people, encoded = folder / "people.csv", []
    found_out = Columns.of
    monkeypatch.setattr(Columns, "of", lambda *given: encoded.append(1) or found_out(*given))
    options = ["--drop", "noise 0,date 0", "--categorical", "truth 0", "--set", "table.impute=mean"]
    options += ["--id-column", "country", "--drop", "text_id"]
    result = gedi("fit", people, "-k", 3, *SHORT, *options, "--json", "-v")
    assert encoded == [1]  # once
    lines = [line.strip() for line in result.stderr.splitlines() if "reading" not in line]
    assert lines[0].startswith("number: measure 0 (84 missing), measure 1")
    assert lines[1].startswith("category: told 0 (4 values, 79 missing), told 1")
    content = json.loads(result.stdout)
    kinds = content["columns"]
    assert kinds["noise 0"] == kinds["date 0"] == kinds["text_id"] == "drop"
    assert kinds["truth 0"] == "category" and kinds["country"] == "id"
    table = yaml.safe_load(Path(content["run"], "config.yaml").read_text())["settings"]["table"]
    assert table["impute"] == "mean" and table["kinds"]["country"] == "id"
    only = ["--columns", "measure 0,measure 1", "--numeric", "noise 0", "--json"]
    content = json.loads(gedi("fit", people, "-k", 3, *SHORT, *only).stdout)
    numbers = [name for name, kind in content["columns"].items() if kind == "number"]
    assert numbers == ["measure 0", "measure 1", "noise 0"]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--drop", "noize 0"], "no column 'noize 0' (did you mean 'noise 0'?)"),
        (["--set", "table.impute=best"], "table.impute='best'"),
        (
            ["--numeric", "told 0"],
            "column 'told 0': 'A1' in row 0 (counted from 0) is not a number; fix the cell, or set "
            "the column's type in the fit: --categorical 'told 0'",
        ),
        (["--columns", "country"], "no column is of use"),
        (["--set", "table.kinds={told 0: what}"], "table.kinds"),
    ],
)
def test_wrong_options_are_one_line(folder, here, options, words):
    result = gedi("fit", folder / "people.csv", "-k", 3, *SHORT, *options, code=2)
    lines = result.stderr.splitlines()
    assert words in lines[-1] and not [line for line in lines[:-1] if "reading" not in line]
    assert not list(here.iterdir())


@pytest.mark.parametrize(
    ("parameter", "words"),
    [
        (Parameter("table.kinds", {"a": "drop", "b c": "id"}), "--drop a --id-column 'b c'"),
        (Parameter("table.impute", "mean"), "--set table.impute=mean"),
        (Parameter("size", (30, 40)), "--size 40x30"),
        (Parameter("broken", "skip"), "--skip-broken"),
        (Parameter("separator", "comma"), "--separator comma"),
        (Parameter("label_column"), "--label-column"),
        (Parameter("n_clusters", 1), "--clusters 1"),
        (Parameter("directory", "DIR"), "--from DIR"),
    ],
)
def test_an_error_of_the_library_names_the_option(parameter, words, monkeypatch):
    def refuse(*arguments, **values):
        raise InputError("give another ", parameter, ", please")

    monkeypatch.setattr("gedilearn.data.load.load", refuse)
    said = gedi("fit", "x.csv", "--quiet", code=2).stderr
    assert said == f"error: give another {words}, please\n"


def test_options_for_tables_are_refused_for_arrays(here):
    np.save("x.npy", np.random.default_rng(0).normal(size=(30, 2)))
    assert "need a table" in gedi("fit", "x.npy", "-k", 2, "--drop", "a", code=2).stderr


def test_columns_are_kept_on_request_in_csv_and_parquet(folder, here):
    run, new = folder / "run", folder / "new.csv"
    original = pd.read_csv(new)
    gedi("predict", run, new, "--keep-columns", "--out", "o.csv")
    gedi("predict", run, new, "--keep-columns", "--out", "o.parquet")
    for frame in (pd.read_csv("o.csv"), pd.read_parquet("o.parquet")):
        assert (
            frame[list(original)]
            .astype(str)
            .replace("None", "nan")
            .equals(original.astype(str).replace("None", "nan"))
        )
        assert frame["cluster"].isin(range(3)).all()


def test_a_parquet_file_gives_what_its_csv_gives(folder, here):
    frame = pd.read_csv(folder / "people.csv", parse_dates=["date 0"])
    frame.to_parquet("people.parquet")
    gedi("fit", "people.parquet", "-k", 3, "--out", "run", *SHORT)
    assert Path("run/labels.csv").read_text() == (folder / "run/labels.csv").read_text()
    pd.read_csv(folder / "new.csv", parse_dates=["date 0"]).to_parquet("new.parquet")
    expected = gedi("predict", folder / "run", folder / "new.csv").stdout
    assert gedi("predict", folder / "run", "new.parquet").stdout == expected


def test_ids_are_written_as_they_were_in_the_file(here):
    rng = np.random.default_rng(0)
    ids = [f"{k:08}" for k in rng.choice(10**8, 60, replace=False)]
    lines = [f"{key},{a},{b}" for key, (a, b) in zip(ids, rng.normal(size=(60, 2)), strict=True)]
    Path("x.csv").write_text("\n".join(["customer_id,a,b", *lines]) + "\n")
    gedi("fit", "x.csv", "-k", 2, "--out", "run", *SHORT)
    assert [row["customer_id"] for row in rows_of(Path("run/labels.csv").read_text())] == ids


def test_codes_of_digits_are_categories_by_their_text(here):
    rng = np.random.default_rng(0)
    zips = rng.choice(["01067", "80331"], 60)
    lines = [f"{z},{a},{b}" for z, (a, b) in zip(zips, rng.normal(size=(60, 2)), strict=True)]
    Path("x.csv").write_text("\n".join(["zip,a,b", *lines]) + "\n")
    gedi("fit", "x.csv", "-k", 2, "--categorical", "zip", "--out", "run", *SHORT)
    columns = GEDI.load("run/model.safetensors").columns_
    assert columns.names == ["zip=01067", "zip=80331", "a", "b"]
    np.testing.assert_allclose(
        [float(row["probability"]) for row in rows_of(gedi("predict", "run", "x.csv").stdout)],
        [float(row["probability"]) for row in rows_of(Path("run/labels.csv").read_text())],
    )


def test_an_interrupted_fit_of_a_table_is_resumed(folder, here, monkeypatch):
    people = folder / "people.csv"
    options = ["-k", 3, *SHORT, "--set", "training.check_every=5", "--drop", "noise 0"]
    gedi("fit", people, *options, "--out", "whole")

    def interrupted(*arguments, **values):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("gedilearn.estimator.GEDI.adopt", interrupted)
        gedi("fit", people, *options, "--out", "run", code=130)
    gedi("resume", "run")
    assert Path("run/labels.csv").read_text() == Path("whole/labels.csv").read_text()


def test_a_table_is_sampled_scored_diagnosed_evaluated_and_reported(folder, here):
    people, new = folder / "people.csv", folder / "new.csv"
    short = ["--set", "training.max_iter=20", "--set", "density.iterations=10"]
    gedi("fit", people, "-k", 3, "--out", "run", *short, "--set", "density.base=none")
    rows = rows_of(gedi("sample", "run", "-n", 5).stdout)
    assert {row["told 0"] for row in rows} <= {"A0", "A1", "A2", "A3"}
    assert all(row["date 0"][:2] == "20" for row in rows) and "text_id" not in rows[0]
    gedi("sample", "run", "-n", 5, "--out", "s.npy")
    assert np.load("s.npy").shape == (5, GEDI.load("run/model.safetensors").columns_.width)
    found = rows_of(gedi("predict", "run", new, "--score", "log_density").stdout)
    assert all(np.isfinite(float(row["log_density"])) for row in found)
    options = ["--samples", 0, "--ood", f"new={new}", "--json"]
    assert "new" in json.loads(gedi("evaluate", "run", *options).stdout)["ood"]
    gedi("report", "run")


def test_a_number_of_clusters_is_chosen_for_a_table(folder, here):
    options = ("--drop", "date 0,told 0", "--max", 4, "--json")
    told = json.loads(gedi("choose", folder / "people.csv", *options).stdout)
    assert [row["n_clusters"] for row in told["numbers"]] == [2, 3, 4]
    fit = ("--set", "training.max_clusters=4", "--set", "weights.gen=0", "--json")
    fitted = gedi("fit", folder / "people.csv", "--drop", "date 0,told 0", *fit).stdout
    assert json.loads(fitted)["choice"]["numbers"] == told["numbers"]


def test_labels_of_text_are_set_aside(here):
    table, y = messy.make(MIXED, 0)
    messy.write(table | {"kind": [f"k{label}" for label in y]}, Path("t.csv"))
    options = ["--label-column", "kind", "--json"]
    content = json.loads(gedi("fit", "t.csv", "-k", 3, *SHORT, *options).stdout)
    assert "nmi" in content and "kind" not in content["columns"]
    table["kind"] = ["", *["a"] * 399]
    messy.write(table, Path("u.csv"))
    assert "row 0" in gedi("fit", "u.csv", "-k", 3, *SHORT, *options, code=2).stderr


def test_a_model_fitted_on_commas_predicts_on_semicolons_and_the_reverse(folder, here):
    for name in ("people", "new"):
        frame = pd.read_csv(folder / f"{name}.csv")
        frame.to_csv(f"{name}.csv", index=False, sep=";", decimal=",", encoding="cp1252")
    expected = gedi("predict", folder / "run", folder / "new.csv").stdout
    assert "--decimal comma" in gedi("predict", folder / "run", "new.csv", code=2).stderr
    result = gedi("predict", folder / "run", "new.csv", "--decimal", "comma")
    assert result.stdout == expected
    gedi("fit", "people.csv", "-k", 3, "--out", "run", *SHORT, "--decimal", ",")
    assert Path("run/labels.csv").read_text() == (folder / "run/labels.csv").read_text()
    assert gedi("predict", "run", folder / "new.csv").stdout == expected
    data = yaml.safe_load(Path("run/config.yaml").read_text())["data"]
    assert data["decimal"] == "," and "separator" not in data
    gedi("evaluate", "run", "--samples", 0, "--probe", "none")
    gedi("predict", "run", "people.csv", code=2)
    found = rows_of(gedi("predict", "run", "people.csv", "--decimal", "comma").stdout)
    labels = rows_of(Path("run/labels.csv").read_text())
    assert [row["cluster"] for row in found] == [row["cluster"] for row in labels]
    asked = ["--test", "people.csv", "--decimal", ",", "--samples", 0, "--probe", "none"]
    gedi("evaluate", "run", *asked)
    wrong = gedi("fit", "people.csv", "-k", 2, "--separator", ":", *SHORT, code=2).stderr
    assert "--separator ':': give one of" in wrong


def best_of_k_means(table: messy.Cells, y: np.ndarray, model: GEDI) -> float:
    """The NMI of k-means on the best of common preprocessings of the same columns."""
    frame = as_frame(pd.DataFrame(table))
    used = {each.name: each.kind for each in model.columns_.used}
    numbers = np.column_stack(
        [
            Cells.read(frame[name], "", kind).values
            for name, kind in used.items()
            if kind != "category"
        ]
    )
    words = frame[[name for name, kind in used.items() if kind == "category"]].astype(object)
    scores = []
    for imputer in (SimpleImputer(), SimpleImputer(strategy="median"), KNNImputer()):
        scaled = StandardScaler().fit_transform(imputer.fit_transform(numbers))
        encoded = [scaled]
        if words.shape[1]:
            filled = SimpleImputer(strategy="most_frequent").fit_transform(
                words.where(words.notna(), np.nan)
            )
            hot = OneHotEncoder(sparse_output=False, min_frequency=5).fit_transform(filled)
            both = (hot, StandardScaler().fit_transform(hot))
            encoded = [np.hstack([scaled, block]) for block in both]
        for points in encoded:
            found = KMeans(len(set(y)), n_init=10, random_state=0).fit_predict(points)
            scores.append(normalized_mutual_info_score(y, found))
    return max(scores)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [5, 12])
@pytest.mark.parametrize("name", messy.RECIPES)
def test_clusters_of_messy_tables_are_about_as_good_as_those_of_k_means(name, seed, here):
    table, y = messy.make(messy.RECIPES[name], seed)
    messy.write(table, Path("t.csv"))
    no_density = ["--set", "weights.gen=0", "--quiet"]
    gedi("fit", "t.csv", "-k", messy.RECIPES[name].clusters, "--out", "run", *no_density)
    model = GEDI.load("run/model.safetensors")
    ours = normalized_mutual_info_score(y, model.labels_)
    assert ours > best_of_k_means(table, y, model) - 0.05


def test_errors_in_new_rows_name_their_file(folder, here):
    new = pd.read_csv(folder / "new.csv", dtype=str)
    new.drop(columns="told 0").to_csv("few.csv", index=False)
    said = gedi("predict", folder / "run", "few.csv", code=2).stderr
    assert said.startswith("error: few.csv: no column 'told 0'")
    new.assign(**{"date 0": "soon"}).to_csv("odd.csv", index=False)
    said = gedi("predict", folder / "run", "odd.csv", code=2).stderr
    assert said.startswith("error: odd.csv: column 'date 0': 'soon' in row 0")
    Path("one.csv").write_text("a,b\n1,x\n")
    said = gedi("fit", "one.csv", "-k", 2, code=2).stderr
    assert "one.csv: no column is of use" in said


def test_times_of_day_go_through_all_commands(here):
    rng = np.random.default_rng(0)
    late = np.arange(200) % 2
    minutes = (np.where(late, 20 * 60, 15 * 60) + rng.normal(0, 60, 200)).astype(int) % 1440
    closes = [f"{m // 60}:{m % 60:02}" for m in minutes]
    frame = pd.DataFrame(
        {"closes": closes, "sales": rng.normal(5 * late), "b": rng.normal(size=200)}
    )
    frame.to_csv("shops.txt", sep="\t", index=False, encoding="utf-16")
    said = gedi("fit", "shops.txt", "-k", 2, "-v", "--out", "run", *SHORT).stderr
    assert "time: closes" in said
    words = gedi("explain", "run").stdout
    assert re.search(r"closes: mean \d\d:\d\d, others \d\d:\d\d", words)
    assert "later closes" in words and "earlier closes" in words
    Path("new.csv").write_text("b,sales,closes\n0,5,8:10 PM\n0,5,20:10\n0,,\n")
    found = rows_of(gedi("predict", "run", "new.csv").stdout)
    assert found[0]["probability"] == found[1]["probability"]
    made = rows_of(gedi("sample", "run", "-n", 3).stdout)
    assert all(re.fullmatch(r"\d\d:\d\d:00", row["closes"]) for row in made)
    gedi("report", "run")
    assert re.search(r'", \["\d\d:\d\d", ', Path("run/report.html").read_text())
