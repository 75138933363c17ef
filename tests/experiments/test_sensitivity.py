"""The heat maps over the weights, on a small grid with short training."""

from __future__ import annotations

import io
import json
import math

import numpy as np
import pytest
import torch
from rich.console import Console
from typer.testing import CliRunner

from gedilearn import panels
from gedilearn.cli import app
from gedilearn.errors import InputError
from gedilearn.experiments import sensitivity, toy_tables
from gedilearn.experiments.runner import Runner
from gedilearn.experiments.sensitivity import EXPERIMENT
from gedilearn.settings import resolve

SHORT = {
    "optimizer.batch_size": 40,
    "training.check_every": 10,
    "network.hidden": (8,),
    "sampler.buffer": 100,
    "sampler.chains": 40,
}
GRID = (0, 10, 50)
ASKED = {"preset": "paper/toy", "iterations": 20, "n": 60, "changes": SHORT, "weights": GRID}


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    return tmp_path_factory.mktemp("sensitivity")


@pytest.fixture(scope="module")
def out(root):
    return root / "made" / "sensitivity"


@pytest.fixture(scope="module")
def rows(out):
    return sensitivity.run([0, 1], runner=Runner(out), **ASKED)


@pytest.fixture
def recorded(monkeypatch):
    """The seeds of the trainings that happen."""
    real, seen = sensitivity.fit_together, []

    def fit(data, settings, factors):
        seen.append(settings.training.seed)
        return real(data, settings, factors)

    monkeypatch.setattr(sensitivity, "fit_together", fit)
    return seen


def test_every_point_of_the_grid_has_a_row_a_seed(rows):
    assert len(rows) == 2 * 2 * 9 and json.loads(json.dumps(rows)) == rows
    points = {(r["data"], r["seed"], r["inv"], r["prior"]) for r in rows}
    assert len(points) == 36
    assert {r["shortened_to"] for r in rows} == {20}


def test_the_papers_grid_is_that_of_the_caption():
    assert sensitivity.WEIGHTS == (0, 10, 20, 30, 40, 50)


def test_a_member_has_the_gradient_of_training_with_its_weights_alone(monkeypatch):
    """The factors are the weights: the total of a member is that of settings with these."""
    seen = {}

    def fit(data, settings, factors):
        seen.update(settings=settings, factors=factors)
        raise InterruptedError

    monkeypatch.setattr(sensitivity, "fit_together", fit)
    with pytest.raises(InterruptedError):
        sensitivity.run([0], ["moons"], **ASKED)
    from gedilearn.methods.gedi import GEDI
    from gedilearn.methods.priors import Fixed

    terms = {name: torch.tensor([0.3 + k / 7]).repeat(9) for k, name in enumerate(("inv", "prior"))}
    terms["gen"] = torch.full((9,), 0.2)
    factors = {name: torch.from_numpy(value) for name, value in seen["factors"].items()}
    weights = seen["settings"].weights
    total = GEDI(weights, Fixed(None), None, None, factors).total(terms, 0.5)
    expected = [inv * 0.3 + prior * (0.3 + 1 / 7) + 0.2 for inv in GRID for prior in GRID]
    assert total.tolist() == pytest.approx(expected, rel=1e-6)


def test_only_the_point_with_both_weights_leaves_the_gap_of_a_constant_prediction():
    """So a row's weights are those of its member; a constant prediction has at least log 2."""
    changes = SHORT | {"weights.gen": 0.0, "optimizer.learning_rate": 0.01}
    asked = ASKED | {"changes": changes, "iterations": 150, "weights": (0, 50)}
    rows = sensitivity.run([0], ["moons"], **asked)
    gap = {(r["inv"], r["prior"]): r["gap"] for r in rows}
    assert gap.pop((50, 50)) < math.log(2) / 10
    assert min(gap.values()) > 0.9 * math.log(2)


def test_a_second_call_trains_nothing(rows, out, recorded):
    assert sensitivity.run([0, 1], runner=Runner(out), **ASKED) == rows
    assert recorded == []


def test_a_grid_half_written_is_trained_again_and_the_others_are_not(rows, out, tmp_path, recorded):
    (tmp_path / "config.json").write_text((out / "config.json").read_text())
    lines = [json.dumps(r) + "\n" for r in rows if (r["data"], r["seed"]) != ("circles", 1)]
    half = [json.dumps(r) + "\n" for r in rows if (r["data"], r["seed"]) == ("circles", 1)][:4]
    (tmp_path / "rows.jsonl").write_text("".join([*lines, *half]))
    again = sensitivity.run([0, 1], runner=Runner(tmp_path), **ASKED)
    assert recorded == [1]
    assert [r["nmi"] for r in again] == [r["nmi"] for r in rows]
    assert len((tmp_path / "rows.jsonl").read_text().splitlines()) == 36


