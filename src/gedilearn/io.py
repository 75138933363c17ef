"""Files read and written safely.

A file may come from anywhere: a link to an endless device, a pipe without a writer, a few bytes
that unpack to gigabytes. Its kind and size are checked before it is read, and the size of packed
content before it is unpacked. `GEDI_MAX_GB` limits the memory for the data of one file. Damage
becomes one line that names the file.

A file is written whole or not at all: a reader sees the old content or the new, also after a crash.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date, time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml
from pydantic import ValidationError

from gedilearn.errors import InputError

if TYPE_CHECKING:
    from torch import Tensor

LIMIT = "GEDI_MAX_GB"
USUAL = 2.0  # gigabytes, if the variable is not set
GIGABYTE = 10**9
RESTORE = "restore it, or fit anew"  # for files of a run

# --- limits -------------------------------------------------------------------------------------


def most_bytes() -> float:
    """The limit in bytes."""
    text = os.environ.get(LIMIT) or str(USUAL)
    try:
        gigabytes = float(text)
    except ValueError:
        gigabytes = math.nan
    if not 0 < gigabytes < math.inf:
        raise InputError(f"{LIMIT}={text}: give a number of gigabytes above 0, e.g. {LIMIT}=8")
    return gigabytes * GIGABYTE


def check_size(size: float, what: object) -> None:
    """Refuse a size in bytes above the limit."""
    most = most_bytes()
    if size > most:
        size = min(size, 1e30)  # a header may claim any number
        raise InputError(
            f"{what}: {size / GIGABYTE:.3g} GB, more than the {most / GIGABYTE:.3g} GB that are "
            f"read; to read it, set {LIMIT}={math.ceil(size / GIGABYTE)}"
        )


def check_file(path: Path, *, mapped: bool = False) -> int:
    """The size of a file in bytes; refused if it is no regular file, or beyond the limit.

    A file that is `mapped` into memory instead of read may have any size.
    """
    status = path.stat()
    if not stat.S_ISREG(status.st_mode):
        raise InputError(f"{path}: not a regular file; copy its content into one")
    if not mapped:
        check_size(status.st_size, path)
    return status.st_size


def as_path(given: str | Path) -> Path:
    """The path that a user gave; only a leading ~/ is the home folder."""
    path = Path(given)
    return Path(os.path.expanduser(path)) if path.parts[:1] == ("~",) else path


def cache_root() -> Path:
    """The folder of all downloads: $GEDI_CACHE, or gedi-learn in the system's folder for caches.

    It need not exist yet.
    """
    from pooch import os_cache

    return as_path(os.environ.get("GEDI_CACHE") or os_cache("gedi-learn")).absolute()


# --- damage -------------------------------------------------------------------------------------


@contextmanager
def reading(
    path: Path | str, remedy: str = "save it again", *, ours: bool = False
) -> Iterator[None]:
    """Turn any error of reading a file into one line that names the file.

    An `InputError` has such a line already, unless only our own code writes the value: `ours`.
    Work after the reading stays outside: its errors are bugs.
    """
    try:
        yield
    except InputError as error:
        if not ours:
            raise
        raise damaged(path, error, remedy) from error
    except PermissionError as error:
        place = error.filename or path
        raise InputError(f"{place}: permission denied; make it readable") from error
    except MemoryError as error:
        raise InputError(f"{path}: does not fit into the memory of this machine") from error
    except Exception as error:
        raise damaged(path, error, remedy) from error


def damaged(path: Path | str, reason: Exception | str, remedy: str) -> InputError:
    """The error for a damaged file."""
    words = " ".join(_reason(reason).split())
    return InputError(f"{path} is damaged ({words[:300]}): {remedy}")


def _reason(error: Exception | str) -> str:
    if isinstance(error, ValidationError):
        first = error.errors(include_url=False)[0]
        message = first["msg"].removeprefix("Value error, ")
        return f"{'.'.join(map(str, first['loc']))}: {message[:1].lower()}{message[1:]}"
    if isinstance(error, KeyError):
        return f"no {error}"
    return str(error) or type(error).__name__


# --- text ---------------------------------------------------------------------------------------


def read_bytes(path: Path) -> bytes:
    """The content of a regular file."""
    check_file(path)
    return path.read_bytes()


def sha256(path: Path) -> str:
    """The checksum of a regular file."""
    return hashlib.sha256(read_bytes(path)).hexdigest()


def read_json(path: Path, remedy: str = RESTORE) -> Any:
    """The content of a JSON file, of any shape."""
    with reading(path, remedy):
        return json.loads(read_bytes(path).decode("utf-8"))


def read_json_lines(path: Path) -> list[dict[str, Any]]:
    """The objects in a .jsonl file, one in each line; none if there is no file.

    Damaged lines are left out.
    """
    if not path.exists():
        return []
    content, rows = read_bytes(path), []
    for line in content.split(b"\n"):
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(row, dict):
            rows.append(row)
    return rows


def read_yaml(path: Path) -> Any:
    """The content of a YAML file, of any shape."""
    with reading(path, RESTORE):
        return yaml_value(read_bytes(path).decode("utf-8"))


def yaml_value(text: str) -> Any:
    """The plain value of a text in YAML; any error is a `YAMLError`."""
    try:
        return yaml.load(text, _PlainLoader)
    except Exception as error:  # also of a tag that its value does not fit
        raise yaml.YAMLError(_reason(error)) from None


class _PlainLoader(yaml.SafeLoader):
    """The safe loader without aliases, which may expand to gigabytes."""

    def compose_node(self, parent: Any, index: Any) -> Any:
        if self.check_event(yaml.AliasEvent):
            raise yaml.YAMLError("it has an alias, *name: write out what it stands for")
        return super().compose_node(parent, index)


# --- tensors ------------------------------------------------------------------------------------


def read_tensors(path: Path, remedy: str = RESTORE) -> tuple[dict[str, Tensor], dict[str, str]]:
    """The tensors of a safetensors file by name, and its metadata."""
    from safetensors import SafetensorError
    from safetensors.torch import load

    with reading(path, remedy):
        content = read_bytes(path)
        try:
            tensors = load(content)
        except SafetensorError as error:
            raise ValueError(f"not a whole safetensors file: {error}") from None
        end = 8 + int.from_bytes(content[:8], "little")  # of the header, which `load` has checked
        return tensors, json.loads(content[8:end]).get("__metadata__", {})


# --- writing -------------------------------------------------------------------------------------


@contextmanager
def replacing(path: Path, *, new: bool = False) -> Iterator[Path]:
    """A path beside `path` to write to; it becomes `path` when the block ends without an error.

    With `new`, an existing file is refused, also one that appeared while the block ran.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        if new:
            refuse_existing(path)
        yield temporary
        with open(temporary, "rb+") as file:
            os.fsync(file.fileno())
        if new:
            refuse_existing(path)
        os.replace(temporary, path)
    except OSError as error:  # a full disk, say, comes without the name of the file
        raise OSError(error.errno, error.strerror or str(error), str(path)) from None
    finally:
        temporary.unlink(missing_ok=True)


