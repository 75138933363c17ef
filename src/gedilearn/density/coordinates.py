"""Coordinates in which a density is simple: points to y and back, with log |dy/dx|.

For vectors they are the columns that vary. For images and vectors with many columns,

    u = log s / (1 - s) of pixels s, or the point itself
    y = R^-1 (u - centre),   R = w I + sum_k (s_k - w) v_k v_k^T

v_k are the leading principal directions, s_k the deviations along them and w that of the rest. The
variance of y is about the same in all directions, and chains move equally fast in all.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import torch
from torch import Generator, Tensor, nn

from gedilearn.density.candidates import FLOOR

LEADING = 128  # principal directions, with most of the variance
AT_ONCE = 512  # points whose leading directions are computed


class Stretch(NamedTuple):
    """Pixels from `low` to `high`, mapped into (edge, 1 - edge), then the logit.

    Pixels are the middles of cells of width `cell`. With an edge of 0 pixels stay as they are.
    """

    edge: float
    low: float
    high: float
    cell: float

    @property
    def range(self) -> tuple[float, float]:
        """From the lower end of the first cell to the upper end of the last."""
        return self.low - self.cell / 2, self.high + self.cell / 2

    def apply(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """u, and log |du/dx| summed over the pixels.  (n, d) -> (n, d), (n,)."""
        if not self.edge:
            return x, torch.zeros_like(x[:, 0])
        first, last = self.range
        inside = ((x - first) / (last - first)).clamp(0, 1)
        s = self.edge + (1 - 2 * self.edge) * inside
        steep = math.log((1 - 2 * self.edge) / (last - first)) - torch.log(s * (1 - s))
        return torch.logit(s), steep.sum(1)

    def undo(self, u: Tensor) -> Tensor:
        """(n, d) -> (n, d)."""
        if not self.edge:
            return u
        first, last = self.range
        return first + (last - first) * (torch.sigmoid(u) - self.edge) / (1 - 2 * self.edge)


def dequantise(values: Tensor, cells: Tensor | float, generator: Generator) -> Tensor:
    """Values drawn uniformly from their cells: repeated values have no density.  (n, d)."""
    return values + cells * (torch.empty_like(values).uniform_(generator=generator) - 0.5)


class Coordinates(nn.Module):
    """Points (n, *point) <-> coordinates (n, d)."""

    used: Tensor  # (d,): indices of the columns or pixels with a density
    template: Tensor  # (*point): a point with the values of all others
    cells: Tensor  # (d,), or one number: the width of the cell around a value
    centre: Tensor  # (d,)
    directions: Tensor  # (r, d): v_k, one below another; none for plain vectors
    deviations: Tensor  # (r,): s_k
    rest: Tensor  # w
    stretched: Tensor  # (4,): edge, low, high, cell

    def __init__(self, used: Tensor, template: Tensor, cells: Tensor, **given: Tensor) -> None:
        super().__init__()
        empty = {
            "centre": (len(used),),
            "directions": (0, len(used)),
            "deviations": (0,),
            "rest": (),
            "stretched": (4,),
        }
        plain = {name: template.new_zeros(shape) for name, shape in empty.items()}
        own = {"used": used, "template": template, "cells": cells}
        for name, tensor in (own | plain | given).items():
            self.register_buffer(name, tensor)

    @property
    def stretch(self) -> Stretch:
        return Stretch(*self.stretched.tolist())

    def values_of(self, x: Tensor) -> Tensor:
        """The values with a density.  (n, *point) -> (n, d)."""
        return x.to(self.centre).flatten(1)[:, self.used]

    def dequantise(self, values: Tensor, generator: Generator) -> Tensor:
        """Values drawn uniformly from their cells.  (n, d) -> (n, d)."""
        return dequantise(values, self.cells, generator)

    def forward(self, values: Tensor) -> tuple[Tensor, Tensor]:
        """Coordinates, and log |dy/dx|.  (n, d) -> (n, d), (n,)."""
        u, volume = self.stretch.apply(values)
        away = u - self.centre
        if len(self.directions):
            along = away @ self.directions.T
            away = away / self.rest
            away = away + (along / self.deviations - along / self.rest) @ self.directions
            rest = (len(self.centre) - len(self.deviations)) * self.rest.log()
            volume = volume - self.deviations.log().sum() - rest
        return away, volume

    def leading(self, x: Tensor) -> Tensor:
        """Points along the leading principal directions; plain vectors as they are.

        (n, *point) -> (n, m).
        """
        parts = []
        for part in torch.split(x, AT_ONCE):
            away = self.stretch.apply(self.values_of(part))[0] - self.centre
            parts.append(away @ self.directions[:LEADING].T if len(self.directions) else away)
        return torch.cat(parts)

    def undo(self, y: Tensor) -> Tensor:
        """The inverse of `forward`.  (n, d) -> (n, d)."""
        if len(self.directions):
            along = y @ self.directions.T
            y = self.rest * y + (along * (self.deviations - self.rest)) @ self.directions
        return self.stretch.undo(self.centre + y)

    def project(self, y: Tensor) -> Tensor:
        """y projected to the principal directions.  (n, d) -> (n, d)."""
        return (y @ self.directions.T) @ self.directions

    def points(self, values: Tensor) -> Tensor:
        """Whole points with these values, the inverse of `values_of`.  (n, d) -> (n, *point)."""
        if values.shape[1] == self.template.numel():
            return values.view(-1, *self.template.shape)
        whole = self.template.flatten().to(values).expand(len(values), -1).clone()
        whole[:, self.used] = values
        return whole.view(-1, *self.template.shape)


def coordinates_in_columns(points: Tensor) -> Coordinates:
    """The columns that vary of points (n, d)."""
    data = points.cpu().double()
    used = (data.amax(0) > data.amin(0)).nonzero()[:, 0]
    if not len(used):  # one point, again and again: a density of no width is shown as a narrow one
        used = torch.arange(data.shape[1])
    return Coordinates(used, data[0].clone(), _cells(data[:, used].numpy()))


def _cells(x: np.ndarray) -> Tensor:
    """The distance of two neighbouring values of each column: (n, d) -> (d,).

    Values that repeat have no density; spread over their own cell of the scale, they have the one
    that a histogram shows. Of columns with any value, this moves the last digits alone.
    """
    steps = (np.diff(np.unique(column)) for column in x.T)
    gaps = [float(np.median(own)) if len(own) else FLOOR**0.5 for own in steps]
    return torch.tensor(gaps, dtype=torch.float64)
