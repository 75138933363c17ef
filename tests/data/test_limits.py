"""Data that would unpack to more than the limit is refused before it is unpacked."""

from __future__ import annotations

import gzip
import os
import struct
import subprocess
import sys
import tracemalloc
import zipfile
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from gedilearn.data.image_folder import SkippedImages
from gedilearn.data.load import load
from gedilearn.errors import InputError

LIMIT = 4e6  # bytes


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GEDI_MAX_GB", str(LIMIT / 1e9))
    return tmp_path


def refusal(source: object, **options: object) -> str:
    """The one line that refuses it; the memory taken stays far below what it would unpack to."""
    tracemalloc.start()
    with pytest.raises(InputError) as caught:
        load(source, **options)  # type: ignore[arg-type]
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1.5 * LIMIT
    assert "\n" not in str(caught.value)
    return str(caught.value)


def header(shape: tuple[int, ...], dtype: str = "<f8") -> bytes:
    text = repr({"descr": dtype, "fortran_order": False, "shape": shape}).encode()
    text += b" " * (-(len(text) + 11) % 64) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text


# --- arrays -------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.float64, np.int8])
def test_an_npz_that_unpacks_to_more_is_refused_and_read_when_the_limit_allows_it(
    dtype, monkeypatch
):
    with zipfile.ZipFile("x.npz", "w", zipfile.ZIP_DEFLATED) as archive:
        size = 1_500_000 * np.dtype(dtype).itemsize
        archive.writestr("x.npy", header((150_000, 10), np.dtype(dtype).str) + bytes(size))
    assert Path("x.npz").stat().st_size < 100_000
    assert "set GEDI_MAX_GB=1" in refusal("x.npz")
    monkeypatch.setenv("GEDI_MAX_GB", "1")
    assert load("x.npz").x.shape == (150_000, 10)


