"""Published sets: fetched, checked, read, and kept in the cache whole or not at all."""

from __future__ import annotations

import errno
import gzip
import hashlib
import http.server
import io
import json
import shutil
import struct
import tarfile
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy.io import savemat

from gedilearn.cli import prepare as commands
from gedilearn.cli.app import Screen
from gedilearn.data.load import is_name, known_formats, load
from gedilearn.errors import InputError
from gedilearn.io import cache_root
from gedilearn.paper import published as module
from gedilearn.paper.published import SETS, File, PublishedSet, Split, get, is_cached
from gedilearn.registry import DATA_SETS

SHARED = Path("/work/shared/data")
real = pytest.mark.skipif(not SHARED.is_dir(), reason=f"the real data is not at {SHARED}")
RNG = np.random.default_rng(0)
RECORDS = RNG.integers(0, 256, (9, 3073), dtype=np.uint8)
RECORDS[:, 0] = np.arange(9)
PARTS = {"one.bin": RECORDS[:4], "two.bin": RECORDS[4:7], "test.bin": RECORDS[7:]}


def file(name: str, content: bytes) -> File:
    return File(name, len(content), f"sha256:{hashlib.sha256(content).hexdigest()}")


def refusal(call: Callable[..., object], *arguments: object) -> str:
    with pytest.raises(InputError) as caught:
        call(*arguments)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.fixture(autouse=True)
