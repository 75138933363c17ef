"""What all rows of a table keep, and drawn values changed to keep it.

A table is values (n, q): numbers as they are, categories as the codes of their levels, NaN where a
cell is missing. Every number is mapped by the one increasing function that gives it the
distribution of the training rows: it keeps its range, its repeated values and its decimals. A
number that exceeds another in all rows, or is a sum of others, is mapped as the difference, which
keeps order and sum. Rows with levels that never occur together are refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from graphlib import CycleError, TopologicalSorter
from typing import Annotated

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, FiniteFloat, model_validator

from gedilearn.data.arrays import evenly_spaced, pair_counts
from gedilearn.errors import InputError
from gedilearn.settings import Kind

QUANTILES = 501  # of a number that are kept
GRIDS = {"date": (1, 1_440, 86_400), "time": (60, 3_600), "boolean": (1,)}  # steps in a unit
DECIMALS = tuple(10**k for k in range(7))
MOST_STEPS = 1e10  # in a value on a grid
SOME_ROWS = 1_000  # that sums and orders are looked for in, before all rows are checked
MOST_LEVELS, REPEATS, RARE = 20, 5, 0.01  # values of a number in so many rows are levels
EXPECTED = 3.0  # rows with a pair of levels, if columns were independent, so that none is a rule
VIOLATIONS = 10.0  # expected in the same way, so that no violation is a rule
COLLINEAR = 1e4  # of a variance, as a multiple of what other columns leave unexplained


Code = Annotated[int, Field(ge=0, lt=1_000)]


class Facts(BaseModel):
    """What all rows keep in one column.

    low, high: the range of a number
    grid: the number of steps in a unit: 1 for whole numbers, 100 for cents, 0 for any values
    parts: columns and factors: the number is modelled as what it has more than their sum
    quantiles: evenly spaced, of the number, or of what it has more than its parts
    levels: the frequent values of a number
    frequent: of a category, the number of levels that are not rare
    rare: in how many rows each rare level of a category is; their codes are the next
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    low: FiniteFloat = 0.0
    high: FiniteFloat = 0.0
    grid: int = 0
    parts: tuple[tuple[int, FiniteFloat], ...] = ()
    quantiles: tuple[FiniteFloat, ...] = ()
    levels: tuple[FiniteFloat, ...] = ()
    frequent: int = 0
    rare: tuple[int, ...] = ()

    def codes(self, values: np.ndarray) -> np.ndarray:
        """The level of each value, one more for all others, -1 where missing: (n,) -> (n,)."""
        if not self.quantiles:
            return np.asarray(np.nan_to_num(values, nan=-1).astype(int))
        at = np.searchsorted(self.levels, values).clip(max=max(len(self.levels) - 1, 0))
        is_level = np.append(self.levels, np.nan)[at] == values
        return np.where(np.isnan(values), -1, np.where(is_level, at, len(self.levels)))

    def mapped(self, values: np.ndarray, knots: np.ndarray) -> np.ndarray:
        """Drawn values, with the quantiles `knots` (K,), as values of the training: (n,)."""
        quantiles = np.array(self.quantiles)
        rank = np.interp(values, knots, np.linspace(0, len(quantiles) - 1, len(knots)))
        if len(np.unique(quantiles)) <= len(quantiles) / 2:  # only values that occur
            rank = np.round(rank)
        return np.asarray(np.interp(rank, np.arange(len(quantiles)), quantiles))

    def rounded(self, values: np.ndarray) -> np.ndarray:
        return np.round(values * self.grid) / self.grid if self.grid else values


