from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

from gedilearn.methods.priors import Estimated, Found, Given


def logits_with_counts(*members: tuple[int, ...]) -> Tensor:
    """Logits whose argmax is cluster j as often as the j-th count says, barely."""
    rows = [
        torch.eye(len(counts)).repeat_interleave(torch.tensor(counts), 0) * 0.01
        for counts in members
    ]
    return torch.stack(rows)


def test_proportions_are_dealt_by_size_for_each_member() -> None:
    prior = Given(torch.tensor([0.1, 0.6, 0.3]))
    logits = logits_with_counts((2, 3, 5), (5, 3, 2))
    expected = torch.tensor([[0.1, 0.3, 0.6], [0.6, 0.3, 0.1]])
    torch.testing.assert_close(prior.final(logits), expected)
    torch.testing.assert_close(prior.training(logits, 0.3), expected)
    assert prior.training(logits, 0.1) is None


def test_dealing_by_size_is_the_best_of_all_ways() -> None:
    rng = np.random.default_rng(0)
    for _ in range(20):
        q = rng.dirichlet(np.ones(4))
        pi = rng.dirichlet(np.ones(4))
        counts = tuple(int(c) for c in rng.multinomial(1000, q))
        share = np.maximum(np.array(counts) / 1000, 1e-6)
        dealt = Given(torch.tensor(pi)).final(logits_with_counts(counts).double())[0].numpy()
        every = [-(pi[list(p)] * np.log(share)).sum() for p in _orders(4)]
        assert -(dealt * np.log(share)).sum() == pytest.approx(min(every))


def _orders(n: int) -> list[tuple[int, ...]]:
    import itertools

    return list(itertools.permutations(range(n)))


def test_an_estimate_is_frozen_once_the_points_are_sorted() -> None:
    prior = Estimated()
    sorted_logits = logits_with_counts((80, 20))
    for _ in range(300):
        assert prior.training(sorted_logits, 0.1) is None
    assert prior.final(sorted_logits) is None
    later = logits_with_counts((30, 70))
    torch.testing.assert_close(prior.training(later, 0.5), torch.tensor([[0.8, 0.2]]))
    torch.testing.assert_close(prior.final(later), torch.tensor([[0.8, 0.2]]))


def test_an_estimate_never_lets_a_cluster_go_for_free() -> None:
    prior = Estimated()
    empty = logits_with_counts((100, 0))
    prior.training(empty, 0.1)
    target = prior.training(empty, 0.5)
    assert target[0, 1] == pytest.approx(0.05 / 1.05)


def test_found_proportions_hold_from_first_to_last_whatever_is_predicted() -> None:
    prior = Found(torch.tensor([[0.8, 0.2], [0.5, 0.5]]))
    for counts in ((20, 80), (100, 0)):
        logits = logits_with_counts(counts, counts)
        expected = torch.tensor([[0.8, 0.2], [0.5, 0.5]])
        torch.testing.assert_close(prior.training(logits, 0.1), expected)
        torch.testing.assert_close(prior.final(logits), expected)


def test_a_cluster_that_was_not_found_keeps_a_tenth_of_the_even_share() -> None:
    prior = Found(torch.tensor([[1.0, 0.0]]))
    target = prior.final(logits_with_counts((10, 0)))
    torch.testing.assert_close(target, torch.tensor([[1.0, 0.05]]) / 1.05)
