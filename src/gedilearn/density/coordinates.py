"""Coordinates in which a density is simple: points to y and back, with the volume that it takes.

Of vectors they are the columns that vary. Of images, and of vectors with many columns,

    u = log s / (1 - s) of pixels s, or the point itself
    y = R^-1 (u - centre),   R = w I + sum_k (s_k - w) v_k v_k^T

v_k are the leading principal directions, s_k the deviations along them and w that of the rest: y
has about the same spread in all directions, so that chains move as fast in all.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Generator, Tensor, nn


class Squash(NamedTuple):
    """Pixels in (0, 1), widened by `edge` on both sides and stretched by the logit.

    Pixels are the middles of cells of a width `cell`, from `low` on; `high` is the last one. With
    an edge of 0 there is no stretching.
    """

    edge: float
    low: float
    high: float
    cell: float

    @property
    def range(self) -> tuple[float, float]:
        """From the lower end of the first cell to the upper end of the last."""
        return self.low - self.cell / 2, self.high + self.cell / 2

    def spread(self, x: Tensor, generator: Generator) -> Tensor:
        """Pixels anywhere in their cells: values that repeat have no density."""
        return x + self.cell * (torch.empty_like(x).uniform_(generator=generator) - 0.5)

    def apply(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """u, and log |du/dx| summed over the pixels.  (n, d) -> (n, d), (n,)."""
        if not self.edge:
            return x, torch.zeros_like(x[:, 0])
        whole = self.high - self.low + self.cell
        inside = ((x - self.low + self.cell / 2) / whole).clamp(0, 1)
        s = self.edge + (1 - 2 * self.edge) * inside
        steep = math.log((1 - 2 * self.edge) / whole) - torch.log(s * (1 - s))
        return torch.logit(s), steep.sum(1)

    def undo(self, u: Tensor) -> Tensor:
        """(n, d) -> (n, d)."""
        if not self.edge:
            return u
        inside = (torch.sigmoid(u) - self.edge) / (1 - 2 * self.edge)
        return self.low - self.cell / 2 + (self.high - self.low + self.cell) * inside


class Coordinates(nn.Module):
    """Points (n, *point) <-> coordinates (n, d). Made empty: all is read from a file, or set."""

    used: Tensor  # (d,): numbers of the columns or pixels with a density
    resting: Tensor  # (*point): the values of those that have none
    centre: Tensor  # (d,)
    directions: Tensor  # (r, d): v_k, one below another; none for plain vectors
    deviations: Tensor  # (r,): s_k
    rest: Tensor  # w
    squash_: Tensor  # (4,): edge, low, high, cell

    def __init__(self, point: tuple[int, ...], d: int, directions: int) -> None:
        super().__init__()
        self.point = point
        self.register_buffer("used", torch.zeros(d, dtype=torch.long))
        for name, shape in {
            "resting": point,
            "centre": (d,),
            "directions": (directions, d),
            "deviations": (directions,),
            "rest": (),
            "squash_": (4,),
        }.items():
            self.register_buffer(name, torch.zeros(shape, dtype=torch.float64))

    @property
    def squash(self) -> Squash:
        return Squash(*self.squash_.tolist())

    def taken(self, x: Tensor) -> Tensor:
        """The values with a density.  (n, *point) -> (n, d)."""
        return x.to(self.centre).flatten(1)[:, self.used]

    def forward(self, values: Tensor) -> tuple[Tensor, Tensor]:
        """Coordinates, and log |dy/dx|.  (n, d) -> (n, d), (n,)."""
        u, volume = self.squash.apply(values)
        away = u - self.centre
        if len(self.directions):
            along = away @ self.directions.T
            away = away / self.rest
            away = away + (along / self.deviations - along / self.rest) @ self.directions
            rest = (len(self.centre) - len(self.deviations)) * self.rest.log()
            volume = volume - self.deviations.log().sum() - rest
        return away, volume

    def values(self, y: Tensor) -> Tensor:
        """What `forward` took.  (n, d) -> (n, d)."""
        if len(self.directions):
            along = y @ self.directions.T
            y = self.rest * y + (along * (self.deviations - self.rest)) @ self.directions
        return self.squash.undo(self.centre + y)

    def leading(self, y: Tensor) -> Tensor:
        """What lies along the principal directions.  (n, d) -> (n, d)."""
        return (y @ self.directions.T) @ self.directions

    def inner(self, y: Tensor) -> Tensor:
        """What a network looks at: images, or the columns that vary.  (n, d) -> (n, ...)."""
        values = self.values(y)
        return values.view(-1, *self.point) if len(self.point) > 1 else values

    def points(self, y: Tensor) -> Tensor:
        """(n, d) -> (n, *point)."""
        whole = self.resting.flatten().expand(len(y), -1).clone()
        whole[:, self.used] = self.values(y)
        return whole.view(-1, *self.point)
