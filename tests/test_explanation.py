"""Profiles and effects against loops over the rows, and what a fit says and keeps."""

from __future__ import annotations

import json
import math
from datetime import date
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from gedilearn import GEDI, explanation
from gedilearn.errors import InputError
from gedilearn.explanation import (
    MOST_PREVIEWED,
    MOST_ROWS,
    Difference,
    Explanation,
)
from gedilearn.io import plain, read_tensors
from gedilearn.training.run import RunDirectory
from gedilearn.verdict.outputs import Outputs
from helpers import gedi

SMALL = {"max_iter": 20, "training.check_every": 10, "network.hidden": (8,), "random_state": 0}
SMALL |= {"density.iterations": 20, "density.base": "none"}


def explain(x, names, labels, p, density, kinds=None) -> Explanation:
    return explanation.explain(x, Outputs(labels, p, density), names, kinds)


def made(n: int = 200, c: int = 4, seed: int = 0) -> tuple[np.ndarray, ...]:
    rng = np.random.default_rng(seed)
    p = rng.dirichlet(np.full(c, 0.3), n)
    labels = p.argmax(1)
    x = rng.normal(size=(n, 7)) + labels[:, None]
    return x, labels, p, rng.normal(-5, 2, n)


@pytest.fixture(scope="module")
def explained() -> tuple[Explanation, tuple[np.ndarray, ...]]:
    given = made()
    return explain(given[0], [f"c{j}" for j in range(7)], *given[1:]), given


def through_json(found: Explanation, **changes: object) -> Explanation:
    return Explanation.from_json(json.loads(json.dumps(plain(found.to_json()))) | changes)


def lowest(rows: list[int], value) -> list[int]:
    """The rows in the order of a value, of equal ones the first."""
    return sorted(rows, key=value)[:MOST_ROWS]


def test_rows_are_those_that_a_loop_finds(explained):
    found, (_, labels, p, density) = explained
    for k, profile in enumerate(found.clusters):
        rows = [i for i in range(len(labels)) if labels[i] == k]
        assert (profile.cluster, profile.size) == (k, len(rows))
        assert profile.share == pytest.approx(len(rows) / len(labels))
        typical = lowest(rows, lambda i, k=k: -(density[i] + np.log(p[i, k])))
        assert [r.row for r in profile.typical] == typical
        assert [r.row for r in profile.uncertain] == lowest(rows, lambda i, k=k: p[i, k])
        assert [r.row for r in profile.outliers] == lowest(rows, lambda i: density[i])
    everything = sorted(range(len(labels)), key=lambda i: density[i])[:10]
    assert [r.row for r in found.outliers] == everything


def test_without_a_density_no_row_is_unusual():
    """The network's log p(x) would name some, but it was never trained for it."""
    x = made()[0]
    model = gedi(2, w_gen=0, **SMALL).fit(x)
    p, found = model.predict_proba(x), model.explain(x)
    assert not found.outliers
    assert "The density was not learnt" in str(found) and "unusual rows" not in str(found)
    for k, profile in enumerate(found.clusters):
        rows = [i for i in range(len(x)) if model.labels_[i] == k]
        assert [r.row for r in profile.typical] == lowest(rows, lambda i, k=k: -np.log(p[i, k]))
        assert not profile.outliers and all(r.log_density is None for r in profile.uncertain)
    assert through_json(found) == found


def test_neighbours_are_the_clusters_of_the_highest_mean_probability(explained):
    found, (_, labels, p, _) = explained
    for k, profile in enumerate(found.clusters):
        rows = [i for i in range(len(labels)) if labels[i] == k]
        means = {j: sum(p[i, j] for i in rows) / len(rows) for j in range(4) if j != k}
        assert profile.neighbours == pytest.approx(means)
        assert list(profile.neighbours) == sorted(means, key=lambda j: -means[j])
        assert profile.probability == pytest.approx(sum(p[i, k] for i in rows) / len(rows))


