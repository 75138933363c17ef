"""The app and its output: errors in one line, shared options, commands from outside."""

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
from gedilearn.cli.app import Screen, interruptible
from gedilearn.cli.data import Probe, changes, outside
from gedilearn.cli.use import Score
from gedilearn.data.dataset import Dataset
from gedilearn.errors import InputError
from gedilearn.registry import METHODS
from helpers import run_command as gedi


def test_version_and_help():
    assert gedi("--version").stdout == f"gedi-learn {gedilearn.__version__}\n"
    assert gedi("--help").stdout == CliRunner().invoke(app, []).output


def test_there_are_twelve_commands_each_with_an_example():
    listed = gedi("--help").stdout.split("Commands:")[1].strip().splitlines()
    names = [line.split()[0] for line in listed]
    assert len(names) <= 12
    for name in names:
        page = gedi(name, "--help").stdout
        assert f"  gedi {name}" in page or name == "data"
        assert name == "data" or ("--quiet" in page and "--json" in page)


@pytest.fixture
def errors():
    """What the command `gedi count` raises; the command is removed afterwards."""
    raised: list[BaseException] = []
    before = list(app.registered_commands)

    @app.command()
    def count(number: int, step: int = 1, *, screen: Screen) -> None:
        """Count to NUMBER."""
        if raised:
            raise raised[0]
        screen.show([*range(0, number, step)], " ".join(map(str, range(0, number, step))))

    yield raised
    app.registered_commands[:] = before


def test_a_command_can_be_added_from_outside(errors):
    assert gedi("count", 3).stdout == "0 1 2\n"
    assert gedi("count", 5, "--json", "--step", 2).stdout == "[0, 2, 4]\n"
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
def test_errors_are_one_line(errors, error, line, code):
    errors.append(error)
    result = gedi("count", 3, code=code)
    assert result.stderr.startswith(line) and result.stderr.count("\n") == 1
    assert result.stdout == ""


def test_bugs_are_not_hidden(errors):
    errors.append(KeyError("bug"))
    assert isinstance(CliRunner().invoke(app, ["count", "3"]).exception, KeyError)


def test_the_reader_of_a_pipe_may_leave_early():
    command = f"{sys.executable} -m gedilearn settings | head -n 1"
    done = subprocess.run(command, shell=True, capture_output=True, text=True)
    assert done.stdout.startswith("method = ") and done.stderr == ""


def test_an_interruption_says_how_to_continue_a_run_that_has_begun(tmp_path):
    for begun, words in ((None, "again"), (tmp_path, "again"), (tmp_path / "nothing", "")):
        with pytest.raises(KeyboardInterrupt) as caught, interruptible("again", begun):
            raise KeyboardInterrupt
        assert str(caught.value) == words


# --- options ------------------------------------------------------------------------------------


def test_the_options_offer_the_values_of_the_library():
    from gedilearn.evaluation import Probe as Probes
    from gedilearn.training.result import Score as Scores

    assert get_args(Probe) == get_args(Probes) and get_args(Score) == get_args(Scores)
    assert f"--method [{'|'.join(METHODS)}]" in gedi("fit", "--help").stdout


def test_settings_are_read_as_yaml():
    assert changes(["a.b=[1, 2]", "c=null", "d=x=y"]) == {"a.b": [1, 2], "c": None, "d": "x=y"}
    for wrong in ("a", "a=[1"):
        with pytest.raises(InputError, match="--set a"):
            changes([wrong])


def test_foreign_data_has_the_name_given_or_its_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a=b.npy").touch()

    def read(data: str) -> Dataset:
        return Dataset(data.partition(".")[0], np.zeros((1, 2)), None, None, data)

    sets = outside(["far=x.npy", "y.npy", "a=b.npy"], read)
    sources = {name: data.source for name, data in sets.items()}
    assert sources == {"far": "x.npy", "y": "y.npy", "a=b": "a=b.npy"}
    with pytest.raises(InputError, match="two sets are called x"):
        outside(["x.npy", "x=y.npy"], read)


# --- output -------------------------------------------------------------------------------------

COLUMNS = {"row": np.arange(25), "[b]": np.linspace(0, 1, 25, dtype=np.float32)}
RESULT = COLUMNS, COLUMNS["[b]"]


def test_csv_is_read_back_exactly(capsys):
    Screen().give(*RESULT, None)
    rows = csv.DictReader(io.StringIO(capsys.readouterr().out))
    assert [np.float32(row["[b]"]) for row in rows] == COLUMNS["[b]"].tolist()


def test_infinities_stay_valid_json(capsys):
    values = np.array([0.5, np.inf])
    Screen(json=True).give({"a": values}, values, None)
    content = json.loads(capsys.readouterr().out, parse_constant=pytest.fail)
    assert content == {"a": [0.5, "inf"]}


def test_only_the_first_of_several_processes_prints_or_writes(capsys, monkeypatch, tmp_path):
    monkeypatch.setenv("RANK", "1")
    for screen in (Screen(), Screen(json=True)):
        screen.give(*RESULT, None)
        screen.give(*RESULT, tmp_path / "x.csv")
        screen.message("hello")
        screen.show({}, "text")
    assert capsys.readouterr() == ("", "")
    assert not list(tmp_path.iterdir())


def test_messages_go_to_stderr_unless_quiet(capsys):
    Screen().message("hello")
    Screen(quiet=True).message("hush")
    assert capsys.readouterr() == ("", "hello\n")
