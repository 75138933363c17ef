"""The one exception for input that can be mended, and the hint that its messages end with."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Parameter:
    """A parameter, or a setting (a dotted name), in the message of an error.

    A program reads it as Python. The command line shows its option instead (`cli.app.option`).
    """

    name: str
    value: Any = None  # without one, the name alone

    def __str__(self) -> str:
        if "." in self.name:
            return f"settings={ {self.name: self.value} }"
        return self.name if self.value is None else f"{self.name}={self.value!r}"


class InputError(ValueError):
    """Input that cannot be used: the message says what, where, and how to mend it.

    The message is made of its parts. The command line prints it as one line and exits with code 2.
    """

    def __init__(self, *parts: str | Parameter) -> None:
        super().__init__("".join(map(str, parts)))
        self.parts = parts


def closest(name: str, known: Iterable[str]) -> str | None:
    """The known name that is most like this one, or None when none is near."""
    near = difflib.get_close_matches(name, list(known), n=1, cutoff=0.5)
    return near[0] if near else None


def suggestion(name: str, known: Iterable[str]) -> str:
    """' (did you mean ...?)' with the nearest known name, or the known names when none is near."""
    names = list(known)
    near = closest(name, names)
    return f" (did you mean {near!r}?)" if near else f" (known: {', '.join(names)})"
