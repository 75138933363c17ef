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
from gedilearn.density.fit import Findings
from gedilearn.errors import InputError
from helpers import seeded

PARTS = [multivariate_normal([0, 0], [[1, 0.5], [0.5, 0.6]]), multivariate_normal([5, 1], 0.3)]
UNITS, ORIGIN = [1.0, 10.0], [100.0, 0.0]  # the density is one of the data's units
GRID = np.stack(np.meshgrid(np.linspace(-6, 10, 160), np.linspace(-5, 6, 160)), -1).reshape(-1, 2)
CELL = 16 / 159 * 11 / 159


def two_gaussians(n: int, seed: int) -> np.ndarray:
    """Points of two Gaussians of shares 2/3 and 1/3."""
    rng = np.random.default_rng(seed)
    both = np.stack([part.rvs(n, random_state=rng) for part in PARTS])
    return both[(rng.random(n) < 1 / 3).astype(int), np.arange(n)]


FRESH = two_gaussians(2_000, 1)
TRUTH = float(np.log(PARTS[0].pdf(FRESH) * 2 / 3 + PARTS[1].pdf(FRESH) / 3).mean())


def fit(x: np.ndarray, n_clusters: int = 2, **settings: Any) -> GEDI:
    quick = {"training.max_iter": 100, "training.check_every": 25}
    return GEDI(n_clusters, random_state=0, settings=quick | settings).fit(x)


@pytest.fixture(scope="module")
def fitted() -> GEDI:
    return fit(two_gaussians(600, 0) * UNITS + ORIGIN)


def test_the_density_integrates_to_one_and_is_near_the_truth_on_fresh_points(fitted: GEDI) -> None:
    levels = fitted.score_samples(GRID * UNITS + ORIGIN) + np.log(10)
    assert abs(np.exp(levels).sum() * CELL - 1) < 0.02
    assert TRUTH - np.log(10) - fitted.score(FRESH * UNITS + ORIGIN) < 0.08
    found = fitted.density_
    assert found is not None and found.estimator == "importance" and found.rows == 60
    assert found.log_normaliser_error < 0.1 and found.log_normaliser == fitted.log_normaliser_
    assert (
        found.stein > 0.01
        and fitted.verdict_.figures["goodness-of-fit test (p-value)"] == found.stein
    )
    # Far away, all is as likely as before.
    away = fitted.predict_proba(np.array([[-400.0, 9_000.0]]))
    np.testing.assert_allclose(away[0], fitted.prior_, atol=1e-3)


@pytest.mark.filterwarnings("ignore:n_clusters=1")
def test_the_network_alone_learns_what_a_wide_gaussian_lacks() -> None:
    calm = {"training.max_iter": 300, "optimizer.learning_rate": 1e-2}
    model = fit(two_gaussians(800, 0), 1, **calm, **{"density.base": "gaussian"})
    x, density, energy = model.prepare(FRESH), model.result_.density, model.result_.network
    assert density is not None and density.base is not None
    density.normalise(20_000, energy, 1.0, seeded())
    truth = TRUTH + density.volume(model.scaling_.scale)
    assert truth - float(density.log_density(x, energy).mean()) < 0.2
    assert truth - float(density.base.log_density(density.coordinates.values_of(x)).mean()) > 0.6


def test_samples_have_the_shares_and_places_of_the_data(fitted: GEDI) -> None:
    x, _ = fitted.sample(1_500, random_state=0)
    right = x[:, 0] > 103
    assert abs(right.mean() - 1 / 3) < 0.06
    assert abs(x[right, 1].mean() - 10) < 1 and abs(x[~right, 0].mean() - 100) < 0.2
    np.testing.assert_array_equal(x, fitted.sample(1_500, random_state=0)[0])
    for cluster in (2, -1, True):
        with pytest.raises(InputError, match=f"cluster={cluster}"):
            fitted.sample(3, cluster=cluster)


def test_samples_of_a_cluster_follow_the_probabilities_that_predict_proba_gives(
    fitted: GEDI,
) -> None:
    """p(x|y) is p(x) p(y|x) / p(y): here by sums over a grid, at a temperature that matters."""
    warm, nodes = copy.copy(fitted), GRID * UNITS + ORIGIN
    warm.result_ = replace(fitted.result_, temperature=20.0)
    density, own = np.exp(warm.score_samples(nodes)), warm.predict(nodes) == 0
    # Among samples of cluster 0: how many are likelier to be of it than of another.
    cold, expected = (
        (weights[own].sum() / weights.sum())
        for weights in (density * model.predict_proba(nodes)[:, 0] for model in (fitted, warm))
    )
    _, drawn = warm.sample(2_000, cluster=0, random_state=0)
    assert cold - expected > 0.05 and abs((drawn == 0).mean() - expected) < 0.04


