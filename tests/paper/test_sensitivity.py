"""The heat maps over the weights, on a small grid with short training."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

from gedilearn import panels
from gedilearn.io import read_json_lines
from gedilearn.paper import sensitivity
from gedilearn.paper.runner import Cell, Runner
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


def test_a_point_has_its_weights_in_both_stages_and_is_one_network():
    values = sensitivity.values_at(10, 50, {"preset": "paper/toy", "changes": SHORT})
    settings = resolve(values, (60, 2))
    for part in (settings.weights, settings.density):
        assert (part.inv, part.prior) == (10, 50)
    assert settings.weights.gen == 1 and settings.training.n_init == 1


def test_only_the_point_with_both_weights_leaves_the_gap_of_a_constant_prediction():
    """So a row's weights are those of its fit; a constant prediction has at least log 2."""
    changes = SHORT | {"weights.gen": 0.0, "optimizer.learning_rate": 0.01}
    changes |= {"training.max_iter": 150, "density.iterations": 150, "optimizer.warmup": 75}
    points = {"both": (50, 50), "inv": (50, 0), "prior": (0, 50)}
    settings = {"options": ASKED | {"changes": changes}, "points": points}
    gap = {}
    for name in points:
        (row,) = sensitivity.fit(Cell("moons", name, 0), ASKED["n"], settings)
        gap[row["inv"], row["prior"]] = row["bound_gap"]
    assert gap.pop((50, 50)) < math.log(2) / 10
    assert min(gap.values()) > 0.9 * math.log(2)


def test_only_points_without_a_row_are_trained_again(rows, out, monkeypatch):
    real, seen = sensitivity.fitted, []

    def fitted(cell, n, values):
        seen.append(cell)
        return real(cell, n, values)

    monkeypatch.setattr(sensitivity, "fitted", fitted)
    (file,) = out.glob("*/sensitivity/rows.jsonl")
    file.write_text("".join(json.dumps(r) + "\n" for r in rows[:-2]))
    sensitivity.run(Runner(out), [0, 1], **ASKED)
    assert [cell.method for cell in seen] == [r["method"] for r in rows[-2:]]
    assert [r["nmi"] for r in rows_in(out)] == [r["nmi"] for r in rows]


def test_tables_and_heat_maps_hold_means_and_medians_over_the_seeds(rows, monkeypatch):
    nmi, gap = sensitivity.tables(rows)
    group = [r for r in rows if (r["data"], r["inv"], r["prior"]) == ("circles", 10, 50)]
    line = [
        n for n, found in enumerate(nmi.lines) if (found["data"], found["INV"]) == ("circles", "10")
    ]
    assert nmi.lines[line[0]]["PRIOR 50"] == f"{np.mean([r['nmi'] for r in group]):.2f}"
    assert gap.lines[line[0]]["PRIOR 50"] == f"{np.median([r['bound_gap'] for r in group]):.4f}"
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
