"""Errors that a person can mend are one line on stderr, without a traceback."""

from __future__ import annotations

import errno
import functools
import logging
import sys
import warnings
from collections.abc import Callable
from typing import Any, TypeVar

import typer

from gedilearn.errors import InputError

Command = TypeVar("Command", bound=Callable[..., None])


def plainly(command: Command) -> Command:
    """Bad input, a full disk and Ctrl-C are one line each; anything else is a bug and says so."""

    @functools.wraps(command)
    def wrapped(*arguments: Any, **options: Any) -> None:
        logging.disable(logging.INFO)  # the launcher's remarks on how many processes there are
        try:
            with warnings.catch_warnings():
                if not sys.warnoptions:
                    warnings.simplefilter("ignore")  # what matters is in the verdict
                command(*arguments, **options)
            sys.stdout.flush()
        except InputError as error:
            _stop(f"error: {error}", 2)
        except OSError as error:
            if error.errno == errno.EPIPE:  # the reader of our output left, as in `| head`
                raise
            _stop(f"error: {_in_words(error)}", 2)
        except KeyboardInterrupt as interrupt:
            _stop(f"interrupted: {interrupt}" if str(interrupt) else "interrupted", 130)
        finally:
            logging.disable(logging.NOTSET)

    return wrapped  # type: ignore[return-value]


def _stop(line: str, code: int) -> None:
    print(" ".join(line.split()), file=sys.stderr)
    raise typer.Exit(code) from None


def _in_words(error: OSError) -> str:
    if error.strerror and error.filename:
        return f"{error.filename}: {error.strerror[0].lower()}{error.strerror[1:]}"
    return error.strerror or str(error)
