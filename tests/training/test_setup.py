from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.datasets import make_blobs, make_moons

from gedilearn.settings import STARTED, resolve
from gedilearn.training.environment import launch
from gedilearn.training.setup import Setup, density_stage, first_stage
from helpers import NO_BASE, gedi

X, _ = make_moons(400, noise=0.05, random_state=0)
SMALL = {
    "optimizer.batch_size": 50,
    "sampler.buffer": 100,
    "training.check_every": 20,
    "random_state": 1,
    "max_iter": 60,
}


def rows(run: Path) -> list[dict]:
    return [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]


def test_gen_waits_for_the_clusters_and_then_trains_the_kept_member_alone(tmp_path: Path) -> None:
    gedi(**SMALL, n_init=3, run_dir=tmp_path / "run", **NO_BASE, **{"density.iterations": 40}).fit(
        X
    )
    found = rows(tmp_path / "run")
    first = [row for row in found if row["stage"] == "clusters"]
    second = found[len(first) :]
    assert first and second and {row["stage"] for row in second} == {"density"}
    assert all("gen" not in row and len(row["bound_gap"]) == 3 for row in first)
    assert all("gen" in row and len(row["bound_gap"]) == 1 for row in second)


def test_without_a_density_stage_all_terms_train_together(tmp_path: Path) -> None:
    gedi(**SMALL, run_dir=tmp_path / "run", **{"density.iterations": 0}).fit(X)
    assert all({"gen", "inv", "prior"} <= row.keys() for row in rows(tmp_path / "run"))


def test_the_learning_rate_of_the_density_falls_to_zero() -> None:
    values = {"base": "none", "iterations": 10, "learning_rate": 0.5}
    settings = resolve({"density": values}, X.shape)
    stage = density_stage(settings, begin=100)
    assert stage is not None
    rates = [stage.rate(i) for i in range(101, 111)]
    assert rates == pytest.approx([0.5 * (1 - k / 10) for k in range(10)])
    assert stage.falls == "linear" and first_stage(settings).falls == "cosine"


def test_a_certificate_is_not_given_up_for_the_density() -> None:
    # INV and PRIOR without weight cannot hold the clusters while GEN trains.
    careless = {"density.inv": 0.0, "density.prior": 0.0, "density.learning_rate": 0.05, **NO_BASE}
    model = gedi(2, random_state=0, **careless, **{"density.iterations": 100}).fit(X)
    assert model.certified_ and model.stopped_ == "certified"


def test_the_learning_rate_warms_up_and_falls_along_a_cosine() -> None:
    optimizer = {"learning_rate": 0.5, "schedule": "cosine", "warmup": 3}
    stage = first_stage(resolve({"optimizer": optimizer, "training": {"max_iter": 100}}, X.shape))
    assert [stage.rate(i) / 0.5 for i in (1, 2)] == pytest.approx([0.25, 0.5], rel=1e-3)
    assert stage.rate(51) == pytest.approx(0.25)
    assert 0 < stage.rate(100) < 0.001


EASY = make_blobs(120, centers=[[0, 0], [9, 9]], cluster_std=0.3, random_state=0)[0]


@pytest.mark.parametrize(
    "method, asked, stops",
    [
        ("gedi", None, True),
        ("no-gen", False, False),
        ("swav", None, False),
        ("swav", True, True),
    ],
)
def test_baselines_train_to_the_end_unless_told_to_stop_at_the_certificate(
    method: str, asked: bool | None, stops: bool
) -> None:
    settings = {"training.check_every": 20, "training.early_stopping": asked}
    model = gedi(method=method, max_iter=300, w_gen=0, random_state=0, **settings).fit(EASY)
    assert model.settings_.training.early_stopping is stops
    assert (model.n_iter_ < 300) == stops
    # In all cases the bound is reached: what differs is when training ends.
    assert model.bound_gap_ < model.settings_.training.tol


