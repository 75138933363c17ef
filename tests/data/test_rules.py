"""What all rows of a table keep: found without rules by chance, and kept by changed values."""

from __future__ import annotations

import json

import numpy as np
import pytest

from gedilearn.data.rules import Rules

NUMBERS = ["number"] * 3


def rng(seed=0):
    return np.random.default_rng(seed)


def applied(rules, values, **more):
    """`Rules.applied` with the quantiles of the values themselves."""
    free = np.full(values.shape, np.nan)
    given = {"knots": rules.knots(values), "fixed": free, "rng": rng()} | more
    return rules.applied(values, **given)


def test_numbers_keep_range_decimals_and_repeated_values():
    training = np.c_[
        rng().exponential(3, 500).round(2),
        rng(1).poisson(0.5, 500),
        np.where(rng(2).random(500) < 0.6, 0, rng(3).uniform(5, 9, 500).round(1)),
    ]
    rules = Rules.of(training, NUMBERS, {})
    assert [facts.grid for facts in rules.columns] == [100, 1, 10]
    blurred = training + rng(4).normal(size=training.shape) * [1, 0.4, 0.8]
    rows, possible = applied(rules, blurred)
    assert possible.mean() > 0.95
    assert rows[:, 0].min() >= training[:, 0].min() and rows[:, 0].max() <= training[:, 0].max()
    np.testing.assert_allclose(rows[:, 0] * 100, np.round(rows[:, 0] * 100), atol=1e-6)
    for k in (1, 2):
        assert set(rows[:, k]) <= set(training[:, k])
        own, real = (np.mean(x[:, k] == 0) for x in (rows, training))
        assert abs(own - real) < 0.03
    # The map is increasing: no two rows change places.
    order = np.argsort(blurred[:, 0])
    assert (np.diff(rows[order, 0]) >= 0).all()


def test_the_map_of_values_that_are_already_right_is_the_identity():
    training = rng().normal(size=(400, 3))
    rows, possible = applied(Rules.of(training, NUMBERS, {}), training)
    assert possible.all()
    np.testing.assert_allclose(rows, training, atol=0.05)


def test_orders_and_sums_are_found_and_kept():
    start = rng().uniform(0, 1000, 600)
    end = start + rng(1).exponential(2, 600)
    fare, tip = rng(2).gamma(3, 5, 600).round(2), rng(3).gamma(1, 2, 600).round(2)
    training = np.c_[end, start, fare, tip, fare + tip + 0.8]
    rules = Rules.of(training, ["date", "date", *NUMBERS], {})
    assert (1, 0) in rules.orders and (0, 1) not in rules.orders
    assert dict(rules.columns[4].parts) == pytest.approx({2: 1, 3: 1})
    rows, possible = applied(rules, training + rng(4).normal(size=training.shape))
    assert possible.mean() > 0.9
    assert (rows[:, 0] >= rows[:, 1]).all()
    np.testing.assert_allclose(rows[:, 2] + rows[:, 3] + 0.8, rows[:, 4], atol=0.006)
    # What is between the two dates has the distribution of the training rows.
    between = rows[:, 0] - rows[:, 1]
    assert abs(np.median(between) - np.median(end - start)) < 0.3


def test_independent_columns_have_no_rules():
    for seed in range(20):
        x = np.c_[rng(seed).normal(size=(200, 2)), rng(seed + 99).integers(0, 4, 200)]
        levels = rng(seed + 50).integers(0, 6, (200, 2)).astype(float)
        kinds = [*NUMBERS, "category", "category"]
        rules = Rules.of(np.c_[x, levels], kinds, {3: (6, ()), 4: (6, ())})
        assert not rules.orders and not any(facts.parts for facts in rules.columns)
        assert not rules.never


