"""The heat maps over the weights, on a small grid with short training."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
import torch

from gedilearn import panels
from gedilearn.io import read_json_lines
from gedilearn.methods.gedi import GEDI
from gedilearn.methods.priors import Fixed
from gedilearn.paper import sensitivity
from gedilearn.paper.runner import Runner
from gedilearn.settings import resolve

SHORT = {
    "optimizer.batch_size": 40,
    "training.check_every": 10,
    "network.hidden": (8,),
    "sampler.buffer": 100,
    "sampler.chains": 40,
    "training.max_iter": 20,
    "density.iterations": 20,
    "optimizer.warmup": 10,
}
GRID = (0, 10, 50)
ASKED = {"preset": "paper/toy", "n": 60, "changes": SHORT, "weights": GRID}


@pytest.fixture(scope="module")
def out(tmp_path_factory):
    return tmp_path_factory.mktemp("sensitivity")


@pytest.fixture(scope="module")
def rows(out):
    sensitivity.run(Runner(out), [0, 1], **ASKED)
    return rows_in(out)


def rows_in(out):
    (file,) = out.glob("*/sensitivity/rows.jsonl")
    return read_json_lines(file)


def test_every_point_of_the_grid_has_a_row_a_seed(rows):
    points = {(r["data"], r["seed"], r["inv"], r["prior"]) for r in rows}
    assert len(rows) == len(points) == 2 * 2 * 9
    assert sensitivity.WEIGHTS == (0, 10, 20, 30, 40, 50)  # the paper's


def test_a_member_has_the_weights_of_its_point_and_is_one_network(monkeypatch, tmp_path):
    """The factors are the weights: the total of a member is that of settings with these."""
    seen = {}

    def fit(data, settings, factors):
        seen.update(settings=settings, factors=factors)
        raise InterruptedError

    monkeypatch.setattr(sensitivity, "fit_together", fit)
    with pytest.raises(InterruptedError):
        sensitivity.run(Runner(tmp_path), [0], ["moons"], **ASKED)
    terms = {name: torch.tensor([0.3 + k / 7]).repeat(9) for k, name in enumerate(("inv", "prior"))}
    terms["gen"] = torch.full((9,), 0.2)
    factors = {name: torch.from_numpy(value) for name, value in seen["factors"].items()}
    total = GEDI(seen["settings"].weights, Fixed(None), None, None, factors).total(terms, 0.5)
    expected = [inv * 0.3 + prior * (0.3 + 1 / 7) + 0.2 for inv in GRID for prior in GRID]
    assert total.tolist() == pytest.approx(expected, rel=1e-6)
    assert seen["settings"].training.n_init == 1


def test_only_the_point_with_both_weights_leaves_the_gap_of_a_constant_prediction(tmp_path):
    """So a row's weights are those of its member; a constant prediction has at least log 2."""
    changes = SHORT | {"weights.gen": 0.0, "optimizer.learning_rate": 0.01}
    changes |= {"training.max_iter": 150, "density.iterations": 150, "optimizer.warmup": 75}
    asked = ASKED | {"changes": changes, "weights": (0, 50)}
    sensitivity.run(Runner(tmp_path), [0], ["moons"], **asked)
    gap = {(r["inv"], r["prior"]): r["gap"] for r in rows_in(tmp_path)}
    assert gap.pop((50, 50)) < math.log(2) / 10
    assert min(gap.values()) > 0.9 * math.log(2)


def test_a_grid_half_written_is_trained_again_and_the_others_are_not(rows, out, monkeypatch):
    real, seen = sensitivity.fit_together, []

    def fit(data, settings, factors):
        seen.append(settings.training.seed)
        return real(data, settings, factors)

    monkeypatch.setattr(sensitivity, "fit_together", fit)
    (file,) = out.glob("*/sensitivity/rows.jsonl")
    last = [r for r in rows if (r["data"], r["seed"]) == ("circles", 1)]
    kept = [r for r in rows if r not in last[4:]]
    file.write_text("".join(json.dumps(r) + "\n" for r in kept))
    sensitivity.run(Runner(out), [0, 1], **ASKED)
    assert seen == [1] and len(rows_in(out)) == 36
    assert [r["nmi"] for r in rows_in(out)] == [r["nmi"] for r in rows]


def test_tables_and_heat_maps_hold_means_and_medians_over_the_seeds(rows, monkeypatch):
    nmi, gap = sensitivity.tables(rows)
    group = [r for r in rows if (r["data"], r["inv"], r["prior"]) == ("circles", 10, 50)]
    line = [
        n for n, found in enumerate(nmi.lines) if (found["data"], found["INV"]) == ("circles", "10")
    ]
    assert nmi.lines[line[0]]["PRIOR 50"] == f"{np.mean([r['nmi'] for r in group]):.2f}"
    assert gap.lines[line[0]]["PRIOR 50"] == f"{np.median([r['gap'] for r in group]):.4f}"
    drawn = []
    monkeypatch.setattr(panels, "save", lambda fig, path: drawn.append(fig) or path)
    sensitivity.figure(rows, None)
    titled = {axes.get_title(): axes for axes in drawn[0].axes if axes.get_title()}
    axes = titled["circles: Mean NMI"]
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("weight of PRIOR", "weight of INV")
    (image,) = axes.images
    assert image.get_array()[1, 2] == pytest.approx(np.mean([r["nmi"] for r in group]))
    assert axes.get_ylim()[0] < axes.get_ylim()[1]
    words = {text.get_position(): text.get_text() for text in axes.texts}
    assert words[2, 1] == nmi.lines[line[0]]["PRIOR 50"]
    assert "preset paper/toy" in drawn[0].get_suptitle()


def test_the_default_preset_holds_the_clusters_with_the_same_weights():
    values = sensitivity.values_of("gedi", {"preset": "default", "changes": sensitivity.UNIT})
    settings = resolve(values, (60, 2))
    assert (settings.weights.inv, settings.weights.prior) == (1, 1)
    assert (settings.density.inv, settings.density.prior) == (1, 1)
