"""Mixtures against scikit-learn and scipy."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.stats import multivariate_normal
from sklearn.datasets import load_digits
from sklearn.mixture import GaussianMixture
from sklearn.preprocessing import StandardScaler

from gedilearn.density.base import (
    Framed,
    Gaussians,
    Rules,
    clusters_mixture,
    gaussian_mixture,
    kernels,
    mixing_weights,
)

RNG = np.random.default_rng(0)
X = np.concatenate([RNG.normal(0, 1, (150, 3)), RNG.normal(4, 0.5, (100, 3))])


def seeded() -> torch.Generator:
    return torch.Generator().manual_seed(0)


def test_a_mixture_has_the_density_that_scikit_learn_gives_it() -> None:
    theirs = GaussianMixture(2, reg_covar=1e-6, random_state=0, init_params="k-means++").fit(X)
    ours = gaussian_mixture(X, 2, 0).log_density(torch.from_numpy(X)).numpy()
    np.testing.assert_allclose(ours, theirs.score_samples(X), rtol=1e-9)


def test_round_components_are_kernels_at_the_points() -> None:
    (ours,) = kernels(X[:20], 0.5)
    parts = [
        multivariate_normal(mean, float(width) ** 2).logpdf(X)
        for mean, width in zip(ours.round_means.numpy(), ours.round_widths, strict=True)
    ]
    brute = np.logaddexp.reduce(parts, axis=0) - np.log(20)
    np.testing.assert_allclose(ours.log_density(torch.from_numpy(X)).numpy(), brute, rtol=1e-7)


def test_draws_have_the_moments_of_the_mixture() -> None:
    mixture = Gaussians.mixed(
        [gaussian_mixture(X, 2, 0), *kernels(X[:5], 0.5)], torch.tensor([0.7, 0.3]).double().log()
    )
    drawn = mixture.sample(40_000, seeded())
    weights = torch.cat([mixture.full_weights, mixture.round_weights]).exp()
    means = torch.cat([mixture.full_means, mixture.round_means])
    assert torch.allclose(weights.sum(), torch.ones(()).double())
    assert torch.allclose(drawn.mean(0), weights @ means, atol=0.06)


def test_weights_of_a_sum_are_those_that_it_was_drawn_with() -> None:
    narrow, wide = multivariate_normal(0, 1), multivariate_normal(3, 4)
    x = np.r_[narrow.rvs(3_000, random_state=0), wide.rvs(1_000, random_state=1)]
    logs = torch.from_numpy(np.stack([narrow.logpdf(x), wide.logpdf(x)], -1))
    assert abs(float(mixing_weights(logs)[0].exp()) - 0.75) < 0.03


def test_clusters_that_are_long_and_thin_each_get_one_component() -> None:
    """Points of the data as a start find other mixtures: here labels are what is known."""
    stretch = np.array([[6.0, 0.0], [0.0, 0.1]])
    x = np.concatenate([RNG.normal(size=(200, 2)) @ stretch + [0, k] for k in range(3)])
    found = clusters_mixture(x, np.repeat(np.arange(3), 200), 0)
    assert np.allclose(np.sort(found.full_means[:, 1].numpy()), [0, 1, 2], atol=0.1)


@pytest.mark.parametrize("seed", range(5))
def test_clusters_may_have_fewer_rows_than_columns(seed: int) -> None:
    """Their covariances are hardly invertible, and scikit-learn wants a symmetric inverse."""
    x = load_digits().data[:500]
    x = StandardScaler().fit_transform(x[:, x.std(0) > 0])
    labels = (np.random.default_rng(seed).random(500) < 0.98).astype(int)
    assert 1 < (labels == 0).sum() < x.shape[1] / 2
    found = clusters_mixture(x, labels, 0, Rules(rounds=2))
    assert found.log_density(torch.from_numpy(x)).isfinite().all()


def test_a_frame_leaves_the_standard_normal_density_to_other_directions() -> None:
    turn = np.linalg.qr(RNG.normal(size=(5, 5)))[0]
    base = Framed(5, 2, 1)
    spread = np.array([[2.0, 0.3], [0.3, 0.5]])
    base.frame = torch.from_numpy(turn[:2].copy())
    base.mixture = Gaussians.full(
        torch.ones(1).double(),
        torch.tensor([[1.0, -1.0]]).double(),
        torch.from_numpy(np.linalg.cholesky(spread))[None],
    )
    whole = np.eye(5)
    whole[:2, :2] = spread
    mean = np.array([1.0, -1.0, 0, 0, 0]) @ turn
    true = multivariate_normal(mean, turn.T @ whole @ turn)
    x = RNG.normal(size=(50, 5))
    np.testing.assert_allclose(base.log_density(torch.from_numpy(x)), true.logpdf(x), rtol=1e-9)
    drawn = base.sample(40_000, seeded()).numpy()
    np.testing.assert_allclose(drawn.mean(0), mean, atol=0.05)
    np.testing.assert_allclose(np.cov(drawn.T), true.cov, atol=0.06)
