"""Theorem 1, a sentence a test, against closed forms and a second computation in numpy."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
import torch
from scipy.special import logsumexp
from sklearn.datasets import make_moons

from gedilearn.methods.terms import bound_gap, generative, invariance, prior
from gedilearn.models.energy import log_density, posterior
from gedilearn.paper import landscape
from gedilearn.paper.landscape import GEDI, GEN, INV, MARGIN, MODES, PRIOR, TERMS
from gedilearn.sampling.langevin import Box

LOG_2 = math.log(2)
REPRESENTATION, CLUSTER, PERMUTATION = MODES
CONFIDENT = 1 / (1 + math.exp(-MARGIN))  # the larger probability at a margin of MARGIN
PRIOR_OF_ONE_CLUSTER = -(math.log(CONFIDENT) + (-MARGIN + math.log(CONFIDENT))) / 2


@pytest.fixture(scope="module")
def rows():
    return landscape.measure(0)


@pytest.fixture(scope="module")
def world():
    return landscape.build_world(0, torch.Generator().manual_seed(0))


@pytest.fixture(scope="module")
def by_hand():
    """(log volume, H(p)) from scikit-learn's moons, with numpy alone and a finer grid."""
    x, _ = make_moons(400, noise=0.05, random_state=0)
    curve, _ = make_moons(400, noise=0.0, random_state=0)
    mean, std = x.mean(0), x.std(0)
    low, high = ((edge - mean) / std for edge in (x.min(0), x.max(0)))
    n = 160
    axes = [lo + (hi - lo) * (np.arange(n) + 0.5) / n for lo, hi in zip(low, high, strict=True)]
    centres, sigma = (curve - mean) / std, 0.05 / std
    # One normal is a product over the two coordinates.
    a, b = (-(((axes[k][:, None] - centres[:, k]) / sigma[k]) ** 2) / 2 for k in range(2))
    log_p = np.stack([logsumexp(row + b, axis=1) for row in a])
    log_p -= logsumexp(log_p) + np.log(np.prod((high - low) / n))
    h = -(np.exp(log_p) * log_p).sum() * np.prod((high - low) / n)
    return float(np.log(np.prod(high - low))), float(h)


def find(rows, term, mode, construction=None):
    found = [r for r in rows if r["term"] == term and r["mode"] == mode]
    return [r for r in found if construction in (None, r["construction"])]


def one(rows, term, mode, construction):
    (row,) = find(rows, term, mode, construction)
    return row


# --- a. L_GEN admits failure modes 2 and 3


def test_gen_penalises_representation_collapse_by_log_volume_less_entropy(rows, by_hand):
    log_volume, h = by_hand
    found = find(rows, GEN, REPRESENTATION)
    assert len(found) == 2
    for row in found:
        assert row["value"] == pytest.approx(log_volume, abs=1e-6)
        assert row["optimum"] == pytest.approx(h, abs=5e-4)
        assert row["excess"] > 1


def test_gen_admits_cluster_collapse(rows, world):
    assert abs(one(rows, GEN, CLUSTER, "f_j = log p")["excess"]) < 1e-12
    logits = landscape.collapsed_clusters(world)(world.nodes)
    assert posterior(logits)[:, 0].min() > 1 - 1e-15
    # p_Theta is p at every node, not on average alone.
    log_gamma = landscape.log_integral(log_density(logits), world.cell)
    torch.testing.assert_close(log_density(logits) - log_gamma, world.log_p, rtol=0, atol=1e-9)


def test_gen_admits_permuted_assignments(rows, world):
    for row in find(rows, GEN, PERMUTATION):
        assert row["value"] == pytest.approx(row["before"], abs=1e-12)
        assert row["value"] == pytest.approx(row["optimum"], abs=1e-12)
    t = landscape.separated_moons(world)(world.x)
    samples = t[:50] - 1
    torch.testing.assert_close(generative(t.flip(0), samples), generative(t, samples))


# --- b. L_INV admits failure modes 1 and 2


def test_inv_admits_representation_collapse_of_a_confident_encoder_only(rows):
    assert one(rows, INV, REPRESENTATION, "confident")["excess"] < 1e-12
    assert one(rows, INV, REPRESENTATION, "uniform")["value"] == pytest.approx(LOG_2, abs=1e-12)


def test_inv_admits_cluster_collapse(rows):
    entropy = (1 - CONFIDENT) * MARGIN - math.log(CONFIDENT)
    value = one(rows, INV, CLUSTER, "f_j = log p")["value"]
    assert 0 <= value < 1e-12 and value == pytest.approx(entropy, abs=1e-14)


