"""How good the density is, on few points and with short training."""

from __future__ import annotations

import io
import json
import math

import numpy as np
import pytest
from rich.console import Console
from scipy.stats import multivariate_normal as norm
from sklearn.mixture import GaussianMixture
from sklearn.neighbors import KernelDensity
from typer.testing import CliRunner

from gedilearn.cli import app
from gedilearn.errors import InputError
from gedilearn.estimator import GEDI
from gedilearn.experiments import density_table as density
from gedilearn.experiments.density_methods import BANDWIDTHS, build
from gedilearn.experiments.density_sets import (
    CASES,
    COVARIANCES,
    MEANS,
    NOISE,
    joint_of_mixture,
    mixture,
    widened_box,
)
from gedilearn.experiments.density_table import EXPERIMENT
from gedilearn.experiments.runner import Runner

SHORT = {
    "training.max_iter": 20,
    "density.iterations": 20,
    "training.check_every": 10,
    "optimizer.batch_size": 50,
}
RANKS = {"rank_fresh", "rank_box"}


@pytest.fixture(scope="module")
def out(tmp_path_factory):
    return tmp_path_factory.mktemp("density")


@pytest.fixture(scope="module")
def rows(out):
    return density.run([103], ["mixture", "iris"], runner=Runner(out), settings=SHORT, n=100)


def find(rows, data, method):
    (row,) = [r for r in rows if (r["data"], r["method"]) == (data, method)]
    return row


# --- sets ---------------------------------------------------------------------------------------


def test_the_mixture_has_the_density_it_is_drawn_from():
    drawn = mixture(20_000, 1)
    parts = [norm(m, c).logpdf(drawn.x) for m, c in zip(MEANS, COVARIANCES, strict=True)]
    assert np.allclose(joint_of_mixture(drawn.x), np.transpose(parts) + np.log(1 / 4))
    assert np.bincount(drawn.y) / 20_000 == pytest.approx(0.25, abs=0.01)
    for k, mean in enumerate(MEANS):
        assert drawn.x[drawn.y == k].mean(0) == pytest.approx(mean, abs=0.05)
    for k, covariance in enumerate(COVARIANCES):
        assert np.allclose(np.cov(drawn.x[drawn.y == k].T), covariance, atol=0.05)


@pytest.mark.parametrize("name", ["mixture", "blobs-7", "anisotropic", "moons"])
def test_the_true_density_integrates_to_one_in_units_of_the_standardised_columns(name):
    points = CASES[name].draw(200, 100)
    assert np.allclose(points.train.mean(0), 0) and np.allclose(points.train.std(0), 1)
    assert abs(points.fresh.mean(0)).max() < 0.4 and len(points.fresh) == 200
    assert density.integral(points.truth, points.train) == pytest.approx(1, abs=2e-3)


@pytest.mark.parametrize(("name", "rows"), [("iris", 98), ("wine", 116), ("digits", 899)])
def test_rows_are_split_anew_and_get_noise_against_ties(name, rows):
    points, others = CASES[name].draw(0, 100), CASES[name].draw(0, 101)
    whole = {"iris": 150, "wine": 178, "digits": 1797}[name]
    assert (len(points.train), len(points.fresh)) == (rows, whole - rows)
    assert not np.array_equal(points.labels, others.labels)
    assert points.truth is None
    assert np.allclose(points.train.mean(0), 0, atol=0.05)
    assert points.train.std(0).mean() == pytest.approx(math.hypot(1, NOISE), abs=0.01)
    for column in points.train.T:
        assert len(set(column)) == rows


def test_rows_from_elsewhere_have_the_values_of_fresh_ones_in_another_order():
    iris, digits = CASES["iris"].draw(0, 100), CASES["digits"].draw(0, 100)
    assert np.abs(np.sort(iris.outside, 0) - np.sort(iris.fresh, 0)).max() < 8 * NOISE
    assert np.abs(iris.outside - iris.fresh).max() > 1
    # Pixels that are all but blank vary when they are shuffled image by image.
    assert digits.outside.std(0).max() > 3 * digits.fresh.std(0).max()
    assert digits.train.shape[1] < 64


# --- measures -----------------------------------------------------------------------------------


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
    assert density.squared_mmd(x, y) == pytest.approx(expected, rel=1e-10)


def test_real_points_have_a_smaller_mmd_than_those_of_a_shifted_gaussian():
    points = CASES["mixture"].draw(500, 100)
    floor = density.squared_mmd(points.train, points.fresh)
    shifted = np.random.default_rng(0).normal(0.5, 1, (500, 2))
    assert abs(floor) < 0.01 < density.squared_mmd(shifted, points.fresh)


def test_unrelated_points_are_far_from_the_data_and_from_one_another():
    real = np.random.default_rng(0).normal(size=(50, 2))
    unrelated = 1e3 * (1 + np.arange(20.0)[:, None]) * np.ones(2)
    expected = density.mmd_of_unrelated(real)
    assert density.squared_mmd(unrelated, real) == pytest.approx(expected, rel=1e-9)


