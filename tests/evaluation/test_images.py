"""Images in another shape, grids of images, and nearest training images."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image
from scipy.spatial.distance import cdist

from gedilearn.data import arrays
from gedilearn.errors import InputError
from gedilearn.evaluation.images import converted, image_grid, nearest, save_png, value_range


def plain(values: list[int], height: int = 3, width: int = 4) -> np.ndarray:
    """Images of one grey each."""
    grey = np.array(values, dtype=np.uint8)[:, None, None, None]
    return np.broadcast_to(grey, (len(values), 3, height, width)).copy()


def shown(grid: np.ndarray, height: int = 3, width: int = 4) -> list[list[int]]:
    """The grey in the corner of every place of the grid."""
    return grid[:: height + 2, :: width + 2, 0].tolist()


def test_images_stand_row_by_row_with_a_white_gap_between():
    grid = image_grid(plain([10, 20, 30]), columns=2)
    assert grid.shape == (3 + 2 + 3, 4 + 2 + 4, 3) and grid.dtype == np.uint8
    assert shown(grid) == [[10, 20], [30, 255]]
    assert (grid[3:5] == 255).all() and (grid[:, 4:6] == 255).all()
    assert (grid[:3, :4] == 10).all() and (grid[:3, 6:] == 20).all() and (grid[5:, :4] == 30).all()


def test_pixels_and_channels_keep_their_places():
    image = np.arange(2 * 3 * 4 * 5, dtype=np.uint8).reshape(2, 3, 4, 5)
    grid = image_grid(image, columns=2)
    for channel in range(3):
        assert (grid[:, :5, channel] == image[0, channel]).all()
        assert (grid[:, 7:, channel] == image[1, channel]).all()


def test_clusters_come_in_order_and_each_starts_a_row():
    grid = image_grid(plain([1, 2, 3, 4]), columns=2, labels=np.array([7, 0, 7, 7]))
    assert shown(grid) == [[2, 255], [1, 3], [4, 255]]


def test_a_grid_is_no_wider_than_its_longest_row():
    assert image_grid(plain([1, 2]), columns=10).shape[1] == 4 + 2 + 4


def test_numbers_are_black_at_low_and_white_at_high_and_clipped_beyond():
    x = np.array([-3.0, -1.0, 0.0, 1.0, 2.0]).reshape(5, 1, 1, 1)
    assert image_grid(x, 5)[0, ::3, 0].tolist() == [0, 0, 128, 255, 255]
    assert image_grid(x, 5, values=(0.0, 1.0))[0, ::3, 0].tolist() == [0, 0, 0, 255, 255]
    assert image_grid(x, 5)[0, 0].tolist() == [0, 0, 0]  # grey fills all three channels


def test_a_saved_grid_reads_back_as_the_same_pixels(tmp_path):
    images, labels = plain([5, 6, 7]), np.array([1, 0, 1])
    save_png(tmp_path / "grid.png", image_grid(images, 2, labels))
    with Image.open(tmp_path / "grid.png") as picture:
        assert picture.format == "PNG"
        assert (np.asarray(picture) == image_grid(images, 2, labels)).all()
    assert [path.name for path in tmp_path.iterdir()] == ["grid.png"]


def test_a_grid_that_cannot_be_written_is_refused_in_one_line(tmp_path):
    with pytest.raises(InputError, match="No such file or directory") as error:
        save_png(tmp_path / "absent" / "grid.png", image_grid(plain([1]), 1))
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((np.zeros((2, 3, 4)), 2), "images of shape (2, 3, 4)"),
        ((np.zeros((2, 2, 4, 4)), 2), "images of shape (2, 2, 4, 4)"),
        ((plain([1]), 0), "columns=0"),
        ((plain([1, 2]), 2, np.zeros(3)), "labels of shape (3,) for 2 images"),
        ((np.full((1, 1, 2, 2), np.nan), 2), "images: 4 NaN"),
    ],
)
def test_images_that_do_not_fit_are_refused_in_one_line(arguments, words):
    with pytest.raises(InputError) as error:
        image_grid(*arguments)
    assert words in str(error.value) and "\n" not in str(error.value)


@pytest.mark.parametrize("block", [2**22, 100, 1])
@pytest.mark.parametrize("offset", [0.0, 1e4])
def test_the_nearest_are_those_of_all_distances_whatever_the_block(monkeypatch, block, offset):
    monkeypatch.setattr(arrays, "_CHUNK_VALUES", block)
    generator = np.random.default_rng(0)
    samples = offset + generator.normal(size=(13, 3, 2, 2))
    training = offset + generator.normal(size=(57, 3, 2, 2))
    expected = cdist(samples.reshape(13, -1), training.reshape(57, -1)).argmin(1)
    assert nearest(samples, training).tolist() == expected.tolist()


def test_of_equally_near_ones_the_first_is_taken_across_blocks(monkeypatch):
    monkeypatch.setattr(arrays, "_CHUNK_VALUES", 4)
    training = np.array([[5.0], [1.0], [9.0], [1.0], [1.0], [7.0], [1.0], [3.0]])
    assert nearest(np.array([[1.0], [3.0]]), training).tolist() == [1, 7]


def test_bytes_are_compared_without_overflow():
    training = np.array([[250], [10]], dtype=np.uint8)
    assert nearest(np.array([[0], [255]], dtype=np.uint8), training).tolist() == [1, 0]


@pytest.mark.parametrize("shape", [(0, 2), (3, 4)])
def test_nothing_to_compare_with_is_refused(shape):
    with pytest.raises(InputError, match="give at least one of each, of equal shape"):
        nearest(np.zeros((5, 2)), np.zeros(shape))


def test_colour_turns_grey_and_sizes_change_as_in_another_library():
    x = np.random.default_rng(0).integers(0, 256, (5, 3, 16, 16), dtype=np.uint8)
    found, said = converted(x, (1, 8, 8), (0.0, 255.0))
    assert said == "grey, resized 16x16 -> 8x8" and found.shape == (5, 1, 8, 8)
    for image, expected in zip(found[:, 0], x, strict=True):
        grey = Image.fromarray(expected.transpose(1, 2, 0)).convert("L")
        other = np.asarray(grey.resize((8, 8), Image.Resampling.BILINEAR), dtype=float)
        assert np.abs(image - other).max() <= 2  # each library rounds in its own places


def test_a_crop_is_central_values_are_mapped_and_black_stays_black():
    x = np.zeros((2, 1, 4, 8))
    x[:, :, :, 2:6] = 1.0
    found, said = converted(x, (3, 4, 4), (0.0, 255.0))
    assert said == "grey to colour, centre crop 4x8 -> 4x4, values 0..1 -> 0..255"
    assert found.shape == (2, 3, 4, 4) and (found == 255).all()
    wide = np.zeros((1, 1, 30, 30), dtype=np.uint8)
    wide[0, 0, 15, 15] = 1
    assert (converted(wide, (1, 5, 5), (0.0, 255.0))[0] == 0).all()
    same, said = converted(wide, (1, 30, 30), (0.0, 255.0))
    assert same is wide and said == "none"


def test_transparency_is_dropped_and_cannot_be_made_up():
    x = np.zeros((2, 4, 8, 8), dtype=np.uint8)
    assert converted(x, (3, 8, 8), (0.0, 255.0))[1] == "transparency dropped"
    with pytest.raises(InputError, match="the model has 4"):
        converted(x[:, :3], (4, 8, 8), (0.0, 255.0))


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
def test_the_range_of_values_is_guessed_from_them(values, expected):
    assert value_range(values) == expected


def test_two_sets_in_units_of_their_own_are_taken_to_share_them():
    x = np.linspace(-3, 5, 64).reshape(1, 1, 8, 8)
    assert converted(x, (1, 8, 8), (-2.5, 7.0))[1] == "none"
    resized, said = converted(x, (1, 4, 4), (-2.5, 7.0))
    assert said == "resized 8x8 -> 4x4" and -3 < resized.min() < -2 and 4 < resized.max() < 5
