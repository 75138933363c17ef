"""Arrays in mapped files: what is in them, and what is not left of them."""

from __future__ import annotations

import resource
from collections import namedtuple
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from gedilearn.data import metric, scratch
from gedilearn.data.metric import distance_points, n_draws, own_stream, spread
from gedilearn.data.scratch import Scratch, is_mapped
from gedilearn.errors import InputError

Array = NDArray[Any]


def test_an_array_is_filled_part_by_part_and_its_file_has_no_name(tmp_path: Path) -> None:
    x = np.random.default_rng(0).normal(size=(10, 3, 2))
    parts = [slice(0, 4), slice(4, 8), slice(8, 12)]
    names = []

    def fill(part: slice) -> list[Array]:
        names.append([path.name for path in tmp_path.iterdir()])
        return [x[part]]

    found = Scratch(tmp_path / "scratch").array((10, 3, 2), parts, fill)
    np.testing.assert_array_equal(found, x.astype(np.float32))
    assert len(names) == 3 and names[0][0].startswith(".scratch.")
    assert not list(tmp_path.iterdir())


def test_a_disk_without_room_is_told_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr("shutil.disk_usage", lambda path: usage(100, 61, 39))
    with pytest.raises(InputError, match=r"needs 0\.0 GB of the disk in") as told:
        Scratch(tmp_path / "scratch").array((10,), [slice(0, 10)], lambda part: [np.zeros(10)])
    assert "\n" not in str(told.value) and str(tmp_path) in str(told.value)
    monkeypatch.undo()
    most = resource.getrlimit(resource.RLIMIT_FSIZE)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (20, most[1]))
        with pytest.raises(InputError, match="File too large"):
            Scratch(tmp_path / "scratch").array((10,), [slice(0, 10)], lambda part: [np.zeros(10)])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, most)
    assert not list(tmp_path.iterdir())
    with pytest.raises(InputError, match="No such file"):
        Scratch(tmp_path / "no" / "scratch").array((10,), [slice(0, 10)], lambda part: [])


def test_large_files_are_mapped_through_views_and_memory_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    x = np.ones((40, 3))
    np.save(tmp_path / "x.npy", x)
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    assert not is_mapped(mapped)  # small
    monkeypatch.setattr(scratch, "MAPPED_FROM", 100)
    assert is_mapped(mapped) and is_mapped(np.asarray(mapped)[5:]) and is_mapped(mapped.T)
    assert not is_mapped(x) and not is_mapped(np.array(mapped)) and not is_mapped(mapped * 1)


def repeating(n: int) -> Array:
    """Columns that are distinct, constant, of two values, rounded, and of whole numbers."""
    rng = np.random.default_rng(1)
    x = rng.normal(size=(n, 6))
    x[:, 1], x[:, 2], x[:, 3] = 4.0, x[:, 2] > 0, np.round(x[:, 3], 2)
    x[:, 5] = np.round(x[:, 5])
    return x


@pytest.mark.parametrize("columns", [1, 2, 6])
def test_points_of_a_mapped_file_are_those_of_memory_bit_for_bit(
    columns: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    x = repeating(500).astype(np.float32)
    monkeypatch.setattr(metric, "SINGLE", 500 * columns - (columns == 6))
    found = distance_points(x, 3, Scratch(tmp_path / "scratch"))
    expected = distance_points(x, 3)
    assert expected.dtype == np.float32 and isinstance(found.base, np.memmap)
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("distinct", [1.0, 0.9])
def test_the_numbers_that_spreading_draws_are_counted(distinct: float) -> None:
    x, rng, other = repeating(400), own_stream(0), own_stream(0)
    spread(x, rng, distinct)
    other.random(n_draws(x, distinct))
    assert n_draws(x, distinct) > 800 and rng.random() == other.random()
