"""Trees of clusters: groups of groups are found, cuts are nested, and files keep them."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from scipy.cluster.hierarchy import fcluster, is_valid_linkage
from sklearn.exceptions import NotFittedError
from sklearn.metrics import adjusted_mutual_info_score as ami

from gedilearn import GEDI
from gedilearn.errors import InputError
from gedilearn.io import read_tensors, write_tensors
from gedilearn.verdict.hierarchy import check, groups_at, hierarchy, levels, partners


def nested(d: int, spread: float, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Four groups of three clusters each; rows and the numbers of their clusters."""
    rng = np.random.default_rng(seed)
    if d == 2:
        turn = rng.uniform(0, 2 * np.pi, (4, 1)) + 2 * np.pi / 3 * np.arange(3)
        inner = spread * np.stack([np.cos(turn), np.sin(turn)], axis=-1)
        outer = 5 * spread * np.array([[0, 0], [1, 0], [0, 1], [1, 1]])
    else:
        inner, outer = rng.normal(size=(4, 3, d)), 2 * rng.normal(size=(4, d))
        inner, outer = inner * spread / d**0.5, outer * spread / d**0.5
    y = np.repeat(np.arange(12), 60)
    means = (outer[:, None] + inner).reshape(12, d)
    return means[y] + rng.normal(size=(len(y), d)), y


@pytest.mark.parametrize(("d", "spread", "least"), [(2, 3.0, 0.99), (2, 2.0, 0.9), (64, 4.0, 0.99)])
def test_groups_of_clusters_are_found_also_where_clusters_overlap(d, spread, least):
    x, y = nested(d, spread)
    model = GEDI(12, w_gen=0, random_state=0).fit(x)
    assert is_valid_linkage(model.hierarchy_) and len(model.hierarchy_) == 11
    assert ami(y // 3, model.labels_at(4)) >= least
    assert levels(model.hierarchy_) == [4, 12]
    assert np.array_equal(model.labels_at(4, x), model.labels_at(4))
    for k in (1, 2, 5, 12):
        labels = model.labels_at(k)
        sizes = np.bincount(labels)
        assert len(sizes) == k and (np.diff(sizes) <= 0).all()
        # Each group is a part of a group of fewer, and scipy's cut is the same.
        if k > 1:
            assert (np.histogram2d(labels, model.labels_at(k - 1), 12)[0] > 0).sum() == k
        cut = fcluster(model.hierarchy_, k, "maxclust")[model.labels_]
        assert ami(cut, labels) == pytest.approx(1)
    for k in (0, 13, 2.5):
        with pytest.raises(InputError, match=rf"k={k}: give 1 to 12"):
            model.labels_at(k)
    for call in (lambda: GEDI(12).labels_at(2), lambda: GEDI(12).explain(x)):
        with pytest.raises(NotFittedError):
            call()


def test_what_the_network_confuses_merges_before_what_is_as_far():
    """Four means on a line at equal distances; rows of the middle pair are told apart by chance."""
    labels = np.repeat(np.arange(4), 50)
    x, p = labels[:, None] + np.zeros((200, 1)), np.eye(4)[labels]
    p[50:150, 1:3] = 0.5
    assert set(hierarchy(x, labels, p)[0, :3]) == {1.0, 2.0, 0.0}
    p = np.eye(4)[labels]
    # Without overlap it is the distance of the means.
    assert hierarchy(x, labels, p)[0, 2] == pytest.approx(1)


def test_a_cluster_without_rows_joins_the_largest_first():
    rng = np.random.default_rng(0)
    labels = np.repeat([0, 2, 3], [20, 50, 30])
    merges = hierarchy(rng.normal(size=(100, 2)) + labels[:, None], labels, np.eye(4)[labels])
    assert merges[0].tolist() == [1, 2, 0, 2]
    sizes = np.bincount(labels, minlength=4)
    assert groups_at(merges, 3, sizes).tolist() == [2, 0, 0, 1]
    # A network that is not finite has a tree too, of the means.
    assert is_valid_linkage(hierarchy(rng.normal(size=(100, 2)), labels, np.full((100, 4), np.nan)))


def test_partners_are_the_other_side_of_a_cluster_s_first_merge():
    merges = np.array([[1, 3, 1, 2], [0, 4, 2, 3], [2, 5, 3, 4]], float)
    assert partners(merges) == [[1, 3], [3], [0, 1, 3], [1]]
    assert partners(np.zeros((0, 4))) == [[]]


@pytest.mark.parametrize("k", [1, 2, 40, 300])
def test_levels_go_from_few_groups_to_all_clusters(k):
    x = np.random.default_rng(0).normal(size=(k, 3))
    merges = hierarchy(x, np.arange(k), np.eye(k))
    found = levels(merges)
    assert found[-1] == k and found[0] <= 6 and found == sorted(set(found))
    assert all(2 <= b / a <= 7 for a, b in pairwise(found))


def test_a_model_file_keeps_the_tree_and_a_damaged_one_is_refused(tmp_path):
    x, _ = nested(2, 3.0)
    model = GEDI(3, w_gen=0, max_iter=20, random_state=0).fit(x)
    model.save(tmp_path / "model.safetensors")
    read = GEDI.load(tmp_path / "model.safetensors")
    assert np.array_equal(read.hierarchy_, model.hierarchy_)
    assert np.array_equal(read.labels_at(2), model.labels_at(2))
    one = GEDI(1, max_iter=20, random_state=0).fit(x)
    assert one.hierarchy_.shape == (0, 4) and not one.labels_at(1).any()
    tensors, header = read_tensors(tmp_path / "model.safetensors")
    for spoil in (lambda t: t[:1], lambda t: t * 0, lambda t: t + np.nan, lambda t: -t):
        damaged = tensors | {"hierarchy": spoil(tensors["hierarchy"])}
        write_tensors(tmp_path / "other.safetensors", damaged, header)
        with pytest.raises(InputError, match=r"other\.safetensors.*damaged"):
            GEDI.load(tmp_path / "other.safetensors")
    with pytest.raises(ValueError):
        check(np.zeros((1, 4)), 3)
