"""Sets in the cache: whole or not at all, from the network or from a folder."""

from __future__ import annotations

import errno
import functools
import gzip
import hashlib
import http.server
import io
import json
import shutil
import struct
import subprocess
import sys
import tarfile
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy.io import savemat

from gedilearn.cli import prepare as commands
from gedilearn.data import fetch
from gedilearn.data import published as module
from gedilearn.data.fetch import File
from gedilearn.data.load import is_name, known_formats, load
from gedilearn.data.published import cache_root, get, is_cached, open_set
from gedilearn.data.sources import SOURCES, Source, Split
from gedilearn.errors import InputError

SHARED = Path("/work/shared/data")
real = pytest.mark.skipif(not SHARED.is_dir(), reason=f"the real data is not at {SHARED}")
RNG = np.random.default_rng(0)
RECORDS = RNG.integers(0, 256, (9, 3073), dtype=np.uint8)
RECORDS[:, 0] = np.arange(9)
PARTS = {"one.bin": RECORDS[:4], "two.bin": RECORDS[4:7], "test.bin": RECORDS[7:]}


def file(name: str, content: bytes) -> File:
    sums = (hashlib.md5(content).hexdigest(), hashlib.sha256(content).hexdigest())
    return File(name, len(content), *sums)


def tar(folder: Path) -> Path:
    with tarfile.open(folder / "tiny.tar.gz", "w:gz") as archive:
        for name, records in PARTS.items():
            info = tarfile.TarInfo(f"tiny-bin/{name}")
            info.size = records.size
            archive.addfile(info, io.BytesIO(records.tobytes()))
    return folder / "tiny.tar.gz"


