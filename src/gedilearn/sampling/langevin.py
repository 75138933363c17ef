"""Stochastic gradient Langevin dynamics as a pure kernel: `state, info = step(state, ...)`.

A step costs one gradient of log p(x) with respect to the input. Parameter gradients are never
computed, and each step frees its graph, so memory does not grow with the number of steps.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

LogDensity = Callable[[Tensor], Tensor]


class Box(NamedTuple):
    """An axis-parallel box around the data; both corners are shaped like one point."""

    low: Tensor
    high: Tensor

    @classmethod
    def around(cls, x: Tensor) -> Box:
        """The smallest one.  x: (n, ...)."""
        return cls(x.amin(0), x.amax(0))

    @classmethod
    def cube(cls, x: Tensor) -> Box:
        """One with the same bounds for every coordinate.  x: (n, ...)."""
        return cls(torch.full_like(x[0], float(x.min())), torch.full_like(x[0], float(x.max())))

    def widened(self, share: float) -> Box:
        """The box with this share of its width added on every side."""
        margin = share * (self.high - self.low)
        return Box(self.low - margin, self.high + margin)

    def uniform(self, *shape: int) -> Tensor:
        """Independent uniform points: (*shape, ...)."""
        low, high = self
        return low + (high - low) * torch.rand(*shape, *low.shape, device=low.device)


class Kernel(NamedTuple):
    """The settings of a Langevin step.

    `step_size` multiplies the gradient itself (no extra 1/2, as in the public reference code), and
    `noise` is the standard deviation added to each coordinate. Stationarity at p(x) asks for
    step_size = noise**2 / 2; the image settings of the paper use a step far above that, which
    samples a colder distribution.
    """

    step_size: float
    noise: float
    max_move: float | None = None  # largest move a coordinate makes along the gradient in one step
    box: Box | None = None  # chains are clamped to it


class State(NamedTuple):
    """Where the chains are."""

    position: Tensor  # (..., batch, *point)


class Info(NamedTuple):
    """What a step saw at the position that it left."""

    log_density: Tensor  # (..., batch)
    gradient: Tensor  # (..., batch, *point)


def step(state: State, log_density: LogDensity, kernel: Kernel) -> tuple[State, Info]:
    """One Langevin step for all chains.

    `log_density` maps (..., batch, *point) to (..., batch), each value depending on its own point
    alone.
    """
    density, gradient = value_and_gradient(log_density, state.position)
    move = kernel.step_size * gradient
    if kernel.max_move is not None:
        move = move.clamp_(-kernel.max_move, kernel.max_move)
    position = state.position + move
    if kernel.noise:
        position = position.add_(torch.randn_like(position), alpha=kernel.noise)
    if kernel.box is not None:
        position = position.clamp_(kernel.box.low, kernel.box.high)
    return State(position), Info(density, gradient)


def run(position: Tensor, log_density: LogDensity, kernel: Kernel, steps: int) -> Tensor:
    """The position after `steps` Langevin steps."""
    state = State(position.detach())
    for _ in range(steps):
        state, _ = step(state, log_density, kernel)
    return state.position


def value_and_gradient(log_density: LogDensity, x: Tensor) -> tuple[Tensor, Tensor]:
    """log p(x), (..., batch), and its gradient with respect to x, (..., batch, *point)."""
    with torch.enable_grad():
        x = x.detach().requires_grad_(True)
        density = log_density(x)
        # Naming x as the only input keeps autograd from computing any parameter's gradient; for
        # an MLP, `EnergyModel.fixed` does.
        (gradient,) = torch.autograd.grad(density, x, torch.ones_like(density))
    return density.detach(), gradient
