"""`gedi grade` and `--class-column`, on a table."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import make_blobs

from gedilearn import GEDI
from helpers import run_command as gedi

X, Y = make_blobs(240, centers=[[0, 0], [8, 0], [0, 8]], random_state=0)
NAMES = np.array(["gold", "iron", "zinc"], object)


@pytest.fixture
def table(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    frame = pd.DataFrame({"customer": [f"c{k}" for k in range(240)], "a": X[:, 0], "b": X[:, 1]})
    frame["segment"] = np.where(np.arange(240) < 20, NAMES[Y], None)
    given = NAMES[Y]
    given[7], given[:3] = NAMES[(Y[7] + 1) % 3], None
    frame["cluster"] = given
    frame.to_csv("table.csv", index=False)
    return frame


def test_known_cells_name_the_clusters(table):
    command = ("fit", "table.csv", "--class-column", "segment", "--drop", "cluster")
    said = gedi(*command, "--out", "run", "--set", "weights.gen=0")
    assert "certified" in said.stdout and "gold" in said.stdout
    rows = pd.read_csv("run/labels.csv")
    assert (rows["name"] == NAMES[Y]).all() and rows["cluster"].tolist() == Y.tolist()
    new = pd.read_csv(pd.io.common.StringIO(gedi("predict", "run", "table.csv").stdout))
    assert (new["name"] == NAMES[Y]).all()


def test_labels_of_a_table_are_graded_and_the_run_is_read_again(table):
    command = ("grade", "table.csv", "--label-column", "cluster", "--drop", "segment")
    result = json.loads(gedi(*command, "--out", "run", "--json").stdout)
    assert result["n_samples"] == 237 and result["disputed"][0] == 1
    assert [row["name"] for row in result["clusters"]] == NAMES.tolist()
    rows = pd.read_csv("run/labels.csv")
    assert rows["row"].tolist() == list(range(3, 240))
    differs = rows[rows["name"] != rows["suggested"]]
    assert differs["row"].tolist() == [7] and differs["customer"].tolist() == ["c7"]
    assert differs["trust"].item() < rows["trust"].median()
    (table_file := pd.read_csv("table.csv")).to_csv("moved.csv", index=False)
    assert len(table_file) == 240
    gedi("resume", "run", "--data", "moved.csv")
    assert result["verdict"]["figures"]["labels disputed"] == "1 of 237"
    assert gedi("report", "run").exit_code == 0
    assert GEDI.load("run/model.safetensors").disputed_.tolist() == [4]


def test_labels_of_a_file_of_arrays_are_graded(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.savez("points.npz", x=X, y=np.where(np.arange(240) < 5, -1, Y))
    result = json.loads(gedi("grade", "points.npz", "--out", "run", "--json").stdout)
    assert result["certified"] and result["n_samples"] == 235 and "nmi" not in result
    (tmp_path / "run" / "labels.csv").unlink()  # killed before the last file
    gedi("resume", "run")
    assert pd.read_csv("run/labels.csv")["row"].tolist() == list(range(5, 240))


def test_a_killed_run_with_labels_goes_on(table, monkeypatch):
    """The labels are read again from the table."""
    command = ("fit", "table.csv", "--class-column", "segment", "--drop", "cluster", "--seed", "0")
    how = ("--set", "weights.gen=0", "--set", "training.checkpoint_every=0")
    gedi(*command, *how, "--out", "whole")
    from gedilearn.training import loop

    conclude = loop.conclude
    monkeypatch.setattr(loop, "conclude", interrupted)
    gedi(*command, *how, "--out", "cut", code=130)
    monkeypatch.setattr(loop, "conclude", conclude)
    gedi("resume", "cut")
    assert pd.read_csv("cut/labels.csv").equals(pd.read_csv("whole/labels.csv"))


def interrupted(*_):
    raise KeyboardInterrupt


@pytest.mark.parametrize(
    ("command", "says"),
    [
        (("grade", "table.csv"), "--label-column"),
        (("grade", "table.csv", "--label-column", "nothing"), "no column 'nothing'"),
        (("fit", "table.csv", "--class-column", "segment", "-k", "2"), "3 known classes"),
    ],
)
def test_bad_labels_are_one_line_and_leave_nothing(table, command, says, tmp_path):
    refused = gedi(*command, code=2)
    assert says in refused.stderr.splitlines()[-1]
    assert not (tmp_path / "gedi-runs").exists()
