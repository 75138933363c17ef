"""Embeddings: several networks vote, and one network learns their vote."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.metrics import adjusted_mutual_info_score as ami
from sklearn.preprocessing import normalize

from gedilearn import GEDI
from gedilearn.data.arrays import DIRECTIONS, Scaling, are_embeddings
from gedilearn.errors import InputError
from gedilearn.training import loop
from gedilearn.training.setup import Setup
from gedilearn.training.state import TrainState
from helpers import embeddings

X, Y = embeddings()
SHORT = {"training.max_iter": 60, "training.check_every": 20, "training.n_init": 3}


@pytest.fixture(scope="module")
def model() -> GEDI:
    return GEDI(4, random_state=0, w_gen=0.0).fit(X)


def test_networks_that_vote_find_clusters_and_one_network_has_them(model: GEDI) -> None:
    assert model.settings_.metric == "cosine" and model.settings_.training.start == "vote"
    assert ami(Y, model.labels_) > 0.95
    assert model.model_.n_members == 1
    fresh, truth = embeddings(seed=0, n=900)
    assert ami(truth[400:], model.predict(fresh[400:])) > 0.95
    evidence = model.diagnosis_.evidence
    assert evidence.is_vote and evidence.stability > 0.9
    assert model.grade_ in ("supported", "certified")


def test_a_vote_is_the_clustering_that_most_members_have(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[np.ndarray] = []
    vote = loop.vote

    def noted(setup: Setup, state: TrainState) -> torch.Tensor:
        seen.append(vote(setup, state).numpy())
        return torch.from_numpy(seen[-1])

    monkeypatch.setattr(loop, "vote", noted)
    x, y = embeddings(clusters=8, n=600, spread=2.2)
    fit = GEDI(8, random_state=0, w_gen=0.0).fit(x)
    (voted,) = seen
    assert voted.shape == (600, 1 + fit.settings_.training.n_init)
    agreed, *each = (ami(y, labels) for labels in voted.T)
    assert agreed >= np.mean(each)
    assert fit.diagnosis_.evidence.labels_kept > 0.9


def test_no_structure_is_found_in_noise_and_training_is_not_said_to_have_failed() -> None:
    noise = np.random.default_rng(0).normal(size=(500, 96)).astype(np.float32)
    fit = GEDI(5, random_state=0, w_gen=0.0).fit(noise)
    assert fit.settings_.metric == "cosine"
    assert fit.grade_ == "no structure found"


def test_a_run_that_is_stopped_in_the_stage_of_the_vote_resumes_to_the_same_weights(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    often = SHORT | {"training.checkpoint_every": 0.001}

    def fit(name: str) -> GEDI:
        return GEDI(4, random_state=0, w_gen=0.0, settings=often, run_dir=tmp_path / name).fit(X)

    straight, step = fit("straight"), loop.step

    def stopped(setup: Setup, state: TrainState) -> dict[str, torch.Tensor]:
        if state.iteration == 85:  # the networks that vote have 60
            assert state.stage.name == "vote" and state.model.n_members == 1
            raise KeyboardInterrupt
        return step(setup, state)

    monkeypatch.setattr(loop, "step", stopped)
    with pytest.raises(KeyboardInterrupt):
        fit("run")
    monkeypatch.undo()
    resumed = GEDI.resume(tmp_path / "run", X)
    assert resumed.n_iter_ == straight.n_iter_ == 90
    assert (resumed.labels_ == straight.labels_).all()
    for ours, theirs in zip(resumed.model_.parameters(), straight.model_.parameters(), strict=True):
        assert torch.equal(ours, theirs)


def test_a_saved_model_of_embeddings_scales_and_predicts_as_before(tmp_path: Path) -> None:
    x, _ = embeddings(columns=200, n=300)
    fit = GEDI(4, random_state=0, w_gen=0.0, settings=SHORT).fit(x)
    assert fit.scaling_.directions is not None
    assert fit.scaling_.directions.shape == (200, DIRECTIONS)
    assert fit.point_shape_ == (200,)
    fit.save(tmp_path / "m.safetensors")
    loaded = GEDI.load(tmp_path / "m.safetensors")
    assert (loaded.predict(x) == fit.predict(x)).all()
    assert loaded.predict_proba(x) == pytest.approx(fit.predict_proba(x))
    with pytest.raises(InputError, match="200"):
        loaded.predict(x[:, :100])


# --- the rule, and the scaling --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda x: x, True),
        (lambda x: x[:, :60], False),  # few columns
        (lambda x: x * np.geomspace(1, 1e3, x.shape[1]), False),  # columns in several units
        (lambda x: x * np.random.default_rng(0).lognormal(size=(len(x), 1)), False),  # lengths
        (lambda x: np.zeros_like(x), False),
    ],
)
def test_many_columns_in_one_unit_and_rows_of_similar_length_are_embeddings(
    change: object, expected: bool
) -> None:
    assert are_embeddings(change(X)) is expected  # type: ignore[operator]


def test_the_metric_can_be_chosen() -> None:
    fit = GEDI(4, random_state=0, w_gen=0.0, settings={"metric": "euclidean", **SHORT}).fit(X)
    assert fit.settings_.training.start == "chosen" and fit.scaling_.directions is None
    with pytest.raises(InputError, match="metric='cosine' needs vectors"):
        images = np.zeros((20, 1, 8, 8), np.uint8)
        GEDI(2, settings={"metric": "cosine"}).fit(images)


def test_scaled_embeddings_are_principal_components_of_rows_of_length_1() -> None:
    x, _ = embeddings(columns=200, n=300)
    scaling = Scaling.of_embeddings(x)
    z = scaling.apply(x)
    unit = normalize(x.astype(np.float64))
    left, values, _ = np.linalg.svd(unit - unit.mean(0), full_matrices=False)
    exact = (left * values)[:, :DIRECTIONS]
    ratio = np.abs(z) / np.abs(exact)
    assert ratio == pytest.approx(np.full_like(ratio, np.median(ratio)), rel=1e-2)
    assert np.linalg.norm(z, axis=1).mean() == pytest.approx(2 * DIRECTIONS**0.25, rel=1e-4)
    assert scaling.apply(7 * x) == pytest.approx(z, abs=1e-4)  # lengths do not count
    again = Scaling.from_json(scaling.to_json(), scaling.directions)
    assert (again.apply(x) == z).all()
    assert scaling.apply(scaling.undo(z)).shape == z.shape
    with pytest.raises(InputError, match="must match"):
        Scaling.from_json(scaling.to_json(), scaling.directions[:-1])
