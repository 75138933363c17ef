"""The three terms and the bound, against loops over points and clusters in plain Python."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import entropy
from torch import Tensor

from gedilearn.methods.terms import (
    bound_gap,
    energy_scale,
    generative,
    invariance,
    log_marginal,
    prior,
    target_entropy,
)

TARGETS = {
    "uniform": None,
    "uneven": torch.tensor([0.5, 0.3, 0.15, 0.05], dtype=torch.float64),
    "with zeros": torch.tensor([0.7, 0.0, 0.3, 0.0], dtype=torch.float64),
    "one-hot": torch.tensor([0.0, 0.0, 1.0, 0.0], dtype=torch.float64),
}
ALL_TARGETS = pytest.mark.parametrize("target", TARGETS.values(), ids=TARGETS.keys())


def draw(*shape: int, seed: int = 0, scale: float = 2.0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return scale * torch.randn(*shape, generator=generator, dtype=torch.float64)


# --- the same quantities, one number at a time


def loop_log_sum(row: list[float]) -> float:
    top = max(row)
    return top + math.log(math.fsum(math.exp(v - top) for v in row))


def loop_posterior(row: list[float]) -> list[float]:
    return [math.exp(v - loop_log_sum(row)) for v in row]


def loop_generative(data: Tensor, samples: Tensor) -> float:
    means = [
        math.fsum(loop_log_sum(r) for r in part) / len(part)
        for part in (data.tolist(), samples.tolist())
    ]
    return means[1] - means[0]


def loop_invariance(logits: Tensor, view: Tensor) -> float:
    total = 0.0
    for row, row_view in zip(logits.tolist(), view.tolist(), strict=True):
        for p, v in zip(loop_posterior(row_view), row, strict=True):
            total -= p * (v - loop_log_sum(row))
    return total / len(logits)


def loop_prior(logits: Tensor, target: Tensor | None) -> float:
    n, c = logits.shape
    rows = [loop_posterior(row) for row in logits.tolist()]
    wanted = [1 / c] * c if target is None else target.tolist()
    return -math.fsum(
        w * math.log(math.fsum(row[y] for row in rows) / n) for y, w in enumerate(wanted)
    )


def test_generative_equals_the_loop():
    data, samples = draw(7, 4), draw(5, 4, seed=1)
    assert float(generative(data, samples)) == pytest.approx(loop_generative(data, samples))


def test_invariance_equals_the_loop():
    logits, view = draw(7, 4), draw(7, 4, seed=1)
    assert float(invariance(logits, view)) == pytest.approx(loop_invariance(logits, view))


def test_invariance_has_a_direction():
    logits, view = draw(7, 4), draw(7, 4, seed=1)
    assert abs(float(invariance(logits, view) - invariance(view, logits))) > 0.01


def test_symmetric_invariance_is_the_mean_of_both_directions():
    logits, view = draw(7, 4), draw(7, 4, seed=1)
    expected = (loop_invariance(logits, view) + loop_invariance(view, logits)) / 2
    assert float(invariance(logits, view, symmetric=True)) == pytest.approx(expected)


@ALL_TARGETS
def test_prior_equals_the_loop(target):
    logits = draw(7, 4)
    assert float(prior(logits, target)) == pytest.approx(loop_prior(logits, target))


@ALL_TARGETS
def test_bound_gap_equals_the_loop(target):
    logits, view = draw(7, 4), draw(7, 4, seed=1)
    least = entropy([1.0] * 4 if target is None else target.numpy())
    expected = loop_invariance(logits, view) + loop_prior(logits, target) - least
    assert float(bound_gap(logits, view, target)) == pytest.approx(expected)


@ALL_TARGETS
def test_target_entropy_is_that_of_scipy(target):
    expected = math.log(4) if target is None else entropy(target.numpy())
    assert float(target_entropy(target, 4)) == pytest.approx(expected, abs=1e-15)


def test_log_marginal_is_the_log_of_the_mean_prediction():
    logits = draw(7, 4)
    mean = np.mean([loop_posterior(row) for row in logits.tolist()], axis=0)
    np.testing.assert_allclose(log_marginal(logits).exp(), mean)


def test_energy_scale_equals_the_loop():
    data, samples = draw(7, 4), draw(5, 4, seed=1)
    expected = sum(
        np.mean([loop_log_sum(row) ** 2 for row in part.tolist()]) for part in (data, samples)
    )
    assert float(energy_scale(data, samples)) == pytest.approx(expected)


# --- gradients


@pytest.mark.parametrize(
    "term", [generative, invariance, bound_gap, energy_scale], ids=lambda f: f.__name__
)
def test_gradients_of_both_sides_equal_finite_differences(term):
    inputs = (draw(5, 4).requires_grad_(), draw(5, 4, seed=1).requires_grad_())
    assert torch.autograd.gradcheck(term, inputs)


@ALL_TARGETS
def test_gradients_of_prior_and_gap_equal_finite_differences_for_any_target(target):
    logits, view = draw(5, 4).requires_grad_(), draw(5, 4, seed=1).requires_grad_()
    assert torch.autograd.gradcheck(lambda t: prior(t, target), (logits,))
    assert torch.autograd.gradcheck(lambda t, v: bound_gap(t, v, target), (logits, view))


def test_generative_does_not_change_when_all_energies_shift():
    data, samples = draw(7, 4), draw(5, 4, seed=1)
    torch.testing.assert_close(generative(data + 3, samples + 3), generative(data, samples))
    torch.testing.assert_close(generative(data + 3, samples), generative(data, samples) - 3)


# --- leading axes


@ALL_TARGETS
def test_leading_axes_give_what_a_loop_over_members_gives(target):
    a, b = draw(2, 3, 5, 4), draw(2, 3, 5, 4, seed=1)
    terms = {
        "generative": generative,
        "invariance": invariance,
        "energy_scale": energy_scale,
        "prior": lambda t, v: prior(t, target),
        "bound_gap": lambda t, v: bound_gap(t, v, target),
    }
    for name, term in terms.items():
        found = term(a, b)
        assert found.shape == (2, 3), name
        for i in range(2):
            for j in range(3):
                torch.testing.assert_close(found[i, j], term(a[i, j], b[i, j]), msg=name)


def test_data_and_samples_may_differ_in_number():
    assert generative(draw(2, 5, 4), draw(2, 9, 4)).shape == (2,)


# --- extreme logits


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@ALL_TARGETS
def test_logits_of_ten_thousand_keep_values_and_gradients_finite(dtype, target):
    signs = torch.sign(draw(6, 4)).to(dtype)
    constant = torch.full((6, 4), -1e4, dtype=dtype)
    one_cluster = constant.clone()
    one_cluster[:, 1] = 1e4
    cases = [1e4 * signs, -1e4 * signs, constant, -constant, one_cluster]
    for logits in cases:
        for view in cases:
            a, b = (v.clone().requires_grad_() for v in (logits, view))
            total = torch.zeros((), dtype=dtype)
            for value in (
                generative(a, b),
                invariance(a, b),
                prior(a, target),
                bound_gap(a, b, target),
            ):
                assert value.dtype == dtype and torch.isfinite(value)
                total = total + value
            total.backward()
            assert torch.isfinite(a.grad).all() and torch.isfinite(b.grad).all()


def test_a_confident_mistake_costs_the_whole_gap_without_saturating():
    right = torch.tensor([[1e4, -1e4]])
    assert float(invariance(-right, right)) == pytest.approx(2e4)
    assert float(prior(right)) == pytest.approx(1e4)


# --- PRIOR


@ALL_TARGETS
def test_prior_reaches_its_least_value_at_the_target(target):
    wanted = torch.full((4,), 0.25, dtype=torch.float64) if target is None else target
    logits = wanted.clamp_min(1e-300).log().expand(6, 4)
    least = float(target_entropy(target, 4))
    assert float(prior(logits, target)) == pytest.approx(least, abs=1e-12)
    assert float(prior(draw(6, 4), target)) > least + 1e-3


@ALL_TARGETS
def test_prior_does_not_depend_on_the_order_of_points_nor_on_names_of_clusters(target):
    logits = draw(9, 4)
    points = torch.tensor([4, 8, 0, 2, 6, 1, 7, 3, 5])
    names = torch.tensor([2, 0, 3, 1])
    expected = prior(logits, target)
    torch.testing.assert_close(prior(logits[points], target), expected)
    renamed = None if target is None else target[names]
    torch.testing.assert_close(prior(logits[:, names], renamed), expected)


def test_an_empty_cluster_is_free_where_the_target_gives_it_nothing():
    logits = torch.tensor([[0.0, -1e4, -1e4], [-1e4, 0.0, -1e4]], dtype=torch.float64)
    target = torch.tensor([0.5, 0.5, 0.0], dtype=torch.float64)
    assert float(bound_gap(logits, logits, target)) == pytest.approx(0, abs=1e-12)
    assert float(bound_gap(logits, logits)) > 1000


def test_a_double_target_leaves_single_precision_logits_single():
    found = prior(draw(5, 4).float(), TARGETS["uneven"])
    assert found.dtype == torch.float32
    assert float(found) == pytest.approx(float(prior(draw(5, 4), TARGETS["uneven"])), rel=1e-5)


# --- INV


def test_invariance_of_identical_predictions_is_their_entropy():
    logits = draw(7, 4)
    expected = np.mean([entropy(loop_posterior(row)) for row in logits.tolist()])
    assert float(invariance(logits, logits)) == pytest.approx(expected)
    assert expected > 0.1


def test_invariance_is_zero_for_predictions_that_agree_and_are_confident():
    confident = 1e3 * torch.eye(4, dtype=torch.float64)
    assert float(invariance(confident, confident)) == 0


# --- the bound of Proposition 1


@pytest.mark.parametrize("n_clusters", [2, 3, 10])
def test_gap_of_the_uniform_prediction_is_log_c(n_clusters):
    logits = torch.zeros(6, n_clusters, dtype=torch.float64)
    assert float(bound_gap(logits, logits)) == pytest.approx(math.log(n_clusters))


def test_gap_is_zero_for_confident_invariant_balanced_predictions():
    logits = 1e3 * torch.eye(4, dtype=torch.float64).repeat(3, 1)
    assert float(bound_gap(logits, logits)) == pytest.approx(0, abs=1e-12)
    uneven = 1e3 * torch.eye(2, dtype=torch.float64)[[0, 0, 0, 1]]
    wanted = torch.tensor([0.75, 0.25], dtype=torch.float64)
    assert float(bound_gap(uneven, uneven, wanted)) == pytest.approx(0, abs=1e-12)
    assert float(bound_gap(uneven, uneven)) == pytest.approx(entropy([0.5, 0.5], [0.75, 0.25]))


@pytest.mark.parametrize("n_clusters", range(2, 12))
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_rounding_does_not_make_the_gap_of_an_optimum_negative(n_clusters, dtype):
    for repeats in (1, 3, 7):
        logits = 1e3 * torch.eye(n_clusters, dtype=dtype).repeat(repeats, 1)
        assert 0 <= float(bound_gap(logits, logits)) < 1e-6


@st.composite
def situations(draw):
    """Logits from wild to nearly optimal, views from equal to unrelated, and a target."""
    n, c = draw(st.integers(1, 6)), draw(st.integers(2, 5))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    confidence = draw(st.sampled_from([0.0, 1.0, 10.0, 1e4]))
    spread = draw(st.sampled_from([0.0, 1e-3, 1.0, 30.0]))
    labels = np.arange(n) % c if draw(st.booleans()) else rng.integers(c, size=n)
    logits = confidence * np.eye(c)[labels] + spread * rng.normal(size=(n, c))
    view = logits + draw(st.sampled_from([0.0, 1e-3, 10.0])) * rng.normal(size=(n, c))
    kind = draw(st.sampled_from(["uniform", "uneven", "as predicted"]))
    target = {
        "uniform": None,
        "uneven": rng.dirichlet(np.full(c, 0.5)),
        "as predicted": np.bincount(labels, minlength=c) / n,
    }[kind]
    return (
        torch.from_numpy(logits),
        torch.from_numpy(view),
        None if target is None else torch.from_numpy(target),
    )


@settings(max_examples=150, deadline=None)
@given(situations())
def test_gap_is_never_negative_and_small_only_near_the_optimum(situation):
    logits, view, target = situation
    gap = float(bound_gap(logits, view, target))
    assert gap >= 0
    p = np.array([loop_posterior(row) for row in logits.tolist()])
    p_view = np.array([loop_posterior(row) for row in view.tolist()])
    wanted = np.full(p.shape[1], 1 / p.shape[1]) if target is None else target.numpy()
    # Entropy is at least 1 - max p, and Pinsker bounds a distance by the divergence.
    slack = gap + 1e-9
    assert np.mean(1 - p_view.max(1)) <= slack
    assert np.mean(np.abs(p - p_view).sum(1) ** 2) / 2 <= slack
    assert np.abs(p.mean(0) - wanted).sum() ** 2 / 2 <= slack


@settings(max_examples=50, deadline=None)
@given(situations())
def test_gap_is_never_negative_in_single_precision(situation):
    logits, view, target = situation
    gap = bound_gap(logits.float(), view.float(), target)
    assert gap.dtype == torch.float32 and float(gap) >= 0
