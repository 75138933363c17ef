"""Data sets that are registered from outside are loaded by name like the built-in ones."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from gedilearn.data.dataset import Dataset
from gedilearn.data.load import is_folder, is_name, known_formats, load
from gedilearn.errors import InputError
from gedilearn.registry import DATA_SETS


def line() -> Dataset:
    x = np.linspace(0, 1, 12).reshape(6, 2)
    return Dataset("line", x, np.repeat([0, 1], 3), ("a", "b"), "built-in")


@pytest.fixture
def registered() -> Iterator[str]:
    DATA_SETS.register("my-line", line)
    yield "my-line"
    DATA_SETS.remove("my-line")


def test_a_registered_set_is_loaded_by_its_name(registered, tmp_path, monkeypatch):
    data = load(registered)
    np.testing.assert_array_equal(data.x, line().x)
    assert data.y.tolist() == [0, 0, 0, 1, 1, 1] and data.columns == ("a", "b")
    assert is_name(registered) and registered in known_formats()
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my-line").mkdir()
    assert not is_folder("my-line") and is_folder("./my-line")


def test_a_misspelt_name_suggests_it(registered, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match=r"did you mean my-line \(built-in\)\?"):
        load("my-lime")


def test_a_function_that_gives_something_else_is_named(registered):
    DATA_SETS.register("my-line", lambda: np.zeros((3, 2)))
    with pytest.raises(InputError, match="data set 'my-line': its function gave ndarray"):
        load(registered)
