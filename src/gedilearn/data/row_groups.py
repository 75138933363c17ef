"""Large Parquet files of numbers, unpacked row group by row group into a mapped file."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from gedilearn.data.arrays import rows_at_once
from gedilearn.data.numpy_files import MAPPED_FROM
from gedilearn.data.tables import arrow, check_width
from gedilearn.errors import InputError
from gedilearn.files import check_size


def unpacked(
    path: Path, columns: Sequence[str] | None = None
) -> tuple[tuple[str, ...], np.ndarray] | None:
    """Names and numbers, (n, columns) in float64, of a large file; None: to be read as any other.

    That is one of which a column is asked for that is no number, or that has missing cells. The
    array lies in a file without a name, which goes with the process.
    """
    pa, pq = arrow(path)
    is_number = (pa.types.is_integer, pa.types.is_floating)
    with path.open("rb") as handle:
        file = pq.ParquetFile(handle)
        schema, n_rows = file.schema_arrow, file.metadata.num_rows
        index = set(map(str, (schema.pandas_metadata or {}).get("index_columns", [])))
        names = tuple(columns or (name for name in schema.names if name not in index))
        if not names or 4 * n_rows * len(names) < MAPPED_FROM:
            return None
        if any(len(schema.get_all_field_indices(name)) != 1 for name in names):
            return None
        if not all(any(test(schema.field(name).type) for test in is_number) for name in names):
            return None
        check_width(path, len(names))
        for g in range(file.metadata.num_row_groups):
            size = file.metadata.row_group(g).total_byte_size
            check_size(size, f"{path}: row group {g}, unpacked")
        array = _mapped(path, (n_rows, len(names)), _blocks(file, names, pa))
    return None if array is None else (names, array)


def _blocks(file: Any, names: tuple[str, ...], pa: Any) -> Iterator[np.ndarray | None]:
    """Some rows at a time; None for such as have missing cells."""
    step = rows_at_once(np.empty((0, len(names))))
    for batch in file.iter_batches(step, columns=list(names)):
        block = np.empty((len(batch), len(names)))
        for k, name in enumerate(names):
            column = batch.column(name)
            if column.null_count:
                yield None
            block[:, k] = column.cast(pa.float64(), safe=False)
        yield None if np.isnan(block).any() else block


def _mapped(
    path: Path, shape: tuple[int, int], blocks: Iterator[np.ndarray | None]
) -> np.ndarray | None:
    folder, size = Path(tempfile.gettempdir()), 8 * shape[0] * shape[1]
    told = (
        f"{path}: its {shape[0]} rows of {shape[1]} columns need {size / 1e9:,.1f} GB in {folder}"
    )
    if shutil.disk_usage(folder).free < size:
        raise InputError(f"{told}, which has less: make room, or name another folder in TMPDIR")
    handle, name = tempfile.mkstemp(".part", ".gedi.", folder)
    try:
        with os.fdopen(handle, "wb") as file:
            for block in blocks:
                if block is None:
                    return None
                try:
                    file.write(block.data)
                except OSError as error:
                    raise InputError(f"{told}: {error.strerror}") from None
        if Path(name).stat().st_size != size:
            raise ValueError(f"it claims {shape[0]} rows, and has others")
        return np.memmap(name, np.float64, "r", shape=shape)
    finally:
        Path(name).unlink()
