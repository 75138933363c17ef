"""How well frozen features tell classes apart: linear probes and nearest neighbours.

The features are never changed; only a classifier on top of them is fitted, to measure them.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np

from gedilearn.data.arrays import check_finite
from gedilearn.errors import InputError

PAPER: dict[str, Any] = {
    "learning_rate": 1e-3, "momentum": 0.9, "batch_size": 100, "epochs": 100,
}  # fmt: skip
C_GRID = (1e-3, 1e-2, 1e-1, 1.0, 10.0)
VALIDATION = 0.1  # share of the training points that chooses C
MAX_ITER, SEED = 1_000, 0


@dataclass(frozen=True)
class ProbeResult:
    """Accuracy on the test points, and by what it was reached.

    Attributes
    ----------
    accuracy: share of test points with the right class; a class absent from training is a miss
    method: the classifier in words
    settings: every value that it was run with
    """

    accuracy: float
    method: str
    settings: dict[str, Any]


def paper_probe(
    train_x: np.ndarray, train_y: np.ndarray, test_x: np.ndarray, test_y: np.ndarray
) -> ProbeResult:
    """The paper's linear evaluation: SGD on the features (n, d) as they are, without scaling.

    The paper says "with momentum" and not how much; this is the usual value. Without scaling, the
    result depends on how large a method's features are: `fast_probe` does not.
    Two classes have one output, and more of them an output each.
    """
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.neural_network import MLPClassifier

    _check(train_x, train_y, test_x)
    layer = MLPClassifier(
        hidden_layer_sizes=(),
        solver="sgd",
        alpha=0.0,
        batch_size=min(PAPER["batch_size"], len(train_x)),
        learning_rate_init=PAPER["learning_rate"],
        momentum=PAPER["momentum"],
        nesterovs_momentum=False,
        max_iter=PAPER["epochs"],
        n_iter_no_change=PAPER["epochs"],
        random_state=SEED,
    )
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # the epochs are the paper's
        try:
            layer.fit(train_x, train_y)
        except ValueError as error:
            raise InputError(f"the paper's probe: {error} fast_probe scales features") from None
    method = "linear layer, SGD with momentum, features as they are"
    settings = PAPER | {"random_state": SEED}
    return ProbeResult(float(layer.score(test_x, test_y)), method, settings)


def fast_probe(
    train_x: np.ndarray, train_y: np.ndarray, test_x: np.ndarray, test_y: np.ndarray
) -> ProbeResult:
    """Multinomial logistic regression (lbfgs) on standardised features (n, d).

    The inverse strength of the penalty, C, is chosen among `C_GRID` by the accuracy on a tenth of
    the training points, and the regression fitted again to all of them; with fewer than ten points
    for each class it is 1. `settings` says which.
    """
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import GridSearchCV, StratifiedShuffleSplit
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    _check(train_x, train_y, test_x)
    regression = make_pipeline(StandardScaler(), LogisticRegression(max_iter=MAX_ITER))
    counts = np.unique(train_y, return_counts=True)[1]
    c, chosen_by = 1.0, "fixed: too few points for a validation split"
    if counts.min() >= 2 and len(train_y) * VALIDATION >= len(counts):
        split = StratifiedShuffleSplit(1, test_size=VALIDATION, random_state=SEED)
        search = GridSearchCV(regression, {"logisticregression__C": C_GRID}, cv=split, refit=False)
        # The first of equals: the strongest penalty.
        c = search.fit(train_x, train_y).best_params_["logisticregression__C"]
        chosen_by = f"{VALIDATION:.0%} validation split"
    regression.set_params(logisticregression__C=c).fit(train_x, train_y)
    settings = {"C": c, "C chosen by": chosen_by, "max_iter": MAX_ITER, "random_state": SEED}
    accuracy = float(regression.score(test_x, test_y))
    return ProbeResult(accuracy, "logistic regression, standardised features", settings)


def knn_accuracy(
    train_x: np.ndarray, train_y: np.ndarray, test_x: np.ndarray, test_y: np.ndarray, k: int = 20
) -> ProbeResult:
    """Plain majority of the `k` training points with the largest cosine similarity.

    Nothing is fitted and nothing chosen; with fewer than `k` training points, all of them vote. Of
    classes with equally many votes the first in sorted order wins.
    """
    from sklearn.neighbors import KNeighborsClassifier
    from sklearn.preprocessing import normalize

    _check(train_x, train_y, test_x)
    k = min(k, len(train_x))
    # On vectors of length 1, Euclidean distance and cosine similarity give the same neighbours,
    # and scikit-learn searches the former in chunks of bounded memory.
    classifier = KNeighborsClassifier(k, algorithm="brute").fit(normalize(train_x), train_y)
    accuracy = float(classifier.score(normalize(test_x), test_y))
    return ProbeResult(accuracy, "nearest neighbours, cosine, plain majority", {"k": k})


def _check(train_x: np.ndarray, train_y: np.ndarray, test_x: np.ndarray) -> None:
    """Refuse features that are not finite, and a single class."""
    check_finite(train_x, "train_x")
    check_finite(test_x, "test_x")
    if len(np.unique(train_y)) < 2:
        raise InputError("train_y has a single class: a probe needs at least 2 to tell apart")
