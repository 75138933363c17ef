"""Files written whole or not at all: readers and a crash see the old content or the new."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

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


def write_text(path: Path, text: str, *, new: bool = False) -> None:
    """Replace a file's content by this text."""
    with replacing(path, new=new) as temporary:
        temporary.write_text(text, encoding="utf-8")


def write_tensors(
    path: Path, tensors: dict[str, Tensor], metadata: dict[str, str] | None = None
) -> None:
    """Replace a safetensors file."""
    from safetensors import SafetensorError
    from safetensors.torch import save_file

    owned = {name: t.detach().cpu().contiguous().clone() for name, t in tensors.items()}
    with replacing(path) as temporary:
        temporary.touch()
        mode = temporary.stat().st_mode  # readable by whom other files are
        try:
            save_file(owned, temporary, metadata)
        except SafetensorError as error:  # how safetensors reports a full disk
            raise OSError(None, str(error), str(path)) from None
        os.chmod(temporary, mode)
