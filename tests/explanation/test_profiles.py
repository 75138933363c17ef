"""Profiles against loops over the rows, and what a fit says and keeps."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from gedilearn import GEDI
from gedilearn.errors import InputError
from gedilearn.explanation.profiles import MOST_PREVIEWED, MOST_ROWS, Explanation, explain
from gedilearn.io import TensorFile, plain
from gedilearn.training.run import RunDirectory
from helpers import gedi

SMALL = {"max_iter": 20, "training.check_every": 10, "network.hidden": (8,), "random_state": 0}
SMALL |= {"density.iterations": 20, "density.base": "none"}


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
        assert [r.row for r in profile.doubtful] == lowest(rows, lambda i, k=k: p[i, k])
        assert [r.row for r in profile.outliers] == lowest(rows, lambda i: density[i])
    everything = sorted(range(len(labels)), key=lambda i: density[i])[:10]
    assert [r.row for r in found.outliers] == everything


def test_without_a_density_no_row_is_unusual():
    """The network's log p(x) would name some, but it was never trained for it."""
    x = made()[0]
    model = gedi(2, w_gen=0, **SMALL).fit(x)
    p, found = model.predict_proba(x), model.explain(x)
    assert not found.outliers and not found.log_densities.counts
    assert "The density was not learnt" in str(found) and "unusual:" not in str(found)
    for k, profile in enumerate(found.clusters):
        rows = [i for i in range(len(x)) if model.labels_[i] == k]
        assert [r.row for r in profile.typical] == lowest(rows, lambda i, k=k: -np.log(p[i, k]))
        assert not profile.outliers and all(r.log_density is None for r in profile.doubtful)
    assert through_json(found) == found


def test_neighbours_are_the_clusters_of_the_highest_mean_probability(explained):
    found, (_, labels, p, _) = explained
    for k, profile in enumerate(found.clusters):
        rows = [i for i in range(len(labels)) if labels[i] == k]
        means = {j: sum(p[i, j] for i in rows) / len(rows) for j in range(4) if j != k}
        assert {n.cluster: pytest.approx(n.probability) for n in profile.neighbours} == means
        assert [n.cluster for n in profile.neighbours] == sorted(means, key=lambda j: -means[j])
        assert profile.probability == pytest.approx(sum(p[i, k] for i in rows) / len(rows))


def test_a_row_says_its_values_and_what_else_it_could_be(explained):
    found, (x, labels, p, density) = explained
    for profile in found.clusters:
        for row in (*profile.typical, *profile.doubtful, *profile.outliers):
            i, order = row.row, np.argsort(-p[row.row])
            assert (row.cluster, row.second) == (labels[i], order[1]) == (order[0], row.second)
            assert row.probability == p[i, order[0]] and row.second_probability == p[i, order[1]]
            assert row.log_density == density[i]
            assert row.values == {name: x[i, int(name[1:])] for name in row.values}
            assert {d.column for d in profile.differences} <= row.values.keys()


def test_histograms_count_every_row_once(explained):
    found, (_, _, p, density) = explained
    assert sum(found.probabilities.counts) == sum(found.log_densities.counts) == len(p)
    edges = found.probabilities.edges
    for i, count in enumerate(found.probabilities.counts):
        inside = [v for v in p.max(1) if edges[i] <= v < edges[i + 1] or v == edges[i + 1] == 1]
        assert count == len(inside)
    assert found.log_densities.edges[-1] == density.max()


def test_one_far_row_does_not_use_up_the_histogram():
    x, labels, p, density = made()
    density[7] = -1e6
    found = explain(x, None, labels, p, density).log_densities
    assert found.below == 1 and found.counts[0] >= 1 and sum(found.counts) == 200
    assert sum(c > 0 for c in found.counts) > 10


