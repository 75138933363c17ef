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
    prior,
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


def test_generative_of_proposals_is_the_log_mean_of_their_weights_and_so_is_its_gradient():
    data, proposals, log_weights = draw(7, 4), draw(5, 4, seed=1), draw(5, seed=2)

    def value(data: Tensor, proposals: Tensor) -> float:
        weights = [
            math.exp(w) * math.fsum(map(math.exp, row))
            for row, w in zip(proposals.tolist(), log_weights.tolist(), strict=True)
        ]
        mean = math.fsum(map(loop_log_sum, data.tolist())) / len(data)
        return math.log(math.fsum(weights) / len(weights)) - mean

    both = [data.requires_grad_(), proposals.requires_grad_()]
    found = generative(*both, log_weights)
    assert float(found.detach()) == pytest.approx(value(*both), abs=1e-12)
    for k, slopes in enumerate(torch.autograd.grad(found, both)):
        for i in range(slopes.numel()):
            ends = []
            for step in (1e-5, -1e-5):
                moved = [part.detach().clone() for part in both]
                moved[k].view(-1)[i] += step
                ends.append(value(*moved))
            difference = (ends[0] - ends[1]) / 2e-5
            assert float(slopes.flatten()[i]) == pytest.approx(difference, rel=1e-6, abs=1e-9)


def test_invariance_equals_the_loop():
    logits, view = draw(7, 4), draw(7, 4, seed=1)
    assert float(invariance(logits, view)) == pytest.approx(loop_invariance(logits, view))


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


# --- the bound of Proposition 1


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
