"""Columns of tables: what they are taken for, and what scikit-learn's pipelines make of them."""

from __future__ import annotations

import json
from datetime import date, datetime
from datetime import time as clock_time

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.metrics import normalized_mutual_info_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

import messy
from gedilearn.data import cells
from gedilearn.data.arrays import Scaling
from gedilearn.data.columns import OTHERS, Columns
from gedilearn.data.frames import as_table
from gedilearn.data.metric import TWO_VALUED, distance_points
from gedilearn.data.table import Column, Table
from gedilearn.errors import InputError
from gedilearn.settings import Table as Options
from gedilearn.starts.choose import choose_start

N = 300


def text(values) -> Column:
    column = np.empty(len(values), dtype=object)
    column[:] = [None if value is None else cells.cell(str(value)) for value in values]
    return Column("text", column)


def table(**columns) -> Table:
    return Table.of({name: text(values) for name, values in columns.items()})


def table_of(made: messy.Cells) -> Table:
    return Table.of({name: text(values) for name, values in made.items()})


def kinds(table: Table, **options) -> dict[str, str]:
    return {each.name: each.kind for each in Columns.fit(table, Options(**options)).all}


def frame(rng, gaps: float = 0.2) -> pd.DataFrame:
    made = pd.DataFrame(
        {
            "age": rng.integers(18, 80, N).astype(float),
            "income": rng.lognormal(10, 1, N),
            "city": rng.choice(["Bonn", "Kiel", "Ulm", "Trier"], N, p=[0.5, 0.3, 0.15, 0.05]),
            "plan": rng.choice(["a", "b"], N),
        }
    )
    return made.mask(rng.random(made.shape) < gaps)


# --- cells --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "kind"),
    [
        (["1", " 2.5", "-3e4", None], "number"),
        (["yes", "No", "YES", None], "boolean"),
        (["True", "false"], "boolean"),
        (["yes", "no", "maybe"], "text"),
        (["2024-03-01", "2023/12/31", None], "date"),
        (["2024-03-01T12:30:00Z", "2024-03-01 12:30"], "date"),
        (["2024-02-30", "2024-01-01"], "text"),
        (["1 Mar 2024", "2-Apr-24", "3. December 2023"], "date"),
        (["March 1, 2024", "Sept 2, 2023"], "date"),
        (["3/1/24", "12/31/99"], "date"),
        (["1 Mai 2024", "2 Oct 2024"], "text"),
        (["5", "-", "unknown", "--"], "number"),
        (["2024-03-01", "n.a."], "date"),
        (["yes", "no", "Unknown"], "boolean"),
        (["+", "-"], "text"),
        (["-", "unknown"], "text"),
        (["01005", "99999"], "text"),
        (["01005", "9999"], "number"),
        (["3/1/2024 6:45 PM", "12/31/2023 12:05 am"], "date"),
        (["6:45", "18:30:05", None], "time"),
        (["6:45 PM", "12 a.m."], "time"),
        (["6:45", "25:10"], "text"),
        (["13:05 PM", "1:05 PM"], "text"),
        (["6:45", "7"], "text"),
        (["1_000", "2"], "text"),
        ([None, "NA"], "text"),
    ],
)
def test_text_is_read_as_what_it_says(words, kind):
    assert text(words).typed().kind == kind


@pytest.mark.parametrize(
    ("words", "days"),
    [
        (["1.3.2024", "2.3.2024"], [(2024, 3, 1), (2024, 3, 2)]),
        (["3/1/2024", "3/2/2024"], [(2024, 3, 1), (2024, 3, 2)]),
        (["1/3/2024", "31/3/2024"], [(2024, 3, 1), (2024, 3, 31)]),
        (["1/3/24", "31/3/70"], [(2024, 3, 1), (1970, 3, 31)]),
        (["1 Mar 2024", "31-aug-69"], [(2024, 3, 1), (1969, 8, 31)]),
        (["March 1, 2024", "Dec. 31, 2023"], [(2024, 3, 1), (2023, 12, 31)]),
        (["2024-3-1", "2024-03-02"], [(2024, 3, 1), (2024, 3, 2)]),
    ],
)
def test_dates_are_those_of_the_calendar(words, days):
    expected = [date(*day).toordinal() - date(1970, 1, 1).toordinal() for day in days]
    assert text(words).typed().numbers().tolist() == expected


