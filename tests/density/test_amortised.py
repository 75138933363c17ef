"""The amortised sampler against closed forms, brute force, and targets that are known."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from torch import Generator, Tensor, nn
from torch.distributions import Normal

from gedilearn.density.amortised import Aim, Amortised, Latent

CENTRES = torch.tensor([[-1.2, -0.6], [1.2, -0.6], [0.0, 1.3]])
SHARES = torch.tensor([0.5, 0.3, 0.2])
SPREAD = 0.5


def seeded(seed: int = 0) -> Generator:
    return Generator().manual_seed(seed)


def three(x: Tensor) -> Tensor:
    squares = torch.cdist(x, CENTRES).square()
    return torch.logsumexp(SHARES.log() - squares / (2 * SPREAD**2), -1)


def flat(x: Tensor) -> Tensor:
    return 0 * x.sum(-1)


def last_draws(
    sampler: Amortised, model: Callable[[Tensor], Tensor], steps: int, kept: int = 100
) -> Tensor:
    """The draws of the last steps together."""
    generator = seeded(1)
    draws = [sampler.draw(model, 100, generator) for _ in range(steps)]
    return torch.cat(draws[-kept:])


def linear_sampler(
    matrix: Tensor, sigma: float, eta: float, aim: Aim = "posterior", batch: int = 128
) -> Amortised:
    """g(z) = z @ matrix, which stays as it is, in double precision."""
    noise, d = matrix.shape
    sampler = Amortised(
        d, seeded(), noise=noise, width=1, learning_rate=0, batch=batch, candidates=100, eta=aim
    )
    sampler.latent.double()
    with torch.no_grad():
        for parameter in sampler.latent.g.layers.parameters():
            parameter.zero_()
        sampler.latent.g.linear.copy_(matrix)
        sampler.latent.log_sigma.fill_(math.log(sigma))
        sampler.latent.log_eta.fill_(math.log(eta))
    return sampler


MATRIX = torch.tensor([[1.0, 0.4], [-0.3, 0.7]], dtype=torch.float64)
SIGMA = 0.5


def test_the_weights_of_candidates_are_those_of_a_loop_over_them() -> None:
    generator = seeded()
    g = nn.Sequential(nn.Linear(3, 2), nn.Tanh())
    latent = Latent(g, 3, eta=0.7).double()
    points = latent.sample(4, generator)
    found = latent.posterior(points, 5, generator)
    sigma, eta = latent.log_sigma.exp(), latent.log_eta.exp()
    with torch.no_grad():
        for i in range(4):
            ratios, slopes = [], []
            for z in found.z[:, i]:
                given = Normal(g(z), sigma).log_prob(points.x[i]).sum()
                prior = Normal(0, 1).log_prob(z).sum()
                proposed = Normal(points.z[i], eta).log_prob(z).sum()
                ratios.append(float((given + prior - proposed).exp()))
                slopes.append((g(z) - points.x[i]) / sigma**2)
            weights = torch.tensor(ratios).double() / sum(ratios)
            score = sum(w * s for w, s in zip(weights, slopes, strict=True))
            torch.testing.assert_close(found.weights[:, i], weights)
            torch.testing.assert_close(found.score[i], score)


def test_the_gradient_of_the_entropy_is_that_of_its_closed_form() -> None:
    """A linear generator makes a Gaussian, whose entropy is known."""
    matrix = MATRIX.clone().requires_grad_()
    log_sigma = torch.tensor(SIGMA).double().log().requires_grad_()
    spread = matrix.T @ matrix + (2 * log_sigma).exp() * torch.eye(2)
    known = torch.autograd.grad(torch.logdet(spread) / 2, [matrix, log_sigma])
    sampler = linear_sampler(MATRIX, SIGMA, eta=0.7, batch=10_000)
    sampler.draw(flat, 1, seeded(1))  # without a model the loss is minus the entropy
    linear = sampler.latent.g.linear
    torch.testing.assert_close(-linear.grad, known[0], rtol=0, atol=0.06)
    torch.testing.assert_close(-sampler.latent.log_sigma.grad, known[1], rtol=0, atol=0.06)


@pytest.mark.parametrize(("aim", "widths"), [("posterior", 2.0), ("bound", 1.0)])
def test_eta_finds_the_width_of_the_posterior(aim: Aim, widths: float) -> None:
    """Two draws of a Gaussian posterior are twice its variance apart; the bound takes it once."""
    scale = 0.8
    sampler = linear_sampler(torch.tensor([[scale]]).double(), SIGMA, eta=1.0, aim=aim)
    generator, found = seeded(1), []
    for _ in range(300):
        sampler.draw(flat, 1, generator)
        found.append(sampler.latent.log_eta.item())
    variance = 1 / (1 + scale**2 / SIGMA**2)
    eta = math.exp(sum(found[-100:]) / 100)
    assert eta**2 == pytest.approx(widths * variance, rel=0.1)


def test_draws_come_near_a_mixture_of_three() -> None:
    x = last_draws(Amortised(2, seeded()), three, 800, kept=200)
    nearest = torch.cdist(x, CENTRES).argmin(1)
    shares = torch.bincount(nearest, minlength=3) / len(x)
    torch.testing.assert_close(shares, SHARES, rtol=0, atol=0.13)  # equal ones are 0.17 off
    for k, centre in enumerate(CENTRES):
        own = x[nearest == k]
        torch.testing.assert_close(own.mean(0), centre, rtol=0, atol=0.2)
        assert float((own - centre).std()) == pytest.approx(SPREAD, rel=0.2)


def test_the_model_gets_no_gradients_and_draws_carry_none() -> None:
    energy = nn.Linear(2, 1)
    sampler = Amortised(2, seeded())
    with torch.no_grad():  # training goes on within
        x = sampler.draw(lambda x: energy(x)[:, 0], 10, seeded(1))
    assert not x.requires_grad
    assert all(parameter.grad is None for parameter in energy.parameters())
    assert all(parameter.grad is not None for parameter in sampler.latent.parameters())
