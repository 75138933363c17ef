"""The number of clusters by itself: what starts of every number say, and the fit that follows."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from pydantic import ValidationError
from sklearn.datasets import load_iris, make_blobs, make_moons
from sklearn.metrics.cluster import contingency_matrix

from gedilearn import GEDI, estimator
from gedilearn.data.arrays import Scaling
from gedilearn.errors import InputError
from gedilearn.graph.neighbours import distance_features
from gedilearn.report.page import write_report
from gedilearn.settings import resolve
from gedilearn.starts.choose import choose_start
from gedilearn.training import setup
from gedilearn.training.environment import launch
from gedilearn.training.run import Config
from gedilearn.training.setup import Setup
from gedilearn.verdict.dips import separation
from gedilearn.verdict.number import (
    Chosen,
    Number,
    NumberChoice,
    best_of,
    choose_number,
    compare_halves,
    of_vectors,
)
from helpers import embeddings

CORNERS = np.array([[0.0, 0.0], [6.0, 0.0], [0.0, 6.0], [6.0, 6.0]])
BLOBS = make_blobs(240, centers=CORNERS, cluster_std=0.5, random_state=0)[0]


@pytest.fixture(scope="module")
def fitted() -> GEDI:
    return GEDI("auto", random_state=0, w_gen=0.0).fit(BLOBS)


def test_separated_blobs_are_counted_and_the_evidence_is_that_of_a_fit_with_the_number(
    fitted: GEDI,
) -> None:
    given = GEDI(4, random_state=0, w_gen=0.0).fit(BLOBS)
    assert fitted.n_clusters_ == 4 and fitted.grade_ == given.grade_ == "certified"
    np.testing.assert_array_equal(fitted.labels_, given.labels_)
    assert fitted.choice_ is not None
    number = fitted.choice_.numbers[2]
    assert given.diagnosis_.evidence is not None
    assert number.stability == given.stability_
    assert number.groups == given.diagnosis_.evidence.groups() == 4
    assert number.reason == fitted.verdict_.reason.code == "separated"
    assert fitted.choice_.tried == 9 == fitted.diagnosis_.tries


def test_curves_are_counted_and_a_file_keeps_the_choice(tmp_path: Path) -> None:
    x = make_moons(300, noise=0.05, random_state=1)[0]
    asked = {"training.max_clusters": 4}
    model = GEDI("auto", random_state=0, w_gen=0.0, run_dir=tmp_path / "run", settings=asked).fit(x)
    assert model.n_clusters_ == 2 and model.choice_ is not None
    assert [n.n_clusters for n in model.choice_.numbers] == [2, 3, 4]
    loaded = GEDI.load(tmp_path / "run" / "model.safetensors")
    assert loaded.choice_ == model.choice_ and loaded.verdict_ == model.verdict_
    assert GEDI.resume(tmp_path / "run", x).choice_ == model.choice_
    summary = tmp_path / "run" / "summary.json"
    told = json.loads(summary.read_text())
    told["choice"]["n_clusters"] = 9
    summary.write_text(json.dumps(told))
    with pytest.raises(InputError, match=r"summary\.json"):
        write_report(tmp_path / "run")


def test_one_cloud_gets_no_number_with_confidence() -> None:
    for seed in range(3):
        x = np.random.default_rng(seed).normal(size=(300, 3))
        model = GEDI("auto", random_state=seed, w_gen=0.0).fit(x)
        assert model.grade_ in ("doubtful", "no structure found")


def test_where_no_number_stands_out_the_grade_is_doubtful_at_most(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    told = GEDI("auto", random_state=0, w_gen=0.0).fit(BLOBS).choice_
    assert told is not None
    silent = tuple(replace(number, reason=None) for number in told.numbers)
    monkeypatch.setattr(
        "gedilearn.estimator.choose_number", lambda *_: Chosen(NumberChoice(4, silent))
    )
    model = GEDI("auto", random_state=0, w_gen=0.0).fit(BLOBS)
    assert model.grade_ == "doubtful" and model.bound_gap_ < model.settings_.training.tol
    assert model.verdict_.reason.code == "no number"


def test_images_are_refused_and_few_points_try_fewer_numbers() -> None:
    with pytest.raises(InputError, match="need a number of clusters, for example n_clusters=10"):
        GEDI("auto").fit(np.zeros((20, 1, 8, 8)) + np.arange(20.0)[:, None, None, None])
    model = GEDI("auto", random_state=0, w_gen=0.0).fit(BLOBS[::12])
    assert model.choice_ is not None and model.choice_.tried == 3


def numbered(**reasons: str) -> NumberChoice:
    """Numbers 2 to 5, equally stable, with these reasons; 'both' is stable, with dips of 1 nat."""
    found = []
    for k in range(2, 6):
        why = reasons.get(f"k{k}")
        splits = ((1,) * k,) * (k - 1) * (k > 2)
        groups, why = k if why in ("separated", "both") else 1, "stable" if why == "both" else why
        found.append(Number(k, 0.5, why, groups, 0.1, "tree", splits))
    return best_of(found)


@pytest.mark.parametrize(
    ("reasons", "best"),
    [
        ({}, 5),
        ({"k2": "stable", "k4": "stable"}, 4),
        ({"k3": "separated", "k5": "stable"}, 3),  # a stable number may cut what is one
        ({"k2": "separated", "k3": "both", "k5": "stable"}, 3),
        ({"k2": "both", "k4": "stable"}, 4),  # nothing is separated beyond chance
    ],
)
def test_the_largest_separated_number_takes_precedence(reasons: dict[str, str], best: int) -> None:
    assert numbered(**reasons).n_clusters == best


def test_the_words_name_the_reason_and_other_numbers() -> None:
    nothing, stable = numbered(), numbered(k2="stable", k5="stable")
    assert nothing.words == "none of 2 to 5 clusters is supported; most stable: 5"
    assert not nothing.stands_out and nothing.alternative is None
    assert stable.words.startswith("of 2 to 5 clusters, 5 is the largest number that subsamples")
    separated = numbered(k2="stable", k4="separated")
    assert separated.words == (
        "of 2 to 5 clusters, 4 is the largest number whose clusters are separated by density dips; "
        "2 is also supported"
    )
    assert separated.stands_out and separated.alternative == 2 and separated.tried == 4


def test_evidence_that_does_not_fit_the_numbers_is_refused() -> None:
    good = numbered(k3="separated")
    for numbers, k in ((good.numbers[1:], 3), (good.numbers, 6), ((), 2)):
        with pytest.raises(ValueError, match="clusters"):
            NumberChoice(k, numbers)
    with pytest.raises(ValueError, match="not the evidence for 3 clusters"):
        NumberChoice(2, (good.numbers[0], replace(good.numbers[1], splits=((1, 2),))))


def test_a_file_without_the_evidence_of_vectors_is_refused() -> None:
    numbers = [{"n_clusters": 2, "stability": 1.0, "reason": None}]
    with pytest.raises(ValidationError, match="evidence for a number of clusters is missing"):
        Config(
            **{"format": 1, "version": "0", "settings": {}, "objects": []},
            data={"shape": (9, 2), "fingerprint": "f"},
            choice={"n_clusters": 2, "numbers": numbers},
        )


def test_the_evidence_for_every_number_is_that_of_a_fit_with_it() -> None:
    x = load_iris().data
    model = GEDI("auto", random_state=0, w_gen=0.0, max_iter=60).fit(x)
    assert model.choice_ is not None
    points, same = distance_features(model.scaling_.apply(x), 0), []
    for told in model.choice_.numbers[:4]:
        k = told.n_clusters
        start = choose_start(points, k, 0)
        given = GEDI(k, random_state=0, w_gen=0.0, max_iter=60).fit(x).diagnosis_.evidence
        assert given is not None and given.method == told.method == start.method
        assert given.initial_stability == pytest.approx(told.stability) == start.stability
        apart = separation(points, start.labels, k)
        assert told.cut == pytest.approx(apart.cut.mean())
        if given.labels_kept == 1:  # the network has the start's labels, and so the same evidence
            same.append(k)
            assert told.groups == given.groups()
            assert told.cut == pytest.approx(np.mean(given.cut))
        assert sum(map(sum, told.splits)) == (len(x) if k > 2 else 0)
    assert same
    splits = np.array(model.choice_.numbers[1].splits)
    two, three = (choose_start(points, k, 0).labels for k in (2, 3))
    np.testing.assert_array_equal(splits, contingency_matrix(two, three))


def test_two_groups_of_iris_are_chosen_and_three_are_named() -> None:
    model = GEDI("auto", random_state=0, w_gen=0.0).fit(load_iris().data)
    assert model.n_clusters_ == 2 and model.choice_ is not None
    assert model.choice_.numbers[0].reason == "separated" and model.choice_.alternative == 3
    assert model.choice_.words.endswith("; 3 is nearly as stable (0.98)")


def test_proportions_say_how_many_clusters_there_are() -> None:
    given = {"random_state": 0, "w_gen": 0.0, "max_iter": 30, "prior": (0.25,) * 4}
    for n_clusters in ("auto", None):
        model = GEDI(n_clusters, **given).fit(BLOBS)
        assert model.n_clusters_ == 4 and model.choice_ is None
    with pytest.raises(InputError, match="prior has 4 entries for n_clusters=3"):
        GEDI(3, **given).fit(BLOBS)


def test_a_large_set_is_looked_at_in_part() -> None:
    rng = np.random.default_rng(0)
    x = CORNERS[rng.integers(4, size=6_000)] + 0.3 * rng.normal(size=(6_000, 2))
    assert choose_number(x.astype(np.float32), 5, 10, 0).choice.n_clusters == 4


def test_training_finds_nothing_again_that_the_choice_has_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def never(*_: object, **__: object) -> None:
        pytest.fail("found twice")

    monkeypatch.setattr(setup, "find_nodes", never)
    monkeypatch.setattr(setup, "choose_start", never)
    calls = {"resolve": 0, "Scaling": 0}

    def counted(name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def count(*arguments: Any) -> Any:
            calls[name] += 1
            return call(*arguments)

        return count

    monkeypatch.setattr(estimator, "resolve", counted("resolve", estimator.resolve))
    monkeypatch.setattr(Scaling, "of", counted("Scaling", Scaling.of))
    GEDI("auto", random_state=0, w_gen=0.0, max_iter=5).fit(BLOBS)
    assert calls == {"resolve": 1, "Scaling": 1}


@pytest.mark.parametrize(("points", "nodes"), [(5_000, 50_000), (200, 50_000), (200, 220)])
def test_a_resumed_run_finds_the_same_initial_clustering_by_itself(
    points: int, nodes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where only a sample of the points is compared, and where only some are nodes."""
    monkeypatch.setattr("gedilearn.starts.choose.MOST_POINTS", points)
    monkeypatch.setattr("gedilearn.starts.choose.MOST_EACH", 2)
    monkeypatch.setattr("gedilearn.graph.walks.MOST_NODES", nodes)
    monkeypatch.setattr("gedilearn.graph.walks.NODES_EACH", 2)
    x = BLOBS.astype(np.float32)
    chosen = choose_number(x, 5, 10, 0)
    settings = resolve({"n_clusters": 4}, x.shape)
    fabric, made = launch(settings.device), []
    for known in (chosen, Chosen(chosen.choice)):
        made.append(Setup.make(torch.from_numpy(x), settings, fabric, chosen=known))
    first, again = (one.start for one in made)
    assert first is not None and again is not None and chosen.choice.n_clusters == 4
    np.testing.assert_array_equal(first.labels, again.labels)
    np.testing.assert_array_equal(first.subsamples, again.subsamples)
    assert torch.equal(made[0].views.tables.ends, made[1].views.tables.ends)


