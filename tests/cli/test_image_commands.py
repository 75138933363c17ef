"""The command `gedi reproduce images`."""

from __future__ import annotations

import csv
from functools import partial

import numpy as np
import pytest
from typer.testing import CliRunner

from gedilearn import assessment
from gedilearn.cli import app
from gedilearn.cli.image_commands import Scale
from gedilearn.experiments import image_sets
from gedilearn.experiments.images import SCALES

SHORT = [
    *("--iterations", "3", "--samples", "4", "--steps", "2", "--seeds", "1"),
    *("--set", "network.width=4", "--set", "sampler.steps=1"),
    *("--set", "training.check_every=3"),
]


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("GEDI_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(assessment, "assess", partial(assessment.assess, frechet=False))


def gedi(*arguments):
    return CliRunner().invoke(app, ["reproduce", "images", *map(str, arguments)])


def test_a_run_writes_tables_and_says_that_it_was_shortened(tmp_path, monkeypatch):
    train, test = image_sets.load_sets("digits")
    few = [type(s)(s.name, s.x[:80], s.y[:80], None, "") for s in (train, test)]
    monkeypatch.setattr("gedilearn.experiments.images.load_sets", lambda data: few)
    np.save(tmp_path / "noise.npy", np.random.default_rng(0).uniform(0, 16, (30, 1, 8, 8)))
    asked = ["--data", "digits", *SHORT, "--ood", f"noise={tmp_path / 'noise.npy'}"]
    done = gedi(*asked, "--methods", "no-gen", "--out", tmp_path / "out")
    assert done.exit_code == 0, done.output
    folder = tmp_path / "out" / "digits-default-3-iterations"
    with open(folder / "images.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["method"] for row in rows] == ["k-means", "no-gen"]
    assert rows[1]["iterations"] == "3" and '"noise": {"n": 30' in rows[1]["ood"]
    for text in (done.output, (folder / "images.md").read_text()):
        assert "training shortened to 3 iterations" in text


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--data", "cifar12"), "unknown data set 'cifar12'"),
        (("--data", "cifar10", "--scale", "default"), "unknown scale 'default'"),
        (("--data", "cifar10"), "gedi data get cifar10"),
        (("--data", "digits", "--methods", "gedy"), "did you mean 'gedi'"),
        (("--data", "digits", "--ood", "noise"), "noise: no such file"),
        (("--data", "digits", "--ood", "toys=moons"), "vectors, not images"),
        (("--data", "digits", "--set", "weights.inw=1"), "did you mean 'weights.inv'"),
        (("--data", "digits", "--set", "weights.inv"), "write it as name=value"),
    ],
)
def test_what_is_wrong_is_one_line(arguments, says, tmp_path):
    done = gedi(*arguments, "--out", tmp_path / "out")
    assert done.exit_code == 2 and says in done.output
    assert done.output.count("\n") == 1 and not (tmp_path / "out").exists()


def test_a_set_outside_is_given_once(tmp_path):
    np.save(tmp_path / "a.npy", np.zeros((2, 1, 8, 8)))
    done = gedi("--data", "digits", *2 * ["--ood", f"a={tmp_path / 'a.npy'}"], "--out", tmp_path)
    assert done.exit_code == 2 and "two sets called a" in done.output


def test_the_options_offer_what_there_is():
    assert tuple(s.value for s in Scale) == SCALES
