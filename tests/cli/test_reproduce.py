"""`gedi reproduce NAME`: options, folders, and experiments that were registered from outside."""

from __future__ import annotations

import numpy as np
import pytest
from typer.testing import CliRunner

from gedilearn.cli import app
from gedilearn.paper import toy
from gedilearn.paper.images import load_sets
from gedilearn.paper.runner import Cell
from gedilearn.paper.table import grouped, label, make, statistic
from gedilearn.pretrained import EfficientNetLite0
from gedilearn.registry import EXPERIMENTS
from helpers import run_command


def reproduce(*arguments):
    return CliRunner().invoke(app, ["reproduce", *map(str, arguments)])


def test_images_say_what_was_changed(tmp_path, monkeypatch):
    monkeypatch.setenv("GEDI_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(EfficientNetLite0, "package", "no_such_package")
    few = [type(s)(s.name, s.x[:80], s.y[:80], None, "") for s in load_sets("digits")]
    monkeypatch.setattr("gedilearn.paper.images.load_sets", lambda data: few)
    np.save(tmp_path / "noise.npy", np.random.default_rng(0).uniform(0, 16, (30, 1, 8, 8)))
    done = reproduce(
        *("images", "--data", "digits", "--methods", "no-gen", "--out", tmp_path / "out"),
        *("--samples", 4, "--steps", 2, "--seeds", 1),
        *("--set", "training.max_iter=3", "--set", "network.width=4"),
        *("--ood", f"noise={tmp_path / 'noise.npy'}"),
    )
    assert done.exit_code == 0, done.output
    folder = "digits-default-training.max_iter=3-network.width=4"
    text = (tmp_path / "out" / folder / "images.md").read_text()
    assert text.startswith("digits, default settings, training.max_iter=3, network.width=4")
    assert "| noise (30) | no gen |" in text


def test_both_pictures_share_a_model(tmp_path):
    asked = [
        "--set",
        "training.max_iter=2",
        "--data",
        "moons",
        "--methods",
        "swav",
        "--out",
        tmp_path,
    ]
    for name in ("labels", "generation"):
        result = reproduce(name, *asked)
        assert result.exit_code == 0, result.output
        path = tmp_path / "default-training.max_iter=2" / f"{name}.png"
        assert f"written: {path}" in result.stderr and path.exists()
        assert ("training SwAV" in result.stderr) == (name == "labels")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("toi",), "unknown experiment 'toi'"),
        (("landscape", "--seeds", 2), "has no option --seeds; it has --out"),
        (("sensitivity", "--methods", "gedi"), "has no option --methods; it has --seeds, --data"),
        (("landscape", "--set", "weights.inv=1"), "has no option --set"),
        (("toy", "--first", 5), "--first: give the number of seeds too"),
        (("images",), "--data: give one of svhn"),
        (("images", "--data", "cifar12"), "unknown data set 'cifar12'"),
        (("images", "--data", "cifar10"), "gedi data get cifar10"),
        (("images", "--data", "digits", "--ood", "noise"), "noise: no such file"),
        (("images", "--data", "digits", "--ood", "toys=moons"), "vectors, not images"),
        (("images", "--data", "digits", "--set", "weights.inw=1"), "did you mean 'weights.inv'"),
        (("images", "--data", "digits", "--set", "weights.inv"), "write it as name=value"),
        (("images", "--data", "cifar10,svhn"), "--data: give one of svhn"),
        (("images", "--data", "mnist", "--scale", "small"), "unknown scale 'small'"),
        (("images", "--data", "digits", "--methods", ","), "nothing to run"),
        (("toy", "--preset", "paper/toi"), "did you mean 'paper/toy'"),
        (("toy", "--preset", "paper/cifar10"), "unknown preset"),
        (("toy", "--methods", "gedy"), "did you mean 'gedi'"),
        (("sensitivity", "--data", ","), "at least one seed"),
        (("labels", "--data", "moonz"), "did you mean 'moons'"),
    ],
)
def test_a_wrong_option_is_one_line(arguments, says, tmp_path, monkeypatch):
    monkeypatch.setenv("GEDI_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(toy, "fitted", lambda *_: pytest.fail("trained"))
    done = reproduce(*arguments, "--out", tmp_path / "out")
    assert done.exit_code == 2 and says in done.output
    assert done.output.count("\n") == 1 and not (tmp_path / "out").exists()


@pytest.mark.parametrize("command", [("toy",), ("images", "--data", "digits")])
def test_more_seeds_than_anyone_has_time_for_are_refused(command):
    refused = run_command("reproduce", *command, "--seeds", 10**20, code=2)
    assert "--seeds" in refused.stderr


def test_the_help_page_names_every_experiment():
    page = reproduce("--help").output
    assert all(f"\n  {name} " in page for name in EXPERIMENTS)


# --- experiments from outside -------------------------------------------------------------------


def toss(cell, n, settings):
    """Coins instead of a training."""
    fair = np.random.default_rng(cell.seed).integers(2, size=n).mean()
    heads = float(fair if cell.method == "fair" else 1)
    return [{"data": cell.data, "method": cell.method, "seed": cell.seed, "heads": heads}]


def run_coins(runner, seeds=range(2)):
    names = ("fair", "loaded")
    cells = [Cell("coins", name, seed) for seed in seeds for name in names]
    return runner.finish("coins", runner.rows(cells, toss, n=100), coin_tables)


def coin_tables(rows):
    columns = {
        "method": label("method", {"fair": "a fair coin"}),
        "share of heads": statistic("heads", 2),
    }
    return [make("Coins", columns, grouped(rows, method=()))]


@pytest.fixture
def coins():
    EXPERIMENTS.register("coins", run_coins)
    yield
    EXPERIMENTS.remove("coins")


def test_an_experiment_from_outside_is_a_command(coins, tmp_path):
    done = reproduce("coins", "--seeds", 3, "--first", 7, "--out", tmp_path)
    assert done.exit_code == 0, done.output
    fair = [np.random.default_rng(seed).integers(2, size=100).mean() for seed in range(7, 10)]
    lines = [line.split() for line in done.stdout.splitlines()]
    assert ["a", "fair", "coin", f"{np.median(fair):.2f}"] in lines and ["loaded", "1.00"] in lines
    assert "coins, loaded, seed 9 (0 to go)" in done.stderr
    assert f"| a fair coin | {np.median(fair):.2f} |" in (tmp_path / "coins.md").read_text()


def test_it_goes_on_where_it_was_and_may_be_quiet(coins, tmp_path):
    quiet = reproduce("coins", "--seeds", 1, "--out", tmp_path, "-q")
    assert quiet.exit_code == 0 and quiet.output == "" and (tmp_path / "coins.md").exists()
    done = reproduce("coins", "--seeds", 2, "--out", tmp_path)
    assert "seed 1" in done.stderr and "seed 0" not in done.stderr


@pytest.mark.parametrize(
    ("file", "old", "new"),
    [
        ("rows.jsonl", '"heads": 1.0', '"heads": "x"'),
        ("rows.jsonl", '"seed": 0', '"seed": [0]'),
        ("rows.jsonl", '"method"', '"m"'),
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


def test_an_error_in_new_rows_is_not_taken_for_damage(coins, tmp_path, monkeypatch):
    monkeypatch.setitem(globals(), "toss", lambda *_: [{}])
    done = reproduce("coins", "--seeds", 1, "--out", tmp_path)
    assert isinstance(done.exception, KeyError)
