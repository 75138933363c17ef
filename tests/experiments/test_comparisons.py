"""The comparisons in benchmarks: sets as they should be, and a row of each kind."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from gedilearn.experiments.runner import Runner
from gedilearn.io import read_json_lines

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
if not BENCHMARKS.exists():
    pytest.skip("the benchmarks are not part of this installation", allow_module_level=True)
sys.path.insert(0, str(BENCHMARKS))

import density  # noqa: E402
import shapes  # noqa: E402
from shape_sets import NOT_SCORED, SHAPES  # noqa: E402

QUICK = {"training.max_iter": 10, "density.iterations": 5}


@pytest.mark.parametrize("name", SHAPES)
def test_a_set_has_the_clusters_that_it_says(name):
    shape = SHAPES[name]
    data = shape.draw(200, 3)
    assert np.array_equal(data.x, shape.draw(200, 3).x)
    assert (data.y is None) == shape.structureless
    if data.y is not None:
        assert set(np.unique(data.y)) - {NOT_SCORED} == set(range(shape.n_clusters))
    if shape.best is not None:
        known = data.y != NOT_SCORED
        assert (shape.best(data.x[known]) == data.y[known]).mean() > 0.9


def test_shapes_scores_every_method_and_grades_the_structureless(tmp_path):
    asked = ["moons", "uniform-square"], ["gedi", "kmeans", "spectral"]
    tables = shapes.run(Runner(tmp_path), [0], *asked, n=100, settings=QUICK)
    rows = read_json_lines(tmp_path / "rows.jsonl")
    assert [(r["data"], r["method"]) for r in rows] == [
        *(("moons", "gedi"), ("moons", "kmeans"), ("moons", "spectral"), ("uniform-square", "gedi"))
    ]
    assert [r["scored"] for r in rows[:3]] == ["fresh", "fresh", "training"]
    assert rows[2]["ami"] > 0.5 > rows[1]["ami"] and rows[3]["ami"] is None
    assert [len(table.lines) for table in tables] == [3, 1, 4]


def test_density_measures_every_method_beside_the_truth(tmp_path):
    tables = density.run(Runner(tmp_path), [0], ["mixture"], n=120, settings=QUICK)
    rows = {r["method"]: r for r in read_json_lines(tmp_path / "rows.jsonl")}
    assert set(rows) == {"gedi", "gmm", "kde", "real"}
    assert rows["real"]["rank_fresh"] == pytest.approx(1)
    assert max(rows["gmm"]["above"], rows["kde"]["above"]) == 0
    assert [len(table.lines) for table in tables] == [4, 4, 1]


def test_samples_from_the_same_source_have_no_discrepancy():
    rng = np.random.default_rng(0)
    real, same, other = rng.normal(size=(3, 300, 2)) + np.array([[[0.0]], [[0.0]], [[3.0]]])
    assert abs(density.squared_mmd(same, real)) < 0.01 < density.squared_mmd(other, real)
