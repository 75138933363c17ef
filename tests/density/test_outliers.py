"""Outlier scores against a loop over kernels, and what p-values promise."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.metrics import roc_auc_score
from sklearn.neighbors import NearestNeighbors
from torch import Tensor

from gedilearn.density.density import Density
from gedilearn.density.fit import subsamples_of
from gedilearn.density.outliers import COLUMNS, NARROWEST, SIZE, Subsamples

RNG = np.random.default_rng(0)
BULK = RNG.normal(size=(400, 8)).astype(np.float32)
GROUP = (RNG.normal(size=(12, 8)) * 0.05 + 6).astype(np.float32)


def of(x: np.ndarray, seed: int = 0) -> Subsamples:
    return Subsamples.of(torch.from_numpy(x.astype(np.float32)), seed)


def measured(found: Subsamples, x: np.ndarray) -> np.ndarray:
    return found.measured(torch.from_numpy(x.astype(np.float32)))[0].numpy()


def pvalues(found: Subsamples, x: np.ndarray) -> np.ndarray:
    return found.pvalues(torch.from_numpy(measured(found, x))).numpy()


def outliers_of(x: np.ndarray, level: float) -> np.ndarray:
    found = of(x)
    return found.outliers(found.measured(torch.from_numpy(x))[1], level).numpy()


def level(x: np.ndarray, columns: Tensor, rows: np.ndarray, widths: np.ndarray) -> float:
    """The log density of the nearest kernel but those at the row itself, up to a constant."""
    others = (rows != x).any(1)
    away = ((x[columns].astype(np.float64) - rows[others][:, columns]) ** 2).sum(1)
    return float((-away / widths[others] ** 2 / 2 - len(columns) * np.log(widths[others])).max())


def by_loops(found: Subsamples, row: np.ndarray) -> float:
    """The score of a row, kernel by kernel in double precision."""
    total = 0.0
    for columns, rows, widths in zip(found.columns, found.rows, found.widths, strict=True):
        kernels = columns, rows.numpy(), widths.double().numpy()
        own = np.sort([level(x, *kernels) for x in rows.numpy()])
        mine = level(row, *kernels)
        spread = max(own[len(own) // 2] - own[len(own) // 4], 0.1)
        z = max((own[len(own) // 2] - mine) / spread, 0)
        total += 3 * np.log1p(z) - np.log((1 + (own <= mine).sum()) / (len(own) + 1))
    return total / len(found.columns)


def test_a_score_is_the_mean_over_subsamples_that_a_loop_gives() -> None:
    found = of(BULK)
    assert found.rows.shape[1:] == (SIZE, 8) and found.columns.shape[1] == COLUMNS
    for row in (BULK[0], GROUP[0], np.zeros(8, np.float32)):
        # A rounding error may move a row of a subsample past another one: 1/129 of its p-value.
        assert measured(found, row[None])[0] == pytest.approx(by_loops(found, row), abs=0.01)


def test_rows_are_scored_without_their_own_kernels_wherever_they_come_from() -> None:
    found = of(BULK)
    drawn = found.rows[0, 0].numpy()
    moved = drawn + 1e-3  # its kernel counts, as it is another row
    assert measured(found, drawn[None])[0] > measured(found, moved[None])[0]
    twice = measured(found, np.stack([drawn, drawn]))
    assert twice[0] == twice[1] == measured(found, drawn[None])[0]


def test_a_group_of_outliers_is_unusual_and_files_of_the_same_seed_are_equal() -> None:
    x, is_outlier = np.concatenate([BULK, GROUP]), np.arange(412) >= 400
    found = of(x)
    assert roc_auc_score(is_outlier, measured(found, x)) > 0.98
    for name, tensor in of(x).named_buffers():
        assert torch.equal(tensor, found.get_buffer(name))
    assert not torch.equal(of(x, 1).rows, found.rows)


@pytest.mark.parametrize("d", [1, 3, 20])
def test_few_new_rows_like_the_training_rows_have_small_p_values(d: int) -> None:
    found = of(RNG.normal(size=(600, d)))
    p = pvalues(found, RNG.normal(size=(2_000, d)))
    for level in (0.05, 0.2, 0.5):
        assert abs((p <= level).mean() - level) < 0.4 * level + 0.015


def test_p_values_of_training_rows_are_their_ranks() -> None:
    found = of(BULK)
    p = pvalues(found, BULK)
    order = np.argsort(-measured(found, BULK))
    assert (np.diff(p[order]) >= 0).all()
    assert p.min() == pytest.approx(2 / 401) and p.max() == pytest.approx(1)


def test_planted_outliers_are_named_and_hardly_any_other_row_is() -> None:
    x = np.concatenate([BULK, RNG.uniform(-30, 30, (10, 8))])
    named = outliers_of(x, 0.05)
    assert named[400:].all() and named[:400].sum() <= 4
    assert outliers_of(BULK, 0.05).sum() <= 4


@pytest.mark.parametrize("size", [450, 2_000])
@pytest.mark.parametrize("d", [2, 20])
def test_only_small_groups_far_from_the_bulk_are_outlying(size: int, d: int) -> None:
    def outlying(*groups: np.ndarray) -> tuple[int, ...]:
        x = np.concatenate(groups)
        points = torch.from_numpy(x - x.mean(0)) / float(x.std())
        coordinates, subsamples = subsamples_of(points, 0)
        density = Density(coordinates, mixture=None)
        density.subsamples = subsamples
        labels = np.repeat(range(len(groups)), list(map(len, groups)))
        return density.outlying(points, labels, len(groups))

    rng = np.random.default_rng(size + d)
    bulk, few, many = (rng.normal(size=(n, d)) for n in (size, 8, 30 * size // 450))
    assert outlying(bulk, few + 20) == (1,)
    assert outlying(few - 20, bulk, few + 20) == (0, 2)
    assert outlying(bulk, many + 20) == outlying(bulk, few) == outlying(bulk) == ()
    centres = rng.normal(size=(40, d)) * 8
    sizes = np.maximum(size // np.arange(1, 41), 3)  # ordinary clusters, many of them small
    each = zip(centres, sizes, strict=True)
    assert outlying(*(centre + rng.normal(size=(n, d)) for centre, n in each)) == ()


def test_columns_of_few_values_and_few_rows_have_finite_scores() -> None:
    x = np.repeat(np.eye(3, dtype=np.float32), 4, axis=0)
    found = of(x)
    assert np.isfinite(measured(found, x)).all()
    assert found.widths.min() >= NARROWEST
    assert measured(found, x[:1] + 50)[0] > measured(found, x).max()


def test_among_many_columns_outliers_are_found_as_the_nearest_neighbour_finds_them() -> None:
    """Rows of other clusters, a few of each, whose single columns are like those of all others."""
    centres = RNG.normal(size=(40, 90))
    own, other = RNG.integers(20, size=800), RNG.integers(20, 40, size=40)
    x = centres[np.r_[own, other]] + 0.9 * RNG.normal(size=(840, 90))
    truth = np.arange(len(x)) >= 800
    coordinates, subsamples = subsamples_of(torch.from_numpy(x).float(), 0)
    scores = subsamples.measured(coordinates.leading(torch.from_numpy(x)).float())[0]
    nearest = NearestNeighbors(n_neighbors=5).fit(x).kneighbors()[0][:, -1]
    assert roc_auc_score(truth, scores) > roc_auc_score(truth, nearest) - 0.03
    assert roc_auc_score(truth, nearest) > 0.8
