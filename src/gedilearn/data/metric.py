"""Vectors as distances see them: no column decides alone who is whose neighbour.

The network sees the data as it is; the neighbour graph and what is built on it see these points.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[Any]
Ints = npt.NDArray[Any]

STREAM = 0x5EED

# Deviations from a column's mean beyond which distances hardly grow.
REACH = 3.0

# Kurtosis of a Gaussian.
GAUSSIAN = 3.0

# Largest deviation of a column of two values, where that of others is 1. A category of m levels
# comes as m such columns: at this one it weighs about as much as one number. `data.columns` takes
# it too, for tables: missing cells make three values of two.
TWO_VALUED = 0.5


# Of more values than these, the points are float32, and made from so many values at a time.
SINGLE = 4_000_000
# Among so many rows values meet by chance: a column of at least this share of distinct values has
# no gaps to close.
DISTINCT = 0.9


def distance_points(x: Floats, random_state: int = 0) -> Floats:
    """The points between which distances are taken.  x: (n, d), standardised.

    In float64; in float32, a few columns at a time, if there are very many values.
    """
    rng = own_stream(random_state)
    if x.size <= SINGLE:
        return limit_tails(spread(np.asarray(x, np.float64), rng))
    points, step = np.empty(x.shape, np.float32), max(1, SINGLE // len(x))
    for start in range(0, x.shape[1], step):
        part = slice(start, start + step)
        columns = np.array(x[:, part], np.float64, order="F")
        points[:, part] = limit_tails(spread(columns, rng, DISTINCT))
    return points


def own_stream(random_state: int) -> np.random.Generator:
    """Random numbers that data made with the same seed does not share."""
    return np.random.Generator(np.random.PCG64((random_state, STREAM)))


def one_hot_blocks(x: Floats) -> list[Ints]:
    """Columns in groups: those of a category, of which each row has one, and all others alone.

    A category is two or more neighbouring columns of two values each, of which exactly one has the
    higher value in each row.  x: (n, d).
    """
    low, high = x.min(axis=0), x.max(axis=0)
    two = (low < high) & ((x == low) | (x == high)).all(axis=0)
    blocks: list[Ints] = []
    start = 0
    while start < x.shape[1]:
        stop = start + 1
        ones = np.zeros(len(x), np.int64)
        for column in range(start, x.shape[1]):
            if not two[column]:
                break
            ones += x[:, column] == high[column]
            if (ones > 1).any():
                break
            if (ones == 1).all():
                stop = column + 1
                break
        blocks.append(np.arange(start, stop))
        start = stop
    return blocks


def spread(x: Floats, rng: np.random.Generator, distinct: float = 1.0) -> Floats:
    """Values that repeat, spread evenly over their cells.  (n, d) -> (n, d).

    Columns of which at least the share `distinct` of the values differ stay as they are.

    A coin, a die, a rating, a rounded number: whatever takes few values has gaps between them, and
    a neighbour graph takes gaps for clusters. The cell of a value reaches half way to the next
    values on both sides, so the gaps close and what remains is how often each value comes, which
    may still show clusters. A value that comes once stays where it is. Copies of a whole row move
    apart by no more than the values of other rows are from theirs.
    """
    x = x.copy(order="K")
    for column in x.T:
        ordered = np.sort(column)  # much faster than all that `unique` is asked for below
        if 1 + (ordered[1:] != ordered[:-1]).sum() >= distinct * len(column):
            continue
        values, which, counts = np.unique(column, return_inverse=True, return_counts=True)
        if len(values) < 2:
            continue
        size = column.std()
        middles = (values[1:] + values[:-1]) / 2
        low = np.r_[2 * values[0] - middles[0], middles]
        high = np.r_[middles, 2 * values[-1] - middles[-1]]
        repeated = counts[which] > 1
        place = rng.random(int(repeated.sum()))
        own = which[repeated]
        column[repeated] = low[own] + place * (high - low)[own]
        size = min(size, TWO_VALUED) if len(values) == 2 else size
        column[:] = (column - column.mean()) * (size / column.std())
    return x


def limit_tails(x: Floats) -> Floats:
    """Columns that owe their spread to rare values count less.  (n, d) -> (n, d).

    The large values of heavy tails, of outliers and of columns that are nearly always the same (a
    pixel at the edge) would otherwise decide who is whose neighbour. So beyond `REACH` deviations a
    column grows as the logarithm, and it is shortened by the ratio of a Gaussian's kurtosis to its
    own, if that is larger. Neither depends on units, and no two values become one.
    """
    mean, deviation = x.mean(0), x.std(0)
    standard = (x - mean) / np.maximum(deviation, np.finfo(np.float64).tiny)
    beyond = np.maximum(np.abs(standard) - REACH, 0.0)
    limited = np.sign(standard) * (np.minimum(np.abs(standard), REACH) + np.log1p(beyond))
    kurtosis = (standard**4).mean(0)
    return np.asarray(limited * deviation * (GAUSSIAN / np.maximum(kurtosis, GAUSSIAN)))
