"""Stochastic gradient Langevin dynamics: a pure kernel, and the replay buffer of the paper.

The kernel is `x = step(x, ..., generator)`. A step costs one gradient of log p(x)
with respect to the input. Parameter gradients are never computed, and each step frees its graph, so
memory does not grow with the number of steps.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple, Protocol

import torch
from torch import Generator, Tensor

from gedilearn.ranks import n_ranks
from gedilearn.settings import Sampler as SamplerSettings

LogDensity = Callable[[Tensor], Tensor]
Initial = Callable[..., Tensor]

# --- what draws x~ for GEN ------------------------------------------------------------------------


class SampleBatch(NamedTuple):
    """What GEN compares."""

    samples: Tensor  # (members, m, *point): x~
    # (members, m): log b - log q of samples that were proposed by q; None for samples of the model
    log_weights: Tensor | None = None
    data: Tensor | None = None  # (members, n, *point): the data; None is the batch itself


class Sampler(Protocol):
    """What draws x~ for GEN, from the generator that it is given.

    `registry.SAMPLERS` holds functions that make one from a `SamplerContext`.
    """

    positions: Tensor | None  # (members, size, *point): where chains are that may get lost, if any
    weighted: bool  # whether its samples are proposals with weights

    def draw(self, log_density: LogDensity, batch: int, generator: Generator) -> SampleBatch:
        """About `batch` samples of each member, of log-densities (members, batch)."""
        ...

    def state(self) -> dict[str, Any]:
        """Tensors and plain values that a checkpoint keeps, on each rank its own."""
        ...

    def load_state(self, state: dict[str, Any]) -> None:
        """Continue from the values that `state` gave."""
        ...


class SamplerContext(NamedTuple):
    """What a sampler is made from."""

    settings: SamplerSettings
    box: Box  # around the data
    n_members: int
    n_samples: int  # of each member in an iteration, on this rank
    generator: Generator  # of what is drawn while it is made, on the device
    damping: float = 1.0  # below 1 after a divergence
    base: Any = None  # `density.base.Base`, if GEN is learnt on one


# --- the kernel ----------------------------------------------------------------------------------


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

    def cpu(self) -> Box:
        """The same box in the processor's memory."""
        return Box(self.low.cpu(), self.high.cpu())

    def uniform(self, *shape: int, generator: Generator) -> Tensor:
        """Independent uniform points: (*shape, ...)."""
        low, high = self
        shape = (*shape, *low.shape)
        draws = torch.rand(shape, generator=generator, dtype=torch.float32, device=low.device)
        return low + (high - low) * draws


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

    @classmethod
    def of(cls, settings: SamplerSettings, box: Box, damping: float = 1.0) -> Kernel:
        """The settings' step; `damping` multiplies it, and its root the noise."""
        inside = box if settings.clamp else None
        step, noise = settings.step_size * damping, settings.noise * damping**0.5
        return cls(step, noise, settings.max_move, inside)


def step(x: Tensor, log_density: LogDensity, kernel: Kernel, generator: Generator) -> Tensor:
    """One Langevin step for all chains: (..., batch, *point) -> the same.

    `log_density` maps (..., batch, *point) to (..., batch), each value depending on its own point
    alone.
    """
    shift = kernel.step_size * value_and_gradient(log_density, x)[1]
    if kernel.max_move is not None:
        shift = shift.clamp_(-kernel.max_move, kernel.max_move)
    x = x + shift
    if kernel.noise:
        x = x.add_(torch.empty_like(x).normal_(generator=generator), alpha=kernel.noise)
    if kernel.box is not None:
        x = x.clamp_(kernel.box.low, kernel.box.high)
    return x


def run(
    x: Tensor, log_density: LogDensity, kernel: Kernel, steps: int, generator: Generator
) -> Tensor:
    """The position after `steps` Langevin steps."""
    x = x.detach()
    for _ in range(steps):
        x = step(x, log_density, kernel, generator)
    return x


def value_and_gradient(log_density: LogDensity, x: Tensor) -> tuple[Tensor, Tensor]:
    """log p(x), (..., batch), and its gradient with respect to x, (..., batch, *point)."""
    with torch.enable_grad():
        x = x.detach().requires_grad_(True)
        density = log_density(x)
        # Naming x as the only input keeps autograd from computing any parameter's gradient; for
        # an MLP, `EnergyModel.fixed` does. The sum has the same gradient; for outputs of
        # more than one number torch imports its compiler.
        (gradient,) = torch.autograd.grad(density.sum(), x)
    return density.detach(), gradient


# --- moves whose length is tuned -----------------------------------------------------------------

AT_A_TIME = 1_024  # points whose gradients are computed at once
ACCEPTED = 0.6  # the share that the length of a move is tuned to


def look(log_density: LogDensity, x: Tensor) -> tuple[Tensor, Tensor]:
    """log p(x), (n,), and its gradient, (n, d), of any number of points."""
    seen = [value_and_gradient(log_density, part) for part in torch.split(x, AT_A_TIME)]
    values, gradients = zip(*seen, strict=True)
    return torch.cat(values), torch.cat(gradients)


