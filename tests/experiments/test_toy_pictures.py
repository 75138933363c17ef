"""The pictures of predicted and generated points, from models trained briefly on few points."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from matplotlib.colors import to_hex
from sklearn.datasets import make_moons
from sklearn.metrics import normalized_mutual_info_score
from typer.testing import CliRunner

from gedilearn import panels
from gedilearn.cli import app
from gedilearn.errors import InputError
from gedilearn.estimator import GEDI
from gedilearn.experiments import toy
from gedilearn.experiments import toy_pictures as pictures
from gedilearn.experiments.runner import Runner
from gedilearn.experiments.toy_pictures import Asked

SHORT = {
    "optimizer.batch_size": 40,
    "training.check_every": 10,
    "network.hidden": (8,),
    "sampler.buffer": 100,
    "sampler.chains": 40,
}
ASKED = {"preset": "paper/toy", "iterations": 20, "n": 60, "changes": SHORT, "seed": 1}
METHODS = ["barlow", "gedi"]


@pytest.fixture(scope="module")
def out(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pictures")
    Asked(folder, None, METHODS, **ASKED).models()
    return folder


@pytest.fixture
def no_training(monkeypatch):
    monkeypatch.setattr(toy, "fit_together", lambda *_: pytest.fail("trained again"))


@pytest.fixture
def drawn(monkeypatch):
    """Figures instead of files."""
    figures = []
    monkeypatch.setattr(panels, "save", lambda fig, path: figures.append(fig) or path)
    return figures


def points_of(axes):
    """(points, colours) of a panel, in hex."""
    points = [np.asarray(dots.get_offsets()) for dots in axes.collections]
    colours = [
        [to_hex(dots.get_facecolor()[0]).upper()] * len(p)
        for dots, p in zip(axes.collections, points, strict=True)
        if len(p)
    ]
    return np.concatenate(points), np.array(list(itertools.chain(*colours)))


def test_both_pictures_use_the_kept_models(out, no_training):
    first = pictures.labels(Asked(out, None, METHODS, **ASKED))
    second = pictures.generation(Asked(out, None, METHODS, steps=3, **ASKED))
    for path, name in ((first, "labels.png"), (second, "generation.png")):
        assert path == out / name and path.read_bytes().startswith(b"\x89PNG")


def test_the_models_of_the_table_are_used(tmp_path, monkeypatch):
    asked = {name: value for name, value in ASKED.items() if name != "seed"}
    toy.run([0, 1], ["moons"], ["no-gen"], runner=Runner(tmp_path), together=2, **asked)
    monkeypatch.setattr(toy, "fit_together", lambda *_: pytest.fail("trained again"))
    (model,) = Asked(tmp_path, ["moons"], ["no-gen"], **ASKED).models().values()
    x = make_moons(60, noise=0.05, random_state=1)[0]
    assert np.array_equal(model.predict(x), model.labels_)


@pytest.mark.parametrize("other", [{"iterations": 10}, {"n": 50}, {"seed": 2}])
def test_a_model_of_other_settings_is_not_mistaken_for_this_one(out, other, monkeypatch):
    asked = []

    def recorded(data, settings):
        asked.append((len(data[0]), settings.training.max_iter, settings.training.seed))
        raise InterruptedError

    monkeypatch.setattr(toy, "fit_together", recorded)
    with pytest.raises(InterruptedError):
        Asked(out, ["moons"], ["gedi"], **(ASKED | other)).models()
    wanted = {"n": 60, "iterations": 20, "seed": 1} | other
    assert asked == [(wanted["n"], wanted["iterations"], wanted["seed"])]


def test_the_labels_are_those_of_fresh_points_in_the_colours_of_the_truth(out, drawn):
    pictures.labels(Asked(out, ["moons"], METHODS, **ASKED))
    truth, barlow, gedi = drawn[0].axes
    x, y = make_moons(60, noise=0.05, random_state=1_000_001)
    for axes in (truth, barlow, gedi):
        assert len(points_of(axes)[0]) == 60
    palette = np.array([colour.upper() for colour in panels.COLOURS])
    points, colours = points_of(truth)
    order = np.argsort(y, kind="stable")
    assert np.allclose(points, x[order]) and list(colours) == list(palette[y[order]])
    model = GEDI.load(toy.model_file(out / "models", ("moons", "gedi", 1)))
    predicted = model.predict(x)
    nmi = normalized_mutual_info_score(y, predicted)
    assert gedi.get_title() == f"GEDI\nNMI {nmi:.2f}"
    words = drawn[0].get_suptitle().replace("\n", " ")
    assert "preset paper/toy, seed 1, training shortened to 20 iterations, optimizer.b" in words


def test_colours_do_not_depend_on_how_clusters_are_numbered(out, drawn, monkeypatch):
    y = make_moons(60, noise=0.05, random_state=1_000_001)[1]
    monkeypatch.setattr(GEDI, "predict", lambda self, x: 1 - y)
    pictures.labels(Asked(out, ["moons"], ["gedi"], **ASKED))
    truth, gedi = (points_of(axes) for axes in drawn[0].axes)
    assert np.array_equal(truth[0], gedi[0]) and list(truth[1]) == list(gedi[1])
    samples = np.zeros((pictures.N_SAMPLES, 2))
    clusters = np.ones(len(samples), dtype=int)
    monkeypatch.setattr(GEDI, "sample", lambda *_, **__: (samples, clusters))
    pictures.generation(Asked(out, ["moons"], ["gedi"], steps=1, **ASKED))
    assert set(points_of(drawn[1].axes[1])[1]) == {panels.colour(0).upper()}


def test_samples_outside_the_axes_are_counted_and_all_axes_are_alike(out, drawn, monkeypatch):
    points = np.tile([[0.0, 0.0], [100.0, 0.0], [np.nan, 0.0]], (200, 1))[: pictures.N_SAMPLES]
    labels = np.zeros(len(points), dtype=int)
    monkeypatch.setattr(GEDI, "sample", lambda self, n, **_: (points[:n], labels[:n]))
    pictures.generation(Asked(out, ["moons"], METHODS, steps=3, **ASKED))
    real, *others = drawn[0].axes
    assert real.get_title() == "real points\n"
    for axes in others:
        assert axes.get_title().endswith("\n333 outside")
        assert len(points_of(axes)[0]) == 167
        assert (axes.get_xlim(), axes.get_ylim()) == (real.get_xlim(), real.get_ylim())


def test_chains_take_more_steps_where_steps_are_small(out):
    model = GEDI.load(toy.model_file(out / "models", ("moons", "gedi", 1)))
    small = model.settings_.sampler.model_copy(update={"step_size": 0.01**2 / 2})
    model.settings_ = model.settings_.model_copy(update={"sampler": small})
    assert pictures.steps_for(model) == 20_000
    large = small.model_copy(update={"step_size": 0.1})
    model.settings_ = model.settings_.model_copy(update={"sampler": large})
    assert pictures.steps_for(model) == pictures.LEAST_STEPS


def test_nothing_to_draw_is_refused(tmp_path, no_training):
    with pytest.raises(InputError, match="at least one data set"):
        Asked(tmp_path, [], METHODS, **ASKED).models()


def test_the_command_prints_where_the_picture_is(tmp_path):
    asked = ["--iterations", "2", "--data", "moons", "--methods", "swav", "--out", str(tmp_path)]
    for name in ("labels", "generation"):
        result = CliRunner().invoke(app, ["reproduce", name, *asked])
        assert result.exit_code == 0, result.output
        path = tmp_path / "default-2-iterations" / f"{name}.png"
        assert result.stdout == f"{path}\n" and path.exists()
        assert ("training SwAV" in result.stderr) == (name == "labels")
    result = CliRunner().invoke(app, ["reproduce", "labels", "--seed", "-1"])
    assert result.exit_code == 2 and result.stderr.count("\n") == 1
