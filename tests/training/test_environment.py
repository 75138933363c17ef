"""What training changes around itself, and puts back."""

from __future__ import annotations

import pytest
import torch

from gedilearn.errors import InputError
from gedilearn.settings import resolve
from gedilearn.training.environment import check_machine, flushed_denormals

TINY = torch.full((3,), 1e-310, dtype=torch.float64)


@pytest.mark.skipif(not torch.set_flush_denormal(False), reason="this processor cannot")
@pytest.mark.parametrize("before", [False, True])
def test_denormals_are_zero_inside_and_what_they_were_outside(before: bool) -> None:
    torch.set_flush_denormal(before)
    try:
        with flushed_denormals():
            assert (TINY * 1.0 == 0).all()
        assert bool((TINY * 1.0 == 0).all()) == before
    finally:
        torch.set_flush_denormal(False)


@pytest.mark.parametrize(
    "network, shape, name",
    [
        ({"width": 100_000}, (12, 1, 8, 8), "network.width"),
        ({"hidden": [1_000_000, 1_000_000]}, (12, 2), "network.hidden"),
    ],
)
def test_a_network_beyond_the_memory_is_refused_with_what_makes_it_large(
    network: dict[str, object], shape: tuple[int, ...], name: str
) -> None:
    settings = resolve({"network": network}, shape)
    with pytest.raises(InputError, match=f"choose smaller {name}, network.features or n_init"):
        check_machine(settings, shape[1:])
