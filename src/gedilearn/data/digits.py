"""The 8x8 handwritten digits that come with scikit-learn."""

from __future__ import annotations

import numpy as np

from gedilearn.data.dataset import Dataset


def digits() -> Dataset:
    """1797 digits as vectors of 64 pixels in [0, 16]; ``y`` is the digit."""
    from sklearn.datasets import load_digits  # type: ignore[import-untyped, unused-ignore]

    bunch = load_digits()
    return Dataset(
        name="digits",
        x=np.asarray(bunch.data, dtype=np.float64),
        y=np.asarray(bunch.target),
        columns=tuple(bunch.feature_names),
        source="built-in",
    )
