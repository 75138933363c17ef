"""Ctrl-C and SIGTERM end a run between two iterations, where a checkpoint is whole."""

from __future__ import annotations

import signal
import threading
from types import FrameType, TracebackType
from typing import Any


class Interruptible:
    """While active, the first signal only sets `asked`; a second Ctrl-C interrupts at once."""

    def __init__(self, active: bool) -> None:
        # Python delivers signals to the main thread alone.
        self.active = active and threading.current_thread() is threading.main_thread()
        self.asked = False
        self.previous: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Interruptible:
        if self.active:
            for name in (signal.SIGINT, signal.SIGTERM):
                self.previous[name] = signal.signal(name, self._ask)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for name, handler in self.previous.items():
            signal.signal(name, handler)

    def _ask(self, number: int, frame: FrameType | None) -> None:
        if self.asked:
            raise KeyboardInterrupt
        self.asked = True
