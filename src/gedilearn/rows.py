"""Rows in the units of the data, drawn from a density, that obey the rules of the training rows."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from torch import Tensor

from gedilearn.data.arrays import Scaling
from gedilearn.data.columns import Columns
from gedilearn.data.rules import Rules
from gedilearn.training.result import Result

MOST_ROUNDS = 20
MANY = 0.5  # refused rows, as a share, that are worth a word


class Refused(UserWarning):
    """Says how many drawn rows were refused, if they were many."""


@dataclass(frozen=True, eq=False)
class Rows:
    """Draws rows. Values (n, q) are those of `data.rules`: of an array, the array itself."""

    result: Result
    scaling: Scaling
    columns: Columns | None
    rules: Rules | None  # None where rows are images, or without a density

    @cached_property
    def knots(self) -> np.ndarray:
        """Quantiles of drawn values, before they are mapped: (K, q)."""
        assert self.rules is not None
        return self.rules.knots(self._values(self.result.pool))

    def sample(self, n: int, steps: int | None, seed: int, cluster: int | None) -> Any:
        """n rows, a data frame if the training rows were encoded."""
        if self.rules is None:
            return self._as_rows(self._values(self.result.sample(n, steps, seed, cluster)))
        kept: list[np.ndarray] = []
        found = drawn = 0
        for k, own in enumerate(np.random.SeedSequence(seed % 2**64).spawn(MOST_ROUNDS)):
            own_seed = seed if k == 0 else int(own.generate_state(1)[0])
            m = n - found if k == 0 else math.ceil(1.2 * (n - found) * drawn / max(found, 1))
            values = self._values(self.result.sample(min(m, 10 * n), steps, own_seed, cluster))
            free = np.full(values.shape, np.nan)
            rng = np.random.default_rng(own)
            values, possible = self.rules.applied(values, self.knots, free, rng)
            if k == MOST_ROUNDS - 1:
                possible = ~np.isnan(values).any(1)
            kept.append(values[possible])
            found, drawn = found + int(possible.sum()), drawn + len(values)
            if found >= n:
                break
        if drawn - found > MANY * drawn:
            words = f"{drawn - found:,} of {drawn:,} drawn rows were refused: no row of the fit"
            warnings.warn(f"{words} has such values together", Refused, stacklevel=4)
        return self._as_rows(np.concatenate(kept)[:n])

    def _values(self, position: Tensor) -> np.ndarray:
        """Values as the density has them, of points in the network's units: (n, q), or images."""
        points = self.scaling.undo(position.numpy())
        return points if self.columns is None else self.columns.nearest(points)

    def _as_rows(self, values: np.ndarray) -> Any:
        return values if self.columns is None else self.columns.frame(values)
