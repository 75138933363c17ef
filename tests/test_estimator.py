"""The front door for programs."""

from __future__ import annotations

import copy
import inspect
import json
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.base import clone
from sklearn.datasets import make_blobs, make_moons
from sklearn.exceptions import NotFittedError
from sklearn.metrics import adjusted_rand_score, normalized_mutual_info_score
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler
from sklearn.utils.estimator_checks import parametrize_with_checks
from torch import nn

from gedilearn import GEDI
from gedilearn.errors import InputError
from gedilearn.estimator import NAMED
from gedilearn.settings import IMAGES, STARTED, flat, known_paths, resolve
from helpers import NO_BASE, gedi

QUICK = {
    "max_iter": 30,
    "training.check_every": 15,
    "density.iterations": 10,
    **NO_BASE,
    "optimizer.batch_size": 64,
    "sampler.buffer": 100,
    "random_state": 0,
}


@parametrize_with_checks(
    [gedi(max_iter=40, **{"training.check_every": 20, "density.iterations": 5})]
)
def test_scikit_learns_own_checks(estimator: GEDI, check) -> None:
    check(estimator)


def test_after_a_refused_fit_the_model_is_not_fitted(moons) -> None:
    model = gedi(views="no", **QUICK)
    with pytest.raises(InputError):
        model.fit(moons[0])
    uses = [model.summary, model.sample, lambda: model.predict(moons[0]), lambda: model.save("m")]
    for use in uses:
        with pytest.raises(NotFittedError):
            use()
    fitted = [name for name in dir(GEDI) if name.endswith("_") and not name.startswith("_")]
    assert "grade_" in fitted and not any(hasattr(GEDI(), name) for name in fitted)


@pytest.mark.parametrize(
    "X",
    [
        torch.zeros(9, 2, device="meta"),
        torch.zeros(9, 2).to_sparse(),
        torch.zeros(9, 2, dtype=torch.bfloat16),
    ],
    ids=["without values", "sparse", "bfloat16"],
)
def test_a_tensor_that_numpy_cannot_hold_is_refused(X) -> None:
    with pytest.raises(InputError, match=r"X is a tensor of torch\.\w+ \(torch\.\w+, \w+\)"):
        gedi(**QUICK).fit(X)


# --- what comes out --------------------------------------------------------------------------


def test_moons_are_certified_and_right_on_fresh_data(moons_model: GEDI) -> None:
    X, y = make_moons(1000, noise=0.05, random_state=1)
    assert moons_model.certified_ and moons_model.bound_gap_ < 0.002
    assert moons_model.verdict_.grade == "certified" and moons_model.stopped_ == "certified"
    assert normalized_mutual_info_score(y, moons_model.predict(X)) > 0.95


def test_scale_offset_and_units_make_no_difference(moons, moons_model: GEDI) -> None:
    X, _ = moons
    moved = GEDI(n_clusters=2, random_state=0, w_gen=0.0).fit(X * [1e4, 1e-3] + [1e6, -5])
    assert adjusted_rand_score(moved.labels_, moons_model.labels_) > 0.98


def test_predictions_labels_and_probabilities_agree(moons, moons_model: GEDI) -> None:
    X, _ = moons
    proba = moons_model.predict_proba(X)
    np.testing.assert_allclose(proba.sum(1), 1, rtol=1e-12)
    np.testing.assert_array_equal(proba.argmax(1), moons_model.labels_)
    np.testing.assert_array_equal(moons_model.predict(X), moons_model.labels_)
    assert moons_model.transform(X).shape == (500, 100)


