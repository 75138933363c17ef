"""Some cases of every kind, the same ones every time; `make fuzz` plays others, for hours."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from fuzz.play import Case, Entry, Player

TESTS = Path(__file__).parents[1]


@pytest.mark.parametrize(
    ("kinds", "cases"),
    [("files,commands,runs,api,interruptions", 3)],  # ranks: tests/training/test_ranks.py
)
def test_cases_end_well_or_are_refused_in_one_line(kinds: str, cases: int, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "fuzz", "--seed", "1", "--cases", str(cases), "--kinds", kinds]
    env = os.environ | {"PYTHONPATH": os.pathsep.join([str(TESTS), *sys.path])}
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, env=env)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{cases * len(kinds.split(','))} cases" in done.stdout


@pytest.mark.parametrize(
    ("script", "fault"),
    [
        ("raise KeyError('a')", "traceback: ?: KeyError: 'a'"),
        ("while True: pass", "a hang"),
        ("import time; time.sleep(99)", "a hang"),
        ("x = b'a' * 2**30", "memory"),
        ("import os; os.kill(os.getpid(), 11)", "a crash: signal 11"),
        ("import os; os.remove('x')", "lost: x"),
        ("open('x', 'w').write('b')", "changed: x"),
        ("open('y', 'w')", "written: y"),
        ("open('r.part', 'w')", "left behind: r.part"),
        ("open('r', 'w'); raise ValueError('no')", "written: r by a refusal"),
        ("import sys; print('error: a\\nerror: b', file=sys.stderr); sys.exit(2)", "not one line"),
        ("import sys; sys.exit(3)", "exit code 3"),
        ("import os; os.kill(os.getpid(), 2); print('deaf')", "exit code 130"),
        ("print('row,p\\n0,nan')", "nan in output"),
        ("open('r', 'w').write('a')", None),
        ("raise ValueError('no')", None),
    ],
)
def test_a_fault_is_noticed(tmp_path: Path, script: str, fault: str | None) -> None:
    player = Player(tmp_path)
    player.seconds = 0.5 if fault == "a hang" else player.seconds
    player.memory = 2**30 if fault == "memory" else 2**40
    found = player.faults(Case((Entry("x", b"a"),), script=script, writes=("r", "r.part")))
    assert any(each.startswith(fault) for each in found) if fault else not found