def test_a_row_says_its_values_and_what_else_it_could_be(explained):
    found, (x, labels, p, density) = explained
    for profile in found.clusters:
        for row in (*profile.typical, *profile.uncertain, *profile.outliers):
            i, order = row.row, np.argsort(-p[row.row])
            assert row.cluster == labels[i] == order[0] and row.probability == p[i, order[0]]
            assert row.second == (order[1] if p[i, order[1]] >= 0.005 else None)
            assert row.log_density == density[i]
            assert row.values == {name: x[i, int(name[1:])] for name in row.values}
            assert {d.column for d in profile.differences} <= row.values.keys()


def test_it_goes_to_json_and_back_and_json_of_other_data_is_refused(explained):
    assert through_json(explained[0]) == explained[0]
    for change in ({"n_samples": 3}, {"clusters": []}, {"warnings": [1]}):
        with pytest.raises(ValueError):
            through_json(explained[0], **change)


def test_a_network_that_is_not_finite_and_clusters_without_rows_are_said_as_they_are():
    x, labels, p, density = made()
    found = explain(x, None, np.zeros_like(labels), p * np.nan, density * np.nan)
    assert found.clusters[0].size == 200 and found.clusters[1].size == 0
    assert "Clusters without rows: 1, 2, 3." in found.warnings
    assert str(through_json(found)) == str(found)


# --- columns --------------------------------------------------------------------------------------


