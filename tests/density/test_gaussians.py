"""Mixtures against scikit-learn and scipy."""

from __future__ import annotations

import numpy as np
import torch
from scipy.stats import multivariate_normal
from sklearn.mixture import GaussianMixture

from gedilearn.density.base import (
    Framed,
    Gaussians,
    gaussian_mixture,
    kernels,
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
