"""Sets by name: the built-in ones, and those that are registered from outside."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import numpy as np
import pytest

from gedilearn.data.dataset import Dataset, fingerprint
from gedilearn.data.load import is_folder, is_name, known_formats, load
from gedilearn.data.toy import circles, digits, moons
from gedilearn.errors import InputError
from gedilearn.registry import DATA_SETS


def test_moons_without_noise_lie_on_two_half_circles():
    data = moons(n=200, noise=0.0)
    upper, lower = data.x[data.y == 0], data.x[data.y == 1]
    np.testing.assert_allclose(np.hypot(upper[:, 0], upper[:, 1]), 1)
    np.testing.assert_allclose(np.hypot(lower[:, 0] - 1, lower[:, 1] - 0.5), 1)
    assert upper[:, 1].min() > -1e-9
    assert lower[:, 1].max() < 0.5 + 1e-9


@pytest.mark.parametrize("maker", [moons, circles])
def test_toy_sets_follow_their_seed(maker):
    assert maker().x.shape == (1000, 2)
    assert len(set(np.bincount(maker().y).tolist())) == 1
    assert fingerprint(maker(random_state=3).x) == fingerprint(maker(random_state=3).x)
    assert fingerprint(maker(random_state=3).x) != fingerprint(maker(random_state=4).x)


@pytest.mark.parametrize(("n", "share", "sizes"), [(1000, 0.8, [800, 200]), (7, 0.5, [3, 4])])
def test_moons_hold_the_shares_asked_for(n, share, sizes):
    assert np.bincount(moons(n, share=share).y).tolist() == sizes
    assert np.bincount(moons(100, share=0.29).y).tolist() == [29, 71]


def test_builtin_names_load_what_their_makers_make():
    assert list(DATA_SETS)[:3] == ["moons", "circles", "digits"]
    for name, maker in {"moons": moons, "circles": circles, "digits": digits}.items():
        data = load(name)
        assert data.name == name
        assert data.source == "built-in"
        assert fingerprint(data.x) == fingerprint(maker().x)


def test_importing_the_readers_imports_no_heavy_library():
    code = (
        "import sys, gedilearn.data.load\n"
        "heavy = {'sklearn', 'pyarrow', 'PIL', 'torch', 'pandas'} & set(sys.modules)\n"
        "sys.exit(', '.join(heavy) or None)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


# --- registered from outside --------------------------------------------------------------------


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
    with pytest.raises(InputError, match=r"did you mean my-line\?"):
        load("my-lime")
