"""How well frozen features tell classes apart: linear probes and nearest neighbours.

The features are never changed; only a classifier on top of them is fitted, to measure them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn.functional import cross_entropy

from gedilearn.data.arrays import check_finite
from gedilearn.errors import InputError

BATCH, MOMENTUM = 100, 0.9  # of the paper's probe
C_GRID = (1e-3, 1e-2, 1e-1, 1.0, 10.0)
VALIDATION = 0.1  # share of the training points that chooses C
MAX_ITER, SEED = 1_000, 0  # of the regression, and of that share


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
    train_x: np.ndarray,
    train_y: np.ndarray,
    test_x: np.ndarray,
    test_y: np.ndarray,
    *,
    learning_rate: float = 1e-3,
    epochs: int = 100,
    random_state: int = 0,
) -> ProbeResult:
    """The paper's linear evaluation: SGD on the features (n, d) as they are, without scaling.

    The paper says "with momentum" and not how much; this is the usual value. Without scaling, the
    result depends on how large a method's features are: `fast_probe` does not.
    """
    _check(train_x, train_y, test_x)
    settings = {
        "learning_rate": learning_rate, "momentum": MOMENTUM, "batch_size": BATCH,
        "epochs": epochs, "random_state": random_state,
    }  # fmt: skip
    classes, codes = np.unique(train_y, return_inverse=True)
    x, y = torch.from_numpy(train_x).float(), torch.from_numpy(codes)
    layer = _linear(x.shape[1], len(classes), torch.Generator().manual_seed(random_state))
    generator = torch.Generator().manual_seed(random_state)
    optimizer = torch.optim.SGD(layer.parameters(), learning_rate, momentum=MOMENTUM)
    for _ in range(epochs):
        for batch in torch.split(torch.randperm(len(x), generator=generator), BATCH):
            optimizer.zero_grad()
            cross_entropy(layer(x[batch]), y[batch]).backward()  # type: ignore[no-untyped-call]
            optimizer.step()
    if not all(parameter.isfinite().all() for parameter in layer.parameters()):
        raise InputError(
            f"the probe diverged with learning_rate={learning_rate:g}: features up to "
            f"{np.abs(train_x).max():.3g} are too large for it; use fast_probe, which scales them"
        )
    with torch.no_grad():
        found = layer(torch.from_numpy(test_x).float()).argmax(-1).numpy()
    method = "linear layer, SGD with momentum, features as they are"
    return ProbeResult(_accuracy(classes[found], test_y), method, settings)


def _linear(inputs: int, outputs: int, generator: torch.Generator) -> nn.Linear:
    """A layer with the first weights of `nn.Linear`, drawn from this generator."""
    layer = nn.Linear(inputs, outputs, device="meta").to_empty(device="cpu")
    for parameter in (layer.weight, layer.bias):
        nn.init.uniform_(parameter, -(inputs**-0.5), inputs**-0.5, generator)
    return layer


def fast_probe(
    train_x: np.ndarray, train_y: np.ndarray, test_x: np.ndarray, test_y: np.ndarray
) -> ProbeResult:
    """Multinomial logistic regression (lbfgs) on standardised features (n, d).

    The inverse strength of the penalty, C, is chosen among `C_GRID` by the accuracy on a tenth of
    the training points, and the regression fitted again to all of them; with fewer than ten points
    for each class it is 1. `settings` says which.
    """
    _check(train_x, train_y, test_x)
    c, chosen_by = _choose_c(train_x, train_y)
    accuracy = _accuracy(_regression(train_x, train_y, c).predict(test_x), test_y)
    settings = {"C": c, "C chosen by": chosen_by, "max_iter": MAX_ITER, "random_state": SEED}
    return ProbeResult(accuracy, "logistic regression, standardised features", settings)


def _regression(x: np.ndarray, y: np.ndarray, c: float) -> Any:
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    return make_pipeline(StandardScaler(), LogisticRegression(C=c, max_iter=MAX_ITER)).fit(x, y)


def _choose_c(x: np.ndarray, y: np.ndarray) -> tuple[float, str]:
    from sklearn.model_selection import train_test_split

    counts = np.unique(y, return_counts=True)[1]
    if counts.min() < 2 or len(y) * VALIDATION < len(counts):
        return 1.0, "fixed: too few points for a validation split"
    parts = train_test_split(x, y, test_size=VALIDATION, stratify=y, random_state=SEED)
    fit_x, held_x, fit_y, held_y = parts
    scores = [_regression(fit_x, fit_y, c).score(held_x, held_y) for c in C_GRID]
    # The first of equals: the strongest penalty.
    return C_GRID[int(np.argmax(scores))], f"{VALIDATION:.0%} validation split"


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
    accuracy = _accuracy(classifier.predict(normalize(test_x)), test_y)
    return ProbeResult(accuracy, "nearest neighbours, cosine, plain majority", {"k": k})


def _accuracy(found: np.ndarray, truth: np.ndarray) -> float:
    return float((found == truth).mean())


def _check(train_x: np.ndarray, train_y: np.ndarray, test_x: np.ndarray) -> None:
    """Refuse features that are not finite, and a single class."""
    check_finite(train_x, "train_x")
    check_finite(test_x, "test_x")
    if len(np.unique(train_y)) < 2:
        raise InputError("train_y has a single class: a probe needs at least 2 to tell apart")
