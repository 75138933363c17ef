"""What all rows of a table keep, and drawn values changed to keep it.

A table is values (n, q): numbers as they are, categories as the codes of their levels, NaN where a
cell is missing. Every number is mapped by the one increasing function that gives it the
distribution of the training rows: it keeps its range, its repeated values and its decimals. A
number that exceeds another in all rows, or is a sum of others, is mapped as the difference, which
keeps order and sum. Rows with levels that never occur together are refused.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from graphlib import TopologicalSorter
from typing import Annotated

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, FiniteFloat, model_validator

from gedilearn.data.arrays import evenly_spaced, pair_counts
from gedilearn.settings import Kind

QUANTILES = 501  # of a number that are kept
# Steps in a unit: of days, of hours, of numbers.
GRIDS = {"date": (1, 1_440, 86_400), "time": (60, 3_600), "number": tuple(10**k for k in range(7))}
MOST_STEPS = 1e10  # in a value on a grid
SOME_ROWS = 1_000  # that sums and orders are looked for in, before all rows are checked
MOST_LEVELS, REPEATS, RARE = 20, 5, 0.01  # values of a number in so many rows are levels
EXPECTED = 3.0  # rows with a pair of levels, if columns were independent, so that none is a rule
REFUSED = 0.01  # the largest share of rows that break a rule made by chance
VIOLATIONS = 10.0  # expected in the same way, so that no violation is a rule
COLLINEAR = 1e4  # of a variance, as a multiple of what other columns leave unexplained

Code = Annotated[int, Field(ge=0)]
Parts = tuple[tuple[Code, FiniteFloat], ...]


class Facts(BaseModel):
    """What all rows keep in one column.

    low, high: the range of a number
    grid: the number of steps in a unit: 1 for whole numbers, 100 for cents, 0 for any values
    parts: columns and factors: the number is mapped as what it has more than their sum
    quantiles: evenly spaced, of the number, or of what it has more than its parts
    levels: the frequent values of a number
    frequent: of a category, the number of levels that are not rare
    rare: in how many rows each rare level of a category is; their codes are the next
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    low: FiniteFloat = -np.inf
    high: FiniteFloat = np.inf
    grid: int = 0
    parts: Parts = ()
    quantiles: tuple[FiniteFloat, ...] = ()
    levels: tuple[FiniteFloat, ...] = ()
    frequent: Annotated[int, Field(lt=1_000)] = 0
    rare: tuple[int, ...] = ()

    @property
    def n_codes(self) -> int:
        """One for each level, and one for all other values."""
        return len(self.levels) + self.frequent + len(self.rare) + 1

    def codes(self, values: np.ndarray) -> np.ndarray:
        """The level of each value, -1 where missing: (n,) -> (n,)."""
        if self.quantiles:
            at = np.searchsorted(self.levels, values)
            is_level = np.append(self.levels, np.nan)[at] == values
            values = np.where(np.isnan(values) | is_level, values * 0 + at, len(self.levels))
        return np.asarray(np.nan_to_num(values, nan=-1).astype(int))

    def mapped(self, values: np.ndarray, knots: np.ndarray) -> np.ndarray:
        """Drawn values, with the quantiles `knots` (K,), as values of the training: (n,)."""
        quantiles = np.array(self.quantiles)
        rank = np.interp(values, knots, np.linspace(0, len(quantiles) - 1, len(knots)))
        if len(np.unique(quantiles)) <= len(quantiles) / 2:  # only values that occur
            rank = np.round(rank)
        return np.asarray(np.interp(rank, np.arange(len(quantiles)), quantiles))