def test_maps_are_means_and_medians_over_the_seeds(rows):
    found = sensitivity.maps(rows)
    assert list(found) == ["moons", "circles"]
    group = [r for r in rows if (r["data"], r["inv"], r["prior"]) == ("circles", 10, 50)]
    assert len(group) == 2
    assert found["circles"]["nmi"][1, 2] == pytest.approx(sum(r["nmi"] for r in group) / 2)
    assert found["circles"]["gap"][1, 2] == pytest.approx(np.median([r["gap"] for r in group]))


def test_the_heat_maps_have_prior_to_the_right_and_inv_upwards(rows, monkeypatch):
    drawn = []
    monkeypatch.setattr(panels, "save", lambda fig, path: drawn.append(fig) or path)
    sensitivity.figure(rows, None)
    found = sensitivity.maps(rows)
    titled = {axes.get_title(): axes for axes in drawn[0].axes if axes.get_title()}
    axes = titled["moons: NMI, mean"]
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("weight of PRIOR", "weight of INV")
    (image,) = axes.images
    assert np.array_equal(image.get_array(), found["moons"]["nmi"]) and image.get_clim() == (0, 1)
    assert image.get_cmap().name == "viridis" and axes.get_ylim()[0] < axes.get_ylim()[1]
    words = {text.get_position(): text.get_text() for text in axes.texts}
    assert words[2, 1] == f"{found['moons']['nmi'][1, 2]:.2f}"
    assert {"circles: gap in nats, median", "moons: gap in nats, median"} <= set(titled)
    assert "shortened to 20 iterations" in drawn[0].get_suptitle().replace("\n", " ")


def test_the_table_fits_a_terminal_of_80_columns_and_says_how_long_training_was(rows):
    console = Console(file=io.StringIO(), width=80)
    wide = [r | {"prior": w} for r in rows for w in sensitivity.WEIGHTS]
    EXPERIMENT.show(wide, console)
    text = console.file.getvalue()
    assert "…" not in text and "shortened to 20 iterations" in " ".join(text.split())
    assert "training shortened to 20 iterations, optimizer.batch_size=40" in EXPERIMENT.markdown(
        rows
    )


def test_the_default_preset_holds_the_clusters_with_the_same_weights():
    values = sensitivity.values_of("default", "gedi", None, sensitivity.UNIT)
    settings = resolve(values, (60, 2))
    assert (settings.weights.inv, settings.weights.prior) == (1, 1)
    assert (settings.density.inv, settings.density.prior) == (1, 1)


def test_the_page_of_toy_shows_the_maps(rows, root, out):
    toy_rows = [rows[0] | {"method": "gedi", "verdict": "", "together": 1}]
    (root / "made" / "rows.jsonl").write_text(json.dumps(toy_rows[0]) + "\n")
    (root / "made" / "config.json").write_text((out / "config.json").read_text())
    page, figures = toy_tables.page(root).text, toy_tables.page(root).figures
    assert "gedi reproduce sensitivity --preset paper/toy --seeds 2 --iterations 20" in page
    assert EXPERIMENT.markdown(rows).strip() in page and "(sensitivity-made.png)" in page
    assert set(figures) == {"toy-made.png", "sensitivity-made.png"}
    assert figures["sensitivity-made.png"](root / "drawn.png").read_bytes().startswith(b"\x89PNG")


def test_nothing_to_run_is_refused():
    with pytest.raises(InputError, match="at least one seed"):
        sensitivity.run([])


def test_a_point_of_the_grid_is_one_network(monkeypatch):
    def fit(data, settings, factors):
        assert settings.training.n_init == 1
        raise InterruptedError

    monkeypatch.setattr(sensitivity, "fit_together", fit)
    with pytest.raises(InterruptedError):
        sensitivity.run([0], ["moons"], preset="paper/toy")


def test_the_command_states_its_iterations(tmp_path, monkeypatch, rows):
    def fit(cell, n, settings):
        assert settings["iterations"] == 2000
        return [
            rows[0]
            | {"seed": cell.seeds[0], "inv": i, "prior": p, "shortened_to": 2000}
            | {"data": cell.data, "method": sensitivity.point_name(i, p)}
            for i in sensitivity.WEIGHTS
            for p in sensitivity.WEIGHTS
        ]

    monkeypatch.setattr(sensitivity, "fit", fit)
    asked = ["reproduce", "sensitivity", "--seeds", "1", "--data", "moons", "--out", str(tmp_path)]
    result = CliRunner().invoke(app, [*asked, "--preset", "paper/toy", "--iterations", "2000"])
    assert result.exit_code == 0, result.output
    assert "shortened to 2000 iterations" in " ".join(result.output.split())
    folder = tmp_path / "paper-toy-2000-iterations" / "sensitivity"
    assert len((folder / "sensitivity.csv").read_text().splitlines()) == 37
    assert (folder / "sensitivity.png").read_bytes().startswith(b"\x89PNG")
