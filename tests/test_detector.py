"""The outlier detector: scikit-learn's conventions, and the scores and names of GEDI."""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from gedilearn import GEDI, GEDIOutlierDetector
from gedilearn.errors import InputError

RNG = np.random.default_rng(0)
BULK = RNG.normal(size=(300, 3))
X = np.concatenate([BULK, RNG.uniform(8, 12, (6, 3)), RNG.normal(-9, 0.05, (5, 3))])
ALONE = {"training.max_iter": 1}


@parametrize_with_checks([GEDIOutlierDetector()])
def test_scikit_learns_own_checks(estimator: GEDIOutlierDetector, check) -> None:
    check(estimator)


@pytest.mark.parametrize(
    "x", [X, X[:, :1], X[:7], RNG.normal(size=(120, 80))], ids=["table", "column", "few", "wide"]
)
def test_scores_are_those_of_gedi(x: np.ndarray) -> None:
    model = GEDI(1, random_state=3, settings=ALONE).fit(x)
    found = GEDIOutlierDetector(random_state=3).fit(x)
    np.testing.assert_array_equal(found.score_samples(x), -model.outlier_score(x))
    new = x[:5] + 1
    np.testing.assert_array_equal(found.score_samples(new), -model.outlier_score(new))


def test_as_many_fitted_rows_are_named_as_gedi_names_and_planted_ones_first() -> None:
    model = GEDI(1, random_state=0, settings=ALONE).fit(X)
    found = GEDIOutlierDetector(random_state=0)
    labels = found.fit_predict(X)
    assert (labels[300:] == -1).all() and (labels == -1).sum() == model.outliers(X).sum() <= 14
    np.testing.assert_array_equal(labels == -1, found.decision_function(X) < 0)
    assert (found.predict(np.full((1, 3), 40.0)), found.predict(np.zeros((1, 3)))) == (-1, 1)
    more = (GEDIOutlierDetector(0.5, random_state=0).fit_predict(X) == -1).sum()
    assert more > (labels == -1).sum()


def test_few_rows_without_outliers_are_named() -> None:
    found = GEDIOutlierDetector(random_state=0).fit(BULK)
    assert 1 <= (found.predict(BULK) == -1).sum() <= 3
    assert (found.predict(RNG.normal(size=(2_000, 3))) == -1).mean() < 0.02


def test_tables_and_images_are_data_too_and_a_pickle_keeps_the_scores() -> None:
    table = pd.DataFrame({"size": BULK[:, 0], "kind": np.where(BULK[:, 1] > 0, "a", "b")})
    table.loc[7] = [30.0, "a"]
    found = GEDIOutlierDetector(random_state=0).fit(table)
    assert found.score_samples(table).argmin() == 7 and found.n_features_in_ == 2
    assert found.feature_names_in_.tolist() == ["size", "kind"]
    again = pickle.loads(pickle.dumps(found))
    np.testing.assert_array_equal(again.score_samples(table), found.score_samples(table))
    images = RNG.integers(0, 16, (60, 1, 6, 6)).astype(np.uint8)
    images[3] = 15
    found = GEDIOutlierDetector(random_state=0).fit(images)
    assert found.score_samples(images).argmin() == 3
    with pytest.raises(InputError, match="shape"):
        found.predict(images[:, :, :5])


@pytest.mark.parametrize("level", [0, 1, -0.1, np.nan, np.inf, "much", None, True, [0.05]])
def test_a_level_that_is_none_is_refused_in_one_line(level) -> None:
    with pytest.raises(InputError, match=r"level=.*give a number between 0 and 1") as caught:
        GEDIOutlierDetector(level).fit(X)
    assert "\n" not in str(caught.value)
