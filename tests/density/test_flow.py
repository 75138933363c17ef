"""The spline flow against zuko's own, numerical integrals and densities of closed form."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.stats import multivariate_normal

from gedilearn.density import flow as flow_module
from gedilearn.density.flow import Flow
from gedilearn.density.parts import Rows
from helpers import seeded

GRID = np.stack(np.meshgrid(np.linspace(-7, 7, 300), np.linspace(-4, 12, 300)), -1).reshape(-1, 2)
CELL = 14 / 299 * 16 / 299


def bent(n: int, d: int, seed: int) -> np.ndarray:
    """Normal columns, but the last is bent: it is near the square of the first."""
    x = np.random.default_rng(seed).normal(size=(n, d))
    x[:, -1] = x[:, 0] ** 2 + 0.3 * x[:, -1]
    return x


def level_of_bent(x: np.ndarray) -> np.ndarray:
    """Its log density: (n, d) -> (n,)."""
    straight = np.c_[x[:, :-1], (x[:, -1] - x[:, 0] ** 2) / 0.3]
    return multivariate_normal(np.zeros(x.shape[1])).logpdf(straight) - np.log(0.3)


@pytest.fixture(scope="module")
def flow() -> Flow:
    return Flow.fit(bent(1_500, 2, 0), bent(200, 2, 1), 0)


def test_a_flow_integrates_to_one_and_is_near_the_true_density(flow: Flow) -> None:
    levels = flow.log_density(torch.from_numpy(GRID))
    assert abs(float(levels.exp().sum()) * CELL - 1) < 0.02
    fresh = bent(2_000, 2, 2)
    lost = level_of_bent(fresh) - flow.log_density(torch.from_numpy(fresh)).numpy()
    gaussian = multivariate_normal(fresh.mean(0), np.cov(fresh.T)).logpdf(fresh)
    assert lost.mean() < 0.1 < 0.5 < (level_of_bent(fresh) - gaussian).mean()


def test_its_samples_follow_its_density(flow: Flow) -> None:
    drawn = flow.sample(20_000, seeded())
    density = flow.log_density(torch.from_numpy(GRID)).exp().numpy() * CELL
    mean = density @ GRID
    np.testing.assert_allclose(drawn.mean(0), mean, atol=0.05)
    spread = (GRID - mean).T * density @ (GRID - mean)
    np.testing.assert_allclose(np.cov(drawn.T), spread, atol=0.15)
    upper = (GRID[:, 1] > 2) & (GRID[:, 0] > 0)
    inside = ((drawn[:, 1] > 2) & (drawn[:, 0] > 0)).double().mean()
    assert abs(float(inside) - density[upper].sum()) < 0.015


def test_it_is_the_flow_of_zuko_with_the_same_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    zuko = pytest.importorskip("zuko")
    monkeypatch.setattr(flow_module, "MOST_VALUES", 6 * 400 * 3)
    x = bent(400, 6, 0) * np.arange(1, 7) + 5
    flow = Flow.fit(x, bent(50, 6, 1), 0)
    theirs = zuko.flows.NSF(6, transforms=4, hidden_features=(64, 64))
    state = flow.state_dict()
    for k, layer in enumerate(theirs.transform.transforms):
        for j, place in enumerate((0, 2, 4)):
            layer.hyper[place].weight.data = state[f"transforms.{k}.weights.{j}"]
            layer.hyper[place].bias.data = state[f"transforms.{k}.biases.{j}"]
    y = ((torch.from_numpy(x) - x.mean(0)) / x.std(0)).float()
    expected = theirs().log_prob(y).double() - np.log(x.std(0)).sum()
    ours = flow.log_density(torch.from_numpy(x))
    np.testing.assert_allclose(ours.numpy(), expected.detach().numpy(), atol=1e-4)
    z = torch.randn(200, 6, generator=seeded())
    undone = flow.transforms[0].inverse(z)
    np.testing.assert_allclose(undone, theirs.transform.transforms[0]().inv(z).detach(), atol=1e-4)


def test_fits_are_equal_to_the_bit_and_leave_the_global_generator_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(flow_module, "MOST_VALUES", 5 * 300 * 2)
    x, before = bent(300, 5, 0), torch.get_rng_state()
    one, other = (Flow.fit(x, bent(50, 5, 1), 0) for _ in range(2))
    assert torch.equal(before, torch.get_rng_state())
    again, points = Flow(**one.state_dict()), torch.from_numpy(x)
    assert torch.equal(one.log_density(points), other.log_density(points))
    assert torch.equal(one.log_density(points), again.log_density(points))
    assert torch.equal(one.sample(30, seeded()), again.sample(30, seeded()))


def test_rows_far_away_are_unlikely_and_never_not_a_number(flow: Flow) -> None:
    away = torch.tensor([[1e4, 0.0], [1e30, -1e30], [1e300, 0.0]], dtype=torch.float64)
    away.requires_grad_()
    levels = flow.log_density(away)
    assert (levels < -1e6).all() and levels.isfinite().all()
    (slopes,) = torch.autograd.grad(levels.sum(), away)
    assert slopes.isfinite().all()


@pytest.mark.parametrize(("n", "d", "there"), [(300, 6, 1), (150, 6, 0), (2_000, 2, 0)])
def test_it_is_tried_where_rows_and_columns_are_enough(n: int, d: int, there: int) -> None:
    numbers = np.arange(n)
    rows = Rows(np.zeros((n, d)), None, numbers[:30], numbers[60:], 0)
    assert len(list(Flow.candidates(rows))) == there
