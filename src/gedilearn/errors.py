"""The one exception for input that can be mended, and the hint that its messages end with."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class InputError(ValueError):
    """Input that cannot be used: the message says what, where, and how to mend it.

    The command line prints it as one line and exits with code 2.
    """


def closest(name: str, known: Iterable[str]) -> str | None:
    """The known name that is most like this one, or None when none is near."""
    near = difflib.get_close_matches(name, list(known), n=1, cutoff=0.5)
    return near[0] if near else None


def suggestion(name: str, known: Iterable[str]) -> str:
    """' (did you mean ...?)' with the nearest known name, or the known names when none is near."""
    names = list(known)
    near = closest(name, names)
    return f" (did you mean {near!r}?)" if near else f" (known: {', '.join(names)})"
