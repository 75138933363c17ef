"""Tables: how files are read, what columns are taken for, and the points that they become."""

from __future__ import annotations

import json
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

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
from gedilearn.data.load import load
from gedilearn.data.tables import OTHERS, Columns, as_frame, kind_of, typed, written
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


# --- files --------------------------------------------------------------------------------------


@pytest.fixture
def write(tmp_path):
    def write(text: str, encoding: str = "utf-8", name: str = "t.csv") -> Path:
        path = tmp_path / name
        path.write_text(text, encoding=encoding, newline="")
        return path

    return write


@pytest.mark.parametrize(
    ("text", "encoding"),
    [
        ("größe,b\n1.5,2\n3,4\n", "utf-8"),
        ("größe;b\r\n1.5;2\r\n3;4\r\n", "cp1252"),
        ("größe\tb\n1.5\t2\n3\t4\n", "utf-16"),
        ('"größe"|"b"\n"1.5"|"2"\n3|4\n', "utf-8-sig"),
        ("größe,b\n1.5,2\n3,4\n,\n,\n", "utf-8"),  # empty rows of a spreadsheet
    ],
)
def test_the_same_table_comes_out_however_it_is_written(write, text, encoding):
    data = load(write(text, encoding))
    assert data.x.tolist() == [[1.5, 2], [3, 4]] and data.columns == ("größe", "b")


def test_the_decimal_mark_is_the_one_that_is_named(write):
    text = "a;b\n1,5;x\n-;y\n2,25;x\n" + "3,5;y\n" * 3
    frame = load(write(text), text=(), decimal=",").x
    assert frame["a"].dropna().tolist() == [1.5, 2.25, 3.5, 3.5, 3.5]
    assert load(write("a;b\n1,5;2\n3;4,25\n"), decimal=",").x.tolist() == [[1.5, 2], [3, 4.25]]
    assert load(write("a\n1,5\n2\n"), decimal="comma").x.tolist() == [[1.5], [2]]
    with pytest.raises(InputError, match="'oops' in row 1"):
        load(write("a;b\n1,5;2\noops;4,25\n"), decimal=",")
    with pytest.raises(InputError, match=r"column 'a': '1,5' in row 0 .*: --decimal comma"):
        load(write("a;b\n1,5;2\n3;4,25\n"))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a;b,c\nx;y,z\nu;v,w\n", "may be separated by comma or semicolon"),
        ("a,b\n1,2,3\n4,5\n", "t.csv is damaged .Length of header or names does not match"),
        ("a,b\n" + "1,2\n" * 300 + "1,2,3\n", "Expected 2 fields in line 302, saw 3"),
        ('a,b\n1,2\n3,"4\n5,6\n', "t.csv is damaged .*EOF inside string"),
    ],
)
def test_what_cannot_be_told_is_refused_with_the_way_out(write, text, words):
    with pytest.raises(InputError, match=words) as caught:
        load(write(text), text=())
    assert "\n" not in str(caught.value)


def test_digits_with_zeros_before_them_are_kept_as_they_are_written(write):
    path = write("zip,n\n01067,1\n80331,2\n")
    assert load(path, text=()).x["zip"].tolist() == ["01067", "80331"]
    later = write("zip,n\n" + "80331,1\n" * 400 + "01067,2\n")
    assert load(later, text=["zip"]).x["zip"].tolist()[-1] == "01067"


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


def test_what_is_no_frame_is_none():
    for other in (np.zeros((2, 2)), [[1, 2]], "text", None, {"a": [1]}, pd.Series([1, 2])):
        assert as_frame(other) is None


