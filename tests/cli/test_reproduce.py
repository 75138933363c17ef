"""`gedi reproduce`: the command on images, and experiments that were registered from outside."""

from __future__ import annotations

import csv
from functools import partial

import numpy as np
import pytest
from typer.testing import CliRunner

from gedilearn import evaluation
from gedilearn.cli import app
from gedilearn.cli.reproduce import Scale
from gedilearn.cli.reproduce import reproduce as reproduce_app
from gedilearn.experiments.images import SCALES, load_sets
from gedilearn.experiments.table import Column, Experiment, Table, grouped, label, statistic
from gedilearn.registry import EXPERIMENTS
from helpers import run_command

SHORT = [
    *("--iterations", "3", "--samples", "4", "--steps", "2", "--seeds", "1"),
    *("--set", "network.width=4", "--set", "sampler.steps=1"),
    *("--set", "training.check_every=3"),
]


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("GEDI_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(evaluation, "evaluate", partial(evaluation.evaluate, frechet=False))


def reproduce(*arguments):
    return CliRunner().invoke(app, ["reproduce", *map(str, arguments)])


def gedi(*arguments):
    return reproduce("images", *arguments)


# --- images -------------------------------------------------------------------------------------


def test_a_run_writes_tables_and_says_that_it_was_shortened(tmp_path, monkeypatch):
    train, test = load_sets("digits")
    few = [type(s)(s.name, s.x[:80], s.y[:80], None, "") for s in (train, test)]
    monkeypatch.setattr("gedilearn.experiments.images.load_sets", lambda data: few)
    np.save(tmp_path / "noise.npy", np.random.default_rng(0).uniform(0, 16, (30, 1, 8, 8)))
    asked = ["--data", "digits", *SHORT, "--ood", f"noise={tmp_path / 'noise.npy'}"]
    done = gedi(*asked, "--methods", "no-gen", "--out", tmp_path / "out")
    assert done.exit_code == 0, done.output
    changed = "network.width=4-sampler.steps=1-training.check_every=3"
    folder = tmp_path / "out" / f"digits-default-3-iterations-{changed}"
    with open(folder / "images.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["method"] for row in rows] == ["k-means", "no-gen"]
    assert rows[1]["iterations"] == "3" and '"noise": {"n": 30' in rows[1]["ood"]
    for text in (done.output, (folder / "images.md").read_text()):
        words = " ".join(text.split())
        assert "training shortened to 3 iterations, network.width=4, sampler.steps=1" in words


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
    assert [scale.value for scale in Scale] == list(SCALES)


# --- experiments from outside -------------------------------------------------------------------


def toss(data, method, seed, n, settings):
    """Coins instead of a training."""
    heads = np.random.default_rng(seed).integers(2, size=n).mean() if method == "fair" else 1.0
    return {"data": data, "method": method, "seed": seed, "heads": float(heads)}


def run_coins(seeds, runner):
    keys = [("coins", method, seed) for seed in seeds for method in ("fair", "loaded")]
    return runner.rows(keys, toss, n=100)


def coin_tables(rows):
    columns = [
        label("method", {"fair": "a fair coin"}),
        statistic("share of heads", "heads", digits=2, short="heads"),
        Column("tosses", lambda group: str(100 * len(group)), short=""),
    ]
    return [Table("Coins", columns, grouped(rows, "method"), ["Median over the seeds."])]


@pytest.fixture
def coins():
    EXPERIMENTS.register(
        "coins", Experiment("coins", run_coins, coin_tables, about="How fair a coin is.")
    )
    yield
    EXPERIMENTS.remove("coins")


def test_an_experiment_from_outside_is_a_command(coins, tmp_path):
    done = reproduce("coins", "--seeds", 3, "--out", tmp_path)
    assert done.exit_code == 0, done.output
    medians = {
        method: np.median([toss("", method, seed, 100, {})["heads"] for seed in range(3)])
        for method in ("fair", "loaded")
    }
    lines = [line.split() for line in done.stdout.splitlines()]
    assert ["a", "fair", "coin", f"{medians['fair']:.2f}"] in lines and ["loaded", "1.00"] in lines
    assert "coins, loaded, seed 2: (0 to go)" in done.stderr
    assert f"| a fair coin | {medians['fair']:.2f} | 300 |" in (tmp_path / "coins.md").read_text()
    with open(tmp_path / "coins.csv", newline="") as file:
        assert [row["seed"] for row in csv.DictReader(file)] == ["0", "0", "1", "1", "2", "2"]


def test_it_goes_on_where_it_was(coins, tmp_path, monkeypatch):
    reproduce("coins", "--seeds", 1, "--out", tmp_path)
    done = reproduce("coins", "--seeds", 2, "--out", tmp_path)
    assert "seed 1" in done.stderr and "seed 0" not in done.stderr
    assert "gedi reproduce coins --seeds 2\n" in EXPERIMENTS["coins"].page(tmp_path).text


@pytest.mark.parametrize(
    ("file", "old", "new"),
    [
        ("rows.jsonl", '"heads": 1.0', '"heads": "x"'),
        ("rows.jsonl", '"heads": 1.0', '"tails": 1.0'),
        ("rows.jsonl", '"seed": 0', '"seed": [0]'),
        ("rows.jsonl", '"method"', '"m"'),
        ("config.json", '"settings": {}', '"settings": 5'),
        ("config.json", "{", "[" * 100_000),
    ],
)
def test_damaged_rows_are_one_line_and_stay(coins, tmp_path, file, old, new):
    reproduce("coins", "--seeds", 1, "--out", tmp_path)
    text = (tmp_path / file).read_text()
    assert old in text
    damaged = text.replace(old, new, 1)
    (tmp_path / file).write_text(damaged)
    done = reproduce("coins", "--seeds", 1, "--out", tmp_path)
    assert done.exit_code == 2, done.output
    assert done.stderr.startswith(f"error: {tmp_path / file} is damaged (")
    assert done.stderr.count("\n") == 1
    assert (tmp_path / file).read_text() == damaged


def test_an_error_in_new_rows_is_not_dressed_up_as_damage(coins, tmp_path, monkeypatch):
    monkeypatch.setitem(globals(), "toss", lambda *_: {})
    done = reproduce("coins", "--seeds", 1, "--out", tmp_path)
    assert isinstance(done.exception, KeyError)


def test_it_is_listed_with_what_it_is_about(coins):
    page = reproduce("--help").output
    assert "coins" in page and "How fair a coin is." in page
    assert "gedi reproduce coins --seeds" in reproduce("coins", "--help").output


def test_an_experiment_that_gives_no_rows_is_told_in_one_line(tmp_path):
    EXPERIMENTS.register("none", Experiment("none", lambda *_, **__: [], lambda rows: []))
    try:
        done = reproduce("none", "--out", tmp_path)
    finally:
        EXPERIMENTS.remove("none")
    assert done.exit_code == 2 and done.stderr == "error: the experiment none gave no rows\n"


def test_an_unknown_experiment_is_refused():
    assert reproduce("nothing").exit_code == 2


def test_every_experiment_that_comes_with_the_library_has_a_command_of_its_own():
    own = {command.callback.__name__ for command in reproduce_app.registered_commands}
    assert set(EXPERIMENTS) | {"labels", "generation"} == own
    for name in EXPERIMENTS:
        assert EXPERIMENTS[name].name == name
        assert f"gedi reproduce {name}" in reproduce(name, "--help").output


@pytest.mark.parametrize("command", [("toy",), ("images", "--data", "digits")])
def test_more_seeds_than_anyone_has_time_for_are_refused(command):
    refused = run_command("reproduce", *command, "--seeds", 10**20, code=2)
    assert "--seeds" in refused.stderr
