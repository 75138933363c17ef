"""What a training tells while it runs: the run directory's metrics and events, a progress bar."""

from __future__ import annotations

import time
from types import TracebackType
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from torch import Tensor

from gedilearn.training.monitor import Diagnosis
from gedilearn.training.run_directory import RunDirectory
from gedilearn.training.state import TrainState


class Journal:
    """Written by the first process alone: `run` is None elsewhere, or when nobody wants it."""

    def __init__(
        self, run: RunDirectory | None, verbose: bool = False, tensorboard: bool = False
    ) -> None:
        self.run = run
        self.tensorboard = tensorboard
        self.progress = _progress_bar() if verbose else None
        self.shown = 0.0
        self.started = time.perf_counter()
        self.seconds_before = 0.0  # of the run before a resume

    def __enter__(self) -> Journal:
        if self.progress is not None:
            self.progress.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self.progress is not None:
            self.progress.stop()

    def seconds(self) -> float:
        """The time that training has taken."""
        return self.seconds_before + time.perf_counter() - self.started

    def rewind(self, state: TrainState) -> None:
        """Drop what was logged after the iteration that training goes on from."""
        if self.run is not None:
            self.run.rewind(state.iteration)

    def step(self, state: TrainState, terms: dict[str, Tensor]) -> None:
        """Move the bar, twice a second at most; it shows the means of the terms, (members,)."""
        now = time.perf_counter()
        if self.progress is None or now - self.shown < 0.5:
            return
        self.shown = now
        words = "  ".join(f"{name} {float(term.mean()):.3f}" for name, term in terms.items())
        gap = max(kept.gap for kept in state.kept)
        self.progress.update(
            self.progress.task_ids[0],
            total=state.stage.end,
            completed=state.iteration,
            description=f"{state.stage.name}: {words}  gap {gap:.4f}",
        )
        self.progress.refresh()

    def check(
        self, state: TrainState, terms: dict[str, Tensor], gaps: Tensor, diagnosis: Diagnosis
    ) -> None:
        """A row of metrics, and an event for every finding that came or went."""
        if self.run is not None:
            kept = state.kept[0]
            row: dict[str, Any] = {"iteration": state.iteration, "stage": state.stage.name}
            row |= {"seconds": round(self.seconds(), 3)}
            row |= {name: term.tolist() for name, term in terms.items()}
            row |= {"gap": gaps.tolist(), "kept": kept.member, "best_gap": kept.gap}
            row |= {f.name: f.value for f in diagnosis.findings}
            self.run.add_metrics(row)
            if self.tensorboard:
                self.run.add_to_tensorboard(row)
            for finding in diagnosis.findings:
                if finding.ok == (finding.name in state.reported):
                    kind = "mended" if finding.ok else "finding"
                    self.event(state, kind, finding.words, mode=finding.mode, value=finding.value)
        state.reported = {finding.name for finding in diagnosis.problems}

    def event(self, state: TrainState, kind: str, message: str, **details: Any) -> None:
        """Write an event to the run directory."""
        if self.run is not None:
            self.run.add_event(kind, message, iteration=state.iteration, **details)


def _progress_bar() -> Progress:
    bar = Progress(
        TextColumn("{task.completed}/{task.total}"),
        BarColumn(bar_width=24),
        TimeRemainingColumn(),
        TextColumn("{task.description}"),
        console=Console(stderr=True),  # stdout is for results
        auto_refresh=False,
        transient=True,
    )
    bar.add_task("")
    return bar
