"""The weighted sum of parts: its weights, what is dropped, and what no choice may see."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.stats import multivariate_normal

from gedilearn.density import flow as flow_module
from gedilearn.density.base import Base, split
from gedilearn.density.candidates import kernels, one_gaussian
from gedilearn.density.density import Density
from gedilearn.density.fit import fit_base
from gedilearn.density.parts import Sum, mixing_weights
from gedilearn.settings import resolve
from helpers import seeded

RNG = np.random.default_rng(0)


BENT = RNG.uniform(-2, 2, (900, 5))
BENT[:, 3:] = np.sin(3 * BENT[:, :2]) + 0.1 * BENT[:, 3:]


def base_of(x: np.ndarray) -> Base:
    return fit_base(torch.from_numpy(x), None, resolve({}, x.shape))


@pytest.fixture(scope="module")
def base() -> Base:
    return base_of(BENT)


def test_a_sum_has_the_densities_and_the_shares_of_its_parts() -> None:
    x = RNG.normal(size=(200, 2)) * [1.0, 0.5] + 3
    parts = {"wide-gaussian": one_gaussian(x, 2.0), "kernels": kernels(x[:40] - 6, 0.5)}
    shares = {"wide-gaussian": torch.tensor(0.3).log(), "kernels": torch.tensor(0.7).log()}
    whole, points = Sum(parts, shares), torch.from_numpy(x)
    apart = 0.3 * multivariate_normal(x.mean(0), 4 * np.cov(x.T, bias=True)).pdf(x)
    apart += 0.7 * parts["kernels"].log_density(points).exp().numpy()
    np.testing.assert_allclose(whole.log_density(points).exp(), apart, rtol=1e-3)
    drawn = whole.sample(20_000, seeded())
    middle = 0.3 * x.mean(0) + 0.7 * (x[:40].mean(0) - 6)
    np.testing.assert_allclose(drawn.mean(0), middle, atol=0.1)
    # Independent points come in no order of the parts.
    assert abs(np.corrcoef(drawn[1:, 0], drawn[:-1, 0])[0, 1]) < 0.03


@pytest.mark.parametrize("prior", [0.0, 5.0])
def test_weights_are_those_of_a_search_over_all(prior: float) -> None:
    levels = torch.from_numpy(RNG.normal(size=(80, 2))) + torch.tensor([0.3, 0.0])
    share = np.linspace(0.001, 0.999, 999)
    both = np.log(np.array([share, 1 - share]))
    of_rows = np.logaddexp(*(levels[:, k, None].numpy() + both[k] for k in range(2))).sum(0)
    best = share[(of_rows + prior * both.sum(0)).argmax()]
    found = mixing_weights(levels, torch.tensor([prior, prior]), rounds=2_000).exp()
    np.testing.assert_allclose(found, [best, 1 - best], atol=2e-3)


def test_a_part_that_no_row_needs_keeps_a_weight_if_rows_are_added_for_it() -> None:
    levels = torch.tensor([[0.0, -50.0]]).double().expand(98, 2)
    np.testing.assert_allclose(mixing_weights(levels, torch.ones(2)).exp(), [0.99, 0.01], rtol=1e-6)


def test_a_bent_table_has_a_flow_that_makes_test_rows_likelier(
    base: Base, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "a spline flow" in base.name
    monkeypatch.setattr(flow_module, "FEWEST_ROWS", len(BENT))
    without = base_of(BENT)
    assert "a spline flow" not in without.name
    assert (base.test.log_mixture - without.test.log_mixture).mean() > 0.1


def test_a_flow_that_adds_nothing_is_dropped() -> None:
    assert "a spline flow" not in base_of(RNG.normal(size=(700, 5))).name


def test_single_far_rows_have_a_wide_gaussian_of_little_weight(base: Base) -> None:
    row = torch.full((1, 5), 60.0, dtype=torch.float64)
    level = float(base.density.mixture.log_density(row))
    wide = float(one_gaussian(BENT, 6.0).log_density(row))
    assert wide - np.log(4 * len(BENT)) - 5 < level < wide
    assert level > float(one_gaussian(BENT, 1.5).log_density(row)) + 1_000


def test_test_rows_change_neither_the_flow_nor_any_weight(base: Base) -> None:
    order, held = split(len(BENT), 0)
    changed, test = BENT.copy(), order[held : 2 * held]
    changed[test] = RNG.permuted(changed[test], axis=0)  # columns keep their values
    other = base_of(changed)
    assert other.name == base.name
    ours, theirs = base.density.mixture.state_dict(), other.density.mixture.state_dict()
    same = [name for name in ours if "flow" in name or name == "log_weights"]
    assert len(same) > 20 and all(torch.equal(ours[name], theirs[name]) for name in same)
    assert torch.equal(base.validation.log_mixture, other.validation.log_mixture)
    assert not torch.equal(base.test.log_mixture, other.test.log_mixture)


def test_a_density_with_a_flow_is_read_back_to_the_bit(base: Base) -> None:
    again, x = Density.read(base.density.state_dict()), torch.from_numpy(BENT)
    for part in ("mixture", "q"):
        levels = [getattr(own, part).log_density(x) for own in (base.density, again)]
        drawn = [getattr(own, part).sample(40, seeded()) for own in (base.density, again)]
        assert torch.equal(*levels) and torch.equal(*drawn)
