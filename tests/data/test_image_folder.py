"""Folders of images of mixed sizes and modes, and with broken files among them."""

from __future__ import annotations

import struct
import tracemalloc
import warnings
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from gedilearn.data.load import SkippedImages, load, read_images
from gedilearn.errors import InputError

RNG = np.random.default_rng(0)


def noise(
    path: Path, mode: str = "RGB", size: tuple[int, int] = (8, 6), **options: object
) -> np.ndarray:
    channels = len(Image.new(mode, (1, 1)).getbands())
    pixels = RNG.integers(0, 256, (size[1], size[0], channels)).astype(np.uint8)
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(pixels.squeeze(2) if channels == 1 else pixels).save(path, **options)
    return pixels


def refusal(folder: Path, read: Callable[..., object] = read_images, **options: object) -> str:
    with pytest.raises(InputError) as caught:
        read(folder, **options)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def huge_png(path: Path, width: int, height: int) -> None:
    """A file of 100 bytes that claims this many pixels."""

    def chunk(kind: bytes, content: bytes) -> bytes:
        check = struct.pack(">I", zlib.crc32(kind + content))
        return struct.pack(">I", len(content)) + kind + content + check

    head = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    body = chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(bytes(100))) + chunk(b"IEND", b"")
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + body)


# --- folders ------------------------------------------------------------------------------------


@pytest.mark.parametrize("suffix", ["png", "bmp", "webp", "PNG"])
def test_a_flat_folder_of_colour_images_is_read_in_order(tmp_path, suffix):
    options = {"lossless": True} if suffix == "webp" else {}
    b = noise(tmp_path / f"b.{suffix}", **options)
    a = noise(tmp_path / f"a.{suffix}", **options)
    (tmp_path / "notes.txt").write_text("not an image")
    (tmp_path / ".hidden.png").write_text("not an image")
    data = load(tmp_path)
    assert data.x.dtype == np.uint8
    assert data.y is None
    np.testing.assert_array_equal(data.x, np.stack([a, b]).transpose(0, 3, 1, 2))


def test_a_palette_with_transparency_is_read_as_colour(tmp_path):
    image = Image.new("P", (2, 2), 1)
    image.putpalette([0, 0, 0, 255, 0, 255])
    image.save(tmp_path / "a.png", transparency=b"\x00\xff")
    np.testing.assert_allclose(load(tmp_path).x[0, :, 0, 0], [255, 0, 255])


def test_sub_folders_are_classes(tmp_path):
    for name in ("dog/1.png", "cat/2.png", "cat/1.png"):
        noise(tmp_path / name)
    (tmp_path / "empty").mkdir()
    data = load(tmp_path)
    assert data.y.tolist() == ["cat", "cat", "dog"]
    assert data.x.shape == (3, 3, 6, 8)
    (tmp_path / "cat").rename(tmp_path / "0")
    (tmp_path / "dog").rename(tmp_path / "1")
    assert load(tmp_path).y.tolist() == [0, 0, 1]


def test_folders_are_read_to_any_depth_and_classes_are_those_at_the_top(tmp_path):
    assert "without images" in refusal(tmp_path)
    noise(tmp_path / "cat" / "deep" / "a.png")
    assert load(tmp_path).y.tolist() == ["cat"]
    noise(tmp_path / "cat" / "a.png")
    noise(tmp_path / "dog" / "a.png")
    (tmp_path / "cat" / "loop").symlink_to(tmp_path, target_is_directory=True)
    data = load(tmp_path)
    assert data.y.tolist() == ["cat", "cat", "dog"]
    assert data.paths == ("cat/a.png", "cat/deep/a.png", "dog/a.png")
    noise(tmp_path / "a.png")
    assert load(tmp_path).y is None


