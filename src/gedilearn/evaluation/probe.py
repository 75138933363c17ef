"""Linear probes: the accuracy of a linear classifier on fixed features.

Each function gives the share of test points with the right class. A class that training does not
have counts as wrong.
"""

from __future__ import annotations

import warnings

import numpy as np

from gedilearn.data.arrays import check_finite
from gedilearn.errors import InputError

EPOCHS = 100  # the paper's
C_GRID = (1e-3, 1e-2, 1e-1, 1.0, 10.0)
VALIDATION = 0.1  # share of the training points for the choice of C
MAX_ITER, SEED = 1_000, 0


def paper_probe(
    train_x: np.ndarray, train_y: np.ndarray, test_x: np.ndarray, test_y: np.ndarray
) -> float:
    """The paper's linear evaluation: SGD on the features (n, d) as they are, without scaling.

    The paper does not give the momentum; 0.9 is the usual value. Without scaling the result depends
    on the size of a method's features; `fast_probe` does not. Two classes have one output, more
    classes have one output each.
    """
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.neural_network import MLPClassifier

    _check(train_x, train_y, test_x)
    layer = MLPClassifier(
        hidden_layer_sizes=(),
        solver="sgd",
        alpha=0.0,
        batch_size=min(100, len(train_x)),
        learning_rate_init=1e-3,
        momentum=0.9,
        nesterovs_momentum=False,
        max_iter=EPOCHS,
        n_iter_no_change=EPOCHS,
        random_state=SEED,
    )
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # the epochs are the paper's
        try:
            layer.fit(train_x, train_y)
        except ValueError as error:
            raise InputError(f"the paper's probe: {error} fast_probe scales features") from None
    return float(layer.score(test_x, test_y))


def fast_probe(
    train_x: np.ndarray, train_y: np.ndarray, test_x: np.ndarray, test_y: np.ndarray
) -> float:
    """Multinomial logistic regression (lbfgs) on standardised features (n, d).

    C, the inverse strength of the penalty, is chosen from `C_GRID` by the accuracy on a tenth of
    the training points. The regression is then fitted to all of them. With fewer than ten points
    for each class, C is 1.
    """
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import GridSearchCV, StratifiedShuffleSplit
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    _check(train_x, train_y, test_x)
    regression = make_pipeline(StandardScaler(), LogisticRegression(max_iter=MAX_ITER))
    counts = np.unique(train_y, return_counts=True)[1]
    if counts.min() >= 2 and len(train_y) * VALIDATION >= len(counts):
        split = StratifiedShuffleSplit(1, test_size=VALIDATION, random_state=SEED)
        # The first of equals: the strongest penalty.
        regression = GridSearchCV(regression, {"logisticregression__C": C_GRID}, cv=split)
    return float(regression.fit(train_x, train_y).score(test_x, test_y))


def _check(train_x: np.ndarray, train_y: np.ndarray, test_x: np.ndarray) -> None:
    """Refuse features that are not finite, and labels of a single class."""
    check_finite(train_x, "train_x")
    check_finite(test_x, "test_x")
    if len(np.unique(train_y)) < 2:
        raise InputError("train_y has a single class: a probe needs at least 2 to tell apart")
