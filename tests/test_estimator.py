"""The front door for programs."""

from __future__ import annotations

import inspect
import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.base import clone
from sklearn.datasets import make_blobs, make_circles, make_moons
from sklearn.metrics import adjusted_rand_score, normalized_mutual_info_score
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler
from sklearn.utils.estimator_checks import parametrize_with_checks
from torch import nn

from gedilearn import GEDI
from gedilearn.errors import InputError
from gedilearn.estimator import PARAMETERS, _look_up
from gedilearn.settings import BASELINES, IMAGES, Settings, known_paths

QUICK = dict(
    max_iter=60, check_every=30, density_iter=10, batch_size=64, buffer_size=100, random_state=0
)


@pytest.fixture(scope="module")
def moons() -> tuple[np.ndarray, np.ndarray]:
    return make_moons(500, noise=0.05, random_state=0)


@pytest.fixture(scope="module")
def fitted(moons: tuple[np.ndarray, np.ndarray]) -> GEDI:
    return GEDI(n_clusters=2, random_state=0).fit(moons[0])


@parametrize_with_checks([GEDI(max_iter=100, check_every=50, density_iter=10)])
def test_scikit_learns_own_checks(estimator: GEDI, check) -> None:
    check(estimator)


# --- what comes out --------------------------------------------------------------------------


def test_moons_are_certified_and_right_on_fresh_data(fitted: GEDI) -> None:
    X, y = make_moons(1000, noise=0.05, random_state=1)
    assert fitted.converged_ and fitted.certificate_gap_ < 0.002
    assert fitted.verdict_.startswith("certified") and fitted.stopped_ == "certified"
    assert normalized_mutual_info_score(y, fitted.predict(X)) > 0.95


def test_circles_are_certified_and_right_on_fresh_data() -> None:
    X, _ = make_circles(500, factor=0.5, noise=0.05, random_state=0)
    fresh, y = make_circles(500, factor=0.5, noise=0.05, random_state=1)
    model = GEDI(n_clusters=2, random_state=0).fit(X)
    assert model.converged_
    assert normalized_mutual_info_score(y, model.predict(fresh)) > 0.95


def test_scale_offset_and_units_make_no_difference(moons, fitted: GEDI) -> None:
    X, _ = moons
    moved = GEDI(n_clusters=2, random_state=0, w_gen=0.0).fit(X * [1e4, 1e-3] + [1e6, -5])
    assert adjusted_rand_score(moved.labels_, fitted.labels_) > 0.98


def test_predictions_labels_and_probabilities_agree(moons, fitted: GEDI) -> None:
    X, _ = moons
    proba = fitted.predict_proba(X)
    np.testing.assert_allclose(proba.sum(1), 1, rtol=1e-12)
    np.testing.assert_array_equal(proba.argmax(1), fitted.labels_)
    np.testing.assert_array_equal(fitted.predict(X), fitted.labels_)
    assert fitted.transform(X).shape == (500, 100)


def test_scores_are_the_networks_log_density_and_its_slope(moons, fitted: GEDI) -> None:
    X = moons[0][:20]
    density = fitted.score_samples(X)
    assert density.shape == (20,)
    # Finite differences in float64, in the network's units.
    z = fitted.scaling_.apply(X).astype(np.float64)
    network = clone_of(fitted).double()

    def log_p(points: np.ndarray) -> np.ndarray:
        with torch.no_grad():
            return network.log_density(torch.from_numpy(points)[None])[0].numpy()

    step = 1e-6
    slope = np.stack(
        [(log_p(z + step * e) - log_p(z - step * e)) / (2 * step) for e in np.eye(2)], axis=1
    )
    got = fitted.score_samples(X, kind="gradient_norm")
    np.testing.assert_allclose(got, -np.linalg.norm(slope, axis=1), rtol=1e-4)
    np.testing.assert_allclose(density, log_p(z), rtol=1e-9)
    confidence = fitted.score_samples(X, kind="confidence")
    np.testing.assert_allclose(confidence, fitted.predict_proba(X).max(1))
    with pytest.raises(InputError, match="kind='logp'"):
        fitted.score_samples(X, kind="logp")


def clone_of(model: GEDI) -> nn.Module:
    import copy

    return copy.deepcopy(model.model_)


def test_far_points_are_less_likely_than_the_data(moons, fitted: GEDI) -> None:
    X, _ = moons
    box = np.random.default_rng(0).uniform(X.min(0), X.max(0), size=(500, 2))
    near = fitted.score_samples(X)
    assert np.mean(near[:, None] > fitted.score_samples(box)[None]) > 0.75


