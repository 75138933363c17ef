"""Drawn rows of tables are possible rows."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from gedilearn.errors import InputError
from gedilearn.estimator import GEDI
from gedilearn.rows import Refused

QUICK = {"max_iter": 60, "random_state": 0}


def journeys(n=500, seed=0):
    """Dates in order, many zeros, a total, rare zones that determine their borough."""
    rng = np.random.default_rng(seed)
    start = pd.Timestamp("2024-03-01") + pd.to_timedelta(rng.integers(0, 10**6, n), "s")
    zone = rng.choice(40, n, p=(shares := 0.85 ** np.arange(40)) / shares.sum())
    fare = rng.gamma(3, 4, n).round(2)
    toll = np.where(rng.random(n) < 0.1, 6.5, 0)
    return pd.DataFrame(
        {
            "start": start,
            "end": start + pd.to_timedelta(rng.integers(60, 3_000, n), "s"),
            "fare": fare,
            "toll": toll,
            "total": (fare + toll).round(2),
            "zone": np.char.add("z", zone.astype(str)),
            "borough": np.where(zone % 2, "odd", "even"),
        }
    )


@pytest.fixture(scope="module")
def model():
    return GEDI(2, **QUICK).fit(journeys())


def test_drawn_rows_of_a_table_are_possible(model, tmp_path):
    rows, labels = model.sample(300, random_state=0)
    real = journeys()
    assert len(rows) == len(labels) == 300
    assert (rows["end"] >= rows["start"]).all()
    assert set(rows["toll"]) == {0, 6.5} and rows["fare"].min() > 0
    np.testing.assert_allclose(rows["fare"] + rows["toll"], rows["total"], atol=0.006)
    assert set(rows["zone"]) <= set(real["zone"]) and rows["zone"].nunique() > 20
    odd = rows["zone"].str[1:].astype(int) % 2 == 1
    assert (odd == (rows["borough"] == "odd")).all()
    assert (rows["start"].dt.microsecond == 0).all()
    np.testing.assert_array_equal(labels, model.predict(rows))
    model.save(tmp_path / "m.safetensors")
    again, _ = GEDI.load(tmp_path / "m.safetensors").sample(300, random_state=0)
    pd.testing.assert_frame_equal(rows, again)


def test_drawn_rows_of_an_array_keep_its_ranges_and_decimals():
    x = np.random.default_rng(0).exponential(1, (300, 2)).round(1)
    model = GEDI(2, **QUICK).fit(x)
    rows, _ = model.sample(200, random_state=1)
    assert (rows >= x.min(0)).all() and (rows <= x.max(0)).all()
    np.testing.assert_allclose(rows * 10, np.round(rows * 10), atol=1e-9)


def test_many_refused_rows_are_worth_a_word(model, monkeypatch):
    rules = model.rules_
    half = lambda self, rows, free=None: rows[:, 2] > np.median(rows[:, 2]) * 0.7  # noqa: E731
    monkeypatch.setattr(type(rules), "broken", half)
    with pytest.warns(Refused, match="drawn rows were refused"):
        rows, _ = model.sample(40, random_state=0)
    assert len(rows) == 40


# --- conditions -----------------------------------------------------------------------------------


def test_rows_with_given_columns_have_them_and_are_like_such_rows(model):
    given = {"borough": "odd", "toll": 0, "fare": (10, 20)}
    rows, labels = model.sample(400, given=given, random_state=0)
    assert len(rows) == len(labels) == 400
    assert (rows["borough"] == "odd").all() and (rows["toll"] == 0).all()
    assert rows["fare"].between(10, 20).all()
    np.testing.assert_allclose(rows["fare"], rows["total"], atol=0.006)
    real = journeys()
    real = real[(real["borough"] == "odd") & real["fare"].between(10, 20)]
    assert abs(rows["fare"].mean() - real["fare"].mean()) < 0.6
    assert abs((rows["zone"] == "z1").mean() - (real["zone"] == "z1").mean()) < 0.12


def test_a_given_number_moves_the_others_as_a_regression_does():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(500, 2))
    x[:, 1] += 2 * x[:, 0]
    model = GEDI(2, **QUICK).fit(x)
    for given in ({0: 1.0}, {"x1": 1.0}, {"x1": "0.9:1.1"}, {0: (0.9, 1.1)}):
        rows, _ = model.sample(300, given=given, random_state=0)
        assert rows[:, 1].mean() == pytest.approx(2, abs=0.3)
        assert np.abs(rows[:, 0] - 1).max() <= (0.1 if len(str(given)) > 12 else 0) + 1e-9
    cluster = int(model.predict([[1.0, 2.0]])[0])
    rows, labels = model.sample(20, given={0: 1.0}, cluster=cluster, random_state=0)
    assert (rows[:, 0] == 1).all() and (labels == cluster).mean() > 0.5


def test_rare_levels_dates_and_open_ranges_can_be_given(model):
    rare = [name for name, _ in model.columns_.used[5].rare]
    rows, _ = model.sample(20, given={"zone": rare[0], "start": "2024-03-03..2024-03-09"})
    assert (rows["zone"] == rare[0]).all()
    assert rows["start"].between("2024-03-03", "2024-03-09").all()
    assert (model.sample(20, given={"fare": "15:"})[0]["fare"] >= 15).all()


@pytest.mark.parametrize(
    "given, words",
    [
        ({"borough": "odd", "zone": "z0"}, "too rare .effective sample size 0 of 4,000 draws"),
        ({"fare": 1e6}, "too rare"),
        ({"fare": (50, 40)}, "too rare"),
        ({"borough": "add"}, "column 'borough' has no value 'add' .did you mean 'odd'"),
        ({"fair": 3}, "no column 'fair' .did you mean 'fare'"),
        ({"fare": "much"}, "'much' in row 0 .* is not a number"),
        ({"fare": None}, "no value None"),
        ({17: 3}, "no column 17: give one from 0 to 6"),
    ],
)
def test_conditions_that_cannot_be_met_are_one_line(model, given, words):
    with pytest.raises(InputError, match=f"^given.*{words}"):
        model.sample(10, given=given, random_state=0)


def test_no_rows_are_refused_also_with_a_condition(model):
    with pytest.raises(InputError, match="n_samples=0: at least 1"):
        model.sample(0, given={"toll": 0})
    with pytest.raises(InputError, match="given=3: give a mapping"):
        model.sample(1, given=3)


def test_without_a_density_in_all_columns_there_are_no_conditions():
    model = GEDI(2, w_gen=0, **QUICK).fit(np.random.default_rng(0).normal(size=(60, 2)))
    with pytest.raises(InputError, match="given: the model has no density"):
        model.sample(3, given={0: 1.0})
    with pytest.raises(InputError, match="impute: the model has no density"):
        model.impute([[1.0, np.nan]])


# --- missing cells --------------------------------------------------------------------------------


def test_missing_numbers_are_near_their_conditional_mean_and_others_stay():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(600, 3)) @ (turn := np.array([[1, 0.8, 0.3], [0, 0.5, 0.6], [0, 0, 0.4]]))
    model, holes = GEDI(2, **QUICK).fit(x), x[:200].copy()
    holes[:100, 1] = holes[100:, 0] = np.nan
    filled = model.impute(holes)
    precision = np.linalg.inv(turn.T @ turn)
    for rows, k in ((slice(100), 1), (slice(100, 200), 0)):
        others = [j for j in range(3) if j != k]
        mean = -x[rows][:, others] @ precision[k, others] / precision[k, k]
        assert np.abs(filled[rows, k] - mean).mean() < 0.2 * x[:, k].std()
    np.testing.assert_array_equal(np.where(np.isnan(holes), 0, filled), np.nan_to_num(holes))
    np.testing.assert_array_equal(filled, model.impute(holes))


def test_a_frame_is_filled_in_its_form_with_possible_cells(model):
    whole = journeys(seed=1).head(60)
    holes = whole.astype({"zone": object}).set_index(np.arange(60) + 7)
    holes.loc[:20, ["borough", "total"]] = None
    holes.loc[30:40, ["zone", "start"]] = None
    holes.loc[50, :] = None
    filled = model.impute(holes)
    assert list(filled) == list(holes) and filled.index.tolist() == holes.index.tolist()
    assert not filled.isna().any().any() and filled["start"].dtype.kind == "M"
    assert (filled.loc[:20, "borough"].to_numpy() == whole["borough"][:14]).all()
    np.testing.assert_allclose(filled["total"][:14], whole["total"][:14], atol=0.5)
    odd = filled.loc[30:40, "zone"].str[1:].astype(int) % 2 == 1
    assert (odd == (filled.loc[30:40, "borough"] == "odd")).all()
    assert (filled.loc[30:40, "start"] <= filled.loc[30:40, "end"]).all()
    assert model.impute(holes.to_numpy(dtype=object)).shape == holes.shape
    with pytest.raises(InputError, match="no column 'toll'"):
        model.impute(holes.drop(columns="toll"))
    with pytest.raises(InputError, match="not the 7 columns"):
        model.impute([[1, 2]])
