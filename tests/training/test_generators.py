"""Generators of a training: seeded, saved and loaded together; torch's own only where borrowed."""

from __future__ import annotations

import pytest
import torch

from gedilearn.training.environment import Generators, drawing

CPU = torch.device("cpu")


def test_a_seed_gives_the_numbers_that_it_gives_torch_itself() -> None:
    generators = Generators(CPU)
    generators.seed(9)
    torch.manual_seed(9)
    assert torch.equal(torch.randn(20, generator=generators.device), torch.randn(20))
    assert torch.equal(torch.rand(3, generator=generators.cpu), torch.rand(3))


@pytest.mark.parametrize("borrowed", [False, True])
def test_a_loaded_state_goes_on_where_it_was_saved(borrowed: bool) -> None:
    with Generators(CPU) as generators:
        if borrowed:
            generators.borrow_globals()
        generators.seed(0)
        torch.randn(5, generator=generators.cpu)  # five of pairs: one number waits in the state
        state = generators.state()
        expected = torch.randn(5, generator=generators.cpu)
    other = Generators(CPU)
    other.load_state(state)
    assert torch.equal(torch.randn(5, generator=other.device), expected)


@pytest.mark.parametrize("globally", [False, True])
def test_the_global_generator_is_put_back_also_after_an_error(globally: bool) -> None:
    before = torch.get_rng_state()
    with pytest.raises(ZeroDivisionError), drawing(4, globally) as generator:
        assert (generator is torch.default_generator) == globally
        torch.rand(3, generator=generator)
        raise ZeroDivisionError
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a graphics card")
def test_on_a_device_there_is_a_generator_beside_the_processors() -> None:
    device = torch.device("cuda", 0)
    with Generators(device) as generators:
        generators.borrow_globals()
        generators.seed(1)
        state = generators.state()
        drawn = torch.rand(4, device=device)
        assert set(state) == {"rng", "cuda_rng"}
    other = Generators(device)
    other.load_state(state)
    assert torch.equal(torch.rand(4, device=device, generator=other.device), drawn)
