"""The presets: the paper's values, departures from them, and runs of equal conditions."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from gedilearn.data.arrays import Scaling
from gedilearn.models.image_encoders import ResNet8
from gedilearn.paper.presets import PRESETS as OF_THE_PAPER
from gedilearn.paper.presets import small_iterations
from gedilearn.presets import preset
from gedilearn.registry import PRESETS
from gedilearn.settings import IMAGES, assign, flat, resolve
from gedilearn.training.environment import launch
from gedilearn.training.loop import begin, step
from gedilearn.training.setup import density_stage

SETS = ("svhn", "cifar10", "cifar100")
SHAPE = (100, 3, 32, 32)
OF_IMAGES = [f"{scale}/{data}" for scale in ("paper", "small") for data in SETS]
FIVE = ("jem", "barlow", "swav", "no-gen", "gedi")

# The table of hyperparameters as printed, a column a set: SVHN, CIFAR-10, CIFAR-100.
PRINTED = {
    "views.noise": (0.03, 0.03, 0.03),
    "views.flip": (False, True, True),
    "sampler.steps": (20, 20, 20),
    "sampler.buffer": (10_000, 10_000, 10_000),
    "sampler.restart": (0.05, 0.05, 0.05),
    "sampler.step_size": (1, 1, 1),
    "sampler.noise": (0.01, 0.01, 0.01),
    "optimizer.batch_size": (64, 64, 64),
    "optimizer.learning_rate": (1e-4, 1e-4, 1e-4),
    "weights.gen": (1, 1, 1),
    "weights.inv": (50, 50, 50),
    "weights.prior": (25, 25, 50),
    # from the text: F, one hidden layer of 2F, F outputs
    "network.width": (128, 128, 256),
    "network.head": ((256,), (256,), (512,)),
}
EPOCHS = (20, 200, 200)
N_IMAGES = (73_257, 50_000, 50_000)


def value(settings, path):
    for name in path.split("."):
        settings = getattr(settings, name)
    return settings


@pytest.mark.parametrize("units", ["", "-signed"])
@pytest.mark.parametrize("column", range(3), ids=SETS)
def test_the_papers_presets_hold_the_printed_values(column, units):
    settings = resolve(preset(f"paper/{SETS[column]}{units}"), SHAPE)
    found = {path: value(settings, path) for path in PRINTED}
    assert found == {path: values[column] for path, values in PRINTED.items()}
    assert settings.n_clusters == PRINTED["network.width"][column]
    assert settings.network.encoder == "resnet8" and settings.views.kind == "paper"
    assert settings.network.standardised is False
    # All terms from the start, to the end, and nothing that the paper does not name.
    assert settings.density.iterations == 0 and settings.training.early_stopping is False
    assert settings.weights.energy == 0 and not settings.weights.symmetric
    assert settings.sampler.max_move is None and settings.optimizer.grad_clip is None
    assert not settings.sampler.clamp and settings.sampler.margin == 0


@pytest.mark.parametrize("data", SETS)
def test_two_readings_of_the_papers_images_differ_in_units_and_in_the_views_of_x(data):
    found, signed = (preset(f"paper/{data}{units}") for units in ("", "-signed"))
    units = flat(found)
    changed = [path for path in units if units[path] != flat(signed).get(path)]
    assert changed == ["scaling", "views.both", "views.pixels"]
    moments = {"svhn": (0.45, 0.19), "cifar10": (0.48, 0.25), "cifar100": (0.48, 0.27)}
    mean, deviation = moments[data]
    ends = np.array([0, 255], dtype=np.uint8).reshape(2, 1, 1, 1)
    scaled = Scaling.of(ends, found["scaling"]).apply(ends).ravel()
    assert scaled == pytest.approx([-mean / deviation, (1 - mean) / deviation], rel=1e-6)
    assert units["views.pixels"] == pytest.approx(tuple(scaled), rel=1e-6)


def test_adams_betas_are_the_printed_ones():
    x = torch.rand(160, 3, 8, 8) * 2 - 1
    values = preset("small/cifar10")
    assign(values, "network.width", 4)
    _, state = begin(x, resolve(values, tuple(x.shape)), launch(resolve({}, SHAPE).device))
    assert {group["betas"] for group in state.optimizer.param_groups} == {(0.9, 0.999)}


@pytest.mark.parametrize("column", range(3), ids=SETS)
def test_the_papers_epochs_are_stated_as_iterations(column):
    iterations = preset(f"paper/{SETS[column]}")["training"]["max_iter"]
    assert EPOCHS[column] * N_IMAGES[column] - 64 < 64 * iterations
    assert 64 * iterations <= EPOCHS[column] * N_IMAGES[column]


@pytest.mark.parametrize("name", OF_IMAGES)
def test_a_preset_of_images_leaves_nothing_to_the_defaults_of_images(name):
    values = PRESETS[name].values
    assert [path for path in IMAGES if path not in flat(values)] == []
    given = {path: flat(values)[path] for path in IMAGES}
    used = flat(resolve(values, SHAPE).model_dump())
    assert {path: used[path] for path in IMAGES} == given


@pytest.mark.parametrize("data", SETS)
def test_at_the_papers_scale_jem_alone_has_views_of_its_own(data):
    base = resolve(preset(f"paper/{data}"), SHAPE)
    for method in FIVE:
        found = resolve(preset(f"paper/{data}", method), SHAPE)
        own = {"kind": "noise"} if method == "jem" else {}
        views = base.views.model_copy(update=own)
        assert found == base.model_copy(update={"method": method, "views": views})


def test_scaled_down_there_are_as_many_clusters_as_classes():
    found = [resolve(preset(f"small/{data}"), SHAPE).n_clusters for data in SETS]
    assert found == [10, 10, 100]
    assert [resolve(preset(f"small/{data}"), SHAPE).views.flip for data in SETS] == [
        False,
        True,
        True,
    ]


def test_scaled_down_weights_are_standardised_where_there_is_no_batch_normalisation():
    found = {m: resolve(preset("small/cifar10", m), SHAPE).network.standardised for m in FIVE}
    normalised = dict.fromkeys(("barlow", "swav"), False)
    assert found == dict.fromkeys(FIVE, True) | normalised


def images_seen(method, monkeypatch, later=False):
    """Images that pass the encoder in one iteration, or in one of GEN after the clusters.

    (trained on, sampled).
    """
    values = preset("small/cifar10", method)
    assign(values, "network.width", 4)
    x = torch.rand(160, 3, 8, 8) * 2 - 1
    settings = resolve(values, tuple(x.shape))
    setup, state = begin(x, settings, launch(settings.device))
    if later:
        state = state.enter(setup, density_stage(settings, 0))
    with monkeypatch.context() as patch:
        seen = counted(ResNet8, patch)
        state.iteration = 1
        step(setup, state)
    trained = sum(n for n, learns in seen if learns)
    return trained, sum(n for n, _ in seen) - trained


def counted(network, patch):
    """A list that fills with (images, whether parameters learn) of each pass."""
    seen, forward = [], network.forward

    def counting(self, x):
        seen.append((len(x), next(self.parameters()).requires_grad))
        return forward(self, x)

    patch.setattr(network, "forward", counting)
    return seen


def test_scaled_down_all_methods_have_equal_compute(monkeypatch):
    def passes(seen):
        trained, sampled = seen
        return (3 * trained + 2 * sampled) / 64

    spent = {}
    for method in (*FIVE, "ebclr"):
        settings = resolve(preset("small/cifar10", method), SHAPE)
        assert settings.training.early_stopping is False
        spent[method] = settings.training.max_iter * passes(images_seen(method, monkeypatch))
    gen = resolve(preset("small/cifar10", "gedi"), SHAPE).density.iterations
    spent["gedi"] += gen * passes(images_seen("gedi", monkeypatch, later=True))
    assert gen > 50
    most = max(spent.values())
    assert all(value == pytest.approx(most, rel=0.01) for value in spent.values()), spent


def test_the_stages_of_gedi_share_the_compute_and_other_methods_have_one():
    clusters, density = small_iterations("gedi")
    assert clusters < small_iterations("no-gen")[0] and density < small_iterations("jem")[0]
    assert [small_iterations(m)[1] for m in (*FIVE, "ebclr") if m != "gedi"] == [0] * 5
    assert "gedi" not in PRESETS["small/svhn"].changes
    assert preset("small/svhn", "gedi") == preset("small/svhn") | {"method": "gedi"}


# --- synthetic data


def resolved(name, method="gedi"):
    return flat(resolve(preset(name, method), (1000, 2)).model_dump())


def test_the_toy_preset_differs_from_the_papers_table_where_the_paper_is_silent_and_in_two_values():
    found, literal = resolved("paper/toy"), resolved("paper/toy-literal")
    changed = {path: value for path, value in found.items() if value != literal[path]}
    assert changed == {
        "network.activation": "leaky_relu",
        "weights.energy": 0.1,
        "views.both": True,
        "training.check_every": 500,
    }
    assert found["density.iterations"] == 0  # all terms from the first iteration
    assert not resolved("paper/toy", "jem")["views.both"]  # JEM's list has no noise


@pytest.mark.parametrize("name", ["alike/random", "alike/start"])
def test_all_methods_are_trained_alike_and_gedi_as_by_default(name):
    sections = ("network", "views", "weights", "optimizer", "training")
    start = {"training": {"start": "random"}} if name == "alike/random" else {}
    gedi = resolved(name)
    assert gedi == flat(resolve(start, (1000, 2)).model_dump())
    gedi["training.early_stopping"] = False
    for method in ("jem", "barlow", "swav", "no-unif", "no-inv"):
        own = resolved(name, method)
        assert [p for p in own if p.startswith(sections) and own[p] != gedi[p]] == []


def test_every_preset_is_registered_and_says_what_it_is():
    assert set(PRESETS) == {"default", *OF_THE_PAPER}
    assert all(PRESETS[name].about for name in PRESETS)


def test_a_preset_may_be_changed_without_harm():
    preset("paper/svhn", "jem")["views"]["kind"] = "grey"
    assert preset("paper/svhn", "jem")["views"]["kind"] == "noise"
    assert PRESETS["paper/svhn"].values["views"]["kind"] == "paper"