def root(tmp_path, monkeypatch) -> Iterator[Path]:
    monkeypatch.setenv("GEDI_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    yield tmp_path / "cache"
    shutil.rmtree(tmp_path / "cache", ignore_errors=True)  # real sets are large


@pytest.fixture
def publish(monkeypatch) -> Iterator[Callable[[PublishedSet], None]]:
    """Adds a set that is known by its name for one test."""
    added = []

    def publish(known: PublishedSet) -> None:
        monkeypatch.setitem(SETS, known.name, known)
        DATA_SETS.register(known.name, known)
        added.append(known.name)

    yield publish
    for name in added:
        DATA_SETS.remove(name)


@pytest.fixture
def folder(tmp_path) -> Path:
    """The published files of the set `tiny`, in the layout of CIFAR-10: plain, and the archive."""
    inside = tmp_path / "published" / "tiny-bin"
    inside.mkdir(parents=True)
    with tarfile.open(inside.parent / "tiny.tar.gz", "w:gz") as archive:
        for name, records in (*PARTS.items(), ("../outside.bin", RECORDS)):
            (inside / name).write_bytes(records.tobytes()) if "/" not in name else None
            info = tarfile.TarInfo(f"tiny-bin/{name}")
            info.size = records.size
            archive.addfile(info, io.BytesIO(records.tobytes()))
    return inside.parent


@pytest.fixture
def tiny(folder, publish) -> PublishedSet:
    """A set of 7 + 2 images, whose site does not answer."""
    one, two, test = (file(name, records.tobytes()) for name, records in PARTS.items())
    splits = {"train": Split((one, two), 7), "test": Split((test,), 2)}
    archive = file("tiny.tar.gz", (folder / "tiny.tar.gz").read_bytes())
    site = "http://127.0.0.1:9/"
    source = PublishedSet("tiny", "for tests", site, (3, 32, 32), 10, splits, archive, "tiny-bin")
    publish(source)
    return source


def check_tiny() -> None:
    train, test = load("tiny"), load("tiny:test")
    np.testing.assert_array_equal(train.x.reshape(7, -1), RECORDS[:7, 1:])
    np.testing.assert_array_equal(test.x.reshape(2, -1), RECORDS[7:, 1:])
    assert train.y.tolist() == [0, 1, 2, 3, 4, 5, 6] and test.y.tolist() == [7, 8]


# --- the sets -----------------------------------------------------------------------------------


@pytest.mark.parametrize("source", SETS.values(), ids=SETS.keys())
def test_every_download_has_a_size_and_a_checksum(source):
    for each in source.downloads:
        kind, _, digest = each.checksum.partition(":")
        assert each.size > 1000 and kind == "sha256" and len(bytes.fromhex(digest)) == 32
    assert source.site.startswith("http") and source.site.endswith("/")
    if source.archive:
        record = int(np.prod(source.shape)) + (2 if source.classes == 100 else 1)
        for split in source.splits.values():
            assert sum(each.size for each in split.images) == split.count * record


def test_the_registry_has_the_names_of_all_published_sets():
    assert list(DATA_SETS)[3:] == list(SETS)
    assert all(DATA_SETS[name] is known for name, known in SETS.items())


def test_names_of_sets_may_have_a_split(tmp_path, monkeypatch):
    assert is_name("cifar10") and is_name("mnist:test") and not is_name("./mnist")
    assert "mnist has no split 'valid'; write mnist:train or mnist:test" in refusal(
        load, "mnist:valid"
    )
    assert "svhn-extra has no split 'test'" in refusal(load, "svhn-extra:test")
    assert "moons has no split 'test'; write moons" in refusal(load, "moons:test")
    assert [module.split_for_testing(name) for name in ("mnist", "mnist:test", "moons", None)] == [
        "mnist:test",
        *(None, None, None),
    ]
    assert "did you mean 'cifar10'" in refusal(module.find, "cifra10")
    monkeypatch.chdir(tmp_path)
    assert "did you mean cifar100?" in refusal(load, "cifar1000")
    assert "fashion-mnist" in known_formats()


# --- the cache ----------------------------------------------------------------------------------


def test_the_cache_is_where_the_environment_says(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert cache_root() == tmp_path / "cache"
    monkeypatch.delenv("GEDI_CACHE")
    assert cache_root() == tmp_path / "xdg" / "gedi-learn"
    monkeypatch.setenv("GEDI_CACHE", "~/here")
    assert cache_root() == tmp_path / "home" / "here"


def test_looking_for_a_set_makes_no_folder(tiny, root):
    assert not is_cached("tiny")
    assert "tiny is not on this machine: gedi data get tiny" in refusal(load, "tiny")
    assert not root.exists()


@pytest.mark.parametrize("ready", ["files", "archive", "inside"])
def test_a_set_comes_from_a_folder(tiny, folder, root, tmp_path, ready):
    if ready == "archive":
        shutil.rmtree(folder / "tiny-bin")
    if ready == "files":
        (folder / "tiny.tar.gz").unlink()
    assert get("tiny", folder / "tiny-bin" if ready == "inside" else folder) == root / "tiny"
    check_tiny()
    assert sorted(path.name for path in root.rglob("*.*")) == sorted(PARTS)
    assert not list(tmp_path.rglob("outside.bin"))
    data = module.open_set("tiny", "test")
    assert (data.name, data.source, data.x.dtype) == ("tiny-test", "tiny:test", np.uint8)


@pytest.mark.parametrize("damage", ["gone", "cut", "content"])
def test_a_damaged_set_is_refused_and_an_incomplete_one_is_replaced(tiny, folder, root, damage):
    get("tiny", folder)
    path = root / "tiny" / "tiny-bin" / "two.bin"
    whole = path.read_bytes()
    if damage == "gone":
        path.unlink()
    else:
        path.write_bytes(whole[:-1] if damage == "cut" else b"\xff" + whole[1:])
    if damage == "content":
        words = refusal(load, "tiny")
        assert f"{root / 'tiny'} is damaged (tiny: train is uint8" in words
        assert words.endswith("remove it, then gedi data get tiny")
        return
    assert not is_cached("tiny")
    assert "tiny is not on this machine: gedi data get tiny" in refusal(load, "tiny")
    get("tiny", folder)
    check_tiny()


def test_a_full_disk_is_one_line_and_leaves_no_set(tiny, folder, monkeypatch):
    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(module.shutil, "copyfile", full)
    with pytest.raises(OSError, match="No space left on device"):
        get("tiny", folder)
    assert not is_cached("tiny")


def test_the_listing_says_which_sets_are_here(tiny, folder, capsys, root):
    commands.get("tiny", folder, screen=Screen(json=True))
    shown = json.loads(capsys.readouterr().out)
    assert shown == {"name": "tiny", "path": str(root / "tiny")}
    commands.list_sets(Screen(json=True))
    listed = json.loads(capsys.readouterr().out)
    assert {row["name"]: row["cached"] for row in listed["sets"]} == {
        name: name == "tiny" for name in SETS
    }


# --- downloads ----------------------------------------------------------------------------------


class Server(http.server.ThreadingHTTPServer):
    """Serves `content` under any name; the first answers end after so many bytes of it."""

    daemon_threads = True
    content, status, cuts = b"", 200, ()

    def start(self, content: bytes, *cuts: int, status: int = 200) -> None:
        self.content, self.cuts, self.status = content, list(cuts), status


class Handler(http.server.BaseHTTPRequestHandler):
    server: Server

    def log_message(self, *_: object) -> None:
        pass

    def do_GET(self) -> None:
        self.send_response(self.server.status)
        self.send_header("Content-Length", str(len(self.server.content)))
        self.end_headers()
        end = self.server.cuts.pop(0) if self.server.cuts else None
        self.wfile.write(self.server.content[:end])


@pytest.fixture
def server(tiny, monkeypatch) -> Iterator[Server]:
    with Server(("127.0.0.1", 0), Handler) as server:
        site = f"http://127.0.0.1:{server.server_port}/"
        monkeypatch.setitem(SETS, "tiny", replace(tiny, site=site))
        monkeypatch.setattr("time.sleep", lambda _: None)  # before pooch asks again
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def test_a_set_comes_from_its_site_and_the_download_is_not_kept(server, folder, root):
    server.start((folder / "tiny.tar.gz").read_bytes())
    lines: list[str] = []
    get("tiny", tell=lines.append)
    check_tiny()
    assert any("tiny.tar.gz: " in line and "MB" in line for line in lines)
    assert sorted(path.name for path in root.rglob("*.*")) == sorted(PARTS)
    lines.clear()
    get("tiny", tell=lines.append)
    assert lines == [f"tiny is there already: {root / 'tiny'}"]


def test_a_download_that_was_cut_is_fetched_again(server, folder):
    content = (folder / "tiny.tar.gz").read_bytes()
    server.start(content, 1000)
    get("tiny")
    check_tiny()
    assert not server.cuts


@pytest.mark.parametrize("case", ["offline", "missing", "changed", "longer", "always cut"])
def test_a_download_that_fails_is_one_line_with_the_way_out(server, folder, tiny, root, case):
    content = (folder / "tiny.tar.gz").read_bytes()
    message = ""
    if case == "offline":
        SETS["tiny"] = tiny
    elif case == "missing":
        server.start(b"", status=404)
        message = "404 Client Error"
    elif case == "always cut":
        server.start(content, 1000, 2000)
    else:
        server.start(content[:-1] + b"?" if case == "changed" else content + b"?")
        message = "does not match the known hash"
    line = refusal(get, "tiny")
    assert message in line and f"download tiny.tar.gz from {SETS['tiny'].site}" in line
    assert line.endswith("name the folder: directory='DIR'")
    assert not is_cached("tiny")
    assert not [each for each in root.glob("**/*") if each.is_file()]


# --- folders ------------------------------------------------------------------------------------


def test_a_changed_file_is_named_before_anything_is_read(tiny, folder, root):
    path = folder / "tiny-bin" / "test.bin"
    path.write_bytes(path.read_bytes()[:-1] + b"?")
    assert f"{path}: not test.bin as published" in refusal(get, "tiny", folder)
    shutil.rmtree(folder / "tiny-bin")
    (folder / "tiny.tar.gz").write_bytes(b"something else")
    assert "tiny.tar.gz: not tiny.tar.gz as published" in refusal(get, "tiny", folder)
    assert not is_cached("tiny")


def test_a_folder_that_lacks_files_says_which(tiny, folder, tmp_path):
    (folder / "tiny.tar.gz").unlink()
    (folder / "tiny-bin" / "two.bin").unlink()
    assert f"{folder}: a folder without two.bin" in refusal(get, "tiny", folder)
    for none in (tmp_path, tmp_path / "no"):
        line = refusal(get, "tiny", none)
        assert "one.bin, two.bin, test.bin" in line and "tiny.tar.gz" in line


def idx_bytes(values: np.ndarray, shape: tuple[int, ...] | None = None, kind: int = 8) -> bytes:
    shape = values.shape if shape is None else shape
    head = bytes([0, 0, kind, len(shape)]) + struct.pack(f">{len(shape)}I", *shape)
    return head + values.astype(np.uint8).tobytes()


GREY = {
    "x_train": RNG.integers(0, 256, (6, 4, 5), dtype=np.uint8),
    "y_train": np.arange(6),
    "x_test": RNG.integers(0, 256, (2, 4, 5), dtype=np.uint8),
    "y_test": np.array([9, 0]),
}


@pytest.fixture
def grey(publish) -> PublishedSet:
    """A set in the layout of MNIST."""
    splits = {}
    for split, n in (("train", 6), ("test", 2)):
        x, y = (gzip.compress(idx_bytes(GREY[f"{name}_{split}"]), mtime=0) for name in "xy")
        images = file(f"{split}-images-idx3-ubyte.gz", x)
        splits[split] = Split((images,), n, (file(f"{split}-labels-idx1-ubyte.gz", y),))
    source = PublishedSet("grey", "", "http://127.0.0.1:9/", (1, 4, 5), 10, splits)
    publish(source)
    return source


@pytest.mark.parametrize("layout", ["gzipped", "npz", "npz with channels last"])
def test_grey_images_come_from_idx_files_or_an_npz(tmp_path, grey, layout):
    if layout.startswith("npz"):
        last = {k: v[..., None] if v.ndim == 3 and "last" in layout else v for k, v in GREY.items()}
        np.savez(tmp_path / "grey.npz", **last)
    for key, values in GREY.items():
        kind = "images-idx3" if key[0] == "x" else "labels-idx1"
        path = tmp_path / f"{key[2:]}-{kind}-ubyte"
        if layout == "gzipped":
            packed = gzip.compress(idx_bytes(values), mtime=0)
            path.with_name(f"{path.name}.gz").write_bytes(packed)
    get("grey", tmp_path)
    for split in ("train", "test"):
        data = load(f"grey:{split}")
        np.testing.assert_array_equal(data.x[:, 0], GREY[f"x_{split}"])
        np.testing.assert_array_equal(data.y, GREY[f"y_{split}"])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"x_train": np.zeros((7, 4, 5), np.uint8)}, "images (7, 1, 4, 5)"),
        ({"x_train": np.zeros((6, 4, 5))}, "train is float64"),
        ({"y_test": np.array([3, 10])}, "labels (2,) from 3 to 10"),
        ({"y_train": np.array([{}] * 6)}, "Object arrays cannot be loaded"),
        ({"x_test": None}, "no array x_test"),
    ],
)
def test_an_npz_with_other_content_is_refused(tmp_path, grey, root, change, message):
    np.savez(tmp_path / "grey.npz", **{k: v for k, v in (GREY | change).items() if v is not None})
    assert message in refusal(get, "grey", tmp_path)
    assert not is_cached("grey") and not root.exists()


