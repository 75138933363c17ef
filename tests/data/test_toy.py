"""The built-in sets."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from scipy.special import ive
from scipy.stats import multivariate_normal, norm

from gedilearn.data.dataset import fingerprint
from gedilearn.data.load import load
from gedilearn.data.toy import (
    ANISOTROPIC,
    BLOBS_4,
    BLOBS_7,
    NOISE,
    SPIRAL_NOISE,
    Blobs,
    circle_curves,
    circles,
    digits,
    log_density_near,
    moon_curves,
    moons,
    moved,
    ring_curves,
    rings,
    rotated,
    spiral_curves,
    spirals,
    stretched,
)
from gedilearn.errors import InputError
from gedilearn.registry import DATA_SETS


def test_moons_without_noise_lie_on_two_half_circles():
    data = moons(n=200, noise=0.0)
    upper, lower = data.x[data.y == 0], data.x[data.y == 1]
    np.testing.assert_allclose(np.hypot(upper[:, 0], upper[:, 1]), 1)
    np.testing.assert_allclose(np.hypot(lower[:, 0] - 1, lower[:, 1] - 0.5), 1)
    assert upper[:, 1].min() > -1e-9
    assert lower[:, 1].max() < 0.5 + 1e-9


@pytest.mark.parametrize("maker", [moons, circles, spirals, BLOBS_4.draw])
def test_toy_sets_follow_their_seed(maker):
    assert maker().x.shape == (1000, 2)
    assert len(set(np.bincount(maker().y).tolist())) == 1
    assert fingerprint(maker(random_state=3).x) == fingerprint(maker(random_state=3).x)
    assert fingerprint(maker(random_state=3).x) != fingerprint(maker(random_state=4).x)


@pytest.mark.parametrize(
    "bad", [{"n": 1}, {"noise": -0.1}, {"noise": float("nan")}, {"factor": 1.0}, {"factor": -1}]
)
def test_impossible_toy_sets_are_refused(bad):
    with pytest.raises(InputError, match=next(iter(bad))):
        circles(**bad)


@pytest.mark.parametrize(("n", "share", "sizes"), [(1000, 0.8, [800, 200]), (7, 0.5, [3, 4])])
def test_moons_hold_the_shares_asked_for(n, share, sizes):
    assert np.bincount(moons(n, share=share).y).tolist() == sizes
    assert np.bincount(moons(100, share=0.29).y).tolist() == [29, 71]


def test_rings_without_noise_have_radius_one_two_three():
    data = rings(300, noise=0.0)
    np.testing.assert_allclose(np.hypot(*data.x.T), data.y + 1)
    assert np.bincount(data.y).tolist() == [100, 100, 100]
    with pytest.raises(InputError, match="number=1"):
        rings(number=1)


@pytest.mark.parametrize("blobs", [BLOBS_4, BLOBS_7, ANISOTROPIC], ids=lambda b: b.name)
def test_blobs_have_their_centres_and_covariance(blobs):
    k = len(blobs.centres)
    data = blobs.draw(4000 * k, random_state=1)
    for cluster in range(k):
        points = data.x[data.y == cluster]
        np.testing.assert_allclose(points.mean(0), blobs.centres[cluster], atol=0.08)
        np.testing.assert_allclose(np.cov(points.T), blobs.covariance, atol=0.08)
    with pytest.raises(InputError, match=f"n={k - 1}"):
        blobs.draw(k - 1)


def test_the_most_likely_blob_is_that_of_the_true_density():
    data = ANISOTROPIC.draw(2000)
    densities = [
        multivariate_normal(c, ANISOTROPIC.covariance).pdf(data.x) for c in ANISOTROPIC.centres
    ]
    found = ANISOTROPIC.most_likely(data.x)
    np.testing.assert_array_equal(found, np.argmax(densities, axis=0))
    wide = Blobs("wide", ((0, 0), (2, 0)), ((1, 0), (0, 1)))
    data = wide.draw(40_000)
    wrong = (wide.most_likely(data.x) != data.y).mean()
    assert wrong == pytest.approx(norm.cdf(-1), abs=0.01)  # the middle is one deviation away


def test_moved_rotated_and_stretched_sets_keep_their_labels_and_shape():
    data = circles(100)
    far, turned, long = moved(data, 1000, 1e6), rotated(data, 0.7), stretched(data, 100)
    np.testing.assert_allclose((far.x - 1e6) / 1000, data.x, atol=1e-9)
    as_complex = data.x @ [1, 1j] * np.exp(0.7j)
    np.testing.assert_allclose(turned.x @ [1, 1j], as_complex)
    np.testing.assert_allclose(long.x / [1, 100], data.x)
    for changed in (far, turned, long):
        np.testing.assert_array_equal(changed.y, data.y)


@pytest.mark.parametrize("blobs", [BLOBS_7, ANISOTROPIC], ids=lambda b: b.name)
def test_the_density_of_blobs_is_that_of_equally_likely_gaussians(blobs):
    x = np.random.default_rng(0).uniform(-5, 5, (50, 2))
    each = [multivariate_normal(c, blobs.covariance).logpdf(x) for c in blobs.centres]
    expected = np.transpose(each) - np.log(len(blobs.centres))
    np.testing.assert_allclose(blobs.joint_log_density(x), expected, rtol=1e-9)


def log_density_of_ring(x, radius, noise):
    """In closed form, with a Bessel function."""
    r = np.hypot(*x.T)
    bessel = np.log(ive(0, r * radius / noise**2))
    return bessel - (r - radius) ** 2 / (2 * noise**2) - np.log(2 * np.pi * noise**2)


@pytest.mark.parametrize(("curves", "radii"), [(ring_curves, (1, 2, 3)), (circle_curves, (1, 0.5))])
def test_the_density_near_a_circle_is_that_of_the_closed_form(curves, radii):
    x = np.random.default_rng(0).uniform(-3.2, 3.2, (200, 2))
    found = log_density_near(x, curves(), NOISE)
    near = [log_density_of_ring(x, radius, NOISE) for radius in radii]
    # Far away the nearest node counts alone, and lies a little further off than the circle.
    close = np.exp(np.transpose(near)) > 1e-9
    assert close.sum() > 20
    np.testing.assert_allclose(found[close], np.transpose(near)[close], atol=1e-6)


SMEARED = [(moons, moon_curves, NOISE), (spirals, spiral_curves, SPIRAL_NOISE)]


@pytest.mark.parametrize(("draw", "curves", "noise"), SMEARED)
def test_the_density_near_a_curve_integrates_to_one_and_is_that_of_the_points(draw, curves, noise):
    x = np.concatenate(curves())
    low, high = x.min(0) - 5 * noise, x.max(0) + 5 * noise
    axes = [np.arange(a, b, noise) for a, b in zip(low, high, strict=True)]
    grid = np.stack(np.meshgrid(*axes), -1).reshape(-1, 2)
    density = np.exp(log_density_near(grid, curves(), noise))
    np.testing.assert_allclose(density.sum(0) * noise**2, 1, rtol=1e-5)
    data = draw(4000, random_state=7)
    for k, mean in enumerate(np.transpose(density) @ grid * noise**2):
        points = data.x[data.y == k]
        np.testing.assert_allclose(points.mean(0), mean, atol=0.05)
        # The mean log density of points is minus its entropy.
        entropy = -(density[:, k] * np.log(density[:, k] + 1e-300)).sum() * noise**2
        found = log_density_near(points, curves(), noise)[:, k].mean()
        assert found == pytest.approx(-entropy, abs=0.05)


def test_builtin_names_load_what_their_makers_make():
    assert set(DATA_SETS) == {"moons", "circles", "digits"}
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
