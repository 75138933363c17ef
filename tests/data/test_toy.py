"""The built-in sets."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from gedilearn.data.dataset import fingerprint
from gedilearn.data.digits import digits
from gedilearn.data.files import BUILTIN, load
from gedilearn.data.toy import circles, moons
from gedilearn.errors import InputError


def test_moons_without_noise_lie_on_two_half_circles():
    data = moons(n=200, noise=0.0)
    upper, lower = data.x[data.y == 0], data.x[data.y == 1]
    np.testing.assert_allclose(np.hypot(upper[:, 0], upper[:, 1]), 1)
    np.testing.assert_allclose(np.hypot(lower[:, 0] - 1, lower[:, 1] - 0.5), 1)
    assert upper[:, 1].min() > -1e-9
    assert lower[:, 1].max() < 0.5 + 1e-9


def test_circles_without_noise_have_radius_one_and_factor():
    data = circles(n=100, noise=0.0, factor=0.3)
    radius = np.hypot(data.x[:, 0], data.x[:, 1])
    np.testing.assert_allclose(radius, np.where(data.y == 0, 1, 0.3))


@pytest.mark.parametrize("maker", [moons, circles])
def test_toy_sets_follow_their_seed(maker):
    assert maker().x.shape == (1000, 2)
    assert np.bincount(maker().y).tolist() == [500, 500]
    assert fingerprint(maker(random_state=3).x) == fingerprint(maker(random_state=3).x)
    assert fingerprint(maker(random_state=3).x) != fingerprint(maker(random_state=4).x)


@pytest.mark.parametrize("maker", [moons, circles])
def test_noise_is_the_standard_deviation_about_the_curve(maker):
    clean, noisy = maker(n=4000, noise=0.0), maker(n=4000, noise=0.1)
    distance = np.linalg.norm(noisy.x[:200, None] - clean.x[None], axis=2).min(axis=1)
    # Across a curve only one of the two noise directions counts: a half normal of mean 0.8 sigma.
    assert distance.mean() == pytest.approx(0.1 * np.sqrt(2 / np.pi), rel=0.25)


@pytest.mark.parametrize(
    "bad", [{"n": 1}, {"noise": -0.1}, {"noise": float("nan")}, {"factor": 1.0}, {"factor": -1}]
)
def test_impossible_toy_sets_are_refused(bad):
    with pytest.raises(InputError, match=next(iter(bad))):
        circles(**bad)


def test_digits_are_1797_vectors_of_64_pixels():
    data = digits()
    assert data.x.shape == (1797, 64)
    assert data.x.dtype == np.float64
    assert (data.x.min(), data.x.max()) == (0, 16)
    assert sorted(set(data.y.tolist())) == list(range(10))
    assert len(data.columns) == 64


def test_builtin_names_load_what_their_makers_make():
    assert set(BUILTIN) == {"moons", "circles", "digits"}
    for name, maker in BUILTIN.items():
        data = load(name)
        assert data.name == name
        assert data.source == "built-in"
        assert fingerprint(data.x) == fingerprint(maker().x)


def test_importing_the_readers_imports_no_heavy_library():
    code = (
        "import sys, gedilearn.data.files\n"
        "heavy = {'sklearn', 'pyarrow', 'PIL', 'torch', 'pandas'} & set(sys.modules)\n"
        "sys.exit(', '.join(heavy) or None)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
