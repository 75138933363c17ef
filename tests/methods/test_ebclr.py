"""EBCLR against plain loops and finite differences in float64."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.cluster import KMeans
from sklearn.datasets import load_digits, make_blobs
from sklearn.metrics import normalized_mutual_info_score
from torch import Generator, Tensor

from gedilearn.methods.ebclr import EBCLR
from gedilearn.methods.method import Batch
from gedilearn.models.build import build_model
from gedilearn.models.energy import EnergyModel
from gedilearn.sampling.langevin import SampleBatch
from gedilearn.settings import Settings, resolve
from gedilearn.verdict.monitor import WIDEST_GAP
from helpers import SEEDED, gedi

TAU, MEMBERS, POINTS, SAMPLES = 0.3, 2, 6, 5


class Given:
    """Gives the same samples always, and keeps the density that it was to draw from."""

    def __init__(self, positions: Tensor) -> None:
        self.positions = positions
        self.log_density: Callable[[Tensor], Tensor] | None = None

    def draw(
        self, log_density: Callable[[Tensor], Tensor], batch: int, generator: Generator
    ) -> SampleBatch:
        assert batch == self.positions.shape[1]
        self.log_density = log_density
        self.seen = log_density(self.positions)
        return SampleBatch(self.positions)


def stated(**options: object) -> Settings:
    values = {"method": "ebclr", "n_clusters": 3, "network": {"hidden": (8,), "head": (6,)}}
    own = {"temperature": TAU, "embedding": 4, "generative": 0.7, "length": 0.2, **options}
    return resolve(values | {"ebclr": own}, (60, 2))


def make(members: int = MEMBERS, **options: object) -> tuple[EnergyModel, EBCLR, Given]:
    settings = stated(**options)
    model = build_model(settings, (2,), members, generator=SEEDED).double()
    chains = Given(torch.randn(members, SAMPLES, 2, dtype=torch.float64))
    return model, EBCLR(settings.own, chains, SAMPLES), chains


def make_batch(n: int = POINTS) -> Batch:
    x, view = torch.randn(2, n, 2, dtype=torch.float64)
    return Batch(torch.arange(n), x, view, 1, 0.5, SEEDED)


def embedded(model: EnergyModel, x: Tensor) -> tuple[np.ndarray, np.ndarray]:
    """Embeddings of length 1, and squared lengths before: (members, n, d), (members, n)."""
    with torch.no_grad():
        features = model.encoder(x.expand(model.n_members, -1, -1))
        raw = model.head.projector(features).numpy()
    length = np.linalg.norm(raw, axis=-1)
    return raw / length[..., None], length**2


def log_q(z: np.ndarray, others: np.ndarray) -> float:
    """log of the mean of exp(-|z - z'|^2 / tau), in a loop."""
    total = 0.0
    for other in others:
        total += math.exp(-sum((a - b) ** 2 for a, b in zip(z, other, strict=True)) / TAU)
    return math.log(total / len(others))


def loop_contrast(z: np.ndarray, other: np.ndarray) -> float:
    both, n, losses = np.concatenate([z, other]), len(z), []
    for i in range(2 * n):
        near = [math.exp(-((both[i] - both[j]) ** 2).sum() / TAU) for j in range(2 * n)]
        partner = i + n if i < n else i - n
        losses.append(-math.log(near[partner] / (sum(near) - near[i])))
    return float(np.mean(losses))


# --- the loss -------------------------------------------------------------------------------------


def test_the_terms_equal_loops_over_members_and_points() -> None:
    model, method, chains = make()
    batch = make_batch()
    (z, lengths), (other, _), (drawn, drawn_lengths) = (
        embedded(model, x) for x in (batch.x, batch.view, chains.positions)
    )
    got = method.terms(model, model, batch)
    assert got.keys() == {"contrast", "marginal", "length"}
    total = method.total(got, 0.5)
    for k in range(MEMBERS):
        data = np.mean([log_q(one, other[k]) for one in z[k]])
        samples = np.mean([log_q(one, other[k]) for one in drawn[k]])
        expected = {
            "contrast": loop_contrast(z[k], other[k]),
            "marginal": samples - data,
            "length": lengths[k].mean() + drawn_lengths[k].mean(),
        }
        for name, value in expected.items():
            assert float(got[name][k].detach()) == pytest.approx(value, abs=1e-10)
        whole = expected["contrast"] + 0.7 * (expected["marginal"] + 0.2 * expected["length"])
        assert float(total[k].detach()) == pytest.approx(whole, abs=1e-10)


def test_the_gradient_of_the_loss_equals_finite_differences() -> None:
    model, method, _ = make()
    batch = make_batch()

    def loss() -> Tensor:
        return method.total(method.terms(model, model, batch), 0.5).sum()

    loss().backward()
    trained = list(model.parameters())
    assert all(parameter.grad is not None for parameter in trained)
    for _ in range(5):
        ways = [torch.randn_like(parameter) for parameter in trained]
        slope = sum(float((p.grad * way).sum()) for p, way in zip(trained, ways, strict=True))
        ends = []
        for distance in (1e-6, -2e-6):  # there, and back beyond the start
            with torch.no_grad():
                for parameter, way in zip(trained, ways, strict=True):
                    parameter.add_(way, alpha=distance)
            ends.append(float(loss().detach()))
        with torch.no_grad():
            for parameter, way in zip(trained, ways, strict=True):
                parameter.add_(way, alpha=1e-6)
        assert slope == pytest.approx((ends[0] - ends[1]) / 2e-6, rel=1e-5, abs=1e-7)


def test_chains_that_do_not_reach_the_data_are_no_divergence(tmp_path: Path) -> None:
    """In 64 dimensions the default chains for vectors stay away from the data."""
    x = load_digits().data[:300]
    short = {"max_iter": 40, "training.check_every": 10, "random_state": 0}
    model = gedi(10, method="ebclr", **short, run_dir=tmp_path / "run").fit(x)
    lines = (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()
    found = [json.loads(line)["marginal"][0] for line in lines]
    assert -40 < min(found) < -WIDEST_GAP
    assert model.stopped_ != "diverged" and model.result_.recoveries == 0


# --- the samples ----------------------------------------------------------------------------------


def test_samples_are_drawn_from_the_marginal_over_the_second_views() -> None:
    model, method, chains = make()
    batch = make_batch()
    method.terms(model, model, batch)
    assert chains.log_density is not None
    x = torch.randn(MEMBERS, 3, 2, dtype=torch.float64)
    got = chains.log_density(x).detach()
    (z, _), (other, _) = embedded(model, x), embedded(model, batch.view)
    for k in range(MEMBERS):
        for i in range(3):
            assert float(got[k, i]) == pytest.approx(log_q(z[k, i], other[k]), abs=1e-10)
    # Not what logits say of a point.
    assert (got - model.log_density(x).detach()).std() > 1e-3


# --- the clusters ---------------------------------------------------------------------------------


def test_prototypes_are_the_directions_of_the_centres_of_k_means() -> None:
    model, method, _ = make(1)
    data = torch.randn(50, 2, dtype=torch.float64)
    assert method.conclude(model, data)
    z = embedded(model, data)[0][0]
    labels = KMeans(3, n_init=10, random_state=0).fit_predict(z)
    sums = np.stack([z[labels == c].sum(0) for c in range(3)])
    expected = sums / np.linalg.norm(sums, axis=1, keepdims=True)
    found = model.head.prototypes[0].detach().numpy().T
    np.testing.assert_allclose(found[np.lexsort(found.T)], expected[np.lexsort(expected.T)])


def test_the_density_of_logits_is_the_marginal_over_the_centres() -> None:
    model, method, _ = make(1)
    data = torch.randn(50, 2, dtype=torch.float64)
    assert method.conclude(model, data)
    found = model.head.prototypes[0].detach().numpy().T
    np.testing.assert_allclose(np.linalg.norm(found, axis=1), 1)
    got, z = model.log_density(data[None])[0].detach().numpy(), embedded(model, data)[0][0]
    expected = [log_q(one, found) for one in z]
    constant = 2 / TAU + math.log(3)
    np.testing.assert_allclose(got, np.array(expected) + constant, atol=1e-10)


@pytest.mark.parametrize(("clusters", "width"), [(1, 2), (2, 2), (5, 5)])
def test_the_embedding_has_a_coordinate_a_cluster_and_at_least_two(
    clusters: int, width: int
) -> None:
    found = resolve({"method": "ebclr", "n_clusters": clusters}, (60, 2))
    assert found.own.embedding == width


def test_it_finds_blobs_and_learns_where_the_data_is() -> None:
    corners = [(0, 0), (6, 0), (0, 6)]
    x, y = make_blobs(150, centers=corners, cluster_std=0.5, random_state=0)
    model = gedi(3, method="ebclr", max_iter=150, random_state=0).fit(x)
    assert model.stopped_ != "diverged"
    assert normalized_mutual_info_score(y, model.labels_) > 0.9
    grid = np.stack(np.meshgrid(np.linspace(-1, 7, 20), np.linspace(-1, 7, 20)), -1).reshape(-1, 2)
    away = grid[distances(grid, x) > 1]
    assert model.score_samples(x).mean() > model.score_samples(away).mean() + 3
    samples = model.sample(200, random_state=0)[0]
    assert np.median(distances(samples, x)) < 0.5 < 1 < np.median(distances(grid, x))


def distances(points: np.ndarray, x: np.ndarray) -> np.ndarray:
    """From each point to the nearest of x."""
    return np.linalg.norm(points[:, None] - x[None], axis=-1).min(1)
