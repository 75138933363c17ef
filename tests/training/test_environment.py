"""What training changes around itself, and puts back."""

from __future__ import annotations

import pytest
import torch

from gedilearn.training.environment import flushed_denormals

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
