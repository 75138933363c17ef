"""p(x) of a network on a base, and the rows of the base: those learnt from, and those held out."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from scipy.stats import multivariate_normal
from torch import Tensor

from gedilearn.density import base as base_module
from gedilearn.density.base import CHECKED, WEIGHTS, Base, split
from gedilearn.density.candidates import kernels
from gedilearn.density.coordinates import Coordinates
from gedilearn.density.density import Density, bits_per_dimension
from gedilearn.density.fit import conclude, fit_base
from gedilearn.density.gaussians import Gaussians
from gedilearn.density.parts import Rows
from gedilearn.settings import resolve
from helpers import seeded

PEAK = 0.7
RNG = np.random.default_rng(0)
ROWS = np.concatenate([RNG.normal(-2, 1, (120, 2)), RNG.normal(2, 0.5, (80, 2))])
WIDE = 3 * RNG.normal(size=(20, 70))[np.arange(800) % 20] + RNG.normal(size=(800, 70))
IMAGES = RNG.integers(0, 2, (80, 1, 6, 6)) * 200.0 + RNG.integers(0, 56, (80, 1, 6, 6))


def quadratic(x: Tensor) -> Tensor:
    """f: b e^f is a Gaussian around a place away from 0, times a constant."""
    return -(x - PEAK).square().sum(-1)


def made(deviation: float) -> Density:
    """m = N(0, I), and b = N(0, deviation^2 I), unless that is m."""
    plain = Coordinates(torch.arange(2), torch.zeros(2).double(), torch.full((2,), 1e-6).double())
    m, b, q = (
        Gaussians.round(torch.zeros(1, 2).double(), torch.tensor([width]).double())
        for width in (1.0, deviation, 1.5)
    )
    # Half of the proposals are of m.
    return Density(plain, m, None if deviation == 1 else b, q, explored=torch.tensor(0.5).double())


def test_far_proposals_have_small_weights_where_the_network_was_not_trained() -> None:
    """Else one point far away is many of the samples: there a network may have any value."""
    x = RNG.normal(size=(150, 6)).astype(np.float32)
    density = fit_base(torch.from_numpy(x), None, resolve({}, x.shape)).density
    far = torch.full((1, 6), 9.0).double() * torch.tensor([[1.0], [-1.0]])
    weights = density.mixture.log_density(far) - density.q.log_density(far)
    assert float(weights.max()) < -1


@pytest.mark.parametrize("deviation", [1.0, 2.0])
@pytest.mark.parametrize("weight", [0.4, 1.0])
def test_a_quadratic_network_makes_the_gaussian_of_the_closed_form(
    weight: float, deviation: float
) -> None:
    """m^(1-w) (b e^f)^w is one, by completing the square."""
    density = made(deviation)
    density.normalise(20_000, quadratic, weight, seeded())
    precision = (1 - weight) + weight / deviation**2 + 2 * weight
    mean = np.full(2, 2 * weight * PEAK / precision)
    height = precision * mean[0] ** 2 / 2 - weight * (PEAK**2 + np.log(deviation))
    log_gamma = 2 * height - np.log(precision)
    assert 0 < float(density.error) < 0.05
    assert abs(float(density.log_normaliser) - log_gamma) < 4 * float(density.error)
    true = multivariate_normal(mean, 1 / precision)
    x = np.random.default_rng(0).normal(size=(20, 2))
    found = density.log_density(torch.from_numpy(x), quadratic).numpy()
    np.testing.assert_allclose(found, true.logpdf(x), atol=4 * float(density.error))
    slopes = density.gradients(torch.from_numpy(x), quadratic).numpy()
    np.testing.assert_allclose(slopes, (mean - x) * precision, rtol=1e-6)
    drawn = density.sample(4_000, None, quadratic, seeded(1)).numpy()
    np.testing.assert_allclose(drawn.mean(0), mean, atol=0.06)
    np.testing.assert_allclose(np.cov(drawn.T), true.cov, atol=0.06)


@pytest.mark.parametrize("moves", [0, None])
def test_samples_with_a_known_column_follow_the_closed_form_of_the_others(moves) -> None:
    """A network that ties two columns: m e^f is a Gaussian with the precision I + 2 v v^T."""
    density, v = made(1.0), torch.tensor([1.0, -1.0]).double()

    def tied(x: torch.Tensor) -> torch.Tensor:
        return -(x.double() @ v).square()

    density.normalise(20_000, tied, 1.0, seeded())
    x, known = torch.tensor([1.5, 0.0]).double(), torch.tensor([True, False])
    drawn = density.sample_given(6_000, x, known, moves, tied, seeded(1)).numpy()
    assert (drawn[:, 0] == 1.5).all()
    assert drawn[:, 1].mean() == pytest.approx(2 * 1.5 / 3, abs=0.04)
    assert drawn[:, 1].var() == pytest.approx(1 / 3, abs=0.03)


def test_without_weight_it_is_the_mixture_and_short_runs_draw_if_there_were_any() -> None:
    density, x = made(1.0), torch.randn(30, 2, generator=seeded(), dtype=torch.float64)
    assert torch.equal(density.log_density(x, quadratic), density.mixture.log_density(x))
    assert float(density.sample(2_000, None, quadratic, seeded()).mean().abs()) < 0.1
    density.run = torch.tensor([30.0, 0.5]).to(density.run)
    moved = density.sample(2_000, None, quadratic, seeded())
    np.testing.assert_allclose(moved.mean(0), 2 * PEAK / 3, atol=0.08)
    assert bits_per_dimension(-5 * np.log(2.0), 5, 2 / 256) == pytest.approx(8)  # of even bytes


def test_samples_of_images_keep_the_spread_of_their_base_where_the_network_is_flat() -> None:
    density = base_of(IMAGES).density
    spread = []
    for steps in (0.0, 20.0):
        density.run = torch.tensor([steps, 0.5]).to(density.run)
        drawn = density.sample(1_000, None, lambda x: 0 * x.sum((1, 2, 3)), seeded())
        spread.append(float(drawn.std(0).mean()))
    assert spread[1] == pytest.approx(spread[0], rel=0.15)


def base_of(x: np.ndarray, **density: Any) -> Base:
    settings = resolve({"density": density}, x.shape)
    return fit_base(torch.from_numpy(x).float(), None, settings)


def tilted(x: Tensor) -> Tensor:
    """A network that is no constant: (n, *point) -> (n,)."""
    return 0.3 * torch.sin(x.flatten(1)).mean(-1)


def test_gen_draws_no_validation_row_and_no_test_row() -> None:
    numbered = np.c_[np.arange(200.0), RNG.normal(size=200)]  # each in a cell of its own
    base, (order, held) = base_of(numbered), split(200, 0)
    drawn = base.rows(5_000, seeded())[:, 0]
    assert held == 40 and set(drawn.round().int().tolist()) == set(order[80:].tolist())
    assert float(drawn.sub(drawn.round()).std()) == pytest.approx(12**-0.5, rel=0.05)
    for k, part in enumerate((base.validation, base.test)):
        assert part.values[:, 0].round().tolist() == order[k * held : (k + 1) * held].tolist()


def test_mixtures_of_held_out_rows_are_fitted_without_them(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []

    def narrow(rows: Rows) -> Any:
        seen.append(rows.x)
        return "kernels", lambda points: kernels(points, 0.3)

    monkeypatch.setattr(base_module, "weighted", narrow)
    base, (order, held) = base_of(ROWS, base="mixture"), split(len(ROWS), 0)
    others = kernels(seen[0][order[2 * held :]], 0.3)
    for part in (base.validation, base.test):
        assert torch.equal(part.log_mixture, others.log_density(part.values))
        assert torch.equal(part.log_mixture, part.log_base)
        # The whole mixture has seen them.
        assert (base.density.mixture.log_density(part.values) - part.log_mixture).mean() > 0.1


def test_many_clusters_in_many_columns_have_kernels_as_wide_as_the_clusters() -> None:
    """Fresh rows are as likely as under the true density, but for some nats; other rows are not."""
    rng, d = np.random.default_rng(0), 70
    spread = np.linalg.qr(rng.normal(size=(d, d)))[0] * rng.uniform(0.2, 1, d)

    def rows(n: int, centres: np.ndarray) -> torch.Tensor:
        x = centres[rng.integers(len(centres), size=n)] + rng.normal(size=(n, d)) @ spread.T
        return torch.from_numpy(x).float()

    centres = 2 * rng.normal(size=(60, d))
    base = fit_base(rows(2_400, centres), None, resolve({}, (2_400, d)))
    assert base.name.startswith("kernels")
    fresh, other = rows(300, centres), rows(300, 2 * rng.normal(size=(60, d)))
    levels = [base.density.log_density(x, tilted).numpy() for x in (fresh, other)]
    true = [multivariate_normal(c, spread @ spread.T).logpdf(fresh.numpy()) for c in centres]
    behind = np.logaddexp.reduce(true, 0) - np.log(60) - levels[0]
    assert 0 < behind.mean() < 25
    assert (levels[0] > np.quantile(levels[1], 0.99)).mean() > 0.95
    rows_again = base.density.log_density(base.data, tilted).numpy()
    assert np.median(rows_again) == pytest.approx(np.median(levels[0]), abs=3)


def test_the_base_of_images_does_not_depend_on_the_test_rows() -> None:
    order, held = split(len(IMAGES), 0)
    changed = IMAGES.copy()
    changed[order[held : 2 * held]] = RNG.integers(0, 256, (held, 1, 6, 6))
    before, after = (base_of(x) for x in (IMAGES, changed))
    for name, tensor in before.density.state_dict().items():
        if name != "coordinates.template":  # the first image
            assert torch.equal(tensor, after.density.state_dict()[name]), name
    assert torch.equal(before.validation.log_mixture, after.validation.log_mixture)
    assert not torch.equal(before.test.log_mixture, after.test.log_mixture)


def test_the_evaluation_is_that_of_a_loop_over_weights_and_proposals() -> None:
    fitted, networks = base_of(ROWS), [tilted, lambda x: 20 * tilted(x)]
    found = fitted.evaluate(lambda x: torch.stack([own(x.double()) for own in networks]))
    points, mixture, base, log_q = (part.double().numpy() for part in fitted.checked)
    assert abs(float(fitted.pool[1].logsumexp(-1)) - math.log(base_module.POOL)) < 0.05
    for k, own in enumerate(networks):
        levels, energies = [], own(torch.from_numpy(points)).numpy()
        for weight in WEIGHTS:
            level = (1 - weight) * mixture + weight * (base + energies)
            ratios = np.exp(level[:CHECKED] - log_q)
            log_gamma = np.log(ratios.mean())
            levels.append((level[CHECKED:] - log_gamma, weight, log_gamma))
        likeliest = max(levels, key=lambda level: level[0].mean())[0]
        lost = [likeliest - level for level, _, _ in levels]
        near = [own.mean() <= 0.5 * own.std(ddof=1) / len(own) ** 0.5 for own in lost]
        rows, weight, log_gamma = levels[near.index(True)]
        told = (found.held_out[k].mean(), found.weight[k], found.log_gamma[k])
        np.testing.assert_allclose(told, (rows.mean(), weight, log_gamma), rtol=1e-6, atol=1e-6)
        ess = ratios.sum() ** 2 / (ratios**2).sum()  # at weight 1, the last
        assert float(found.ess[k]) == pytest.approx(ess, rel=1e-5)


@pytest.mark.parametrize("x", [ROWS, WIDE, IMAGES], ids=["vectors", "wide", "images"])
def test_a_density_is_read_back_from_its_tensors_to_the_bit(x: np.ndarray) -> None:
    estimator = {2: "importance", 70: "none"}.get(x.shape[1], "chains")
    base = base_of(x)
    density, _ = conclude(base, tilted, estimator, 0, (3 if x is IMAGES else 0, 0.2))
    again, rows = Density.read(density.state_dict()), base.rows(30, seeded())
    assert torch.equal(again.log_density(rows, tilted), density.log_density(rows, tilted))
    drawn = [own.sample(5, None, tilted, seeded()) for own in (density, again)]
    assert torch.equal(*drawn) and drawn[0].shape == (5, *x.shape[1:])
