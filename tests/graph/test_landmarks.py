"""Graphs whose nodes are a sample of very many points, and the nearest node of each point."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from sklearn.datasets import make_blobs
from sklearn.metrics import adjusted_mutual_info_score, pairwise_distances

from gedilearn import GEDI
from gedilearn.graph import walks as landmarks
from gedilearn.graph.walks import draw, find_nodes, nearest_landmark, node_tables, walk_tables

Array = NDArray[Any]


def points(n: int, d: int = 3) -> tuple[Array, Array]:
    x, label = make_blobs(n, d, centers=4, cluster_std=0.5, random_state=3)
    return (x - x.mean(axis=0)) / x.std(axis=0), label


@pytest.fixture
def few_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(landmarks, "MOST_NODES", 200)
    monkeypatch.setattr(landmarks, "NODES_EACH", 20)


def test_up_to_the_limit_every_point_is_a_node() -> None:
    x, _ = points(300)
    nodes = find_nodes(x, 4, 10)
    tables = node_tables(nodes, 4, n_neighbors=10)
    expected = walk_tables(x, 4, n_neighbors=10)
    assert nodes.points is x and tables.node is None and tables.place is None
    torch.testing.assert_close(tables.ends, expected.ends, rtol=0, atol=0)


def test_walks_begin_at_the_nearest_node_and_end_at_points(few_nodes: None) -> None:
    x, label = points(1000)
    nodes = find_nodes(x, 4, 10)
    tables = node_tables(nodes, 4, n_neighbors=10)
    assert nodes.points.shape == (200, 3) and tables.ends.shape[1] == 200
    assert tables.node is not None and tables.place is not None
    home, place = tables.node.numpy(), tables.place.numpy()
    np.testing.assert_array_equal(x[place], nodes.points)
    np.testing.assert_array_equal(home, pairwise_distances(x, nodes.points).argmin(1))
    np.testing.assert_array_equal(home[place], np.arange(200))
    index = torch.arange(1000)
    end = draw(tables, index, tables.longest, torch.Generator().manual_seed(0)).numpy()
    assert set(end) <= set(place.tolist())
    np.testing.assert_array_equal(label[end], label)  # the four are apart
    assert tables.radius.shape == (1000,)
    moved = tables.to(torch.device("meta"))
    assert moved.node is not None and moved.node.is_meta


@pytest.mark.parametrize("d", [3, 16])
@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_the_search_among_very_many_is_nearly_always_exact(
    d: int, kind: type, monkeypatch: pytest.MonkeyPatch
) -> None:
    x, _ = points(3000, d)
    x = x.astype(kind)
    true = pairwise_distances(x, x[:400])
    monkeypatch.setattr(landmarks, "ALL_PAIRS", 1)
    monkeypatch.setattr("gedilearn.data.arrays._CHUNK_VALUES", 1000 * d)
    found = nearest_landmark(x[:400], x)
    assert (found == true.argmin(1)).mean() > (0.9 if d > 10 else 0.999)
    assert np.median(true[np.arange(3000), found] / np.maximum(true.min(1), 1e-9)) < 1.001


def test_a_fit_of_many_points_finds_what_one_of_few_finds(few_nodes: None) -> None:
    x, label = points(1500)
    model = GEDI(4, w_gen=0, random_state=0).fit(x)
    assert adjusted_mutual_info_score(label, model.labels_) > 0.99
    assert model.trust_.shape == (1500,) and model.bound_gap_ < 0.05
    assert model.diagnose(x).gap < 0.05
