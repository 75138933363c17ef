"""DeepCluster: pseudo-labels, and learning them."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from gedilearn.methods.deepcluster import DeepCluster, pseudo_labels, whitened
from gedilearn.methods.method import Batch
from gedilearn.models.build import build_model
from gedilearn.models.energy import EnergyModel
from gedilearn.models.mlp import MLP
from gedilearn.settings import resolve
from helpers import SEEDED

DATA = torch.randn(40, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(0))


def make(length: int = 100, **options: int) -> tuple[EnergyModel, DeepCluster]:
    values = {"method": "deepcluster", "n_clusters": 3, "network": {"hidden": (8,), "head": (6,)}}
    settings = resolve(values | {"deepcluster": options}, (60, 2))
    method = DeepCluster(settings.own, seed=5, length=length)
    return build_model(settings, (2,), n_members=2, generator=SEEDED).double(), method


def make_batch(iteration: int = 1, n: int = 10) -> Batch:
    index = torch.randperm(40)[:n]
    return Batch(index, DATA[index], DATA[index] + 0.1, iteration, 0.5, SEEDED)


def optimizer_of(model: EnergyModel) -> torch.optim.Adam:
    return torch.optim.Adam(model.parameters(), lr=0.01)


def test_the_loss_equals_a_loop_over_members_and_points() -> None:
    model, method = make()
    method.labels = torch.tensor([[0] * 25 + [1] * 10 + [2] * 5, [1] * 3 + [2] * 30 + [0] * 7])
    batch = make_batch(n=20)
    got = method.terms(model, model, batch)
    assert got.keys() == {"pseudo"}
    logits = model(batch.view.expand(2, -1, -1)).logits.detach().numpy()
    sizes = [[25, 10, 5], [7, 3, 30]]
    for k in range(2):
        total = weights = 0.0
        for i, point in enumerate(batch.index.tolist()):
            label = int(method.labels[k, point])
            log_p = logits[k, i, label] - np.log(np.exp(logits[k, i]).sum())
            total -= log_p / sizes[k][label]
            weights += 1 / sizes[k][label]
        assert float(got["pseudo"][k].detach()) == pytest.approx(total / weights, abs=1e-6)


def test_every_member_reads_labels_off_its_own_features() -> None:
    model, method = make()
    method.begin(model, optimizer_of(model), DATA, make_batch())
    assert method.labels is not None and method.labels.shape == (2, 40)
    features = model(DATA.expand(2, -1, -1)).features.detach().numpy()
    for k in range(2):
        # The seed and the iteration make the seed of k-means.
        expected = pseudo_labels(features[k], 3, seed=5 + 1)
        assert (method.labels[k].numpy() == expected).all()
    assert not torch.equal(*method.labels)


def test_principal_components_have_equal_variance_and_rows_length_one() -> None:
    generator = np.random.default_rng(0)
    features = generator.normal(size=(200, 6)) @ generator.normal(size=(6, 6)) + 3
    for components in (6, 4):
        got = whitened(features, components)
        assert got.shape == (200, components)
        np.testing.assert_allclose(np.linalg.norm(got, axis=1), 1)
        # The same through singular vectors; signs are free.
        centred = features - features.mean(0)
        left = np.linalg.svd(centred, full_matrices=False)[0][:, :components] * np.sqrt(200)
        np.testing.assert_allclose(
            np.cov(left, rowvar=False, bias=True), np.eye(components), atol=1e-9
        )
        expected = left / np.linalg.norm(left, axis=1, keepdims=True)
        signs = np.sign((expected * got).sum(0))
        np.testing.assert_allclose(got, expected * signs, atol=1e-9)


def test_new_labels_come_with_a_new_last_layer_that_the_optimiser_does_not_know() -> None:
    model, method = make()
    optimizer = optimizer_of(model)
    method.begin(model, optimizer, DATA, make_batch())
    for _ in range(3):
        optimizer.zero_grad()
        method.terms(model, model, make_batch())["pseudo"].sum().backward()
        optimizer.step()
    before = {name: value.detach().clone() for name, value in model.named_parameters()}
    moments = {p: {k: v.clone() for k, v in s.items()} for p, s in optimizer.state.items()}
    method.begin(model, optimizer, DATA, make_batch(21))  # periods of 20 iterations
    assert isinstance(model.head, MLP)
    last = (model.head.weights[-1], model.head.biases[-1])
    for name, parameter in model.named_parameters():
        state, old = optimizer.state[parameter], moments[parameter]
        if any(parameter is own for own in last):
            assert (parameter != before[name]).all()
            assert parameter.abs().max() <= 6**-0.5  # as layers of 6 inputs start
            assert all(not value.any() for value in state.values())
        else:
            assert torch.equal(parameter, before[name])
            assert all(torch.equal(state[k], old[k]) and old[k].any() for k in old)


def iterations_of_relabelling(length: int, **options: int) -> list[int]:
    model, method = make(length, **options)
    optimizer, seen, labels = optimizer_of(model), [], None
    for iteration in range(1, length + 1):
        method.begin(model, optimizer, DATA, make_batch(iteration))
        if method.labels is not labels:
            seen.append(iteration)
            labels = method.labels
    return seen


@pytest.mark.parametrize(
    ("length", "period", "expected"),
    [(40, 10, [1, 11, 21, 31]), (45, 10, [1, 11, 21, 31]), (50, None, [1, 21]), (5, 10, [1])],
)
def test_labels_are_new_in_every_period_but_an_unfinished_last(
    length: int, period: int | None, expected: list[int]
) -> None:
    options = {} if period is None else {"period": period}
    assert iterations_of_relabelling(length, **options) == expected