class Never(BaseModel):
    """Levels of two columns that never occur together, by their codes."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    columns: tuple[int, int]
    pairs: tuple[tuple[Code, Code], ...] = Field(min_length=1)

    @cached_property
    def as_set(self) -> np.ndarray:
        """Whether a pair of codes never occurs: (codes, codes), the last for missing cells."""
        shape = np.array(self.pairs).max(0) + 2
        found = np.zeros(shape, dtype=bool)
        found[tuple(np.array(self.pairs).T)] = True
        return found

    def broken(self, codes: np.ndarray, others: np.ndarray) -> np.ndarray:
        """Whether the rule is broken by codes of both columns, which are broadcast."""
        limits = np.array(self.as_set.shape) - 1
        a, b = (np.where(c > n, n, c) for c, n in zip((codes, others), limits, strict=True))
        return np.asarray(self.as_set[a, b])


class Rules(BaseModel):
    """What all rows keep in each column and between columns.

    orders: pairs of columns: the first is never above the second
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    columns: tuple[Facts, ...]
    never: tuple[Never, ...] = ()
    orders: tuple[tuple[int, int], ...] = ()

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
        parts = _sums(some, [k for k in grids if kinds[k] == "number"], grids)
        parts = _without_cycles(parts, _differences(some, orders))
        made = []
        for k, own in enumerate(values.T):
            if k in levels:
                made.append(Facts(frequent=levels[k][0], rare=levels[k][1]))
                continue
            rest = own - sum((values[:, j] * factor for j, factor in parts.get(k, ())), 0.0)
            made.append(_facts(own, rest, grids[k], parts.get(k, ())))
        codes = [facts.codes(own) for facts, own in zip(made, values.T, strict=True)]
        with_levels = [k for k, facts in enumerate(made) if facts.levels or not facts.quantiles]
        pairs = [(a, b) for a in with_levels for b in with_levels if a < b]
        found = {(a, b): _never(codes[a], codes[b]) for a, b in pairs}
        never = tuple(Never(columns=c, pairs=those) for c, those in found.items() if those)
        return cls(columns=tuple(made), never=never, orders=tuple(orders))

    @model_validator(mode="after")
    def _fits_together(self) -> Rules:
        named = {k for each in self.never for k in each.columns}
        named |= {k for pair in self.orders for k in pair}
        named |= {k for facts in self.columns for k, _ in facts.parts}
        if not named <= set(range(len(self.columns))):
            raise ValueError("rules of columns that are not there")
        self.order  # noqa: B018 (refuses columns that are parts of themselves)
        return self

    @classmethod
    def from_json(cls, text: str) -> Rules:
        """Read what `model_dump_json` wrote; anything else is an `InputError`."""
        try:
            return cls.model_validate_json(text)
        except ValueError as error:
            reason = " ".join(str(error).split())[:200]
            raise InputError(f"rules: not written by Rules.model_dump_json ({reason})") from error

    @cached_property
    def order(self) -> list[int]:
        """The columns, each after its parts."""
        parts = {k: [j for j, _ in facts.parts] for k, facts in enumerate(self.columns)}
        return list(TopologicalSorter(parts).static_order())

    def knots(self, values: np.ndarray) -> np.ndarray:
        """Quantiles of what drawn values (n, q) have more than their parts: (K, q)."""
        shares = np.linspace(0, 1, QUANTILES)
        return np.asarray(np.quantile(self._rest(values), shares, axis=0))

    def _rest(self, values: np.ndarray) -> np.ndarray:
        """What values have more than their parts: (n, q) -> (n, q)."""
        rest = np.nan_to_num(values)
        factors = np.zeros((len(self.columns),) * 2)
        for k, facts in enumerate(self.columns):
            for j, factor in facts.parts:
                factors[j, k] = factor
        return np.asarray(rest - rest @ factors)

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
        rest, rows = self._rest(values), np.where(np.isnan(fixed), values, fixed)
        for k in self.order:
            facts, free = self.columns[k], np.isnan(fixed[:, k])
            if facts.quantiles:
                own = facts.mapped(rest[:, k], knots[:, k])
                own = own + sum(rows[:, j] * factor for j, factor in facts.parts)
                for j, whole in enumerate(self.columns):
                    if len(whole.parts) == 1 and whole.parts[0][0] == k:
                        less = fixed[:, j] - whole.mapped(rest[:, j], knots[:, j])
                        own = np.where(np.isnan(less), own, less / whole.parts[0][1])
                rows[free, k] = facts.rounded(own)[free]
        codes = self._codes(rows)
        for k, facts in enumerate(self.columns):
            if facts.rare and (at := np.flatnonzero(np.isnan(rows[:, k]))).size:
                codes[k, at] = self._rare_levels(k, codes[:, at], rng)
                rows[at, k] = np.where(codes[k, at] < 0, np.nan, codes[k, at])
        return rows, ~np.isnan(rows).any(1) & ~self.broken(rows, np.isnan(fixed))

    def _rare_levels(self, k: int, codes: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Codes of rare levels of column k, -1 where a row allows none: (q, n) -> (n,)."""
        counts, first = np.array(self.columns[k].rare), self.columns[k].frequent
        own = np.arange(first, first + len(counts))
        weights = np.repeat(counts[None], codes.shape[1], axis=0)
        for each in self.never:
            a, b = each.columns
            if k in (a, b):
                pair = (own, codes[b][:, None]) if k == a else (codes[a][:, None], own)
                weights = weights * ~each.broken(*pair)
        total = weights.cumsum(1)
        chosen = (rng.random((len(total), 1)) * total[:, -1:] >= total).sum(1)
        return np.where(total[:, -1] > 0, first + chosen.clip(max=len(counts) - 1), -1)

    def _codes(self, rows: np.ndarray) -> np.ndarray:
        """Levels by their codes: (n, q) -> (q, n)."""
        return np.stack([f.codes(own) for f, own in zip(self.columns, rows.T, strict=True)])

    def broken(self, rows: np.ndarray, free: np.ndarray | None = None) -> np.ndarray:
        """Whether rows break a rule: (n, q) -> (n,); missing cells break none.

        free: (n, q), the cells that matter: a rule of other cells alone does not count
        """
        free = np.ones(rows.shape, dtype=bool) if free is None else free
        codes, found = self._codes(rows), np.zeros(len(rows), dtype=bool)
        for k, facts in enumerate(self.columns):
            if facts.quantiles:
                found |= ((rows[:, k] < facts.low) | (rows[:, k] > facts.high)) & free[:, k]
        for a, b in self.orders:
            found |= (rows[:, a] > rows[:, b]) & (free[:, a] | free[:, b])
        for each in self.never:
            a, b = each.columns
            found |= each.broken(codes[a], codes[b]) & (free[:, a] | free[:, b])
        return found


# --- how rules are found --------------------------------------------------------------------------


def _grid(values: np.ndarray, kind: Kind) -> int:
    """The least number of steps in a unit of which all values are multiples, 0 for none."""
    values = values[~np.isnan(values)]
    grids: tuple[int, ...] = GRIDS.get(kind, DECIMALS)
    for grid in grids:
        steps = values * grid
        largest = np.abs(steps).max()
        if largest > MOST_STEPS:
            break
        if np.abs(steps - np.round(steps)).max() <= min(1e-4, 1e-6 * largest):
            return grid
    return 0


def _facts(
    own: np.ndarray, rest: np.ndarray, grid: int, parts: tuple[tuple[int, float], ...]
) -> Facts:
    """Of a number (n,), and of what it has more than its parts (n,)."""
    own, rest = own[~np.isnan(own)], np.sort(rest[~np.isnan(rest)])
    quantiles = rest[np.round(np.linspace(0, len(rest) - 1, min(QUANTILES, len(rest)))).astype(int)]
    found, counts = np.unique(own, return_counts=True)
    often = np.argsort(-counts, kind="stable")[:MOST_LEVELS]
    often = np.sort(often[counts[often] >= max(REPEATS, RARE * len(own))])
    return Facts(
        low=own.min(),
        high=own.max(),
        grid=grid,
        parts=parts,
        quantiles=tuple(quantiles.tolist()),
        levels=tuple(found[often].tolist()),
    )


def _orders(values: np.ndarray, some: np.ndarray, kinds: Sequence[Kind]) -> list[tuple[int, int]]:
    """Pairs of columns of one kind, the first never above the second, beyond chance.

    some: (m, q), evenly spaced rows of the values (n, q)
    """
    found = []
    for kind in {"number", "date", "time"} & set(kinds):
        own = [k for k, other in enumerate(kinds) if other == kind]
        below = ~(some[:, own, None] > some[:, None, own]).any(0)
        for a, b in ((own[i], own[j]) for i, j in np.argwhere(below) if i != j):
            first, second = (column[~np.isnan(column)] for column in (values[:, a], values[:, b]))
            chance = np.searchsorted(np.sort(second), first).mean() / max(len(second), 1)
            if chance * len(first) >= VIOLATIONS and not (values[:, a] > values[:, b]).any():
                found.append((a, b))
    return sorted(found)


Parts = dict[int, tuple[tuple[int, float], ...]]


def _differences(some: np.ndarray, orders: Iterable[tuple[int, int]]) -> Parts:
    """For columns that exceed others, the one from which they differ least, if less than alone."""
    found: Parts = {}
    least: dict[int, float] = {}
    for a, b in orders:
        first, second = some[~np.isnan(some[:, [a, b]]).any(1)][:, [a, b]].T
        if len(first) and (spread := (second - first).var()) < least.get(b, second.var()):
            least[b], found[b] = spread, ((a, 1.0),)
    return found


def _sums(some: np.ndarray, numbers: list[int], grids: Mapping[int, int]) -> Parts:
    """Numbers that are sums of others with positive factors, up to a constant and to rounding."""
    x = some[~np.isnan(some[:, numbers]).any(1)]
    numbers = [k for k in numbers if len(x) >= 10 * len(numbers) and np.ptp(x[:, k]) > 0]
    if len(numbers) < 2:
        return {}
    x = x[:, numbers] - x[:, numbers].mean(0)
    deviations = x.std(0)
    spread = np.cov((x / deviations).T, bias=True)
    unexplained = np.diag(np.linalg.inv(spread + 1e-12 * np.eye(len(numbers))))
    found: Parts = {}
    for k in np.flatnonzero(unexplained > COLLINEAR):
        free = np.arange(len(numbers)) != k
        factors = np.linalg.lstsq(x[:, free], x[:, k], rcond=None)[0]
        free[free] = np.abs(factors) * deviations[free] > 1e-3 * deviations[k]
        factors = np.linalg.lstsq(x[:, free], x[:, k], rcond=None)[0]
        off, grid = np.abs(x[:, k] - x[:, free] @ factors).max(), grids[numbers[k]]
        if (factors > 0).all() and off <= (1 / grid if grid else 1e-6 * deviations[k]):
            pairs = zip(np.flatnonzero(free), factors, strict=True)
            found[numbers[k]] = tuple((numbers[j], float(factor)) for j, factor in pairs)
    return found


def _without_cycles(*candidates: Parts) -> Parts:
    """The parts of each column that do not depend on the column, first come, first served."""
    kept: Parts = {}
    for k, parts in (item for each in candidates for item in each.items()):
        tried = {column: [j for j, _ in own] for column, own in (kept | {k: parts}).items()}
        try:
            TopologicalSorter(tried).prepare()
        except CycleError:
            continue
        kept.setdefault(k, parts)
    return kept


def _never(codes: np.ndarray, others: np.ndarray) -> tuple[tuple[int, int], ...]:
    """Pairs of levels that do not occur, beyond chance: (n,), (n,) -> pairs.

    So many rows are expected of them, or one level goes with one level of the other column.
    """
    present = (codes >= 0) & (others >= 0)
    if not present.any():
        return ()
    counts = pair_counts(codes[present], others[present])
    rows, columns, n = counts.sum(1), counts.sum(0), counts.sum()
    never = np.outer(rows, columns) >= EXPECTED * n
    never |= (rows > 0)[:, None] & _determines(counts)
    never |= (columns > 0)[None] & _determines(counts.T)
    return tuple((int(a), int(b)) for a, b in np.argwhere(never & (counts == 0)))


def _determines(counts: np.ndarray) -> bool:
    """Whether each level goes with one level of the other column, beyond chance: (a, b)."""
    again, share = (counts.sum(1) - 1).clip(min=0).sum(), counts.sum(0).max() / counts.sum()
    return bool((counts > 0).sum(1).max() == 1 and again * (1 - share) >= VIOLATIONS)