@pytest.mark.parametrize(
    ("words", "values", "unit"),
    [
        (["$1,200.50", "-$3", None], [1200.5, -3], "$"),
        (["12.5%", "7 %"], [12.5, 7], "%"),
        (["12 kg", "0.5kg"], [12, 0.5], "kg"),
        (["EUR 5", "6 EUR"], [5, 6], "EUR"),
        (["-3 \u00b0C", "4\u00b0C"], [-3, 4], "\u00b0C"),
        (["1", "2"], [1, 2], ""),
        (["(1,200)", "3"], [-1200, 3], ""),
        (["($1,200.50)", "$3", "-"], [-1200.5, 3], "$"),
    ],
)
def test_numbers_may_have_a_unit(words, values, unit):
    column = text(words).typed()
    assert (column.kind, column.unit) == ("number", unit)
    assert column.values[: len(values)].tolist() == values


@pytest.mark.parametrize(
    "words",
    [
        ["$1", "\u20ac2"],
        ["1 kg", "2 lb"],
        ["1 kg", "2"],
        ["C100", "C200"],
        ["Q1", "Q2"],
        ["5-6", "7-8"],
    ],
)
def test_cells_of_different_units_and_names_with_numbers_are_text(words):
    assert text(words).typed().kind == "text"


def test_a_model_takes_the_unit_that_it_knows_or_none():
    table = Table.of(
        {"pay": text([f"${100 + n}.5" for n in range(30)]), "b": text(["x", "y"] * 15)}
    )
    columns = Columns.fit(table, Options())
    assert columns.lines()[0] == "number: pay (in $)"
    columns = Columns.from_json(columns.to_json())
    points = columns.transform(table)
    plain = Table.of({"pay": text([f"{100 + n}.5" for n in range(30)]), "b": table.columns[1]})
    assert (columns.transform(plain) == points).all()
    other = Table.of({"pay": text(["\u20ac100"] * 30), "b": table.columns[1]})
    with pytest.raises(InputError, match=r"'pay': in \u20ac, but those of the fit were in \$"):
        columns.transform(other)


@pytest.mark.parametrize(
    ("word", "hours"),
    [
        ("0:00", 0),
        ("6:45", 6.75),
        ("18:30:36", 18.51),
        ("12:15 AM", 0.25),
        ("12:15 pm", 12.25),
        ("11 PM", 23),
    ],
)
def test_times_of_day_are_hours_since_midnight(word, hours):
    assert text([word]).typed().numbers().tolist() == pytest.approx([hours])


def test_noon_and_midnight_of_dates_are_those_of_the_clock():
    found = text(["3/1/2024 12:00 AM", "3/1/2024 12:30 PM"]).typed().values
    assert found.tolist() == [datetime(2024, 3, 1), datetime(2024, 3, 1, 12, 30)]


def test_new_rows_have_days_and_months_in_the_order_of_the_fit():
    days = [f"{1 + n % 28}/{1 + n % 12}/2024" for n in range(60)]
    made = table(at=days, plan=["a", "b"] * 30)
    columns = Columns.from_json(Columns.fit(made, Options()).to_json())
    new = columns.transform(table(at=["3/4/2024"], plan=["a"]))
    assert new[0, 0] == date(2024, 4, 3).toordinal() - date(1970, 1, 1).toordinal()


