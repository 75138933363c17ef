"""Several results at once, and every method from fit to file and back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.datasets import make_moons
from sklearn.metrics import adjusted_rand_score

from gedilearn import GEDI
from gedilearn.errors import InputError
from gedilearn.methods import gedi as gedi_family
from gedilearn.registry import METHODS
from gedilearn.settings import Settings, resolve
from gedilearn.together import fit_together
from gedilearn.training import loop
from gedilearn.training.environment import launch
from gedilearn.training.loop import begin, look, step, train
from gedilearn.training.setup import Setup
from gedilearn.training.state import TrainState
from helpers import NO_BASE, gedi

SETS = [make_moons(120, noise=0.05, random_state=seed)[0] for seed in (0, 1)]
BASELINES = ["swav", "barlow", "dino", "deepcluster", "ebclr"]
PAPERS = {"base": "none", "iterations": 10}  # the clusters' own network learns the density


def make_settings(**sections: Any) -> Settings:
    values = {
        "network": {"hidden": (16,)},
        "density": PAPERS,
        "sampler": {"buffer": 120, "steps": 2},
        "optimizer": {"batch_size": 60},
        "training": {"max_iter": 60, "check_every": 20, "tol": 0.0},
    }
    return resolve(values | sections, SETS[0].shape)


def begun(data: torch.Tensor, settings: Settings, **more: Any) -> tuple[Setup, TrainState]:
    return begin(data, settings, launch(settings.device), **more)


def steps(setup: Setup, state: TrainState, number: int) -> dict[str, torch.Tensor]:
    for _ in range(number):
        state.iteration += 1
        terms = step(setup, state)
    return terms


def test_each_data_set_gets_an_estimator_of_its_own() -> None:
    moved = [SETS[0], 100 * SETS[1] + 7]
    settings = make_settings(training={"max_iter": 150, "check_every": 50})
    models = fit_together(moved, settings)
    assert len(models) == 2
    for model, x in zip(models, moved, strict=True):
        assert (model.predict(x) == model.labels_).all()
        assert model.n_features_in_ == 2
        np.testing.assert_allclose(model.scaling_.undo(model.scaling_.apply(x)), x, rtol=1e-4)
    truth = [make_moons(120, noise=0.05, random_state=seed)[1] for seed in (0, 1)]
    for model, own, other in zip(models, truth, truth[::-1], strict=True):
        assert adjusted_rand_score(own, model.labels_) > adjusted_rand_score(other, model.labels_)


def test_each_begins_with_the_clusters_that_it_would_begin_with_alone() -> None:
    settings = make_settings(density={"iterations": 0}, weights={"gen": 0.0})
    for together, x in zip(fit_together(SETS, settings), SETS, strict=True):
        alone = GEDI.from_settings(settings).fit(x)
        assert together.diagnosis_.evidence == alone.diagnosis_.evidence is not None
        np.testing.assert_allclose(together.prior_, alone.prior_)
        assert adjusted_rand_score(together.labels_, alone.labels_) > 0.8
        trusts = alone.trust_, together.trust_
        np.testing.assert_allclose(*trusts, atol=0.2)


def test_a_sweep_gives_an_estimator_for_each_factor() -> None:
    factors = {"prior": np.array([1.0, 0.0, 0.5])}
    models = fit_together(SETS[:1], make_settings(), factors)
    assert len({id(model) for model in models}) == 3
    for model in models:
        assert (model.predict(SETS[0]) == model.labels_).all()
        assert model.predict_proba(SETS[0]).shape == (120, 2)


def test_more_clusters_than_points_are_refused() -> None:
    with pytest.raises(InputError, match="n_clusters=7 for 5 points"):
        fit_together([x[:5] for x in SETS], make_settings(n_clusters=7))


def test_a_member_of_a_sweep_trains_as_it_would_alone() -> None:
    x = torch.from_numpy(SETS[0]).float()
    quiet = {"views": {"kind": "noise", "noise": 0.0}, "method": "no-gen"}
    factors = {"inv": torch.tensor([1.0, 0.0, 3.0]), "prior": torch.tensor([1.0, 2.0, 0.5])}
    setup, sweep = begun(
        x[None],
        make_settings(**quiet, weights={"inv": 5.0, "prior": 4.0}),
        n_results=3,
        factors=factors,
    )
    starts = [sweep.model.select([k]).state_dict() for k in range(3)]
    steps(setup, sweep, 3)
    for k, start in enumerate(starts):
        weights = {
            "inv": 5 * float(factors["inv"][k]),
            "prior": 4 * float(factors["prior"][k]),
        }
        its_setup, alone = begun(x, make_settings(**quiet, weights=weights))
        alone.model.load_state_dict(start)
        steps(its_setup, alone, 3)
        mine = sweep.model.select([k]).state_dict()
        for name, value in alone.model.state_dict().items():
            torch.testing.assert_close(mine[name], value, rtol=1e-4, atol=1e-6)
            assert not torch.equal(value, start[name])


def test_a_small_gap_does_not_hide_a_later_divergence(monkeypatch: pytest.MonkeyPatch) -> None:
    def divergence(terms: dict[str, torch.Tensor], *_: Any) -> str | None:
        return "all is lost" if "gen" in terms else None

    monkeypatch.setattr(loop, "divergence", divergence)
    easy = {
        "training.tol": 10.0,
        "max_iter": 20,
        "training.check_every": 10,
        **NO_BASE,
        "density.iterations": 10,
        "training.on_divergence": "stop",
    }
    with pytest.warns(RuntimeWarning, match="all is lost"):
        model = gedi(**easy, random_state=0).fit(SETS[0])
    assert model.bound_gap_ < 10 and model.stopped_ == "diverged"
    assert not model.certified_ and "divergence" in model.diagnosis_.failure_modes


@pytest.mark.parametrize("method", METHODS)
def test_every_method_fits_and_comes_back_from_its_file(method: str, tmp_path: Path) -> None:
    short = {"max_iter": 20, "training.check_every": 20, "density.iterations": 5, **NO_BASE}
    model = gedi(method=method, **short, random_state=0).fit(SETS[0])
    assert model.labels_.shape == (120,) and np.isfinite(model.bound_gap_)
    model.save(tmp_path / "model.safetensors")
    loaded = GEDI.load(tmp_path / "model.safetensors")
    assert loaded.method == method
    assert (model.predict_proba(SETS[1]) == loaded.predict_proba(SETS[1])).all()
    assert (loaded.predict(SETS[0]) == model.labels_).all()


def test_barlow_with_k_means_comes_back_with_the_same_clusters(tmp_path: Path) -> None:
    options = {"barlow.assign": "kmeans"}
    short = {
        "max_iter": 40,
        "training.check_every": 20,
        "random_state": 0,
        "network.temperature": 0.3,
    }
    run = tmp_path / "run"
    model = gedi(method="barlow", **options, **short, run_dir=run).fit(SETS[0])
    assert len(np.unique(model.labels_)) == 2
    assert model.certified_ == (model.stopped_ == "certified")
    loaded = GEDI.load(run / "model.safetensors")
    again = GEDI.resume(run, SETS[0])  # k-means is not built in a second time
    for other in (loaded, again):
        assert (other.predict_proba(SETS[1]) == model.predict_proba(SETS[1])).all()


@pytest.mark.parametrize("method", BASELINES)
def test_baselines_train_in_mixed_precision(method: str) -> None:
    short = {
        "max_iter": 6,
        "training.check_every": 6,
        "network.hidden": (8,),
        "optimizer.batch_size": 60,
        "random_state": 0,
    }
    model = gedi(method=method, **short, **{"device.precision": "bf16-mixed"})
    assert model.fit(SETS[0]).stopped_ != "diverged"
    assert (model.predict(SETS[0]) == model.labels_).all()


@pytest.mark.parametrize(
    ("method", "options"),
    [
        ("swav", {}),
        ("dino", {"dino.momentum": 0.9}),
        ("deepcluster", {"deepcluster.period": 15}),
        ("ebclr", {"sampler.steps": 2}),
    ],
)
def test_a_crash_and_a_resume_end_in_the_same_weights(
    method: str, options: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small = {
        "method": method,
        **options,
        "network.hidden": (16,),
        "n_init": 2,
        "optimizer.batch_size": 50,
        "max_iter": 60,
        "training.check_every": 10,
        "training.checkpoint_every": 0,
        "training.tol": 0.0,
        "random_state": 1,
    }
    straight = gedi(**small, run_dir=tmp_path / "straight").fit(SETS[0])

    def fragile(setup: Setup, state: TrainState) -> dict[str, torch.Tensor]:
        if state.iteration == 37:
            raise RuntimeError("power cut")
        return step(setup, state)

    with monkeypatch.context() as patch:
        patch.setattr(loop, "step", fragile)
        with pytest.raises(RuntimeError, match="power cut"):
            gedi(**small, run_dir=tmp_path / "run").fit(SETS[0])
    iterations = []

    def counted(setup: Setup, state: TrainState) -> dict[str, torch.Tensor]:
        iterations.append(state.iteration)
        return step(setup, state)

    monkeypatch.setattr(loop, "step", counted)
    resumed = GEDI.resume(tmp_path / "run", SETS[0])
    assert iterations == list(range(31, 61))
    expected = straight.model_.state_dict()
    for name, value in resumed.model_.state_dict().items():
        assert torch.equal(value, expected[name]), name
    assert resumed.bound_gap_ == straight.bound_gap_


def test_initialisations_compete_for_their_own_result_alone() -> None:
    data = torch.stack([torch.from_numpy(x).float() for x in SETS])
    training = {"max_iter": 40, "check_every": 20, "tol": 0.0, "n_init": 3}
    settings = make_settings(training=training, weights={"gen": 0.0})
    seen: list[torch.Tensor] = []

    def watch(setup: Setup, state: TrainState) -> None:
        if state.stopped is not None:
            seen.append(look(setup, state).gap)

    # Views that equal the points leave no chance in the measurement.
    results = train(data, settings, n_results=2, view_function=lambda x: x, on_step=watch)
    (gaps,) = seen
    assert len(gaps) == 6
    for own, result in zip((gaps[:3], gaps[3:]), results, strict=True):
        assert result.diagnosis.gap == pytest.approx(float(own.min()), rel=1e-5)
    assert float(gaps[:3].min()) != pytest.approx(float(gaps[3:].min()), rel=1e-3)


@pytest.mark.parametrize("method", ["no-gen", "no-inv", "swav", "barlow", "dino", "ebclr"])
def test_results_that_remain_go_on_as_if_none_had_left(method: str) -> None:
    """No chance is left, so that those who stay must not notice: optimiser, teacher."""
    data = torch.stack([torch.from_numpy(x).float() for x in (*SETS, SETS[0][::-1].copy())])
    settings = make_settings(
        method=method,
        prior="auto",
        weights={"gen": 0.0},
        ebclr={"generative": 0.0},
        views={"kind": "noise", "noise": 0.0},
        training={"max_iter": 100, "tol": 1e-9, "n_init": 2},
    )
    setup, full = begun(data, settings, n_results=3)
    steps(setup, full, 12)
    setup, whole = begun(data, settings, n_results=3)
    steps(setup, whole, 6)
    narrowed = whole.select(setup, [0, 2])
    steps(setup, narrowed, 6)
    assert narrowed.results == [0, 2]
    assert [narrowed.contenders(k) for k in (0, 2)] == [[0, 1], [2, 3]]
    gaps, expected = look(setup, narrowed).gap, look(setup, full).gap[[0, 1, 4, 5]]
    torch.testing.assert_close(gaps, expected, rtol=1e-4, atol=1e-5)
    state = narrowed.method.judged(narrowed.model).state_dict()
    others = full.method.judged(full.model).select([0, 1, 4, 5]).state_dict()
    for name, value in state.items():
        torch.testing.assert_close(value, others[name], rtol=1e-4, atol=1e-5)


def test_results_end_their_training_when_they_are_certified() -> None:
    """The first set is two far blobs, the second a single point: there is nothing to find."""
    generator = np.random.default_rng(0)
    blobs = np.repeat([[-3.0, 0.0], [3.0, 0.0]], 60, axis=0) + 0.1 * generator.normal(size=(120, 2))
    settings = make_settings(
        method="no-gen",
        scaling="none",
        views={"kind": "noise", "noise": 0.05},
        training={"max_iter": 400, "check_every": 20, "tol": 0.01},
    )
    members: list[int] = []

    def watch(setup: Setup, state: TrainState) -> None:
        members.append(state.model.n_members)

    data = torch.from_numpy(np.stack([blobs, 1e-4 * generator.normal(size=(120, 2))])).float()
    first, second = train(data, settings, n_results=2, on_step=watch)
    assert (first.stopped, second.stopped) == ("certified", "budget")
    assert members[0] == 2 and members[-1] == 1 and len(members) == 400
    assert first.diagnosis.gap < 0.01 < second.diagnosis.gap


def test_a_recovery_after_some_have_left_keeps_the_factors_of_those_who_stay() -> None:
    x = torch.from_numpy(SETS[0]).float()
    settings = make_settings(density={"iterations": 0}, training={"max_iter": 9, "tol": 1e-9})
    factors = {"inv": torch.tensor([1.0, 2.0, 3.0])}
    setup, state = begun(x[None], settings, n_results=3, factors=factors)
    steps(setup, state, 1)
    state = state.select(setup, [0, 2])
    state = state.recover(setup, state.copy())
    assert state.results == [0, 2] and isinstance(state.method, gedi_family.GEDI)
    assert state.method.factors["inv"].tolist() == [1.0, 3.0]
    assert steps(setup, state, 1)["gen"].shape == (2,)


@pytest.mark.parametrize("method", ["gedi", "no-gen", "no-inv", "no-unif", "jem"])
def test_a_gap_ends_the_search_only_where_both_its_terms_are_trained(method: str) -> None:
    """With this tolerance every state would do."""
    training = {"max_iter": 60, "check_every": 20, "tol": 99}
    settings = make_settings(method=method, training=training)
    data = torch.stack([torch.from_numpy(x).float() for x in SETS])
    results = train(data, settings, n_results=2)
    whole = {"gedi": 20 + 10, "no-gen": 20, "no-inv": 60 + 10, "no-unif": 60 + 10, "jem": 60}
    assert {result.iterations for result in results} == {whole[method]}


def test_points_of_a_sweep_without_one_of_the_terms_are_trained_to_the_end() -> None:
    settings = make_settings(
        method="no-gen", training={"max_iter": 60, "check_every": 20, "tol": 99}
    )
    factors = {"inv": torch.tensor([1.0, 0.0, 1.0]), "prior": torch.tensor([1.0, 1.0, 0.0])}
    x = torch.from_numpy(SETS[0]).float()
    seen: list[TrainState] = []
    watch = {"on_step": lambda _, state: seen.append(state)}
    train(x[None], settings, n_results=3, factors=factors, **watch)
    assert seen[-1].results == [1, 2] and seen[-1].iteration == 60
