"""Columns of tables: the kinds they are taken for, and the points that they become."""

from __future__ import annotations

import json
from datetime import date, time
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.impute import SimpleImputer
from sklearn.metrics import normalized_mutual_info_score
from sklearn.preprocessing import OneHotEncoder

import messy
from gedilearn import GEDI
from gedilearn.data.arrays import TWO_VALUED
from gedilearn.data.columns import OTHERS, Cells, Columns
from gedilearn.data.files import as_frame
from gedilearn.errors import InputError
from gedilearn.estimator import LeftOut
from gedilearn.graph.neighbours import distance_features
from gedilearn.settings import TableOptions as Options
from gedilearn.starts.choose import choose_start
from helpers import gedi

N = 300
QUICK = {"n_clusters": 2, "max_iter": 20, "w_gen": 0.0, "random_state": 0}


def table(**columns: Any) -> pd.DataFrame:
    """A frame of text, as a file has it."""
    made = {
        name: pd.Series([None if v is None else str(v) for v in values], dtype=object)
        for name, values in columns.items()
    }
    return as_frame(pd.DataFrame(made))


def fitted(frame: pd.DataFrame, **options: Any) -> Columns:
    columns = Columns.of(frame, Options(**options))
    assert columns is not None
    return columns


def kinds(frame: pd.DataFrame, **options: Any) -> dict[str, str]:
    return {each.name: each.kind for each in fitted(frame, **options).all}


# --- frames -------------------------------------------------------------------------------------


def mixed(seed: int = 0, n: int = 120) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "who": [f"C{k:04}" for k in range(n)],
            "age": pd.array(rng.integers(18, 80, n), dtype="Int64"),
            "height": np.where(rng.random(n) < 0.2, np.nan, rng.normal(5 * (np.arange(n) % 2))),
            "since": pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 900, n), "D"),
            "ok": rng.random(n) < 0.5,
            "at": [time(h, 30) for h in rng.integers(8, 18, n)],
            "city": np.where(rng.random(n) < 0.2, None, rng.choice(["Bonn", "Ulm"], n)),
            "zip": pd.Categorical(rng.integers(0, 3, n).astype(str)),
        }
    )


def polars(frame: pd.DataFrame) -> pl.DataFrame:
    columns = {
        name: [None if pd.isna(value) else value for value in frame[name].astype(object)]
        for name in frame.columns
    }
    return pl.DataFrame(columns, schema_overrides={"zip": pl.Categorical})


@pytest.mark.parametrize("library", [pa.Table.from_pandas, polars])
def test_frames_of_every_library_give_the_same_points(library):
    frame = as_frame(mixed())
    columns, other = fitted(frame), as_frame(library(mixed()))
    assert kinds(other) == {
        "who": "id",
        "age": "number",
        "height": "number",
        "since": "date",
        "ok": "boolean",
        "at": "time",
        "city": "category",
        "zip": "category",
    }
    assert fitted(other).all == columns.all
    np.testing.assert_array_equal(columns.transform(other), columns.transform(frame))


def vector_frames(vectors: np.ndarray) -> list[Any]:
    lists, fixed = vectors.tolist(), pa.list_(pa.float64(), vectors.shape[1])
    return [
        pd.DataFrame({"e": list(vectors)}),
        pl.DataFrame({"e": vectors}),
        pa.table({"e": pa.chunked_array([pa.array(lists[:2], fixed), pa.array(lists[2:], fixed)])}),
    ]


def test_vectors_of_one_length_are_columns():
    vectors = np.random.default_rng(0).normal(size=(40, 3))
    plain = GEDI(**QUICK).fit(vectors)
    for made in vector_frames(vectors):
        frame = as_frame(made)
        assert list(frame) == ["e[0]", "e[1]", "e[2]"]
        np.testing.assert_array_equal(frame.to_numpy(), vectors)
        np.testing.assert_array_equal(GEDI(**QUICK).fit(made).labels_, plain.labels_)
    frame = as_frame(pd.DataFrame({"e": list(vectors), "x": vectors[:, 0] ** 2}))
    assert fitted(frame, kinds={"e": "drop"}).names == ["x"]
    assert fitted(frame, columns=("e",)).names == ["e[0]", "e[1]", "e[2]"]
    ragged = as_frame(pd.DataFrame({"e": [[1.0], [1.0, 2.0]] * 5, "x": np.arange(10) ** 2 / 7}))
    assert kinds(ragged) == {"e": "category", "x": "number"}


