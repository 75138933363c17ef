"""Large Parquet files of numbers, unpacked row group by row group into a mapped file."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from gedilearn.data.arrays import rows_at_once
from gedilearn.data.numpy_files import MAPPED_FROM
from gedilearn.data.tables import arrow, check_width
from gedilearn.io import check_size


def unpacked(
    path: Path, columns: Sequence[str] | None = None, shared: bool = False
) -> tuple[tuple[str, ...], np.ndarray] | None:
    """Names and numbers, (n, columns) in float64, of a large file; None: to be read as any other.

    That is one of which a column is asked for that is no number, or that has missing cells. The
    array lies in a file without a name, which goes with the process. Ranks that torchrun has
    started and that all read the file may have the row groups `shared` out among them.
    """
    pa, pq = arrow(path)
    is_number = (pa.types.is_integer, pa.types.is_floating)
    with path.open("rb") as handle:
        file = pq.ParquetFile(handle)
        schema, about = file.schema_arrow, file.metadata
        index = set(map(str, (schema.pandas_metadata or {}).get("index_columns", [])))
        names = tuple(columns or (name for name in schema.names if name not in index))
        if not names or 4 * about.num_rows * len(names) < MAPPED_FROM:
            return None
        if any(len(schema.get_all_field_indices(name)) != 1 for name in names):
            return None
        if not all(any(test(schema.field(name).type) for test in is_number) for name in names):
            return None
        check_width(path, len(names))
        groups = [about.row_group(g) for g in range(about.num_row_groups)]
        for g, group in enumerate(groups):
            check_size(group.total_byte_size, f"{path}: row group {g}, unpacked")
        sizes = [group.num_rows for group in groups]
        if sum(sizes) != about.num_rows or min(sizes) < 0:
            raise ValueError(f"it claims {about.num_rows} rows, and its row groups others")
        array = _filled(file, path, names, sizes, shared, pa)
    return None if array is None else (names, array)


def _filled(
    file: Any, path: Path, names: tuple[str, ...], sizes: list[int], shared: bool, pa: Any
) -> np.ndarray | None:
    """The rows of all row groups, which have so many each; None if cells are missing."""
    from gedilearn.data.scratch import Scratch  # and torch with it
    from gedilearn.ranks import Alone, Early, Ranks

    places = zip(sizes, itertools.accumulate(sizes), strict=True)
    parts = {g: slice(end - size, end) for g, (size, end) in enumerate(places) if size}
    groups = {part.start: g for g, part in parts.items()}
    gaps, step = 0, rows_at_once(np.empty((0, len(names))))

    def rows(part: slice) -> Iterator[np.ndarray]:
        nonlocal gaps
        group, number = groups[part.start], 0
        for batch in file.iter_batches(step, row_groups=[group], columns=list(names)):
            block = np.empty((len(batch), len(names)))
            for k, name in enumerate(names):
                gaps += batch.column(name).null_count
                block[:, k] = batch.column(name).cast(pa.float64(), safe=False)
            gaps += int(np.isnan(block).sum())
            number += len(block)
            if gaps or number > part.stop - part.start:
                break
            yield block
        if not gaps and number != part.stop - part.start:
            raise ValueError(f"row group {group} has not the rows that it claims")

    ranks: Ranks = Early() if shared and Early.there() else Alone()
    scratch = Scratch(None, Early.machine(), ranks)
    shape = sum(sizes), len(names)
    what = f"{path}: {shape[0]} rows of {shape[1]} columns"
    array = scratch.array(shape, list(parts.values()), rows, np.float64, what)
    return None if any(ranks.everyones(gaps)) else array