def test_it_goes_to_json_and_back_and_json_of_other_data_is_refused(explained):
    assert through_json(explained[0]) == explained[0]
    for change in ({"n_samples": 3}, {"clusters": []}, {"probabilities": {}}, {"alone": [1]}):
        with pytest.raises(ValueError):
            through_json(explained[0], **change)


def test_a_warning_names_the_columns_that_alone_make_the_clusters():
    x, labels, p, density = made()
    x[:, 3] = labels * 10
    one = explain(x, [f"c{j}" for j in range(7)], labels, p, density)
    assert [a.column for a in one.alone] == ["c3"] and "c3" in one.warnings[0]
    x[:, 5] = -labels
    two = explain(x, [f"c{j}" for j in range(7)], labels, p, density)
    assert "c3" in two.warnings[0] and "c5" in two.warnings[1]


def test_a_network_that_is_not_finite_and_clusters_without_rows_are_said_as_they_are():
    x, labels, p, density = made()
    found = explain(x, None, np.zeros_like(labels), p * np.nan, density * np.nan)
    assert found.clusters[0].size == 200 and found.clusters[1].size == 0
    assert "Clusters without rows: 1, 2, 3." in found.warnings
    assert found.log_densities.counts == ()
    assert str(through_json(found)) == str(found)


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
    with pytest.raises(InputError, match="2 names for 3 columns"):
        model.explain(frame.to_numpy(), ["a", "b"])


def test_a_run_keeps_its_profiles_and_the_rows_that_they_name(run, frame):
    files = RunDirectory(run)
    model = GEDI.load(files.model)
    kept = Explanation.from_json(json.loads(files.profile.read_text()))
    assert str(kept) == str(model.explain(frame))
    preview = {name: t.numpy() for name, t in TensorFile.open(files.preview).read().items()}
    np.testing.assert_array_equal(preview["rows"], np.arange(90))
    np.testing.assert_array_equal(preview["points"], frame.to_numpy())
    np.testing.assert_array_equal(preview["labels"], model.labels_)
    np.testing.assert_allclose(preview["probability"], model.predict_proba(frame).max(1))
    np.testing.assert_allclose(preview["features"], model.transform(frame), rtol=1e-6)
    np.testing.assert_allclose(preview["log_density"], model.score_samples(frame))
    np.testing.assert_array_equal(preview["trust"], model.trust_)
    named = [row for profile in kept.clusters for row in (*profile.typical, *profile.doubtful)]
    assert [row.trust for row in named] == model.trust_[[row.row for row in named]].tolist()
    counts = np.histogram(model.trust_, np.linspace(0, 1, 31))[0]
    assert list(kept.trusts.counts) == counts.tolist()


def test_of_many_rows_even_ones_and_the_named_ones_are_kept(tmp_path):
    x = np.random.default_rng(0).normal(size=(MOST_PREVIEWED + 2000, 2))
    gedi(2, run_dir=tmp_path / "run", views="noise", w_gen=0, **SMALL).fit(x)
    files = RunDirectory(tmp_path / "run")
    rows = TensorFile.open(files.preview).read()["rows"].numpy()
    named = Explanation.from_json(json.loads(files.profile.read_text())).rows
    assert set(named) <= set(rows.tolist())
    assert MOST_PREVIEWED <= len(rows) <= MOST_PREVIEWED + len(named)
    assert (np.diff(rows) > 0).all()


def test_pictures_of_bytes_are_kept_as_bytes(tmp_path):
    x = np.random.default_rng(2).integers(0, 256, (12, 1, 8, 8), dtype=np.uint8)
    model = gedi(2, run_dir=tmp_path / "run", **(SMALL | {"max_iter": 2})).fit(x)
    points = TensorFile.open(RunDirectory(tmp_path / "run").preview).read()["points"].numpy()
    assert points.dtype == np.uint8
    np.testing.assert_array_equal(points, x)
    profile = model.explain(x).clusters[0]
    assert profile.words == "" and profile.differences == () and profile.typical[0].values == {}