# --- the estimator ------------------------------------------------------------------------------


def test_a_frame_is_fitted_saved_predicted_and_sampled_by_its_columns(tmp_path):
    frame = mixed()
    with pytest.warns(LeftOut, match="who .*taken for an ID"):
        model = gedi(2, max_iter=20, random_state=0, **{"density.iterations": 10}).fit(frame)
    assert model.feature_names_in_.tolist() == list(frame.columns)
    assert model.n_features_in_ == 8 and model.columns_.ids == ["who"]
    model.save(tmp_path / "m.safetensors")
    loaded = GEDI.load(tmp_path / "m.safetensors")
    new = mixed(1)
    new.loc[0, "city"] = "nowhere"
    new.loc[1, ["age", "height", "since", "city", "zip"]] = None
    some = new[["zip", "at", "height", "city", "age", "ok", "since"]]  # without the ID
    expected = model.predict_proba(polars(new))
    for rows in (new, some, new.to_numpy(dtype=object)):
        np.testing.assert_array_equal(loaded.predict_proba(rows), expected)
    with pytest.raises(InputError, match="X: no column 'height'"):
        loaded.predict(new.drop(columns="height"))
    with pytest.raises(InputError, match=r"column 'age': 'old' in row 0 .* is not a number"):
        loaded.predict(new.astype({"age": object}).assign(age=["old", *["1"] * 119]))
    rows, labels = model.sample(5, random_state=0)
    assert isinstance(rows, pd.DataFrame) and list(rows) == list(frame)[1:] and len(labels) == 5
    assert set(rows["city"]) <= {"Bonn", "Ulm"} and set(rows["zip"]) <= {"0", "1", "2"}
    assert rows["age"].dtype.kind == "i" and isinstance(rows["at"][0], time)
    assert (model.predict(rows) >= 0).all()


def test_a_frame_of_numbers_is_fitted_as_its_array_is():
    rng = np.random.default_rng(0)
    x = np.vstack([rng.normal(size=(40, 3)), rng.normal(size=(40, 3)) + 5])
    x[:, 2] = 4.0  # a constant is nothing new for an array
    expected, frame = GEDI(**QUICK).fit(x), pd.DataFrame(x, columns=["a", "b", "c"])
    for made in (frame, frame.astype(str)):
        model = GEDI(**QUICK).fit(made)
        assert model.columns_ is None
        assert model.feature_names_in_.tolist() == ["a", "b", "c"]
        np.testing.assert_array_equal(model.predict_proba(made), expected.predict_proba(x))
    with pytest.raises(InputError, match="in row 3"):
        model.predict(
            frame.mask(frame.index.to_numpy()[:, None] * [0, 1, 0] == 3).astype("Float64")
        )


def test_a_table_of_numbers_and_words_for_truth_values_is_encoded():
    words = {"x": np.arange(40) ** 2 / 7, "ok": ["yes", "no"] * 20}
    model = GEDI(**QUICK).fit(pd.DataFrame(words))
    assert model.columns_.lines() == ["number: x", "boolean: ok"]


def test_bad_frames_and_settings_are_refused():
    for x, words in (
        (mixed().head(1), "no column is of use"),
        ({"a": [1.0, 2.0]}, r"X is a dict: .* pandas.DataFrame"),
        (mixed().assign(x=np.inf), r"column 'x': infinite in rows 0, 1, 2"),
    ):
        with pytest.raises(InputError, match=words):
            GEDI(**QUICK).fit(x)
    with pytest.raises(InputError, match=r"table\.impute='best'"):
        gedi(**QUICK, **{"table.impute": "best"}).fit(mixed())
    with pytest.raises(InputError, match=r"no column 'agee' \(did you mean 'age'"):
        gedi(**QUICK, **{"table.kinds": {"agee": "drop"}}).fit(mixed())