def test_two_halves_reproduce_the_clusters_that_embeddings_have() -> None:
    x, _ = embeddings(clusters=12, n=1200)
    choice = compare_halves(Scaling.of_embeddings(x).apply(x), 60, 0)
    assert 11 <= choice.n_clusters <= 14 and choice.stands_out
    tried = [number.n_clusters for number in choice.numbers]
    assert tried == sorted(set(tried)) and tried[0] == 2 and tried[-1] == 60
    assert f"reproduce {choice.n_clusters} best" in choice.words
    assert of_vectors(choice) is choice
    noise = np.random.default_rng(0).normal(size=(1200, 96))
    found = compare_halves(Scaling.of_embeddings(noise).apply(noise), 60, 0)
    assert not found.stands_out and found.words.startswith("no number stands out")


def test_the_number_of_clusters_of_embeddings_is_looked_up_to_300(tmp_path: Path) -> None:
    x, _ = embeddings(clusters=12, n=1200)
    short = {"training.max_iter": 40, "training.n_init": 2}
    model = GEDI("auto", random_state=0, w_gen=0.0, settings=short, run_dir=tmp_path).fit(x)
    assert model.choice_.numbers[-1].n_clusters == 240  # 5 rows a cluster
    assert model.settings_.training.max_clusters == 300
    assert model.verdict_.figures["numbers compared"] == "2 to 240"
    assert write_report(tmp_path).exists()