@pytest.mark.parametrize(
    ("values", "shape", "start"),
    [
        ({}, (50, 2), "chosen"),
        ({"method": "no-gen"}, (50, 2), "chosen"),
        ({"method": "swav"}, (50, 2), "random"),
        ({"method": "no-inv"}, (50, 2), "random"),
        ({"n_clusters": 1}, (50, 2), "random"),
        ({"views": {"kind": "noise"}}, (50, 2), "random"),
        ({"views": {"kind": "noise"}, "training": {"start": "chosen"}}, (50, 2), "chosen"),
        ({}, (50, 1, 8, 8), "random"),
    ],
)
def test_training_begins_with_clusters_where_walks_and_the_bound_are_trained(
    values: dict, shape: tuple[int, ...], start: str
) -> None:
    settings = resolve(values, shape)
    assert settings.training.start == start
    short = settings.optimizer.learning_rate == STARTED["optimizer.learning_rate"]
    walks = settings.views.kind == "walk" and (start == "chosen" or settings.n_clusters == 1)
    assert short == walks
    asked = {"training": {"max_iter": 77} | values.get("training", {})}
    assert resolve(values | asked, shape).training.max_iter == 77


def test_all_members_have_the_proportions_of_the_initial_clustering() -> None:
    data = torch.from_numpy(make_blobs([80, 20], centers=[[0, 0], [9, 9]], random_state=0)[0])
    settings = resolve({"training": {"n_init": 2}}, tuple(data.shape))
    setup = Setup.make(data, settings, launch(settings.device))
    assert setup.start_labels is not None and sorted(setup.start_labels.bincount()) == [20, 80]
    shares = setup.prior(first_stage(settings)).final(torch.zeros(2, 10, 2))
    assert shares is not None
    assert shares.amax(1).tolist() == pytest.approx([0.8, 0.8])
    assert setup.aim == settings.training.tol / 2
    noise = resolve({"views": {"kind": "noise"}}, tuple(data.shape))
    assert Setup.make(data, noise, launch(noise.device)).aim == noise.training.tol


def test_large_images_are_averaged_down_before_their_views_and_given_whole_to_the_density() -> None:
    x = torch.rand(12, 3, 64, 64) * 2 - 1
    settings = resolve({"device": {"accelerator": "cpu"}}, tuple(x.shape))
    setup = Setup.make(x, settings, launch(settings.device))
    assert setup.data.shape == (12, 3, 32, 32)
    torch.testing.assert_close(setup.data[:, :, 0, 0], x[:, :, :2, :2].mean((2, 3)))
    assert setup.points.shape == x.shape and setup.box.low.shape == x.shape[1:]
    for values in (
        {"density": {"base": "none"}},  # samples that have the full size
        {"network": {"encoder": "resnet8"}},
        {"views": {"kind": "noise"}},
        {"method": "swav"},
    ):
        other = resolve(values | {"device": {"accelerator": "cpu"}}, tuple(x.shape))
        assert Setup.make(x, other, launch(other.device)).data.shape == x.shape


def test_a_model_of_large_images_takes_and_gives_them_whole() -> None:
    x = np.random.default_rng(0).integers(0, 256, (16, 3, 56, 50), dtype=np.uint8)
    model = gedi(2, max_iter=2, random_state=0, **{"density.iterations": 1}).fit(x)
    assert model.predict_proba(x).shape == (16, 2) and model.score_samples(x).shape == (16,)
    assert model.sample(2, steps=1)[0].shape == (2, 3, 56, 50)
    np.testing.assert_array_equal(model.predict(x), model.labels_)


def test_training_that_began_with_clusters_ends_when_the_gap_stays_as_it_is() -> None:
    noise = np.random.default_rng(0).normal(size=(120, 2))
    short = {"training.max_iter": 120, "training.check_every": 10, "training.patience": 20}
    stopped = gedi(2, random_state=0, w_gen=0.0, **short).fit(noise)
    assert 40 <= stopped.n_iter_ < 120 and stopped.stopped_ == "budget"
    patient = gedi(2, random_state=0, w_gen=0.0, **short | {"training.patience": 200}).fit(noise)
    assert patient.n_iter_ == 120
    random = gedi(2, random_state=0, w_gen=0.0, **short | {"training.start": "random"}).fit(noise)
    assert random.n_iter_ == 120