# --- cells --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "kind"),
    [
        (["1", " 2.5", "-3e4", None], "number"),
        (["5", "-", "n.a.", "?"], "number"),
        (["01005", "9999"], "number"),
        (["yes", "No", "YES", "?"], "boolean"),
        (["True", "false"], "boolean"),
        (["2024-03-01", "2023/12/31", "n.a."], "date"),
        (["2024-03-01T12:30:00Z", "2024-03-01 12:30"], "date"),
        (["3/1/2024 6:45 PM", "12/31/2023 12:05 am"], "date"),
        (["6:45", "18:30:05", None], "time"),
        (["6:45 PM", "12:05 am"], "time"),
        (["yes", "no", "maybe"], "category"),
        (["2024-02-30", "2024-01-01"], "category"),
        (["May", "Sun"], "category"),
        (["5", "unknown"], "category"),
        (["6:45", "25:10"], "category"),
        (["13:05 PM", "1:05 PM"], "category"),
        (["1_000", "2"], "category"),
        (["$5", "6 kg"], "category"),
    ],
)
def test_text_is_read_as_what_it_says(words, kind):
    assert Cells.read(table(a=words)["a"], "X").kind == kind


@pytest.mark.parametrize(
    ("words", "days"),
    [
        (["1.3.2024", "2.3.2024"], [(2024, 3, 1), (2024, 3, 2)]),
        (["3/1/2024", "3/2/2024"], [(2024, 3, 1), (2024, 3, 2)]),
        (["1/3/2024", "31/3/2024"], [(2024, 3, 1), (2024, 3, 31)]),
        (["31/3/2024", "1/3/2024"], [(2024, 3, 31), (2024, 3, 1)]),
        (["3/1/24", "12/31/99"], [(2024, 3, 1), (1999, 12, 31)]),
        (["1-Mar-24", "31-Aug-99"], [(2024, 3, 1), (1999, 8, 31)]),
        (["March 1, 2024", "May 31, 2023"], [(2024, 3, 1), (2023, 5, 31)]),
        (["2024-3-1", "2024-03-02"], [(2024, 3, 1), (2024, 3, 2)]),
    ],
)
def test_new_dates_are_read_by_the_format_of_the_fit(words, days):
    made = table(d=words * 10, x=np.arange(20) ** 2 / 7)
    columns = Columns.from_json(fitted(made).to_json())
    expected = [date(*day).toordinal() - date(1970, 1, 1).toordinal() for day in days]
    assert columns.transform(made)[:2, 0].tolist() == expected
    for word, day in zip(words, expected, strict=True):
        assert columns.transform(table(d=[word], x=[1]))[0, 0] == day


def test_a_few_words_among_numbers_are_refused_with_the_setting_that_allows_them():
    made = table(x=[*(str(k / 7) for k in range(50)), "oops"])
    with pytest.raises(InputError, match=r"column 'x': 'oops' in row 50 .* not a number") as caught:
        fitted(made)
    assert str(caught.value).endswith("settings={'table.kinds': {'x': 'category'}}")
    assert kinds(table(x=["0", "1", "2", "3+"] * 10))["x"] == "category"


# --- kinds --------------------------------------------------------------------------------------