def test_scores_are_the_log_density_its_slope_and_the_networks_energy(
    moons, moons_model: GEDI
) -> None:
    X = moons[0][:20]
    density = moons_model.score_samples(X)
    assert density.shape == (20,)
    # Finite differences in float64, in the network's units.
    z = moons_model.scaling_.apply(X).astype(np.float64)
    network, learnt = copy.deepcopy(moons_model.model_).double(), moons_model.result_.density
    assert learnt is not None

    def log_p(points: np.ndarray) -> np.ndarray:
        return learnt.log_density(torch.from_numpy(points), moons_model.result_.network).numpy()

    step = 1e-6
    slope = np.stack(
        [(log_p(z + step * e) - log_p(z - step * e)) / (2 * step) for e in np.eye(2)], axis=1
    )
    got = moons_model.score_samples(X, kind="gradient_norm")
    np.testing.assert_allclose(got, -np.linalg.norm(slope, axis=1), rtol=1e-3, atol=1e-5)
    np.testing.assert_allclose(
        density, log_p(z) - np.log(moons_model.scaling_.scale).sum(), rtol=1e-5
    )
    with torch.no_grad():
        energy = network.log_density(torch.from_numpy(z)[None])[0].numpy()
    np.testing.assert_allclose(moons_model.score_samples(X, kind="energy"), energy, rtol=1e-6)
    confidence = moons_model.score_samples(X, kind="confidence")
    np.testing.assert_allclose(confidence, moons_model.predict_proba(X).max(1))
    with pytest.raises(InputError, match="kind='logp'"):
        moons_model.score_samples(X, kind="logp")


def test_samples_lie_in_the_widened_box_and_are_reproducible(moons, moons_model: GEDI) -> None:
    X, _ = moons
    points, labels = moons_model.sample(64, random_state=3)
    again, _ = moons_model.sample(64, random_state=3)
    assert points.shape == (64, 2) and labels.shape == (64,)
    np.testing.assert_array_equal(points, again)
    margin = 0.101 * (X.max(0) - X.min(0))
    assert (points >= X.min(0) - margin).all() and (points <= X.max(0) + margin).all()
    with pytest.raises(InputError, match="n_samples=0"):
        moons_model.sample(0)


def test_the_diagnosis_of_new_data_tells_a_certified_from_a_foreign_set(moons_model: GEDI) -> None:
    same, _ = make_moons(500, noise=0.05, random_state=5)
    assert moons_model.diagnose(same).gap < 0.1
    # Both blobs lie in one moon's territory: the prior is not met.
    other, _ = make_blobs(300, centers=[[0, 1], [0.5, 0.9]], cluster_std=0.05, random_state=0)
    foreign = moons_model.diagnose(other)
    assert foreign.gap > 0.2 and "cluster collapse" in foreign.failure_modes