def test_samples_lie_in_the_widened_box_and_are_reproducible(moons, fitted: GEDI) -> None:
    X, _ = moons
    points, labels = fitted.sample(64, random_state=3)
    again, _ = fitted.sample(64, random_state=3)
    assert points.shape == (64, 2) and labels.shape == (64,)
    np.testing.assert_array_equal(points, again)
    margin = 0.101 * (X.max(0) - X.min(0))
    assert (points >= X.min(0) - margin).all() and (points <= X.max(0) + margin).all()
    with pytest.raises(InputError, match="n_samples=0"):
        fitted.sample(0)


def test_the_diagnosis_of_new_data_tells_a_certified_from_a_foreign_set(fitted: GEDI) -> None:
    same, _ = make_moons(500, noise=0.05, random_state=5)
    assert fitted.diagnose(same).gap < 0.1
    # Both blobs lie in one moon's territory: the prior is not met.
    other, _ = make_blobs(300, centers=[[0, 1], [0.5, 0.9]], cluster_std=0.05, random_state=0)
    foreign = fitted.diagnose(other)
    assert foreign.gap > 0.2 and "cluster collapse" in foreign.failure_modes


def test_the_best_of_several_initialisations_has_the_smallest_gap(tmp_path: Path) -> None:
    X, _ = make_moons(300, noise=0.05, random_state=0)
    settings = QUICK | dict(views="noise", view_noise=0.1, tol=0.0, max_iter=90, density_iter=0)
    model = GEDI(n_clusters=2, n_init=4, run_dir=tmp_path / "run", **settings).fit(X)
    rows = [json.loads(s) for s in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    assert all(len(row["gap"]) == 4 for row in rows)
    assert model.certificate_gap_ == min(min(row["gap"]) for row in rows)


def test_an_uneven_split_cannot_be_certified_under_a_uniform_prior() -> None:
    X, _ = make_blobs([400, 100], centers=[[0, 0], [6, 6]], cluster_std=0.5, random_state=0)
    model = GEDI(n_clusters=2, random_state=0, max_iter=400, density_iter=0, w_gen=0.0).fit(X)
    assert not model.converged_ and model.stopped_ == "budget"


@pytest.mark.parametrize("prior", [(0.2, 0.8), "auto"])
def test_an_uneven_split_is_certified_under_a_given_or_estimated_prior(prior) -> None:
    X, y = make_blobs([400, 100], centers=[[0, 0], [6, 6]], cluster_std=0.5, random_state=0)
    model = GEDI(n_clusters=2, random_state=0, prior=prior, w_gen=0.0).fit(X)
    assert model.converged_ and adjusted_rand_score(y, model.labels_) > 0.99
    assert sorted(model.prior_) == pytest.approx([0.2, 0.8], abs=0.02)
    assert model.diagnose(X).gap < 0.01


def test_a_run_that_diverges_says_so() -> None:
    X, _ = make_moons(200, random_state=0)
    with pytest.warns(RuntimeWarning, match="diverged after 2 recoveries"):
        model = GEDI(**QUICK | dict(learning_rate=1e30, max_recoveries=2)).fit(X)
    assert model.stopped_ == "diverged" and not model.converged_ and model.n_recoveries_ == 2
    assert "not finite" in model.verdict_


# --- conventions ------------------------------------------------------------------------------


def test_the_same_seed_gives_the_same_model_and_another_one_another(moons) -> None:
    X, _ = moons
    first, second = (GEDI(**QUICK).fit(X).predict_proba(X) for _ in range(2))
    other = GEDI(**QUICK | {"random_state": 1}).fit(X).predict_proba(X)
    np.testing.assert_array_equal(first, second)
    assert np.abs(first - other).max() > 1e-3


def test_tensors_frames_and_lists_are_taken(moons) -> None:
    X = moons[0][:80]
    expected = GEDI(**QUICK).fit(X).predict_proba(X)
    for same in (torch.from_numpy(X), pd.DataFrame(X, columns=["a", "b"]), X.tolist()):
        model = GEDI(**QUICK).fit(same)
        np.testing.assert_allclose(model.predict_proba(same), expected)
    frame = pd.DataFrame(X, columns=["a", "b"])
    assert GEDI(**QUICK).fit(frame).feature_names_in_.tolist() == ["a", "b"]


def test_it_works_in_pipelines_clones_and_grid_search(moons) -> None:
    X = moons[0][:120]
    pipeline = make_pipeline(MinMaxScaler(), GEDI(**QUICK))
    assert pipeline.fit_predict(X).shape == (120,)
    assert pipeline.set_output(transform="pandas").fit_transform(X).columns[0] == "gedi0"
    search = GridSearchCV(GEDI(**QUICK), {"w_inv": [1.0, 50.0]}, cv=2).fit(X)
    assert search.best_params_["w_inv"] in (1.0, 50.0)
    copied = clone(GEDI(n_clusters=3, encoder=nn.Linear(2, 4), hidden=(7,)))
    assert copied.get_params()["hidden"] == (7,)


def test_every_argument_is_documented_with_its_default_and_reaches_a_setting() -> None:
    arguments = inspect.signature(GEDI.__init__).parameters
    known = known_paths()
    for name, parameter in arguments.items():
        if name == "self":
            continue
        assert f"    {name} : default {parameter.default!r}\n" in GEDI.__doc__
    objects = {"self", "method_options", "random_state", "run_dir", "verbose"}
    assert set(arguments) - objects == set(PARAMETERS)
    others = {path for path in known if path.split(".")[0] not in BASELINES}
    assert others - set(PARAMETERS.values()) == {"training.seed"}


def test_settings_reach_the_network_and_come_back() -> None:
    model = GEDI(hidden=(8, 6), features=3, head=(5,), activation="silu", temperature=0.5)
    X = np.random.default_rng(0).normal(size=(60, 4))
    model.set_params(**QUICK).fit(X)
    assert model.model_.encoder.widths == (4, 8, 6, 3)
    assert model.model_.head.widths == (3, 5, 2)
    assert model.model_.temperature == 0.5
    again = GEDI.from_settings(model.settings_)
    for name, path in PARAMETERS.items():
        left_open = path in IMAGES and getattr(model, name) == "auto"
        assert left_open or getattr(again, name) == getattr(model, name), name
    assert again._settings() == model.settings_.model_copy(
        update={"training": again._settings().training}
    )


def test_images_have_defaults_of_their_own_and_what_is_given_stays() -> None:
    X = np.random.default_rng(0).normal(size=(20, 1, 8, 8))
    given = dict(w_inv=50.0, max_iter=3, density_iter=2, batch_size=20, sgld_steps=1)
    settings = GEDI(**given, width=2, random_state=0).fit(X).settings_
    flat = {path: _look_up(settings.model_dump(), path) for path in IMAGES}
    named = {PARAMETERS[name]: value for name, value in given.items()}
    assert flat == {path: named.get(path, value) for path, value in IMAGES.items()}
    assert GEDI(**QUICK).fit(X[:, 0, 0]).settings_.weights.inv == Settings().weights.inv


def test_every_default_of_images_is_a_known_setting_that_differs_from_that_of_vectors() -> None:
    assert set(IMAGES) <= set(known_paths())
    for path, value in IMAGES.items():
        assert _look_up(Settings().model_dump(), path) != value, path
    for name, parameter in inspect.signature(GEDI.__init__).parameters.items():
        if PARAMETERS.get(name) in IMAGES:
            assert parameter.default == "auto", name


def test_any_module_may_be_the_encoder_and_is_not_changed(moons) -> None:
    X, _ = moons
    encoder = nn.Sequential(nn.Linear(2, 16), nn.Tanh(), nn.Dropout(0.1), nn.Linear(16, 3))
    before = [p.clone() for p in encoder.parameters()]
    model = GEDI(encoder=encoder, n_init=2, **QUICK).fit(X)
    assert model.transform(X).shape == (500, 3)
    assert all(torch.equal(a, b) for a, b in zip(before, encoder.parameters(), strict=True))
    wrong = GEDI(encoder=nn.Linear(5, 3), **QUICK)
    with pytest.raises(InputError, match=r"encoder does not take points of shape \(2,\)"):
        wrong.fit(X)


def test_a_function_may_be_the_views(moons) -> None:
    X, _ = moons
    seen = []

    def views(x: torch.Tensor) -> torch.Tensor:
        seen.append(x.shape)
        return x + 0.1 * torch.randn_like(x)

    GEDI(views=views, **QUICK).fit(X)
    assert (64, 2) in seen
    with pytest.raises(InputError, match="must return a tensor of the batch's shape"):
        GEDI(views=lambda x: x[:3], **QUICK).fit(X)


def test_images_are_clustered_scored_and_sampled() -> None:
    rng = np.random.default_rng(0)
    X = rng.integers(0, 255, size=(60, 1, 8, 8)).astype(np.uint8)
    model = GEDI(
        n_clusters=3, **QUICK | dict(max_iter=10, check_every=5, density_iter=4, batch_size=20)
    ).fit(X)
    assert model.predict(X).shape == (60,)
    assert model.score_samples(X, kind="gradient_norm").shape == (60,)
    images, _ = model.sample(4, steps=5)
    assert images.shape == (4, 1, 8, 8)
    assert images.min() >= -0.11 * 254 and images.max() <= 1.11 * 254  # the margin of the box
    with pytest.raises(InputError, match="points of shape"):
        model.predict(X[:, :, :6, :6])


# --- saving -----------------------------------------------------------------------------------


def test_a_saved_model_comes_back_with_all_it_knew(tmp_path: Path, moons, fitted: GEDI) -> None:
    X, _ = moons
    path = tmp_path / "model.safetensors"
    fitted.save(path)
    loaded = GEDI.load(path)
    np.testing.assert_array_equal(loaded.predict_proba(X), fitted.predict_proba(X))
    np.testing.assert_array_equal(
        loaded.sample(5, random_state=0)[0], fitted.sample(5, random_state=0)[0]
    )
    for name in ("labels_", "certificate_gap_", "converged_", "verdict_", "n_iter_"):
        np.testing.assert_array_equal(getattr(loaded, name), getattr(fitted, name))
    assert loaded.settings_ == fitted.settings_
    with pytest.raises(InputError, match="exists already"):
        fitted.save(path)


def test_a_model_with_its_own_encoder_asks_for_it_again(tmp_path: Path, moons) -> None:
    X, _ = moons
    encoder = nn.Sequential(nn.Linear(2, 8), nn.Tanh())
    model = GEDI(encoder=encoder, **QUICK).fit(X)
    model.save(tmp_path / "m.safetensors")
    with pytest.raises(InputError, match="encoder"):
        GEDI.load(tmp_path / "m.safetensors")
    loaded = GEDI.load(tmp_path / "m.safetensors", encoder=encoder)
    np.testing.assert_array_equal(loaded.predict_proba(X), model.predict_proba(X))


def test_a_damaged_or_foreign_model_file_is_one_clear_line(tmp_path: Path, fitted: GEDI) -> None:
    path = tmp_path / "m.safetensors"
    fitted.save(path)
    path.write_bytes(path.read_bytes()[:200])
    with pytest.raises(InputError, match="not a readable safetensors file"):
        GEDI.load(path)
    from safetensors.torch import save_file

    save_file({"a": torch.zeros(2)}, tmp_path / "other.safetensors")
    with pytest.raises(InputError, match="not a model of gedi-learn"):
        GEDI.load(tmp_path / "other.safetensors")


# --- bad input --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("X", "arguments", "words"),
    [
        (np.zeros((20, 2)), {}, "only 1 distinct points"),
        (np.random.rand(3, 2), {"n_clusters": 5}, "n_clusters=5 for 3 points"),
        (np.random.rand(20, 2), {"n_clusters": 0}, "n_clusters=0"),
        (np.random.rand(20, 2), {"w_inv": "much"}, "w_inv='much'"),
        (np.random.rand(20, 2), {"prior": (0.5, 0.6)}, "sum to 1"),
        (np.random.rand(20, 2), {"prior": (0.2, 0.2, 0.6)}, "3 entries for n_clusters=2"),
        (np.random.rand(20, 2), {"buffer_size": 10}, "buffer_size=10"),
        (np.random.rand(20, 2), {"views": "grey"}, "needs images"),
        (np.random.rand(20, 2), {"device": "abacus"}, "abacus"),
        (np.array([[1.0, 2.0], [np.nan, 1.0], [3.0, 4.0]]), {}, "row 1"),
        (np.random.rand(20, 3, 4), {}, "shape"),
        (np.random.rand(20, 7, 8, 8), {}, "channels"),
    ],
)
def test_bad_input_is_one_line_that_names_it(X: np.ndarray, arguments: dict, words: str) -> None:
    with pytest.raises(ValueError, match=words.replace("(", r"\(")) as caught:
        GEDI(**QUICK | arguments).fit(X)
    assert "\n" not in str(caught.value)


def test_duplicates_and_constant_columns_are_no_trouble() -> None:
    X, _ = make_moons(100, noise=0.05, random_state=0)
    doubled = np.hstack([np.vstack([X, X, X]), np.full((300, 1), 7.0)])
    model = GEDI(**QUICK).fit(doubled)
    assert np.isfinite(model.score_samples(doubled)).all()
    assert model.scaling_.scale[2] == 1