def test_new_rows_may_be_marked_as_missing_and_have_numbers_that_look_like_codes():
    rng = np.random.default_rng(0)
    made = table(size=rng.integers(10_000, 99_999, N), plan=["a", "b"] * (N // 2))
    columns = Columns.fit(made, Options(kinds={"size": "number"}))
    middle = columns.all[0].fill[0]
    new = columns.transform(table(size=["unknown", "-"], plan=["a", "b"]))
    assert new[:, 0].tolist() == [middle] * 2
    assert columns.transform(table(size=["01005"], plan=["a"]))[0, 0] == 1005


def test_a_time_zone_is_taken_off_a_date():
    shifted = text(["2024-03-01T12:30:15.25+02:00"]).typed().values[0]
    assert shifted == np.datetime64("2024-03-01T10:30:15.25", "us")


# --- times of day -------------------------------------------------------------------------------


def times(minutes) -> list[str]:
    return [f"{m // 60 % 24}:{m % 60:02}" for m in minutes]


def test_times_of_day_become_hours_and_rows_have_times_again():
    rng = np.random.default_rng(0)
    minutes = rng.integers(8 * 60, 18 * 60, N)
    made = table(opened=[*times(minutes[1:]), ""], plan=["a", "b"] * (N // 2))
    columns = Columns.from_json(Columns.fit(made, Options()).to_json())
    assert columns.lines()[0] == "time: opened (1 missing)"
    points = columns.transform(made)
    assert points[:-1, 0] == pytest.approx(minutes[1:] / 60)
    assert points[-1, 0] == pytest.approx(np.median(minutes[1:]) / 60)
    assert columns.meanings[0] == "time" and columns.meanings[1] == "share"
    back = columns.inverse(points)
    assert back["opened"].text()[:-1].tolist() == [f"{m // 60:02}:{m % 60:02}" for m in minutes[1:]]
    assert back.to_pandas()["opened"][0] == clock_time(*divmod(int(minutes[1]), 60))
    # New rows: another way to write the same time.
    new = table(opened=["5:30 PM"], plan=["a"])
    assert columns.transform(new)[0, 0] == 17.5
    with pytest.raises(InputError, match=r"'opened': '99:99' in row 0 .* is not a time of day"):
        columns.transform(table(opened=["99:99"], plan=["a"]))


@pytest.mark.parametrize(
    ("minutes", "begins"),
    [
        (range(8 * 60, 18 * 60, 7), 0),  # a working day
        (range(22 * 60, 28 * 60, 7), 13),  # a night
        (range(0, 24 * 60, 60), 0),  # around the clock
    ],
)
def test_a_day_begins_where_no_times_are_if_that_is_not_midnight(minutes, begins):
    made = table(at=times(minutes), plan=["a", "b"] * (len(minutes) // 2))
    columns = Columns.from_json(Columns.fit(made, Options()).to_json())
    at = columns.transform(made)[:, 0]
    assert columns.all[0].begins == pytest.approx(begins, abs=0.1)
    assert at == pytest.approx(np.array(minutes) / 60)  # in the order of the night
    assert columns.inverse(columns.transform(made))["at"].numbers() == pytest.approx(
        np.array(minutes) / 60 % 24
    )


def test_times_of_data_frames_are_those_of_text():
    pl = pytest.importorskip("polars")
    words = times(range(0, 24 * 60, 31))
    hours = text(words).typed().numbers()
    moments = [clock_time(*map(int, word.split(":"))) for word in words]
    moments[3], hours[3] = None, np.nan
    frames = [pd.DataFrame({"t": moments}), pl.DataFrame({"t": moments})]
    frames.append(frames[1].to_arrow())
    for each in frames:
        column = as_table(each)["t"]
        assert column.kind == "time"
        np.testing.assert_allclose(column.numbers(), hours)
        assert column.objects().tolist() == moments
        assert column.text()[0] == "00:00" and column.text()[3] is None


# --- kinds --------------------------------------------------------------------------------------


def test_a_cell_in_another_unit_is_named():
    shares = [f"{n}.5%" for n in range(30)]
    shares[7] = "7.5"
    with pytest.raises(InputError, match=r"'p': '7.5' in row 7 \(counted from 0\) is not in %"):
        kinds(table(p=shares, q=range(30)))
    houses = [*range(1, 40), "12a"]
    with pytest.raises(InputError, match=r"'12a' in row 39 .* is not a number"):
        kinds(table(house=houses, q=range(40)))
    mixed = [f"${n}" if n % 2 else f"\u20ac{n}" for n in range(30)]
    assert kinds(table(p=mixed, q=np.sqrt(range(30))))["p"] == "id"


def test_codes_with_zeros_before_them_are_names_and_money_is_never_an_id():
    zips = [f"{n % 7 + 998:05}" for n in range(N)]
    pay = [f"$ {1000 + 3 * n}" for n in range(N)]
    assert kinds(table(zip=zips, pay=pay)) == {"zip": "category", "pay": "number"}


def test_what_is_constant_says_how_many_cells_it_has_not():
    made = table(tick=["x", ""] * 20, all=["y"] * 40, v=[n % 9 for n in range(40)])
    out = Columns.fit(made, Options()).lines()[-1]
    assert out == "left out: tick (constant, 20 missing), all (constant)"


def test_columns_are_typed_by_what_they_hold():
    rng = np.random.default_rng(0)
    found = kinds(
        table(
            customer=[f"C{k}" for k in range(N)],
            number=[10_000 + k for k in range(N)],
            account=rng.choice(10**8, N, replace=False),
            order_id=rng.permutation(np.arange(N) ** 2),
            salary=np.arange(N) ** 2 * 7,
            measure=rng.normal(size=N),
            children=rng.integers(0, 4, N),
            flag=rng.integers(0, 2, N),
            since=[f"2020-01-{1 + k % 28:02}" for k in range(N)],
            city=rng.choice(["a", "b", None], N),
            notes=[f"text {k // 2 if k < 40 else k}" for k in range(N)],
            country=["here"] * N,
            nothing=[None] * N,
        )
    )
    assert found == {
        "customer": "id",
        "number": "id",
        "account": "id",
        "order_id": "id",
        "salary": "number",
        "measure": "number",
        "children": "number",
        "flag": "boolean",
        "since": "date",
        "city": "category",
        "notes": "drop",
        "country": "drop",
        "nothing": "drop",
    }


@pytest.mark.parametrize("seed", range(5))
def test_measured_whole_numbers_that_all_differ_are_no_id(seed):
    rng = np.random.default_rng(seed)
    incomes = np.unique(rng.normal(50_000, 15_000, 400).round())
    assert kinds(table(income=rng.permutation(incomes)))["income"] == "number"


def test_columns_that_say_the_same_count_once():
    rng = np.random.default_rng(0)
    x, city = rng.normal(size=N), rng.choice(["a", "b", "c"], N)
    code = [{"a": "01", "b": "02", "c": "x"}[c] for c in city]
    columns = Columns.fit(table(x=x, again=x, other=-x, city=city, code=code), Options())
    reasons = {each.name: each.reason for each in columns.all if each.reason}
    assert reasons == {"again": "the same as 'x'", "code": "says the same as 'city'"}


def test_what_is_asked_for_goes_before_what_is_found_out():
    rng = np.random.default_rng(0)
    made = table(
        key=np.arange(N), zip=rng.integers(1, 5, N), x=rng.normal(size=N), y=rng.normal(size=N)
    )
    asked = {"key": "number", "zip": "category", "y": "drop"}
    assert kinds(made, kinds=asked) == asked | {"x": "number"}
    assert kinds(made, columns=("key", "x"))["key"] == "number"
    assert kinds(made, columns=("key", "x"))["y"] == "drop"
    assert kinds(made, kinds={"x": "id"})["x"] == "id"


def test_unknown_columns_are_refused_with_the_nearest():
    with pytest.raises(InputError, match=r"no column 'incme' \(did you mean 'income'"):
        Columns.fit(table(income=[1, 2]), Options(kinds={"incme": "drop"}))


def test_a_stray_word_among_numbers_is_named_unless_there_are_few_values():
    values = [str(k / 7) for k in range(50)]
    with pytest.raises(InputError, match=r"column 'x': 'oops' in row 50 .* is not a number"):
        Columns.fit(table(x=[*values, "oops"]), Options())
    assert kinds(table(x=["0", "1", "2", "3+"] * 10))["x"] == "category"


def test_numbers_without_gaps_are_points_already():
    rng = np.random.default_rng(0)
    assert Columns.of(table(a=rng.normal(size=N), b=rng.integers(0, 9, N)), Options()) is None
    assert Columns.of(table(a=[1, 2, None], b=[3, 4, 5]), Options()) is not None
    assert Columns.of(table(a=[1, 2, 4], b=[3, 4, 5]), Options(columns=("a",))) is not None


# --- there and back -----------------------------------------------------------------------------


@pytest.mark.parametrize("impute", ["median", "mean", "most_frequent"])
def test_points_are_those_of_a_pipeline_of_scikit_learn(impute):
    rng = np.random.default_rng(3)
    made, new = frame(rng), frame(rng)
    columns = Columns.fit(as_table(made), Options(impute=impute))
    numbers = ColumnTransformer([("n", SimpleImputer(strategy=impute), ["age", "income"])])
    for data in (made, new):
        points = columns.transform(as_table(data))
        np.testing.assert_allclose(points[:, :2], numbers.fit(made).transform(data))
    if impute == "most_frequent":
        encode = make_pipeline(
            SimpleImputer(strategy="most_frequent"), OneHotEncoder(sparse_output=False)
        )
        expected = encode.fit(made[["city", "plan"]].astype(object)).transform(
            new[["city", "plan"]].astype(object)
        )
        np.testing.assert_allclose(columns.transform(as_table(new))[:, 2:], expected)


def test_rare_and_unseen_categories_are_those_of_scikit_learn():
    rng = np.random.default_rng(1)
    values = [f"c{min(int(k), 150)}" for k in rng.exponential(25, 2_000)]
    new = [*rng.choice(values, 50).tolist(), "unseen"]
    columns = Columns.fit(table(x=values, y=rng.normal(size=2_000)), Options())
    encoder = OneHotEncoder(
        handle_unknown="infrequent_if_exist",
        min_frequency=20,
        max_categories=20,
        sparse_output=False,
    ).fit(np.array(values, dtype=object)[:, None])
    assert columns.names[:20][-1] == f"x={OTHERS}"
    for read in (columns, Columns.from_json(columns.to_json())):
        points = read.transform(table(x=new, y=np.zeros(51)))
        np.testing.assert_array_equal(
            points[:, :-1], encoder.transform(np.array(new, dtype=object)[:, None])
        )


def test_a_missing_category_and_one_that_was_never_seen_become_the_shares():
    columns = Columns.fit(table(x=["a", "a", "a", "b"] * 30, y=range(0, 240, 2)), Options())
    points = columns.transform(table(x=["b", None, "new"], y=[1, 2, None]))
    np.testing.assert_allclose(points[:, :2], [[0, 1], [0.75, 0.25], [0.75, 0.25]])


@pytest.mark.parametrize("name", messy.RECIPES)
def test_json_gives_back_the_same_points(name):
    recipe = messy.RECIPES[name]
    made, new = table_of(messy.make(recipe, 0)[0]), table_of(messy.new_rows(recipe, 1))
    columns = Columns.fit(made, Options())
    again = Columns.from_json(columns.to_json())
    assert again.all == columns.all and again.lines() == columns.lines()
    for rows in (made, new):
        points = columns.transform(rows)
        assert np.isfinite(points).all() and points.shape == (recipe.rows, columns.width)
        np.testing.assert_array_equal(again.transform(rows), points)
    assert not {"text_id", "country"} & {each.name for each in columns.used}
    assert columns.ids == [each for each in made.names if each.endswith("_id")]


def test_damaged_json_is_refused():
    columns = Columns.fit(table(x=["a", "b"] * 30, y=range(0, 120, 2)), Options())
    kept = json.loads(columns.to_json())
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
    for words in ("", "[]", "{}", "[1]", json.dumps([kept[0], kept[0]])):
        with pytest.raises(InputError, match="columns: "):
            Columns.from_json(words)


def test_points_become_rows_again():
    rng = np.random.default_rng(0)
    made = frame(rng, gaps=0)
    made["since"] = pd.Timestamp("2020-02-01") + pd.to_timedelta(rng.integers(0, 99, N), "D")
    made["ok"] = rng.random(N) < 0.5
    made["said"] = rng.choice(["Yes", "No"], N)
    columns = Columns.fit(as_table(made), Options())
    back = columns.inverse(columns.transform(as_table(made))).to_pandas()
    pd.testing.assert_frame_equal(back, made, check_dtype=False)


# --- weights ------------------------------------------------------------------------------------


@pytest.mark.parametrize("levels", [2, 3, 4, 8])
@pytest.mark.parametrize("gaps", [0, 60])
def test_a_category_of_even_values_varies_as_distances_have_it(levels, gaps):
    """With and without missing cells, which make three values of two."""
    rng = np.random.default_rng(0)
    city = [f"c{k % levels}" for k in range(24 * levels)]
    flag = ["yes", "no"] * (12 * levels)
    number = rng.normal(size=len(city)).tolist()
    blank = [None] * gaps
    made = table(x=[*number, *[0] * gaps], city=[*city, *blank], flag=[*flag, *blank])
    columns = Columns.fit(made, Options(kinds={"city": "category", "flag": "boolean"}))
    points = columns.transform(made)
    scaled = columns.scaling(points, "standard").apply(points)[: len(city)].astype(float)
    assert scaled[:, 1 + levels].std() == pytest.approx(TWO_VALUED, rel=1e-5)
    expected = min(TWO_VALUED, 1 / np.sqrt(levels))
    np.testing.assert_allclose(scaled[:, 1 : 1 + levels].std(0), expected, rtol=1e-5)
    if not gaps and levels <= 4:  # of more, each is rare, which distances make less of
        seen = distance_points(scaled[:, 1:]).std(0)
        np.testing.assert_allclose(seen, [expected] * levels + [TWO_VALUED], rtol=0.02)


@pytest.mark.parametrize("shares", [[0.5, 0.5], [0.97, 0.03], [0.25] * 4, [0.7, 0.1, 0.1, 0.1]])
def test_all_columns_of_a_category_vary_no_more_than_one_number(shares):
    rng = np.random.default_rng(0)
    names = [f"v{k}" for k in range(len(shares))]
    many = table(**{f"c{k}": rng.choice(names, N, p=shares) for k in range(3)})
    columns = Columns.fit(many, Options())
    points = columns.transform(many)
    scaled = columns.scaling(points, "standard").apply(points).reshape(N, 3, -1)
    totals = scaled.var(0).sum(-1)
    assert (totals <= 1 + 1e-2).all()


@pytest.mark.parametrize(
    ("recipe", "seed"),
    [
        (messy.RECIPES["categories that tell"], 12),  # five of them, and few numbers
        (messy.Recipe(numbers=2, noise=0, distance=6, categories=0, values=3, missing=0), 1),
        (messy.Recipe(numbers=2, noise=0, distance=6, categories=0, strange=5, missing=0), 1),
    ],
)
def test_categories_that_tell_groups_are_heard_and_others_do_not_decide(recipe, seed):
    cells_of, y = messy.make(recipe, seed)
    made = table_of(cells_of)
    columns = Columns.fit(made, Options())
    points = columns.transform(made)
    scaled = columns.scaling(points, "standard").apply(points).astype(float)
    start = choose_start(distance_points(scaled), recipe.clusters)
    assert normalized_mutual_info_score(y, start.labels) > 0.9


def test_without_scaling_points_stay_as_they_are():
    made = table(x=["a", "b"] * 30, y=range(0, 120, 2))
    columns = Columns.fit(made, Options())
    points = columns.transform(made)
    scaling = columns.scaling(points, "none")
    np.testing.assert_array_equal(scaling.scale, Scaling.identity(points).scale)
