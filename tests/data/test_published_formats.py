"""CIFAR, SVHN and idx files: what comes out, and what each kind of bad file says."""

from __future__ import annotations

import gzip
import struct
import tracemalloc
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from scipy.io import savemat

from gedilearn.data.load import load
from gedilearn.data.published_formats import (
    read_cifar,
    read_idx_images,
    read_idx_labels,
    read_svhn,
)
from gedilearn.errors import InputError

SHARED = Path("/work/shared/data")
real = pytest.mark.skipif(not SHARED.is_dir(), reason=f"the real data is not at {SHARED}")
RNG = np.random.default_rng(0)


def refusal(call: Callable[..., object], *arguments: object) -> str:
    with pytest.raises(InputError) as caught:
        call(*arguments)
    assert "\n" not in str(caught.value)
    return str(caught.value)


# --- CIFAR --------------------------------------------------------------------------------------


def cifar_bytes(n: int, classes: int) -> bytes:
    """Written record by record, as the description of the layout says."""
    data = b""
    for i in range(n):
        labels = [i % 10] if classes == 10 else [i % 20, (7 * i) % 100]
        data += bytes(labels) + RNG.integers(0, 256, 3072, dtype=np.uint8).tobytes()
    return data


@pytest.mark.parametrize("classes", [10, 100])
def test_cifar_pixels_are_red_green_and_blue_planes_in_rows(tmp_path, classes):
    data = cifar_bytes(5, classes)
    (tmp_path / "a.bin").write_bytes(data)
    x, y = read_cifar(tmp_path / "a.bin")
    assert x.shape == (5, 3, 32, 32) and x.dtype == np.uint8
    heads = 1 if classes == 10 else 2
    for n, channel, row, column in [(0, 0, 0, 0), (2, 1, 3, 30), (4, 2, 31, 31)]:
        place = n * (heads + 3072) + heads + channel * 1024 + row * 32 + column
        assert x[n, channel, row, column] == data[place]
    assert y.tolist() == [i if classes == 10 else 7 * i for i in range(5)]


@pytest.mark.parametrize("change", [-1, 1, -3072])
def test_a_cifar_file_of_another_size_is_refused_with_its_size(tmp_path, change):
    path = tmp_path / "a.bin"
    data = cifar_bytes(3, 10) + b"\0"
    path.write_bytes(data[: 3 * 3073 + change])
    assert f"{path}: {3 * 3073 + change} bytes" in refusal(read_cifar, path)
    assert f"{3 * 3073 + change} bytes" in refusal(read_cifar, path, 10)


def test_a_cifar_label_out_of_range_names_the_record(tmp_path):
    path = tmp_path / "a.bin"
    data = bytearray(cifar_bytes(3, 10))
    data[2 * 3073] = 10
    path.write_bytes(data)
    assert "record 2 has label 10, expected 0 to 9" in refusal(read_cifar, path)
    fine = bytearray(cifar_bytes(3, 100))
    fine[3074 + 1] = 100
    path.write_bytes(fine)
    assert "record 1 has label 100, expected 0 to 99" in refusal(read_cifar, path, 100)
    coarse = bytearray(cifar_bytes(3, 100))
    coarse[0] = 20
    path.write_bytes(coarse)
    assert "record 0 has label 20" in refusal(read_cifar, path, 100)


def test_a_size_that_fits_both_cifar_layouts_is_told_by_the_labels(tmp_path):
    path = tmp_path / "a.bin"
    for classes, n in ((10, 3074), (100, 3073)):
        records = np.full((n, 3072 + (1 if classes == 10 else 2)), 200, np.uint8)
        records[:, :2] = 3
        path.write_bytes(records.tobytes())
        assert len(read_cifar(path)[0]) == n


@real
def test_real_cifar_files_are_read():
    data = load(SHARED / "cifar-10-batches-bin" / "test_batch.bin")
    assert data.x.shape == (10_000, 3, 32, 32) and data.name == "test_batch"
    assert np.bincount(data.y).tolist() == [1000] * 10
    data = load(SHARED / "cifar-100-test-first916.bin")
    assert data.x.shape == (916, 3, 32, 32)
    assert len(np.unique(data.y)) == 100


