"""Clusters compared with classes: scores of whole sets and of batches."""

from __future__ import annotations

import runpy
from itertools import permutations
from pathlib import Path

import numpy as np
import pytest
from sklearn import metrics

from gedilearn.errors import InputError
from gedilearn.evaluation.clustering import batchwise_nmi, clustering_scores
from gedilearn.starts.choose import best_assignment


def best_accuracy(truth: np.ndarray, labels: np.ndarray) -> float:
    """Every way to give each cluster a class of its own, or none."""
    clusters, classes = np.unique(labels), list(np.unique(truth))
    spare = [f"none {i}" for i in range(len(clusters))]
    ways = permutations([*map(str, classes), *spare], len(clusters))
    return max(
        float(np.mean([dict(zip(clusters, way, strict=True))[c] == str(t)
                       for c, t in zip(labels, truth, strict=True)]))
        for way in ways
    )  # fmt: skip


@pytest.mark.parametrize(("n_classes", "n_clusters"), [(3, 3), (2, 4), (4, 2)])
def test_accuracy_is_that_of_the_best_assignment_by_brute_force(n_classes, n_clusters):
    generator = np.random.default_rng(n_clusters)
    truth = generator.integers(n_classes, size=40)
    labels = (truth + (generator.random(40) < 0.5)) % n_clusters
    scores = clustering_scores(truth, labels)
    assert scores["accuracy"] == pytest.approx(best_accuracy(truth, labels))
    assigned = best_assignment(labels, truth, n_clusters)
    assert len(set(assigned)) == n_clusters
    assert np.mean(assigned[labels] == truth) == pytest.approx(scores["accuracy"])
    assert scores["clusters_used"] == len(np.unique(labels)) and scores["n"] == 40
    assert scores["nmi"] == metrics.normalized_mutual_info_score(truth, labels)
    assert scores["ami"] == pytest.approx(metrics.adjusted_mutual_info_score(truth, labels))
    assert scores["ari"] == metrics.adjusted_rand_score(truth, labels)


def test_a_renamed_perfect_clustering_scores_one_everywhere():
    truth = np.array(["cat", "dog", "eel"] * 10)
    scores = clustering_scores(truth, np.array([7, 2, 5] * 10))
    assert [scores[name] for name in ("nmi", "ami", "ari", "accuracy")] == pytest.approx([1.0] * 4)


def test_the_batchwise_score_is_the_mean_over_full_batches():
    generator = np.random.default_rng(0)
    truth, labels = generator.integers(5, size=150), generator.integers(5, size=150)
    labels[:64] = truth[:64]
    expected = (1 + metrics.normalized_mutual_info_score(truth[64:128], labels[64:128])) / 2
    assert batchwise_nmi(truth, labels).nmi == pytest.approx(expected)
    changed = labels.copy()
    changed[128:] = 0  # the last 22 are in no full batch
    assert batchwise_nmi(truth, changed).nmi == pytest.approx(expected)


def test_chance_is_the_score_of_random_labels_with_the_same_sizes():
    generator = np.random.default_rng(0)
    truth = generator.integers(10, size=6_400)
    labels = np.where(truth < 8, 0, generator.integers(20, size=6_400))
    score = batchwise_nmi(truth, labels)
    again = np.random.default_rng(9).permutation(labels).reshape(-1, 64)
    pairs = zip(truth.reshape(-1, 64), again, strict=True)
    by_hand = np.mean([metrics.normalized_mutual_info_score(t, r) for t, r in pairs])
    assert score.chance == pytest.approx(by_hand, abs=0.01)
    assert score.nmi > score.chance + 0.1
    equal_sizes = batchwise_nmi(truth, np.arange(6_400) % 20).chance
    assert equal_sizes > score.chance + 0.05


def test_chance_is_the_same_for_the_same_seed_only():
    generator = np.random.default_rng(0)
    truth, labels = generator.integers(5, size=300), generator.integers(5, size=300)
    first, second = batchwise_nmi(truth, labels), batchwise_nmi(truth, labels, random_state=1)
    assert first == batchwise_nmi(truth, labels)
    assert first.nmi == second.nmi and first.chance != second.chance


def test_the_page_on_metrics_shows_the_table_that_the_command_prints(capsys):
    docs = Path(__file__).parents[2] / "docs"
    if not docs.exists():
        pytest.skip("the documentation is not part of this installation")
    runpy.run_path(str(docs / "chance_table.py"), run_name="__main__")
    table = capsys.readouterr().out
    assert len(table.splitlines()) == 5
    assert table in (docs / "metrics.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("size", [1, 31])
def test_a_batch_that_cannot_be_filled_is_refused(size):
    with pytest.raises(InputError, match=f"batch_size={size} for 30 labels: give 2 to 30"):
        batchwise_nmi(np.arange(30), np.arange(30), batch_size=size)
