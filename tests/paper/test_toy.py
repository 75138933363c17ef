"""The paper's table and pictures of moons and circles, on few points and with short training."""

from __future__ import annotations

import json
from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.datasets import make_circles, make_moons
from sklearn.metrics import normalized_mutual_info_score

from gedilearn import panels
from gedilearn.estimator import GEDI
from gedilearn.io import read_json_lines
from gedilearn.paper import toy
from gedilearn.paper.runner import Cell, Runner
from gedilearn.presets import preset
from gedilearn.registry import METHODS
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
ASKED = {"preset": "paper/toy", "n": 60, "changes": SHORT}


@pytest.fixture(scope="module")
def out(tmp_path_factory):
    return tmp_path_factory.mktemp("toy")


@pytest.fixture(scope="module")
def rows(out):
    toy.run(Runner(out), [0, 1], **ASKED)
    return rows_in(out)


@pytest.fixture
def no_training(monkeypatch):
    monkeypatch.setattr(toy, "fitted", lambda *_: pytest.fail("trained again"))


@pytest.fixture
def drawn(monkeypatch):
    """Figures instead of files."""
    figures = []
    monkeypatch.setattr(panels, "save", lambda fig, path: figures.append(fig) or path)
    return figures


def folder_in(out):
    (folder,) = out.iterdir()
    return folder


def rows_in(out):
    return read_json_lines(folder_in(out) / "rows.jsonl")


def find(rows, data, method, seed):
    (row,) = [r for r in rows if (r["data"], r["method"], r["seed"]) == (data, method, seed)]
    return row


def made_up(nmi, seed=0, **others):
    row = {"data": "moons", "method": "gedi", "seed": seed, "preset": "default", "nmi": nmi}
    row |= {"changes": None, "ami": nmi, "accuracy": nmi, "bound_gap": 0.001}
    row |= {"certified": True, "verdict": "certified", "modes": [], "stopped": "certified"}
    return row | {"recoveries": 0, "iterations": 500, "seconds": 1.0} | others


# --- settings


def of_points(values):
    return resolve(values, (60, 2))


def of_preset(preset, method):
    return toy.values_of(method, {"preset": preset})


def test_the_default_preset_changes_nothing_but_the_method():
    assert of_points(of_preset("default", "swav")) == of_points({"method": "swav"})
    literal = of_points(of_preset("paper/toy-literal", "gedi"))
    assert literal == of_points(preset("paper/toy-literal", "gedi"))


def test_every_method_of_the_library_can_be_run():
    assert {*toy.NAMES} - {toy.KMEANS} == set(METHODS)


# --- rows


def test_every_method_has_a_row_a_seed(rows):
    for data in ("moons", "circles"):
        for seed in (0, 1):
            found = [r["method"] for r in rows if (r["data"], r["seed"]) == (data, seed)]
            assert found == list(toy.METHODS)
    two_stages = {r["method"] for r in rows if r["iterations"] == 40}
    assert two_stages == {"gedi", "no-inv", "no-unif"}
    assert {r["iterations"] for r in rows if r["method"] not in two_stages} == {20}


@pytest.mark.parametrize("data", ["moons", "circles"])
def test_a_row_scores_the_kept_model_on_fresh_points(rows, out, data):
    make, options = {"moons": (make_moons, {}), "circles": (make_circles, {"factor": 0.5})}[data]
    x, y = make(60, noise=0.05, random_state=1_000_001, **options)
    train, _ = make(60, noise=0.05, random_state=1, **options)
    for method in ("no-inv", "barlow", "barlow k-means"):
        model = GEDI.load(toy.model_file(folder_in(out), data, method, 1))
        row = find(rows, data, method, 1)
        assert row["nmi"] == pytest.approx(normalized_mutual_info_score(y, model.predict(x)))
        assert np.array_equal(model.predict(train), model.labels_)
        assert row["bound_gap"] == pytest.approx(model.bound_gap_)


@pytest.mark.parametrize("preset", ["default", "paper/toy"])
def test_batches_of_the_papers_toys_are_fresh_and_models_are_scored_on_a_thousand_points(
    tmp_path, monkeypatch, preset
):
    trained = []
    monkeypatch.setattr(toy, "fit", lambda cell, n, *_, **__: trained.append(n) or [made_up(1.0)])
    toy.run(Runner(tmp_path), [0], ["moons"], ["gedi"], preset)
    assert trained == [{"default": 1_000, "paper/toy": 1_000_000}[preset]]
    points = toy.fresh_points("moons", 0, trained[0])
    assert len(points.x) == 1_000 and not np.isin(points.x, toy.SETS["moons"](1_000, 0).x).any()


def test_barlow_with_k_means_is_the_same_training_with_other_clusters(out, rows):
    x = make_circles(60, noise=0.05, factor=0.5, random_state=1)[0]
    argmax, kmeans = (
        GEDI.load(toy.model_file(folder_in(out), "circles", method, 1))
        for method in ("barlow", "barlow k-means")
    )
    assert (argmax.settings_.barlow.assign, kmeans.settings_.barlow.assign) == ("argmax", "kmeans")
    assert np.allclose(argmax.transform(x), kmeans.transform(x))