def table(seed: int = 0, n: int = 300) -> tuple[np.ndarray, np.ndarray]:
    """Rows of four columns on very different scales, and labels of three clusters."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 3, n)
    x = rng.normal(size=(n, 4)) * (1, 1e-6, 1e5, 2) + (0, 5, 1e9, -3)
    x[:, 0] += 2 * (labels == 1)
    x[:, 2] -= 3e5 * (labels == 0)
    return x, labels


def explained_columns(x, labels, names=None, c=3, kinds=None) -> Explanation:
    p = np.eye(c)[labels]
    return explain(x, names, labels, p, np.zeros(len(x)), kinds)


def differences(x, labels, names=None, c=3, kinds=None) -> list[tuple[Difference, ...]]:
    found = explained_columns(x, labels, names, c, kinds)
    return [profile.differences for profile in found.clusters]


def by_hand(x: np.ndarray, labels: np.ndarray, k: int, j: int) -> tuple[float, float, float]:
    """Cohen's d with the textbook's pooled variance, and the means."""
    inside, outside = x[labels == k, j], x[labels != k, j]
    n, m = len(inside), len(outside)
    pooled = ((n - 1) * inside.var(ddof=1) + (m - 1) * outside.var(ddof=1)) / (n + m - 2)
    effect = (inside.mean() - outside.mean()) / math.sqrt(pooled)
    return effect, inside.mean(), outside.mean()


def test_differences_are_those_of_a_loop_over_clusters_and_columns(monkeypatch):
    x, labels = table()
    monkeypatch.setattr(explanation, "MEDIUM_EFFECT", 0.0)  # every column is named
    for k, found in enumerate(differences(x, labels, list("abcd"))):
        assert {d.column for d in found} == set("abcd")
        for d in found:
            expected = by_hand(x, labels, k, "abcd".index(d.column))
            np.testing.assert_allclose((d.effect, d.mean, d.others), expected, rtol=1e-5)
        effects = [abs(d.effect) for d in found]
        assert effects == sorted(effects, reverse=True)


def test_only_columns_worth_a_word_are_named_the_strongest_first():
    found = differences(*table(), ["income", "noise", "visits", "width"])
    assert [d.words for d in found[1]] == ["higher income", "higher visits"]
    assert found[0][0].words == "much lower visits"
    assert all(d.column not in ("noise", "width") for own in found for d in own)


@pytest.mark.parametrize(
    ("name", "inside", "outside", "words"),
    [
        ("income", [8.5, 9.5, 10.5], [1.5, 2.5, 3.5], "much higher income"),
        ("age", [1, 2, 3], [2, 3, 4], "lower age"),
        ("smoker", [1, 1, 1, 0], [0, 0, 1, 0], "more often smoker"),
        ("smoker", [1, 1, 1, 1], [0, 0, 0, 0], "always smoker"),
        ("smoker", [0, 0, 0, 0], [0, 1, 1, 0], "never smoker"),
    ],
)
def test_words_fit_what_a_column_holds(name, inside, outside, words):
    x = np.array([*inside, *outside], float)[:, None]
    labels = np.array([0] * len(inside) + [1] * len(outside))
    assert [d.words for d in differences(x, labels, [name], 2)[0]] == [words]


def test_a_column_that_is_the_cluster_has_an_infinite_effect():
    labels = np.arange(1000) % 3
    x = np.stack([labels == 0, np.full(1000, 7.0)], 1).astype(float)
    found = differences(x, labels, ["flag", "constant"])
    (flag,) = found[0]
    assert (flag.column, flag.effect, flag.words) == ("flag", math.inf, "always flag")
    assert (flag.mean, flag.others) == (1, 0)
    assert all(d.column == "flag" for own in found for d in own)


@pytest.mark.parametrize(("factor", "shift"), [(1e140, 0.0), (1e-140, 0.0), (1.0, 1e6)])
def test_huge_offsets_and_scales_change_no_effect(factor, shift):
    x, labels = table(2)
    pairs = zip(differences(x, labels), differences(x * factor + shift, labels), strict=True)
    for own, other in pairs:
        assert [d.column for d in own] == [d.column for d in other]
        np.testing.assert_allclose([d.effect for d in own], [d.effect for d in other], rtol=1e-3)


def test_unused_clusters_and_one_that_holds_all_have_no_differences():
    x, labels = table(3)
    assert differences(x, np.zeros_like(labels), c=2) == [(), ()]


def test_a_warning_names_the_columns_that_alone_make_the_clusters():
    rng = np.random.default_rng(0)
    secret = rng.uniform(0, 6, 900)
    labels = secret.astype(int) % 3  # six ranges of it, two for each cluster
    x = np.column_stack([rng.normal(size=(900, 60)), secret * 1e7])
    names = [*(f"noise {j}" for j in range(60)), "secret"]
    (warning,) = explained_columns(x, labels, names).warnings
    assert warning.startswith("The column secret alone reproduces the clusters (AMI")
    x[:, 7] = -labels
    first, second = explained_columns(x, labels, names).warnings
    assert "noise 7" in first and "secret" in second


def test_no_column_alone_makes_clusters_of_two_columns_or_of_noise_or_if_it_is_the_only_one():
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, (400, 2))
    for labels in ((x[:, 0] * x[:, 1] > 0).astype(int), rng.integers(0, 4, 400)):
        assert explained_columns(x, labels, c=4 if labels.max() > 1 else 2).warnings == ()
    assert explained_columns(x[:, :1], (x[:, 0] > 0).astype(int), c=2).warnings == ()


def test_shares_with_gaps_filled_in_are_shares():
    labels = np.repeat([0, 1, 2], 50)
    rng = np.random.default_rng(0)
    red = np.where(rng.random(150) < 0.2, 0.4, labels == 1)  # a missing cell is the share of all
    rare = np.where(labels == 0, rng.random(150) < 0.06, rng.random(150) < 0.01)
    x = np.column_stack([red, rare, rng.normal(size=150)])
    found = differences(
        x, labels, ["colour=red", "town=a", "b"], 3, ["category", "category", "number"]
    )
    assert [d.words for d in found[1]] == ["much more often colour=red"]


def test_dates_times_and_shares_are_said_and_shown_in_their_own_units():
    rng = np.random.default_rng(0)
    labels = np.repeat([0, 1], 50)
    first = date(2024, 3, 1).toordinal() - date(1970, 1, 1).toordinal()
    joined = first + 100 * labels + rng.normal(size=100)
    arrival = np.where(labels == 1, 24 + rng.normal(size=100), 18.5)  # around midnight
    x = np.c_[joined, (rng.random(100) < 0.2) | (labels == 1), arrival]
    found = differences(x, labels, ["joined", "smoker", "arrival"], 2, ["date", "number", "time"])[
        1
    ]
    words = {"much later joined", "always smoker", "much later arrival"}
    assert {d.words for d in found} == words
    shown = {d.column: d for d in found}
    assert shown["joined"].written(first + 0.9) == "2024-03-01"
    assert shown["arrival"].written(24.26) == "00:16" and shown["arrival"].written(18.5) == "18:30"
    smoker = shown["smoker"]
    assert smoker.kind == "boolean" and smoker.written(smoker.others) == f"{x[:50, 1].mean():.0%}"


# --- a fitted model -------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def frame() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    x = np.concatenate([rng.normal(-3, 1, (40, 3)), rng.normal(3, 1, (50, 3))])
    return pd.DataFrame(x, columns=["width", "height", "depth"])


@pytest.fixture(scope="module")
def run(frame, tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("runs") / "run"
    gedi(2, run_dir=path, **SMALL).fit(frame)
    return path


def test_a_model_explains_data_by_its_columns(run, frame):
    model = GEDI.load(run / "model.safetensors")
    found = model.explain(frame)
    p, density = model.predict_proba(frame), model.score_samples(frame)
    labels, names = model.predict(frame), list(frame.columns)
    assert str(found) == str(explain(frame.to_numpy(), names, labels, p, density))
    assert {d.column for c in found.clusters for d in c.differences} <= set(names)
    part = model.explain(frame[:10])
    assert part.n_samples == 10
    with pytest.raises(InputError):
        model.explain(frame.to_numpy()[:, :2])


def test_names_can_be_given_where_the_model_knows_none(frame):
    model = gedi(2, **SMALL).fit(frame.to_numpy())
    rows = model.explain(frame.to_numpy()).clusters[0].typical
    assert list(rows[0].values) and all(name.startswith("column ") for name in rows[0].values)
    named = model.explain(frame.to_numpy(), ["a", "b", "c"])
    assert set(named.clusters[0].typical[0].values) == set("abc")
    assert model.explain(frame.to_numpy(), ["a", "b", "a"]).columns == ("a", "b", "a")
    with pytest.raises(InputError, match="2 names for 3 columns"):
        model.explain(frame.to_numpy(), ["a", "b"])


def test_a_run_keeps_its_profiles_and_the_rows_that_they_name(run, frame):
    files = RunDirectory(run)
    model = GEDI.load(files.model)
    kept = Explanation.from_json(json.loads(files.profile.read_text()))
    assert str(kept) == str(model.explain(frame))
    preview = {name: t.numpy() for name, t in read_tensors(files.preview)[0].items()}
    np.testing.assert_array_equal(preview["rows"], np.arange(90))
    np.testing.assert_array_equal(preview["points"], frame.to_numpy())
    np.testing.assert_array_equal(preview["labels"], model.labels_)
    np.testing.assert_allclose(preview["probability"], model.predict_proba(frame).max(1))
    np.testing.assert_allclose(preview["features"], model.transform(frame), rtol=1e-6)
    np.testing.assert_allclose(preview["log_density"], model.score_samples(frame))
    np.testing.assert_array_equal(preview["trust"], model.trust_)
    named = [row for profile in kept.clusters for row in (*profile.typical, *profile.uncertain)]
    assert [row.trust for row in named] == model.trust_[[row.row for row in named]].tolist()


def test_of_many_rows_even_ones_and_the_named_ones_are_kept(tmp_path):
    x = np.random.default_rng(0).normal(size=(MOST_PREVIEWED + 2000, 2))
    gedi(2, run_dir=tmp_path / "run", views="noise", w_gen=0, **SMALL).fit(x)
    files = RunDirectory(tmp_path / "run")
    rows = read_tensors(files.preview)[0]["rows"].numpy()
    named = Explanation.from_json(json.loads(files.profile.read_text())).rows
    assert set(named) <= set(rows.tolist())
    assert MOST_PREVIEWED <= len(rows) <= MOST_PREVIEWED + len(named)
    assert (np.diff(rows) > 0).all()


def test_pictures_of_bytes_are_kept_as_bytes(tmp_path):
    x = np.random.default_rng(2).integers(0, 256, (12, 1, 8, 8), dtype=np.uint8)
    model = gedi(2, run_dir=tmp_path / "run", **(SMALL | {"max_iter": 2})).fit(x)
    points = read_tensors(RunDirectory(tmp_path / "run").preview)[0]["points"].numpy()
    assert points.dtype == np.uint8
    np.testing.assert_array_equal(points, x)
    profile = model.explain(x).clusters[0]
    assert profile.words == "" and profile.differences == () and profile.typical[0].values == {}
