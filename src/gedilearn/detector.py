"""Outliers by scikit-learn's conventions for outlier detectors, without a training."""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np
import torch
from sklearn.base import BaseEstimator, OutlierMixin
from sklearn.utils.validation import check_is_fitted

from gedilearn.data.arrays import check_same_shape
from gedilearn.density.fit import subsamples_of
from gedilearn.estimator import GEDI

ROUNDING = 1e-4  # of scores, which depends on the number of rows that are scored at once
Self = TypeVar("Self", bound="GEDIOutlierDetector")


class GEDIOutlierDetector(OutlierMixin, BaseEstimator):  # type: ignore[misc]
    """Finds outliers among the fitted rows and among new ones; no network is trained.

    The scores are those of `GEDI.outlier_score` with the same seed, for data of the same kinds.
    Of the fitted rows, as many have -1 as `GEDI.outliers` names: those with the highest scores. At
    least one has -1, as scikit-learn expects. New rows have -1 if they score higher than all others
    of the fitted rows.

    Parameters
    ----------
    level : float, default 0.05
        Expected share of false alarms among the fitted rows with -1. No share of outliers is
        needed.
    random_state : int or RandomState, default None
        Seed of the subsamples; None takes a new one.

    Attributes
    ----------
    offset_ : float
        The score, as `score_samples` gives it, below which rows have -1.
    n_features_in_ : int
        Number of columns, or of channels of images.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the columns, if `X` had some.

    Examples
    --------
    >>> import numpy as np
    >>> from gedilearn import GEDIOutlierDetector
    >>> X = np.r_[np.random.default_rng(0).normal(size=(200, 2)), [[9, 9]]]
    >>> GEDIOutlierDetector(random_state=0).fit_predict(X)[-2:]
    array([ 1, -1])
    """

    def __init__(self, level: float = 0.05, *, random_state: Any = None) -> None:
        self.level = level
        self.random_state = random_state

    def fit(self: Self, X: Any, y: Any = None) -> Self:
        """Fit to `X`, which may be all that `GEDI.fit` takes; `y` is ignored."""
        self._data = GEDI(1, random_state=self.random_state)
        data, _, settings = self._data.read(X)
        self._data.scaling_, x = self._data.scaled(data, settings)
        self._point = data.shape[1:]
        points, seed = torch.from_numpy(x), settings.training.seed
        self._coordinates, self._subsamples = subsamples_of(points, seed)
        scores, z = self._subsamples.measured(self._coordinates.leading(points))
        named = max(int(self._subsamples.outliers(z, self.level).sum()), 1)
        self.offset_ = -float(scores.sort().values[-1 - named]) - ROUNDING
        self.n_features_in_ = self._data.n_features_in_
        if hasattr(self._data, "feature_names_in_"):
            self.feature_names_in_ = self._data.feature_names_in_
        return self

    def score_samples(self, X: Any) -> np.ndarray:
        """Minus the outlier score, higher for more normal rows: (n_samples,)."""
        check_is_fitted(self)
        data = self._data.validate(X)
        check_same_shape(data, self._point, "X")
        points = self._coordinates.leading(torch.from_numpy(self._data.scaling_.apply(data)))
        return -np.asarray(self._subsamples.measured(points)[0].double())

    def decision_function(self, X: Any) -> np.ndarray:
        """`score_samples` minus `offset_`, negative for outliers: (n_samples,)."""
        return self.score_samples(X) - self.offset_

    def predict(self, X: Any) -> np.ndarray:
        """-1 for outliers, 1 for all other rows: (n_samples,)."""
        return np.where(self.decision_function(X) < 0, -1, 1)
