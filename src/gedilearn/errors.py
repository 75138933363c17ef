"""The one exception for input that a person can mend."""

from __future__ import annotations


class InputError(ValueError):
    """Bad input: the message is one line that says what, where, and how to mend it.

    The command line prints the message alone and exits with code 2; in programs it is an ordinary
    ``ValueError``.
    """
