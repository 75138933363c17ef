"""The content of files of data: of every format, sound or with false claims."""

from __future__ import annotations

import gzip
import io
import struct
import zlib
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import scipy.io
from hypothesis import strategies as st
from PIL import Image

from fuzz.damage import byte_damages, mostly

# --- arrays -------------------------------------------------------------------------------------

DTYPES = ["f8", "f4", "f2", ">f8", "i8", "i4", "u1", "?", "c16", "U3", "S2", "M8[s]", "O", "V4"]
FILLS = ["normal", "normal", "zero", "one", "nan", "infinite", "large", "tiny", "outlier"]
shapes = st.one_of(
    st.sampled_from([(24, 2), (24, 2), (12, 1, 8, 8), (12, 3, 8, 8), (12, 8, 8, 3)]),
    st.lists(st.integers(0, 6), max_size=5).map(tuple),
)


def array(dtype: str, shape: tuple[int, ...], fill: str) -> np.ndarray:
    """An array with these values, as far as its type can hold them."""
    x = np.random.default_rng(0).normal(0, 3, shape)
    single = {"nan": np.nan, "infinite": np.inf, "outlier": 1e30}
    if fill in single and x.size:
        x.reshape(-1)[-1] = single[fill]
    elif fill in ("zero", "one"):
        x = np.full(shape, float(fill == "one"))
    elif fill in ("large", "tiny"):
        x = x * (1e299 if fill == "large" else 1e-310)
    with np.errstate(all="ignore"):
        if dtype in ("M8[s]", "V4"):
            return (
                np.nan_to_num(x, posinf=0)
                .astype("i4")
                .astype("i8" if dtype[0] == "M" else "i4")
                .view(dtype)
            )
        return x.astype(dtype)


sound_arrays = st.builds(
    array,
    st.sampled_from(["f8", "f4", "i4"]),
    st.just((24, 2)),
    st.sampled_from(["normal", "outlier"]),
)
wild_arrays = st.builds(array, st.sampled_from(DTYPES), shapes, st.sampled_from(FILLS))
arrays = mostly(sound_arrays, wild_arrays)


def npy(x: np.ndarray) -> bytes:
    out = io.BytesIO()
    np.save(out, x, allow_pickle=True)
    return out.getvalue()


def npz(arrays: dict[str, np.ndarray]) -> bytes:
    out = io.BytesIO()
    np.savez_compressed(out, **arrays)
    return out.getvalue()


def npy_head(shape: str, descr: str = "<f8") -> bytes:
    """The beginning of an .npy file that claims this shape."""
    text = f"{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}\n".encode()
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text


claims = st.builds(
    npy_head,
    st.sampled_from(
        [
            *(
                "(24, 2)",
                "(1000000000000, 2)",
                "(2, 1000000000000)",
                "(-1, 2)",
                "(0, 0)",
                "()",
                "3",
            ),
            *("'a'", "(24.0, 2)", "(True, 2)", "((24, 2))", f"({2**62}, 8)", "(" * 200),
            "(24, 2)" + " " * 60_000,
        ]
    ),
    st.sampled_from(["<f8", "|O", "<f16", "|V99999", "<U99999999", "<M8[s]", "a", "i4,i4", ""]),
)

# --- tables -------------------------------------------------------------------------------------

CELLS = [
    *("0", "1", "-2.5", "3e2", "1e999", "nan", "", " ", "inf", "text", "1_000", "1,5", "0x10"),
    *("2024-02-30", "1.1.2024", "9999-12-31T23:59-23:59", "0000-01-01", "yes", "NA", "9" * 25),
    *('"', '"a"', '"1\n2"', "é", "\ufeff1", "1" * 400, "\0", "=1+1", "٣"),
]
cells = st.sampled_from(CELLS[:3]) | st.sampled_from(CELLS)