class Rules(BaseModel):
    """What all rows keep in each column and between columns.

    orders: pairs of columns: the first is never above the second
    never: pairs of columns, and the pairs of codes that do not occur in them
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    columns: tuple[Facts, ...]
    orders: tuple[tuple[Code, Code], ...] = ()
    never: tuple[tuple[Code, Code, tuple[tuple[Code, Code], ...]], ...] = ()

    @classmethod
    def of(
        cls,
        values: np.ndarray,
        kinds: Sequence[Kind],
        levels: Mapping[int, tuple[int, tuple[int, ...]]],
    ) -> Rules:
        """Measured on values (n, q) of columns of these kinds.

        levels: of each category, the number of frequent levels and the counts of its rare ones
        """
        grids = {k: _grid(values[:, k], kind) for k, kind in enumerate(kinds) if k not in levels}
        some = values[evenly_spaced(len(values), SOME_ROWS)]
        orders = _orders(values, some, kinds)
        parts = _differences(some, orders)
        parts |= _sums(some, [k for k in grids if kinds[k] == "number"], grids)
        means = np.nanmean(values, axis=0)  # parts are less: no column is a part of itself
        parts = {k: own for k, own in parts.items() if all(means[j] < means[k] for j, _ in own)}
        made = []
        for k, own in enumerate(values.T):
            if k in levels:
                made.append(Facts(frequent=levels[k][0], rare=levels[k][1]))
                continue
            rest = own - sum((values[:, j] * factor for j, factor in parts.get(k, ())), 0.0)
            made.append(_facts(own, rest, grids[k], parts.get(k, ())))
        codes = [facts.codes(own) for facts, own in zip(made, values.T, strict=True)]
        some_levels = [k for k, facts in enumerate(made) if facts.n_codes > 1]
        pairs = [(a, b) for a in some_levels for b in some_levels if a < b]
        kind = {(a, b): (not made[a].quantiles) + (not made[b].quantiles) for a, b in pairs}
        tried = np.zeros(3)  # pairs of levels of two numbers, of a number and a category, of two
        for a, b in pairs:
            tried[kind[a, b]] += made[a].n_codes * made[b].n_codes
        asked = [_asked(pairs_of, len(values)) for pairs_of in tried]
        never = ((a, b, _never(codes[a], codes[b], asked[kind[a, b]])) for a, b in pairs)
        return cls(columns=tuple(made), orders=orders, never=tuple(n for n in never if n[2]))

    @cached_property
    def order(self) -> list[int]:
        """The columns, each after its parts."""
        parts = {k: [j for j, _ in facts.parts] for k, facts in enumerate(self.columns)}
        return list(TopologicalSorter(parts).static_order())

    @cached_property
    def factors(self) -> np.ndarray:
        """The factor of each part (the row) in each column: (q, q)."""
        found = np.zeros((len(self.columns),) * 2)
        for k, facts in enumerate(self.columns):
            for j, factor in facts.parts:
                found[j, k] = factor
        return found

    @cached_property
    def tables(self) -> list[tuple[int, int, np.ndarray]]:
        """`never` as tables of all codes, the last for missing cells."""
        made = []
        for a, b, pairs in self.never:
            table = np.zeros((self.columns[a].n_codes + 1, self.columns[b].n_codes + 1), dtype=bool)
            table[tuple(np.array(pairs).T)] = True
            made.append((a, b, table))
        return made

    @model_validator(mode="after")
    def _fits_together(self) -> Rules:
        numbers = [k for pair in self.orders for k in pair]
        if not (len(self.order) == len(self.factors) > max(numbers, default=0)):
            raise ValueError("rules of columns that are not there")
        self.tables  # noqa: B018 (refuses levels that are not there)
        return self

    def knots(self, values: np.ndarray) -> np.ndarray:
        """Quantiles of what drawn values (n, q) have more than their parts: (K, q)."""
        values = np.nan_to_num(values)
        rest, shares = values - values @ self.factors, np.linspace(0, 1, QUANTILES)
        return np.asarray(np.quantile(rest, shares, axis=0))

    def applied(
        self,
        values: np.ndarray,
        knots: np.ndarray,
        fixed: np.ndarray,
        rng: np.random.Generator,
    ) -> tuple[np.ndarray, np.ndarray]:
        """Drawn values changed to keep the rules, and whether they do: (n, q) -> (n, q), (n,).

        knots: of `knots`; fixed: (n, q), values that stay, NaN elsewhere. Rare levels, NaN among
        the values, are drawn by their frequency from those that the row allows.
        """
        free, rows = np.isnan(fixed), np.where(np.isnan(fixed), values, fixed)
        rest = np.nan_to_num(values) - np.nan_to_num(values) @ self.factors
        for k, facts in enumerate(self.columns):
            if facts.quantiles:
                rest[:, k] = facts.mapped(rest[:, k], knots[:, k])
        for k in self.order:
            facts = self.columns[k]
            own = rest[:, k] + np.nan_to_num(rows) @ self.factors[:, k]
            for j in np.flatnonzero(self.factors[k]):  # a fixed column that has this one as a part
                if len(self.columns[j].parts) == 1:
                    above = (fixed[:, j] - rest[:, j]) / self.factors[k, j]
                    own = np.where(np.isnan(above), own, above)
            if facts.quantiles:
                own = np.round(own * facts.grid) / facts.grid if facts.grid else own
                rows[:, k] = np.where(free[:, k], own, rows[:, k])
        for k, facts in enumerate(self.columns):
            if facts.rare and (at := np.flatnonzero(np.isnan(rows[:, k]))).size:
                rows[at, k] = self._rare_levels(k, rows[at], rng)
        return rows, ~np.isnan(rows).any(1) & ~self.broken(rows, free)

    def _codes(self, rows: np.ndarray) -> np.ndarray:
        """Levels by their codes: (n, q) -> (q, n)."""
        return np.stack([f.codes(own) for f, own in zip(self.columns, rows.T, strict=True)])

    def _rare_levels(self, k: int, rows: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Rare levels of column k, NaN where a row (n, q) allows none: (n,)."""
        first, counts, codes = self.columns[k].frequent, self.columns[k].rare, self._codes(rows)
        weights = np.repeat([counts], len(rows), axis=0)
        for a, b, table in self.tables:
            if k in (a, b):
                never = table[:, codes[b]].T if k == a else table[codes[a]]
                weights = weights * ~never[:, first : first + len(counts)]
        total = weights.cumsum(1)
        chosen = (rng.random((len(rows), 1)) * total[:, -1:] >= total).sum(1)
        return np.where(chosen < len(counts), first + chosen, np.nan)

    def broken(self, rows: np.ndarray, free: np.ndarray | None = None) -> np.ndarray:
        """Whether rows break a rule: (n, q) -> (n,); missing cells break none.

        free: (n, q), the cells that matter: a rule of other cells alone does not count
        """
        free = np.ones(rows.shape, dtype=bool) if free is None else free
        codes, found = self._codes(rows), np.zeros(len(rows), dtype=bool)
        for k, facts in enumerate(self.columns):
            found |= ((rows[:, k] < facts.low) | (rows[:, k] > facts.high)) & free[:, k]
        for a, b in self.orders:
            found |= (rows[:, a] > rows[:, b]) & (free[:, a] | free[:, b])
        for a, b, table in self.tables:
            found |= table[codes[a], codes[b]] & (free[:, a] | free[:, b])
        return found


