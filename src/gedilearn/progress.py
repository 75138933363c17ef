"""What is being done, and for how much longer: a value handed down to all that takes time.

`Progress` itself is silent. On a terminal the phase is shown with a bar that goes when it is done;
elsewhere, in a log or a notebook, it is one plain line. All of it goes to stderr.
"""

from __future__ import annotations

import sys
import threading
import time
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from types import TracebackType

    import rich.progress

SHORT = 0.3  # seconds: a phase that is over by then, or refused, leaves no line
OFTEN = 0.1  # seconds between two moves of the bar
AGAIN = 60.0  # seconds after which the line of a long phase is followed by another


class Progress:
    """Told the phase and how far it is; says nothing."""

    def phase(self, name: str, at_once: bool = False) -> None:
        """Something else begins; with `at_once`, it is said even if it may be over in a moment."""

    def step(self, done: int, total: int, words: str = "") -> None:
        """So much of it is done; `words` is what else there is to see, on a terminal."""

    def __enter__(self) -> Progress:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Leave nothing behind on a terminal."""


SILENT = Progress()


def shown(verbose: bool, given: Progress | None = None) -> AbstractContextManager[Progress]:
    """For a `with`: the one that is given, a silent one, or what suits stderr."""
    if given is not None:
        return nullcontext(given)
    if not verbose:
        return SILENT
    return Bar() if sys.stderr.isatty() else Lines()


class Lines(Progress):
    """One line for each phase that takes its time, and another for each minute of a long one."""

    def __init__(self) -> None:
        self.name = ""
        self.waiting: threading.Timer | None = None
        self.began = self.said = 0.0

    def phase(self, name: str, at_once: bool = False) -> None:
        self._stop()
        self.name, self.began = name, time.monotonic()
        self.said = self.began
        if at_once:
            self._say(name)
            return
        self.waiting = threading.Timer(SHORT, self._say, [name])
        self.waiting.daemon = True
        self.waiting.start()

    def step(self, done: int, total: int, words: str = "") -> None:
        now = time.monotonic()
        if now - self.said < AGAIN or not 0 < done < total:
            return
        self.said = now
        left = (now - self.began) * (total - done) / done
        self._say(f"{self.name}: {done} of {total}, about {duration(left)} left")

    def __exit__(self, *_: Any) -> None:
        self._stop()

    def _stop(self) -> None:
        if self.waiting is not None:
            self.waiting.cancel()
            self.waiting = None

    def _say(self, line: str) -> None:
        print(line, file=sys.stderr, flush=True)


class Bar(Progress):
    """The phase, a bar where there is a count, and the time that is left."""

    def __init__(self) -> None:
        self.bar: rich.progress.Progress | None = None
        self.name = ""
        self.moved = 0.0

    def __enter__(self) -> Bar:
        from rich.console import Console
        from rich.progress import (
            BarColumn,
            Progress,
            SpinnerColumn,
            TaskProgressColumn,
            TextColumn,
            TimeElapsedColumn,
            TimeRemainingColumn,
        )

        self.bar = Progress(
            SpinnerColumn(),
            TextColumn("{task.fields[phase]}", markup=False),
            BarColumn(bar_width=24),
            TaskProgressColumn(),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            TextColumn("{task.description}", markup=False),
            console=Console(stderr=True, markup=False, highlight=False, emoji=False),
            transient=True,
            refresh_per_second=4,
        )
        self.bar.start()
        return self

    def __exit__(self, *_: Any) -> None:
        if self.bar is not None:
            self.bar.stop()
            self.bar = None

    def phase(self, name: str, at_once: bool = False) -> None:
        if self.bar is not None:
            for task in self.bar.task_ids:
                self.bar.remove_task(task)
            self.bar.add_task("", total=None, phase=name)
            self.bar.refresh()
        self.moved = 0.0

    def step(self, done: int, total: int, words: str = "") -> None:
        now = time.monotonic()
        if self.bar is None or not self.bar.task_ids or now - self.moved < OFTEN:
            return
        self.moved = now
        task = self.bar.task_ids[0]
        self.bar.update(task, completed=done, total=total, description=words)


def duration(seconds: float) -> str:
    """In the unit that says most: 40 s, 12 min, 3 h."""
    for unit, length in (("h", 3600.0), ("min", 60.0)):
        if seconds >= 2 * length:
            return f"{seconds / length:.0f} {unit}"
    return f"{seconds:.0f} s"
