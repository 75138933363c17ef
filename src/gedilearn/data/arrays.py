"""Checks of arrays that users give, and their scaling."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from gedilearn.errors import InputError, Parameter
from gedilearn.io import check_size

CHANNELS = (1, 3, 4)
# The largest deviation of a column of two values; that of other columns is 1. A category of m
# levels has m such columns, which together weigh about as much as one number.
TWO_VALUED = 0.5
LARGEST, SMALLEST = 1e150, 1e-150  # the squares of these are numbers
_CHUNK_VALUES = 2**22


def rows_at_once(x: np.ndarray) -> int:
    """The number of rows of a chunk, which bounds the memory of a computation on it."""
    return max(1, _CHUNK_VALUES // max(1, math.prod(x.shape[1:])))


def row_chunks(x: np.ndarray) -> Iterator[slice]:
    """Slices of the first axis into chunks of `rows_at_once`."""
    step = rows_at_once(x)
    for start in range(0, len(x), step):
        yield slice(start, start + step)


def evenly_spaced(n: int, most: int) -> np.ndarray:
    """Indices of at most `most` of `n` items, evenly spaced; all if there are no more."""
    kept = min(n, most)
    return np.arange(kept) * n // max(kept, 1)


def pair_counts(
    labels: np.ndarray, others: np.ndarray, shape: tuple[int, int] | None = None
) -> np.ndarray:
    """The contingency table of two labellings, (n,) each; by default as large as they need."""
    rows, columns = shape or (int(labels.max()) + 1, int(others.max()) + 1)
    found = np.bincount(labels * columns + others, minlength=rows * columns)
    return found.reshape(rows, columns)


def listing(items: Sequence[object], limit: int = 3) -> str:
    """The first items on one line: ``3, 17, 20 and 4 more``."""
    shown = ", ".join(str(item) for item in items[:limit])
    return shown if len(items) <= limit else f"{shown} and {len(items) - limit} more"


def row_listing(rows: Sequence[int]) -> str:
    return f"{'row' if len(rows) == 1 else 'rows'} {listing(rows)}"


def check_finite(x: np.ndarray, where: str) -> None:
    """Refuse NaN and infinite values, with their number and rows."""
    if x.dtype.kind != "f":
        return
    bad = np.zeros(len(x), int)  # values of each row
    for chunk in row_chunks(x):
        finite = np.isfinite(x[chunk])
        if not finite.all():
            bad[chunk] = (~finite).reshape(len(finite), -1).sum(axis=1)
    if count := int(bad.sum()):
        rows = np.flatnonzero(bad).tolist()
        values = "value" if count == 1 else "values"
        raise InputError(
            f"{where}: {count} NaN or infinite {values} in {row_listing(rows)} "
            "(counted from 0); drop these rows or fill in the values"
        )


def of_tensor(x: Any, where: str) -> np.ndarray:
    """A torch tensor on any device as an array."""
    try:
        array: np.ndarray = x.detach().cpu().numpy()
    except (RuntimeError, TypeError):  # sparse, without values, bfloat16
        raise InputError(
            f"{where} is a tensor of {x.dtype} ({x.layout}, {x.device}), which NumPy cannot hold: "
            "give a dense tensor, for instance of float32"
        ) from None
    return array


def as_numbers(x: np.ndarray, where: str) -> np.ndarray:
    """Check that ``x`` is vectors (n, d) or images (n, c, h, w) of finite real numbers.

    Images of bytes stay bytes, without a copy if possible: as floats they are four times as large.
    Other data becomes float32 if that is exact (booleans, 8- and 16-bit integers, half and single
    precision), else float64.
    """
    kind = x.dtype.kind
    if kind not in "biuf":
        raise InputError(f"{where}: dtype {x.dtype} is not numbers; give real numbers only")
    _check_shape(x.shape, where)
    if _is_bytes(x):
        return np.ascontiguousarray(x)
    wide = x.dtype.itemsize > 8 or np.result_type(x.dtype, np.float32) != np.float32
    with np.errstate(over="ignore"):  # of extended precision: reported as infinite
        x = np.ascontiguousarray(x, dtype=np.float64 if wide else np.float32)
    check_finite(x, where)
    return x


def check_memory(shape: tuple[int, ...], dtype: np.dtype, where: str) -> None:
    """Refuse an array before it is read if it takes more memory than the limit.

    Counted is the result of `as_numbers`: four bytes a value or more, except for images of bytes.
    """
    stays_bytes = len(shape) == 4 and dtype == np.uint8
    each = dtype.itemsize if stays_bytes else max(dtype.itemsize, 4)
    check_size(math.prod(shape) * each, f"{where}: {dtype} {shape}")


def _is_bytes(x: np.ndarray) -> bool:
    """Whether these are images with one byte for each value."""
    return x.ndim == 4 and x.dtype == np.uint8


def _check_shape(shape: tuple[int, ...], where: str) -> None:
    if len(shape) not in (2, 4):
        raise InputError(
            f"{where}: shape {shape}, expected vectors (n, d) or images (n, c, h, w); for one "
            "column use x.reshape(-1, 1), for grey images x[:, None]"
        )
    if 0 in shape:
        raise InputError(f"{where}: shape {shape} has no values; give at least one row and column")
    if len(shape) == 4 and shape[1] not in CHANNELS:
        raise InputError(
            f"{where}: shape {shape} read as (n, c, h, w) has {shape[1]} channels, expected 1, 3 "
            "or 4; if channels are last, use x.transpose(0, 3, 1, 2)"
        )


def check_enough(data: np.ndarray, n_clusters: int, name: str = "n_clusters") -> None:
    """Refuse fewer points, or fewer distinct points, than clusters; `name` is the parameter."""
    shape, parameter = f"X of shape {data.shape}", Parameter(name, n_clusters)
    if len(data) < n_clusters:
        raise InputError(parameter, f" for {len(data)} points ({shape})")
    # The first rows are nearly always enough.
    for rows in (data[: 10 * n_clusters], data):
        distinct = len(np.unique(rows.reshape(len(rows), -1), axis=0))
        if distinct >= n_clusters:
            return
    points = "distinct point" if distinct == 1 else "distinct points"
    raise InputError(
        parameter,
        f", but {shape} has only {distinct} {points}: give more varied data, or fewer clusters",
    )


def check_same_shape(x: np.ndarray, shape: tuple[int, ...], name: str) -> None:
    """Refuse points of another shape than those of the fit."""
    if x.shape[1:] != shape:
        raise InputError(
            f"{name} has points of shape {x.shape[1:]}, but the model was fitted to {shape}"
        )


def as_labels(values: np.ndarray | Sequence[str], where: str) -> np.ndarray:
    """Whole numbers become integers, also from text; other text stays text."""
    if not isinstance(values, np.ndarray):  # every text takes as much as the longest
        check_size(4 * len(values) * max(map(len, values), default=0), f"{where}: labels")
    y = np.asarray(values)
    if y.dtype.kind == "U":
        try:
            numbers = y.astype(np.float64)
        except ValueError:
            return y
        y = numbers if np.isfinite(numbers).all() else y
    check_finite(y, f"{where}: labels")
    whole = y.dtype.kind in "bf" and np.all(y == np.round(y)) and np.all(np.abs(y) < 2**53)
    return y.astype(np.int64) if whole else y


# Rows that are enough to measure principal directions.
MANY_ROWS = 20_000


def unit_rows(x: np.ndarray) -> np.ndarray:
    """Rows (..., d) divided by their lengths; rows of zeros stay."""
    length = np.linalg.norm(x, axis=-1, keepdims=True)
    return np.asarray(x / np.where(length > 0, length, 1))


# Embeddings have more columns than this, row lengths that differ by less than this share, and a
# variance that is spread over at least this share of the columns.
FEW_COLUMNS, ALIKE, SPREAD = 64, 0.25, 0.25
# The network sees at most so many principal directions of them. In more columns than `EXACT`, these
# are computed approximately.
DIRECTIONS, EXACT = 128, 1_024


def are_embeddings(x: np.ndarray) -> bool:
    """Whether vectors (n, d) have many columns in one unit and rows of similar length."""
    if x.ndim != 2 or x.shape[1] <= FEW_COLUMNS:
        return False
    some = x[evenly_spaced(len(x), 2_000)].astype(np.float64)
    lengths, variances = np.linalg.norm(some, axis=1), some.var(axis=0)
    if not (lengths.min() > 0 and variances.any()):
        return False
    used = variances.sum() ** 2 / np.square(variances).sum()
    return bool(lengths.std() < ALIKE * lengths.mean() and used > SPREAD * x.shape[1])


@dataclass(frozen=True, eq=False)
class Scaling:
    """The map between the user's units and the network's: ``z = (x - offset) / scale``.

    Vectors are standardised column by column. Embeddings are not: their rows are divided by their
    length, the leading principal directions of them are kept, and one scale gives z a mean length
    of `LENGTH` times the fourth root of its columns. Images keep their contrasts: one offset and
    one scale map a range to [-1, 1]. For bytes with a value of 128 or more the range is 0 to 255,
    so the training and test images of a set are scaled alike. Other images (floats, or bytes with
    fewer levels, such as 0 to 16) are scaled by their own range.

    Attributes
    ----------
    offset, scale: float64, shape (d,) for vectors and (1, 1, 1) for images. The scale of a constant
        column is 1: it maps to 0
    directions: (d, q) of embeddings, whose scale is (q,); else None
    """

    LENGTH: ClassVar[float] = 2.0

    offset: np.ndarray
    scale: np.ndarray
    directions: np.ndarray | None = None

    @classmethod
    def of(
        cls, x: np.ndarray, kind: str | tuple[float, float], metric: str = "euclidean"
    ) -> Scaling:
        """By the settings `scaling`, 'standard', 'none' or (mean, deviation), and `metric`."""
        if isinstance(kind, tuple):
            offset, scale = (np.full(cls.shape(x.shape[1:]), value) for value in kind)
            return cls(offset, scale)
        if kind == "none":
            return cls.identity(x)
        return cls.of_embeddings(x) if metric == "cosine" else cls.fit(x)

    @classmethod
    def fit(cls, x: np.ndarray) -> Scaling:
        """Measured on vectors (n, d) or images (n, c, h, w), checked by `as_numbers`."""
        low, high = float(x.min()), float(x.max())
        largest = max(-low, high)
        if largest > LARGEST:
            raise InputError(f"x: reaches {largest:.3g}, beyond {LARGEST:g}; rescale the data")
        if x.ndim == 2:
            return cls._fit_columns(x)
        if _is_bytes(x) and high > np.iinfo(np.int8).max:
            low, high = 0.0, 255.0
        half = (high - low) / 2
        constant = half < np.finfo(np.float64).tiny
        offset, scale = (low, 1.0) if constant else (low + half, half)
        return cls(np.full((1, 1, 1), offset), np.full((1, 1, 1), scale))

    @classmethod
    def identity(cls, x: np.ndarray) -> Scaling:
        """No scaling, for data of the shape of ``x``."""
        shape = cls.shape(x.shape[1:])
        return cls(np.zeros(shape), np.ones(shape))

    @staticmethod
    def shape(point: tuple[int, ...]) -> tuple[int, ...]:
        """The shape of offset and scale for points of this shape."""
        return point if len(point) == 1 else (1, 1, 1)

    @classmethod
    def _fit_columns(cls, x: np.ndarray) -> Scaling:
        # In chunks: the data may be larger than memory.
        chunks = list(row_chunks(x))
        mean = sum(x[chunk].sum(axis=0, dtype=np.float64) for chunk in chunks) / len(x)
        squares = sum(np.square(x[chunk] - mean).sum(axis=0) for chunk in chunks)
        scale = np.sqrt(squares / len(x))
        # A spread of a few rounding errors counts as constant: 0.3 and 0.1 + 0.2.
        varies = scale > np.maximum(SMALLEST, 8 * np.finfo(np.float64).eps * np.abs(mean))
        return cls(offset=np.where(varies, mean, x[0]), scale=np.where(varies, scale, 1.0))

    @classmethod
    def of_embeddings(cls, x: np.ndarray) -> Scaling:
        """Measured on embeddings (n, d)."""
        from sklearn.decomposition import PCA

        some = unit_rows(x[evenly_spaced(len(x), MANY_ROWS)].astype(np.float64))
        mean, (n, d) = some.mean(0), some.shape
        directions = np.eye(d)
        if min(n, d) > DIRECTIONS:
            solver = "covariance_eigh" if d <= EXACT else "randomized"
            found = PCA(DIRECTIONS, svd_solver=solver, random_state=0).fit(some)
            directions = np.ascontiguousarray(found.components_.T)
        q = directions.shape[1]
        length = np.linalg.norm((some - mean) @ directions, axis=1).mean() or 1.0
        return cls(mean, np.full(q, length / (cls.LENGTH * q**0.25)), directions)

    def apply(self, x: np.ndarray) -> np.ndarray:
        """From the user's units to the network's, float32; any leading axes."""
        rows = x if x.ndim > self.offset.ndim else x[None]  # one vector or image is one row
        z = np.empty(self.scaled_shape(rows.shape), dtype=np.float32)
        limit = float(np.finfo(np.float32).max)
        for chunk in row_chunks(rows):
            with np.errstate(over="ignore"):  # reported below, with a way out
                exact = rows[chunk].astype(np.float64)
                exact = exact if self.directions is None else unit_rows(exact)
                exact -= self.offset
                exact = exact if self.directions is None else exact @ self.directions
                exact /= self.scale
            if exact.size and max(exact.max(), -exact.min()) > limit:
                raise InputError(
                    f"x: a value lies more than {limit:.0e} scales from the training data; "
                    "check its units"
                )
            z[chunk] = exact
        return z.reshape(self.scaled_shape(x.shape))

    def scaled_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """The shape of z for x of this shape."""
        return shape if self.directions is None else (*shape[:-1], len(self.scale))

    def undo(self, z: np.ndarray) -> np.ndarray:
        """From the network's units back to the user's, float64; any leading axes."""
        x = z.astype(np.float64)
        x *= self.scale
        x = x if self.directions is None else np.asarray(x @ self.directions.T)
        x += self.offset
        return x

    def to_json(self) -> str:
        """JSON text of all but the directions, with enough digits for an exact round trip."""
        return json.dumps({"offset": self.offset.tolist(), "scale": self.scale.tolist()})

    @classmethod
    def from_json(cls, text: str, directions: np.ndarray | None = None) -> Scaling:
        """Read what `to_json` wrote; anything else is an `InputError`."""
        try:
            fields = json.loads(text)
            offset = np.array(fields["offset"], dtype=np.float64)
            scale = np.array(fields["scale"], dtype=np.float64)
        except (ValueError, TypeError, KeyError) as error:
            reason = " ".join(str(error).split())
            raise InputError(f"scaling: not written by Scaling.to_json ({reason})") from error
        sound = np.isfinite(offset).all() and np.isfinite(scale).all() and (scale > 0).all()
        shapes = scale.shape, offset.shape
        if directions is not None:
            shapes = directions.shape, (*offset.shape, *scale.shape)
        if shapes[0] != shapes[1] or offset.ndim not in (1, 3) or not sound:
            raise InputError("scaling: offset and scale must match, be finite, and scale positive")
        return cls(offset, scale, directions)