# --- how rules are found --------------------------------------------------------------------------


def _grid(values: np.ndarray, kind: Kind) -> int:
    """The least number of steps in a unit of which all values are multiples, 0 for none."""
    values = values[~np.isnan(values)]
    grids: tuple[int, ...] = GRIDS.get(kind, (1,))
    for grid in grids:
        steps = values * grid
        largest = np.abs(steps).max()
        off = np.abs(steps - np.round(steps)).max()
        if off <= min(1e-4, 1e-6 * largest) and largest < MOST_STEPS:
            return grid
    return 0


def _facts(own: np.ndarray, rest: np.ndarray, grid: int, parts: Parts) -> Facts:
    """Of a number (n,), and of what it has more than its parts (n,)."""
    own, rest = own[~np.isnan(own)], np.sort(rest[~np.isnan(rest)])
    found, counts = np.unique(own, return_counts=True)
    often = np.argsort(-counts, kind="stable")[:MOST_LEVELS]
    often = np.sort(often[counts[often] >= max(REPEATS, RARE * len(own))])
    at = np.round(np.linspace(0, len(rest) - 1, min(QUANTILES, len(rest)))).astype(int)
    given = {"quantiles": rest[at].tolist(), "levels": found[often].tolist()}
    return Facts(low=own.min(), high=own.max(), grid=grid, parts=parts, **given)