def test_inv_penalises_permuted_assignments_by_the_gap_of_each_point_misplaced(rows, world):
    assert one(rows, INV, PERMUTATION, "one pair")["value"] == pytest.approx(2 * MARGIN / 400)
    model = landscape.separated_moons(world)
    order = torch.randperm(400, generator=torch.Generator().manual_seed(1))
    misplaced = (world.y[order] != world.y).double().mean()
    value = invariance(model(world.x)[order], model(world.view))
    assert float(value) == pytest.approx(MARGIN * float(misplaced))
    # Two random halves of 200: half of the points, give or take 4 standard deviations.
    assert abs(one(rows, INV, PERMUTATION, "all points")["value"] / MARGIN - 0.5) < 0.1


def test_renaming_the_clusters_changes_no_term():
    t, view = torch.randn(2, 30, 2, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(invariance(t.flip(1), view.flip(1)), invariance(t, view))
    torch.testing.assert_close(prior(t.flip(1)), prior(t))
    torch.testing.assert_close(generative(t.flip(1), view.flip(1)), generative(t, view))


def test_permuting_a_collapsed_model_leaves_inv_unchanged(rows, world):
    found = find(rows, INV, landscape.FOOTNOTE)
    assert [r["construction"] for r in found] == ["uniform", "confident", "f_j = log p"]
    for row in found:
        assert row["value"] == pytest.approx(row["before"], abs=1e-12)
        assert row["penalises"] == "No"
    t = landscape.collapsed_clusters(world)(world.x)
    assert (t - t.flip(0)).abs().max() > 0.1  # t does differ; only p(y|x) is the same


# --- c. L_PRIOR admits failure modes 1 and 3


def test_prior_admits_representation_collapse_of_a_uniform_encoder_only(rows):
    assert one(rows, PRIOR, REPRESENTATION, "uniform")["value"] == pytest.approx(LOG_2, abs=1e-12)
    confident = one(rows, PRIOR, REPRESENTATION, "confident")
    assert confident["value"] == pytest.approx(PRIOR_OF_ONE_CLUSTER)


def test_prior_penalises_cluster_collapse_by_half_the_gap(rows):
    row = one(rows, PRIOR, CLUSTER, "f_j = log p")
    assert row["value"] == pytest.approx(PRIOR_OF_ONE_CLUSTER)
    assert row["excess"] == pytest.approx(MARGIN / 2 - LOG_2)


def test_prior_admits_permuted_assignments(rows):
    for row in find(rows, PRIOR, PERMUTATION):
        assert row["value"] == pytest.approx(row["before"], abs=1e-12)
        assert row["value"] == pytest.approx(LOG_2, abs=1e-12)


# --- the full objective


def test_the_sum_exceeds_its_optimum_at_every_construction(rows, by_hand):
    found = [r for mode in MODES for r in find(rows, GEDI, mode)]
    assert len(found) == 5
    for row in found:
        assert row["excess"] > 0.2
        assert row["optimum"] == pytest.approx(by_hand[1] + LOG_2, abs=0.1)


def test_the_sum_is_gen_above_entropy_plus_the_bound_gap(rows, world):
    model = landscape.collapsed_clusters(world)
    gap = bound_gap(model(world.x), model(world.view))
    expected = one(rows, GEN, CLUSTER, "f_j = log p")["excess"] + float(gap)
    assert one(rows, GEDI, CLUSTER, "f_j = log p")["excess"] == pytest.approx(expected)


def test_the_optimum_of_the_sum_is_reached_by_the_true_moons(rows, world):
    for term in TERMS:
        assert abs(one(rows, term, landscape.NO_FAILURE, "true moons")["excess"]) < 1e-12
    labels = posterior(landscape.separated_moons(world)(world.x)).argmax(1)
    assert torch.equal(labels, world.y)


def test_no_constant_encoder_is_optimal_for_both_inv_and_prior(world):
    for gap in np.linspace(-40, 40, 81):
        model = landscape.constant_encoder(0.0, float(gap))
        t, view = model(world.x[:8]), model(world.view[:8])
        assert torch.equal(t, t[:1].expand(8, 2))
        assert float(bound_gap(t, view)) >= LOG_2 - 1e-12


# --- the numbers behind GEN


def test_quadrature_gives_the_cross_entropy_of_two_normals():
    nodes, cell = landscape.quadrature(
        Box(torch.tensor([-9.0, -9.0]).double(), torch.tensor([9.0, 9.0]).double()), 120
    )
    log_p = -nodes.square().sum(1) / 2 - math.log(2 * math.pi)
    # The model is a normal of deviation 1.3 around (0.5, 0), as one cluster of two that are equal.
    energy = -(nodes - torch.tensor([0.5, 0.0])).square().sum(1) / (2 * 1.69)
    logits = energy[:, None].expand(-1, 2)
    expected = math.log(2 * math.pi * 1.69) + (2 + 0.25) / (2 * 1.69)
    assert float(landscape.cross_entropy(log_p, logits, cell)) == pytest.approx(expected, abs=1e-9)
    assert float(landscape.entropy(log_p, cell)) == pytest.approx(math.log(2 * math.pi * math.e))


def test_the_known_density_is_that_of_the_points(world, rows):
    assert float(world.log_p.exp().sum() * world.cell) == pytest.approx(1)
    surprise = -log_density(world.log_moons(world.x))
    error = float(surprise.std()) / 20
    assert abs(float(surprise.mean()) - rows[0]["optimum"]) < 4 * error


def test_gen_of_exact_samples_has_the_gradient_of_the_exact_cross_entropy():
    """Whole-number weights on a small grid: repeating the nodes gives p and p_Theta exactly."""
    generator = torch.Generator().manual_seed(0)
    box = Box(torch.zeros(2).double(), torch.ones(2).double())
    nodes, cell = landscape.quadrature(box, 6)
    data, model = (torch.randint(1, 9, (36,), generator=generator) for _ in range(2))
    log_p = (data.double() / data.sum()).log() - math.log(cell)
    weights = torch.randn(2, 2, generator=generator).double()

    def logits(theta):
        # At theta = 0, the sum over clusters of exp(logits) is the whole number itself.
        start = (model.double() / 2).log()[:, None].expand(-1, 2)
        return start + torch.sin(3 * nodes + theta) @ weights - torch.sin(3 * nodes) @ weights

    def exact(theta):
        return landscape.cross_entropy(log_p, logits(theta), cell)

    def estimate(theta, counts):
        found = logits(theta)
        return generative(found.repeat_interleave(data, 0), found.repeat_interleave(counts, 0))

    theta = torch.zeros(2, dtype=torch.float64, requires_grad=True)
    (expected,) = torch.autograd.grad(exact(theta), theta)
    (found,) = torch.autograd.grad(estimate(theta, model), theta)
    torch.testing.assert_close(found, expected, rtol=1e-10, atol=1e-12)
    assert expected.abs().min() > 1e-3
    step = 1e-5 * torch.eye(2, dtype=torch.float64)
    slopes = torch.stack([(exact(d) - exact(-d)) / 2e-5 for d in step])
    torch.testing.assert_close(found, slopes, rtol=1e-6, atol=1e-9)
    # Samples from another density give another gradient.
    (wrong,) = torch.autograd.grad(estimate(theta, model.flip(0)), theta)
    assert (wrong - expected).abs().max() > 1e-3


# --- the table


def cells(rows):
    """The cells of Table 1, without the names of the terms."""
    return [list(line.values())[1:] for line in landscape.tables(rows)[0].lines]


def test_table_1_is_that_of_the_paper(rows):
    verdicts = [[cell.split(":")[0] for cell in line] for line in cells(rows)]
    assert verdicts == [
        ["Yes", "No", "No"],
        ["No", "No", "Yes"],
        ["No", "Yes", "No"],
        ["Yes", "Yes", "Yes"],
    ]


def test_a_verdict_that_departs_from_the_paper_says_so(rows):
    other = [{**r, "penalises": "Yes"} for r in rows]
    assert cells(other)[0][1].startswith("Yes (paper: No)")
    assert "paper" not in str(cells(rows))


def test_only_the_two_loose_arguments_disagree_with_a_single_construction(rows):
    loose = [(r["term"], r["construction"]) for r in rows if r["penalises"] != r["paper"]]
    assert loose == [(INV, "uniform"), (PRIOR, "confident")]


def test_rows_are_plain_json_and_follow_the_seed(rows):
    assert json.loads(json.dumps(rows, allow_nan=False)) == rows
    state = torch.get_rng_state()
    assert landscape.measure(0) == rows
    assert torch.equal(torch.get_rng_state(), state)
    assert landscape.measure(1)[0]["value"] != rows[0]["value"]
