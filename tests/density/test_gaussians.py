"""Mixtures against scikit-learn and scipy."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.stats import multivariate_normal
from sklearn.mixture import GaussianMixture

from gedilearn.density import candidates
from gedilearn.density.candidates import gaussian_mixture, kernels
from gedilearn.density.gaussians import Framed, Gaussians
from gedilearn.density.parts import Rows, mixing_weights
from helpers import seeded

RNG = np.random.default_rng(0)
X = np.concatenate([RNG.normal(0, 1, (150, 3)), RNG.normal(4, 0.5, (100, 3))])
POINTS = torch.from_numpy(X)


def test_a_mixture_has_the_density_that_scikit_learn_gives_it() -> None:
    theirs = GaussianMixture(2, reg_covar=1e-6, random_state=0, init_params="k-means++").fit(X)
    ours = gaussian_mixture(X, 2, 0).log_density(torch.from_numpy(X)).numpy()
    np.testing.assert_allclose(ours, theirs.score_samples(X), rtol=1e-9)


def test_a_mixture_of_several_starts_is_the_mean_of_their_densities() -> None:
    whole = gaussian_mixture(X, 4, 0, starts=3)
    apart = torch.stack([gaussian_mixture(X, 4, seed).log_density(POINTS) for seed in range(3)])
    np.testing.assert_allclose(whole.log_density(POINTS).exp(), apart.exp().mean(0), rtol=1e-9)
    assert (apart.std(0) > 1e-3).any()


@pytest.mark.parametrize(("n", "d", "most"), [(30, 2, 6), (900, 2, 19), (4_000, 2, 32)])
def test_mixtures_have_more_components_where_there_are_more_rows(
    n: int, d: int, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(candidates, "PATIENCE", 99)
    numbers, tried = np.arange(n), []
    rows = Rows(RNG.normal(size=(n, d)), None, numbers[: n // 10], numbers[n // 5 :], 0)
    monkeypatch.setattr(Rows, "held_out", lambda rows, fit: torch.zeros(3))
    for _, fit in candidates.Mixture.candidates(rows):
        tried.append(fit.keywords["n_components"])
    assert tried[0] == 1 and tried[-1] == most


def test_a_weighted_sum_of_a_gaussian_and_kernels_has_their_densities_and_shares() -> None:
    whole, near = gaussian_mixture(X, 1, 0), kernels(X[150:], 0.5)
    mixed = Gaussians.mixed([whole, near], torch.tensor([0.3, 0.7], dtype=torch.float64).log())
    density = 0.3 * multivariate_normal(X.mean(0), np.cov(X.T, bias=True)).pdf(X)
    for mean, width in zip(X[150:], near.round_widths, strict=True):
        density += 0.7 / 100 * multivariate_normal(mean, float(width) ** 2).pdf(X)
    ours = mixed.log_density(torch.from_numpy(X)).exp().numpy()
    np.testing.assert_allclose(ours, density, rtol=1e-4)
    drawn = mixed.sample(20_000, seeded())
    middle = 0.3 * X.mean(0) + 0.7 * X[150:].mean(0)
    np.testing.assert_allclose(drawn.mean(0), middle, atol=0.05)
    levels = torch.stack([whole.log_density(drawn), near.log_density(drawn)], -1)
    np.testing.assert_allclose(mixing_weights(levels).exp(), [0.3, 0.7], atol=0.02)


def test_a_frame_leaves_the_standard_normal_density_to_other_directions() -> None:
    turn, whole, unit = np.linalg.qr(RNG.normal(size=(5, 5)))[0], np.eye(5), np.array([0.5, 3.0])
    whole[:2, :2] = [[2.0, 0.3], [0.3, 0.5]]
    mean = np.array([1.0, -1.0, 0, 0, 0])
    factor = np.linalg.cholesky(whole[:2, :2] / np.outer(unit, unit))
    parts = (np.ones(1), mean[None, :2] / unit, factor[None])
    mixture = Gaussians.full(*(torch.from_numpy(part) for part in parts))
    base = Framed(torch.from_numpy(turn[:2].copy()), mixture, torch.from_numpy(unit))
    true = multivariate_normal(mean @ turn, turn.T @ whole @ turn)
    x = RNG.normal(size=(50, 5))
    np.testing.assert_allclose(base.log_density(torch.from_numpy(x)), true.logpdf(x), rtol=1e-9)
    drawn = base.sample(40_000, seeded()).numpy()
    np.testing.assert_allclose(drawn.mean(0), mean @ turn, atol=0.05)
    np.testing.assert_allclose(np.cov(drawn.T), true.cov, atol=0.06)


def test_in_a_frame_a_kernel_does_not_count_at_its_own_point() -> None:
    points = RNG.normal(size=(30, 5))
    widths = RNG.uniform(0.5, 1, 30)
    mixture = Gaussians.round(*(torch.from_numpy(own).float() for own in (points, widths)))
    levels = Framed(torch.eye(5), mixture).log_density(torch.from_numpy(points).float())
    for point, level in zip(points, levels.tolist(), strict=True):
        others = [
            multivariate_normal(*own).pdf(point) for own in zip(points, widths**2, strict=True)
        ]
        others = [own for own, other in zip(others, points, strict=True) if (other != point).any()]
        assert level == pytest.approx(np.log(np.sum(others) / 30), abs=1e-3)


def test_points_with_known_columns_have_the_conditional_density_and_its_normaliser() -> None:
    """One Gaussian and three kernels, against weights and conditionals by numpy and scipy."""
    one = gaussian_mixture(X, 1, 0)
    near = Gaussians.round(torch.from_numpy(X[:3]), torch.tensor([0.5, 0.8, 1.0]).double())
    mixed = Gaussians.mixed([one, near], torch.tensor([0.4, 0.6], dtype=torch.float64).log())
    known, y = torch.tensor([False, True, True]), np.array([[9.0, 0.3, 0.2], [9.0, 4.0, 3.0]])
    drawn, level = mixed.given(torch.from_numpy(y), known, 40_000, seeded())
    assert torch.equal(drawn[:, 0, 1:], torch.from_numpy(y[:, 1:])) and drawn.shape[:2] == (
        2,
        40_000,
    )
    covariance = np.cov(X.T, bias=True) + 1e-6 * np.eye(3)
    parts = [(0.4, X.mean(0), covariance)]
    widths = zip(X[:3], near.round_widths.numpy(), strict=True)
    parts += [(0.2, mean, width**2 * np.eye(3)) for mean, width in widths]
    for row, found, log_marginal in zip(y, drawn[:, :, 0].numpy(), level, strict=True):
        weights, means = [], []
        for weight, mean, cov in parts:
            weights.append(weight * multivariate_normal(mean[1:], cov[1:, 1:]).pdf(row[1:]))
            slope = np.linalg.solve(cov[1:, 1:], cov[1:, 0])
            means.append(mean[0] + (row[1:] - mean[1:]) @ slope)
        assert float(log_marginal) == pytest.approx(np.log(np.sum(weights)), abs=1e-6)
        assert found.mean() == pytest.approx(np.average(means, weights=weights), abs=0.02)


def test_with_no_known_columns_points_are_those_of_the_mixture() -> None:
    mixed = gaussian_mixture(X, 2, 0)
    unknown = torch.zeros(3, dtype=torch.bool)
    drawn, level = mixed.given(torch.zeros(1, 3).double(), unknown, 20_000, seeded())
    assert float(level[0]) == pytest.approx(0, abs=1e-9)
    np.testing.assert_allclose(drawn[0].mean(0), X.mean(0), atol=0.06)