@pytest.fixture(autouse=True)
def root(tmp_path, monkeypatch) -> Iterator[Path]:
    monkeypatch.setenv("GEDI_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    yield tmp_path / "cache"
    shutil.rmtree(tmp_path / "cache", ignore_errors=True)  # real sets are large


@pytest.fixture
def published(tmp_path) -> Path:
    """The folder of the files as published."""
    (tmp_path / "published" / "tiny-bin").mkdir(parents=True)
    tar(tmp_path / "published")
    for name, records in PARTS.items():
        (tmp_path / "published" / "tiny-bin" / name).write_bytes(records.tobytes())
    return tmp_path / "published"


@pytest.fixture
def tiny(published, monkeypatch) -> Source:
    """A set of 7 + 2 images in the layout of CIFAR-10, without a site that answers."""
    one, two, test = (file(name, records.tobytes()) for name, records in PARTS.items())
    source = Source(
        name="tiny",
        about="for tests",
        site="http://127.0.0.1:9/",
        shape=(3, 32, 32),
        classes=10,
        splits={"train": Split((one, two), 7), "test": Split((test,), 2)},
        archive=file("tiny.tar.gz", (published / "tiny.tar.gz").read_bytes()),
        folder="tiny-bin",
    )
    monkeypatch.setitem(SOURCES, "tiny", source)
    return source


@pytest.fixture
def site(published) -> Iterator[str]:
    class Handler(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            pass

    handler = functools.partial(Handler, directory=str(published))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()
        thread.join()


def refusal(call: object, *arguments: object) -> str:
    with pytest.raises(InputError) as caught:
        call(*arguments)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def check_tiny() -> None:
    train, test = load("tiny"), load("tiny:test")
    np.testing.assert_array_equal(train.x.reshape(7, -1), RECORDS[:7, 1:])
    np.testing.assert_array_equal(test.x.reshape(2, -1), RECORDS[7:, 1:])
    assert train.y.tolist() == [0, 1, 2, 3, 4, 5, 6] and test.y.tolist() == [7, 8]


# --- where it is --------------------------------------------------------------------------------


def test_the_cache_is_where_the_environment_says(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert cache_root() == tmp_path / "cache"
    monkeypatch.delenv("GEDI_CACHE")
    assert cache_root() == tmp_path / "xdg" / "gedi-learn"
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    assert cache_root() == tmp_path / "home" / ".cache" / "gedi-learn"
    monkeypatch.setenv("GEDI_CACHE", "~/here")
    assert cache_root() == tmp_path / "home" / "here"


def test_asking_makes_no_folder(tiny, root):
    assert not is_cached("tiny")
    assert "tiny is not on this machine: gedi data get tiny" in refusal(load, "tiny")
    assert not root.exists()


# --- fetching -----------------------------------------------------------------------------------


@pytest.mark.parametrize("ready", ["files", "archive", "both"])
def test_a_set_comes_from_a_folder(tiny, published, root, ready):
    if ready == "archive":
        shutil.rmtree(published / "tiny-bin")
    if ready == "files":
        (published / "tiny.tar.gz").unlink()
    assert get("tiny", published) == root / "tiny"
    check_tiny()
    assert sorted(path.name for path in root.iterdir()) == [".tiny.lock", "tiny"]
    assert sorted(path.name for path in (root / "tiny").iterdir()) == [
        *("set.json", "test-x.npy", "test-y.npy", "train-x.npy", "train-y.npy")
    ]
    described = json.loads((root / "tiny" / "set.json").read_text())
    assert described["name"] == "tiny" and described["counts"] == {"train": 7, "test": 2}
    read = ["tiny.tar.gz"] if ready == "archive" else list(PARTS)
    assert list(described["checksums"]) == read


def test_the_folder_may_be_the_one_with_the_files_themselves(tiny, published):
    get("tiny", str(published / "tiny-bin"))
    check_tiny()


def test_a_set_comes_from_its_site_and_the_download_is_not_kept(tiny, site, monkeypatch, root):
    monkeypatch.setitem(SOURCES, "tiny", replace(tiny, site=site))
    lines: list[str] = []
    get("tiny", tell=lines.append)
    check_tiny()
    assert any("tiny.tar.gz: " in line and "MB" in line for line in lines)
    assert not list((root / "downloads").iterdir())
    lines.clear()
    get("tiny", tell=lines.append)
    assert lines == [f"tiny is there already: {root / 'tiny'}"]


def test_without_a_network_the_line_says_what_to_put_where(tiny, root):
    message = refusal(get, "tiny")
    assert "fetch tiny.tar.gz from http://127.0.0.1:9/" in message
    assert "gedi data get tiny --from DIR" in message
    assert not is_cached("tiny")


def test_arrays_are_mapped_bytes_and_not_read(tiny, published):
    get("tiny", published)
    data = open_set("tiny", "test")
    assert isinstance(data.x, np.memmap) and data.x.dtype == np.uint8
    assert not data.x.flags.writeable
    assert (data.name, data.source, data.y.dtype) == ("tiny-test", "tiny:test", np.int64)


@pytest.mark.parametrize("layout", ["idx", "svhn"])
def test_other_layouts_come_from_a_folder_too(tmp_path, monkeypatch, layout):
    n = {"train": 6, "test": 4}
    folder, splits, pixels = tmp_path / "here", {}, {}
    folder.mkdir()
    for split, count in n.items():
        y = np.arange(1, count + 1)
        if layout == "svhn":
            x = RNG.integers(0, 256, (32, 32, 3, count), dtype=np.uint8)
            path = folder / f"{split}.mat"
            savemat(path, {"X": x, "y": y[:, None]})
            splits[split] = Split((file(path.name, path.read_bytes()),), count)
            pixels[split] = x.transpose(3, 2, 0, 1)
            continue
        x = RNG.integers(0, 256, (count, 28, 28), dtype=np.uint8)
        heads = (struct.pack(">4I", 0x803, *x.shape), struct.pack(">2I", 0x801, count))
        contents = [h + v.astype("u1").tobytes() for h, v in zip(heads, (x, y), strict=True)]
        names = (f"{split}-images-idx3-ubyte.gz", f"{split}-labels-idx1-ubyte.gz")
        packed = [gzip.compress(content) for content in contents]
        files = tuple(file(name, data) for name, data in zip(names, packed, strict=True))
        splits[split] = Split(files[:1], count, files[1:])
        (folder / names[0]).write_bytes(packed[0])
        (folder / names[1].removesuffix(".gz")).write_bytes(contents[1])
        pixels[split] = x[:, None]
    shape = pixels["train"].shape[1:]
    source = Source("other", "", "http://127.0.0.1:9/", shape, 10, splits)
    monkeypatch.setitem(SOURCES, "other", source)
    get("other", folder)
    for split, count in n.items():
        data = load(f"other:{split}")
        np.testing.assert_array_equal(data.x, pixels[split])
        assert data.y.tolist() == list(range(1, count + 1))


def npz_source(monkeypatch) -> None:
    named = (File("i.gz", 1), File("l.gz", 1))
    splits = {"train": Split(named[:1], 6, named[1:]), "test": Split(named[:1], 2, named[1:])}
    source = Source("grey", "", "http://127.0.0.1:9/", (1, 4, 5), 10, splits)
    monkeypatch.setitem(SOURCES, "grey", source)


def grey_arrays() -> dict[str, np.ndarray]:
    return {
        "x_train": RNG.integers(0, 256, (6, 4, 5), dtype=np.uint8),
        "y_train": np.arange(6),
        "x_test": RNG.integers(0, 256, (2, 4, 5), dtype=np.uint8),
        "y_test": np.array([9, 0]),
    }


def test_an_npz_with_both_splits_is_taken(tmp_path, monkeypatch):
    npz_source(monkeypatch)
    arrays = grey_arrays()
    np.savez(tmp_path / "grey.npz", **arrays)
    get("grey", tmp_path)
    np.testing.assert_array_equal(load("grey").x[:, 0], arrays["x_train"])
    assert load("grey:test").y.tolist() == [9, 0]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"x_train": np.zeros((7, 4, 5), np.uint8)}, "[x_train]: shape (7, 4, 5)"),
        ({"x_train": np.zeros((6, 4, 5))}, "x is float64"),
        ({"y_test": np.array([3, 10])}, "labels from 3 to 10"),
        ({"y_test": np.array([-1, 1])}, "labels from -1 to 1"),
        ({"y_train": np.array([{}] * 6)}, "holds Python objects"),
        ({"x_test": None}, "no array x_test"),
    ],
)
def test_an_npz_with_other_content_is_refused(tmp_path, monkeypatch, root, change, message):
    npz_source(monkeypatch)
    arrays = {key: v for key, v in (grey_arrays() | change).items() if v is not None}
    np.savez(tmp_path / "grey.npz", **arrays)
    assert message in refusal(get, "grey", tmp_path)
    assert not is_cached("grey") and not list(root.glob(".building*"))


