"""`gedi choose`: what it prints and refuses."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.datasets import make_blobs

from gedilearn.verdict.number import Number, NumberChoice
from helpers import run_command as gedi


@pytest.fixture(scope="module")
def file(tmp_path_factory) -> Path:
    x, _ = make_blobs(150, centers=[[0, 0], [0, 9], [9, 0]], cluster_std=0.6, random_state=0)
    path = tmp_path_factory.mktemp("data") / "three.npy"
    np.save(path, x)
    return path


def test_the_output_reads_like_this(file, monkeypatch):
    numbers = (
        Number(2, 1.0, "separated", groups=2, cut=0.0),
        Number(3, 0.98765, "stable", groups=3, cut=0.012345),
        Number(4, 0.5, None, groups=1, cut=0.5),
    )
    choice = NumberChoice(3, tuple(replace(n, splits=split(n.n_clusters)) for n in numbers))
    choice = replace(choice, model=SimpleNamespace(grade_="supported"))
    monkeypatch.setattr("gedilearn.selection.choose_n_clusters", lambda *_, **__: choice)
    text = gedi("choose", file).stdout
    assert [line.rstrip() for line in text.splitlines()] == SNAPSHOT.format(file).splitlines()


SNAPSHOT = """{}: 150 rows, 2 columns

 clusters   stability   groups separated by density dips      cut   supported
 ────────────────────────────────────────────────────────────────────────────
        2           1                                  2        0   separated
        3       0.988                                  3   0.0123   stable
        4         0.5                                  1      0.5   no

Recommended: 3 clusters (supported). Of 2 to 4 clusters, 3 is the largest number \
whose clusters are separated by density dips; 2 is also supported.
""".replace("\\\n", "")


def split(k: int) -> tuple[tuple[int, ...], ...]:
    return () if k == 2 else ((1,) * k,) * (k - 1)


def test_it_recommends_the_number_of_groups(file):
    content = json.loads(gedi("choose", file, "--max", 4, "--json").stdout)
    assert content["n_clusters"] == 3 and len(content["numbers"]) == 3


def test_json_is_all_that_is_printed_and_quiet_prints_nothing_else(file):
    result = gedi("choose", file, "--max", 2, "--json", "--quiet", "--seed", 1)
    content = json.loads(result.stdout)
    assert [row["n_clusters"] for row in content["numbers"]] == [2] and result.stderr == ""


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--max", 1], "'--max'"),
        (["--max", 151], "--max 151 for 150 points"),
        (["--seed", -1], "'--seed'"),
    ],
)
def test_bad_options_are_refused(file, options, words):
    result = gedi("choose", file, *options, code=2)
    assert words in result.stderr.splitlines()[-1]