def test_objects_of_every_kind_are_read():
    zone = timezone(timedelta(hours=2))
    frame = as_frame(
        pd.DataFrame(
            {
                "decimal": [Decimal("1.5"), None],
                "moment": pd.to_datetime([datetime(2024, 1, 1, 2, tzinfo=zone), None]),
                "length": [timedelta(days=2), None],
                "truth": pd.array([True, None], dtype="boolean"),
                "both": [1, "one"],
                "month": pd.period_range("2024-01", periods=2, freq="M"),
                "key": [UUID(int=k) for k in range(2)],
                "band": pd.cut([1.0, 4.0], 2),
            }
        )
    )
    assert frame["decimal"][0] == 1.5 and frame["length"][0] == 2
    assert frame["moment"][0] == typed(frame["month"])[0] == pd.Timestamp("2024-01-01")
    assert frame["both"].tolist() == ["1", "one"] and frame["key"][1].endswith("0001")
    assert frame["band"].tolist() == ["(0.997, 2.5]", "(2.5, 4.0]"]
    assert [kind_of(frame[name]) for name in ("truth", "both", "band")] == [
        "boolean",
        "category",
        "category",
    ]
    keys = [2**60 + 1, 2**60 + 2]
    assert written(as_frame(pd.DataFrame({"key": keys}))["key"]).tolist() == keys


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


def test_names_that_come_twice_are_numbered_and_lists_of_other_lengths_are_text(write):
    assert list(load(write("x,y,x\n1,2,3\n4,5,6\n"), text=()).x) == ["x", "y", "x.1"]
    frame = as_frame(pd.DataFrame({"e": [[1.0], [1.0, 2.0]] * 5, "x": np.arange(10) ** 2 / 7}))
    assert kinds(frame) == {"e": "category", "x": "number"}


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
        ([None, "NA"], "category"),
    ],
)
def test_text_is_read_as_what_it_says(words, kind):
    assert kind_of(typed(table(a=words)["a"])) == kind


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
def test_dates_are_those_of_the_calendar_and_new_rows_are_read_the_same_way(words, days):
    made = table(d=words * 10, x=np.arange(20) ** 2 / 7)
    columns = Columns.from_json(fitted(made).to_json())
    expected = [date(*day).toordinal() - date(1970, 1, 1).toordinal() for day in days]
    assert columns.transform(made)[:2, 0].tolist() == expected
    for word, day in zip(words, expected, strict=True):
        assert columns.transform(table(d=[word], x=[1]))[0, 0] == day


def test_a_few_words_among_numbers_are_named():
    with pytest.raises(InputError, match=r"column 'x': 'oops' in row 50 .* is not a number"):
        fitted(table(x=[*(str(k / 7) for k in range(50)), "oops"]))
    assert kinds(table(x=["0", "1", "2", "3+"] * 10))["x"] == "category"


# --- kinds --------------------------------------------------------------------------------------


def test_columns_are_typed_by_what_they_hold_and_by_what_is_asked_for():
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


def test_a_missing_category_and_one_that_was_never_seen_become_the_shares():
    columns = fitted(table(x=["a", "a", "a", "b"] * 30, y=np.arange(120) ** 2 / 7))
    points = columns.transform(table(x=["b", None, "new"], y=[1, 2, None]))
    np.testing.assert_allclose(points[:, :2], [[0, 1], [0.75, 0.25], [0.75, 0.25]])


def test_points_become_rows_again_and_json_gives_the_same_points():
    frame = as_frame(mixed(n=N).drop(columns="who").assign(said=[True, False] * (N // 2)))
    frame = frame.dropna().reset_index(drop=True)
    columns = fitted(frame)
    points = columns.transform(frame)
    back = columns.inverse(points)
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
        {"others": True},
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
    assert [f"{t.hour}:{t.minute:02}" for t in columns.inverse(points)["at"]] == words
    assert columns.transform(table(at=["5:30 PM"], plan=["a"]))[0, 0] == 17.5


# --- weights ------------------------------------------------------------------------------------


@pytest.mark.parametrize("levels", [2, 4, 8])
@pytest.mark.parametrize("gaps", [0, 60])
def test_a_category_of_even_values_varies_as_distances_have_it(levels, gaps):
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
def test_categories_that_tell_groups_are_heard_and_others_do_not_decide(recipe, seed):
    cells, y = messy.make(recipe, seed)
    made = table(**cells)
    columns = fitted(made)
    points = columns.transform(made)
    scaled = columns.scaling(points, "standard").apply(points).astype(float)
    start = choose_start(distance_features(scaled), recipe.clusters)
    assert normalized_mutual_info_score(y, start.labels) > 0.9
