"""Mixtures of Gaussians: exact densities with direct sampling."""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch
from torch import Generator, Tensor, nn

CHUNK_VALUES = 2**22  # numbers held at once while a density is computed
NEGLIGIBLE = 60.0  # nats below the largest term: a share of 1e-26
OWN = 0.1  # widths, for the root of the number of directions: a kernel's own point is nearer


class Gaussians(nn.Module):
    """sum_k w_k N(mean_k, C_k), with `full` and `round` components.

    C_k is L_k L_k^T for full ones and s_k^2 I for round ones. All weights together sum to 1.
    Omitted tensors are empty.
    """

    full_weights: Tensor  # (k,): logarithms
    full_means: Tensor  # (k, d)
    full_factors: Tensor  # (k, d, d): L_k, lower triangular
    round_weights: Tensor  # (r,): logarithms
    round_means: Tensor  # (r, d)
    round_widths: Tensor  # (r,): s_k

    def __init__(self, **given: Tensor) -> None:
        super().__init__()
        some = given["full_means" if "full_means" in given else "round_means"]
        d = some.shape[1]
        empty = {
            "full_weights": (0,),
            "full_means": (0, d),
            "full_factors": (0, d, d),
            "round_weights": (0,),
            "round_means": (0, d),
            "round_widths": (0,),
        }
        for name, shape in empty.items():
            self.register_buffer(name, given.get(name, some.new_zeros(shape)))

    @classmethod
    def full(cls, weights: Tensor, means: Tensor, factors: Tensor) -> Gaussians:
        """Components with any covariance; `weights` are not logarithms."""
        return cls(full_weights=weights.log(), full_means=means, full_factors=factors)

    @classmethod
    def round(cls, means: Tensor, widths: Tensor) -> Gaussians:
        """Round components of equal weight."""
        weights = torch.full_like(widths, -math.log(len(means)))
        return cls(round_weights=weights, round_means=means, round_widths=widths)

    @classmethod
    def mixed(cls, parts: list[Gaussians], log_weights: Tensor) -> Gaussians:
        """The weighted sum of several mixtures."""
        joined = {}
        for name in dict(parts[0].named_buffers()):
            each = [getattr(part, name) for part in parts]
            if name.endswith("weights"):
                each = [own + weight for own, weight in zip(each, log_weights, strict=True)]
            joined[name] = torch.cat(each)
        return cls(**joined)

    def log_density(self, x: Tensor, apart: float = 0.0) -> Tensor:
        """(n, d) -> (n,), with gradients.

        Round components at a distance of less than `apart` widths do not count.
        """
        held = len(self.round_means) + self.full_means.numel()
        chunks = torch.split(x, max(1, CHUNK_VALUES // max(held, 1)))
        return torch.cat([self._log_density(chunk, apart) for chunk in chunks])

    def _log_density(self, x: Tensor, apart: float) -> Tensor:
        d, logs = x.shape[-1], []
        if len(self.full_means):
            means, factors = self.full_means.to(x), self.full_factors.to(x)
            away = (x - means[:, None]).mT  # (k, d, n)
            solved = torch.linalg.solve_triangular(factors, away, upper=False)
            volumes = factors.diagonal(dim1=1, dim2=2).log().sum(-1)
            squares = solved.square().sum(1).T
            logs.append(self.full_weights.to(x) - volumes - squares / 2)
        if len(self.round_means):
            means, widths = self.round_means.to(x), self.round_widths.to(x)
            squares = (x.square().sum(-1)[:, None] + means.square().sum(-1)) - 2 * (x @ means.T)
            scaled = squares.clamp_min(0) / widths.square()
            if apart:
                scaled = scaled.masked_fill(scaled < apart**2, torch.inf)
            logs.append(self.round_weights.to(x) - d * widths.log() - scaled / 2)
        joined = torch.cat(logs, -1)
        # Terms far below the largest change nothing, and exponentials that underflow are slow.
        joined = torch.maximum(joined, joined.detach().amax(-1, keepdim=True) - NEGLIGIBLE)
        return torch.logsumexp(joined, -1) - d / 2 * math.log(2 * math.pi)

    def sample(self, n: int, generator: Generator) -> Tensor:
        """Independent points: (n, d)."""
        n_full, d = self.full_means.shape
        weights = torch.cat([self.full_weights, self.round_weights]).exp()
        chosen = torch.multinomial(weights, n, True, generator=generator)
        points = self.full_means.new_empty(n, d).normal_(generator=generator)
        for k in range(n_full):
            own = chosen == k
            points[own] = self.full_means[k] + points[own] @ self.full_factors[k].T
        own = chosen >= n_full
        which = chosen[own] - n_full
        points[own] = self.round_means[which] + self.round_widths[which, None] * points[own]
        return points

    def given(
        self, values: Tensor, known: Tensor, n: int, generator: Generator
    ) -> tuple[Tensor, Tensor]:
        """Points with the `known` columns of values, and the log-density of these columns.

        (m, d), (d,) -> (m, n, d), (m,).
        """
        order, g = torch.argsort(known.int(), descending=True, stable=True), int(known.sum())
        own, free = order[:g], order[g:]
        spread = (self.full_factors @ self.full_factors.mT)[:, order][:, :, order]
        factors = torch.linalg.cholesky(spread)
        away = (values[:, own] - self.full_means[:, None, own]).mT  # (k, g, m)
        solved = torch.linalg.solve_triangular(factors[:, :g, :g], away, upper=False)
        volumes = factors.diagonal(dim1=1, dim2=2)[:, :g].log().sum(-1)
        full = self.full_weights - volumes - solved.square().sum(1).T / 2
        widths, near = self.round_widths, self.round_means[:, own]
        squares = torch.cdist(values[:, own], near).square() if g else values.new_zeros(1, 1)
        kernels = self.round_weights - g * widths.log() - squares / widths.square() / 2
        logs = torch.cat([full, kernels.expand(len(values), -1)], -1)
        chosen = torch.multinomial(logs.softmax(-1), n, True, generator=generator)
        noise = values.new_empty(len(values), n, len(free)).normal_(generator=generator)
        which = (chosen - len(factors)).clamp_min(0)
        drawn = noise
        if len(widths):
            drawn = self.round_means[which][..., free] + widths[which][..., None] * noise
        for k, factor in enumerate(factors):
            row, column = (chosen == k).nonzero(as_tuple=True)
            means = self.full_means[k, free] + solved[k].T[row] @ factor[g:, :g].T
            drawn[row, column] = means + noise[row, column] @ factor[g:, g:].T
        points = values[:, None].repeat(1, n, 1)
        points[..., free] = drawn
        return points, torch.logsumexp(logs, -1) - g / 2 * math.log(2 * math.pi)


class Framed(nn.Module):
    """A mixture along some directions, times the standard normal density along all others.

    The mixture is of values in units of `deviations`. A kernel of it does not count at its own
    point: a training row is as likely as the others make it.
    """

    frame: Tensor  # (m, d): orthonormal directions, one below another
    deviations: Tensor  # (m,)

    def __init__(self, frame: Tensor, mixture: Gaussians, deviations: Tensor | None = None) -> None:
        super().__init__()
        self.mixture = mixture
        self.register_buffer("frame", frame)
        own = frame.new_ones(len(frame)) if deviations is None else deviations
        self.register_buffer("deviations", own)

    @classmethod
    def read(cls, tensors: Mapping[str, Tensor]) -> Framed:
        """From the state of another."""
        prefix = "mixture."
        own = {k.removeprefix(prefix): t for k, t in tensors.items() if k.startswith(prefix)}
        return cls(tensors["frame"], Gaussians(**own), tensors.get("deviations"))

    def log_density(self, x: Tensor) -> Tensor:
        """(n, d) -> (n,), with gradients."""
        m, d = self.frame.shape
        along = x @ self.frame.T
        squares = x.square().sum(-1) - along.square().sum(-1)
        rest = squares / 2 + (d - m) / 2 * math.log(2 * math.pi) + self.deviations.log().sum()
        return self.mixture.log_density(along / self.deviations, OWN * m**0.5) - rest

    def sample(self, n: int, generator: Generator) -> Tensor:
        """Independent points: (n, d)."""
        x = self.frame.new_empty(n, self.frame.shape[1]).normal_(generator=generator)
        along = self.mixture.sample(n, generator) * self.deviations
        return x + (along - x @ self.frame.T) @ self.frame