def _orders(
    values: np.ndarray, some: np.ndarray, kinds: Sequence[Kind]
) -> tuple[tuple[int, int], ...]:
    """Pairs of columns of one kind, the first never above the second, beyond chance.

    some: (m, q), evenly spaced rows of the values (n, q)
    """
    found = []
    for a, b in np.argwhere(~(some[:, :, None] > some[:, None]).any(0)).tolist():
        first, second = (own[~np.isnan(own)] for own in (values[:, a], values[:, b]))
        if a != b and kinds[a] == kinds[b] and kinds[a] in GRIDS:
            expected = np.searchsorted(np.sort(second), first).mean() * len(first) / len(second)
            if expected >= VIOLATIONS and not (values[:, a] > values[:, b]).any():
                found.append((a, b))
    return tuple(found)


def _differences(some: np.ndarray, orders: Sequence[tuple[int, int]]) -> dict[int, Parts]:
    """For columns that exceed others, the one from which they differ least, if less than alone."""
    found: dict[int, Parts] = {}
    least: dict[int, float] = {}
    for a, b in orders:
        first, second = some[~np.isnan(some[:, [a, b]]).any(1)][:, [a, b]].T
        if len(first) and (spread := (second - first).var()) < least.get(b, second.var()):
            least[b], found[b] = spread, ((a, 1.0),)
    return found


def _sums(some: np.ndarray, numbers: list[int], grids: Mapping[int, int]) -> dict[int, Parts]:
    """Numbers that are sums of lesser ones, up to a constant, to positive factors and rounding."""
    x = some[~np.isnan(some[:, numbers]).any(1)]
    numbers = [k for k in numbers if len(x) >= 10 * len(numbers) and np.ptp(x[:, k]) > 0]
    if len(numbers) < 2:
        return {}
    x, found = x[:, numbers], {}
    z = (x - x.mean(0)) / x.std(0)
    unexplained = np.diag(np.linalg.inv(np.cov(z.T, bias=True) + 1e-12 * np.eye(len(numbers))))
    for k in np.flatnonzero(unexplained > COLLINEAR):
        free = (x <= x[:, [k]]).all(0) & (np.arange(len(numbers)) != k)
        free[free] = np.abs(np.linalg.lstsq(z[:, free], z[:, k])[0]) > 1e-3
        slopes, scales = np.linalg.lstsq(z[:, free], z[:, k])[0], x.std(0)
        off, grid = np.abs(z[:, k] - z[:, free] @ slopes).max(), grids[numbers[k]]
        if off < min(0.02, 1 / grid / scales[k] if grid else 1e-6) and (slopes > 0).all():
            pairs = zip(np.flatnonzero(free), slopes * scales[k] / scales[free], strict=True)
            found[numbers[k]] = tuple((numbers[j], float(factor)) for j, factor in pairs)
    return found


def _asked(pairs: float, n: int) -> float:
    """The least number of expected rows of a pair of levels that is a rule if it never occurs.

    Chance leaves out a pair of which E rows of n are expected with probability exp(-E). New rows
    have it with probability E / n.
    """
    asked = EXPECTED
    for _ in range(10):
        asked = max(EXPECTED, float(np.log(max(pairs, 1) * asked / (REFUSED * n))))
    return asked


def _never(codes: np.ndarray, others: np.ndarray, asked: float) -> tuple[tuple[int, int], ...]:
    """Pairs of levels that do not occur, beyond chance: (n,), (n,) -> pairs.

    At least `asked` rows are expected of them, or one level goes with one of the other column.
    """
    present = (codes >= 0) & (others >= 0)
    counts = pair_counts(codes[present], others[present]) if present.any() else np.ones((1, 1))
    rows, columns, n = counts.sum(1), counts.sum(0), counts.sum()
    never = np.outer(rows, columns) >= asked * n
    never |= (rows > 0)[:, None] & _determines(counts)
    never |= (columns > 0)[None] & _determines(counts.T)
    return tuple((int(a), int(b)) for a, b in np.argwhere(never & (counts == 0)))


def _determines(counts: np.ndarray) -> bool:
    """Whether each level goes with one level of the other column, beyond chance: (a, b)."""
    again, share = (counts.sum(1) - 1).clip(min=0).sum(), counts.sum(0).max() / counts.sum()
    return bool((counts > 0).sum(1).max() == 1 and again * (1 - share) >= VIOLATIONS)
