"""Why rows are outliers: the cells that are unusual among the rows most like them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from gedilearn.data.arrays import Scaling
from gedilearn.data.columns import Column, Columns
from gedilearn.io import digits
from gedilearn.training.result import Result

ALIKE = 20  # rows most like an outlier in all other columns
ENDS = (0.05, 0.95)  # of the usual range: shares of these rows
LEAST_FALL = 0.05  # of a score, below which a cell is no reason


@dataclass(frozen=True)
class Reason:
    """A cell that makes a row an outlier; `str` gives it in words."""

    column: str
    value: str
    usual: str  # '5 to 80', or the most frequent category
    fall: float  # how far the outlier score falls with a usual value in the cell

    def __str__(self) -> str:
        return f"{self.column} {self.value} where similar rows have {self.usual}"


def reasons(
    result: Result, scaling: Scaling, columns: Columns, x: Tensor, most: int
) -> list[tuple[Reason, ...]]:
    """At most so many for each row of x (n, d), which is in the network's units.

    The cell that lowers the score most comes first. A row has none if it is only unusual as a
    whole, like the rows of a group of outliers.
    """
    used, others = columns.used, result.training_rows()
    values, cells = _values(scaling, columns, others), _values(scaling, columns, x)
    block = np.repeat(np.arange(len(used)), [column.width for column in used])
    is_in = torch.from_numpy(np.eye(len(used))[block])  # (d, columns)
    changed = np.repeat(cells[:, None], len(used), axis=1)  # (n, columns, columns)
    usual = [_similar(row, others, is_in) for row in x]
    for near, rows in zip(usual, changed, strict=True):
        for j, column in enumerate(used):
            rows[j, j] = _typical(column, values[near[:, j], j])
    points = scaling.apply(columns.encode(changed.reshape(-1, len(used))))
    scores = result.unusual(torch.cat([x, torch.from_numpy(points)]))[0]
    falls = (scores[: len(x), None] - scores[len(x) :].view(len(x), -1)).numpy()
    found = []
    for i, fall in enumerate(falls):
        largest = [j for j in np.argsort(-fall, kind="stable")[:most] if fall[j] >= LEAST_FALL]
        own = [(used[j], cells[i, j], values[usual[i][:, j], j], fall[j]) for j in largest]
        found.append(tuple(_reason(*each) for each in own))
    return found


def _values(scaling: Scaling, columns: Columns, points: Tensor) -> np.ndarray:
    """The values (n, columns) of points in the network's units (n, d)."""
    return columns.nearest(scaling.undo(points.numpy()))


def _similar(row: Tensor, others: Tensor, is_in: Tensor) -> np.ndarray:
    """For each column, the numbers of the rows most like one in all other columns.

    (d,), (m, d), (d, columns) -> (ALIKE, columns).
    """
    away = (others - row).square().double() @ is_in
    rest = away.sum(1, keepdim=True) - away
    rest[away.sum(1) == 0] = torch.inf  # the row itself
    return np.asarray(rest.topk(min(ALIKE, len(others)), dim=0, largest=False).indices)


def _typical(column: Column, values: np.ndarray) -> float:
    """The median of numbers, the most frequent of categories, where NaN is a rare one."""
    if column.kind != "category":
        return float(np.median(values))
    distinct, counts = np.unique(values, return_counts=True)
    return float(distinct[counts.argmax()])


def _reason(column: Column, value: float, usual: np.ndarray, fall: float) -> Reason:
    low, high = np.quantile(usual, ENDS) if column.kind != "category" else (0.0, 0.0)
    ends = dict.fromkeys(_written(column, end) for end in (low, high))
    words = " to ".join(ends)
    if column.kind == "category":
        words = _written(column, _typical(column, usual))
    return Reason(column.name, _written(column, value), words, float(fall))


def _written(column: Column, value: float) -> str:
    """A value as people write it."""
    if column.kind == "number":
        return digits(value, 3)
    cell = column.cells(np.array([value]))[0]
    if column.kind == "date":
        cell = cell.astype("M8[D]" if column.whole else "M8[m]")
    return str(cell)
