"""Data frames of several libraries as tables, and as what the estimator is given."""

from __future__ import annotations

import warnings
from datetime import datetime, timedelta, timezone
from decimal import Decimal
from typing import Any
from uuid import UUID

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from gedilearn import GEDI
from gedilearn.data.frames import as_table
from gedilearn.data.table import Table
from gedilearn.errors import InputError
from gedilearn.estimator import LeftOut
from helpers import gedi

N = 120
QUICK = {"n_clusters": 2, "max_iter": 20, "w_gen": 0.0, "random_state": 0}


def mixed(seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    y = np.arange(N) % 2
    return pd.DataFrame(
        {
            "who": [f"C{k:04}" for k in range(N)],
            "age": pd.array(rng.integers(18, 80, N), dtype="Int64"),
            "height": np.where(rng.random(N) < 0.2, np.nan, 5 * y + rng.normal(size=N)),
            "since": pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 900, N), "D"),
            "ok": rng.random(N) < 0.5,
            "city": np.where(rng.random(N) < 0.2, None, rng.choice(["Bonn", "Ulm"], N)),
            "zip": pd.Categorical(rng.integers(0, 3, N).astype(str)),
        }
    )


def polars(frame: pd.DataFrame):
    pl = pytest.importorskip("polars")
    columns = {
        name: [None if pd.isna(value) else value for value in frame[name].astype(object)]
        for name in frame.columns
    }
    return pl.DataFrame(columns, schema_overrides={"zip": pl.Categorical})


def kinds(frame) -> dict[str, str]:
    table = as_table(frame)
    return dict(zip(table.names, (column.kind for column in table.columns), strict=True))


EXPECTED = {
    "who": "text",
    "age": "number",
    "height": "number",
    "since": "date",
    "ok": "boolean",
    "city": "text",
    "zip": "text",
}


@pytest.mark.parametrize("library", [pd.DataFrame, pa.Table.from_pandas, polars])
def test_frames_of_every_library_are_the_same_table(library):
    frame = mixed()
    made = library(frame)
    assert kinds(made) == EXPECTED
    found, expected = as_table(made), as_table(frame)
    for name in frame.columns:
        np.testing.assert_array_equal(found[name].missing, expected[name].missing)
        assert found[name].text().tolist() == expected[name].text().tolist()


def test_what_is_no_frame_is_none():
    for other in (np.zeros((2, 2)), [[1, 2]], "text", None, {"a": [1]}, pd.Series([1, 2])):
        assert as_table(other) is None


def test_objects_of_every_kind_are_read():
    zone = timezone(timedelta(hours=2))
    frame = pd.DataFrame(
        {
            "decimal": [Decimal("1.5"), None],
            "moment": pd.to_datetime([datetime(2024, 1, 1, 2, tzinfo=zone), None]),
            "length": [timedelta(days=2), None],
            "nullable": pd.array([True, None], dtype="boolean"),
            "both": [1, "one"],
            "lists": [[1], [2, 3]],
        }
    )
    table = as_table(frame)
    assert [column.kind for column in table.columns] == [
        "number",
        "date",
        "number",
        "boolean",
        "text",
        "other",
    ]
    assert table["decimal"].numbers()[0] == 1.5
    assert table["moment"].values[0] == np.datetime64("2024-01-01")
    assert table["length"].numbers()[0] == 2
    assert table["both"].values.tolist() == ["1", "one"]
    assert table["lists"].written().tolist() == ["[1]", "[2, 3]"]


def test_long_whole_numbers_are_kept_to_the_last_digit():
    keys = [2**60 + 1, 2**60 + 2]
    assert as_table(pd.DataFrame({"key": keys}))["key"].written().tolist() == keys
    assert as_table(pa.table({"key": keys}))["key"].written().tolist() == keys


# --- the estimator ------------------------------------------------------------------------------


