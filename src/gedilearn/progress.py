"""The phase of the work and the time left, shown on stderr.

`Progress` itself is silent. On a terminal, a bar shows the phase and disappears at the end. In a
log or a notebook, a phase is one plain line.
"""

from __future__ import annotations

import sys
import threading
import time
from contextlib import AbstractContextManager, nullcontext
from datetime import timedelta

SHORTEST = 0.3  # seconds: a shorter phase has no line
INTERVAL = 60.0  # seconds between two lines of a long phase


class Progress:
    """Receives the phase and the part of it that is done; prints nothing."""

    def phase(self, name: str) -> None:
        """Begin a phase; the same name again continues it."""

    def step(self, done: int, total: int, words: str = "") -> None:
        """Report the part of the phase that is done; a bar also shows `words`."""

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *error: object) -> None:
        """Clear the terminal."""


SILENT = Progress()


def shown(verbose: bool, given: Progress | None = None) -> AbstractContextManager[Progress]:
    """The given progress, a silent one, or one that suits stderr."""
    if given is not None:
        return nullcontext(given)
    if not verbose:
        return SILENT
    return Bar() if sys.stderr.isatty() else Lines()


class Lines(Progress):
    """One line for each phase that is not short, and another for each minute of a long one."""

    def __init__(self) -> None:
        self.name = ""
        self.timer: threading.Timer | None = None
        self.began = self.printed = 0.0

    def phase(self, name: str) -> None:
        if name == self.name:
            return
        self.__exit__()
        self.name, self.began = name, time.monotonic()
        self.printed = self.began
        self.timer = threading.Timer(SHORTEST, _print_line, [name])
        self.timer.daemon = True
        self.timer.start()

    def step(self, done: int, total: int, words: str = "") -> None:
        now = time.monotonic()
        if now - self.printed < INTERVAL or not 0 < done < total:
            return
        self.printed = now
        left = timedelta(seconds=round((now - self.began) * (total - done) / done))
        _print_line(f"{self.name}: {done} of {total}, about {left} left")

    def __exit__(self, *error: object) -> None:
        if self.timer is not None:
            self.timer.cancel()


def _print_line(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


class Bar(Progress):
    """The phase, a bar if there is a count, and the time left."""

    def __init__(self) -> None:
        from rich import progress as columns
        from rich.console import Console

        self.name = ""
        self.bar = columns.Progress(
            columns.SpinnerColumn(),
            columns.TextColumn("{task.fields[phase]}", markup=False),
            columns.BarColumn(bar_width=24),
            columns.TaskProgressColumn(),
            columns.TimeElapsedColumn(),
            columns.TimeRemainingColumn(),
            columns.TextColumn("{task.description}", markup=False),
            console=Console(stderr=True, markup=False, highlight=False, emoji=False),
            transient=True,
            refresh_per_second=4,
        )

    def __enter__(self) -> Bar:
        self.bar.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.bar.stop()

    def phase(self, name: str) -> None:
        if name == self.name:
            return
        self.name = name
        for task in self.bar.task_ids:
            self.bar.remove_task(task)
        self.bar.add_task("", total=None, phase=name)

    def step(self, done: int, total: int, words: str = "") -> None:
        for task in self.bar.task_ids:
            self.bar.update(task, completed=done, total=total, description=words)
