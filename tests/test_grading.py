"""`fit(classes=...)` and `grade`: labels of some rows, and labels made elsewhere."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.cluster import KMeans
from sklearn.datasets import make_blobs, make_moons
from sklearn.metrics import roc_auc_score

from gedilearn import GEDI, grade
from gedilearn.errors import InputError
from helpers import gedi

MOONS, Y = make_moons(400, noise=0.05, random_state=0)
BLOBS, K = make_blobs(400, centers=[[0, 0], [8, 0], [0, 8], [8, 8]], random_state=0)
NAMES = np.array(["gold", "iron", "lead", "zinc"], object)


def few(y: np.ndarray, each: int = 3) -> np.ndarray:
    known = np.full(len(y), -1)
    for k in set(y.tolist()):
        known[np.flatnonzero(y == k)[:each]] = k
    return known


# --- classes --------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def named() -> GEDI:
    known = np.where(few(K, 10) < 0, None, NAMES[K])
    known[1] = "gold" if K[1] else "iron"  # wrong
    return GEDI(random_state=0, w_gen=0).fit(BLOBS, classes=known)


def test_clusters_are_the_classes_and_a_wrong_label_is_disputed(named):
    assert named.n_clusters_ == 4 and named.names_ == NAMES.tolist()
    assert (named.labels_ == K).all() and (named.predict(BLOBS) == K).all()
    assert named.disputed_.tolist() == [1]
    assert named.verdict_.figures["labels disputed"] == "1 of 40"
    assert [row["name"] for row in named.summary()["clusters"]] == named.names_


def test_names_and_disputed_rows_are_in_the_file(named, tmp_path):
    named.save(tmp_path / "model.safetensors")
    model = GEDI.load(tmp_path / "model.safetensors")
    assert model.names_ == named.names_ and model.disputed_.tolist() == [1]
    assert model.summary() == named.summary()


def test_known_classes_leave_a_fit_without_them_alone():
    one, other = (GEDI(2, random_state=0, w_gen=0, max_iter=30) for _ in range(2))
    assert one.fit(MOONS).names_ == ["cluster 0", "cluster 1"] and not len(one.disputed_)
    assert (one.labels_ == clone(other).fit(MOONS, Y).labels_).all()


def test_the_term_of_labelled_rows_moves_a_network_without_a_start():
    """From a random start, by noise views: the classes have their own numbers by the term alone."""
    how = {"training.start": "random", "views.kind": "noise", "training.max_iter": 300}
    for swapped in (Y, 1 - Y):
        model = gedi(random_state=0, w_gen=0, **how, **{"weights.classes": 5.0})
        assert (model.fit(MOONS, classes=swapped).labels_ == swapped).mean() > 0.8


def test_images_learn_known_classes():
    rng = np.random.default_rng(0)
    images, y = rng.random((120, 1, 8, 8)).astype(np.float32), np.arange(120) % 2
    images[:, 0, :4] += y[:, None, None]
    model = GEDI(random_state=0, w_gen=0, max_iter=60).fit(images, classes=few(y, 20))
    assert (model.labels_ == y).mean() > 0.9


def test_a_run_with_known_classes_goes_on_only_with_them(tmp_path):
    known = few(Y)
    model = GEDI(random_state=0, w_gen=0, run_dir=tmp_path / "run").fit(MOONS, classes=known)
    with pytest.raises(InputError, match="give the same classes again"):
        GEDI.resume(tmp_path / "run", MOONS)
    with pytest.raises(InputError, match="other labels"):
        GEDI.resume(tmp_path / "run", MOONS, classes=np.roll(known, 1))
    again = GEDI.resume(tmp_path / "run", MOONS, classes=known)
    assert (again.labels_ == model.labels_).all() and again.names_ == model.names_


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"n_clusters": "auto"}, "leave it out, or give a number"),
        ({"n_clusters": 2}, "less than the 4 known classes"),
        ({"method": "swav"}, "method='swav' does not learn known classes"),
    ],
)
def test_what_known_classes_cannot_go_with_is_one_line(arguments, says):
    with pytest.raises(InputError, match=says):
        GEDI(**arguments).fit(BLOBS, classes=K)


def test_one_known_class_leaves_room_for_other_clusters():
    y = (K == 2).astype(int)
    known = np.where((y == 1) & (np.arange(400) < 100), "lead", None)
    model = GEDI(4, random_state=0, w_gen=0).fit(BLOBS, classes=known)
    assert model.names_ == ["lead", "cluster 1", "cluster 2", "cluster 3"]
    assert ((model.labels_ == 0) == (K == 2)).all() and len(set(model.labels_)) == 4


# --- grade ----------------------------------------------------------------------------------------


def test_right_labels_are_certified_and_others_are_not():
    right = grade(MOONS, Y, random_state=0)
    assert right.grade == "certified" and right.trust > 0.95 and not len(right.disputed_)
    halves = KMeans(2, n_init=3, random_state=0).fit_predict(MOONS)
    wrong = grade(MOONS, halves, random_state=0)
    assert wrong.grade in ("doubtful", "no structure found") and wrong.trust < right.trust - 0.2


def test_shuffled_rows_lose_trust_and_are_named():
    rng = np.random.default_rng(0)
    moved = rng.random(400) < 0.2
    labels = NAMES[np.where(moved, (K + rng.integers(1, 4, 400)) % 4, K)]
    labels[:5] = None
    found = grade(pd.DataFrame(BLOBS, columns=["a", "b"]), labels, random_state=0)
    assert (
        np.isnan(found.trust_[:5]).all() and found.suggested_[:5].tolist() == NAMES[K[:5]].tolist()
    )
    assert roc_auc_score(moved[5:], -found.trust_[5:]) > 0.95
    assert found.disputed_.tolist() == (np.flatnonzero(moved[5:]) + 5).tolist()
    assert found.verdict.reason.code == "labels changed"
    assert [row["name"] for row in found.clusters] == NAMES.tolist()


def test_the_evidence_is_about_the_labels_that_are_given():
    """A network that has mended the labels does not speak for them."""
    moved = np.random.default_rng(1).random(400) < 0.1
    found = grade(BLOBS, np.where(moved, (K + 1) % 4, K), random_state=0)
    model, evidence = found.model, found.model.diagnosis_.evidence
    assert (model.predict(BLOBS) == K).all() and model.bound_gap_ < 0.01
    assert (model.labels_ != K).sum() == moved.sum()
    assert evidence.labels_kept == pytest.approx(1 - moved.mean()) and evidence.groups() < 4


@pytest.mark.parametrize(
    ("labels", "says"),
    [(np.zeros(400), "give two clusters or more"), (Y[:9], "for 400 rows")],
)
def test_labels_that_cannot_be_graded_are_one_line(labels, says):
    with pytest.raises(InputError, match=says):
        grade(MOONS, labels)


def test_images_are_refused():
    with pytest.raises(InputError, match="turns images into vectors"):
        grade(np.random.default_rng(0).random((40, 1, 8, 8)), np.arange(40) % 2)
