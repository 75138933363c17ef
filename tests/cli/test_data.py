"""The commands `gedi data`: sets come in from a folder, and wrong names are one line."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from gedilearn.cli import app


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("GEDI_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def gedi(*arguments: str) -> tuple[int, str]:
    done = CliRunner().invoke(app, list(arguments))
    return done.exit_code, done.output


def test_the_list_says_what_is_here_and_where_it_is_kept(cache: Path) -> None:
    code, out = gedi("data", "list", "--json")
    described = json.loads(out)
    assert code == 0 and described["cache"] == str(cache)
    assert {"mnist", "cifar10", "cifar100", "svhn"} <= {s["name"] for s in described["sets"]}
    assert not any(s["cached"] for s in described["sets"])


def test_a_set_that_is_not_here_says_how_to_get_it() -> None:
    code, out = gedi("fit", "cifar10", "--clusters", "2")
    assert code == 2 and out.count("\n") == 1
    assert "gedi data get cifar10" in out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [(("cifar11",), "cifar10"), (("mnist", "--from", "nowhere"), "nowhere")],
)
def test_a_wrong_name_or_folder_is_one_line(arguments: tuple[str, ...], words: str) -> None:
    code, out = gedi("data", "get", *arguments)
    assert code == 2 and words in out.splitlines()[-1] and out.count("error:") == 1


def test_a_set_from_a_folder_needs_its_files(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    np.save(tmp_path / "empty" / "other.npy", np.zeros(3))
    code, out = gedi("data", "get", "svhn", "--from", str(tmp_path / "empty"))
    assert code == 2 and "train_32x32.mat" in out
