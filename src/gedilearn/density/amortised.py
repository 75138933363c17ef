"""x~ from a generator that is trained beside the model: no chains.

Grathwohl, Kelly, Hashemi, Norouzi, Swersky and Duvenaud, "No MCMC for me: Amortized sampling for
fast and stable training of energy-based models" (VERA), ICLR 2021. Its symbols:

    z0 ~ N(0, I), eps ~ N(0, I)    the noise that a point is made of
    x = g(z0) + sigma eps          a point of q(x), the integral of q(x|z) N(z; 0, I) over z
    xi(z|z0) = N(z0, eta^2)        where to look for other z that x could have been made of; an
                                   eta for each coordinate of z
    lambda                         the weight of the entropy H

g and sigma maximise E log p(x) + lambda H(q) over the points of q. For lambda = 1 this is largest
where q is the model p; for others, where q is p^(1/lambda), normalised. The gradient of H needs
d log q(x) / dx, which is the mean of d log q(x|z) / dx over the posterior of z given x. Candidates
z ~ xi, k for each x, weighted by q(x, z) / xi(z|z0), stand for that posterior.

With few candidates the weighted mean leans towards g(z0), and the gradient of the entropy is too
small: draws are narrower than the model and lose its smaller parts. This is worst where xi is
narrower than the posterior. So eta does not maximise the lower bound E_xi log q(x, z) + H(xi) of
the paper, which would rather have xi too narrow than too wide, but E log xi(z|z0) over the weighted
candidates, which would rather have it too wide, and needs no further passes of g.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Generator, Tensor, nn

from gedilearn.models.mlp import MLP
from gedilearn.sampling.langevin import LogDensity, value_and_gradient

SIGMA = (0.01, 1.0)  # its bounds: the lower one of the authors' code, and the data's deviation
FIRST_SIGMA = 0.3
ETA_RATE = 0.02  # of Adam: the authors'
BETAS = (0.0, 0.9)  # of Adam for g and sigma: the authors'
WIDTH, RATE = 64, 3e-3  # of g, and its learning rate
BATCH, CANDIDATES = 128, 40  # points of a training step, and candidates k for each
# A model that changes faster than the generator follows leaves it behind, and both diverge. The
# authors' settings for CIFAR-10 add this times |d log p(x) / dx|^2 / 2 at the data to the model's
# loss, and give the model a smaller learning rate than the generator.
SMOOTHNESS = 0.1


class Latent(nn.Module):
    """q(x) and xi: all that is trained.

    g is a perceptron beside a linear map that begins as the identity: the first points are about
    standard normal, as standardised data are.
    """

    def __init__(self, d: int, generator: Generator) -> None:
        super().__init__()
        self.layers = MLP((d, WIDTH, WIDTH, d), 1, "silu", generator=generator)
        self.linear = nn.Parameter(torch.eye(d))
        self.log_sigma = nn.Parameter(torch.tensor(FIRST_SIGMA).log())
        self.log_eta = nn.Parameter(torch.zeros(d))

    def g(self, z: Tensor) -> Tensor:
        """(..., d) -> (..., d)."""
        bent: Tensor = self.layers(z.reshape(1, -1, z.shape[-1]))
        return bent.view_as(z) + z @ self.linear

    def sample(self, n: int, generator: Generator) -> tuple[Tensor, Tensor]:
        """Points with gradients to g and sigma, and z0 of each: (n, d), (n, d)."""
        z, eps = self.linear.new_empty(2, n, len(self.linear)).normal_(generator=generator)
        return self.g(z) + self.log_sigma.exp() * eps, z

    def log_xi(self, z: Tensor, z0: Tensor) -> Tensor:
        """log xi(z|z0): (..., n, d), (n, d) -> (..., n)."""
        return log_normal(z - z0, self.log_eta)

    @torch.no_grad()
    def posterior(
        self, x: Tensor, z0: Tensor, generator: Generator
    ) -> tuple[Tensor, Tensor, Tensor]:
        """What points (n, d) may have been made of, seen from k candidates each.

        The candidates (k, n, d), their weights (k, n), which sum to 1 over those of a point, and
        d log q(x) / dx (n, d).
        """
        noise = z0.new_empty(CANDIDATES, *z0.shape).normal_(generator=generator)
        z = z0 + self.log_eta.exp() * noise
        mean = self.g(z)
        joint = log_normal(x - mean, self.log_sigma.expand_as(self.log_eta))
        joint = joint + log_normal(z, torch.zeros_like(self.log_eta))
        weights = (joint - self.log_xi(z, z0)).softmax(0)
        expected = (weights[..., None] * mean).sum(0)
        return z, weights, (expected - x) / (2 * self.log_sigma).exp()


def log_normal(away: Tensor, log_deviation: Tensor) -> Tensor:
    """The log-density of independent normal coordinates: (..., d), (d,) -> (...)."""
    squares = (away * (-log_deviation).exp()).square().sum(-1)
    return -squares / 2 - log_deviation.sum() - len(log_deviation) / 2 * math.log(2 * math.pi)


class Amortised:
    """x~ from a generator that is trained beside the model: points of d standardised coordinates.

    lambda is 1.
    """

    def __init__(self, d: int, generator: Generator, device: torch.device) -> None:
        self.latent = Latent(d, generator).to(device)
        latent = self.latent
        self.made_by = [latent.linear, latent.log_sigma, *latent.layers.parameters()]
        self.adam = torch.optim.Adam(self.made_by, RATE, BETAS)
        self.eta_adam = torch.optim.Adam([latent.log_eta], ETA_RATE)

    def state(self) -> dict[str, Any]:
        optimisers = {"adam": self.adam.state_dict(), "eta": self.eta_adam.state_dict()}
        return {"latent": self.latent.state_dict()} | optimisers

    def load_state(self, state: dict[str, Any]) -> None:
        self.latent.load_state_dict(state["latent"])
        self.adam.load_state_dict(state["adam"])
        self.eta_adam.load_state_dict(state["eta"])

    def draw(self, model: LogDensity, n: int, generator: Generator) -> Tensor:
        """One training step against the model, then n fresh points: (n, d), detached.

        `model` gives log p(x) up to a constant, (m, d) -> (m,); its parameters get no gradients.
        """
        self._train(model, generator)
        with torch.no_grad():
            return self.latent.sample(n, generator)[0]

    @torch.enable_grad()
    def _train(self, model: LogDensity, generator: Generator) -> None:
        made, z0 = self.latent.sample(BATCH, generator)
        x = made.detach()
        z, weights, score = self.latent.posterior(x, z0, generator)
        # How each point is to move. That log q changes with its parameters too adds nothing: the
        # mean of that derivative over the points of q is 0.
        uphill = value_and_gradient(model, x)[1] - score
        loss = -(uphill * made).sum(-1).mean()
        for parameter, slope in zip(
            self.made_by, torch.autograd.grad(loss, self.made_by), strict=True
        ):
            parameter.grad = slope
        aim = (weights * self.latent.log_xi(z, z0)).sum(0)
        (self.latent.log_eta.grad,) = torch.autograd.grad(-aim.mean(), [self.latent.log_eta])
        self.adam.step()
        self.eta_adam.step()
        with torch.no_grad():
            self.latent.log_sigma.clamp_(math.log(SIGMA[0]), math.log(SIGMA[1]))
