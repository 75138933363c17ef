"""The one exception for input that can be mended, and the hint that its messages end with."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class InputError(ValueError):
    """Input that cannot be used: the message says what, where, and how to mend it.

    The command line prints it as one line and exits with code 2.
    """


def suggestion(name: str, known: Iterable[str]) -> str:
    """' (did you mean ...?)' with the nearest known name, or the known names when none is near."""
    names = list(known)
    near = difflib.get_close_matches(name, names, n=1, cutoff=0.5)
    if near:
        return f" (did you mean {near[0]!r}?)"
    return f" (known: {', '.join(names)})"
