"""Published files: downloaded where the last attempt broke off, checked, and unpacked safely."""

from __future__ import annotations

import gzip
import hashlib
import os
import shutil
import tarfile
import urllib.error
import urllib.request
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from http.client import HTTPException, HTTPResponse
from pathlib import Path, PurePosixPath
from typing import IO

from gedilearn.errors import InputError

Progress = Callable[[int, int], None]  # bytes that are there, bytes in all; for every tenth

TIMEOUT = 30.0  # seconds without a single byte
ATTEMPTS = 3  # in a row that bring no new byte
_PIECE = 2**18
_MOST_MEMBERS = 100  # the official archives have fewer than ten
_SLACK = 2**20  # bytes of headings and small texts in an archive


@dataclass(frozen=True)
class File:
    """One file as its authors publish it. Checksums are of the whole file, in hex."""

    name: str
    size: int
    md5: str | None = None
    sha256: str | None = None


class _CutError(Exception):
    """The connection ended early or stalled; what came is kept."""


def digest(path: Path, kind: str) -> str:
    """The checksum of a file in hex; `kind` is a name that hashlib knows."""
    found = hashlib.new(kind, usedforsecurity=False)
    with path.open("rb") as handle:
        while piece := handle.read(_PIECE):
            found.update(piece)
    return found.hexdigest()


def checksum_error(path: Path, file: File) -> str | None:
    """What is wrong with a file's content, or None."""
    size = path.stat().st_size
    if size != file.size:
        return f"{size} bytes instead of {file.size}"
    for kind, expected in (("md5", file.md5), ("sha256", file.sha256)):
        if expected is not None and (found := digest(path, kind)) != expected:
            return f"{kind} {found} instead of {expected}"
    return None


def download(
    url: str,
    folder: Path,
    file: File,
    *,
    progress: Progress = lambda done, size: None,
    timeout: float = TIMEOUT,
    by_hand: str = "",
) -> Path:
    """Fetch `url` to ``folder / file.name``, which gets its name only once its checksum is right.

    Until then it is ``NAME.part``, and another call continues it. `by_hand` ends every error line:
    what to do without a network. Trouble with the disk is an `OSError`.
    """
    target = folder / file.name
    if target.exists():
        if checksum_error(target, file) is None:
            return target
        target.unlink()
    folder.mkdir(parents=True, exist_ok=True)
    part = folder / f"{file.name}.part"
    try:
        _fetch_all(url, part, file, progress, timeout)
        if wrong := checksum_error(part, file):
            part.unlink()
            raise InputError(
                f"{url}: what arrived is not the published file ({wrong}) and was deleted; "
                "try again"
            )
    except InputError as error:
        raise InputError(f"{error}, {by_hand}" if by_hand else str(error)) from None
    os.replace(part, target)
    return target


def _fetch_all(url: str, part: Path, file: File, progress: Progress, timeout: float) -> None:
    """Ask again, from where the last answer broke off, for as long as that brings something."""
    failures, most = 0, _size(part)
    while _size(part) != file.size:
        try:
            _fetch(url, part, file, progress, timeout)
            return
        except _CutError as cut:
            there = _size(part)
            failures = 0 if there > most else failures + 1
            most = max(most, there)
            if failures >= ATTEMPTS or there == 0:
                so_far = f" with {there} of {file.size} bytes there" if there else ""
                again = "try again to go on from there" if there else "try again"
                raise InputError(f"{url}: {cut}{so_far}; {again}") from None