def test_labels_of_an_npz_count_too():
    with zipfile.ZipFile("x.npz", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("x.npy", header((1, 1)) + bytes(8))
        archive.writestr("y.npy", header((600_000,)) + bytes(4_800_000))
    assert "x.npz[y]: float64 (600000,)" in refusal("x.npz")


@pytest.mark.parametrize("shape", [(10**12, 2), (2, 10**30), (-1, 2), (0, -5), (400, 3)])
def test_a_header_that_claims_more_than_there_is_is_damage(shape):
    Path("x.npy").write_bytes(header(shape) + bytes(64))
    assert "claims" in refusal("x.npy")
    with zipfile.ZipFile("x.npz", "w") as archive:
        archive.writestr("x.npy", header(shape) + bytes(64))
    assert "claims" in refusal("x.npz")


def test_an_npy_beyond_the_limit_is_refused_unread():
    Path("x.npy").write_bytes(header((10**6, 3)))
    os.truncate("x.npy", Path("x.npy").stat().st_size + 24 * 10**6)
    assert "x.npy: 24 MB, more than the 4 MB" in refusal("x.npy")


def test_bytes_of_images_count_as_bytes():
    np.save("x.npy", np.zeros((3, 1, 1000, 1000), np.uint8))
    assert load("x.npy").x.dtype == np.uint8
    np.save("x.npy", np.zeros((3000, 1000), np.uint8))  # four bytes each, once they are numbers
    assert "uint8 (3000, 1000)" in refusal("x.npy")


def test_what_is_in_an_archive_but_no_array_is_refused():
    with zipfile.ZipFile("x.npz", "w") as archive:
        archive.writestr("x", "text")
    assert "x.npz[x]: not an array" in refusal("x.npz")


# --- tables -------------------------------------------------------------------------------------


def test_a_table_of_too_many_columns_is_refused():
    Path("x.csv").write_text(",".join(map(str, range(300))) + "\n" + ",".join(["1"] * 300))
    assert "x.csv: 300 columns" in refusal("x.csv")
    pd.DataFrame(np.zeros((1, 300)), columns=map(str, range(300))).to_parquet("x.parquet")
    assert "x.parquet: 300 columns" in refusal("x.parquet")


def test_a_line_without_end_is_refused():
    Path("x.csv").write_text("1," * 20_000)
    assert "x.csv: 20001 columns" in refusal("x.csv")


def test_a_text_whose_numbers_take_more_than_the_limit_is_refused():
    Path("x.csv").write_text("1,2,3,4,5\n" * 110_000)
    assert "x.csv: 110001 rows of 5 columns: 4.4 MB" in refusal("x.csv")
    Path("x.csv").write_text("1.25000000,2.50000000\n" * 110_000)
    assert load("x.csv").x.shape == (110_000, 2)


def test_a_label_that_would_be_copied_to_every_row_is_refused():
    Path("x.csv").write_text("a,y\n1," + "x" * 10_000 + "\n" + "2,b\n" * 1000)
    assert "x.csv: labels: 40 MB" in refusal("x.csv", label_column="y")


def test_a_parquet_that_unpacks_to_more_is_refused_unread(monkeypatch):
    table = pa.table({"a": pa.array(np.zeros(600_000, np.int8))})
    pq.write_table(table, "x.parquet")
    assert Path("x.parquet").stat().st_size < 100_000
    monkeypatch.setattr(pq.ParquetFile, "read", lambda *_, **__: pytest.fail("read"))
    assert "x.parquet: 600000 rows of 1 columns: 4.8 MB" in refusal("x.parquet")


def test_long_words_of_a_parquet_are_not_copied_to_every_row():
    table = pa.table({"a": np.arange(500.0), "y": pa.array(["x" * 100_000] * 500)})
    pq.write_table(table, "x.parquet")
    assert Path("x.parquet").stat().st_size < 100_000
    script = (
        "import pyarrow\n"
        "from gedilearn.data.load import load\n"
        "try:\n"
        "    load('x.parquet', label_column='y')\n"
        "except ValueError as error:\n"
        "    print(error)\n"
        "print(pyarrow.default_memory_pool().max_memory())\n"
    )
    command = [sys.executable, "-c", script]
    told = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    assert "x.parquet: labels: 200 MB" in told[0]
    assert 0 < int(told[1]) < 5 * LIMIT


def test_columns_of_a_parquet_that_are_not_asked_for_are_not_read():
    names = ["b", "text", "a.b", "a", "y"]
    table = pa.table([[1, 2], ["u", "v"], [3, 4], [5, 6], ["one", "two"]], names=names)
    pq.write_table(table, "x.parquet")
    data = load("x.parquet", label_column="y", columns=["a", "a.b", "b"])
    np.testing.assert_array_equal(data.x, [[5, 3, 1], [6, 4, 2]])
    assert data.columns == ("a", "a.b", "b")
    assert data.y.tolist() == ["one", "two"]


# --- images and published formats ---------------------------------------------------------------


def test_a_folder_whose_images_take_more_than_the_limit_is_refused():
    for k in range(8):
        Image.new("RGB", (500, 400)).save(f"{k}.png")
    assert "the first 7 of 8 images: 4.2 MB" in refusal(Path.cwd())
    assert load(Path.cwd(), size=(8, 8)).x.shape == (8, 3, 8, 8)


def test_links_that_lead_nowhere_and_pipes_are_left_out_by_name():
    Path("folder/cat").mkdir(parents=True)
    Image.new("L", (8, 8)).save("folder/cat/a.png")
    Path("folder/cat/b.png").symlink_to("nowhere.png")
    os.mkfifo("folder/cat/c.png")
    Path("folder/d.jpg").symlink_to("/dev/zero")
    with pytest.warns(SkippedImages) as caught:
        assert load("folder").x.shape == (1, 1, 8, 8)
    words = "folder: left out 3 of 4 images that cannot be read: d.jpg, cat/b.png, cat/c.png"
    assert str(caught[0].message) == words


def test_an_idx_file_that_unpacks_to_more_is_refused():
    with gzip.open("a-idx3-ubyte.gz", "wb") as file:
        file.write(b"\0\0\x08\x03" + struct.pack(">3I", 6_000, 32, 32) + bytes(6_000 * 1024))
    assert "values: 6.14 MB" in refusal("a-idx3-ubyte.gz")


@pytest.mark.parametrize("name", ["x.npy", "x.npz", "x.csv", "x.parquet", "x.mat", "x.bin"])
def test_a_pipe_or_a_device_is_no_data(name):
    os.mkfifo(name)
    assert refusal(name) == f"{name}: not a regular file; copy its content into one"
    Path(name).unlink()
    Path(name).symlink_to("/dev/zero")
    assert refusal(name) == f"{name}: not a regular file; copy its content into one"


def test_a_large_npy_of_numbers_is_mapped_and_not_limited(monkeypatch):
    monkeypatch.setattr("gedilearn.data.numpy_files.MAPPED_FROM", 10**6)
    x = np.arange(2_000_000, dtype=np.float32).reshape(-1, 4)  # 8 MB; 4 MB may be read
    np.save("x.npy", x)
    data = load("x.npy").x
    assert isinstance(data.base, np.memmap) or isinstance(data, np.memmap)
    np.testing.assert_array_equal(data, x)
    np.save("x.npy", x.astype(">f4"))  # must be turned round, so it is read
    assert "x.npy: 8 MB, more than the 4 MB" in refusal("x.npy")
    np.save("x.npy", np.asfortranarray(x))
    assert "x.npy: 8 MB, more than the 4 MB" in refusal("x.npy")
    Path("x.npy").write_bytes(header((10**9, 4)) + bytes(2 * 10**6))
    assert "claims" in refusal("x.npy")
