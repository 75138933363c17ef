"""Phases are named: by a bar on a terminal, by one line each elsewhere."""

from __future__ import annotations

import io
import sys
import time

import numpy as np
import pytest

from gedilearn import GEDI, progress
from gedilearn.progress import SILENT, Bar, Lines, Progress, shown

SETTINGS = {"training.check_every": 10}


class Recorder(Progress):
    """Keeps the phases and the counts in them."""

    def __init__(self) -> None:
        self.phases: list[str] = []
        self.steps: dict[str, list[tuple[int, int]]] = {}

    def phase(self, name: str) -> None:
        self.phases.append(name)

    def step(self, done: int, total: int, words: str = "") -> None:
        self.steps.setdefault(self.phases[-1], []).append((done, total))


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_fit_names_its_phases_and_counts_in_them_and_is_the_same(tmp_path):
    rng = np.random.default_rng(0)
    points = np.concatenate([rng.normal(-3, 1, (30, 2)), rng.normal(3, 1, (30, 2))])
    recorder = Recorder()
    model = GEDI(2, max_iter=20, random_state=0, settings=SETTINGS)
    model.fit_run(points, tmp_path / "run", None, recorder)
    phases = ["training", "measuring the result", "writing the result"]
    assert list(dict.fromkeys(recorder.phases)) == phases and "training" in recorder.steps
    for counts in recorder.steps.values():
        assert all(0 <= done <= total for done, total in counts) and counts == sorted(counts)
    silent = GEDI(2, max_iter=20, random_state=0, settings=SETTINGS).fit(points)
    np.testing.assert_array_equal(model.score_samples(points), silent.score_samples(points))


def test_without_a_terminal_each_long_phase_is_a_line(monkeypatch, capsys):
    monkeypatch.setattr(progress, "SHORTEST", 0.05)
    with pytest.raises(ValueError), Lines() as lines:
        lines.phase("reading")
        time.sleep(0.3)
        lines.phase("density")  # over at once
        raise ValueError
    time.sleep(0.2)
    assert capsys.readouterr().err == "reading\n"


def test_a_long_phase_prints_the_time_left_each_minute(monkeypatch, capsys):
    now = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    with Lines() as lines:
        lines.phase("clusters")
        for done in range(1, 10):
            now[0] += 20
            lines.step(done, 10)
    expected = [(3, "0:02:20"), (6, "0:01:20"), (9, "0:00:20")]
    printed = [f"clusters: {done} of 10, about {left} left" for done, left in expected]
    assert capsys.readouterr().err.splitlines() == printed


def test_a_terminal_has_a_bar_that_leaves_nothing_behind(monkeypatch):
    monkeypatch.setattr(sys, "stderr", Terminal())
    monkeypatch.setenv("TERM", "xterm")
    with shown(True) as bar:
        assert isinstance(bar, Bar)
        bar.phase("reading [bold]x.csv")
        bar.step(1, 4, "gap 0.1")
        assert bar.bar.tasks[0].total == 4 and bar.bar.tasks[0].completed == 1
        bar.phase("clusters")
        assert [task.fields["phase"] for task in bar.bar.tasks] == ["clusters"]
    assert "reading [bold]x.csv" in sys.stderr.getvalue()
    bar.phase("after the end")  # is not shown, and no error


def test_the_display_depends_on_verbose_and_stderr():
    assert shown(False) is SILENT
    assert isinstance(shown(True), Lines)  # stderr of a test is no terminal
    recorder = Recorder()
    with shown(False, recorder) as given:
        assert given is recorder