def test_the_best_of_several_initialisations_has_the_smallest_gap(tmp_path: Path) -> None:
    X, _ = make_moons(300, noise=0.05, random_state=0)
    settings = QUICK | {
        "views": "noise",
        "views.noise": 0.1,
        "training.tol": 0.0,
        "max_iter": 90,
        "density.iterations": 0,
    }
    model = gedi(n_clusters=2, n_init=4, run_dir=tmp_path / "run", **settings).fit(X)
    rows = [json.loads(s) for s in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    assert all(len(row["bound_gap"]) == 4 for row in rows)
    assert model.bound_gap_ == min(min(row["bound_gap"]) for row in rows)


def test_an_uneven_split_cannot_be_certified_under_a_uniform_prior() -> None:
    X, _ = make_blobs([400, 100], centers=[[0, 0], [6, 6]], cluster_std=0.5, random_state=0)
    model = GEDI(n_clusters=2, random_state=0, prior="uniform", w_gen=0.0).fit(X)
    assert not model.certified_ and model.stopped_ == "budget"
    least = -np.log(0.8 * 0.2) / 2 - np.log(2)  # the divergence from uniform to 80/20
    assert model.bound_gap_ > least - 0.01
    assert model.verdict_.figures["bound gap from cluster sizes (nats)"] > least - 0.01


@pytest.mark.parametrize("prior", [(0.2, 0.8), None])
def test_an_uneven_split_is_certified_under_a_given_or_estimated_prior(prior) -> None:
    X, y = make_blobs([400, 100], centers=[[0, 0], [6, 6]], cluster_std=0.5, random_state=0)
    model = GEDI(n_clusters=2, random_state=0, prior=prior, w_gen=0.0).fit(X)
    assert model.certified_ and adjusted_rand_score(y, model.labels_) > 0.99
    assert sorted(model.prior_) == pytest.approx([0.2, 0.8], abs=0.02)
    assert model.diagnose(X).gap < 0.01


# --- conventions ------------------------------------------------------------------------------


def test_the_same_seed_gives_the_same_model_and_another_one_another(moons) -> None:
    X, _ = moons
    first, second = (gedi(**QUICK).fit(X).predict_proba(X) for _ in range(2))
    other = gedi(**QUICK | {"random_state": 1}).fit(X).predict_proba(X)
    np.testing.assert_array_equal(first, second)
    assert np.abs(first - other).max() > 1e-3


def test_tensors_frames_and_lists_are_taken(moons) -> None:
    X = moons[0][:80]
    expected = gedi(**QUICK).fit(X).predict_proba(X)
    for same in (torch.from_numpy(X), pd.DataFrame(X, columns=["a", "b"]), X.tolist()):
        model = gedi(**QUICK).fit(same)
        np.testing.assert_allclose(model.predict_proba(same), expected)
    frame = pd.DataFrame(X, columns=["a", "b"])
    assert gedi(**QUICK).fit(frame).feature_names_in_.tolist() == ["a", "b"]


def test_it_works_in_pipelines_clones_and_grid_search(moons) -> None:
    X = moons[0][:120]
    pipeline = make_pipeline(MinMaxScaler(), gedi(**QUICK))
    assert pipeline.fit_predict(X).shape == (120,)
    assert pipeline.set_output(transform="pandas").fit_transform(X).columns[0] == "gedi0"
    grid = {"w_inv": [1.0, 50.0], "settings": [gedi(**QUICK).settings | {"sampler.steps": 2}]}
    search = GridSearchCV(gedi(**QUICK), grid, cv=2).fit(X)
    assert search.best_params_["w_inv"] in (1.0, 50.0)
    assert search.best_estimator_.settings_.sampler.steps == 2
    copied = clone(GEDI(3, encoder=nn.Linear(2, 4), settings={"network.hidden": (7,)}))
    assert copied.get_params()["settings"] == {"network.hidden": (7,)}
    with pytest.raises(InputError, match=r"unknown setting 'network\.hiden'"):
        copied.set_params(settings={"network.hiden": (7,)}).fit(X)


def test_every_argument_is_documented_with_its_default_and_reaches_a_setting() -> None:
    arguments = inspect.signature(GEDI.__init__).parameters
    assert len(arguments) == 17  # self, and those that people change
    for name, parameter in arguments.items():
        if name != "self":
            line = next(
                s for s in GEDI.__doc__.splitlines() if re.match(rf"    .*\b{name}\b.* : ", s)
            )
            assert line.endswith(f"default {parameter.default!r}")
    objects = {"self", "preset", "random_state", "run_dir", "verbose", "settings"}
    assert set(arguments) - objects == set(NAMED)
    assert set(NAMED.values()) <= set(known_paths())


def test_settings_reach_the_network_and_come_back() -> None:
    network = {"hidden": (8, 6), "features": 3, "head": (5,), "activation": "silu"}
    values = {f"network.{name}": value for name, value in network.items()}
    X = np.random.default_rng(0).normal(size=(60, 5))
    model = gedi(**QUICK, **values, **{"network.temperature": 0.5}).fit(X)
    assert model.model_.encoder.widths == (5, 8, 6, 3)
    assert model.model_.head.widths == (3, 5, 2)
    assert model.model_.temperature == 0.5
    assert GEDI.from_settings(model.settings_).resolve(X.shape) == model.settings_


def test_every_setting_can_be_given_by_its_dotted_name() -> None:
    wanted = resolve({}, (50, 2))
    given = flat(wanted.model_dump())
    assert GEDI(settings=given).resolve((50, 2)) == wanted
    for path, value in given.items():
        assert flat(GEDI(settings={path: value}).resolve((50, 2)).model_dump())[path] == value


def test_an_argument_goes_before_settings_and_these_before_the_preset() -> None:
    assert GEDI(preset="paper/toy").resolve((50, 2)).training.max_iter == 20_000
    changed = {"training.max_iter": 7}
    assert GEDI(preset="paper/toy", settings=changed).resolve((50, 2)).training.max_iter == 7
    model = GEDI(preset="paper/toy", settings=changed, max_iter=8)
    assert model.resolve((50, 2)).training.max_iter == 8
    assert GEDI(preset="paper/toy", method="jem").resolve((50, 2)).sampler.steps == 10
    with pytest.raises(InputError, match="unknown setting '1'"):
        GEDI(settings={1: 2}).resolve((50, 2))
    assert GEDI(settings={"training.seed": 5}).resolve((50, 2)).training.seed == 5
    assert GEDI(random_state=6, settings={"training.seed": 5}).resolve((5, 2)).training.seed == 6


def test_what_is_left_open_is_settled_by_the_shape_of_the_data() -> None:
    vectors, images = GEDI().resolve((50, 2)), GEDI().resolve((50, 1, 8, 8))
    assert (vectors.views.kind, vectors.network.encoder, vectors.device.threads) == (
        "walk",
        "mlp",
        1,
    )
    assert (images.views.kind, images.network.encoder, images.network.width) == ("grey", "conv", 32)
    assert GEDI().resolve((50, 3, 8, 8)).views.kind == "paper"
    assert GEDI(encoder="resnet8").resolve((50, 3, 8, 8)).network.width == 128
    assert GEDI(3, method="swav").resolve((50, 2)).own.embedding == 3
    long = {"optimizer.batch_size": 10}
    assert GEDI(method="deepcluster", settings=long).resolve((1000, 2)).own.period == 100
    with pytest.raises(InputError, match="'mlp' needs vectors"):
        GEDI(encoder="mlp").resolve((50, 1, 8, 8))


def test_images_have_defaults_of_their_own_and_what_is_given_stays() -> None:
    X = np.random.default_rng(0).normal(size=(20, 1, 8, 8))
    given = {"weights.inv": 50.0, "density.iterations": 2, "optimizer.batch_size": 20}
    given |= {"sampler.steps": 1}
    model = gedi(**given, max_iter=3, random_state=0, **{"network.width": 2}).fit(X)
    used = flat(model.settings_.model_dump())
    assert {path: used[path] for path in IMAGES} == IMAGES | given
    assert gedi(**QUICK).fit(X[:, 0, 0]).settings_.weights.inv == STARTED["weights.inv"]


def test_any_module_may_be_the_encoder_and_is_not_changed(moons) -> None:
    X, _ = moons
    encoder = nn.Sequential(nn.Linear(2, 16), nn.Tanh(), nn.Dropout(0.1), nn.Linear(16, 3))
    before = [p.clone() for p in encoder.parameters()]
    model = gedi(encoder=encoder, n_init=2, **QUICK).fit(X)
    assert model.transform(X).shape == (500, 3)
    assert all(torch.equal(a, b) for a, b in zip(before, encoder.parameters(), strict=True))
    wrong = gedi(encoder=nn.Linear(5, 3), **QUICK)
    with pytest.raises(InputError, match=r"encoder does not take points of shape \(2,\)"):
        wrong.fit(X)


def test_a_function_may_be_the_views(moons) -> None:
    X, _ = moons
    seen = []

    def views(x: torch.Tensor) -> torch.Tensor:
        seen.append(x.shape)
        return x + 0.1 * torch.randn_like(x)

    gedi(views=views, **QUICK).fit(X)
    assert (64, 2) in seen
    with pytest.raises(InputError, match="must return a tensor of the batch's shape"):
        gedi(views=lambda x: x[:3], **QUICK).fit(X)


# --- saving -----------------------------------------------------------------------------------


def test_a_saved_model_comes_back_with_all_it_knew(
    tmp_path: Path, moons, moons_model: GEDI
) -> None:
    X, _ = moons
    path = tmp_path / "model.safetensors"
    moons_model.save(path)
    loaded = GEDI.load(path)
    np.testing.assert_array_equal(loaded.predict_proba(X), moons_model.predict_proba(X))
    np.testing.assert_array_equal(
        loaded.sample(5, random_state=0)[0], moons_model.sample(5, random_state=0)[0]
    )
    for name in ("labels_", "bound_gap_", "certified_", "verdict_", "n_iter_"):
        np.testing.assert_array_equal(getattr(loaded, name), getattr(moons_model, name))
    assert loaded.settings_ == moons_model.settings_
    with pytest.raises(InputError, match="exists already"):
        moons_model.save(path)


@pytest.mark.parametrize(
    "encoder, words",
    [
        (nn.Linear(2, 0), "width 0"),
        (nn.LSTM(2, 3), "does not take points"),  # gives a tuple
        (nn.Module(), "does not take points"),
        (nn.Linear(2, 3, device="meta"), "without values"),
    ],
)
def test_an_encoder_that_gives_no_vectors_is_refused(moons, encoder, words: str) -> None:
    with pytest.raises(InputError, match=words):
        gedi(encoder=encoder, **QUICK).fit(moons[0])


def test_an_encoder_may_come_in_double_precision(moons) -> None:
    double = nn.Linear(2, 3).double()
    same = gedi(encoder=nn.Linear(2, 3), **QUICK)
    same.encoder.load_state_dict(double.state_dict())
    labels = same.fit(moons[0]).labels_
    np.testing.assert_array_equal(gedi(encoder=double, **QUICK).fit(moons[0]).labels_, labels)


def test_a_model_with_its_own_encoder_asks_for_it_again(tmp_path: Path, moons) -> None:
    X, _ = moons
    encoder = nn.Sequential(nn.Linear(2, 8), nn.Tanh())
    model = gedi(encoder=encoder, **QUICK).fit(X)
    model.save(tmp_path / "m.safetensors")
    with pytest.raises(InputError, match="encoder"):
        GEDI.load(tmp_path / "m.safetensors")
    loaded = GEDI.load(tmp_path / "m.safetensors", encoder=encoder)
    np.testing.assert_array_equal(loaded.predict_proba(X), model.predict_proba(X))


# --- bad input --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("X", "arguments", "words"),
    [
        (np.zeros((20, 2)), {}, "only 1 distinct point:"),
        (np.random.rand(3, 2), {"n_clusters": 5}, "n_clusters=5 for 3 points"),
        (np.random.rand(20, 2), {"n_clusters": 0}, "n_clusters=0"),
        (np.random.rand(20, 2), {"weights.inv": "much"}, "weights.inv='much'"),
        (np.random.rand(20, 2), {"prior": (0.5, 0.6)}, "sum to 1"),
        (np.random.rand(20, 2), {"views": "grey"}, "needs images"),
        (np.random.rand(20, 2), {"device": "abacus"}, "abacus"),
        (np.array([[1.0, 2.0], [np.nan, 1.0], [3.0, 4.0]]), {}, "row 1"),
    ],
)
def test_bad_input_is_one_line_that_names_it(X: np.ndarray, arguments: dict, words: str) -> None:
    with pytest.raises(ValueError, match=words.replace("(", r"\(")) as caught:
        gedi(**QUICK | arguments).fit(X)
    assert "\n" not in str(caught.value)
