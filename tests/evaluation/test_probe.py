"""Probes on frozen features."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression

from gedilearn.errors import InputError
from gedilearn.evaluation.probe import C_GRID, fast_probe, paper_probe

Split = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]


def blobs(n: int = 120, spread: float = 1.0, scale: float = 1.0) -> Split:
    """Three classes in the plane, far from the origin in different directions."""
    generator = np.random.default_rng(0)
    y = np.arange(n) % 3
    centres = np.array([[3.0, 0], [-2, 3], [-2, -3]])
    x = scale * (centres[y] + spread * generator.normal(size=(n, 2)))
    half = n // 2
    return x[:half], y[:half], x[half:], y[half:]


@pytest.fixture(scope="module")
def digits() -> Split:
    x, y = load_digits(return_X_y=True)
    return x[:900] / 16, y[:900], x[900:], y[900:]


def test_the_papers_probe_approaches_the_regression_without_penalty():
    train_x, train_y, _, _ = blobs(600, spread=2, scale=3)
    grid = np.stack(np.meshgrid(*[np.linspace(-18, 18, 60)] * 2), -1).reshape(-1, 2)
    expected = LogisticRegression(C=1e9, max_iter=1_000).fit(train_x, train_y).predict(grid)
    assert paper_probe(train_x, train_y, grid, expected) > 0.95


def test_the_fast_probe_scales_features_and_the_papers_does_not():
    small, usual = blobs(scale=1e-6), blobs()
    assert paper_probe(*small) < 0.9 < paper_probe(*usual)
    assert fast_probe(*small) == fast_probe(*usual)


def test_features_that_are_too_large_for_the_papers_probe_are_refused_in_one_line():
    train_x, train_y, test_x, test_y = blobs(scale=1e30, spread=3)
    with pytest.raises(InputError, match=r"^the paper's probe: .* fast_probe scales features$"):
        paper_probe(train_x.astype(np.float32), train_y, test_x.astype(np.float32), test_y)


def test_the_fast_probe_is_logistic_regression_on_standardised_columns(digits):
    train_x, train_y, test_x, test_y = digits
    mean, std = train_x.mean(0), train_x.std(0)
    std[std == 0] = 1
    train_z, test_z = (train_x - mean) / std, (test_x - mean) / std
    fits = [LogisticRegression(C=c, max_iter=1_000).fit(train_z, train_y) for c in C_GRID]
    assert fast_probe(*digits) in [fit.score(test_z, test_y) for fit in fits]


def test_the_fast_probe_of_few_points_has_no_validation_split():
    train_x, train_y, test_x, test_y = blobs(24, spread=3)
    mean, std = train_x.mean(0), train_x.std(0)
    expected = LogisticRegression().fit((train_x - mean) / std, train_y)
    assert fast_probe(train_x, train_y, test_x, test_y) == expected.score(
        (test_x - mean) / std, test_y
    )


@pytest.mark.parametrize("probe", [paper_probe, fast_probe])
def test_a_class_without_training_points_counts_as_wrong(probe):
    train_x, train_y, test_x, test_y = blobs(spread=0.1)
    known = np.array(["a", "b", "c"])
    test_names = known[test_y]
    test_names[test_y == 2] = "d"
    assert probe(train_x, known[train_y], test_x, test_names) == pytest.approx(2 / 3)


@pytest.mark.parametrize("probe", [paper_probe, fast_probe])
@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({0: np.full((60, 2), np.nan)}, "train_x: 120 NaN or infinite values"),
        ({1: np.zeros(60)}, "train_y has a single class"),
    ],
)
def test_unusable_data_is_refused_in_one_line(probe, change, words):
    parts = [change.get(i, part) for i, part in enumerate(blobs())]
    with pytest.raises(InputError) as error:
        probe(*parts)
    assert words in str(error.value) and "\n" not in str(error.value)
