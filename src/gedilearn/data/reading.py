"""What all readers share: any trouble with a file is one line, and what was read is checked."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from gedilearn.data.arrays import as_numbers
from gedilearn.data.dataset import Dataset
from gedilearn.errors import InputError


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Whatever a parser throws at unexpected bytes becomes one line that names the file."""
    try:
        yield
    except InputError:
        raise
    except PermissionError as error:
        raise InputError(
            f"{error.filename or path}: permission denied; make it readable"
        ) from error
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: not UTF-8 text; save it with UTF-8 encoding") from error
    except Exception as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        raise InputError(
            f"{path}: cannot be read, perhaps truncated or corrupt ({reason})"
        ) from error


def dataset(
    path: Path,
    x: np.ndarray,
    y: np.ndarray | None = None,
    columns: tuple[str, ...] | None = None,
) -> Dataset:
    """What was read from `path`, checked."""
    x = as_numbers(x, str(path))
    if y is not None and len(y) != len(x):
        raise InputError(f"{path}: {len(y)} labels for {len(x)} rows; give one label per row")
    return Dataset(name=path.stem, x=x, y=y, columns=columns, source=str(path))