@st.composite
def tables(draw: Any, mark: str) -> bytes:
    """Rows of cells, most of them numbers, with a header or none."""
    mark = draw(mostly(st.just(mark), st.sampled_from(",\t;|")))
    width = draw(mostly(st.just(2), st.integers(1, 4)))
    height = draw(mostly(st.just(24), st.integers(0, 30)))
    sound = draw(st.booleans())
    rng = np.random.default_rng(draw(st.integers(0, 9)))
    rows = [[f"{value:.3f}" for value in row] for row in rng.normal(0, 3, (height, width))]
    if draw(st.booleans()):  # a column of a few words, or of dates
        words = draw(st.lists(cells, min_size=1, max_size=4))
        rows = [[*row[1:], words[k % len(words)]] for k, row in enumerate(rows)]
    for _ in range(0 if sound else draw(st.integers(1, 3))):
        if rows:
            row = rows[draw(st.integers(0, 30)) % height]
            row[draw(st.integers(0, 3)) % len(row)] = draw(cells)
            if draw(st.booleans()):
                row.append(draw(cells))
    head = draw(
        st.sampled_from([[], ["a", "b", "c", "d"][:width], ["a"] * width, ["0", "1"][:width]])
    )
    end = draw(st.sampled_from(["\n", "\n", "\r\n", "\r"]))
    text = end.join(mark.join(row) for row in ([head] if head else []) + rows) + end
    return text.encode(draw(st.sampled_from(["utf-8"] * 8 + ["utf-16", "latin-1"])), "replace")


WIDE = ",".join(["1"] * 1_000_000).encode() + b"\n"
big_tables = st.sampled_from([WIDE, WIDE * 2, b'"' + b"1" * 200_000, b"1\n" * 200_000 + b"a\n"])


@st.composite
def parquets(draw: Any) -> bytes:
    """Columns of several types, of which one value may be missing."""
    height = draw(mostly(st.just(24), st.sampled_from([0, 1])))
    names = draw(mostly(st.just("ab"), st.sampled_from(["aa", "a", "abz"])))
    columns = []
    for _ in names:
        kind = draw(mostly(st.just("double"), st.sampled_from(["int64", "bool", "string", "list"])))
        values = pa.array([k * k % 7 for k in range(height)])
        if kind == "list":
            column = pa.array([[value.as_py()] for value in values])
        else:
            column = values.cast("bool" if kind == "bool" else kind)
        missing = draw(st.integers(0, 9)) == 9 and height
        columns.append(
            pa.concat_arrays([column[1:], pa.nulls(1, column.type)]) if missing else column
        )
    out = pa.BufferOutputStream()
    pq.write_table(pa.table(columns, names=list(names)), out)
    return bytes(out.getvalue())


@lru_cache
def parquet_bomb() -> bytes:
    """60 KB that unpack to 3 GB: a dictionary of one value, named 4e8 times in runs."""
    part = pa.DictionaryArray.from_arrays(pa.array(np.zeros(2**22, np.int8)), pa.array([1.5]))
    table = pa.table([part], names=["a"])
    out = pa.BufferOutputStream()
    with pq.ParquetWriter(out, table.schema) as writer:
        for _ in range(96):
            writer.write_table(table)
    return bytes(out.getvalue())


# --- images -------------------------------------------------------------------------------------


def picture(mode: str, size: tuple[int, int], form: str) -> bytes:
    """A picture of noise; as PNG in grey where its form has no such mode."""
    noise = np.random.default_rng(1).integers(0, 256, (size[1], size[0]), dtype=np.uint8)
    image = Image.fromarray(noise)
    changed = Image.fromarray(noise.astype(np.uint16)) if mode == "I;16" else image.convert(mode)
    out = io.BytesIO()
    try:
        changed.save(out, form)
    except (OSError, ValueError):  # 16 bits as GIF is a ValueError
        out = io.BytesIO()
        image.save(out, "PNG")
    return out.getvalue()


MODES = ["L", "RGB", "1", "P", "I;16", "RGBA", "CMYK"]
FORMS = ["PNG", "JPEG", "GIF", "BMP", "WEBP", "TIFF"]
plain_picture = st.just(picture("L", (8, 8), "PNG"))
pictures = st.builds(
    picture,
    st.sampled_from(MODES),
    mostly(st.just((8, 8)), st.sampled_from([(7, 9), (1, 1), (64, 2)])),
    st.sampled_from(FORMS),
)