def test_shares_are_off_by_the_largest_relative_deviation():
    data = np.array([50, 0, 30, 20])
    counts = np.array([[50, 0, 30, 20], [40, 0, 30, 30], [100, 0, 0, 0]])
    assert density.shares_off(counts, data) == pytest.approx([0, 0.5, 1])


def test_the_integral_finds_a_density_that_is_not_normalised():
    x = np.random.default_rng(0).normal(size=(300, 2))
    twice = density.integral(lambda z: norm(np.zeros(2)).logpdf(z) + np.log(2), x)
    assert twice == pytest.approx(2, rel=1e-3)


# --- references ---------------------------------------------------------------------------------


def test_components_and_bandwidth_are_those_that_a_loop_finds():
    points = CASES["mixture"].draw(200, 100)
    x, order = points.train, np.random.default_rng(100).permutation(200)
    held, rest = x[order[:30]], x[order[30:]]
    best = {}
    for k in range(1, 21):
        mixed = GaussianMixture(k, reg_covar=1e-6, random_state=100).fit(rest)
        best[mixed.score(held)] = k
    gmm = build("gmm", 4, points, 100)
    gmm.fit(x)
    assert gmm.chosen == best[max(best)]
    expected = GaussianMixture(gmm.chosen, reg_covar=1e-6, random_state=100).fit(x)
    assert np.allclose(gmm.score_samples(points.fresh), expected.score_samples(points.fresh))
    kde = build("kde", 4, points, 100)
    kde.fit(x)
    totals = [KernelDensity(bandwidth=w).fit(rest).score(held) for w in BANDWIDTHS]
    assert kde.chosen == BANDWIDTHS[np.argmax(totals)]
    away = ((points.fresh[:5, None] - x) ** 2).sum(-1) / kde.chosen**2
    by_hand = np.log(np.exp(-away / 2).mean(1) / (2 * np.pi * kde.chosen**2))
    assert np.allclose(kde.score_samples(points.fresh[:5]), by_hand)


def test_more_components_than_rows_are_not_chosen():
    points = CASES["mixture"].draw(12, 100)
    gmm = build("gmm", 4, points, 100)
    gmm.fit(points.train)
    assert 1 <= gmm.chosen <= 10


def test_variances_of_many_columns_have_a_higher_floor():
    points = CASES["digits"].draw(0, 100)
    assert build("gmm", 10, points, 0).make(1).reg_covar == 1e-3
    points = CASES["wine"].draw(0, 100)
    assert build("gmm", 3, points, 0).make(1).reg_covar == 1e-6


# --- rows ---------------------------------------------------------------------------------------


def test_every_method_has_a_row_of_what_it_can_answer(rows):
    assert [r["method"] for r in rows if r["data"] == "iris"] == list(density.NAMES)
    assert json.loads(json.dumps(rows)) == rows
    answered = {
        (r["data"], r["method"]): {name for name in density.MEASURES if r[name] is not None}
        for r in rows
    }
    likelihood = {"log_likelihood", "above", "above_error", "above_median", "auroc", "mmd"}
    own = {"normaliser_error", "shares", "shares_by_chance", "nmi", "certified"}
    assert answered["mixture", "gedi"] == likelihood | RANKS | own | {"integral"}
    assert answered["iris", "gedi"] == likelihood | own
    for method in ("gmm", "kde"):
        assert answered["mixture", method] == likelihood | RANKS | {"chosen"}
    assert answered["mixture", "real"] == likelihood | RANKS | {"mmd_unrelated"}
    assert answered["iris", "real"] == {"mmd", "mmd_unrelated"}
    assert find(rows, "mixture", "real")["rank_box"] == pytest.approx(1)


def test_likelihoods_are_compared_point_by_point_with_the_best_reference(rows):
    points = CASES["mixture"].draw(100, 103)
    scores = {"real": points.truth(points.fresh)}
    for method in ("gmm", "kde"):
        model = build(method, 4, points, 103)
        model.fit(points.train)
        scores[method] = model.score_samples(points.fresh)
    model = GEDI(4, random_state=103, settings=SHORT).fit(points.train)
    scores["gedi"] = model.score_samples(points.fresh)
    best = max(("gmm", "kde"), key=lambda method: scores[method].sum())
    for method, own in scores.items():
        row, away = find(rows, "mixture", method), own - scores[best]
        assert row["log_likelihood"] == pytest.approx(own.sum() / 100, abs=1e-4)
        assert row["above"] == pytest.approx(away.sum() / 100, abs=1e-4)
        assert row["above_median"] == pytest.approx(np.sort(away)[49:51].mean(), abs=1e-4)
        assert row["above_error"] == pytest.approx(math.sqrt(away.var(ddof=1) / 100), abs=1e-4)
    assert find(rows, "mixture", best)["above"] == 0
    assert find(rows, "mixture", "real")["above"] > 0
    low, high = widened_box(points.train, 1 / 4)
    assert ((points.outside >= low) & (points.outside <= high)).all()
    pairs = (scores["gedi"][:, None] > model.score_samples(points.outside)).mean()
    assert find(rows, "mixture", "gedi")["auroc"] == pytest.approx(pairs, abs=1e-3)


