"""The method: which terms it computes, from how many passes, and in which mode it samples."""

from __future__ import annotations

import pytest
import torch
from torch import Generator, Tensor

from gedilearn.methods import terms
from gedilearn.methods.gedi import GEDI
from gedilearn.methods.method import Batch
from gedilearn.methods.priors import Fixed
from gedilearn.models.build import build_model
from gedilearn.models.energy import EnergyModel, Output
from gedilearn.sampling.langevin import Box, Kernel, LogDensity, ReplayBuffer, SampleBatch
from gedilearn.settings import Weights, resolve
from helpers import SEEDED


def parts(weights: Weights, n_chains: int | None = None) -> tuple[EnergyModel, GEDI, Batch]:
    torch.manual_seed(0)
    model = build_model(
        resolve({"n_clusters": 3, "network": {"hidden": (8,)}}, (60, 2)),
        (2,),
        n_members=2,
        generator=SEEDED,
    )
    x, view = torch.randn(10, 2), torch.randn(10, 2)
    box = Box.around(x)
    buffer = ReplayBuffer(2, 40, 0.05, box.uniform, Kernel(0.1, 0.1), 2, SEEDED)
    method = GEDI(weights, Fixed(), buffer, n_chains)
    return model, method, Batch(torch.arange(10), x, view, 1, 0.5, SEEDED)


@pytest.mark.parametrize("n_chains", [None, 10, 7, 25])
def test_terms_equal_those_of_separate_forward_passes(n_chains: int | None) -> None:
    model, method, batch = parts(Weights(), n_chains)
    passes: list[Tensor] = []

    def forward(together: Tensor) -> Output:
        passes.append(together)
        return model(together)

    named = method.terms(forward, model, batch)
    assert len(passes) == 1 and passes[0].shape == (2, 20 + (n_chains or 10), 2)
    samples = passes[0][:, 20:]
    data, other, drawn = (model(b.expand(2, -1, 2)).logits for b in (batch.x, batch.view, samples))
    expected = {
        "inv": terms.invariance(data, other),
        "prior": terms.prior(data),
        "gen": terms.generative(data, drawn),
        "energy": terms.energy_scale(data, drawn),
    }
    assert named.keys() == expected.keys()
    for name in expected:
        torch.testing.assert_close(named[name], expected[name])


class Weighted:
    """Gives the same proposals, their weights and rows of its own always."""

    weighted = True

    def __init__(self) -> None:
        samples, data = torch.randn(2, 12, 2), torch.randn(2, 9, 2)
        self.contrast = SampleBatch(samples, torch.randn(2, 12), data)

    def draw(self, log_density: LogDensity, batch: int, generator: Generator) -> SampleBatch:
        return self.contrast


def test_gen_compares_proposals_by_their_weights_with_the_rows_of_the_sampler() -> None:
    model, method, batch = parts(Weights())
    method.sampler = own = Weighted()  # type: ignore[assignment]
    samples, log_weights, data = own.contrast
    named = method.terms(model, model, batch)
    expected = terms.generative(model(data).logits, model(samples).logits, log_weights)
    torch.testing.assert_close(named["gen"], expected)
    # Energies are not penalised: log Gamma of weighted proposals has no drift.
    assert named.keys() == {"inv", "prior", "gen"}
    method.learning = torch.tensor([1.0, 0.0])
    torch.testing.assert_close(method.terms(model, model, batch)["gen"], expected * method.learning)
    method.learning = torch.zeros(2)
    assert method.terms(model, model, batch).keys() == {"inv", "prior"}


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
    model, method, batch = parts(weights)
    assert method.terms(model, model, batch).keys() == names


def test_the_total_follows_the_schedule() -> None:
    method = GEDI(
        Weights(gen=0.0, inv=2.0, prior=((0.0, 4.0), (0.5, 1.0), (1.0, 3.0))), Fixed(), None
    )
    named = {"inv": torch.tensor([1.0, 10.0]), "prior": torch.tensor([1.0, 1.0])}
    for progress, weight in ((0.0, 4.0), (0.25, 2.5), (0.5, 1.0), (0.75, 2.0), (1.0, 3.0)):
        expected = torch.tensor([2 + weight, 20 + weight])
        torch.testing.assert_close(method.total(named, progress), expected)
