"""The exception for bad input, the parameters that it names, and suggestions for names."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Parameter:
    """A parameter, or a setting (a dotted name), in the message of an error.

    In Python it reads as code; the command line shows the option instead (`cli.app.option`).
    """

    name: str
    value: Any = None  # without one, the name alone

    def __str__(self) -> str:
        if "." in self.name:
            return f"settings={ {self.name: self.value} }"
        return self.name if self.value is None else f"{self.name}={self.value!r}"


class InputError(ValueError):
    """Input that cannot be used: the message names the value, the place and the way out.

    The command line prints the parts of the message as one line and exits with code 2.
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
