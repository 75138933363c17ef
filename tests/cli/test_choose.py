"""`gedi choose`: what it prints, writes and refuses."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import make_blobs

from helpers import run_command as gedi


@pytest.fixture(scope="module")
def file(tmp_path_factory) -> Path:
    x, _ = make_blobs(150, centers=[[0, 0], [0, 9], [9, 0]], cluster_std=0.6, random_state=0)
    path = tmp_path_factory.mktemp("data") / "three.npy"
    np.save(path, x)
    return path


@pytest.fixture(scope="module")
def out(file, tmp_path_factory) -> tuple[Path, str]:
    """A folder that was written, and what was printed."""
    path = tmp_path_factory.mktemp("out") / "new" / "choice"
    return path, gedi("choose", file, "--max", 4, "--out", path).stdout


def test_it_prints_a_table_and_the_recommendation_and_writes_them(out):
    path, text = out
    assert "3 clusters: " in text and "stability" in text
    content = json.loads((path / "choose.json").read_text())
    assert content["n_clusters"] == 3 and content["stands_out"]
    assert content["recommendation"] in text
    assert [row["n_clusters"] for row in content["rows"]] == [2, 3, 4]


def test_it_never_overwrites(out, file):
    path, _ = out
    before = (path / "choose.json").read_bytes()
    result = gedi("choose", file, "--max", 4, "--out", path, code=2)
    assert "exists already" in result.stderr and len(result.stderr.splitlines()) == 1
    assert (path / "choose.json").read_bytes() == before


def test_json_is_all_that_is_printed_and_quiet_prints_nothing_else(file):
    result = gedi("choose", file, "--max", 2, "--json", "--quiet", "--seed", 1)
    content = json.loads(result.stdout)
    assert content["rows"][0]["rank"] == 1 and result.stderr == ""


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--max", 1], "'--max'"),
        (["--max", 151], "n_clusters=151 for 150 points"),
        (["--seed", -1], "'--seed'"),
    ],
)
def test_bad_options_are_refused(file, options, words, tmp_path):
    result = gedi("choose", file, *options, "--out", tmp_path / "out", code=2)
    assert not (tmp_path / "out").exists()
    assert words in result.stderr.splitlines()[-1]
