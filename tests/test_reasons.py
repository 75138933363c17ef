"""Why rows are outliers: wrong cells are found, and their words name the usual values."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd
import pytest

from gedilearn import GEDI
from gedilearn.errors import InputError

QUICK = {"training.max_iter": 40, "density.iterations": 50}
RNG = np.random.default_rng(0)


@pytest.fixture(scope="module")
def table() -> pd.DataFrame:
    age = RNG.uniform(20, 70, 400)
    kind = np.where(age > 45, "old", "young")
    spent = age * 10 + RNG.normal(0, 20, 400)
    return pd.DataFrame(
        {"age": age.round(), "kind": kind, "spent": spent, "noise": RNG.normal(size=400)}
    )


@pytest.fixture(scope="module")
def model(table: pd.DataFrame) -> GEDI:
    return GEDI(2, random_state=0, settings=QUICK).fit(table)


def test_the_wrong_cell_of_a_row_is_its_first_reason(model: GEDI, table: pd.DataFrame) -> None:
    wrong = table.iloc[:60].copy()
    columns = RNG.choice(["age", "spent", "noise"], 60)
    for row, column in enumerate(columns):
        wrong.loc[row, column] = table[column].median() + 8 * table[column].std()
    found = model.outlier_reasons(wrong)
    first = [why[0].column if why else "" for why in found]
    assert np.mean(first == columns) > 0.9
    for row, column in enumerate(columns[:5]):
        usual = wrong.copy()
        usual.loc[row, column] = table.loc[row, column]
        fall = model.outlier_score(wrong)[row] - model.outlier_score(usual)[row]
        assert found[row][0].fall == pytest.approx(fall, abs=0.7) and fall > 0.7


def test_a_value_is_compared_with_rows_that_are_alike_otherwise(
    model: GEDI, table: pd.DataFrame
) -> None:
    row = pd.DataFrame({"age": [30.0], "kind": ["young"], "spent": [650.0], "noise": [0.0]})
    (why,) = model.outlier_reasons(row)
    assert why[0].column == "spent" and why[0].value == "650"
    low, high = map(float, why[0].usual.split(" to "))
    assert 200 < low < high < 500  # all rows have 180 to 720
    assert str(why[0]) == f"spent 650 where similar rows have {why[0].usual}"
    row = pd.DataFrame({"age": [25.0], "kind": ["old"], "spent": [250.0], "noise": [0.0]})
    (why,) = model.outlier_reasons(row)
    assert (why[0].column, why[0].value, why[0].usual) == ("kind", "old", "young")


def test_dates_are_written_as_days_or_minutes() -> None:
    days = pd.Timestamp("2020-01-01") + pd.to_timedelta(RNG.integers(0, 900, 200), "D")
    minutes = days + pd.to_timedelta(RNG.integers(0, 1440, 200), "min")
    table = pd.DataFrame({"day": days, "minute": minutes, "noise": RNG.normal(size=200)})
    rows = table[:2].copy()
    rows.loc[0, "day"], rows.loc[1, "minute"] = map(pd.Timestamp, ("1950-02-03", "1950-02-03 4:05"))
    fitted = GEDI(2, random_state=0, settings=QUICK).fit(table)
    (day, *_), (minute, *_) = fitted.outlier_reasons(rows)
    assert re.fullmatch(
        r"day 1950-02-03 where similar rows have 202\d-\d\d-\d\d to \S{10}", str(day)
    )
    assert str(minute).startswith("minute 1950-02-03T04:05 where similar rows have 202")


def test_usual_rows_have_no_reasons_and_no_more_are_given_than_asked_for(
    model: GEDI, table: pd.DataFrame
) -> None:
    middle = pd.DataFrame({"age": [60.0], "kind": ["old"], "spent": [600.0], "noise": [0.0]})
    assert all(reason.fall < 0.5 for reason in model.outlier_reasons(middle)[0])
    assert all(len(why) <= 1 for why in model.outlier_reasons(table[:20], most=1))


def test_many_columns_have_no_reasons() -> None:
    x = RNG.normal(size=(80, 70))
    fitted = GEDI(2, random_state=0, settings=QUICK).fit(x)
    assert fitted.outlier_score(x).shape == (80,)
    with pytest.raises(InputError, match="up to 64 columns"):
        fitted.outlier_reasons(x)