# --- what goes wrong ----------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["one.bin", "test.bin"])
def test_a_changed_file_is_named_and_nothing_is_kept(tiny, published, root, name):
    path = published / "tiny-bin" / name
    path.write_bytes(path.read_bytes()[:-1] + b"?")
    assert f"{path}: not the published file" in refusal(get, "tiny", published)
    assert [entry.name for entry in root.iterdir()] == [".tiny.lock"]


def test_a_changed_archive_is_refused_before_it_is_opened(tiny, published):
    shutil.rmtree(published / "tiny-bin")
    (published / "tiny.tar.gz").write_bytes(b"something else")
    assert "14 bytes instead of" in refusal(get, "tiny", published)


def test_a_folder_that_lacks_files_says_which(tiny, published, tmp_path):
    (published / "tiny.tar.gz").unlink()
    (published / "tiny-bin" / "two.bin").unlink()
    assert "two.bin missing" in refusal(get, "tiny", published)
    assert "no such folder" in refusal(get, "tiny", tmp_path / "no")
    assert "holds tiny.tar.gz, or one.bin" in refusal(get, "tiny", tmp_path)


def test_a_set_with_another_number_of_images_is_refused(tiny, published, monkeypatch, root):
    train = replace(tiny.splits["train"], count=8)
    monkeypatch.setitem(SOURCES, "tiny", replace(tiny, splits=tiny.splits | {"train": train}))
    assert "tiny: 7 images for train instead of 8" in refusal(get, "tiny", published)
    assert not (root / "tiny").exists()


@pytest.mark.parametrize(
    "damage", ["set.json", "train-x.npy", "test-y.npy", "cut", "other", "shape"]
)
def test_a_damaged_set_is_said_and_made_anew(tiny, published, root, damage):
    get("tiny", published)
    if damage == "cut":
        path = root / "tiny" / "train-x.npy"
        path.write_bytes(path.read_bytes()[:-1])
    elif damage == "shape":
        np.save(root / "tiny" / "train-x.npy", np.zeros((7, 3, 32, 31), np.uint8))
    elif damage == "other":
        (root / "tiny" / "set.json").write_text('{"format": 1, "name": "mnist"}')
    else:
        (root / "tiny" / damage).unlink()
    assert not is_cached("tiny")
    split = "test" if damage.startswith("test") else "train"
    message = refusal(load, f"tiny:{split}")
    assert "gedi data get tiny makes it anew" in message
    get("tiny", published)
    check_tiny()


def test_a_full_disk_is_one_line_and_leaves_nothing(tiny, published, root, monkeypatch):
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(module, "_write_split", full)
    assert "the disk is full" in refusal(get, "tiny", published)
    assert [entry.name for entry in root.iterdir()] == [".tiny.lock"]


def test_a_disk_that_fills_up_during_the_download_is_one_line(tiny, site, monkeypatch):
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setitem(SOURCES, "tiny", replace(tiny, site=site))
    monkeypatch.setattr(fetch, "_copy", full)
    message = refusal(get, "tiny")
    assert "the disk is full" in message and "GEDI_CACHE" in message


def test_a_cache_that_is_no_folder_is_one_line(tiny, published, root):
    root.write_text("a file")
    assert "GEDI_CACHE" in refusal(get, "tiny", published)


