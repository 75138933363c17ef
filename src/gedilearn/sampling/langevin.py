"""Stochastic gradient Langevin dynamics: a pure kernel, and persistent chains with a replay buffer.

The kernel is `state, info = step(state, ..., generator)`. A step costs one gradient of log p(x)
with respect to the input. Parameter gradients are never computed, and each step frees its graph, so
memory does not grow with the number of steps.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple, Protocol

import torch
from torch import Generator, Tensor

from gedilearn.ranks import n_ranks
from gedilearn.settings import Sampler as SamplerSettings

LogDensity = Callable[[Tensor], Tensor]
Initial = Callable[..., Tensor]

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
    noise: float | Tensor  # one for all, or one a chain, (..., batch, *ones)
    max_move: float | None = None  # largest move a coordinate makes along the gradient in one step
    box: Box | None = None  # chains are clamped to it

    @classmethod
    def of(cls, settings: SamplerSettings, box: Box, damping: float = 1.0) -> Kernel:
        """The settings' step; `damping` multiplies it, and its root the noise."""
        inside = box if settings.clamp else None
        step, noise = settings.step_size * damping, settings.noise * damping**0.5
        return cls(step, noise, settings.max_move, inside)


class State(NamedTuple):
    """Where the chains are."""

    position: Tensor  # (..., batch, *point)


class Info(NamedTuple):
    """What a step saw at the position that it left."""

    log_density: Tensor  # (..., batch)
    gradient: Tensor  # (..., batch, *point)


def step(
    state: State, log_density: LogDensity, kernel: Kernel, generator: Generator
) -> tuple[State, Info]:
    """One Langevin step for all chains.

    `log_density` maps (..., batch, *point) to (..., batch), each value depending on its own point
    alone.
    """
    density, gradient = value_and_gradient(log_density, state.position)
    move = kernel.step_size * gradient
    if kernel.max_move is not None:
        move = move.clamp_(-kernel.max_move, kernel.max_move)
    position = state.position + move
    if isinstance(kernel.noise, Tensor):
        noise = torch.empty_like(position).normal_(generator=generator)
        position = position.addcmul_(noise, kernel.noise)
    elif kernel.noise:
        noise = torch.empty_like(position).normal_(generator=generator)
        position = position.add_(noise, alpha=kernel.noise)
    if kernel.box is not None:
        position = position.clamp_(kernel.box.low, kernel.box.high)
    return State(position), Info(density, gradient)


def run(
    position: Tensor, log_density: LogDensity, kernel: Kernel, steps: int, generator: Generator
) -> Tensor:
    """The position after `steps` Langevin steps."""
    state = State(position.detach())
    for _ in range(steps):
        state, _ = step(state, log_density, kernel, generator)
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


# --- persistent chains ---------------------------------------------------------------------------


class Sampler(Protocol):
    """What draws x~ for GEN.

    `registry.SAMPLERS` holds functions (settings, box, n_members, n_chains, damping, generator)
    that make one. It draws from the generator that it is given. One whose chains differ
    by age also remembers `ages`.
    """

    positions: Tensor  # (members, size, *point): all that it remembers, on each rank its own

    def draw(self, log_density: LogDensity, batch: int, generator: Generator) -> Tensor:
        """Samples (members, batch, *point) of the densities of all members."""
        ...


class Stages(NamedTuple):
    """How the noise of a chain falls: from `first` to the kernel's, evenly over `number` draws."""

    first: float
    number: int

    def noise(self, last: float, ages: Tensor) -> Tensor:
        """That of chains which were drawn so often since they restarted."""
        return last + (self.first - last) * (1 - ages / self.number).clamp_min(0)


class PersistentChains:
    """Draws x~ by `steps` Langevin steps from where chains of the buffer stand.

    With `stages`, all steps of a draw have the noise of the chain's age: how often it was drawn
    since it restarted (`Stages`).
    """

    def __init__(
        self, buffer: ReplayBuffer, kernel: Kernel, steps: int, stages: Stages | None = None
    ) -> None:
        self.buffer = buffer
        self.kernel = kernel
        self.steps = steps
        self.stages = stages
        if stages is not None:
            buffer.ages = torch.zeros_like(buffer.positions.flatten(2)[..., 0])

    @property
    def positions(self) -> Tensor:
        return self.buffer.positions

    @positions.setter
    def positions(self, positions: Tensor) -> None:
        self.buffer.positions = positions

    @property
    def ages(self) -> Tensor | None:
        """(members, size): draws of each chain since it restarted; None without stages."""
        return self.buffer.ages

    @ages.setter
    def ages(self, ages: Tensor | None) -> None:
        self.buffer.ages = ages

    def draw(self, log_density: LogDensity, batch: int, generator: Generator) -> Tensor:
        """Samples (members, batch, *point); the buffer goes on from them."""
        start, slots = self.buffer.draw(batch, generator)
        samples = run(start, log_density, self._kernel_at(slots, start), self.steps, generator)
        self.buffer.store(slots, samples)
        return samples

    def _kernel_at(self, slots: Tensor, start: Tensor) -> Kernel:
        """The kernel with the noise of the chains in these slots, which are one draw older then."""
        ages = self.buffer.ages
        if self.stages is None or ages is None:
            return self.kernel
        assert isinstance(self.kernel.noise, float)
        own = ages.gather(1, slots)
        ages.scatter_(1, slots, own + 1)
        noise = self.stages.noise(self.kernel.noise, own)
        return self.kernel._replace(noise=noise.view(*own.shape, *[1] * (start.dim() - 2)))


def persistent_chains(
    settings: SamplerSettings,
    box: Box,
    n_members: int,
    n_chains: int,
    damping: float,
    generator: Generator,
) -> PersistentChains:
    """This rank's share of the chains of the settings, all fresh; `n_chains` of them move in each
    iteration.
    """
    size = max(settings.buffer // n_ranks(), n_chains)
    buffer = ReplayBuffer(n_members, size, settings.restart, box.uniform, generator)
    stages = None
    if settings.first_noise is not None:
        stages = Stages(settings.first_noise * damping**0.5, settings.stages)
    return PersistentChains(buffer, Kernel.of(settings, box, damping), settings.steps, stages)


class ReplayBuffer:
    """`size` chain positions for each member, on the device of the initial distribution.

    `initial(*shape, generator=...)` gives fresh points (*shape, *point), for instance
    `Box.uniform`. Each drawn chain restarts there with probability `restart`; the rest go on from
    their slot, and whatever comes of a chain is written back to the slot it came from.
    """

    def __init__(
        self, n_members: int, size: int, restart: float, initial: Initial, generator: Generator
    ) -> None:
        self.restart = restart
        self.initial = initial
        self.positions = initial(n_members, size, generator=generator)  # (members, size, *point)
        self.ages: Tensor | None = None  # (members, size), if they are counted: 0 after a restart

    def draw(self, batch: int, generator: Generator) -> tuple[Tensor, Tensor]:
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
        if self.ages is not None:
            own = self.ages.gather(1, slots).masked_fill_(chance < self.restart, 0)
            self.ages.scatter_(1, slots, own)
        fresh = (chance < self.restart).view(members, batch, *[1] * (positions.dim() - 2))
        return torch.where(
            fresh, self.initial(members, batch, generator=generator), positions
        ), slots

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


@lru_cache(maxsize=8)
def _stretches(size: int, batch: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """First slot and number of slots of each of `batch` stretches of nearly equal length."""
    cuts = torch.arange(batch + 1, device=device) * size // batch
    return cuts[:-1], cuts.diff()
