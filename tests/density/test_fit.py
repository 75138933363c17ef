"""Densities as they are fitted: normalised, near a known truth, kept in files, and judged."""

from __future__ import annotations

import copy
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import multivariate_normal

from gedilearn import GEDI
from gedilearn.density.findings import Findings
from gedilearn.errors import InputError

FAST = {"training.max_iter": 50, "density.iterations": 200, "training.check_every": 25}
PARTS = [multivariate_normal([0, 0], [[1, 0.5], [0.5, 0.6]]), multivariate_normal([5, 1], 0.3)]


def two_gaussians(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Points of two Gaussians of shares 2/3 and 1/3, and the component of each."""
    rng = np.random.default_rng(seed)
    y = (rng.random(n) < 1 / 3).astype(int)
    both = np.stack([part.rvs(n, random_state=rng) for part in PARTS])
    return both[y, np.arange(n)], y


def truth(x: np.ndarray) -> np.ndarray:
    logs = [
        part.logpdf(x) + np.log(share) for part, share in zip(PARTS, (2 / 3, 1 / 3), strict=True)
    ]
    return np.asarray(np.logaddexp(*logs))


def fit(x: np.ndarray, n_clusters: int = 2, **settings: Any) -> GEDI:
    return GEDI(n_clusters, random_state=0, settings=FAST | settings).fit(x)


@pytest.fixture(scope="module")
def fitted() -> GEDI:
    # In units of their own: the density is one of the data's units.
    return fit(two_gaussians(600, 0)[0] * [1.0, 10.0] + [100.0, 0.0])


def test_the_density_integrates_to_one_in_the_units_of_the_data(fitted: GEDI) -> None:
    xs, ys = np.linspace(95, 108, 300), np.linspace(-60, 60, 300)
    nodes = np.stack(np.meshgrid(xs, ys), -1).reshape(-1, 2)
    cell = (xs[1] - xs[0]) * (ys[1] - ys[0])
    assert abs(np.exp(fitted.score_samples(nodes)).sum() * cell - 1) < 0.02


def test_it_is_near_the_truth_on_fresh_points(fitted: GEDI) -> None:
    fresh = two_gaussians(2_000, 1)[0]
    ours = fitted.score_samples(fresh * [1.0, 10.0] + [100.0, 0.0]) + np.log(10)
    assert truth(fresh).mean() - ours.mean() < 0.06
    assert fitted.score(fresh * [1.0, 10.0] + [100.0, 0.0]) == pytest.approx(
        ours.mean() - np.log(10)
    )


def test_its_findings_are_those_of_a_density_that_fits(fitted: GEDI) -> None:
    found = fitted.density_
    assert isinstance(found, Findings)
    assert found.log_normaliser_error < 0.1 and fitted.log_normaliser_ == found.log_normaliser
    assert found.stein > 0.01
    assert found.estimator == "importance" and found.bits is None
    assert found.verdict in fitted.verdict_ and found.verdict.startswith("density: ")


def test_the_density_leaves_the_clusters_as_they_are() -> None:
    x = two_gaussians(300, 0)[0]
    with_it, without = fit(x), fit(x, **{"weights.gen": 0.0})
    np.testing.assert_array_equal(with_it.labels_, without.labels_)
    np.testing.assert_array_equal(with_it.transform(x), without.transform(x))
    assert with_it.certificate_gap_ == without.certificate_gap_
    assert without.density_ is None and without.log_normaliser_ is None
    # Probabilities of points that are no likelier than those from elsewhere go to the prior.
    level = np.quantile(with_it.score_samples(x), 0.001)
    inside = 1 / (1 + np.exp(level - with_it.score_samples(x)))[:, None]
    mixed = inside * without.predict_proba(x) + (1 - inside) * with_it.prior_
    np.testing.assert_allclose(with_it.predict_proba(x), mixed, atol=1e-3)


def test_samples_have_the_shares_and_places_of_the_data(fitted: GEDI) -> None:
    x, _ = fitted.sample(1_500, random_state=0)
    right = x[:, 0] > 103
    assert abs(right.mean() - 1 / 3) < 0.06
    assert abs(x[right, 1].mean() - 10) < 1 and abs(x[~right, 0].mean() - 100) < 0.2
    again, _ = fitted.sample(1_500, random_state=0)
    np.testing.assert_array_equal(x, again)
    for k in range(2):
        own, drawn = fitted.sample(40, cluster=k, random_state=0)
        assert (drawn == k).mean() > 0.9 and len(own) == 40


def test_samples_of_a_cluster_follow_the_probabilities_that_predict_proba_gives(
    fitted: GEDI,
) -> None:
    """p(x|y) is p(x) p(y|x) / p(y): here by sums over a grid, at a temperature that matters."""
    model = copy.copy(fitted)
    model.result_ = replace(fitted.result_, temperature=20.0)
    xs, ys = np.linspace(95, 108, 120), np.linspace(-40, 45, 120)
    nodes = np.stack(np.meshgrid(xs, ys), -1).reshape(-1, 2)
    density, labels = np.exp(model.score_samples(nodes)), model.predict(nodes)

    def share_of_label_0(weights: np.ndarray) -> float:
        """Among samples of cluster 0: how many are likelier to be of it than of another."""
        return float(weights[labels == 0].sum() / weights.sum())

    expected = share_of_label_0(density * model.predict_proba(nodes)[:, 0])
    cold = share_of_label_0(density * fitted.predict_proba(nodes)[:, 0])
    _, drawn = model.sample(2_000, cluster=0, random_state=0)
    assert cold - expected > 0.1
    assert abs((drawn == 0).mean() - expected) < 0.04


def test_clusters_that_there_are_not_and_kinds_that_there_are_not_are_refused(fitted: GEDI) -> None:
    for cluster in (2, -1, True):
        with pytest.raises(InputError, match=f"cluster={cluster}"):
            fitted.sample(3, cluster=cluster)
    with pytest.raises(InputError, match="steps=-1"):
        fitted.sample(3, steps=-1)
    wide = np.random.default_rng(0).normal(size=(50, 80))
    with pytest.raises(InputError, match="gaussian"):
        fit(wide, **{"density.base": "gaussian"})


def test_a_file_keeps_it_to_the_bit(fitted: GEDI, tmp_path: Path) -> None:
    x = two_gaussians(50, 2)[0] * [1.0, 10.0] + [100.0, 0.0]
    fitted.save(tmp_path / "model.safetensors")
    loaded = GEDI.load(tmp_path / "model.safetensors")
    np.testing.assert_array_equal(loaded.score_samples(x), fitted.score_samples(x))
    np.testing.assert_array_equal(
        loaded.sample(20, random_state=1)[0], fitted.sample(20, random_state=1)[0]
    )
    assert loaded.density_ == fitted.density_


def test_constant_and_whole_columns_are_no_trouble() -> None:
    rng = np.random.default_rng(0)
    x = np.c_[two_gaussians(300, 0)[0], np.full(300, 7.0), rng.integers(0, 3, 300)]
    model = fit(x)
    assert np.isfinite(model.score_samples(x)).all()
    drawn, _ = model.sample(50, random_state=0)
    assert (drawn[:, 2] == 7).all()
    # A histogram of three equally likely whole numbers has the density 1/3.
    without = fit(x[:, :3]).score_samples(x[:, :3])
    assert abs((model.score_samples(x) - without).mean() - np.log(1 / 3)) < 0.35


@pytest.mark.parametrize("estimator", ["chains", "amortised"])
def test_other_estimators_of_gen_end_with_a_normalised_density(estimator: str) -> None:
    x = two_gaussians(400, 0)[0]
    settings = {"density.estimator": estimator, "density.iterations": 60, "sampler.steps": 10}
    model = fit(x, **settings)
    found = model.density_
    assert found is not None and found.estimator == estimator and not found.diverged
    xs = np.linspace(-8, 12, 250)
    nodes = np.stack(np.meshgrid(xs, xs), -1).reshape(-1, 2)
    whole = np.exp(model.score_samples(nodes)).sum() * (xs[1] - xs[0]) ** 2
    assert abs(whole - 1) < max(0.03, 3 * found.weight * found.log_normaliser_error)
    fresh = two_gaussians(1_000, 1)[0]
    assert truth(fresh).mean() - model.score_samples(fresh).mean() < 0.15


def test_vectors_of_many_columns_have_a_mixture_in_principal_directions() -> None:
    rng = np.random.default_rng(0)
    inner = np.concatenate([rng.normal(-3, 1, (200, 2)), rng.normal(3, 1, (200, 2))])
    x = inner @ rng.normal(size=(2, 90)) + 0.1 * rng.normal(size=(400, 90))
    model = fit(x, **{"density.iterations": 5, "sampler.steps": 3})
    assert model.density_ is not None and "mixture" in model.density_.base
    assert model.density_.estimator == "importance"  # columns do not choose: the weights are even
    one = multivariate_normal(x.mean(0), np.cov(x.T) + 1e-6 * np.eye(90))
    assert model.score_samples(x).mean() > one.logpdf(x).mean() - 30
    strange = rng.permuted(x, axis=0)
    assert model.score_samples(x).min() > model.score_samples(strange).mean()


def squares(n: int, seed: int) -> np.ndarray:
    """Pictures of a bright square or a bright frame on black."""
    rng = np.random.default_rng(seed)
    x = np.zeros((n, 1, 8, 8), np.uint8)
    for k in range(n):
        x[k, 0, 2:6, 2:6] = rng.integers(150, 256)
        if k % 2:
            x[k, 0, 3:5, 3:5] = 0
    return x


def test_images_have_bits_per_dimension_and_samples_in_their_range(tmp_path: Path) -> None:
    x = squares(120, 0)
    quick = {"training.max_iter": 10, "density.iterations": 4, "sampler.steps": 3}
    model = GEDI(2, random_state=0, settings=quick).fit(x)
    found = model.density_
    assert found is not None and found.bits is not None and 0 < found.bits < 8
    fresh, noise = squares(50, 1), np.random.default_rng(0).integers(0, 256, (50, 1, 8, 8))
    assert model.score_samples(fresh).min() > model.score_samples(noise.astype(np.uint8)).max()
    drawn, labels = model.sample(10, random_state=0)
    assert drawn.shape == (10, 1, 8, 8) and labels.shape == (10,)
    assert drawn.min() > -1 and drawn.max() < 256
    model.save(tmp_path / "model.safetensors")
    loaded = GEDI.load(tmp_path / "model.safetensors")
    np.testing.assert_array_equal(loaded.score_samples(fresh), model.score_samples(fresh))
    np.testing.assert_array_equal(
        loaded.sample(3, random_state=0)[0], model.sample(3, random_state=0)[0]
    )


@pytest.mark.parametrize("shape", [(2, 3), (2, 1, 6, 6), (2, 70)])
def test_two_rows_have_a_density_that_is_finite(shape):
    x = (
        np.random.default_rng(0)
        .integers(0, 255, shape)
        .astype(np.uint8 if len(shape) > 2 else float)
    )
    model = fit(x, **{"density.iterations": 20})
    assert np.isfinite(model.score_samples(x)).all()
    assert np.isfinite(model.sample(3, random_state=0)[0]).all()
