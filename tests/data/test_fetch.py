"""Downloads from a server on this machine, and archives that may be harmful."""

from __future__ import annotations

import gzip
import hashlib
import http.server
import io
import socket
import tarfile
import threading
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from gedilearn.data import fetch as module
from gedilearn.data.fetch import File, download, extract
from gedilearn.errors import InputError

CONTENT = np.random.default_rng(0).bytes(300_000)
BY_HAND = "or gedi data get it --from DIR"


class Server(http.server.ThreadingHTTPServer):
    """Serves `content` under any name, in the manner that a test asks for."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.content = CONTENT
        self.ranges = True
        self.cuts: list[int] = []  # for each answer in turn: how many bytes come before the end
        self.stall = False
        self.status: int | None = None
        self.asked: list[str | None] = []  # the Range of each request
        self.over = threading.Event()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/file.bin"


class Handler(http.server.BaseHTTPRequestHandler):
    server: Server

    def log_message(self, *_: object) -> None:
        pass

    def do_GET(self) -> None:
        server, asked = self.server, self.headers.get("Range")
        server.asked.append(asked)
        if server.status:
            self.send_error(server.status)
            return
        start = int(asked.removeprefix("bytes=").rstrip("-")) if asked and server.ranges else 0
        total = len(server.content)
        if start >= total:
            self.send_error(416)
            return
        self.send_response(206 if start else 200)
        if start:
            self.send_header("Content-Range", f"bytes {start}-{total - 1}/{total}")
        body = server.content[start:]
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body[: server.cuts.pop(0)] if server.cuts else body)
        if server.stall:
            self.wfile.flush()
            server.over.wait(10)


@pytest.fixture
def server(monkeypatch) -> Iterator[Server]:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    running = Server()
    thread = threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    yield running
    running.over.set()
    running.shutdown()
    running.server_close()
    thread.join()


def described(content: bytes = CONTENT) -> File:
    sums = (hashlib.md5(content).hexdigest(), hashlib.sha256(content).hexdigest())
    return File("file.bin", len(content), *sums)


def refusal(*arguments: object, **options: object) -> str:
    with pytest.raises(InputError) as caught:
        download(*arguments, by_hand=BY_HAND, **options)
    message = str(caught.value)
    assert "\n" not in message
    return message


# --- downloads ----------------------------------------------------------------------------------


def test_a_file_arrives_whole_and_says_how_far_it_is(server, tmp_path):
    seen: list[tuple[int, int]] = []
    path = download(server.url, tmp_path / "new", described(), progress=lambda *at: seen.append(at))
    assert path.read_bytes() == CONTENT
    assert [file.name for file in path.parent.iterdir()] == ["file.bin"]
    assert seen[-1] == (300_000, 300_000)
    assert [done for done, _ in seen] == sorted(done for done, _ in seen)


def test_a_file_that_is_there_is_not_fetched_again_unless_it_is_wrong(server, tmp_path):
    (tmp_path / "file.bin").write_bytes(CONTENT)
    download(server.url, tmp_path, described())
    assert server.asked == []
    (tmp_path / "file.bin").write_bytes(CONTENT[:-1] + b"?")
    assert download(server.url, tmp_path, described()).read_bytes() == CONTENT
    assert server.asked == [None]


def test_a_cut_connection_is_continued_from_where_it_broke(server, tmp_path):
    server.cuts = [100_000, 50_000]
    assert download(server.url, tmp_path, described()).read_bytes() == CONTENT
    assert server.asked == [None, "bytes=100000-", "bytes=150000-"]


def test_another_call_continues_a_part(server, tmp_path):
    (tmp_path / "file.bin.part").write_bytes(CONTENT[:123_456])
    assert download(server.url, tmp_path, described()).read_bytes() == CONTENT
    assert server.asked == ["bytes=123456-"]


def test_a_whole_part_is_only_checked(server, tmp_path):
    (tmp_path / "file.bin.part").write_bytes(CONTENT)
    assert download(server.url, tmp_path, described()).read_bytes() == CONTENT
    assert server.asked == []


def test_a_server_without_ranges_sends_the_file_from_the_start(server, tmp_path):
    server.ranges = False
    (tmp_path / "file.bin.part").write_bytes(b"?" * 1000)
    assert download(server.url, tmp_path, described()).read_bytes() == CONTENT


def test_a_server_that_never_gets_further_is_given_up(server, tmp_path):
    server.ranges = False
    server.cuts = [1000] * 50
    message = refusal(server.url, tmp_path, described())
    assert "the connection was cut with 1000 of 300000 bytes there" in message
    assert message.endswith(BY_HAND)
    assert len(server.asked) == 1 + module.ATTEMPTS
    assert (tmp_path / "file.bin.part").read_bytes() == CONTENT[:1000]


@pytest.mark.parametrize("part", [b"", b"?" * 1000])
def test_another_content_is_deleted_and_said(server, tmp_path, part):
    server.content = CONTENT if part else CONTENT[:-1] + b"?"
    if part:
        (tmp_path / "file.bin.part").write_bytes(part)
    message = refusal(server.url, tmp_path, described())
    assert "not the published file (md5" in message and message.endswith(BY_HAND)
    assert list(tmp_path.iterdir()) == []


def test_both_checksums_are_looked_at(server, tmp_path):
    good = described()
    wrong = File(good.name, good.size, good.md5, "0" * 64)
    assert "sha256" in refusal(server.url, tmp_path, wrong)


@pytest.mark.parametrize("content", [CONTENT * 3, CONTENT[:5000], b"<html>log in</html>"])
def test_a_file_of_another_size_is_not_kept(server, tmp_path, content):
    server.content = content
    seen: list[int] = []
    message = refusal(server.url, tmp_path, described(), progress=lambda done, _: seen.append(done))
    least = min(len(content), 300_001)  # no more is fetched than shows that it is too long
    assert f"({least} bytes instead of 300000)" in message
    assert list(tmp_path.iterdir()) == []


def test_a_part_longer_than_the_file_on_the_server_is_dropped(server, tmp_path):
    server.content = CONTENT[:1000]
    (tmp_path / "file.bin.part").write_bytes(CONTENT[:2000])
    assert "changed" in refusal(server.url, tmp_path, described())
    assert list(tmp_path.iterdir()) == []


def test_a_part_longer_than_the_published_file_is_fetched_anew(server, tmp_path):
    (tmp_path / "file.bin.part").write_bytes(CONTENT + b"more")
    assert download(server.url, tmp_path, described()).read_bytes() == CONTENT


def test_a_stalled_server_is_a_timeout_and_the_part_stays(server, tmp_path):
    server.stall, server.cuts = True, [100, 0, 0, 0]
    message = refusal(server.url, tmp_path, described(), timeout=0.2)
    assert "timed out" in message and "100 of 300000 bytes" in message
    assert (tmp_path / "file.bin.part").read_bytes() == CONTENT[:100]


def test_an_http_error_gives_its_number(server, tmp_path):
    server.status = 404
    message = refusal(server.url, tmp_path, described())
    assert f"{server.url}: the server answers 404" in message and message.endswith(BY_HAND)
    assert len(server.asked) == 1


def test_no_server_at_all_is_one_line(tmp_path):
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{unused.getsockname()[1]}/file.bin"
        message = refusal(url, tmp_path, described())
    assert "no connection" in message and message.endswith(f"; try again, {BY_HAND}")


# --- archives -----------------------------------------------------------------------------------

WANTED = {"set/a.bin": 5, "set/b.bin": 3}


def entry(name: str, content: bytes = b"", **fields: object) -> tuple[tarfile.TarInfo, bytes]:
    info = tarfile.TarInfo(name)
    info.size = len(content)
    for field, value in fields.items():
        setattr(info, field, value)
    return info, content


GOOD = [
    entry("set", type=tarfile.DIRTYPE),
    entry("set/a.bin", b"aaaaa"),
    entry("set/readme.html", b"text"),
    entry("./set/b.bin", b"bbb"),
]


def archive(folder: Path, entries: list[tuple[tarfile.TarInfo, bytes]]) -> Path:
    with tarfile.open(folder / "x.tar.gz", "w:gz") as tar:
        for info, content in entries:
            tar.addfile(info, io.BytesIO(content))
    return folder / "x.tar.gz"


def bad_archive(path: Path) -> str:
    out = path.parent / "out"
    out.mkdir(exist_ok=True)
    with pytest.raises(InputError) as caught:
        extract(path, WANTED, out)
    assert {file.name for file in out.iterdir()} <= {"a.bin", "b.bin"}
    assert {file.name for file in path.parent.iterdir()} == {"out", "x.tar.gz"}
    assert str(path) in str(caught.value) and "\n" not in str(caught.value)
    return str(caught.value)


def test_only_the_wanted_files_come_out_of_an_archive(tmp_path):
    path = archive(tmp_path, GOOD)
    (tmp_path / "out").mkdir()
    extract(path, WANTED, tmp_path / "out")
    found = {file.name: file.read_bytes() for file in (tmp_path / "out").iterdir()}
    assert found == {"a.bin": b"aaaaa", "b.bin": b"bbb"}


@pytest.mark.parametrize(
    ("extra", "message"),
    [
        (entry("../evil", b"x"), "leads out of it"),
        (entry("set/../../evil", b"x"), "leads out of it"),
        (entry("/tmp/evil", b"x"), "leads out of it"),
        (entry("..\\evil", b"x"), "leads out of it"),
        (entry("C:\\evil", b"x"), "leads out of it"),
        (entry("set/link", type=tarfile.SYMTYPE, linkname="/etc/passwd"), "a link"),
        (entry("set/link", type=tarfile.LNKTYPE, linkname="set/a.bin"), "a link"),
        (entry("set/pipe", type=tarfile.FIFOTYPE), "a link or a device"),
        (entry("set/null", type=tarfile.CHRTYPE, devmajor=1, devminor=3), "a link or a device"),
        (entry("set/a.bin", b"AAAAA"), "set/a.bin is there twice"),
    ],
)
def test_an_archive_with_anything_suspicious_is_refused(tmp_path, extra, message):
    assert message in bad_archive(archive(tmp_path, [*GOOD, extra]))


@pytest.mark.parametrize(
    "wrong",
    [
        entry("set/b.bin", b"bbbb"),
        entry("set/b.bin", type=tarfile.DIRTYPE),
        entry("set/b.bin", type=tarfile.SYMTYPE, linkname="a.bin"),
    ],
)
def test_a_wanted_name_that_is_not_the_wanted_file_is_refused(tmp_path, wrong):
    assert "set/b.bin" in bad_archive(archive(tmp_path, [*GOOD[:-1], wrong]))


def test_a_missing_file_and_too_many_files_are_refused(tmp_path):
    assert "holds no set/b.bin" in bad_archive(archive(tmp_path, GOOD[:-1]))
    many = [entry(f"set/{i}") for i in range(200)]
    assert "more than 100 entries" in bad_archive(archive(tmp_path, [*many, *GOOD]))


def test_an_archive_cut_short_anywhere_is_refused(tmp_path):
    path = archive(tmp_path, GOOD)
    whole = path.read_bytes()
    for length in (0, 1, 9, 20, len(whole) // 2, len(whole) * 3 // 4):
        path.write_bytes(whole[:length])
        bad_archive(path)
        for file in (tmp_path / "out").iterdir():
            file.unlink()


@pytest.mark.parametrize("kind", [tarfile.REGTYPE, tarfile.GNUTYPE_LONGNAME, tarfile.XHDTYPE])
@pytest.mark.parametrize("claim", [2**27, 2**40])
def test_a_small_archive_that_unpacks_to_much_is_stopped(tmp_path, kind, claim):
    info, _ = entry("set/zeros", type=kind, size=claim)
    head = info.tobuf(tarfile.GNU_FORMAT)
    path = tmp_path / "x.tar.gz"
    path.write_bytes(gzip.compress(head + bytes(2**26), compresslevel=1))
    tracemalloc.start()
    try:
        assert "unpacks to more" in bad_archive(path)
        assert tracemalloc.get_traced_memory()[1] < 2**24
    finally:
        tracemalloc.stop()