def test_constant_and_whole_columns_are_no_trouble() -> None:
    rng = np.random.default_rng(0)
    x = np.c_[two_gaussians(300, 0), np.full(300, 7.0), rng.integers(0, 3, 300)]
    model = fit(x)
    drawn, _ = model.sample(50, random_state=0)
    assert (drawn[:, 2] == 7).all()
    # A histogram of three equally likely whole numbers has the density 1/3.
    without = fit(x[:, :3]).score_samples(x[:, :3])
    assert abs((model.score_samples(x) - without).mean() - np.log(1 / 3)) < 0.35


def test_chains_end_with_a_normalised_density() -> None:
    settings = {"sampler.kind": "chains", "density.iterations": 40, "sampler.steps": 5}
    model = fit(two_gaussians(400, 0), **settings)
    found = model.density_
    assert found is not None and found.estimator == "chains" and model.stopped_ != "diverged"
    whole = np.exp(model.score_samples(GRID)).sum() * CELL
    assert abs(whole - 1) < max(0.03, 3 * found.weight * found.log_normaliser_error)
    assert TRUTH - model.score(FRESH) < 0.15


def test_vectors_of_many_columns_have_a_mixture_in_principal_directions() -> None:
    rng = np.random.default_rng(0)
    inner = np.concatenate([rng.normal(-3, 1, (200, 2)), rng.normal(3, 1, (200, 2))])
    x = inner @ rng.normal(size=(2, 90)) + 0.1 * rng.normal(size=(400, 90))
    model = fit(x)
    found = model.density_
    assert found is not None and found.estimator == "none" and found.weight == 0
    one = multivariate_normal(x.mean(0), np.cov(x.T) + 1e-6 * np.eye(90))
    assert model.score_samples(x).mean() > one.logpdf(x).mean() - 30
    assert model.score_samples(x).min() > model.score(rng.permuted(x, axis=0))
    with pytest.raises(InputError, match="gaussian"):
        fit(x, **{"density.base": "gaussian"})


def squares(n: int, seed: int) -> np.ndarray:
    """Pictures of a bright square or a bright frame on black."""
    x = np.zeros((n, 1, 8, 8), np.uint8)
    x[:, 0, 2:6, 2:6] = np.random.default_rng(seed).integers(150, 256, (n, 1, 1))
    x[::2, 0, 3:5, 3:5] = 0
    return x


QUICK = {"training.max_iter": 10, "density.iterations": 4, "sampler.steps": 3}


def test_images_have_bits_per_dimension_and_samples_in_their_range(tmp_path: Path) -> None:
    model = fit(squares(120, 0), **QUICK)
    found, fresh = model.density_, squares(50, 1)
    assert found is not None and found.bits is not None and 0 < found.bits < 8
    noise = np.random.default_rng(0).integers(0, 256, fresh.shape).astype(np.uint8)
    assert model.score_samples(fresh).min() > model.score_samples(noise).max()
    drawn, _ = model.sample(10, random_state=0)
    assert drawn.shape == (10, 1, 8, 8) and drawn.min() > -1 and drawn.max() < 256
    model.save(tmp_path / "model.safetensors")
    loaded = GEDI.load(tmp_path / "model.safetensors")
    assert loaded.density_ == found and loaded.score(fresh) == model.score(fresh)
    np.testing.assert_array_equal(loaded.sample(10, random_state=0)[0], drawn)


@pytest.mark.parametrize("shape", [(2, 3), (2, 1, 6, 6), (2, 70)])
def test_two_rows_have_a_density_that_is_finite(shape: tuple[int, ...]) -> None:
    x = np.random.default_rng(0).integers(0, 255, shape).astype(np.uint8)
    model = fit(x if len(shape) > 2 else x.astype(float), **QUICK)
    assert np.isfinite(model.score_samples(x)).all()
    assert np.isfinite(model.sample(3, random_state=0)[0]).all()


class TestWords:
    """The sentences of the findings, in full."""

    plain = Findings("a mixture", "importance", 0.5, -2.0, 0.2, 0.01, 60, 0.1, 0.01, 0.9, 0.5)

    @pytest.mark.parametrize(
        ("changes", "words"),
        [
            ({}, "The network adds 0.2 ± 0.01 nats to its base."),
            ({"weight": 0.0}, "log p(x) is that of the base, to which the network adds nothing."),
            (
                {"estimator": "none", "weight": 0.0},
                "log p(x) is that of the base: GEN is not trained in so many columns.",
            ),
            (
                {"ess_at_stop": 12.3, "weight": 0.0},
                "log p(x) is that of the base: the network learned no density (effective sample "
                "size 12, at least 50 are needed).",
            ),
            (
                {"log_normaliser_error": 0.5},
                "The network adds 0.2 ± 0.01 nats to its base. Standard error of the "
                "log-normaliser: 0.5.",
            ),
            (
                {"stein": 0.002},
                "The network adds 0.2 ± 0.01 nats to its base. A goodness-of-fit test rejects it "
                "(p = 0.002).",
            ),
            (
                {"bits": 2.0, "weight": 0.0},
                "log p(x) is that of the base. The network only draws samples.",
            ),
        ],
    )
    def test_each_finding_has_a_sentence(self, changes: dict[str, Any], words: str) -> None:
        assert replace(self.plain, **changes).words == words
