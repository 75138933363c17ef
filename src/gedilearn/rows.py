"""Rows in the units of the data, drawn from a density, that obey the rules of the training rows."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Generator, Tensor

from gedilearn.data.arrays import Scaling
from gedilearn.data.columns import Columns
from gedilearn.data.files import check_names
from gedilearn.data.rules import Rules
from gedilearn.errors import InputError, Parameter
from gedilearn.training.result import POOL, Result

MOST_ROUNDS = 20
MANY = 0.5  # kept rows, as a share: fewer are worth a word
FEWEST = 1_000  # draws that show how rare a condition is
LEAST_EFFECTIVE = 10  # draws that meet a condition
FILLS, AT_ONCE = 200, 100  # draws for a row with missing cells, and such rows at once


class Refused(UserWarning):
    """Says how many drawn rows were refused, if they were many."""


@dataclass(frozen=True, eq=False)
class Rows:
    """Draws rows, as values (n, q) of the columns, see `Columns.values`."""

    result: Result
    scaling: Scaling
    columns: Columns
    rules: Rules

    @cached_property
    def knots(self) -> np.ndarray:
        """Quantiles of drawn values, before they are mapped: (K, q)."""
        return self.rules.knots(self._values(self.result.pool))

    def _values(self, positions: Tensor) -> np.ndarray:
        """The values nearest to points in the network's units: (n, d) -> (n, q)."""
        return self.columns.nearest(self.scaling.undo(positions.numpy()))

    def _points(self, values: np.ndarray) -> tuple[Tensor, Tensor]:
        """Points in the network's units, and which columns of the first are known.

        (n, q) -> (n, d), (d,).
        """
        widths = [each.width for each in self.columns.used]
        points = self.scaling.apply(self.columns.encode(values))
        known = np.repeat(~np.isnan(values[0]), widths)
        return torch.from_numpy(points), torch.from_numpy(known)

    def sample(
        self,
        n: int,
        steps: int | None,
        seed: int,
        cluster: int | None,
        given: Mapping[Any, Any],
    ) -> np.ndarray:
        """Values of n new rows: (n, q).

        given: values or (low, high) of some columns, by name or number
        """
        fixed, low, high = self._conditions(given)
        (point,), known = self._points(fixed[None])
        own = (point, known) if known.any() else None
        effective = self.result.effective(point, known) if own else float(POOL)
        effective *= not self.rules.broken(fixed[None]).any()
        found, drawn, share = np.zeros((0, len(fixed))), 0, 1.0
        streams = np.random.SeedSequence(seed % 2**64).spawn(MOST_ROUNDS)
        for k, stream in enumerate(streams):
            if (given and effective * share < LEAST_EFFECTIVE) or (k and len(found) >= n):
                break
            more = math.ceil(1.2 * (n - len(found)) / max(share, 0.02)) if k else n
            more = max(more, FEWEST) if given and n > 0 else more
            own_seed = int(stream.generate_state(1)[0]) if k else seed
            positions = self.result.sample(more, steps, own_seed, cluster, own)
            same = np.repeat(fixed[None], more, axis=0)
            drawn_values, rng = self._values(positions), np.random.default_rng(stream)
            rows, possible = self.rules.applied(drawn_values, self.knots, same, rng)
            if stream is streams[-1] and not given:
                possible = ~np.isnan(rows).any(1)
            possible &= ~((rows < low) | (rows > high)).any(1)
            found, drawn = np.concatenate([found, rows[possible]]), drawn + more
            share = len(found) / drawn
        if given and (len(found) < n or effective * share < LEAST_EFFECTIVE):
            words = f"effective sample size {effective * share:.0f} of {POOL:,} draws"
            least = f"at least {LEAST_EFFECTIVE} are needed"
            raise InputError(Parameter("given", dict(given)), f": too rare ({words}, {least})")
        if share < MANY and not given:
            words = f"{drawn - len(found):,} of {drawn:,} drawn rows were refused"
            warnings.warn(f"{words}: no row of the fit is like them", Refused, stacklevel=3)
        return found[:n]

    def _conditions(self, given: Mapping[Any, Any]) -> np.ndarray:
        """Fixed values, NaN where there are none, lowest and highest values: (3, q)."""
        if not isinstance(given, Mapping):
            raise InputError(Parameter("given", given), ": give a mapping of columns to values")
        names = [each.name for each in self.columns.used]
        found = np.tile([[np.nan], [-np.inf], [np.inf]], len(names))
        for name, value in given.items():
            if not isinstance(name, int | np.integer):
                check_names([str(name)], names, "given")
                name = names.index(str(name))
            elif not 0 <= name < len(names):
                raise InputError(f"given: no column {name}: give one from 0 to {len(names) - 1}")
            column = self.columns.used[name]
            if isinstance(value, str) and column.kind != "category":
                by = ":" if column.kind == "number" and ".." not in value else ".."
                value = ends if len(ends := value.split(by)) == 2 else value
            if isinstance(value, tuple | list) and len(value) == 2:
                for k, end in enumerate(value, 1):
                    if end is not None and end != "":
                        found[k, name] = column.value(end)
            else:
                found[0, name] = column.value(value)
        return found

    def impute(self, values: np.ndarray, seed: int) -> np.ndarray:
        """Values with the missing ones, NaN, filled: (n, q) -> (n, q).

        A number is the median of draws given the row, a category the most frequent of them.
        """
        filled, missing = values.copy(), np.isnan(values)
        generator, rng = Generator().manual_seed(seed), np.random.default_rng(seed % 2**64)
        density, network = self.result.density, self.result.network
        assert density is not None
        patterns, which = np.unique(missing, axis=0, return_inverse=True)
        for k, pattern in enumerate(patterns):
            rows = np.flatnonzero(which.ravel() == k) if pattern.any() else np.zeros(0, int)
            for own in np.split(rows, range(AT_ONCE, len(rows), AT_ONCE)):
                if not len(own):
                    continue
                x, known = self._points(values[own])
                y, ratios, _ = density.propose_given(x, known, FILLS, network, generator)
                fixed = np.repeat(values[own], FILLS, axis=0)
                drawn = self._values(density.points_of(y.flatten(0, 1)))
                drawn, possible = self.rules.applied(drawn, self.knots, fixed, rng)
                chances = (ratios - ratios.amax(-1, keepdim=True)).exp().numpy()
                chances *= possible.reshape(chances.shape) + 1e-9
                drawn = drawn.reshape(len(own), FILLS, -1)
                for j in np.flatnonzero(pattern):
                    is_category = self.columns.used[j].kind == "category"
                    pick = _mode if is_category else _median
                    filled[own, j] = pick(np.nan_to_num(drawn[..., j]), chances)
        return filled


def _median(values: np.ndarray, chances: np.ndarray) -> np.ndarray:
    """The weighted median of each row: (n, m), (n, m) -> (n,)."""
    order = values.argsort(1)
    below = np.take_along_axis(chances, order, 1).cumsum(1)
    middle = (below < below[:, -1:] / 2).sum(1, keepdims=True)
    return np.take_along_axis(values, np.take_along_axis(order, middle, 1), 1)[:, 0]


def _mode(values: np.ndarray, chances: np.ndarray) -> np.ndarray:
    """The value of most weight in each row, of whole numbers: (n, m), (n, m) -> (n,)."""
    rows = zip(values.astype(int), chances, strict=True)
    return np.array([np.bincount(own, weights).argmax() for own, weights in rows])
