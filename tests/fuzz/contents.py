"""The content of files: of every format, sound, with false claims, or damaged."""

from __future__ import annotations

import io
import json
import math
import struct
import zipfile
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import yaml
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst


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
NUMBERS = [math.nan, math.inf, -math.inf, 0.0, -1.0, 1e30, 7.0]
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
def edited(draw: Any, tree: Any) -> Any:
    """A tree of dicts and lists with another value at a place, or without it."""
    places, by = list(_places(tree)), draw(st.sampled_from(STRANGE))
    if not places:
        return by
    owner, key = places[min(int(draw(shares) * len(places)), len(places) - 1)]
    if draw(st.integers(0, 3)):
        owner[key] = by
    else:
        del owner[key]
    return tree


@st.composite
def damaged_tensors(draw: Any, content: bytes) -> bytes:
    """A safetensors file with an edit of its header, of the JSON in it, or of the numbers."""
    (length,) = struct.unpack("<Q", content[:8])
    header, body = json.loads(content[8 : 8 + length]), content[8 + length :]
    way = draw(st.sampled_from(["header", "notes", "numbers", "numbers"]))
    if way == "numbers":
        at, value = 4 * int(draw(shares) * len(body) / 4), draw(st.sampled_from(NUMBERS))
        body = body[:at] + struct.pack("<f", value) + body[at + 4 :]
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
        tree = draw(edited(yaml.safe_load(content)))
        return yaml.safe_dump(tree, sort_keys=False).encode(errors="surrogatepass")
    lines = content.decode().splitlines() or ["{}"]
    at = draw(st.integers(0, len(lines) - 1))
    lines[at] = json.dumps(draw(edited(json.loads(lines[at]))))
    return "".join(f"{line}\n" for line in lines).encode()


# --- arrays -------------------------------------------------------------------------------------

POINTS = np.random.default_rng(0).normal(0, 3, (24, 2))
shapes = st.sampled_from([(24, 2), (12, 1, 8, 8), (12, 8, 8, 3)]) | npst.array_shapes(
    min_dims=0, max_dims=5, min_side=0, max_side=6
)
wild_arrays = st.tuples(npst.scalar_dtypes(), shapes).flatmap(lambda form: npst.arrays(*form))
objects = st.just(np.array([{"a": 1}] * 24, dtype=object))
arrays = mostly(st.just(POINTS), wild_arrays | objects)


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
    *("(24.0, 2)", "(True, 2)", f"({2**62}, 8)", "(" * 200, "(24, 2)" + " " * 60_000),
]
claims = st.builds(npy_head, st.sampled_from(CLAIMS), st.sampled_from(["<f8", "|O", "<U99999999"]))


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
WIDE = ",".join(["1"] * 1_000_000).encode() + b"\n"
big_tables = st.sampled_from([WIDE, WIDE * 2, b'"' + b"1" * 200_000, b"1\n" * 200_000 + b"a\n"])


@st.composite
def tables(draw: Any, mark: str) -> bytes:
    """Rows of numbers and a column of a few words, with some odd cells, and a header or none."""
    mark = draw(mostly(st.just(mark), st.sampled_from(",\t;|")))
    words = draw(st.lists(st.sampled_from(CELLS), min_size=1, max_size=4))
    height = draw(mostly(st.just(24), st.integers(0, 30)))
    rows = [[f"{a:.3f}", f"{b:.3f}", words[k % len(words)]] for k, (a, b) in enumerate(POINTS)]
    rows = rows[:height]
    for _ in range(draw(st.integers(0, 3)) if rows else 0):
        row = draw(st.sampled_from(rows))
        row[draw(st.integers(0, 1))] = draw(st.sampled_from(CELLS))
        row += draw(st.lists(st.sampled_from(CELLS), max_size=1))
    head = draw(st.sampled_from([[], [["a", "b", "c"]], [["a"] * 3]]))
    end = draw(st.sampled_from(["\n", "\n", "\r\n", "\r"]))
    text = end.join(mark.join(row) for row in [*head, *rows]) + end
    return text.encode(draw(st.sampled_from(["utf-8"] * 8 + ["utf-16", "latin-1"])), "replace")


def parquet(table: pa.Table) -> bytes:
    out = pa.BufferOutputStream()
    pq.write_table(table, out)
    return bytes(out.getvalue())


PARQUETS = [
    parquet(pa.table({"a": range(24), "b": POINTS[:, 0]})),
    parquet(pa.table({"a": ["x", "y", None] * 8, "b": [True, False] * 12, "c": [[1]] * 24})),
    parquet(pa.table({"a": pa.array([], "int64")})),
]

# --- all of them --------------------------------------------------------------------------------

names = st.sampled_from(["x", "X", "y", "labels", "data", "a", "é"])
archives = mostly(st.just({"x": POINTS}), st.dictionaries(names, arrays, max_size=3)).map(npz)
CONTENTS: dict[str, st.SearchStrategy[bytes]] = {
    "x.npy": mostly(arrays.map(npy), claims),
    "x.npz": mostly(archives, st.builds(npz_bomb)),
    "x.csv": mostly(tables(","), big_tables),
    "x.tsv": tables("\t"),
    "x.parquet": st.sampled_from(PARQUETS),
}


@st.composite
def contents(draw: Any, name: str) -> bytes:
    """The content of a file of this name, in a third of the cases damaged."""
    content = draw(CONTENTS[name])
    return bytes(draw(damaged_bytes(content)) if draw(st.integers(0, 2)) == 2 else content)