@pytest.mark.parametrize("suffix", ["png", "jpg", "bmp"])
def test_a_broken_image_is_named(tmp_path, suffix):
    noise(tmp_path / "a.png", size=(40, 30))
    path = tmp_path / f"b.{suffix}"
    noise(path, size=(40, 30))
    whole = path.read_bytes()
    for content in (b"", b"junk", whole[: len(whole) // 2]):
        path.write_bytes(content)
        assert str(path) in refusal(tmp_path)


def test_an_image_in_another_format_is_not_opened_by_its_name(tmp_path):
    Image.new("RGB", (2, 2)).save(tmp_path / "a.tiff")
    (tmp_path / "a.tiff").rename(tmp_path / "a.png")
    assert "a.png" in refusal(tmp_path)


def test_a_single_image_is_sent_to_its_folder(tmp_path):
    noise(tmp_path / "a.png")
    assert "a folder of images" in refusal(tmp_path / "a.png", load)


# --- sizes --------------------------------------------------------------------------------------


def test_images_of_mixed_sizes_are_resized_to_the_size_asked_for(tmp_path):
    noise(tmp_path / "a.png", size=(8, 6))
    noise(tmp_path / "b.png", size=(20, 10))
    for broken in ("refuse", "skip"):
        words = refusal(tmp_path, broken=broken)
        assert "b.png: 20x10 pixels" in words and "a.png has 8x6; resize all images" in words
    assert read_images(tmp_path, size=(5, 7)).x.shape == (2, 3, 5, 7)


@pytest.mark.parametrize("bits", [8, 16])
def test_making_an_image_smaller_keeps_its_mean_and_order(tmp_path, bits):
    top = 2**bits - 1
    ramp = np.linspace(0, top, 64).round().astype(np.uint8 if bits == 8 else np.uint16)
    Image.fromarray(np.tile(ramp, (64, 1))).save(tmp_path / "a.png")
    x = read_images(tmp_path, size=(8, 4)).x[0, 0] / 255
    assert x.shape == (8, 4)
    assert abs(x.mean() - 0.5) < 0.01
    assert (np.diff(x, axis=1) > 0.2).all() and (np.ptp(x, axis=0) < 0.01).all()


@pytest.mark.parametrize("size", [(0, 4), (4,), (4, 10**6), (-1, 3)])
def test_a_size_that_makes_no_sense_is_refused(tmp_path, size):
    noise(tmp_path / "a.png")
    assert "give (height, width)" in refusal(tmp_path, size=size)


# --- modes --------------------------------------------------------------------------------------


def test_every_mode_becomes_colour_once_one_image_is_in_colour(tmp_path):
    grey = noise(tmp_path / "grey.png", "L")
    noise(tmp_path / "light.png", "LA")
    Image.new("1", (8, 6), 1).save(tmp_path / "one.png")
    assert (
        read_images(tmp_path).x.shape == (3, 1, 6, 8) and (read_images(tmp_path).x[2] == 255).all()
    )
    rgba = noise(tmp_path / "rgba.png", "RGBA")
    wide = RNG.integers(0, 2**16, (6, 8)).astype(np.uint16)
    Image.fromarray(wide).save(tmp_path / "wide.png")
    Image.new("P", (8, 6), 1).save(tmp_path / "zpalette.gif")
    Image.new("CMYK", (8, 6), (0, 255, 255, 0)).save(tmp_path / "cmyk.jpg")
    data = read_images(tmp_path)
    cmyk, first, _, _, second, third, _ = data.x
    assert data.x.shape == (7, 3, 6, 8)
    assert data.x.dtype == np.float32
    np.testing.assert_array_equal(first, np.repeat(grey.transpose(2, 0, 1), 3, 0))
    np.testing.assert_array_equal(second, rgba[:, :, :3].transpose(2, 0, 1))
    np.testing.assert_allclose(third, np.repeat(wide[None], 3, 0) / 65535 * 255, rtol=1e-6)
    assert cmyk[0].min() > 230 and cmyk[1:].max() < 25


def test_a_turned_photograph_is_upright_before_it_is_resized(tmp_path):
    exif = Image.Exif()
    exif[0x0112] = 6
    left_dark = np.repeat(np.array([[0] * 8 + [255] * 8], np.uint8), 8, 0)  # 8 rows, 16 columns
    Image.fromarray(left_dark).save(tmp_path / "a.png", exif=exif)
    x = read_images(tmp_path, size=(16, 8)).x[0, 0]  # clockwise: the left side comes to the top
    assert (x[:8] == 0).all() and (x[8:] == 255).all()


# --- broken files -------------------------------------------------------------------------------


def test_broken_files_are_skipped_by_choice_and_named(tmp_path):
    good = noise(tmp_path / "cat" / "b.png")
    other = noise(tmp_path / "dog" / "d.png")
    (tmp_path / "cat" / "a.png").write_bytes(b"junk")
    whole = (tmp_path / "dog" / "d.png").read_bytes()
    (tmp_path / "dog" / "c.png").write_bytes(whole[: len(whole) // 2])
    huge_png(tmp_path / "dog" / "e.png", 60_000, 60_000)
    words = refusal(tmp_path)
    assert str(tmp_path / "cat" / "a.png") in words and "broken='skip'" in words
    with pytest.warns(SkippedImages) as caught:
        data = read_images(tmp_path, broken="skip")
    names = [str(Path(*parts)) for parts in (("cat", "a.png"), ("dog", "c.png"), ("dog", "e.png"))]
    assert f"left out 3 of 5 images that cannot be read: {', '.join(names)}" in str(
        caught[0].message
    )
    assert data.y.tolist() == ["cat", "dog"]
    np.testing.assert_array_equal(data.x, np.stack([good, other]).transpose(0, 3, 1, 2))


def test_load_passes_size_and_choice_on_for_folders_alone(tmp_path):
    noise(tmp_path / "in" / "a.png", size=(8, 6))
    (tmp_path / "in" / "b.png").write_bytes(b"junk")
    with pytest.warns(SkippedImages, match="1 of 2"):
        x = load(tmp_path / "in", size=(3, 4), broken="skip").x
    assert x.shape == (1, 3, 3, 4)
    np.save(tmp_path / "x.npy", np.zeros((2, 1, 6, 8)))
    for source in (tmp_path / "x.npy", "digits", "mnist"):
        for options in ({"size": (3, 4)}, {"broken": "skip"}):
            with pytest.raises(InputError, match="size, broken: only for folders of images"):
                load(source, **options)


@pytest.mark.parametrize("side", [7_100, 10_000, 14_000, 60_000])
def test_a_small_file_that_claims_many_pixels_is_refused_undecoded(tmp_path, side):
    huge_png(tmp_path / "a.png", side, side)
    tracemalloc.start()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            with pytest.raises(InputError, match=r"a\.png.* pixels"):
                load(tmp_path)
            assert tracemalloc.get_traced_memory()[1] < 2**23
        finally:
            tracemalloc.stop()