# --- SVHN ---------------------------------------------------------------------------------------


def digits(n: int) -> dict[str, np.ndarray]:
    x = RNG.integers(0, 256, (32, 32, 3, n), dtype=np.uint8)
    return {"X": x, "y": np.arange(1, n + 1, dtype=np.uint8).reshape(n, 1)}


@pytest.mark.parametrize("compressed", [False, True])
def test_svhn_calls_the_digit_zero_ten(tmp_path, compressed):
    arrays = digits(10)
    savemat(tmp_path / "a.mat", arrays, do_compression=compressed)
    data = load(tmp_path / "a.mat")
    assert data.y.tolist() == [1, 2, 3, 4, 5, 6, 7, 8, 9, 0]
    assert data.x.dtype == np.uint8
    for n, channel, row, column in [(0, 0, 0, 0), (9, 2, 5, 31), (3, 1, 31, 4)]:
        assert data.x[n, channel, row, column] == arrays["X"][row, column, channel, n]


def test_svhn_without_labels_has_none(tmp_path):
    savemat(tmp_path / "a.mat", {"X": digits(4)["X"]})
    x, y = read_svhn(tmp_path / "a.mat")
    assert x.shape == (4, 3, 32, 32) and y is None


def test_a_single_svhn_image_is_enough(tmp_path):
    savemat(tmp_path / "a.mat", digits(1))
    x, y = read_svhn(tmp_path / "a.mat")
    assert x.shape == (1, 3, 32, 32) and y.tolist() == [1]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"X": np.zeros((32, 32, 3, 10))}, "X is double"),
        ({"X": np.zeros((32, 31, 3, 10), np.uint8)}, "expected uint8 (32, 32, 3, n)"),
        ({"X": np.array([{"a": 1}, 2], dtype=object)}, "X is a cell"),
        ({"X": {"a": 1}}, "X is a struct"),
        ({"y": np.ones((9, 1), np.uint8)}, "(9, 1) in 9 bytes for 10 images"),
        ({"y": {"a": 1}}, "y is a struct"),
        ({"X": np.zeros((32, 32, 3, 10), np.uint8) * 1j}, "X is double"),
        ({"y": np.ones((10, 1)) * 1j}, "y is double"),
        ({"y": np.array(["a"] * 10)}, "y is text"),
        ({"y": np.full((10, 1), 11, np.uint8)}, "image 0 has label 11"),
        ({"y": np.full((10, 1), 1.5)}, "image 0 has label 1.5"),
        ({"y": np.full((10, 1), np.nan)}, "image 0 has label nan"),
    ],
)
def test_other_matlab_content_is_refused(tmp_path, change, message):
    savemat(tmp_path / "a.mat", digits(10) | change)
    assert message in refusal(read_svhn, tmp_path / "a.mat")


def test_a_matlab_file_without_x_is_refused(tmp_path):
    savemat(tmp_path / "a.mat", {"z": np.ones(3)})
    assert "holds no X" in refusal(load, tmp_path / "a.mat")


def test_other_versions_of_matlab_files_are_refused(tmp_path):
    savemat(tmp_path / "four.mat", {"X": np.ones((2, 2))}, format="4")
    assert "version 4" in refusal(load, tmp_path / "four.mat")
    head = b"MATLAB 7.3 MAT-file".ljust(124, b" ") + b"\x00\x02IM"
    (tmp_path / "new.mat").write_bytes(head + b"\x89HDF\r\n\x1a\n" + bytes(500))
    assert "version 7.3 (HDF5)" in refusal(load, tmp_path / "new.mat")


