"""The replay buffer: chains that go on from where an earlier iteration left them."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

Initial = Callable[..., Tensor]


class ReplayBuffer:
    """`size` chain positions for each member, on the device of the initial distribution.

    `initial(*shape)` gives fresh points (*shape, *point), for instance `Box.uniform`. Each drawn
    chain restarts there with probability `restart`; the rest go on from their slot, and whatever
    comes of a chain is written back to the slot it came from.
    """

    def __init__(self, n_members: int, size: int, restart: float, initial: Initial) -> None:
        self.restart = restart
        self.initial = initial
        self.positions = initial(n_members, size)  # (members, size, *point)

    def draw(self, batch: int) -> tuple[Tensor, Tensor]:
        """Starting positions (members, batch, *point) and the slots (members, batch) they hold.

        The buffer is read as a ring, turned by a random angle and cut into `batch` stretches of
        whole slots, and one slot is drawn from each: every slot is equally likely, and no two
        chains of a batch share one.
        """
        members, size = self.positions.shape[:2]
        device = self.positions.device
        cuts = torch.arange(batch + 1, device=device) * size // batch
        within = torch.rand(members, batch, device=device).double()
        turn = torch.randint(size, (members, 1), device=device)
        slots = (cuts[:-1] + (within * cuts.diff()).long() + turn) % size
        positions = self.positions[self._rows(), slots]
        fresh = torch.rand(members, batch, device=device) < self.restart
        fresh = fresh.view(members, batch, *[1] * (positions.dim() - 2))
        return torch.where(fresh, self.initial(members, batch), positions), slots

    def store(self, slots: Tensor, positions: Tensor) -> None:
        """Write positions (members, batch, *point) back to their slots (members, batch)."""
        self.positions[self._rows(), slots] = positions

    def _rows(self) -> Tensor:
        return torch.arange(len(self.positions), device=self.positions.device)[:, None]
