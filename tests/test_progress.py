"""Phases are named: on a terminal with a bar, elsewhere by one line each, in silence not at all."""

from __future__ import annotations

import io
import sys
import time

import numpy as np
import pytest

from gedilearn import GEDI, progress
from gedilearn.progress import SILENT, Bar, Lines, Progress, duration, shown


class Heard(Progress):
    """Keeps what it is told."""

    def __init__(self) -> None:
        self.phases: list[str] = []
        self.steps: dict[str, list[tuple[int, int]]] = {}

    def phase(self, name: str, at_once: bool = False) -> None:
        self.phases.append(name)

    def step(self, done: int, total: int, words: str = "") -> None:
        self.steps.setdefault(self.phases[-1], []).append((done, total))


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def points() -> np.ndarray:
    rng = np.random.default_rng(0)
    return np.concatenate([rng.normal(-3, 1, (30, 2)), rng.normal(3, 1, (30, 2))])


SETTINGS = {"density.iterations": 20, "training.check_every": 10}


def test_a_fit_names_its_phases_and_counts_in_them(points, tmp_path):
    heard = Heard()
    model = GEDI(2, max_iter=20, random_state=0, settings=SETTINGS)
    model.fit_run(points, tmp_path / "run", None, heard)
    expected = ["neighbours", "starts", "clusters", "certificate", "structure", "density"]
    assert heard.phases == [*expected, "profile"]
    for name in ("starts", "clusters", "structure", "density"):
        counts = heard.steps[name]
        assert all(0 <= done <= total for done, total in counts)
        assert counts == sorted(counts)


def test_what_is_told_does_not_change_the_fit(points):
    told = GEDI(2, max_iter=20, random_state=0, settings=SETTINGS)
    told.fit_run(points, None, None, Heard())
    silent = GEDI(2, max_iter=20, random_state=0, settings=SETTINGS).fit(points)
    np.testing.assert_array_equal(told.predict_proba(points), silent.predict_proba(points))
    np.testing.assert_array_equal(told.score_samples(points), silent.score_samples(points))


def test_without_a_terminal_each_long_phase_is_a_line(monkeypatch, capsys):
    monkeypatch.setattr(progress, "SHORT", 0.01)
    with Lines() as lines:
        lines.phase("reading")
        time.sleep(0.2)
        lines.phase("clusters", at_once=True)
        lines.step(1, 10)
        lines.phase("density")  # over at once
    time.sleep(0.1)
    assert capsys.readouterr().err == "reading\nclusters\n"


def test_what_is_refused_at_once_leaves_no_line(capsys):
    with pytest.raises(ValueError), Lines() as lines:
        lines.phase("reading")
        raise ValueError
    time.sleep(progress.SHORT + 0.1)
    assert capsys.readouterr().err == ""


def test_a_long_phase_tells_the_time_left_now_and_then(monkeypatch, capsys):
    now = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    lines = Lines()
    lines.phase("clusters", at_once=True)
    for done in range(1, 10):
        now[0] += 20
        lines.step(done, 10)
    lines.__exit__()
    told = [f"clusters: {done} of 10, about {left} left" for done, left in DURATIONS]
    assert capsys.readouterr().err.splitlines() == ["clusters", *told]


DURATIONS = [(3, "2 min"), (6, "80 s"), (9, "20 s")]


def test_times_are_said_in_the_unit_that_says_most():
    assert [duration(s) for s in (0.4, 119, 120, 7199, 7200)] == [
        "0 s",
        "119 s",
        "2 min",
        "120 min",
        "2 h",
    ]


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


def test_what_is_shown_depends_on_verbose_and_stderr():
    assert shown(False) is SILENT
    assert isinstance(shown(True), Lines)  # stderr of a test is no terminal
    heard = Heard()
    with shown(False, heard) as given:
        assert given is heard


def test_verbose_writes_lines_to_stderr(points, monkeypatch, capsys):
    monkeypatch.setattr(progress, "SHORT", 0.0)
    GEDI(2, max_iter=20, random_state=0, verbose=True, settings=SETTINGS).fit(points)
    written = capsys.readouterr()
    assert written.out == "" and {"clusters", "density"} <= set(written.err.splitlines())