# --- formats ------------------------------------------------------------------------------------


@pytest.mark.parametrize("classes", [10, 100])
def test_cifar_pixels_are_red_green_and_blue_planes_in_rows(tmp_path, classes, publish):
    heads, data = (1 if classes == 10 else 2), b""
    for i in range(5):
        labels = [i] if classes == 10 else [i % 20, 7 * i]
        data += bytes(labels) + RNG.integers(0, 256, 3072, dtype=np.uint8).tobytes()
    (tmp_path / "a.bin").write_bytes(data)
    splits = {"train": Split((file("a.bin", data),), 5)}
    source = PublishedSet("photos", "", "http://127.0.0.1:9/", (3, 32, 32), classes, splits)
    publish(source)
    get("photos", tmp_path)
    x, y = load("photos").x, load("photos").y
    assert x.shape == (5, 3, 32, 32) and x.dtype == np.uint8
    for n, channel, row, column in [(0, 0, 0, 0), (2, 1, 3, 30), (4, 2, 31, 31)]:
        place = n * (heads + 3072) + heads + channel * 1024 + row * 32 + column
        assert x[n, channel, row, column] == data[place]
    assert y.tolist() == [i if classes == 10 else 7 * i for i in range(5)]


def test_svhn_calls_the_digit_zero_ten(tmp_path, publish):
    x = RNG.integers(0, 256, (32, 32, 3, 10), dtype=np.uint8)
    path = tmp_path / "train.mat"
    savemat(path, {"X": x, "y": np.arange(1, 11, dtype=np.uint8)[:, None]}, do_compression=True)
    splits = {"train": Split((file("train.mat", path.read_bytes()),), 10)}
    source = PublishedSet("house", "", "http://127.0.0.1:9/", (3, 32, 32), 10, splits)
    publish(source)
    get("house", tmp_path)
    data = load("house")
    assert data.y.tolist() == [1, 2, 3, 4, 5, 6, 7, 8, 9, 0]
    np.testing.assert_array_equal(data.x, np.moveaxis(x, (3, 2), (0, 1)))


# --- real data ----------------------------------------------------------------------------------


@real
def test_real_cifar_10_is_imported_whole():
    get("cifar10", SHARED)
    train, test = load("cifar10"), load("cifar10:test")
    assert np.bincount(train.y).tolist() == [5000] * 10
    assert np.bincount(test.y).tolist() == [1000] * 10
    raw = np.fromfile(SHARED / "cifar-10-batches-bin" / "data_batch_3.bin", np.uint8)
    np.testing.assert_array_equal(train.x[27_777].ravel(), raw[7777 * 3073 + 1 : 7778 * 3073])
    assert train.y[27_777] == raw[7777 * 3073]


@real
def test_a_real_npz_of_images_is_read():
    path = SHARED / "svhn-train-first1083-unlabelled.npz"
    with np.load(path, allow_pickle=False) as archive:
        np.testing.assert_array_equal(load(path).x.transpose(0, 2, 3, 1), archive["x"])
