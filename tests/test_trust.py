"""What a fitted model says of its points: trust, probabilities far from the data, outliers."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import make_blobs, make_moons

from gedilearn import GEDI
from gedilearn.errors import InputError

X, Y = make_blobs([200, 100], centers=[[0, 0], [4, 0]], cluster_std=1.0, random_state=0)
QUICK = {"training.max_iter": 60, "density.iterations": 200}


@pytest.fixture(scope="module")
def model() -> GEDI:
    return GEDI(2, random_state=0, settings=QUICK).fit(X)


@pytest.fixture(scope="module")
def without_density() -> GEDI:
    return GEDI(2, random_state=0, w_gen=0.0, settings=QUICK).fit(X)


def test_trust_is_belief_in_the_cluster_times_the_probability(model: GEDI) -> None:
    believed, sure = model.result_.trust.numpy().T
    np.testing.assert_array_equal(model.trust_, believed * sure)
    own = model.predict_proba(X)[np.arange(len(X)), model.labels_]
    np.testing.assert_allclose(sure, own, rtol=1e-6)
    assert model.trust_.shape == (300,) and model.trust_.min() >= 0 and model.trust_.max() <= 1
    evidence, gap = model.diagnosis_.evidence, model.bound_gap_
    most = np.array([evidence.belief(k, gap) for k in range(2)])[model.labels_]
    assert (believed <= most + 1e-12).all() and (believed == most).mean() > 0.5
    assert model.stability_ == evidence.stability


def test_points_between_clusters_are_trusted_less(model: GEDI) -> None:
    between = np.abs(X[:, 0] - 2) < 0.7
    assert model.trust_[between].mean() < model.trust_[~between].mean() - 0.1
    wrong = (model.labels_ == model.labels_[Y == 0][0]) == (Y == 1)
    assert model.trust_[wrong].mean() < model.trust_[~wrong].mean()


def test_the_table_of_clusters_has_sizes_and_the_means_of_its_points(model: GEDI) -> None:
    rows = model.summary()["clusters"]
    assert [row["cluster"] for row in rows] == [0, 1]
    for row in rows:
        own = model.labels_ == row["cluster"]
        assert (row["size"], row["share"]) == (own.sum(), pytest.approx(own.mean()))
        assert row["trust"] == pytest.approx(model.trust_[own].mean())
        assert 0 < row["stability"] <= 1 and 0 <= row["cut"] < 0.1
        assert row["density_dip"] == pytest.approx(rows[0]["density_dip"])  # each other's
        assert row["touches"] == ([] if row["density_dip"] >= 1 else [1 - row["cluster"]])
        assert row["confidence"] == pytest.approx(model.result_.trust[own, 1].mean())
    json.dumps(rows)
    summary = model.summary()
    assert summary["grade"] == model.grade_ and summary["stability"] == model.stability_
    assert summary["trust"] == model.diagnosis_.evidence.trust(model.bound_gap_)


FAR = np.array([[40.0, 0.0], [-40.0, 5.0], [0.0, 60.0]])


def test_outliers_have_the_label_minus_1_and_hardly_any_training_row_does(model: GEDI) -> None:
    x = np.concatenate([X, FAR])
    labels, named = model.predict(x, outliers=0.05), model.outliers(x, 0.05)
    np.testing.assert_array_equal(labels == -1, named)
    np.testing.assert_array_equal(labels[~named], model.predict(x)[~named])
    assert named[-3:].all() and named[:-3].mean() <= 0.02
    assert model.outliers(x, 0.5).sum() >= named.sum()


def test_a_group_of_outliers_among_the_fitted_rows_is_named(tmp_path: Path) -> None:
    group = np.random.default_rng(0).normal([12, 12], 0.05, (8, 2))
    x = np.concatenate([X, group])
    fitted = GEDI(2, random_state=0, settings=QUICK).fit(x)
    scores, p = fitted.outlier_score(x), fitted.outlier_pvalue(x)
    assert scores[-8:].min() > np.quantile(scores[:-8], 0.99)
    assert p[-8:].max() < 0.05 and p.min() == pytest.approx(2 / (len(x) + 1))
    assert fitted.outliers(x)[-8:].all() and fitted.outliers(x)[:-8].mean() < 0.02
    fitted.save(tmp_path / "model.safetensors")
    again = GEDI.load(tmp_path / "model.safetensors")
    np.testing.assert_array_equal(again.outlier_score(x), scores)
    np.testing.assert_array_equal(again.outliers(x), fitted.outliers(x))


@pytest.mark.parametrize(
    ("more", "k", "named"),
    [
        (np.random.default_rng(0).normal([25, 25], 0.05, (8, 2)), 3, [8]),
        (np.random.default_rng(0).normal([25, 25], 1.0, (5, 2)), 3, [5]),
        (np.random.default_rng(0).normal([25, 25], 0.5, (20, 2)), 3, []),  # a small cluster
        (np.zeros((0, 2)), 2, []),
    ],
)
def test_a_cluster_that_is_a_group_of_outliers_is_said_to_be_one(more, k, named, tmp_path) -> None:
    fitted = GEDI(k, random_state=0, settings=QUICK).fit(np.concatenate([X, more]))
    outlying = fitted.diagnosis_.outlying
    assert np.bincount(fitted.labels_)[list(outlying)].tolist() == named
    words = [f"Cluster {cluster} is a group of outliers." for cluster in outlying]
    assert [word for word in words if word in str(fitted.verdict_)] == words
    assert ("outliers" in str(fitted.verdict_)) == bool(named)
    fitted.save(tmp_path / "model.safetensors")
    assert str(GEDI.load(tmp_path / "model.safetensors").verdict_) == str(fitted.verdict_)


def test_far_points_are_outliers_and_nobody_is_sure_of_them(
    model: GEDI, without_density: GEDI
) -> None:
    assert (model.predict(FAR, outliers=0.001) == -1).all()
    p = model.predict_proba(FAR)
    np.testing.assert_allclose(p, np.tile(model.prior_, (3, 1)), atol=0.01)
    assert (model.score_samples(FAR, "confidence") < 0.75).all()
    assert without_density.predict_proba(FAR).max() > 0.9  # without a density nothing is known


def test_outliers_need_a_level_between_0_and_1_and_a_density(
    model: GEDI, without_density: GEDI
) -> None:
    for level in (-0.1, 0.0, 1.0, np.nan, True, "much", [0.1]):
        with pytest.raises(InputError, match=re.escape(f"level={level!r}; give a number")):
            model.predict(X, outliers=level)
    with pytest.raises(InputError, match="learned no density"):
        without_density.predict(X, outliers=0.01)


def test_a_file_keeps_temperature_levels_trust_and_grade(model: GEDI, tmp_path: Path) -> None:
    model.save(tmp_path / "model.safetensors")
    again = GEDI.load(tmp_path / "model.safetensors")
    assert model.result_.temperature > 1
    assert again.result_.temperature == model.result_.temperature
    assert (again.grade_, again.stability_) == (model.grade_, model.stability_)
    assert again.diagnosis_ == model.diagnosis_ and again.verdict_ == model.verdict_
    np.testing.assert_array_equal(again.trust_, model.trust_)
    np.testing.assert_allclose(again.predict_proba(X), model.predict_proba(X))
    np.testing.assert_array_equal(again.predict(X, outliers=0.05), model.predict(X, outliers=0.05))
    assert again.summary() == model.summary()


def test_without_a_start_there_is_no_evidence_and_the_bound_decides() -> None:
    fitted = GEDI(2, random_state=0, w_gen=0.0, views="noise", max_iter=20).fit(X)
    assert fitted.diagnosis_.evidence is fitted.stability_ is fitted.trust_ is None
    assert fitted.grade_ == ("certified" if fitted.bound_gap_ < 0.002 else "doubtful")
    assert fitted.verdict_.reason.code in ("bound reached", "bound missed", "undecided")
    assert fitted.result_.temperature == 1 and fitted.summary()["trust"] is None
    assert [set(row) for row in fitted.summary()["clusters"]] == [{"cluster", "size", "share"}] * 2


# --- what the verdict must not do ----------------------------------------------------------------


def graded(x: np.ndarray, k: int, **how: object) -> GEDI:
    return GEDI(k, random_state=0, w_gen=0.0, **how).fit(x)


def test_a_network_that_was_stopped_at_once_is_not_supported() -> None:
    x = make_moons(400, noise=0.05, random_state=0)[0]
    for seed in range(3):
        stopped = GEDI(2, max_iter=1, w_gen=0.0, random_state=seed).fit(x)
        assert stopped.grade_ == "doubtful"
    assert graded(x, 2).grade_ == "certified"


def test_curves_that_are_cut_are_seldom_supported() -> None:
    grades = []
    for seed in range(4):
        rng = np.random.default_rng(seed)
        angle, noise = rng.uniform(0, np.pi, 500), 0.08 * rng.normal(size=(500, 2))
        crescent = np.stack([np.cos(angle), np.sin(angle)], 1) + noise
        grades += [graded(crescent, k).grade_ for k in (2, 3)]
    assert "certified" not in grades and grades.count("supported") <= 1, grades


def test_one_cloud_has_no_structure() -> None:
    cloud = np.random.default_rng(0).normal(size=(400, 3))
    assert graded(cloud, 3).grade_ == "no structure found"


def test_small_clusters_beside_a_large_one_are_supported() -> None:
    x = make_blobs([900, 80, 20], centers=[[0, 0], [9, 0], [0, 9]], random_state=0)[0]
    fitted = graded(x, 3)
    assert fitted.grade_ in ("certified", "supported")
    assert [row["place"] == "disconnected" for row in fitted.summary()["clusters"]] == [
        row["density_dip"] is None for row in fitted.summary()["clusters"]
    ]


def test_too_many_clusters_are_doubtful_and_the_number_with_support_is_named() -> None:
    x = make_blobs(400, centers=[[0, 0], [12, 0]], random_state=0)[0]
    fitted = graded(x, 4)
    assert fitted.grade_ == "doubtful"
    assert fitted.verdict_.reason.code == "fewer groups" and fitted.verdict_.try_clusters == 2