def _fetch(url: str, part: Path, file: File, progress: Progress, timeout: float) -> None:
    start = _size(part)
    if start > file.size:
        part.unlink()
        start = 0
    request = urllib.request.Request(url, headers={"User-Agent": "gedi-learn"})
    if start:
        request.add_header("Range", f"bytes={start}-")
    try:
        answer = urllib.request.urlopen(request, timeout=timeout)
    except urllib.error.HTTPError as error:
        error.close()
        if start and error.code == HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE:
            part.unlink()  # the file there is shorter than what came before: it is another one
            raise _CutError("the file on the server changed") from None
        raise InputError(f"{url}: the server answers {error.code} {error.reason}") from None
    except (OSError, HTTPException) as error:
        raise _CutError(f"no connection ({_reason(error)})") from None
    with answer:
        span = answer.headers.get("Content-Range", "").strip()
        partial = answer.status == HTTPStatus.PARTIAL_CONTENT
        if not (partial and span.startswith(f"bytes {start}-")):
            start = 0  # the server sends the whole file whatever it was asked for
        with part.open("r+b" if start else "wb") as out:
            out.seek(start)
            _copy(answer, out, file, progress)


def _copy(answer: HTTPResponse, out: IO[bytes], file: File, progress: Progress) -> None:
    """Write the answer, at most one byte more than the file should have: that shows in its size."""
    done, told = out.tell(), -1
    while done <= file.size:
        try:
            piece = answer.read1(min(_PIECE, file.size + 1 - done))
        except (OSError, HTTPException) as error:
            raise _CutError(f"the connection broke ({_reason(error)})") from None
        if not piece:
            break
        out.write(piece)
        done += len(piece)
        if (tenth := 10 * done // file.size) > told:
            told = tenth
            progress(min(done, file.size), file.size)
    if done < file.size and answer.length:  # announced, but never came
        raise _CutError("the connection was cut")


def _reason(error: Exception) -> str:
    inner = getattr(error, "reason", None)
    text = str(inner if inner is not None else error) or type(error).__name__
    return " ".join(text.split())


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


class _Bounded:
    """Reads no further than `left` bytes: a small archive may unpack to any size."""

    def __init__(self, stream: gzip.GzipFile, left: int) -> None:
        self.stream, self.left = stream, left

    def read(self, size: int) -> bytes:
        data = self.stream.read(min(size, self.left + 1))
        self.left -= len(data)
        if self.left < 0:
            raise InputError("unpacks to more than the published archive")
        return data


def extract(archive: Path, wanted: Mapping[str, int], folder: Path) -> None:
    """Unpack the files `wanted` (path in the archive -> size) of a .tar.gz into `folder`, flat.

    Nothing else is written, and an archive that holds a path outside of itself, a link or a device
    is refused altogether: the official ones hold none.
    """
    limit = sum(wanted.values()) + _SLACK
    missing = set(wanted)
    try:
        with (
            gzip.open(archive, "rb") as unzipped,
            tarfile.open(fileobj=_Bounded(unzipped, limit), mode="r|") as tar,  # type: ignore[call-overload]
        ):
            for number, member in enumerate(tar):
                if number >= _MOST_MEMBERS:
                    raise InputError(f"holds more than {_MOST_MEMBERS} entries")
                _check_member(member)
                name = member.name.removeprefix("./")
                if name not in wanted:
                    continue
                if name not in missing or not member.isreg() or member.size != wanted[name]:
                    raise InputError(f"{name} is there twice or not a file of {wanted[name]} bytes")
                source = tar.extractfile(member)
                assert source is not None  # regular files have content
                with (folder / PurePosixPath(name).name).open("xb") as out:
                    shutil.copyfileobj(source, out)
                missing.discard(name)
    except InputError as error:
        raise InputError(f"{archive}: {error}; not the published archive, fetch it again") from None
    except (tarfile.TarError, EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise InputError(
            f"{archive}: not a whole .tar.gz ({_reason(error)}); fetch it again"
        ) from None
    if missing:
        raise InputError(f"{archive}: holds no {min(missing)}; fetch it again")


def _check_member(member: tarfile.TarInfo) -> None:
    path = PurePosixPath(member.name.replace("\\", "/"))
    if path.is_absolute() or ".." in path.parts or ":" in member.name:
        raise InputError(f"holds the path {member.name!r}, which leads out of it")
    if not (member.isreg() or member.isdir()):
        raise InputError(f"holds {member.name!r}, a link or a device")