def test_a_model_without_a_normaliser_has_no_likelihood():
    settings = SHORT | {"weights.gen": 0.0}
    (own, *others) = density.compare("mixture", 100, 60, settings)
    assert own["log_likelihood"] is None and own["above"] is None and own["auroc"] is not None
    assert all(row["log_likelihood"] is not None for row in others)
    assert "| mixture | GEDI | 1 |  |" in EXPERIMENT.markdown([own, *others])


def test_finished_rows_are_not_run_again(rows, out, monkeypatch):
    monkeypatch.setattr(density, "fit", lambda *key: pytest.fail(f"{key} was run again"))
    again = density.run([103], ["iris"], runner=Runner(out), settings=SHORT, n=100)
    assert again == [r for r in rows if r["data"] == "iris"]


# --- showing ------------------------------------------------------------------------------------


def made_up(seed, **others):
    row = dict.fromkeys(density.MEASURES) | {"data": "moons", "method": "gedi", "seed": seed}
    row |= {"log_likelihood": -1.2 + seed / 10, "above": 0.02, "above_error": 0.004, "nmi": 1.0}
    row["above_median"] = 0.03
    row |= {"auroc": 0.8, "mmd": 0.00123, "certified": seed > 0, "integral": 0.999}
    return row | {"seconds": 2.0} | others


def test_markdown_gives_median_and_range():
    text = EXPERIMENT.markdown([made_up(s) for s in (1, 0, 2)])
    spread = "-1.100 (-1.200 to -1.000)"
    assert f"| moons | GEDI | 3 | {spread} | 0.020 | 0.004 | 0.030 |  |  |  | 2.00 |" in text
    assert "| moons | GEDI | 3 | 0.800 | 1.23 |  |" in text
    assert "| moons | 3 |  | 0.999 |  |  | 1.000 | 2/3 |" in text


def test_what_the_references_chose_is_shown_from_least_to_greatest():
    rows = [made_up(s, method="gmm", chosen=c) for s, c in enumerate((7, 12, 9))]
    rows += [made_up(0, method="kde", chosen=0.0824)]
    text = EXPERIMENT.markdown(rows)
    assert "| 7 to 12 | 2.00 |" in text and "| 0.082 | 2.00 |" in text


def test_the_tables_fit_a_terminal_of_80_columns():
    numbers = {"log_likelihood": -123.456, "above": -12.345, "above_error": 1.234, "seconds": 123.0}
    numbers |= {"rank_fresh": -0.123, "rank_box": -0.123, "mmd": 0.123}
    console = Console(file=io.StringIO(), width=80)
    EXPERIMENT.show([made_up(0, method="gmm", data="breast-cancer", **numbers)], console)
    lines = [line.split() for line in console.file.getvalue().splitlines()]
    cells = ["1", "-123.456", "-12.345", "1.234", "-0.123", "-0.123", "123.00"]
    assert ["breast-cancer", "GaussianMixture", *cells] in lines
    assert ["breast-cancer", "GaussianMixture", "1", "0.800", "123.00"] in lines


def test_the_page_names_its_command(rows, out):
    page = EXPERIMENT.page(out).text
    assert "gedi reproduce density --seeds 104 --data mixture,iris" in page
    assert "100 points a set (iris: 150)" in page
    assert EXPERIMENT.markdown(rows) in page


@pytest.mark.parametrize("asked", [{"data": ["moonz"]}, {"seeds": []}])
def test_what_cannot_be_run_is_refused(asked):
    with pytest.raises(InputError, match=r"moons|at least one seed"):
        density.run(**({"seeds": [0]} | asked))


def test_the_command_keeps_rows_and_tables_in_its_folder(tmp_path, rows, monkeypatch):
    monkeypatch.setattr(
        density,
        "fit",
        lambda cell, *_: [find(rows, cell.data, m) | {"seed": 0} for m in density.NAMES],
    )
    asked = ["--seeds", "1", "--data", "iris", "--out", str(tmp_path)]
    result = CliRunner().invoke(app, ["reproduce", "density", *asked])
    assert result.exit_code == 0, result.output
    assert "KernelDensity" in result.output
    assert len((tmp_path / "rows.jsonl").read_text().splitlines()) == len(density.NAMES)
    assert (tmp_path / "density.md").read_text().startswith("## Likelihood of fresh points")


def test_the_earlier_name_is_not_listed():
    listed = CliRunner().invoke(app, ["reproduce", "--help"]).output.split()
    assert "density" in listed and "gen" not in listed
