from __future__ import annotations

import torch

from gedilearn.training.state import Batches


def test_every_point_comes_once_before_any_comes_again() -> None:
    batches = Batches(n=10, batch_size=4, seed=0)
    dealt = torch.cat([batches.next() for _ in range(5)])
    assert sorted(dealt[:10].tolist()) == list(range(10))
    assert sorted(dealt[10:].tolist()) == list(range(10))


def test_a_small_data_set_is_its_own_batch() -> None:
    batches = Batches(n=7, batch_size=400, seed=0)
    for _ in range(3):
        assert sorted(batches.next().tolist()) == list(range(7))


def test_ranks_share_one_joined_batch() -> None:
    alone = Batches(n=50, batch_size=12, seed=3)
    ranks = [Batches(n=50, batch_size=12, seed=3, rank=r, ranks=3) for r in range(3)]
    for _ in range(6):
        joined = alone.next().tolist()
        parts = [b.next().tolist() for b in ranks]
        assert [len(p) for p in parts] == [4, 4, 4]
        assert sorted(i for part in parts for i in part) == sorted(joined)


def test_a_restored_dealer_goes_on_as_the_first_would_have() -> None:
    first = Batches(n=31, batch_size=8, seed=1)
    for _ in range(5):
        first.next()
    second = Batches(n=31, batch_size=8, seed=99)
    second.restore(first.state())
    for _ in range(9):
        assert torch.equal(first.next(), second.next())