def test_kinds_are_detected_and_can_be_set():
    rng = np.random.default_rng(0)
    x, city = rng.normal(size=N), rng.choice(["a", "b", "c"], N)
    made = table(
        customer=[f"C{k}" for k in range(N)],
        number=[10_000 + k for k in range(N)],
        account_id=rng.choice(10**8, N, replace=False),
        order_id=rng.permutation(np.arange(N) ** 2),
        **{"Invoice No": rng.permutation(3 * np.arange(N)), "casino": 3 * np.arange(N) ** 2},
        salary=np.arange(N) ** 2 * 7,
        measure=x,
        again=x,
        flag=rng.integers(0, 2, N),
        since=[f"2020-01-{1 + k % 28:02}" for k in range(N)],
        city=city,
        code=[{"a": "01", "b": "02", "c": "x"}[c] for c in city],
        notes=[f"text {k // 2 if k < 40 else k}" for k in range(N)],
        tick=["x", None] * (N // 2),
        nothing=[None] * N,
    )
    assert kinds(made) == {
        "customer": "id",
        "number": "id",
        "account_id": "id",
        "order_id": "id",
        "Invoice No": "id",
        "casino": "number",
        "salary": "number",
        "measure": "number",
        "again": "drop",
        "flag": "boolean",
        "since": "date",
        "city": "category",
        "code": "drop",
        "notes": "drop",
        "tick": "drop",
        "nothing": "drop",
    }
    out = fitted(made).left_out
    for words in (
        "again (says the same as 'measure')",
        "code (says the same as 'city')",
        "tick (constant, 150 missing)",
        "nothing (empty)",
    ):
        assert words in out
    asked = {"number": "number", "flag": "category", "measure": "drop", "city": "id"}
    found = kinds(made, kinds=asked)
    assert {name: found[name] for name in asked} == asked
    assert kinds(made, columns=("number", "salary"))["number"] == "number"
    assert kinds(made, columns=("number", "salary"))["city"] == "drop"


@pytest.mark.parametrize("seed", range(3))
def test_measured_whole_numbers_that_all_differ_are_no_id(seed):
    rng = np.random.default_rng(seed)
    incomes = np.unique(rng.normal(50_000, 15_000, 400).round())
    assert Columns.of(table(income=rng.permutation(incomes)), Options()) is None


# --- there and back -----------------------------------------------------------------------------


def frame_with_gaps(rng, gaps: float = 0.2) -> pd.DataFrame:
    made = pd.DataFrame(
        {
            "age": rng.integers(18, 80, N).astype(float),
            "income": rng.lognormal(10, 1, N),
            "city": rng.choice(["Bonn", "Kiel", "Ulm", "Trier"], N, p=[0.5, 0.3, 0.15, 0.05]),
        }
    )
    return as_frame(made.mask(rng.random(made.shape) < gaps))


@pytest.mark.parametrize("impute", ["median", "mean", "most_frequent"])
def test_gaps_are_filled_as_scikit_learn_fills_them(impute):
    rng = np.random.default_rng(3)
    made, new = frame_with_gaps(rng), frame_with_gaps(rng)
    points = fitted(made, impute=impute).transform(new)
    numbers = ["age", "income"]
    expected = SimpleImputer(strategy=impute).fit(made[numbers]).transform(new[numbers])
    np.testing.assert_allclose(points[:, :2], expected)
    shares = made["city"].value_counts(normalize=True).sort_index().to_numpy()
    expected = shares if impute != "most_frequent" else shares == shares.max()
    np.testing.assert_allclose(
        points[new["city"].isna(), 2:], [expected] * new["city"].isna().sum()
    )


def test_rare_and_unseen_categories_are_those_of_scikit_learn():
    rng = np.random.default_rng(1)
    values = [f"c{min(int(k), 150)}" for k in rng.exponential(25, 2_000)]
    new = [*rng.choice(values, 50).tolist(), "unseen"]
    columns = fitted(table(x=values, y=rng.normal(size=2_000)))
    encoder = OneHotEncoder(
        handle_unknown="infrequent_if_exist",
        min_frequency=20,
        max_categories=20,
        sparse_output=False,
    ).fit(np.array(values, dtype=object)[:, None])
    assert columns.names[:20][-1] == f"x={OTHERS}"
    points = Columns.from_json(columns.to_json()).transform(table(x=new, y=np.zeros(51)))
    np.testing.assert_array_equal(
        points[:, :-1], encoder.transform(np.array(new, dtype=object)[:, None])
    )


def test_missing_and_unseen_categories_become_the_shares():
    columns = fitted(table(x=["a", "a", "a", "b"] * 30, y=np.arange(120) ** 2 / 7))
    points = columns.transform(table(x=["b", None, "new"], y=[1, 2, None]))
    np.testing.assert_allclose(points[:, :2], [[0, 1], [0.75, 0.25], [0.75, 0.25]])


def test_points_become_rows_again_and_json_gives_the_same_points():
    frame = as_frame(mixed(n=N).drop(columns="who").assign(said=[True, False] * (N // 2)))
    frame = frame.dropna().reset_index(drop=True)
    columns = fitted(frame)
    points = columns.transform(frame)
    back = columns.frame(columns.nearest(points))
    np.testing.assert_array_equal(columns.transform(as_frame(back)), points)
    for name in ("age", "since", "ok", "city", "said"):
        assert back[name].tolist() == frame[name].tolist()
    np.testing.assert_allclose(back["height"], frame["height"])
    again = Columns.from_json(columns.to_json())
    assert again.all == columns.all and again.lines() == columns.lines()
    encoded = ["number", "number", "date", "boolean", "time", "category"]
    assert columns.kinds[:6] == encoded and set(columns.kinds[6:]) <= {"category", "boolean"}


def test_damaged_json_is_refused():
    kept = json.loads(fitted(table(x=["a", "b"] * 30, y=np.arange(60) ** 2 / 7)).to_json())
    for change in (
        {"fill": [0.5]},
        {"categories": ["b", "a"]},
        {"categories": ["a", "a"]},
        {"kind": "what"},
        {"fill": [float("nan"), 1.0]},
        {"rare": [["c", 1]]},
        {"unknown": 1},
    ):
        with pytest.raises(InputError, match="columns: "):
            Columns.from_json(json.dumps([kept[0] | change, kept[1]]))
    for words in ("", "[]", "{}", json.dumps([kept[0], kept[0]])):
        with pytest.raises(InputError, match="columns: "):
            Columns.from_json(words)


def test_times_of_day_are_hours_and_come_back_as_times():
    words = [f"{minute // 60}:{minute % 60:02}" for minute in range(0, 24 * 60, 7)]
    made = table(at=words, plan=["a", "b"] * (len(words) // 2))
    columns = Columns.from_json(fitted(made).to_json())
    points = columns.transform(made)
    assert points[:, 0] == pytest.approx(np.arange(0, 24 * 60, 7) / 60)
    assert [
        f"{t.hour}:{t.minute:02}" for t in columns.frame(columns.nearest(points))["at"]
    ] == words
    assert columns.transform(table(at=["5:30 PM"], plan=["a"]))[0, 0] == 17.5


# --- weights ------------------------------------------------------------------------------------


@pytest.mark.parametrize("levels", [2, 4, 8])
@pytest.mark.parametrize("gaps", [0, 60])
def test_an_even_category_weighs_as_in_distance_features(levels, gaps):
    """With and without missing cells, which make three values of two."""
    rng = np.random.default_rng(0)
    city, flag = [f"c{k % levels}" for k in range(24 * levels)], ["yes", "no"] * (12 * levels)
    number, blank = rng.normal(size=len(city)).tolist(), [None] * gaps
    made = table(x=[*number, *[0] * gaps], city=[*city, *blank], flag=[*flag, *blank])
    columns = fitted(made, kinds={"city": "category", "flag": "boolean"})
    points = columns.transform(made)
    scaled = columns.scaling(points, "standard").apply(points)[: len(city)].astype(float)
    assert scaled[:, 1 + levels].std() == pytest.approx(TWO_VALUED, rel=1e-5)
    expected = min(TWO_VALUED, 1 / np.sqrt(levels))
    np.testing.assert_allclose(scaled[:, 1 : 1 + levels].std(0), expected, rtol=1e-5)
    assert (columns.scaling(points, "none").scale == 1).all()


@pytest.mark.parametrize(
    ("recipe", "seed"),
    [
        (messy.RECIPES["categories that tell"], 12),  # five of them, and few numbers
        (messy.Recipe(numbers=2, noise=0, distance=6, categories=0, strange=5, missing=0), 1),
    ],
)
def test_informative_categories_count_and_others_do_not_dominate(recipe, seed):
    cells, y = messy.make(recipe, seed)
    made = table(**cells)
    columns = fitted(made)
    points = columns.transform(made)
    scaled = columns.scaling(points, "standard").apply(points).astype(float)
    start = choose_start(distance_features(scaled), recipe.clusters)
    assert normalized_mutual_info_score(y, start.labels) > 0.9
