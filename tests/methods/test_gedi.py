"""The method: which terms it computes, from how many passes, and in which mode it samples."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from gedilearn.methods import terms
from gedilearn.methods.gedi import GEDI
from gedilearn.methods.priors import Fixed
from gedilearn.models.build import build_model
from gedilearn.models.energy import EnergyModel, Output
from gedilearn.sampling.buffer import ReplayBuffer
from gedilearn.sampling.chains import PersistentChains
from gedilearn.sampling.langevin import Box, Kernel
from gedilearn.settings import Network, Weights


def parts(weights: Weights) -> tuple[EnergyModel, GEDI, Tensor, Tensor]:
    torch.manual_seed(0)
    model = build_model(Network(hidden=(8,)), (2,), 3, n_members=2)
    x, view = torch.randn(10, 2), torch.randn(10, 2)
    box = Box.around(x)
    buffer = ReplayBuffer(2, 40, 0.05, box.uniform)
    return model, GEDI(weights, Fixed(), PersistentChains(buffer, Kernel(0.1, 0.1), 2)), x, view


def same(logits: Tensor) -> Tensor:
    return logits


def test_terms_equal_those_of_separate_forward_passes() -> None:
    model, method, x, view = parts(Weights())
    passes: list[Tensor] = []

    def forward(batch: Tensor) -> Output:
        passes.append(batch)
        return model(batch)

    named = method.terms(forward, model, x, view, 0.5, same)
    assert len(passes) == 1 and passes[0].shape == (2, 30, 2)
    samples = passes[0][:, 20:]
    data, other, drawn = (model(b.expand(2, 10, 2)).logits for b in (x, view, samples))
    expected = {
        "inv": terms.invariance(data, other),
        "prior": terms.prior(data),
        "gen": terms.generative(data, drawn),
        "energy": terms.energy_scale(data, drawn),
    }
    assert named.keys() == expected.keys()
    for name in expected:
        torch.testing.assert_close(named[name], expected[name])


@pytest.mark.parametrize(
    ("weights", "names"),
    [
        (Weights(gen=0.0), {"inv", "prior"}),  # no gen
        (Weights(inv=0.0), {"prior", "gen", "energy"}),  # no inv
        (Weights(prior=0.0, energy=0.0), {"inv", "gen"}),  # no unif
        (Weights(inv=0.0, prior=0.0, energy=0.0), {"gen"}),  # JEM
    ],
)
def test_ablations_compute_only_their_own_terms(weights: Weights, names: set[str]) -> None:
    model, method, x, view = parts(weights)
    assert method.terms(model, model, x, view, 0.5, same).keys() == names


def test_the_total_follows_the_schedule() -> None:
    method = GEDI(
        Weights(gen=0.0, inv=2.0, prior=((0.0, 4.0), (0.5, 1.0), (1.0, 3.0))), Fixed(), None
    )
    named = {"inv": torch.tensor([1.0, 10.0]), "prior": torch.tensor([1.0, 1.0])}
    for progress, weight in ((0.0, 4.0), (0.25, 2.5), (0.5, 1.0), (0.75, 2.0), (1.0, 3.0)):
        expected = torch.tensor([2 + weight, 20 + weight])
        torch.testing.assert_close(method.total(named, progress), expected)


def test_chains_are_drawn_in_evaluation_mode_and_the_mode_is_put_back() -> None:
    model, method, x, view = parts(Weights())
    modes = []
    log_density = model.log_density

    def spy(batch: Tensor) -> Tensor:
        modes.append(model.training)
        return log_density(batch)

    model.log_density = spy  # type: ignore[method-assign]
    model.train()
    method.terms(model, model, x, view, 0.5, same)
    assert modes == [False, False] and model.training


def test_sampling_leaves_no_parameter_gradient() -> None:
    model, method, x, view = parts(Weights())
    method.terms(model, model, x, view, 0.5, same)
    assert all(p.grad is None for p in model.parameters())
