"""Some cases of every kind, the same ones every time; `make fuzz` plays others, for hours."""

from __future__ import annotations

import io
import json
import math
import signal
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from fuzz.contents import FORMS, MODES, picture
from fuzz.damage import Doubled, Edited, InHeader, InTensor, InText
from fuzz.entries import Damaged, File, Repeated, Sparse
from fuzz.interruptions import X, fit_or_resume
from fuzz.kinds import play_round
from fuzz.player import LIMITS, Case, Interruption, Player
from fuzz.run_folders import Copied
from fuzz.server import PHASES
from fuzz.tiny import make_templates


@pytest.fixture(scope="module")
def player() -> Iterator[Player]:
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)  # as a shell does it in the background
    player = Player.start()
    signal.signal(signal.SIGINT, before)
    make_templates(player)
    yield player
    player.stop()


def fail(case: Any, faults: list[str]) -> None:
    pytest.fail(f"{case.command()}\n{faults}")


@pytest.mark.parametrize("number", [1, 2])
@pytest.mark.parametrize("kind", ["files", "commands", "settings", "runs", "api"])
def test_a_case_ends_well_or_is_refused_in_one_line(player: Player, kind: str, number: int) -> None:
    play_round(player, kind, number, fail)


@pytest.mark.parametrize("kind, most", [("interruptions", 4), ("ranks", 1)])
def test_an_interrupted_fit_goes_on_to_the_same_end(player: Player, kind: str, most: int) -> None:
    play_round(player, kind, 1, fail, most)


def test_a_fit_goes_through_every_phase(player: Player) -> None:
    np.save(player.empty_folder("case") / "x.npy", X)
    never = Interruption("labels", 2, 0.0, 0)
    (end,) = fit_or_resume(player, player.root / "case", 1, never)
    assert (end.code, set(end.entered)) == (0, set(PHASES)), end.err


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("mode", MODES)
def test_a_picture_of_every_mode_and_form_can_be_drawn(mode: str, form: str) -> None:
    with Image.open(io.BytesIO(picture(mode, (7, 9), form))) as image:
        assert image.size == (7, 9)


def test_damage_is_done_to_no_more_than_memory_holds(tmp_path: Path) -> None:
    for large in (Sparse("x", b"", 2**34), Repeated("x", b"[", b"0,", 10**6)):
        large.put(tmp_path)
        size = (tmp_path / "x").stat().st_size
        Damaged("x", Doubled()).put(tmp_path)
        Copied("y", "x").put(tmp_path)
        assert [path.stat().st_size for path in tmp_path.iterdir()] == [size]
    for claims in ([0, 10**12], [-0.5, 8], [8, -(10**12)], [0, math.nan], ["a"]):
        header = json.dumps({"a": {"dtype": "F32", "data_offsets": claims}}).encode()
        content = struct.pack("<Q", len(header)) + header + bytes(8)
        assert len(InTensor(0.0, 1.0, True).apply(content)) == len(content)


@pytest.mark.parametrize("form", ["json", "jsonl", "yaml", "header", "tensor"])
@pytest.mark.parametrize("before", [b"", b"[" * 100_000, b"\xff", b"[]", b'{"a": 1}'])
def test_damage_leaves_alone_what_is_damaged_already(form: str, before: bytes) -> None:
    edit = Edited(0.5, None)
    damage = {"header": InHeader(edit, True), "tensor": InTensor(0.0, 1.0, True)}.get(form)
    if damage is not None:
        before = struct.pack("<Q", len(before)) + before
    assert isinstance((damage or InText(form, edit)).apply(before), bytes)


def test_a_case_hears_ctrl_c_however_the_fuzzer_was_started(player: Player) -> None:
    script = "import os, signal; os.kill(os.getpid(), signal.SIGINT); print('deaf')"
    (end,) = player.play(player.empty_folder("case"), script=script)
    assert (end.code, end.out) == (130, "")


@pytest.mark.parametrize(
    "script, fault",
    [
        ("raise KeyError('a')", "traceback: ?: KeyError: 'a'"),
        ("while True: pass", "a hang"),
        ("import time; time.sleep(99)", "a hang"),
        ("import numpy; numpy.ones(2**26)", "memory"),
        ("import os; os.kill(os.getpid(), 11)", "a crash: signal 11"),
        ("import os; os.remove('x')", "lost: x"),
        ("open('x', 'w').write('b')", "changed: x"),
        ("open('y', 'w')", "written: y"),
        ("open('x', 'a'); open('r.part', 'w')", "left behind: r.part"),
        ("open('r', 'w'); raise ValueError('no')", "written by a refusal: r"),
        ("import sys; print('error: a\\nerror: b', file=sys.stderr); sys.exit(2)", "not one line"),
        ("import sys; sys.exit(3)", "exit code 3"),
        ("print('row,p\\n0,nan')", "nan in output"),
        ("open('r', 'w').write('a')", None),
        ("raise ValueError('no')", None),
    ],
)
def test_a_fault_is_noticed(player: Player, script: str, fault: str | None) -> None:
    seconds, memory = LIMITS
    player.limits = {"a hang": (0.5, memory), "memory": (seconds, 2**29)}.get(fault, LIMITS)
    found = player.faults(Case((File("x", b"a"),), script=script, writes=("r", "r.part")))
    player.limits = LIMITS
    assert any(each.startswith(fault) for each in found) if fault else not found
