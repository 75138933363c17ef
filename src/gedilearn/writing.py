"""Files written whole or not at all: readers and a crash see the old content or the new."""

from __future__ import annotations

import csv
import io
import json
import math
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import date, time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gedilearn.errors import InputError

if TYPE_CHECKING:
    from torch import Tensor


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
    """Files of the user's are never overwritten."""
    if path.exists() or path.is_symlink():
        raise InputError(f"{path} exists already: choose another name")


def is_leftover(path: Path, of: str) -> bool:
    """Whether this is what an interrupted write of the file named `of` left behind."""
    return path.name.startswith(f".{of}.") and path.name.endswith(".part")


def remove_leftovers(folder: Path, of: str | None = None) -> None:
    """Remove what killed processes left behind in a folder; with `of`, of the file of this name."""
    for entry in folder.glob(f".{of or '*'}.*.part"):
        entry.unlink(missing_ok=True)


def write_text(path: Path, text: str, *, new: bool = False) -> None:
    """Replace a file's content by this text; bytes in it that are no UTF-8 are spelled out."""
    with replacing(path, new=new) as temporary:
        temporary.write_text(text, encoding="utf-8", errors="backslashreplace")


def write_json(path: Path, content: Any, indent: int | None = 2, *, new: bool = False) -> None:
    """Replace a file's content by this, as JSON."""
    write_text(path, json_text(content, indent) + "\n", new=new)


def json_text(content: Any, indent: int | None = None) -> str:
    """JSON, with what is not finite by name."""
    return json.dumps(plain(content), indent=indent)


def csv_text(heads: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """Numbers are written with as many digits as an exact reading back needs."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(heads)
    writer.writerows(rows)
    return text.getvalue()


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
    """Whether this process writes for all: the only one, or rank 0 of several."""
    return os.environ.get("RANK", os.environ.get("LOCAL_RANK", "0")) == "0"


def plain(value: Any) -> Any:
    """JSON has no NaN, infinity, dates and times: they are written as their names, or as text."""
    if isinstance(value, date | time):
        return value.isoformat()
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, dict):
        return {k: plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [plain(v) for v in value]
    return value


def printable(text: str) -> str:
    """Without what a terminal would obey, or no letter can show: names may hold any."""
    return "".join(c if c.isprintable() or c == "\n" else " " for c in text)
