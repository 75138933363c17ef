"""The progress bar: the terms, the gap, and the time left."""

from __future__ import annotations

import time

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from torch import Tensor


class Display:
    """A line on the terminal, refreshed twice a second so that it costs nothing."""

    def __init__(self) -> None:
        self.progress = Progress(
            TextColumn("{task.completed}/{task.total}"),
            BarColumn(bar_width=24),
            TimeRemainingColumn(),
            TextColumn("{task.description}"),
            console=Console(stderr=True),  # stdout is for results
            auto_refresh=False,
            transient=True,
        )
        self.task = self.progress.add_task("")
        self.shown = 0.0

    def __enter__(self) -> Display:
        self.progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.progress.stop()

    def step(
        self, stage: str, iteration: int, end: int, terms: dict[str, Tensor], gap: float
    ) -> None:
        """Terms are (members,); the bar shows their means."""
        now = time.perf_counter()
        if now - self.shown < 0.5:
            return
        self.shown = now
        words = "  ".join(f"{name} {float(term.mean()):.3f}" for name, term in terms.items())
        description = f"{stage}: {words}  gap {gap:.4f}"
        self.progress.update(self.task, total=end, completed=iteration, description=description)
        self.progress.refresh()
