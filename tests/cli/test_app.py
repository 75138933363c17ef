"""What all commands share: errors in one line, options, output, and commands from outside."""

from __future__ import annotations

import csv
import io
import json
import subprocess
import sys
from typing import get_args

import numpy as np
import pytest
from typer.testing import CliRunner

import gedilearn
from gedilearn.cli import app
from gedilearn.cli.app import Probe, changes, interruptible, outside
from gedilearn.cli.output import Result, Screen, new_files
from gedilearn.cli.use import Kind
from gedilearn.data.dataset import Dataset
from gedilearn.errors import InputError
from gedilearn.registry import METHODS
from gedilearn.settings import choices
from helpers import run_command as gedi


def rows_of(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


def test_version_and_help():
    assert gedi("--version").stdout == f"gedi-learn {gedilearn.__version__}\n"
    assert "gedi fit points.csv --clusters 3" in gedi("--help").stdout
    assert "gedi fit points.csv --clusters 3" in CliRunner().invoke(app, []).output


def test_every_command_has_a_help_page_with_an_example():
    commands = [command.callback.__name__ for command in app.registered_commands]
    assert {"fit", "resume", "predict", "score", "sample", "diagnose", "demo"} <= set(commands)
    for command in commands:
        text = gedi(command, "--help").stdout
        assert f"  gedi {command}" in text.split("Options:")[0]


# --- commands from outside ----------------------------------------------------------------------


@pytest.fixture
def outcome():
    """What the command `gedi count` of this test raises; the command is gone afterwards."""
    raised: list[BaseException] = []
    before = list(app.registered_commands)

    @app.command()
    def count(number: int) -> None:
        """Count to NUMBER."""
        if raised:
            raise raised[0]
        print(*range(number))

    yield raised
    app.registered_commands[:] = before


def test_a_command_can_be_added_from_outside(outcome):
    assert gedi("count", 3).stdout == "0 1 2\n"
    assert "Count to NUMBER" in gedi("--help").stdout


@pytest.mark.parametrize(
    ("error", "line", "code"),
    [
        (InputError("no such\nnumber"), "error: no such number", 2),
        (OSError(28, "No space left on device", "x.csv"), "error: x.csv: no space left on", 2),
        (KeyboardInterrupt(), "interrupted", 130),
        (KeyboardInterrupt("go on with 4"), "interrupted: go on with 4", 130),
    ],
)
def test_its_errors_are_one_line_too(outcome, error, line, code):
    outcome.append(error)
    result = gedi("count", 3, code=code)
    assert result.stderr.startswith(line) and result.stderr.count("\n") == 1
    assert result.stdout == ""


def test_its_bugs_are_not_hidden(outcome):
    outcome.append(KeyError("bug"))
    assert isinstance(CliRunner().invoke(app, ["count", "3"]).exception, KeyError)


def test_the_readers_of_a_pipe_may_leave_early():
    command = f"{sys.executable} -m gedilearn.cli settings | head -n 1"
    done = subprocess.run(command, shell=True, capture_output=True, text=True)
    assert done.stdout.startswith("setting,default") and done.stderr == ""


def test_an_interruption_says_how_to_continue_what_has_begun(tmp_path):
    for begun, words in ((None, "again"), (tmp_path, "again"), (tmp_path / "nothing", "")):
        with pytest.raises(KeyboardInterrupt) as caught, interruptible("again", begun):
            raise KeyboardInterrupt
        assert str(caught.value) == words


# --- options ------------------------------------------------------------------------------------


def test_the_options_offer_what_there_is():
    from gedilearn.evaluation import Probe as Probes
    from gedilearn.training.result import Score

    assert [probe.value for probe in Probe] == list(get_args(Probes))
    assert [kind.value for kind in Kind] == list(get_args(Score))
    page = gedi("fit", "--help").stdout
    assert f"--method [{'|'.join(METHODS)}]" in page
    assert f"--device [{'|'.join(choices('device.accelerator'))}]" in page


def test_settings_are_read_as_yaml():
    assert changes(["a.b=[1, 2]", "c=null", "d=x=y"]) == {"a.b": [1, 2], "c": None, "d": "x=y"}
    assert changes(None) == {}


def test_data_outside_has_the_name_given_or_its_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a=b.npy").touch()

    def read(data: str) -> Dataset:
        return Dataset(data.partition(".")[0], np.zeros((1, 2)), None, None, data)

    found = outside(["far=x.npy", "y.npy", "a=b.npy"], read)
    assert {name: data.source for name, data in found.items()} == {
        "far": "x.npy",
        "y": "y.npy",
        "a=b": "a=b.npy",
    }
    with pytest.raises(InputError, match="--ood far=: write it as NAME=DATA"):
        outside(["far="], read)
    with pytest.raises(InputError, match="two sets called x"):
        outside(["x.npy", "x=y.npy"], read)


def test_files_of_a_new_folder_are_never_old_ones(tmp_path):
    assert new_files(None, "a") == []
    assert new_files(tmp_path / "b" / "c", "a") == [tmp_path / "b" / "c" / "a"]
    assert not list(tmp_path.iterdir())  # nothing is made before there is something to write
    (tmp_path / "b" / "c").mkdir(parents=True)
    (tmp_path / "b" / "c" / "a").touch()
    with pytest.raises(InputError, match="exists already"):
        new_files(tmp_path / "b" / "c", "new", "a")
    with pytest.raises(InputError, match=r"c/a is not a folder"):
        new_files(tmp_path / "b" / "c" / "a" / "d", "new")


# --- the screen ---------------------------------------------------------------------------------


@pytest.fixture
def result() -> Result:
    n = 25
    columns = {"row": np.arange(n), "[b]": np.linspace(0, 1, n, dtype=np.float32)}
    return Result(columns, columns["[b]"], {"values": [0.5, float("inf")]})


def test_a_terminal_gets_a_short_table(result, capsys, monkeypatch):
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    Screen().give(result, None)
    text = capsys.readouterr().out
    assert "[b]" in text
    assert "0.375" in text
    assert "0.4167" not in text
    assert "15 more rows" in text


def test_csv_is_read_back_exactly(result, capsys):
    Screen().give(result, None)
    back = [np.float32(row["[b]"]) for row in rows_of(capsys.readouterr().out)]
    assert back == result.array.tolist()


def test_infinities_stay_valid_json(result, capsys):
    Screen(json=True).give(result, None)
    assert json.loads(capsys.readouterr().out, parse_constant=pytest.fail) == {
        "values": [0.5, "inf"]
    }


def test_only_the_first_of_several_processes_prints_or_writes(
    result, capsys, monkeypatch, tmp_path
):
    monkeypatch.setenv("RANK", "1")
    for screen in (Screen(), Screen(json=True)):
        screen.give(result, None)
        screen.give(result, tmp_path / "x.csv")
        screen.message("hello")
        screen.content({})
        screen.table(("a",), [("b",)])
    assert capsys.readouterr() == ("", "")
    assert not list(tmp_path.iterdir())


def test_messages_go_to_stderr_unless_quiet(capsys):
    Screen().message("hello")
    Screen(quiet=True).message("hush")
    assert capsys.readouterr() == ("", "hello\n")