@pytest.mark.parametrize("library", [pd.DataFrame, polars])
def test_a_frame_is_fitted_saved_and_predicted_by_its_columns(library, tmp_path):
    frame = mixed()
    with pytest.warns(LeftOut, match="who .*taken for an ID"):
        model = GEDI(**QUICK).fit(library(frame))
    assert model.n_features_in_ == 7
    assert model.feature_names_in_.tolist() == list(frame.columns)
    assert model.columns_.ids == ["who"]
    model.save(tmp_path / "m.safetensors")
    loaded = GEDI.load(tmp_path / "m.safetensors")
    new = mixed(1)
    new.loc[0, "city"] = "nowhere"
    new.loc[1, ["age", "height", "since", "city", "zip"]] = None
    some = new[["zip", "height", "city", "age", "ok", "since"]]  # without the ID, in any order
    expected = model.predict_proba(library(new))
    np.testing.assert_array_equal(loaded.predict_proba(library(new)), expected)
    np.testing.assert_array_equal(loaded.predict_proba(some), expected)
    np.testing.assert_array_equal(loaded.predict_proba(new.to_numpy(dtype=object)), expected)
    assert len(loaded.get_feature_names_out()) == loaded.transform(new).shape[1]
    with pytest.raises(InputError, match="X: no column 'height'"):
        loaded.predict(new.drop(columns="height"))
    with pytest.raises(InputError, match=r"column 'age': 'old' in row 0"):
        loaded.predict(new.astype({"age": object}).assign(age=["old", *["1"] * (N - 1)]))


def test_a_sample_of_a_table_has_its_columns(tmp_path):
    frame = mixed().drop(columns="who")
    model = GEDI(2, max_iter=20, random_state=0, settings={"density.iterations": 10}).fit(frame)
    rows, labels = model.sample(5, random_state=0)
    assert isinstance(rows, Table) and rows.names == tuple(frame.columns) and len(labels) == 5
    made = rows.to_pandas()
    assert set(made["city"]) <= {"Bonn", "Ulm"} and set(made["zip"]) <= {"0", "1", "2"}
    assert (made["age"] == made["age"].round()).all()
    assert (model.predict(rows) >= 0).all()
    assert np.isfinite(model.score_samples(frame)).all()


def test_settings_say_how_columns_are_read():
    settings = {"table.kinds": {"zip": "drop", "who": "drop"}, "table.impute": "mean"}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LeftOut)
        model = GEDI(**QUICK, settings=settings).fit(mixed())
    assert "zip=0" not in model.columns_.names
    with pytest.raises(InputError, match=r"table\.impute='best'"):
        GEDI(**QUICK, settings={"table.impute": "best"}).fit(mixed())


def test_intervals_periods_and_uuids_are_read():
    frame = pd.DataFrame(
        {
            "band": pd.cut([1.0, 2.0, np.nan, 4.0], 2),
            "month": pd.period_range("2024-01", periods=4, freq="M"),
            "key": [UUID(int=k) for k in range(4)],
        }
    )
    table = as_table(frame)
    assert table["band"].is_category
    assert table["band"].text().tolist() == ["(0.997, 2.5]", "(0.997, 2.5]", None, "(2.5, 4.0]"]
    assert table["month"].text().tolist()[:2] == ["2024-01-01", "2024-02-01"]
    assert table["key"].kind == "text" and table["key"].text()[1].endswith("0001")


def test_too_few_rows_and_what_is_no_frame_are_said():
    with pytest.raises(InputError, match="1 row, or sample"):
        GEDI(**QUICK).fit(mixed().head(1))
    with pytest.raises(InputError, match=r"X is a dict: .* pandas.DataFrame"):
        GEDI(**QUICK).fit({"a": [1.0, 2.0]})


def test_columns_that_cannot_be_read_are_named():
    frame = mixed().assign(tags=[[k] * (1 + k % 2) for k in range(N)])
    with pytest.raises(InputError, match=r"column 'tags' holds list objects"):
        GEDI(**QUICK).fit(frame)
    frame = mixed().assign(x=np.inf)
    with pytest.raises(InputError, match=r"column 'x': infinite in rows 0, 1, 2"):
        GEDI(**QUICK).fit(frame)