@pytest.mark.parametrize("compressed", [False, True])
def test_a_matlab_file_cut_short_anywhere_is_refused(tmp_path, compressed):
    path = tmp_path / "a.mat"
    savemat(path, digits(5), do_compression=compressed)
    whole = path.read_bytes()
    for length in (1, 60, 127, 130, 200, len(whole) // 2, len(whole) - 100):
        path.write_bytes(whole[:length])
        assert str(path) in refusal(load, path)


def mat_array(
    name: bytes, shape: tuple[int, ...], content: bytes, size: int, flags: int = 9
) -> bytes:
    """An array of uint8 in the version 5 format that announces `size` bytes of values."""

    def element(kind: int, content: bytes, length: int | None = None) -> bytes:
        head = struct.pack("<II", kind, len(content) if length is None else length)
        return head + content + bytes(-len(content) % 8)

    inner = element(6, struct.pack("<II", flags, 0))
    inner += element(5, struct.pack(f"<{len(shape)}i", *shape)) + element(1, name)
    return element(14, inner + element(2, content, size))


def mat_file(folder: Path, *arrays: bytes, compressed: bool = False) -> Path:
    content = b""
    for array in arrays:
        packed = zlib.compress(array)
        content += struct.pack("<II", 15, len(packed)) + packed if compressed else array
    path = folder / "a.mat"
    path.write_bytes(b"MATLAB 5.0 MAT-file".ljust(124, b" ") + b"\x00\x01IM" + content)
    return path


def check_refused_without_memory(path: Path, message: str) -> None:
    tracemalloc.start()
    try:
        assert message in refusal(read_svhn, path)
        assert tracemalloc.get_traced_memory()[1] < 2**25
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("compressed", [False, True])
@pytest.mark.parametrize(
    ("n", "size", "message"),
    [
        (10**9, 64, "claims 1000000000 images"),
        (3, 2**31, "in 2147483648 bytes"),
        (1, 2**32 - 8, "cannot hold"),
        (3, 20_000, "claims 3 images in 20000 bytes"),
        (-5, 64, "expected uint8 (32, 32, 3, n)"),
    ],
)
def test_a_matlab_header_that_claims_too_much_allocates_nothing(
    tmp_path, n, size, message, compressed
):
    x = mat_array(b"X", (32, 32, 3, n), bytes(64), size)
    check_refused_without_memory(mat_file(tmp_path, x, compressed=compressed), message)


@pytest.mark.parametrize("compressed", [False, True])
def test_matlab_labels_that_claim_too_much_allocate_nothing(tmp_path, compressed):
    x = mat_array(b"X", (32, 32, 3, 2), bytes(6144), 6144)
    good = mat_array(b"y", (2, 1), b"\1\2", 2)
    assert read_svhn(mat_file(tmp_path, x, good, compressed=compressed))[1].tolist() == [1, 2]
    y = mat_array(b"y", (2, 1), bytes(64), 2**31)
    message = "(2, 1) in 2147483648 bytes for 2 images"
    check_refused_without_memory(mat_file(tmp_path, x, y, compressed=compressed), message)


def test_a_large_matlab_file_may_not_claim_more_images_than_anybody_has(tmp_path):
    n = 10**6 + 1
    x = mat_array(b"X", (32, 32, 3, n), bytes(64), 3072 * n)
    padding = struct.pack("<II", 99, 3_000_000) + bytes(3_000_000)
    check_refused_without_memory(mat_file(tmp_path, x, padding), f"claims {n} images")


def test_complex_images_and_arrays_that_are_there_twice_are_refused(tmp_path):
    x = mat_array(b"X", (32, 32, 3, 2), bytes(6144), 6144)
    odd = mat_array(b"X", (32, 32, 3, 2), bytes(6144), 6144, flags=9 | 0x0800)
    assert "expected uint8" in refusal(read_svhn, mat_file(tmp_path, odd))
    assert "there twice" in refusal(read_svhn, mat_file(tmp_path, x, x))


@pytest.mark.parametrize("compressed", [False, True])
def test_no_changed_byte_of_a_matlab_file_does_more_than_be_refused(tmp_path, compressed):
    path = tmp_path / "a.mat"
    savemat(path, digits(2), do_compression=compressed)
    whole = path.read_bytes()
    images = read_svhn(path)[0]
    refused = 0
    for place in [*range(120, 240), *range(len(whole) - 80, len(whole))]:
        for value in (0, 1, 14, 127, 255):
            path.write_bytes(whole[:place] + bytes([value]) + whole[place + 1 :])
            try:
                assert read_svhn(path)[0].shape == images.shape
            except InputError as error:
                refused += 1
                assert str(path) in str(error)
    assert refused > 100


# --- idx ----------------------------------------------------------------------------------------


def idx_bytes(values: np.ndarray, shape: tuple[int, ...] | None = None, kind: int = 8) -> bytes:
    shape = values.shape if shape is None else shape
    head = bytes([0, 0, kind, len(shape)]) + struct.pack(f">{len(shape)}I", *shape)
    return head + values.astype(np.uint8).tobytes()


IMAGES = RNG.integers(0, 256, (6, 4, 5), dtype=np.uint8)


@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_idx_images_find_the_labels_beside_them(tmp_path, suffix):
    pack = gzip.compress if suffix else bytes
    path = tmp_path / f"train-images-idx3-ubyte{suffix}"
    path.write_bytes(pack(idx_bytes(IMAGES)))
    data = load(path)
    np.testing.assert_array_equal(data.x, IMAGES[:, None])
    assert (data.y, data.name, data.x.dtype) == (None, "train-images", np.uint8)
    (tmp_path / "train-labels-idx1-ubyte").write_bytes(idx_bytes(np.arange(6)))
    assert load(path).y.tolist() == [0, 1, 2, 3, 4, 5]
    (tmp_path / "train-labels-idx1-ubyte").write_bytes(idx_bytes(np.arange(5)))
    assert "5 labels for 6 images" in refusal(load, path)


def test_idx_labels_and_images_are_not_taken_for_each_other(tmp_path):
    path = tmp_path / "t10k-labels-idx1-ubyte"
    path.write_bytes(idx_bytes(np.arange(6)))
    assert read_idx_labels(path, 6).tolist() == [0, 1, 2, 3, 4, 5]
    assert "not images" in refusal(load, path)
    path.write_bytes(idx_bytes(IMAGES))
    assert "not labels" in refusal(read_idx_labels, path, 6)
    assert read_idx_images(path).shape == (6, 1, 4, 5)


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"PK\3\4 something", "not an idx file"),
        (idx_bytes(IMAGES)[:9], "cut short"),
        (idx_bytes(IMAGES)[:-1], "truncated"),
        (idx_bytes(IMAGES) + b"\0", "more values"),
        (idx_bytes(IMAGES, kind=13), "type 0x0d"),
        (idx_bytes(IMAGES.reshape(-1, 5)), "2 dimensions"),
        (idx_bytes(IMAGES[:0]), "names no values"),
        (idx_bytes(IMAGES, (10**4, 10**4, 10**4)), "claims 1000000000000 bytes"),
        (idx_bytes(IMAGES, (2**32 - 1,) * 3), "more than the file can hold"),
    ],
)
def test_bad_idx_files_say_what_is_wrong_and_allocate_nothing(tmp_path, pack, data, message):
    path = tmp_path / "a-images-idx3-ubyte"
    path.write_bytes(pack(data))
    tracemalloc.start()
    try:
        assert message in refusal(read_idx_images, path)
        assert tracemalloc.get_traced_memory()[1] < 2**24
    finally:
        tracemalloc.stop()


def test_a_gzip_bomb_is_unpacked_no_further_than_its_header_says(tmp_path):
    path = tmp_path / "a-images-idx3-ubyte.gz"
    path.write_bytes(gzip.compress(idx_bytes(IMAGES) + bytes(2**27), compresslevel=1))
    tracemalloc.start()
    try:
        assert "more values" in refusal(read_idx_images, path)
        assert tracemalloc.get_traced_memory()[1] < 2**22
    finally:
        tracemalloc.stop()


def test_a_gzip_file_cut_short_is_refused(tmp_path):
    path = tmp_path / "a-images-idx3-ubyte.gz"
    whole = gzip.compress(idx_bytes(IMAGES))
    for length in (1, 5, 12, len(whole) - 1):
        path.write_bytes(whole[:length])
        assert str(path) in refusal(load, path)


@real
def test_the_real_first_svhn_images_are_read_channels_first():
    path = SHARED / "svhn-train-first1083-unlabelled.npz"
    data = load(path)
    assert data.x.shape == (1083, 3, 32, 32) and data.y is None
    with np.load(path, allow_pickle=False) as archive:
        np.testing.assert_array_equal(data.x.transpose(0, 2, 3, 1), archive["x"])
