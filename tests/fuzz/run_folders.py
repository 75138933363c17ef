"""Runs, finished and interrupted, with damaged files, and every command that reads them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

from fuzz import tiny
from fuzz.damage import damages, mostly
from fuzz.entries import (
    Damaged,
    File,
    Folder,
    Link,
    Pipe,
    Repeated,
    Replaced,
    Sparse,
    Template,
    is_small,
)
from fuzz.player import Case, Entry
from fuzz.settings_values import BOMB

RUN, DATA = "t/run", "t/x.npy"
# Text that is short for what is in it: as long as may be read, of YAML and of JSON.
YAML, JSON = 1_900_000, 95_000_000
DENSE = [
    *((b"[", b"0,", YAML), (b"format: 1", b":1", YAML), (b"{", b"a,", YAML), (b"", b"\n", YAML)),
    *((b"[", b"[],", JSON), (b"[", b"{},", JSON), (b"", b"{}\n", JSON), (b"", b"\n", JSON)),
]


@dataclass(frozen=True)
class Copied:
    """The content of another file of the folder."""

    name: str
    other: str

    def put(self, folder: Path) -> None:
        other = folder / self.other
        if is_small(other):
            (folder / self.name).write_bytes(other.read_bytes())


@st.composite
def changes(draw: Any, names: list[str]) -> Entry:
    """Something wrong with one of the files, or with one of their folders."""
    name = draw(st.sampled_from(names))
    other = draw(st.sampled_from(names))
    sort = draw(st.sampled_from(["damaged"] * 8 + ["removed", "swapped", "replaced", "folder"]))
    if sort == "damaged":
        return Damaged(name, draw(damages(name)))
    if sort == "removed":
        return Replaced(name)
    if sort == "swapped":
        return Replaced(name, Copied(name, other))
    if sort == "folder":
        folder = str(Path(name).parent)
        return Replaced(
            folder, draw(st.sampled_from([None, File(folder, b"a"), Link(folder, ".")]))
        )
    data = "../" * name.count("/") + DATA
    instead = [
        *(Link(name, target) for target in ("/dev/zero", "nowhere", Path(name).name, data)),
        *(Pipe(name), Folder(name), File(name, b""), Sparse(name, b"", 2**34)),
        *(Repeated(name, head, piece, size // len(piece)) for head, piece, size in DENSE),
        *(File(name, b"[" * 50_000), File(name, f"format: 1\nsettings: {BOMB}\n".encode())),
    ]
    return Replaced(name, draw(st.sampled_from(instead)))


COMMANDS: list[tuple[tuple[str, ...], tuple[str, ...]]] = [
    (("predict", RUN, DATA, "--proba"), ()),
    (("predict", f"{RUN}/model.safetensors", DATA, "--json"), ()),
    (("predict", RUN, DATA, "--out", "o.npy"), ("o.npy",)),
    (("predict", f"{RUN}/model.safetensors", DATA, "--score", "gradient_norm"), ()),
    (("sample", RUN, "-n", "3", "--steps", "2", "--out", "o.npy"), ("o.npy",)),
    (("sample", RUN, "-n", "3", "--steps", "2", "--out", "o.csv"), ("o.csv",)),
    (("explain", RUN), ()),
    (("explain", f"{RUN}/model.safetensors", DATA), ()),
    (("evaluate", RUN, "--samples", "4", "--steps", "1"), (f"{RUN}/evaluation",)),
    (("evaluate", RUN, "--samples", "0", "--probe", "none", "--json"), (f"{RUN}/evaluation",)),
    (("explain", RUN), ()),
    (("explain", f"{RUN}/model.safetensors", DATA, "--json"), ()),
    (("report", RUN), (f"{RUN}/report.html", f"{RUN}/figures")),
]
RESUMES = [("resume", RUN), ("resume", RUN, "--json"), ("resume", RUN, "--data", DATA)]


@st.composite
def cases(draw: Any) -> Case:
    """A run with something wrong and a command that reads it."""
    template = draw(st.sampled_from(["finished", "interrupted", "interrupted", "images"]))
    names = [f"t/{name}" for name in tiny.names_in(template)]
    number = draw(mostly(st.just(1), st.integers(2, 3)))
    entries = [draw(changes(names)) for _ in range(number)]
    use = draw(st.sampled_from(COMMANDS))
    if template == "interrupted" and draw(st.integers(0, 5)):
        use = (draw(st.sampled_from(RESUMES)), (RUN,))
    elif draw(st.integers(0, 4)) == 4:
        # What a fit wrote last is missing: it is written anew.
        entries += [Replaced(f"{RUN}/{name}") for name in ("summary.json", "labels.csv")]
        use = (RESUMES[0], (RUN,))
    return Case((Template("t", template), *entries), use[0], writes=use[1])