def test_chance_makes_no_rule_among_many_columns_of_few_values():
    """With three rows expected of a pair of values, chance leaves out 5% of so many pairs."""
    training = rng().integers(17, size=(1_000, 30)).astype(float)
    rules = Rules.of(training, ["number"] * 30, {})
    assert not rules.never
    assert not rules.broken(rng(1).integers(17, size=(200, 30)).astype(float)).any()


def test_few_rows_make_no_rule():
    x = np.c_[[0.1, 0.4, 0.2, 0.9], [0.5, 1.0, 0.3, 1.5], [0, 1, 0, 1], [0, 1, 0, 1]]
    kinds = ["number", "number", "category", "category"]
    rules = Rules.of(x, kinds, {2: (2, ()), 3: (2, ())})
    assert not rules.orders and not rules.never


def test_levels_that_never_occur_together_are_refused_also_with_a_number():
    species, n = rng().integers(0, 3, 600), 600
    island = np.where(species == 0, rng(1).integers(0, 3, n), species)
    number = 10.0 * species
    training = np.c_[species, island, number].astype(float)
    rules = Rules.of(training, ["category", "category", "number"], {0: (3, ()), 1: (3, ())})
    drawn = np.array([[0, 2, 0], [1, 1, 10], [1, 2, 10], [2, 2, 20], [2, 2, 10]], dtype=float)
    assert rules.broken(drawn).tolist() == [False, False, True, False, True]
    assert not rules.broken(training).any()


def test_rare_levels_are_drawn_by_frequency_from_those_that_the_row_allows():
    zone = np.repeat(np.arange(6), [300, 300, 30, 10, 15, 5])  # 2 to 5 are rare
    borough = np.array([0, 1, 0, 0, 1, 1])[zone]
    training = np.c_[zone, borough].astype(float)
    kinds, levels = ["category", "category"], {0: (2, (30, 10, 15, 5)), 1: (2, ())}
    rules = Rules.of(training, kinds, levels)
    drawn = np.c_[np.full(4_000, np.nan), np.repeat([0.0, 1.0], 2_000)]
    rows, possible = applied(rules, drawn)
    assert possible.all()
    shares = [np.mean(rows[rows[:, 1] == b, 0] == z) for z, b in ((2, 0), (3, 0), (4, 1), (5, 1))]
    np.testing.assert_allclose(shares, [0.75, 0.25, 0.75, 0.25], atol=0.04)


def test_fixed_values_stay_and_what_exceeds_them_follows():
    start = rng().uniform(0, 10, 400)
    training = np.c_[start, start + rng(1).exponential(0.5, 400), rng(2).normal(size=400)]
    rules = Rules.of(training, NUMBERS, {})
    values = training.copy()
    fixed = np.full(values.shape, np.nan)
    values[:, 0] = fixed[:, 0] = 7.123
    rows, _ = applied(rules, values, fixed=fixed, knots=rules.knots(training))
    assert (rows[:, 0] == 7.123).all() and (rows[:, 1] >= rows[:, 0]).all()


def test_rules_come_back_from_json_and_damaged_text_is_refused():
    training = np.c_[rng().integers(0, 3, (300, 1)).repeat(2, 1), rng(1).normal(size=300)]
    kinds = ["category", "number", "number"]
    rules = Rules.of(training, kinds, {0: (3, ())})
    assert rules.never
    kept = rules.model_dump_json(exclude_defaults=True)
    again = Rules.model_validate_json(kept)
    assert (again.columns, again.orders, again.never) == (rules.columns, rules.orders, rules.never)
    whole = json.loads(kept)
    loop = [column | {"parts": [[k, 1]]} for k, column in enumerate(whole["columns"])]
    for change in (
        {"orders": [[0, 9]]},
        {"never": [[0, 1, [[-1, 0]]]]},
        {"never": [[0, 1, [[10**12, 0]]]]},
        {"columns": loop},
        {"unknown": 1},
    ):
        with pytest.raises((ValueError, IndexError)):
            Rules.model_validate_json(json.dumps(whole | change))
