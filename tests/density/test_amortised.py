"""The amortised sampler against closed forms and a target that is known."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor, nn

from gedilearn.density import amortised
from gedilearn.density.amortised import Amortised
from helpers import seeded

CENTRES = torch.tensor([[-1.2, -0.6], [1.2, -0.6], [0.0, 1.3]])
SHARES = torch.tensor([0.5, 0.3, 0.2])
MATRIX = torch.tensor([[1.0, 0.4], [-0.3, 0.7]], dtype=torch.float64)
SIGMA, SPREAD = 0.5, 0.5


def made(d: int) -> Amortised:
    return Amortised(d, seeded(), torch.device("cpu"))


def linear_sampler(matrix: Tensor, sigma: float, eta: float) -> Amortised:
    """g(z) = z @ matrix, which stays as it is, in double precision."""
    sampler = made(len(matrix))
    sampler.latent.double()
    sampler.adam.param_groups[0]["lr"] = 0.0
    with torch.no_grad():
        for parameter in sampler.latent.layers.parameters():
            parameter.zero_()
        sampler.latent.linear.copy_(matrix)
        sampler.latent.log_sigma.fill_(math.log(sigma))
        sampler.latent.log_eta.fill_(math.log(eta))
    return sampler


def test_the_gradient_of_the_entropy_is_that_of_its_closed_form(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A linear generator makes a Gaussian, whose entropy is known."""
    matrix = MATRIX.clone().requires_grad_()
    log_sigma = torch.tensor(SIGMA).double().log().requires_grad_()
    spread = matrix.T @ matrix + (2 * log_sigma).exp() * torch.eye(2)
    known = torch.autograd.grad(torch.logdet(spread) / 2, [matrix, log_sigma])
    monkeypatch.setattr(amortised, "BATCH", 10_000)
    monkeypatch.setattr(amortised, "CANDIDATES", 100)
    sampler = linear_sampler(MATRIX, SIGMA, eta=0.7)
    sampler.draw(lambda x: 0 * x.sum(-1), 1, seeded(1))  # the loss is minus the entropy
    for own, slope in zip((sampler.latent.linear, sampler.latent.log_sigma), known, strict=True):
        torch.testing.assert_close(-own.grad, slope, rtol=0, atol=0.06)  # type: ignore[operator]


def test_eta_finds_the_width_of_the_posterior() -> None:
    """Two draws of a Gaussian posterior are twice its variance apart."""
    scale = 0.8
    sampler = linear_sampler(torch.tensor([[scale]]).double(), SIGMA, eta=1.0)
    generator, found = seeded(1), []
    for _ in range(300):
        sampler.draw(lambda x: 0 * x.sum(-1), 1, generator)
        found.append(sampler.latent.log_eta.item())
    variance = 1 / (1 + scale**2 / SIGMA**2)
    assert math.exp(sum(found[-100:]) / 100) ** 2 == pytest.approx(2 * variance, rel=0.1)


def test_draws_come_near_a_mixture_of_three_whose_network_gets_no_gradients() -> None:
    network = nn.Parameter(CENTRES.clone())

    def three(x: Tensor) -> Tensor:
        squares = torch.cdist(x, network).square()
        return torch.logsumexp(SHARES.log() - squares / (2 * SPREAD**2), -1)

    sampler, generator = made(2), seeded(1)
    with torch.no_grad():  # training goes on within
        draws = [sampler.draw(three, 100, generator) for _ in range(800)]
    x = torch.cat(draws[-200:])
    assert network.grad is None and not x.requires_grad
    nearest = torch.cdist(x, CENTRES).argmin(1)
    shares = torch.bincount(nearest, minlength=3) / len(x)
    torch.testing.assert_close(shares, SHARES, rtol=0, atol=0.13)  # equal ones are 0.17 off
    for k, centre in enumerate(CENTRES):
        own = x[nearest == k]
        torch.testing.assert_close(own.mean(0), centre, rtol=0, atol=0.2)
        assert float((own - centre).std()) == pytest.approx(SPREAD, rel=0.2)
