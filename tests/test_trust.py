"""What a fitted model says of its points: trust, probabilities far from the data, outliers."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import make_blobs

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


def test_trust_is_the_share_of_parts_that_kept_a_point_times_its_probability(model: GEDI) -> None:
    kept, sure = model.result_.trust.numpy().T
    np.testing.assert_array_equal(model.trust_, kept * sure)
    own = model.predict_proba(X)[np.arange(len(X)), model.labels_]
    np.testing.assert_allclose(sure, own, rtol=1e-6)
    assert model.trust_.shape == (300,) and model.trust_.min() >= 0 and model.trust_.max() <= 1
    assert set(np.round(12 * kept)) <= set(range(13))  # of 4 parts
    assert model.stability_ == model.diagnosis_.evidence.stability


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
        assert row["stability"] == pytest.approx(model.result_.trust[own, 0].mean())
        assert row["confidence"] == pytest.approx(model.result_.trust[own, 1].mean())
    json.dumps(rows)
    summary = model.summary()
    assert summary["grade"] == model.grade_ and summary["stability"] == model.stability_
    confidence = float(model.result_.trust[:, 1].mean())
    assert summary["trust"] == pytest.approx(model.stability_ * confidence)


def test_outliers_are_the_least_likely_training_points(model: GEDI) -> None:
    np.testing.assert_array_equal(model.predict(X), model.predict(X, outliers=0.0))
    for share in (0.01, 0.1):
        labels = model.predict(X, outliers=share)
        assert (labels == -1).mean() == pytest.approx(share, abs=0.01)
        kept = labels != -1
        np.testing.assert_array_equal(labels[kept], model.labels_[kept])
        scores = model.score_samples(X)
        assert scores[~kept].max() <= scores[kept].min()


def test_far_points_are_outliers_and_nobody_is_sure_of_them(
    model: GEDI, without_density: GEDI
) -> None:
    far = np.array([[40.0, 0.0], [-40.0, 5.0], [0.0, 60.0]])
    assert (model.predict(far, outliers=0.001) == -1).all()
    p = model.predict_proba(far)
    np.testing.assert_allclose(p, np.tile(model.prior_, (3, 1)), atol=0.01)
    assert (model.score_samples(far, "confidence") < 0.75).all()
    assert without_density.predict_proba(far).max() > 0.9  # without a density nothing is known


def test_outliers_need_a_share_between_0_and_1_and_a_density(
    model: GEDI, without_density: GEDI
) -> None:
    for share in (-0.1, 1.0):
        with pytest.raises(InputError, match=f"outliers={share}"):
            model.predict(X, outliers=share)
    with pytest.raises(InputError, match="no density to find them by"):
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
    assert fitted.grade_ == ("certified" if fitted.certificate_gap_ < 0.002 else "doubtful")
    assert fitted.result_.temperature == 1 and fitted.summary()["trust"] is None
    assert [set(row) for row in fitted.summary()["clusters"]] == [{"cluster", "size", "share"}] * 2
