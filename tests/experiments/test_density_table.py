"""What GEN buys, on few points and with short training."""

from __future__ import annotations

import io
import json
import math

import numpy as np
import pytest
from rich.console import Console
from scipy.stats import multivariate_normal as norm
from sklearn.mixture import GaussianMixture
from sklearn.preprocessing import StandardScaler
from typer.testing import CliRunner

from gedilearn.cli import app
from gedilearn.errors import InputError
from gedilearn.estimator import GEDI
from gedilearn.experiments import density_table as gen
from gedilearn.experiments.density_table import (
    CASES,
    COVARIANCES,
    EXPERIMENT,
    MEANS,
    joint_log_density,
    mixture,
)
from gedilearn.experiments.runner import Runner

SHORT = {
    "training.max_iter": 20,
    "density.iterations": 20,
    "training.check_every": 10,
    "optimizer.batch_size": 50,
}


@pytest.fixture(scope="module")
def out(tmp_path_factory):
    return tmp_path_factory.mktemp("gen")


@pytest.fixture(scope="module")
def rows(out):
    return gen.run([3], ["mixture", "moons"], runner=Runner(out), settings=SHORT, n=100)


def find(rows, data, method):
    (row,) = [r for r in rows if (r["data"], r["method"]) == (data, method)]
    return row


def test_the_squared_mmd_is_that_of_a_double_loop():
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(7, 3)), rng.normal(0.5, 2, size=(9, 3))
    width = np.median([math.dist(a, b) for i, a in enumerate(y) for b in y[:i]]) / 4

    def mean(first, second, skip):
        values = [
            math.exp(-(math.dist(a, b) ** 2) / (2 * width**2))
            for i, a in enumerate(first)
            for j, b in enumerate(second)
            if not (skip and i == j)
        ]
        return sum(values) / len(values)

    expected = mean(x, x, True) + mean(y, y, True) - 2 * mean(x, y, False)
    assert gen.squared_mmd(x, y) == pytest.approx(expected, rel=1e-10)


def test_real_points_have_a_smaller_mmd_than_those_of_a_shifted_gaussian():
    train, fresh, _ = CASES["mixture"].draw(500, 0)
    floor = gen.squared_mmd(train.x, fresh.x)
    shifted = np.random.default_rng(0).normal(fresh.x.mean(0) + 1, fresh.x.std(0), (500, 2))
    assert abs(floor) < 0.01 < gen.squared_mmd(shifted, fresh.x)


def test_unrelated_points_are_far_from_the_data_and_from_one_another():
    real = np.random.default_rng(0).normal(size=(50, 2))
    unrelated = 1e3 * (1 + np.arange(20.0)[:, None]) * np.ones(2)
    assert gen.squared_mmd(unrelated, real) == pytest.approx(gen.mmd_of_unrelated(real), rel=1e-9)


def test_the_mixture_has_the_density_it_is_drawn_from():
    drawn = mixture(20_000, 1)
    parts = [norm(m, c).logpdf(drawn.x) for m, c in zip(MEANS, COVARIANCES, strict=True)]
    assert np.allclose(joint_log_density(drawn.x), np.transpose(parts) + np.log(1 / 4))
    assert np.bincount(drawn.y) / 20_000 == pytest.approx(0.25, abs=0.01)
    for k, mean in enumerate(MEANS):
        assert drawn.x[drawn.y == k].mean(0) == pytest.approx(mean, abs=0.05)
    for k, covariance in enumerate(COVARIANCES):
        assert np.allclose(np.cov(drawn.x[drawn.y == k].T), covariance, atol=0.05)


def test_digits_are_split_into_halves_and_shuffled_image_by_image():
    train, fresh, outside = CASES["digits"].draw(100, 0)
    assert len(train.x) + len(fresh.x) == 1797 and len(train.x) - len(fresh.x) == 1
    assert not {x.tobytes() for x in train.x} & {x.tobytes() for x in fresh.x}
    assert np.array_equal(np.sort(outside, axis=1), np.sort(fresh.x, axis=1))
    assert not np.array_equal(outside, fresh.x)
    # One permutation for all images would move the blank corner pixels together.
    assert (outside.std(0) > 0).all() and (fresh.x.std(0) == 0).any()


def test_every_method_has_a_row_of_what_it_can_answer(rows):
    assert [r["method"] for r in rows if r["data"] == "moons"] == list(gen.NAMES)
    assert json.loads(json.dumps(rows)) == rows
    answered = {
        (r["data"], r["method"]): {name for name in gen.MEASURES if r[name] is not None}
        for r in rows
    }
    ranks = {"rank_fresh", "rank_box"}
    own = {"nmi", "auroc", "auroc_gradient", "mmd"} | ranks
    for method in ("gedi", "gedi w_gen=0"):
        assert answered["mixture", method] == own
        assert answered["moons", method] == own - ranks
    for method in ("gmm", "kde"):
        assert answered["mixture", method] == {"auroc", "mmd"} | ranks
    assert answered["moons", "real"] == {"mmd", "mmd_unrelated"}
    assert find(rows, "mixture", "real")["rank_box"] == pytest.approx(1)


