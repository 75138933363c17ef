"""The process that training runs in: memory, ranks, denormal numbers, random numbers."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from lightning_fabric import Fabric

from gedilearn.errors import InputError
from gedilearn.settings import Device, resolve
from gedilearn.training import loop
from gedilearn.training.environment import (
    Generators,
    OneProcess,
    _launch_fabric,
    _ranks,
    check_machine,
    check_memory,
    drawing,
    flushed_denormals,
    launch,
)
from gedilearn.training.journal import SHARED, load_checkpoint
from helpers import gedi

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
    ("values", "shape"),
    [
        ({"network": {"width": 100_000}}, (12, 1, 8, 8)),
        ({"network": {"hidden": [1_000_000, 1_000_000]}}, (12, 2)),
        ({"sampler": {"buffer": 100_000_000}}, (12, 1000)),
    ],
)
def test_a_training_beyond_the_memory_is_refused(
    values: dict[str, object], shape: tuple[int, ...]
) -> None:
    with pytest.raises(InputError, match=r"training would need .* choose smaller network\."):
        check_machine(resolve(values, shape), shape[1:])


POINTS = np.random.default_rng(0).normal(size=(60, 2)) + [[0, 0], [9, 0]] * 30
IMAGES = np.random.default_rng(0).normal(size=(40, 1, 8, 8))


@pytest.mark.skipif(torch.cuda.is_available(), reason="there Fabric is needed")
def test_fabric_is_only_for_several_ranks_other_devices_and_mixed_precision() -> None:
    for device in (Device(), Device(accelerator="cpu", devices="auto")):
        assert isinstance(launch(device), OneProcess)
    assert isinstance(launch(Device(precision="bf16-mixed")), Fabric)


@pytest.mark.parametrize(
    ("x", "values"),
    [
        (POINTS, {}),
        (POINTS, {"method": "dino"}),
        (IMAGES, {"density.iterations": 2, "network.width": 4, "sampler.steps": 2}),
    ],
)
def test_one_process_alone_trains_as_under_fabric(
    x: np.ndarray, values: dict, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    short = {"max_iter": 8, "training.check_every": 4, "training.checkpoint_every": 0} | values
    found = []
    for name, launched in (
        ("own", launch),
        ("fabric", partial(_launch_fabric, devices=1, nodes=1)),
    ):
        monkeypatch.setattr(loop, "launch", launched)
        run = tmp_path / name
        model = gedi(2, random_state=0, run_dir=run, **short).fit(x)
        saved = load_checkpoint(run / "checkpoint", SHARED)
        assert saved is not None
        found.append((model.result_.tensors(), saved[1][0]["optimizer"]))
    torch.testing.assert_close(*found, rtol=0, atol=0)


@pytest.mark.parametrize(("local", "world", "ranks"), [("2", "2", (2, 1)), ("4", "8", (4, 2))])
def test_ranks_are_those_that_torchrun_started(
    monkeypatch: pytest.MonkeyPatch, local: str, world: str, ranks: tuple[int, int]
) -> None:
    assert _ranks(Device()) == (1, 1)
    for name, value in (("LOCAL_WORLD_SIZE", local), ("WORLD_SIZE", world)):
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "test")
    assert _ranks(Device()) == _ranks(Device(devices="auto")) == ranks


def test_a_system_that_does_not_say_its_memory_refuses_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with pytest.raises(InputError, match="would need"):
        check_memory("it", 10**18, "n_init")
    monkeypatch.delattr(os, "sysconf")
    monkeypatch.delattr(os, "sysconf_names")
    check_memory("it", 10**18, "n_init")


# --- generators: seeded, saved and loaded together


CPU = torch.device("cpu")


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
