"""What every reader returns, how its errors read, and the fingerprint of the data of a run."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from gedilearn.data.arrays import PYTHON_OBJECTS, as_numbers, row_chunks
from gedilearn.errors import InputError


@dataclass(frozen=True, eq=False)
class Dataset:
    """Data ready for training.

    Compared by identity: element-wise ``==`` of the arrays has no single truth value.

    Attributes
    ----------
    name: short name for titles and run directories
    x: vectors (n, d) or images (n, c, h, w), floating point and finite, or bytes of pixels
    y: labels (n,) where they are known, for evaluation only
    columns: the names of the d columns where the source has them
    source: the path as given, or ``built-in``
    """

    name: str
    x: np.ndarray
    y: np.ndarray | None
    columns: tuple[str, ...] | None
    source: str

    @classmethod
    def checked(
        cls,
        path: Path,
        x: np.ndarray,
        y: np.ndarray | None = None,
        columns: tuple[str, ...] | None = None,
        key: str = "",
    ) -> Dataset:
        """What was read from `path`, or from the array `key` in it, with the numbers checked."""
        x = as_numbers(x, f"{path}[{key}]" if key else str(path))
        return cls(path.stem, x, y, columns, str(path))


@contextmanager
def reading(path: Path | str) -> Iterator[None]:
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
        if "Object arrays" in str(error):  # NumPy's refusal to unpickle
            raise InputError(f"{path}: {PYTHON_OBJECTS}") from error
        reason = " ".join(str(error).split()) or type(error).__name__
        raise InputError(
            f"{path}: cannot be read, perhaps truncated or corrupt ({reason})"
        ) from error


def fingerprint(x: np.ndarray) -> str:
    """SHA-256 over dtype, shape and the values in C order, whatever the memory layout.

    Read in chunks of rows, so that a strided or memory-mapped array is never copied whole.
    """
    if x.dtype.hasobject:
        raise InputError(
            "x holds Python objects, which have no stable bytes; convert it to numbers"
        )
    digest = hashlib.sha256(f"{x.dtype.str} {x.shape}".encode())
    rows = np.atleast_1d(x)
    for chunk in row_chunks(rows):
        digest.update(np.ascontiguousarray(rows[chunk]).reshape(-1).view(np.uint8).data)
    return digest.hexdigest()