def test_the_rows_of_gedi_are_with_and_without_the_density(rows):
    train, fresh, outside = CASES["mixture"].draw(100, 3)
    for method, changed in (("gedi", {}), ("gedi w_gen=0", {"w_gen": 0.0})):
        model = GEDI(4, random_state=3, settings=SHORT, **changed).fit(train.x)
        inside, beyond = model.score_samples(fresh.x), model.score_samples(outside)
        pairs = (inside[:, None] > beyond).mean() + (inside[:, None] == beyond).mean() / 2
        assert find(rows, "mixture", method)["auroc"] == pytest.approx(pairs, abs=1e-3)
    with_gen, without = (find(rows, "mixture", name) for name in ("gedi", "gedi w_gen=0"))
    assert with_gen["rank_box"] != without["rank_box"]


def test_the_rank_of_the_mixture_of_gaussians_is_that_found_by_hand(rows):
    train, fresh, _ = CASES["mixture"].draw(100, 3)
    scaler = StandardScaler().fit(train.x)
    gmm = GaussianMixture(10, reg_covar=gen.FLOOR, random_state=3).fit(scaler.transform(train.x))
    scores = gmm.score_samples(scaler.transform(fresh.x))
    true = np.exp(joint_log_density(fresh.x)).sum(1)
    ranks = [values.argsort().argsort() for values in (scores, true)]
    expected = np.corrcoef(ranks)[0, 1]
    assert find(rows, "mixture", "gmm")["rank_fresh"] == pytest.approx(expected, abs=0.02)


@pytest.mark.parametrize("method", ["gmm", "kde"])
def test_a_reference_tells_digits_from_shuffled_ones(method):
    row = gen.fit("digits", method, 0, 100, {})
    assert row["auroc"] > 0.95 and math.isfinite(row["mmd"])


def test_finished_rows_are_not_run_again(rows, out, monkeypatch):
    monkeypatch.setattr(gen, "fit", lambda *key: pytest.fail(f"{key} was run again"))
    again = gen.run([3], ["moons"], runner=Runner(out), settings=SHORT, n=100)
    assert again == [r for r in rows if r["data"] == "moons"]


def made_up(seed, **others):
    row = {"data": "moons", "method": "gedi", "seed": seed, "nmi": 1.0, "rank_fresh": None}
    row |= {"rank_box": None, "auroc": 0.8 + seed / 10, "auroc_gradient": 0.5, "mmd": 0.00123}
    return row | {"mmd_unrelated": None, "seconds": 2.0} | others


def test_markdown_gives_median_and_range():
    lines = EXPERIMENT.markdown([made_up(s) for s in (1, 0, 2)]).splitlines()
    spread = "0.900 (0.800 to 1.000)"
    assert lines[2] == f"| moons | GEDI | 3 | 1.000 |  |  | {spread} | 0.500 | 1.23 |  | 2.00 |"


def test_the_table_fits_a_terminal_of_80_columns():
    numbers = {"rank_fresh": -0.123, "rank_box": -0.123, "mmd": 0.123, "seconds": 123.0}
    console = Console(file=io.StringIO(), width=80)
    EXPERIMENT.show([made_up(0, method="gmm", data="mixture", **numbers)], console)
    lines = [line.split() for line in console.file.getvalue().splitlines()]
    cells = ["1", "1.000", "-0.123", "-0.123", "0.800", "0.500", "123.00", "123.00"]
    assert ["mixture", "GaussianMixture", *cells] in lines


def test_the_page_names_its_command(rows, out):
    page = EXPERIMENT.page(out).text
    assert "gedi reproduce gen --seeds 4 --data mixture,moons" in page
    assert EXPERIMENT.markdown(rows) in page


@pytest.mark.parametrize("asked", [{"data": ["moonz"]}, {"seeds": []}])
def test_what_cannot_be_run_is_refused(asked):
    with pytest.raises(InputError, match=r"moons|at least one seed"):
        gen.run(**({"seeds": [0]} | asked))


def test_the_command_keeps_rows_and_table_in_its_folder(tmp_path, rows, monkeypatch):
    monkeypatch.setattr(gen, "fit", lambda d, m, s, *_: find(rows, d, m) | {"seed": s})
    asked = ["--seeds", "1", "--data", "moons", "--out", str(tmp_path)]
    result = CliRunner().invoke(app, ["reproduce", "gen", *asked])
    assert result.exit_code == 0, result.output
    assert "KernelDensity" in result.output
    assert len((tmp_path / "rows.jsonl").read_text().splitlines()) == len(gen.NAMES)
    assert (tmp_path / "gen.md").read_text().startswith("| data | method |")
