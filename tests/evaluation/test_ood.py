"""OOD: AUROC and FPR at 95% TPR, and the conversion of images."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image

from gedilearn.errors import InputError
from gedilearn.evaluation.ood import converted, roc, value_range


def scores(seed: int, rounded: bool) -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(seed)
    inside, outside = generator.normal(1.5, 1, 137), generator.normal(0, 1, 90)
    return (inside.round(), outside.round()) if rounded else (inside, outside)


@pytest.mark.parametrize("rounded", [False, True], ids=["distinct", "ties"])
@pytest.mark.parametrize("seed", range(3))
def test_auroc_and_fpr95_equal_a_count_of_pairs_and_a_search_over_thresholds(seed, rounded):
    inside, outside = scores(seed, rounded)
    wins = (inside[:, None] > outside) + 0.5 * (inside[:, None] == outside)
    passing = [t for t in inside if np.mean(inside >= t) >= 0.95]
    found = roc(inside, outside)
    assert found.auroc == pytest.approx(wins.mean())
    assert found.fpr95 == pytest.approx(min(np.mean(outside >= t) for t in passing))


@pytest.mark.parametrize("n", [20, 60, 100, 140])
def test_exactly_95_of_100_are_enough(n):
    inside = np.arange(n, dtype=float)
    lowest = n // 20  # the threshold that leaves exactly 5% out
    assert roc(inside, np.array([lowest, lowest - 0.5])).fpr95 == 0.5


@pytest.mark.parametrize(
    ("inside", "outside", "words"),
    [
        ([1.0, np.nan], [0.0], "scores inside: 1 NaN or infinite value in row 1"),
        ([1.0], [0.0, -np.inf], "scores outside: 1 NaN or infinite value in row 1"),
    ],
)
def test_scores_that_are_not_finite_numbers_are_refused_in_one_line(inside, outside, words):
    with pytest.raises(InputError) as error:
        roc(np.array(inside), np.array(outside))
    assert words in str(error.value) and "\n" not in str(error.value)


def test_grey_and_other_sizes_equal_those_of_another_library():
    x = np.random.default_rng(0).integers(0, 256, (5, 3, 16, 16), dtype=np.uint8)
    found, said = converted(x, (1, 8, 8), (0.0, 255.0))
    assert said == "3x16x16, values 0..255 -> 1x8x8, values 0..255" and found.shape == (5, 1, 8, 8)
    for image, expected in zip(found[:, 0], x, strict=True):
        grey = Image.fromarray(expected.transpose(1, 2, 0)).convert("L")
        other = np.asarray(grey.resize((8, 8), Image.Resampling.BILINEAR), dtype=float)
        assert np.abs(image - other).max() <= 2  # each library rounds in its own places


def test_values_are_mapped_and_black_stays_black():
    found, said = converted(np.ones((2, 1, 4, 8)), (3, 4, 4), (0.0, 255.0))
    assert said == "1x4x8, values 0..1 -> 3x4x4, values 0..255"
    assert found.shape == (2, 3, 4, 4) and (found == 255).all()
    wide = np.zeros((1, 1, 30, 30), dtype=np.uint8)
    wide[0, 0, 15, 15] = 1
    assert (converted(wide, (1, 5, 5), (0.0, 255.0))[0] == 0).all()
    same, said = converted(wide, (1, 30, 30), (0.0, 255.0))
    assert same is wide and said == "none"


def test_transparency_is_neither_removed_nor_added():
    x = np.zeros((2, 4, 8, 8), dtype=np.uint8)
    for given, channels in ((x, 3), (x[:, :3], 4)):
        with pytest.raises(InputError, match=f"but the model has {channels}"):
            converted(given, (channels, 8, 8), (0.0, 255.0))


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (np.array([3, 90], dtype=np.uint8), (0, 255)),
        (np.array([0.2, 0.9]), (0, 1)),
        (np.array([-0.2, 0.9]), (-1, 1)),
        (np.array([0.0, 254.0]), (0, 255)),
        (np.array([0.0, 16.0]), (0, 16)),
        (np.array([-3.0, 5.0]), (-3, 5)),
    ],
)
def test_the_range_is_inferred_from_the_values(values, expected):
    assert value_range(values) == expected


def test_two_sets_in_other_units_are_assumed_to_share_them():
    x = np.linspace(-3, 5, 64).reshape(1, 1, 8, 8)
    assert converted(x, (1, 8, 8), (-2.5, 7.0))[1] == "none"
    resized, said = converted(x, (1, 4, 4), (-2.5, 7.0))
    assert (
        said.endswith("1x4x4, values -3..5") and -3 < resized.min() < -2 and 4 < resized.max() < 5
    )
