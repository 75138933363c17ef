"""Drawn rows of tables are possible rows."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

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
    half = lambda self, rows, codes=None: rows[:, 2] > np.median(rows[:, 2]) * 0.7  # noqa: E731
    monkeypatch.setattr(type(rules), "broken", half)
    with pytest.warns(Refused, match="drawn rows were refused"):
        rows, _ = model.sample(40, random_state=0)
    assert len(rows) == 40
