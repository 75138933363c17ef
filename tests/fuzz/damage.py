"""Damage to the content of files: to bytes, to values of JSON and YAML, to tensors."""

from __future__ import annotations

import json
import math
import struct
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any, Protocol

import yaml
from hypothesis import strategies as st


def mostly(sound: st.SearchStrategy[Any], wild: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """The sound one, in two of three cases."""
    return st.integers(0, 2).flatmap(lambda k: wild if k == 2 else sound)


shares = st.floats(0, 1, allow_nan=False)  # of the length of a file, or of the number of places

# Values where others are expected. Those that are large are so by far: no test of a size may rest
# on how much this machine has.
STRANGE: list[Any] = [
    *(None, True, False, 0, 1, -1, 2, 3, 10**12, -(10**12), 2**63, 10**30, 10**400),
    *(0.5, -0.5, 1e-320, 1e308, -1e308, math.nan, math.inf, -math.inf),
    *("", "a", "auto", "nan", "1", "\0", "../x", "/etc", "/dev/zero", "x" * 10_000, "\ud800"),
    *([], [0], [1, 2, 3], [[0, 1], [1, 2]], [[1, 2], [0, 1]], [[0.5, math.nan]], [None], ["a"]),
    *([[[[[[]]]]]], [0] * 10_000, {}, {"a": 1}, {"tensor": "a"}, {"list": []}, {"value": None}),
]
strange = st.sampled_from(STRANGE)
# What YAML knows and JSON does not.
IN_YAML: list[Any] = [date(2020, 1, 1), datetime(2020, 1, 1, 12), b"a", {"a"}, {1: 2}, {None: 1}]


class Damage(Protocol):
    """A change of the content of a file."""

    def apply(self, content: bytes) -> bytes:
        """The content with the damage done."""


# --- bytes --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Cut:
    """The end is missing."""

    share: float

    def apply(self, content: bytes) -> bytes:
        return content[: int(self.share * len(content))]


@dataclass(frozen=True)
class Overwritten:
    """Other bytes at a place; beyond the end they are added."""

    share: float
    by: bytes

    def apply(self, content: bytes) -> bytes:
        at = int(self.share * len(content))
        return content[:at] + self.by + content[at + len(self.by) :]


@dataclass(frozen=True)
class Inserted:
    """More bytes at a place."""

    share: float
    more: bytes

    def apply(self, content: bytes) -> bytes:
        at = int(self.share * len(content))
        return content[:at] + self.more + content[at:]


@dataclass(frozen=True)
class Doubled:
    """All of it twice."""

    def apply(self, content: bytes) -> bytes:
        return content + content


some_bytes = st.binary(min_size=1, max_size=8) | st.sampled_from(
    [b"\xff", b"\0" * 8, b"\xff" * 8, b"\n", b'"', b"{", b"nan", b"\xf0\x9f", b"[" * 100_000]
)
byte_damages: st.SearchStrategy[Damage] = st.one_of(
    st.builds(Cut, shares),
    # Headers are short and decide much: half of the places are near the beginning.
    st.builds(Overwritten, shares | st.floats(0, 0.02), some_bytes),
    st.builds(Inserted, shares | st.floats(0, 0.02), some_bytes),
    st.builds(Doubled),
)


# --- values -------------------------------------------------------------------------------------

# What reading raises where earlier damage has left nothing to change.
DAMAGED_BEFORE = (
    *(ValueError, TypeError, AttributeError, LookupError, ArithmeticError, RecursionError),
    *(struct.error, yaml.YAMLError),
)


@dataclass(frozen=True)
class Edited:
    """A value of a tree of dicts and lists becomes another, or its key goes, or gets a new name."""

    share: float  # which of all values, counted from the root
    by: Any
    key: str | None = None  # "" takes the value away; other text is the new name of its key

    def change(self, tree: Any) -> Any:
        """The tree with the change, made in place but for the root."""
        places = list(_places(tree))
        if not places:
            return self.by
        owner, key = places[min(int(self.share * len(places)), len(places) - 1)]
        if self.key is None:
            owner[key] = self.by
        elif self.key == "" or isinstance(owner, list):
            del owner[key]
        else:
            owner[self.key] = owner.pop(key)
        return tree


def _places(tree: Any) -> Any:
    """Every value below the root, as what holds it and the key or index there."""
    items = tree.items() if isinstance(tree, dict) else enumerate(tree)
    if isinstance(tree, dict | list):
        for key, value in list(items):
            yield tree, key
            if isinstance(value, dict | list):
                yield from _places(value)


edits = st.builds(Edited, shares, strange, st.sampled_from([None, None, None, "", "other"]))


@dataclass(frozen=True)
class InText:
    """An edit of a JSON or YAML file, or of one line of JSON lines."""

    form: str  # 'json', 'jsonl' or 'yaml'
    edit: Edited

    def apply(self, content: bytes) -> bytes:
        try:
            text = content.decode()
            if self.form == "jsonl":
                lines = text.splitlines()
                at = int(self.edit.share * 7919) % max(1, len(lines))
                lines[at] = json.dumps(self.edit.change(json.loads(lines[at])))
                return "".join(f"{line}\n" for line in lines).encode()
            if self.form == "json":
                return json.dumps(self.edit.change(json.loads(text))).encode()
            changed = self.edit.change(yaml.safe_load(text))
            return yaml.safe_dump(changed, sort_keys=False).encode(errors="surrogatepass")
        except DAMAGED_BEFORE:
            return content


@dataclass(frozen=True)
class InHeader:
    """An edit of the header of a safetensors file, or of the JSON text that is in it."""

    edit: Edited
    inside: bool

    def apply(self, content: bytes) -> bytes:
        try:
            (length,) = struct.unpack("<Q", content[:8])
            header = json.loads(content[8 : 8 + length])
            notes = header.get("__metadata__", {})
            if self.inside and notes:
                key = next(iter(notes))
                notes[key] = json.dumps(self.edit.change(json.loads(notes[key])))
            else:
                header = self.edit.change(header)
        except DAMAGED_BEFORE:
            return content
        text = json.dumps(header).encode()
        return struct.pack("<Q", len(text)) + text + content[8 + length :]


@dataclass(frozen=True)
class InTensor:
    """Numbers of a tensor of a safetensors file become another one."""

    share: float  # which tensor
    value: float
    all: bool

    def apply(self, content: bytes) -> bytes:
        try:
            (length,) = struct.unpack("<Q", content[:8])
            header = json.loads(content[8 : 8 + length])
            tensors = [v for v in header.values() if v.get("dtype") in ("F32", "F64", "I64")]
            chosen = tensors[int(self.share * len(tensors)) % len(tensors)]
            claimed = (8 + length + int(at) for at in chosen["data_offsets"])
            begin, end = sorted(max(0, min(at, len(content))) for at in claimed)
        except DAMAGED_BEFORE:
            return content
        whole = (
            int(max(-(2.0**62), min(2.0**62, self.value))) if self.value == self.value else 2**62
        )
        code = {"F32": "<f", "F64": "<d", "I64": "<q"}[chosen["dtype"]]
        one = struct.pack(code, whole if code == "<q" else self.value)
        size = (end - begin) // len(one) if self.all else min(1, (end - begin) // len(one))
        return content[:begin] + one * size + content[begin + size * len(one) :]


tensor_damages = st.builds(
    InTensor,
    shares,
    st.sampled_from([math.nan, math.inf, -math.inf, 0.0, -1.0, 1e30, 7.0]),
    st.booleans(),
)
header_damages = st.builds(InHeader, edits, st.booleans())
BY_ENDING: dict[str, st.SearchStrategy[Damage]] = {
    ".safetensors": header_damages | tensor_damages,
    ".json": st.builds(InText, st.just("json"), edits),
    ".jsonl": st.builds(InText, st.just("jsonl"), edits),
    ".yaml": st.builds(
        InText,
        st.just("yaml"),
        edits | edits | st.builds(Edited, shares, st.sampled_from(IN_YAML)),
    ),
}


def damages(name: str) -> st.SearchStrategy[Damage]:
    """Damage to a file of this name: to its bytes, or to the values in it."""
    ending = "." + name.rpartition(".")[2]
    known = BY_ENDING.get(ending)
    return known | known | byte_damages if known is not None else byte_damages