def test_a_second_call_trains_nothing(rows, out, no_training):
    toy.run(Runner(out), [0, 1], **ASKED)
    toy.run(Runner(out), [1], ["circles"], ["gedi"], **ASKED)
    assert rows_in(out) == rows


# --- the table


def test_the_table_has_the_papers_number_beside_ours():
    rows = [made_up(1.0, seed, data="circles") for seed in range(5)]
    rows += [made_up(0.1, seed, certified=False) for seed in range(5)]
    rows += [made_up(0.5, method="dino")]
    (made,) = toy.tables(rows)
    ours, dino, other = made.lines
    assert ours["data"] == "moons" and ours["why"] == "uncertified 5/5: bound gap 0.001"
    assert (ours["paper"], ours["ours"]) == ("0.94 ± 0.07", "0.10 ± 0.00")
    assert dino["method"] == "DINO" and dino["paper"] == ""
    assert (other["paper"], other["ours"]) == ("1.00 ± 0.01", "1.00 ± 0.00")
    assert made.title == "NMI on fresh points: preset default"


def test_a_mean_within_two_deviations_of_the_papers_is_reproduced():
    def verdict(nmi, **others):
        (made,) = toy.tables([made_up(nmi, **({"preset": "paper/toy"} | others))])
        return made.lines[0]["verdict"]

    assert verdict(0.81) == verdict(1.0) == "reproduced"  # the paper: 0.94 and 0.07
    assert verdict(0.79) == "differs: -0.15"
    exact = {"method": "no-gen"}  # the paper: 0.98 and 0.00
    assert verdict(0.984, **exact) == "reproduced" and verdict(1.0, **exact) == "differs: +0.02"
    assert verdict(0.9, method="barlow") == ""
    assert "verdict" not in toy.tables([made_up(1.0)])[0].lines[0]


# --- pictures


def points_of(axes):
    return np.concatenate([np.asarray(dots.get_offsets()) for dots in axes.collections])


def test_both_pictures_use_the_models_of_the_table(rows, out, no_training):
    asked = {**ASKED, "methods": ["barlow", "gedi"], "seed": 1}
    toy.labels(Runner(out), **asked)
    toy.generation(Runner(out), steps=3, **asked)
    for name in ("labels.png", "generation.png"):
        assert (folder_in(out) / name).read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("other", [{"n": 50}, {"seed": 2}])
def test_a_model_of_other_settings_is_not_mistaken_for_this_one(rows, out, other, monkeypatch):
    def recorded(cell, n, values):
        raise InterruptedError(n, cell.seed)

    monkeypatch.setattr(toy, "fitted", recorded)
    with pytest.raises(InterruptedError) as stopped:
        toy.labels(Runner(out), ["moons"], ["gedi"], **({"seed": 1} | ASKED | other))
    wanted = {"n": 60, "seed": 1} | other
    assert stopped.value.args == (wanted["n"], wanted["seed"])


def test_labels_are_in_the_colours_of_the_truth_whatever_their_numbers(
    rows, out, drawn, monkeypatch
):
    x, y = make_moons(60, noise=0.05, random_state=1_000_001)
    monkeypatch.setattr(GEDI, "predict", lambda self, x: 1 - y)
    toy.labels(Runner(out), ["moons"], ["gedi"], seed=1, **ASKED)
    truth, gedi = drawn[0].axes
    assert np.allclose(points_of(truth), x[np.argsort(y, kind="stable")])
    assert np.array_equal(points_of(truth), points_of(gedi))
    assert gedi.get_title() == "GEDI\nNMI 1.00"
    words = drawn[0].get_suptitle().replace("\n", " ")
    assert "seed 1: preset paper/toy, optimizer.batch_size=40" in words


def test_samples_outside_the_axes_are_counted_and_all_axes_are_alike(rows, out, drawn, monkeypatch):
    points = np.tile([[0.0, 0.0], [100.0, 0.0], [np.nan, 0.0]], (200, 1))[: toy.N_SAMPLES]
    labels = np.zeros(len(points), dtype=int)
    monkeypatch.setattr(GEDI, "sample", lambda self, n, **_: (points[:n], labels[:n]))
    toy.generation(Runner(out), ["moons"], ["barlow", "gedi"], seed=1, steps=3, **ASKED)
    real, *others = drawn[0].axes
    assert real.get_title() == "real points"
    for axes in others:
        assert axes.get_title().endswith("\n333 outside") and len(points_of(axes)) == 167
        assert (axes.get_xlim(), axes.get_ylim()) == (real.get_xlim(), real.get_ylim())


def test_chains_take_as_many_steps_as_cross_the_data():
    settings = of_points({"sampler": {"step_size": 0.01**2 / 2}})
    assert toy.steps_for(SimpleNamespace(settings_=settings)) == 20_000


def test_rows_are_plain_json_of_their_keys(rows):
    assert json.loads(json.dumps(rows)) == rows
    cell = Cell("moons", "jem", 1)
    assert set(cell.keys()) <= {(r["data"], r["method"], r["seed"]) for r in rows}