def png_claim(width: int, height: int) -> bytes:
    """A PNG whose header says that it is this large."""
    head = b"IHDR" + struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    chunk = struct.pack(">I", 13) + head + struct.pack(">I", zlib.crc32(head))
    return b"\x89PNG\r\n\x1a\n" + chunk + picture("L", (8, 8), "PNG")[33:]


sides = st.sampled_from([0, 8, 30_000, 2**31 - 1])
large_pictures = st.builds(png_claim, sides, sides)


def idx(shape: tuple[int, ...], zipped: bool, claimed: tuple[int, ...] | None = None) -> bytes:
    claimed = claimed or shape
    head = struct.pack(f">BBBB{len(claimed)}I", 0, 0, 8, len(claimed), *claimed)
    values = np.random.default_rng(0).integers(0, 10, shape, dtype=np.uint8).tobytes()
    return gzip.compress(head + values, mtime=0) if zipped else head + values


idx_files = st.builds(
    idx,
    mostly(st.just((12, 8, 8)), st.sampled_from([(12,), (0, 8, 8), (12, 28, 28)])),
    st.booleans(),
    mostly(st.none(), st.sampled_from([(12, 8, 8), (2**32 - 1,) * 3, (60_000, 28, 28)])),
)


def cifar(n: int, classes: int) -> bytes:
    labels = {10: 1, 100: 2}[classes]
    records = np.random.default_rng(0).integers(0, 256, (n, labels + 3072), dtype=np.uint8)
    records[:, :labels] %= 10
    return records.tobytes()


cifar_files = st.builds(cifar, st.integers(0, 4), st.sampled_from([10, 100]))


@st.composite
def mat_files(draw: Any) -> bytes:
    n = draw(st.sampled_from([1, 12]))
    sound = np.random.default_rng(0).integers(0, 256, (32, 32, 3, n), dtype=np.uint8)
    x = draw(mostly(st.just(sound), st.sampled_from([sound.astype(float), sound[0], sound[:0]])))
    odd = [np.ones((n, 1)), np.full((n, 1), np.nan), np.array(["a"]), np.zeros((0, 1))]
    y = draw(mostly(st.just(np.ones((n, 1), np.uint8)), st.sampled_from(odd)))
    out = io.BytesIO()
    scipy.io.savemat(out, {"X": x, "y": y}, do_compression=draw(st.booleans()))
    return out.getvalue()


# --- all of them --------------------------------------------------------------------------------

labels = st.builds(
    array,
    st.sampled_from(["i8", "f8", "U3", "O"]),
    st.sampled_from([(24,), (12,), (24, 1), ()]),
    st.sampled_from(FILLS),
)
archives = st.dictionaries(
    st.sampled_from(["x", "X", "y", "labels", "data", "a", "é"]), arrays | labels, max_size=3
)
archives = mostly(st.fixed_dictionaries({"x": sound_arrays}), archives).map(npz)
CONTENTS: dict[str, st.SearchStrategy[bytes]] = {
    "x.npy": mostly(arrays.map(npy), claims),
    "x.npz": archives,
    "x.csv": mostly(tables(","), tables(",") | big_tables),
    "x.tsv": tables("\t"),
    "x.parquet": mostly(parquets(), parquets() | st.builds(parquet_bomb)),
    "x-images-idx3-ubyte": idx_files,
    "x-images-idx3-ubyte.gz": idx_files,
    "x.bin": cifar_files,
    "x.mat": mat_files(),
}


@st.composite
def contents(draw: Any, name: str) -> bytes:
    """The content of a file of this name, in half of the cases damaged."""
    content = draw(CONTENTS[name])
    for damage in draw(mostly(st.just([]), st.lists(byte_damages, min_size=1, max_size=2))):
        content = damage.apply(content)
    return content
