"""Files of data: sound, damaged, or only something that looks like one; and who reads them."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from fuzz import tiny
from fuzz.contents import (
    CONTENTS,
    arrays,
    cifar_files,
    contents,
    idx,
    idx_files,
    large_pictures,
    mat_files,
    npy_head,
    npz,
    pictures,
    plain_picture,
)
from fuzz.damage import byte_damages, mostly
from fuzz.entries import Bomb, File, Folder, Link, Pipe, Sparse, Template
from fuzz.player import Case, Entry


def not_files(name: str) -> st.SearchStrategy[Entry]:
    """What only looks like a file; and files of which the disk holds little."""
    targets = ["/dev/zero", "/dev/full", "nowhere", name, "..", "/proc/self/mem", "/dev/stdin"]
    gigabytes = [
        Sparse(name, npy_head("(1000000000, 2)"), 16 * 10**9 + 128),
        Sparse(name, b"", 2**34),
    ]
    bombs = [Bomb("x.npz", npy_head("(200000000, 2)"), 3200 * 2**20)] if name == "x.npz" else []
    others: list[Entry] = [Pipe(name), Folder(name), File(name, b""), *gigabytes, *bombs]
    return st.sampled_from([*(Link(name, target) for target in targets), *others])


@st.composite
def image_folders(draw: Any) -> list[Entry]:
    """Images, flat or in folders of classes, some of them damaged or no images at all."""
    entries: list[Entry] = [Folder("x")]
    flat, common = draw(st.booleans()), draw(mostly(plain_picture, pictures))
    damaged = byte_damages.map(lambda damage: damage.apply(common))
    strange = st.one_of(pictures, large_pictures, st.binary(max_size=20), damaged)
    for k in range(draw(mostly(st.just(12), st.integers(0, 12)))):
        name = f"x/{k}.png" if flat else f"x/{'ab'[k % 2]}/{k}.png"
        content = draw(strange) if k < 2 and draw(st.integers(0, 4)) == 4 else common
        entries.append(File(name, content))
    if draw(st.integers(0, 3)) == 3:
        odd = draw(st.sampled_from(["x/z.png", "x/a/z.png", "x/\udcff.png", "x/\udcff/z.png"]))
        links = [Link(odd, target) for target in ("nowhere", "/dev/zero", "..")]
        entries.append(draw(st.sampled_from([*links, File(odd, common)])))
    return entries


# --- what is done with them ---------------------------------------------------------------------

TABLES = ("x.csv", "x.tsv", "x.parquet")
IMAGES = ("images", "x-images-idx3-ubyte", "x-images-idx3-ubyte.gz", "x.bin", "x.mat")
ODD_BEGINNINGS = [
    "\udcff",
    "./-",
    "a b",
    "é",
    "x\n",
    "%s",
    "[red]",
    "~",
    "a=b",
    "a:b",
    "{",
    "$HOME",
]


@st.composite
def uses(draw: Any, data: str, kind: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """A command that reads the data, and what it may write."""
    clusters = str(draw(mostly(st.just(2), st.sampled_from([3, 30]))))
    fit = ("fit", data, "-k", clusters, "--out", "r", *tiny.options())
    more = [("--inits", "2"), ("--method", "swav"), ("--method", "jem")]
    if kind in TABLES:
        more = [("--label-column", name) for name in ("a", "b", "z")]
    elif kind == "images":
        more = [("--size", size) for size in ("8x8", "8", "0", "99999999", "4x")]
        more += [("--skip-broken",), ("--skip-broken", "--size", "8")]
    run = "t/run"
    others = [
        (("predict", run, data), ()),
        (("predict", run, data, "--proba", "--out", "o.csv"), ("o.csv",)),
        (("predict", run, data, "--score", "gradient_norm"), ()),
        (("explain", run, data), ()),
        (("evaluate", run, "--test", data, "--samples", "0", "--quiet"), ("t/run/evaluation",)),
        (("evaluate", run, "--ood", data, "--samples", "4", "--steps", "1"), ("t/run/evaluation",)),
        (("resume", run, "--data", data), ()),
    ]
    fits = [((*fit, *draw(mostly(st.just(()), st.sampled_from(more)))), ("r",))]
    return draw(st.sampled_from(fits) | st.sampled_from(others))


@st.composite
def cases(draw: Any) -> Case:
    """One or more files of data and a command that reads them."""
    kind = draw(st.sampled_from([*CONTENTS, "images", "images", "cache"]))
    if kind == "cache":
        return draw(imports())
    if kind == "images":
        entries, data = draw(image_folders()), "x"
    else:
        data = kind
        if draw(st.integers(0, 7)) == 7:
            entries = [draw(not_files(kind))]
        else:
            if draw(st.integers(0, 5)) == 5:
                data = draw(st.sampled_from(ODD_BEGINNINGS)) + kind
            entries = [File(data, draw(contents(kind)))]
        if kind.endswith("idx3-ubyte") and draw(st.booleans()):
            entries.append(File(kind.replace("images-idx3", "labels-idx1"), idx((12,), False)))
    same = "images" if kind in IMAGES else "finished"
    template = draw(mostly(st.just(same), st.sampled_from(["images", "finished"])))
    arguments, writes = draw(uses(data, kind))
    return Case((Template("t", template), *entries), arguments, writes=writes)


@st.composite
def imports(draw: Any) -> Case:
    """`gedi data get NAME --from x`, with files that carry the names of published ones."""
    names = {
        "mnist": [
            f"{part}-{what}-ubyte"
            for part in ("train", "t10k")
            for what in ("images-idx3", "labels-idx1")
        ],
        "cifar10": [f"data_batch_{k}.bin" for k in range(1, 6)] + ["test_batch.bin"],
        "cifar100": ["train.bin", "test.bin"],
        "svhn": ["train_32x32.mat", "test_32x32.mat"],
    }
    name = draw(st.sampled_from(list(names)))
    files = {"mnist": idx_files, "svhn": mat_files()}.get(name, cifar_files)
    command = ("data", "get", name, "--from", "x")
    # The cache is there, with the file that is locked while it is written to.
    entries: list[Entry] = [Folder("x"), File(f"cache/.{name}.lock", b"")]
    if draw(st.integers(0, 2)) == 0:
        parts = st.sampled_from(["x_train", "y_train", "x_test", "y_test", "x"])
        content = draw(st.dictionaries(parts, arrays, max_size=4).map(npz))
        return Case((*entries, File(f"x/{name}.npz", content)), command, writes=("cache",))
    for each in names[name]:
        sort = draw(st.integers(0, 9))
        if sort == 9:
            entries.append(draw(not_files(f"x/{each}")))
        elif sort:
            entries.append(File(f"x/{each}", draw(files)))
    return Case(tuple(entries), command, writes=("cache",))
