"""`gedi choose`: what it prints and refuses."""

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


def test_it_prints_a_table_and_the_recommendation(file):
    text = gedi("choose", file, "--max", 4).stdout
    assert "3 clusters, certified: " in text and "stability" in text and "splits" not in text


def test_json_is_all_that_is_printed_and_quiet_prints_nothing_else(file):
    result = gedi("choose", file, "--max", 2, "--json", "--quiet", "--seed", 1)
    content = json.loads(result.stdout)
    assert [row["n_clusters"] for row in content["numbers"]] == [2] and result.stderr == ""


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--max", 1], "'--max'"),
        (["--max", 151], "n_clusters=151 for 150 points"),
        (["--seed", -1], "'--seed'"),
    ],
)
def test_bad_options_are_refused(file, options, words):
    result = gedi("choose", file, *options, code=2)
    assert words in result.stderr.splitlines()[-1]
