from __future__ import annotations

import pytest

from gedilearn.errors import InputError
from gedilearn.fields import value_at
from gedilearn.presets import preset
from gedilearn.registry import PRESETS
from gedilearn.settings import (
    IMAGES,
    assign,
    checked,
    flat,
    known_paths,
    nested,
    resolve,
    settings_type,
)


def test_a_schedule_is_linear_between_its_points_and_flat_outside() -> None:
    points = ((0.2, 1.0), (0.6, 3.0))
    assert [value_at(points, p) for p in (0, 0.2, 0.4, 0.6, 1)] == pytest.approx([1, 1, 2, 3, 3])


@pytest.mark.parametrize("name", PRESETS)
def test_every_preset_is_valid_and_survives_its_own_json(name: str) -> None:
    settings = resolve(preset(name), (100, 2))
    assert settings_type().model_validate_json(settings.model_dump_json()) == settings


def test_the_literal_preset_holds_the_papers_values() -> None:
    settings = resolve(preset("paper/toy-literal"), (100, 2))
    assert settings.training.max_iter == 20_000 and settings.optimizer.batch_size == 400
    assert settings.optimizer.learning_rate == 1e-3
    assert (settings.weights.gen, settings.weights.inv, settings.weights.prior) == (1, 50, 10)
    assert settings.views.noise == 0.03
    sampler = settings.sampler
    assert (sampler.steps, sampler.buffer, sampler.restart) == (1, 10_000, 0.05)
    assert (sampler.step_size, sampler.noise) == (0.01**2 / 2, 0.01)
    network = settings.network
    assert (network.hidden, network.features, network.head) == ((100, 100), 2, (4,))
    assert network.activation == "relu"


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"weights": {"inw": 1}}, "did you mean 'weights.inv'"),
        ({"sampler": {"steps": 0}}, "sampler.steps=0"),
        ({"views": {"kind": "wlak"}}, "views.kind='wlak'"),
        ({"n_clusters": 3, "prior": [0.5, 0.5]}, "2 entries for n_clusters=3"),
        ({"optimizer": {"learning_rate": 1e308}}, r"learning_rate=1e\+308: should be less"),
        ({"weights": {"inv": [[0, 1], [1, 1e40]]}}, r"weights.inv=.*: .* to 1e\+30"),
        ({"weights": {"inv": 10**400}}, "weights.inv="),
    ],
)
def test_a_wrong_value_is_named_in_one_line(values: dict, words: str) -> None:
    with pytest.raises(InputError, match=words) as caught:
        resolve(values, (100, 2))
    assert "\n" not in str(caught.value)


def test_an_unknown_name_is_answered_with_the_nearest() -> None:
    with pytest.raises(InputError, match=r"did you mean 'optimizer.learning_rate'"):
        assign({}, "optimizer.learningrate", 1)
    with pytest.raises(InputError, match="did you mean 'paper/toy'"):
        preset("paper/toi")


def test_every_setting_says_what_it_means() -> None:
    assert all(len(text) > 10 for text in known_paths().values())


def test_dotted_and_nested_values_are_two_forms_of_one_thing() -> None:
    values = {"n_clusters": 3, "sampler": {"steps": 2, "noise": 0.1}, "swav": {"iterations": 5}}
    assert nested(flat(values)) == values
    with pytest.raises(InputError, match=r"did you mean 'sampler.steps'"):
        nested({"sampler.step": 2})


def test_settled_settings_stay_as_they_are() -> None:
    for shape in ((100, 2), (100, 1, 8, 8), (100, 3, 16, 16)):
        once = resolve({}, shape)
        assert resolve(once.model_dump(), shape) == once


@pytest.mark.parametrize("shape", [(60_000, 1, 28, 28), (1797, 1, 8, 8), (50_000, 3, 32, 32)])
def test_published_sets_have_the_defaults_for_images_as_they_are_written(shape) -> None:
    settings = flat(resolve({}, shape).model_dump())
    assert all(settings[name] == value for name, value in IMAGES.items())
    assert settings["training.max_iter"] == 2000


@pytest.mark.parametrize(
    ("shape", "iterations", "later", "steps"),
    [
        ((600, 3, 64, 64), 480, 48, 10),
        ((600, 3, 48, 64), 720, 72, 20),
        ((50, 1, 28, 28), 300, 30, 20),
        ((50, 3, 224, 224), 300, 30, 10),
        ((10_000, 3, 96, 96), 2000, 200, 10),
    ],
)
def test_few_or_large_images_are_trained_for_less_long(shape, iterations, later, steps) -> None:
    settings = resolve({}, shape)
    assert settings.training.max_iter == iterations
    assert (settings.density.iterations, settings.sampler.steps) == (later, steps)
    assert resolve({"training": {"max_iter": 7}}, shape).training.max_iter == 7


def test_single_values_are_refused_before_the_data_is_known_and_contradictions_after() -> None:
    assert checked({"training": {"seed": 3}}).training.seed == 3
    with pytest.raises(InputError, match=r"training.tol=-1: should be greater"):
        checked({"training": {"tol": -1}})
    # More than the chains of vectors, but not of images.
    many = {"optimizer": {"batch_size": 1500}, "sampler": {"chains": 1500}}
    assert resolve(many, (5000, 1, 8, 8)).sampler.chains == 1500
    with pytest.raises(InputError, match=r"sampler.buffer=1000 is smaller"):
        resolve(many, (5000, 2))


@pytest.mark.parametrize(
    ("values", "shape", "found"),
    [
        ({}, (100, 2), ("importance", "auto", 0)),
        ({}, (100, 65), ("none", "auto", 0)),
        ({}, (100, 1, 8, 8), ("chains", "auto", 30)),
        ({"sampler": {"kind": "chains"}}, (100, 2), ("chains", "auto", 800)),
        ({"density": {"base": "none"}}, (100, 2), ("langevin", "none", 800)),
        ({"sampler": {"kind": "langevin"}}, (100, 2), ("langevin", "none", 800)),
        ({"method": "jem"}, (100, 2), ("langevin", "none", 800)),
        ({"density": {"base": "gaussian", "iterations": 7}}, (9, 3), ("importance", "gaussian", 7)),
    ],
)
def test_samples_are_drawn_as_the_data_and_the_base_allow(values, shape, found) -> None:
    settings = resolve(values, shape)
    density = settings.density
    assert (settings.sampler.kind, density.base, density.iterations) == found


def test_samplers_that_cannot_work_are_refused() -> None:
    with pytest.raises(InputError, match="needs a base"):
        resolve({"sampler": {"kind": "chains"}, "density": {"base": "none"}}, (100, 2))