PROCESS = """
import errno, os, signal, sys, time
from gedilearn.data import published
from gedilearn.data.fetch import File
from gedilearn.data.sources import SOURCES, Source, Split
folder, action = sys.argv[1:]
files = [File("one.bin", 4 * 3073), File("two.bin", 3 * 3073), File("test.bin", 2 * 3073)]
SOURCES["tiny"] = Source("tiny", "", "", (3, 32, 32), 10,
    {"train": Split((files[0], files[1]), 7), "test": Split((files[2],), 2)}, None, "tiny-bin")
if action == "die":
    published._put_in_place = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
if action == "race":
    class NoLock(published.FileLock):
        def acquire(self, *_, **__):
            raise OSError(errno.ENOLCK, "No locks available")
    published.FileLock = NoLock
    ready, put = os.path.join(folder, "ready"), published._put_in_place
    def meet(*arguments):  # all are built before any is put in place
        open(f"{ready}-{os.getpid()}", "w").close()
        while sum(name.startswith("ready-") for name in os.listdir(folder)) < 2:
            time.sleep(0.01)
        put(*arguments)
    published._put_in_place = meet
published.get("tiny", folder)
"""


def start(folder: Path, action: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", PROCESS, str(folder), action])


@pytest.mark.skipif(sys.platform == "win32", reason="there is no SIGKILL")
def test_a_process_killed_before_the_end_leaves_nothing_that_counts(tiny, published, root):
    assert start(published, "die").wait(30) == -9
    assert len(list(root.glob(".building.tiny.*"))) == 1
    assert not is_cached("tiny")
    assert "not on this machine" in refusal(load, "tiny")
    get("tiny", published)
    check_tiny()
    assert not list(root.glob(".building*"))


@pytest.mark.parametrize("action", ["lock", "race"])
def test_two_processes_at_once_do_no_harm(tiny, published, root, action):
    both = [start(published, action) for _ in range(2)]
    assert [process.wait(30) for process in both] == [0, 0]
    check_tiny()
    assert not list(root.glob(".building*"))


def test_a_second_process_waits_for_the_first(tiny, published, root):
    root.mkdir()
    lines: list[str] = []
    waiting = threading.Event()

    def tell(line: str) -> None:
        lines.append(line)
        waiting.set()

    other = threading.Thread(target=get, args=("tiny", published, tell))
    with module._alone(root / ".tiny.lock", lines.append) as alone:
        assert alone
        other.start()
        assert waiting.wait(10)
        other.join(0.3)
        assert lines == ["another process prepares tiny: waiting for it"]
        assert not is_cached("tiny")
    other.join(10)
    check_tiny()


def test_what_another_process_made_meanwhile_is_not_made_again(tiny, published, root, tmp_path):
    made = get("tiny", published)
    made.rename(tmp_path / "aside")
    waiting, results = threading.Event(), []

    def other() -> None:
        results.append(get("tiny", tmp_path / "no such folder", lambda _: waiting.set()))

    thread = threading.Thread(target=other)
    with module._alone(root / ".tiny.lock", print):
        thread.start()
        assert waiting.wait(10)
        (tmp_path / "aside").rename(made)
    thread.join(10)
    assert results == [made]


# --- names and the command line -----------------------------------------------------------------


def test_names_of_sets_are_known_to_load(tiny, tmp_path, monkeypatch):
    assert is_name("moons") and is_name("cifar10") and is_name("mnist:test")
    assert not is_name("./mnist") and not is_name("mnist.npz")
    assert "tiny has no split 'valid'" in refusal(load, "tiny:valid")
    assert "svhn-extra has no split 'test'" in refusal(load, "svhn-extra:test")
    monkeypatch.chdir(tmp_path)
    assert "did you mean cifar100 (gedi data get cifar100)?" in refusal(load, "cifar1000")
    assert "fashion-mnist" in known_formats() and ".mat" in known_formats()
    with pytest.raises(InputError, match="label_column is for tables"):
        load("mnist", label_column="y")


def test_the_listing_says_what_is_here(tiny, published, capsys, root):
    commands.get("tiny", published, as_json=True)
    shown = json.loads(capsys.readouterr().out)
    assert shown["path"] == str(root / "tiny") and shown["counts"]["train"] == 7
    commands.list_sets(as_json=True)
    listed = json.loads(capsys.readouterr().out)
    assert {row["name"]: row["cached"] for row in listed["sets"]} == {
        name: name == "tiny" for name in SOURCES
    }
    commands.list_sets()
    lines = capsys.readouterr().out.splitlines()
    assert next(line for line in lines if "tiny" in line).split()[-1] == "yes"
    assert next(line for line in lines if "cifar100" in line).split()[-1] == "no"
    assert max(map(len, lines[:-1])) <= 80
    for name in SOURCES:
        assert any(line.split()[:1] == [name] for line in lines), f"{name} is cut short"


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
def test_real_mnist_is_imported_whole():
    get("mnist", SHARED)
    with np.load(SHARED / "mnist.npz", allow_pickle=False) as archive:
        for split in ("train", "test"):
            data = load(f"mnist:{split}")
            np.testing.assert_array_equal(data.x[:, 0], archive[f"x_{split}"])
            np.testing.assert_array_equal(data.y, archive[f"y_{split}"])
