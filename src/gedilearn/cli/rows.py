"""Rows of data as the commands read them, and the results that are written beside them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from gedilearn.data.arrays import as_labels
from gedilearn.data.dataset import Dataset
from gedilearn.data.table import Column, Table
from gedilearn.data.tables import label_index
from gedilearn.errors import InputError

if TYPE_CHECKING:
    from gedilearn.estimator import GEDI

OWN = (
    "row",
    "path",
    "cluster",
    "probability",
    "outlier",
    "trust",
)  # what columns of ours are called


@dataclass(frozen=True, eq=False)
class Rows:
    """Data for the estimator, and what its rows are called where they came from.

    x: an array or a table, as `GEDI` takes it; y: labels, if there are any
    columns: names, if there are any; whole: the table with all its columns
    numbers: of the rows in the source; paths: of images in a folder
    dialect: how a table of text is written, in words, where that is not as usual
    """

    name: str
    source: str
    x: Any
    y: np.ndarray | None
    columns: tuple[str, ...] | None
    numbers: np.ndarray
    whole: Table | None = None
    paths: tuple[str, ...] | None = None
    dialect: str = ""

    @classmethod
    def of(cls, data: Dataset) -> Rows:
        """Of anything but a table with columns of several types."""
        numbers = np.arange(len(data.x)) if data.rows is None else data.rows
        whole = None
        if data.x.ndim == 2:
            names = data.columns or tuple(f"x{k + 1}" for k in range(data.x.shape[1]))
            whole = Table(names, tuple(Column("number", column) for column in data.x.T))
        return cls(
            data.name,
            data.source,
            data.x,
            data.y,
            data.columns,
            numbers,
            whole,
            data.paths,
            data.dialect,
        )

    @classmethod
    def of_table(cls, source: str, table: Table, label: str | None) -> Rows:
        """Of a whole table, one of whose columns may be labels."""
        path, y, rest = Path(source), None, table
        if label is not None:
            label_index(path, table.names, label)  # which says what is wrong
            y, rest = _labels(path, label, table[label]), table.without(label)
            if not rest.names:
                raise InputError(f"{path}: zero columns beside the labels; give at least one")
        names = rest.names if rest.named else None
        numbers, how = np.arange(len(table)), table.dialect
        return cls(path.stem, source, rest, y, names, numbers, table, dialect=how)

    def results(
        self, model: GEDI, found: dict[str, Any], keep: bool = False, typed: bool = False
    ) -> dict[str, Any]:
        """Columns to write: what tells the rows apart, what was found, and all others to `keep`.

        typed: whether these are to be numbers and dates where they are written so, and not text
        """
        columns: dict[str, Any] = {"row": self.numbers}
        if self.paths is not None:
            columns["path"] = np.array(self.paths, dtype=object)
        ids = model.columns_.ids if model.columns_ else []
        known = (
            {}
            if self.whole is None
            else dict(zip(self.whole.names, self.whole.columns, strict=True))
        )
        if keep and self.whole is None:
            raise InputError(f"{self.source}: --keep-columns is for tables and vectors")
        columns |= {_beside(name): known[name].written() for name in ids if name in known}
        columns |= found
        if keep:
            rest = [name for name in known if name not in ids]
            kept = {name: known[name].typed() if typed else known[name] for name in rest}
            columns |= {_beside(name): column.written() for name, column in kept.items()}
        return columns


def found(model: GEDI, x: Any, labels: np.ndarray | None = None) -> dict[str, np.ndarray]:
    """What a model says of rows: the cluster, its probability, and how far out of place they are.

    The outlier score is minus log p(x), where the model has learnt p(x).
    """
    probability = model.predict_proba(x)
    columns = {
        "cluster": model.predict(x) if labels is None else labels,
        "probability": probability.max(1),
    }
    if model.result_.has_density:
        columns["outlier"] = -model.score_samples(x)
    trust = getattr(model, "trust_", None)
    if labels is not None and isinstance(trust, np.ndarray) and len(trust) == len(labels):
        columns["trust"] = trust
    return columns


def _labels(path: Path, name: str, column: Column) -> np.ndarray:
    if column.missing.any():
        row = int(np.flatnonzero(column.missing)[0])
        raise InputError(f"{path}: row {row} (counted from 0) has no label in column {name!r}")
    typed = column.typed()
    values: Any = typed.values if typed.kind == "number" else column.text().tolist()
    return as_labels(values, str(path))


def _beside(name: str) -> str:
    """The name of a column of the table beside ours."""
    return f"{name} (table)" if name in OWN else name