def test_a_frame_of_numbers_is_fitted_as_its_array_is():
    rng = np.random.default_rng(0)
    x = np.vstack([rng.normal(size=(40, 3)), rng.normal(size=(40, 3)) + 5])
    x[:, 2] = 4.0  # a constant is nothing new for an array
    expected = GEDI(**QUICK).fit(x)
    frame = pd.DataFrame(x, columns=["a", "b", "c"])
    for made in (frame, as_table(frame)):
        model = GEDI(**QUICK).fit(made)
        assert model.columns_ is None
        assert model.feature_names_in_.tolist() == ["a", "b", "c"]
        np.testing.assert_array_equal(model.predict_proba(made), expected.predict_proba(x))
        np.testing.assert_array_equal(model.scaling_.scale, expected.scaling_.scale)
    with pytest.raises(InputError, match="column 'b' has 1 missing cells"):
        model.predict(as_table(frame.mask(frame.index.to_numpy()[:, None] * [0, 1, 0] == 3)))


def test_numbers_with_gaps_are_filled_in():
    frame = mixed()[["age", "height"]]
    model = GEDI(**QUICK).fit(frame)
    median = frame["height"].median()
    filled = frame.fillna({"height": median})
    np.testing.assert_array_equal(model.predict_proba(frame), model.predict_proba(filled))


# --- vectors in cells ---------------------------------------------------------------------------


def vector_frames(vectors: np.ndarray) -> list[Any]:
    """The same column of vectors, as each library has it."""
    lists, arrow = vectors.tolist(), pa.list_(pa.float64())
    fixed = pa.list_(pa.float64(), vectors.shape[1])
    return [
        pd.DataFrame({"e": list(vectors)}),
        pd.DataFrame({"e": pd.Series(lists, dtype=pd.ArrowDtype(arrow))}),
        pl.DataFrame({"e": lists}),
        pl.DataFrame({"e": vectors}),
        pa.table({"e": pa.array(lists, arrow)}),
        pa.table({"e": pa.chunked_array([pa.array(lists[:2], fixed), pa.array(lists[2:], fixed)])}),
    ]


def test_vectors_of_one_length_are_columns():
    vectors = np.random.default_rng(0).normal(size=(5, 3))
    for frame in vector_frames(vectors):
        table = as_table(frame)
        assert table.names == ("e[0]", "e[1]", "e[2]")
        np.testing.assert_array_equal(table.matrix(), vectors)


@pytest.mark.parametrize("cells", [[[1.0], [1.0, 2.0]], [[1.0], None], [[], []], [["a"], ["b"]]])
def test_other_lists_are_of_no_use(cells):
    for frame in (pd.DataFrame({"e": cells}), pl.DataFrame({"e": cells}), pa.table({"e": cells})):
        assert [column.kind for column in as_table(frame).columns] == ["other"]


def test_a_fit_takes_vectors_in_cells_for_the_same_array():
    rng = np.random.default_rng(0)
    vectors = rng.normal(size=(40, 3)) + 6 * (rng.random((40, 1)) < 0.5)
    plain = gedi(**QUICK).fit(vectors)
    for frame in vector_frames(vectors):
        model = gedi(**QUICK).fit(frame)
        np.testing.assert_array_equal(model.labels_, plain.labels_)
        np.testing.assert_allclose(model.predict_proba(frame), plain.predict_proba(vectors))
    lazy = gedi(**QUICK).fit(pl.LazyFrame({"e": vectors.tolist()}))
    assert lazy.feature_names_in_.tolist() == ["e[0]", "e[1]", "e[2]"]


def test_what_is_asked_of_a_column_of_vectors_is_of_all_its_parts():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"e": list(rng.normal(size=(40, 3))), "x": rng.normal(size=40)})
    left = gedi(**QUICK, **{"table.kinds": {"e": "drop"}}).fit(frame)
    assert left.columns_.names == ["x"]
    kept = gedi(**QUICK, **{"table.columns": ("e",)}).fit(frame)
    assert kept.columns_.names == ["e[0]", "e[1]", "e[2]"]
    with pytest.raises(InputError, match="no column 'f'"):
        gedi(**QUICK, **{"table.kinds": {"f": "drop"}}).fit(frame)
