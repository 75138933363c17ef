"""The content of files: of every format, sound, with false claims, or damaged."""

from __future__ import annotations

import gzip
import io
import json
import math
import struct
import zipfile
import zlib
from datetime import date
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import yaml
from hypothesis import strategies as st
from PIL import Image


def mostly(sound: st.SearchStrategy[Any], wild: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """The sound one, in two of three cases."""
    return st.integers(0, 2).flatmap(lambda k: wild if k == 2 else sound)


# --- damage -------------------------------------------------------------------------------------

# Values where others are expected. Large ones are far too large: no test of a size may rest on the
# memory of this machine.
STRANGE: list[Any] = [
    *(None, True, False, 0, 1, -1, 2, 3, 10**12, -(10**12), 2**63, 10**30, 10**400),
    *(0.5, -0.5, 1e-320, 1e308, -1e308, math.nan, math.inf, -math.inf),
    *("", "a", "auto", "nan", "1", "\0", "../x", "/etc", "/dev/zero", "x" * 10_000, "\ud800"),
    *([], [0], [1, 2, 3], [[0, 1], [1, 2]], [[1, 2], [0, 1]], [[0.5, math.nan]], [None], ["a"]),
    *([[[[[[]]]]]], [0] * 10_000, {}, {"a": 1}, {"tensor": "a"}, {"list": []}, {"value": None}),
]
IN_YAML: list[Any] = [date(2020, 1, 1), b"a", {"a"}, {1: 2}]  # which JSON has not
shares = st.floats(0, 1, allow_nan=False)
pieces = st.binary(min_size=1, max_size=8) | st.sampled_from(
    [b"\xff", b"\0" * 8, b"\xff" * 8, b"\n", b'"', b"{", b"nan", b"\xf0\x9f", b"[" * 100_000]
)


@st.composite
def damaged_bytes(draw: Any, content: bytes) -> bytes:
    """Cut, overwritten, longer or doubled; headers decide much, so often near the beginning."""
    at, more = int(draw(shares | st.floats(0, 0.02)) * len(content)), draw(pieces)
    ways = [content[:at], content[:at] + more + content[at:], content * 2]
    return bytes(draw(st.sampled_from([*ways, content[:at] + more + content[at + len(more) :]])))


def _places(tree: Any) -> Any:
    """Every value below the root, as its owner and the key or index there."""
    if isinstance(tree, dict | list):
        items = tree.items() if isinstance(tree, dict) else enumerate(tree)
        for key, value in list(items):
            yield tree, key
            yield from _places(value)


@st.composite
def edited(draw: Any, tree: Any, strange: list[Any] = STRANGE) -> Any:
    """A tree of dicts and lists with another value at a place, without it, or with another key."""
    places, by = list(_places(tree)), draw(st.sampled_from(strange))
    if not places:
        return by
    owner, key = places[min(int(draw(shares) * len(places)), len(places) - 1)]
    way = draw(st.sampled_from(["value", "value", "value", "gone", "renamed"]))
    if way == "value":
        owner[key] = by
    elif way == "renamed" and isinstance(owner, dict):
        owner["other"] = owner.pop(key)
    else:
        del owner[key]
    return tree


@st.composite
def damaged_tensors(draw: Any, content: bytes) -> bytes:
    """A safetensors file with an edit of its header, of the JSON in it, or of a tensor."""
    (length,) = struct.unpack("<Q", content[:8])
    header, body = json.loads(content[8 : 8 + length]), content[8 + length :]
    way = draw(st.sampled_from(["header", "notes", "tensor", "tensor"]))
    if way == "tensor":
        tensors = [v for v in header.values() if v.get("dtype") in ("F32", "F64", "I64")]
        chosen, (begin, end) = (t := draw(st.sampled_from(tensors))), t["data_offsets"]
        value = draw(st.sampled_from([math.nan, math.inf, -math.inf, 0.0, -1.0, 1e30, 7.0]))
        kind = {"F32": "<f4", "F64": "<f8", "I64": "<i8"}[chosen["dtype"]]
        values = np.frombuffer(body[begin:end], kind).copy()
        values[: None if draw(st.booleans()) else 1] = (
            value if kind != "<i8" or abs(value) < 2**62 else -(2**62)
        )
        body = body[:begin] + values.tobytes() + body[end:]
    elif way == "notes" and header.get("__metadata__"):
        key = next(iter(header["__metadata__"]))
        notes = draw(edited(json.loads(header["__metadata__"][key])))
        header["__metadata__"][key] = json.dumps(notes)
    else:
        header = draw(edited(header))
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + body


@st.composite
def damaged(draw: Any, name: str, content: bytes) -> bytes:
    """A file of a run with damage to its bytes, or to the values in it."""
    ending = name.rpartition(".")[2]
    if draw(st.integers(0, 2)) == 0 or ending not in ("safetensors", "json", "jsonl", "yaml"):
        return bytes(draw(damaged_bytes(content)))
    if ending == "safetensors":
        return bytes(draw(damaged_tensors(content)))
    if ending == "json":
        return json.dumps(draw(edited(json.loads(content)))).encode()
    if ending == "yaml":
        tree = draw(edited(yaml.safe_load(content), STRANGE + IN_YAML))
        return yaml.safe_dump(tree, sort_keys=False).encode(errors="surrogatepass")
    lines = content.decode().splitlines() or ["{}"]
    at = draw(st.integers(0, len(lines) - 1))
    lines[at] = json.dumps(draw(edited(json.loads(lines[at]))))
    return "".join(f"{line}\n" for line in lines).encode()


# --- arrays -------------------------------------------------------------------------------------

DTYPES = ["f8", "f4", "f2", ">f8", "i8", "i4", "u1", "?", "c16", "U3", "S2", "M8[s]", "O"]
FILLS = ["normal", "normal", "zero", "nan", "infinite", "large", "tiny", "outlier"]
shapes = st.one_of(
    st.sampled_from([(24, 2), (24, 2), (12, 1, 8, 8), (12, 3, 8, 8), (12, 8, 8, 3)]),
    st.lists(st.integers(0, 6), max_size=5).map(tuple),
)


def array(dtype: str, shape: tuple[int, ...], fill: str) -> np.ndarray:
    """An array with these values, as far as its type can hold them."""
    x = np.random.default_rng(0).normal(0, 3, shape) * {"large": 1e299, "tiny": 1e-310}.get(fill, 1)
    single = {"nan": np.nan, "infinite": np.inf, "outlier": 1e30}
    if fill in single and x.size:
        x.reshape(-1)[-1] = single[fill]
    elif fill == "zero":
        x = np.zeros(shape)
    with np.errstate(all="ignore"):
        return np.nan_to_num(x).astype("i8").view(dtype) if dtype[0] == "M" else x.astype(dtype)


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


CLAIMS = [
    *("(24, 2)", "(1000000000000, 2)", "(2, 1000000000000)", "(-1, 2)", "(0, 0)", "()", "3", "'a'"),
    *("(24.0, 2)", "(True, 2)", "((24, 2))", f"({2**62}, 8)", "(" * 200, "(24, 2)" + " " * 60_000),
]
TYPES = ["<f8", "|O", "<f16", "|V99999", "<U99999999", "<M8[s]", "a", "i4,i4", ""]
claims = st.builds(npy_head, st.sampled_from(CLAIMS), st.sampled_from(TYPES))


@lru_cache
def npz_bomb() -> bytes:
    """An archive of some megabytes whose array unpacks to 3.2 GB of zeros."""
    out = io.BytesIO()
    with (
        zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive,
        archive.open("x.npy", "w", force_zip64=True) as file,
    ):
        file.write(npy_head("(200000000, 2)"))
        for _ in range(200):
            file.write(bytes(16_000_000))
    return out.getvalue()


# --- tables -------------------------------------------------------------------------------------

CELLS = [
    *("0", "1", "-2.5", "3e2", "1e999", "nan", "", " ", "inf", "text", "1_000", "1,5", "0x10"),
    *("2024-02-30", "1.1.2024", "9999-12-31T23:59-23:59", "0000-01-01", "yes", "NA", "9" * 25),
    *('"', '"a"', '"1\n2"', "é", "\ufeff1", "1" * 400, "\0", "=1+1", "٣"),
]
cells = st.sampled_from(CELLS[:3]) | st.sampled_from(CELLS)
WIDE = ",".join(["1"] * 1_000_000).encode() + b"\n"
big_tables = st.sampled_from([WIDE, WIDE * 2, b'"' + b"1" * 200_000, b"1\n" * 200_000 + b"a\n"])


@st.composite
def tables(draw: Any, mark: str) -> bytes:
    """Rows of cells, most of them numbers, with a header or none."""
    mark = draw(mostly(st.just(mark), st.sampled_from(",\t;|")))
    width = draw(mostly(st.just(2), st.integers(1, 4)))
    height = draw(mostly(st.just(24), st.integers(0, 30)))
    rng = np.random.default_rng(draw(st.integers(0, 9)))
    rows = [[f"{value:.3f}" for value in row] for row in rng.normal(0, 3, (height, width))]
    if draw(st.booleans()):  # a column of a few words, or of dates
        words = draw(st.lists(cells, min_size=1, max_size=4))
        rows = [[*row[1:], words[k % len(words)]] for k, row in enumerate(rows)]
    for _ in range(draw(st.integers(0, 3)) if rows else 0):
        row = rows[draw(st.integers(0, height - 1))]
        row[draw(st.integers(0, len(row) - 1))] = draw(cells)
        row += draw(st.lists(cells, max_size=1))
    heads = [[], ["a", "b", "c", "d"][:width], ["a"] * width, ["0", "1"][:width]]
    head, end = draw(st.sampled_from(heads)), draw(st.sampled_from(["\n", "\n", "\r\n", "\r"]))
    text = end.join(mark.join(row) for row in ([head] if head else []) + rows) + end
    return text.encode(draw(st.sampled_from(["utf-8"] * 8 + ["utf-16", "latin-1"])), "replace")


def parquet(table: pa.Table, times: int = 1) -> bytes:
    out = pa.BufferOutputStream()
    with pq.ParquetWriter(out, table.schema) as writer:
        for _ in range(times):
            writer.write_table(table)
    return bytes(out.getvalue())


@st.composite
def parquets(draw: Any) -> bytes:
    """Columns of several types, of which one value may be missing."""
    height = draw(mostly(st.just(24), st.sampled_from([0, 1])))
    names = draw(mostly(st.just("ab"), st.sampled_from(["aa", "a", "abz"])))
    columns = []
    for _ in names:
        kind = draw(mostly(st.just("double"), st.sampled_from(["int64", "bool", "string", "list"])))
        values = [[k * k % 7] if kind == "list" else k * k % 7 for k in range(height)]
        column = pa.array(values) if kind == "list" else pa.array(values, "int64").cast(kind)
        missing = draw(st.integers(0, 9)) == 9 and height
        column = pa.concat_arrays([column[1:], pa.nulls(1, column.type)]) if missing else column
        columns.append(column)
    return parquet(pa.table(columns, names=list(names)))


@lru_cache
def parquet_bomb() -> bytes:
    """60 KB that unpack to 3 GB: a dictionary of one value, named 4e8 times in runs."""
    part = pa.DictionaryArray.from_arrays(pa.array(np.zeros(2**22, np.int8)), pa.array([1.5]))
    return parquet(pa.table([part], names=["a"]), 96)


# --- images -------------------------------------------------------------------------------------


def picture(mode: str, size: tuple[int, int], form: str) -> bytes:
    """A picture of noise; as PNG in grey where its form has no such mode."""
    noise = np.random.default_rng(1).integers(0, 256, (size[1], size[0]), dtype=np.uint8)
    image, out = Image.fromarray(noise), io.BytesIO()
    changed = Image.fromarray(noise.astype(np.uint16)) if mode == "I;16" else image.convert(mode)
    try:
        changed.save(out, form)
    except (OSError, ValueError):  # 16 bits as GIF is a ValueError
        out = io.BytesIO()
        image.save(out, "PNG")
    return out.getvalue()


def png_claim(width: int, height: int) -> bytes:
    """A PNG whose header says that it is this large."""
    head = b"IHDR" + struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    chunk = struct.pack(">I", 13) + head + struct.pack(">I", zlib.crc32(head))
    return b"\x89PNG\r\n\x1a\n" + chunk + PLAIN[33:]


PLAIN = picture("L", (8, 8), "PNG")
pictures = st.builds(
    picture,
    st.sampled_from(["L", "RGB", "1", "P", "I;16", "RGBA", "CMYK"]),
    mostly(st.just((8, 8)), st.sampled_from([(7, 9), (1, 1), (64, 2)])),
    st.sampled_from(["PNG", "JPEG", "GIF", "BMP", "WEBP", "TIFF"]),
)
sides = st.sampled_from([0, 8, 30_000, 2**31 - 1])
odd_pictures = st.one_of(
    pictures, st.builds(png_claim, sides, sides), st.binary(max_size=20), damaged_bytes(PLAIN)
)


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

# --- all of them --------------------------------------------------------------------------------

names = st.sampled_from(["x", "X", "y", "labels", "data", "a", "é"])
archives = mostly(
    st.fixed_dictionaries({"x": sound_arrays}), st.dictionaries(names, arrays, max_size=3)
)
CONTENTS: dict[str, st.SearchStrategy[bytes]] = {
    "x.npy": mostly(arrays.map(npy), claims),
    "x.npz": mostly(archives.map(npz), archives.map(npz) | st.builds(npz_bomb)),
    "x.csv": mostly(tables(","), tables(",") | big_tables),
    "x.tsv": tables("\t"),
    "x.parquet": mostly(parquets(), parquets() | st.builds(parquet_bomb)),
    "x-images-idx3-ubyte": idx_files,
    "x-images-idx3-ubyte.gz": idx_files,
    "x.bin": st.binary(max_size=9),  # of published sets, which are known by their checksums
    "x.mat": st.binary(max_size=9),
}


@st.composite
def contents(draw: Any, name: str) -> bytes:
    """The content of a file of this name, in a third of the cases damaged."""
    content = draw(CONTENTS[name])
    return bytes(draw(damaged_bytes(content)) if draw(st.integers(0, 2)) == 2 else content)
