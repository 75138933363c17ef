from __future__ import annotations

import json
import os
from datetime import date, datetime, time
from pathlib import Path

import pytest
import torch

from gedilearn.errors import InputError
from gedilearn.io import is_leftover, json_text, replacing, write_tensors, write_text


def fill_the_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)


def test_a_failed_write_leaves_the_old_file_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.json"
    write_text(path, "old")
    fill_the_disk(monkeypatch)
    with pytest.raises(OSError, match=r"No space.*a\.json"):
        write_text(path, "new")
    with pytest.raises(OSError, match=r"No space.*a\.json"):
        write_tensors(path, {"x": torch.zeros(3)})
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_new_file_never_replaces_one_that_appeared_meanwhile(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    with pytest.raises(InputError, match="exists already"), replacing(path, new=True) as temporary:
        temporary.write_text("mine")
        path.write_text("theirs")
    assert path.read_text() == "theirs"
    assert list(tmp_path.iterdir()) == [path]


def test_tensors_are_readable_by_whom_other_files_are(tmp_path: Path) -> None:
    write_text(tmp_path / "text", "")
    write_tensors(tmp_path / "tensors", {"x": torch.zeros(3)})
    modes = {(tmp_path / name).stat().st_mode for name in ("text", "tensors")}
    assert len(modes) == 1


def test_a_leftover_of_a_killed_write_is_known_by_its_name(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt), replacing(tmp_path / "config.yaml") as temporary:
        assert is_leftover(temporary, "config.yaml")
        assert not is_leftover(temporary, "other.yaml")
        raise KeyboardInterrupt


def test_dates_and_times_are_text_in_json() -> None:
    content = {"when": [datetime(2024, 3, 1, 6, 45), date(2024, 3, 1), time(18, 30)]}
    expected = ["2024-03-01T06:45:00", "2024-03-01", "18:30:00"]
    assert json.loads(json_text(content)) == {"when": expected}