@torch.no_grad()
def move(
    log_density: LogDensity,
    x: Tensor,
    moves: int,
    length: float,
    generator: Generator,
    corrected: bool = True,
) -> tuple[Tensor, float]:
    """Langevin steps of points (n, d), each taken or refused by Metropolis's rule.

    With the length of the next step. If they are not `corrected`, all are taken, and the rule only
    tunes their length: far from the model it would refuse most.
    """
    value, gradient = look(log_density, x)
    for _ in range(moves):
        half = length**2 / 2
        noise = torch.empty_like(x).normal_(generator=generator)
        there = x + half * gradient + length * noise
        new_value, new_gradient = look(log_density, there)
        back = (x - there - half * new_gradient).square().sum(-1) / (2 * length**2)
        forth = noise.square().sum(-1) / 2
        chance = (new_value - value + forth - back).exp().clamp_max(1)
        draws = torch.empty_like(chance).uniform_(generator=generator)
        taken = draws < chance if corrected else torch.ones_like(draws, dtype=torch.bool)
        x = torch.where(taken[:, None], there, x)
        value = torch.where(taken, new_value, value)
        gradient = torch.where(taken[:, None], new_gradient, gradient)
        length *= math.exp(0.5 * (float(chance.mean()) - ACCEPTED))
    return x, length


# --- persistent chains ---------------------------------------------------------------------------


class ReplayBuffer:
    """The paper's sampler: Langevin steps from the positions of chains that are kept.

    `size` chains for each member. Each drawn chain restarts with probability `restart` at a point
    of `initial(*shape, generator=...)`, for instance `Box.uniform`; the others go on from their
    slot, and are written back to it.
    """

    weighted = False

    def __init__(
        self,
        n_members: int,
        size: int,
        restart: float,
        initial: Initial,
        kernel: Kernel,
        steps: int,
        generator: Generator,
    ) -> None:
        self.restart, self.initial = restart, initial
        self.kernel, self.steps = kernel, steps
        self.positions = initial(n_members, size, generator=generator)  # (members, size, *point)

    def draw(self, log_density: LogDensity, batch: int, generator: Generator) -> SampleBatch:
        """Samples (members, batch, *point); the buffer goes on from them."""
        start, slots = self.begin(batch, generator)
        samples = run(start, log_density, self.kernel, self.steps, generator)
        self.store(slots, samples)
        return SampleBatch(samples)

    def begin(self, batch: int, generator: Generator) -> tuple[Tensor, Tensor]:
        """Starting positions (members, batch, *point) and the slots (members, batch) they hold.

        The buffer is read as a ring, turned by a random angle and cut into `batch` stretches of
        whole slots, and one slot is drawn from each: every slot is equally likely, and no two
        chains of a batch share one.
        """
        members, size = self.positions.shape[:2]
        device = self.positions.device
        starts, lengths = _stretches(size, batch, device)
        within, chance = torch.rand(
            2, members, batch, generator=generator, device=device, dtype=torch.float64
        )
        turn = torch.randint(size, (members, 1), generator=generator, device=device)
        slots = (within.mul_(lengths).long() + starts).add_(turn).remainder_(size)
        positions = self._flat().index_select(0, self._index(slots))
        positions = positions.view(members, batch, *self.positions.shape[2:])
        fresh = (chance < self.restart).view(members, batch, *[1] * (positions.dim() - 2))
        begun = self.initial(members, batch, generator=generator)
        return torch.where(fresh, begun, positions), slots

    def store(self, slots: Tensor, positions: Tensor) -> None:
        """Write positions (members, batch, *point) back to their slots (members, batch)."""
        self._flat().index_copy_(0, self._index(slots), positions.flatten(0, 1))

    def _flat(self) -> Tensor:
        """The slots of all members one after another: (members * size, *point), no copy."""
        return self.positions.flatten(0, 1)

    def _index(self, slots: Tensor) -> Tensor:
        """Where slots (members, batch) are among those of all members."""
        members, size = self.positions.shape[:2]
        first = torch.arange(0, members * size, size, device=slots.device)
        return (slots + first[:, None]).flatten()

    def state(self) -> dict[str, Any]:
        return {"positions": self.positions}

    def load_state(self, state: dict[str, Any]) -> None:
        self.positions = state["positions"].to(self.positions)


@lru_cache(maxsize=8)
def _stretches(size: int, batch: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """First slot and number of slots of each of `batch` stretches of nearly equal length."""
    cuts = torch.arange(batch + 1, device=device) * size // batch
    return cuts[:-1], cuts.diff()


def replay_buffer(context: SamplerContext) -> ReplayBuffer:
    """This rank's share of the chains of the settings, all fresh."""
    settings, box = context.settings, context.box
    size = max(settings.buffer // n_ranks(), context.n_samples)
    kernel = Kernel.of(settings, box, context.damping)
    given = (settings.restart, box.uniform, kernel, settings.steps, context.generator)
    return ReplayBuffer(context.n_members, size, *given)