def refuse_existing(path: Path) -> None:
    """Refuse to overwrite a file of the user."""
    if path.exists() or path.is_symlink():
        raise InputError(f"{path} exists already: choose another name")


def remove_leftovers(*folders: Path) -> None:
    """Remove the unfinished files of killed processes from folders."""
    for folder in folders:
        for unfinished in folder.glob(".*.*.part"):
            unfinished.unlink(missing_ok=True)


def write_text(path: Path, text: str, *, new: bool = False) -> None:
    """Replace a file's content by this text; bytes in it that are no UTF-8 are spelled out."""
    with replacing(path, new=new) as temporary:
        temporary.write_text(text, encoding="utf-8", errors="backslashreplace")


def write_json(path: Path, content: Any, indent: int | None = 2, *, new: bool = False) -> None:
    """Replace a file's content by this, as JSON."""
    write_text(path, json_text(content, indent) + "\n", new=new)


def json_text(content: Any, indent: int | None = None) -> str:
    """JSON, with the names of numbers that are not finite."""
    return json.dumps(plain(content), indent=indent)


def write_tensors(
    path: Path, tensors: dict[str, Tensor], metadata: dict[str, str] | None = None
) -> None:
    """Replace a safetensors file."""
    from safetensors.torch import save

    owned = {name: t.detach().cpu().contiguous().clone() for name, t in tensors.items()}
    # Not by `save_file`, whose own temporary file stays behind when the process is killed.
    with replacing(path) as temporary:
        temporary.write_bytes(save(owned, metadata))


def is_first_process() -> bool:
    """Whether this process writes for all: it is the only one, or rank 0."""
    return os.environ.get("RANK", os.environ.get("LOCAL_RANK", "0")) == "0"


def plain(value: Any) -> Any:
    """The value for JSON, which has no NaN, infinity, dates and times: these become text."""
    if isinstance(value, date | time):
        return value.isoformat()
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, dict):
        return {k: plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [plain(v) for v in value]
    return value


def digits(value: float | None, most: int = 4) -> str:
    """At most so many digits of a number, but all before the point; '' for None."""
    if value is None:
        return ""
    if not math.isfinite(value):
        return "not finite"
    size = abs(float(f"{value:.{most}g}"))
    is_whole = value == round(value) or size >= 10**most
    return f"{value:,.0f}" if is_whole and size < 1e9 else f"{value:,.{most}g}"


def printable(text: str) -> str:
    """The text without control characters: names of files and columns may hold any."""
    return "".join(c if c.isprintable() or c == "\n" else " " for c in text)
