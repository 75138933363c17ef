from __future__ import annotations

import pytest
import torch

from gedilearn.methods.method import Batch
from gedilearn.settings import resolve
from gedilearn.training.environment import launch
from gedilearn.training.loop import begin
from gedilearn.training.state import Batches


def test_every_point_comes_once_before_any_comes_again() -> None:
    batches = Batches(n=10, batch_size=4, seed=0)
    dealt = torch.cat([batches.next() for _ in range(5)])
    assert sorted(dealt[:10].tolist()) == list(range(10))
    assert sorted(dealt[10:].tolist()) == list(range(10))


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


def batch_of(method: str, both: bool) -> tuple[Batch, torch.Tensor]:
    """The first batch of some images, and these images as they are."""
    x = torch.rand(200, 1, 8, 8) * 2 - 1
    values = {"method": method, "views": {"kind": "noise", "noise": 0.03, "both": both}}
    settings = resolve(values, tuple(x.shape))
    setup, state = begin(x, settings, launch(settings.device))
    state.iteration = 1
    batch = state.next_batch(setup)
    assert torch.equal(setup.data, x)  # what the certificate is measured on
    return batch, x[batch.index]


@pytest.mark.parametrize("method", ["jem", "gedi"])
def test_noise_in_both_views_is_as_wide_as_asked_for_and_not_clipped(method: str) -> None:
    batch, plain = batch_of(method, both=True)
    added = batch.x - plain
    assert abs(float(added.std()) - 0.03) < 0.001 and abs(float(added.mean())) < 0.002
    assert float(batch.x.abs().max()) > 1
    # The other view is another draw, of the points without that noise.
    both = torch.stack([added.flatten(), (batch.view - plain).flatten()])
    assert abs(float(torch.corrcoef(both)[0, 1])) < 0.05


def test_without_it_points_are_as_they_are_and_two_views_have_their_own_noise() -> None:
    batch, plain = batch_of("jem", both=False)
    assert torch.equal(batch.x, plain)
    batch, plain = batch_of("swav", both=False)
    assert abs(float((batch.x - plain).std()) - 0.03) < 0.001
