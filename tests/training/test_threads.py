"""Fits, samples and diagnoses in several threads at once are those of one after another."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.cluster import KMeans
from sklearn.datasets import make_moons
from sklearn.neighbors import NearestNeighbors
from threadpoolctl import ThreadpoolController, threadpool_info, threadpool_limits
from torch import Generator, Tensor, nn

from gedilearn import GEDI
from gedilearn.settings import Device
from gedilearn.training import loop
from gedilearn.training.environment import SMALL, limited_threads, one_thread_if_small
from helpers import NO_BASE, gedi

MOONS = make_moons(100, noise=0.05, random_state=0)[0]
WIDE = np.random.default_rng(0).normal(size=(300, 20))  # whose neighbours need products
COLOUR = np.random.default_rng(0).integers(0, 256, (40, 3, 8, 8), np.uint8)
SHORT = {
    "max_iter": 6,
    "density.iterations": 3,
    "training.check_every": 3,
    "sampler.steps": 2,
    "sampler.chains": 8,
    "sampler.buffer": 32,
}
IMAGES = SHORT | {
    **NO_BASE,
    "max_iter": 3,
    "network.width": 8,
    "optimizer.batch_size": 20,
}


def noisy(x: Tensor, generator: Generator) -> Tensor:
    return x + 0.1 * torch.randn(x.shape, generator=generator)


KINDS: dict[str, tuple[np.ndarray, dict[str, Any]]] = {
    "moons": (MOONS, SHORT | {"n_init": 2}),
    "mixed precision": (MOONS, SHORT | NO_BASE | {"device.precision": "bf16-mixed"}),
    "own views": (MOONS, SHORT | NO_BASE | {"views": noisy}),
    "dino": (MOONS, SHORT | {"method": "dino"}),
    "barlow": (WIDE, SHORT | {"method": "barlow", "barlow.assign": "kmeans"}),
    "deepcluster": (WIDE, SHORT | {"method": "deepcluster", "deepcluster.period": 2}),
    "colour images": (COLOUR, IMAGES),
    "resnet8": (COLOUR, IMAGES | {"encoder": "resnet8", "views": "paper"}),
}
Told = tuple[Any, ...]


def fit(kind: str, seed: int, **changes: Any) -> GEDI:
    x, values = KINDS[kind]
    return gedi(2, random_state=seed, **(values | changes)).fit(x)


def told(model: GEDI, x: np.ndarray) -> Told:
    samples = model.sample(5, steps=3, random_state=1)[0]
    gaps = model.bound_gap_, model.diagnose(x).gap
    return model.labels_.tolist(), model.predict_proba(x).tolist(), samples.tolist(), gaps


def at_once(functions: list[Callable[[], Any]]) -> list[Any]:
    """What the functions give when all are called at once, each in a thread of its own."""
    together = threading.Barrier(len(functions))

    def call(function: Callable[[], Any]) -> Any:
        together.wait()
        return function()

    with ThreadPoolExecutor(len(functions)) as pool:
        return list(pool.map(call, functions))


@pytest.fixture
def watched(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Tensor]]:
    """States of the global generator, one before each step."""
    states: list[Tensor] = []
    step = loop.step

    def watching(*arguments: Any) -> Any:
        states.append(torch.get_rng_state())
        return step(*arguments)

    monkeypatch.setattr(loop, "step", watching)
    yield states


@pytest.mark.parametrize("kind", KINDS)
def test_fits_in_threads_equal_the_same_fits_alone_and_leave_the_global_generator(
    kind: str, watched: list[Tensor]
) -> None:
    x = KINDS[kind][0]
    fits = [partial(lambda seed: told(fit(kind, seed), x), seed) for seed in range(2)]
    torch.manual_seed(1)
    before = torch.get_rng_state()
    alone = [one() for one in fits]
    watched.append(torch.get_rng_state())
    assert all(torch.equal(state, before) for state in watched)
    assert alone[0] != alone[1]
    torch.manual_seed(2)
    assert at_once(fits) == alone


@pytest.mark.parametrize("kind", ["moons", "colour images"])
def test_one_model_is_used_by_several_threads(kind: str) -> None:
    x, model = KINDS[kind][0], fit(kind, 0)
    uses: list[Callable[[], Any]] = [
        lambda: model.sample(6, steps=30, random_state=1)[0].tolist(),
        lambda: model.sample(6, steps=30, random_state=2)[0].tolist(),
        lambda: model.diagnose(x).to_json(),
        lambda: model.score_samples(x, "gradient_norm").tolist(),
    ] * 2
    alone = [use() for use in uses]
    assert at_once(uses) == alone
    assert all(p.requires_grad for p in model.model_.parameters())


class Dropping(nn.Sequential):
    """An encoder that draws from torch's global generator in training, and when it is reset."""

    def __init__(self) -> None:
        super().__init__(nn.Linear(2, 16), nn.Dropout(0.3), nn.ReLU(), nn.Linear(16, 8))


@pytest.mark.parametrize("name", ["views", "encoder"])
def test_code_of_the_users_that_draws_globally_is_reproduced_and_the_state_put_back(
    name: str, watched: list[Tensor]
) -> None:
    given: Any = Dropping() if name == "encoder" else lambda x: x + 0.1 * torch.randn_like(x)
    found = []
    for seed in (1, 2):
        torch.manual_seed(seed)
        before = torch.get_rng_state()
        found.append(told(fit("moons", 0, **{name: given}), MOONS))
        assert torch.equal(torch.get_rng_state(), before)
    assert found[0] == found[1]
    assert not torch.equal(watched[0], watched[1])


# --- what else a process has but once -----------------------------------------------------------


def test_each_thread_has_its_own_number_of_torch_threads_and_then_what_it_had_before() -> None:
    before, meeting = torch.get_num_threads(), threading.Barrier(4)
    torch.set_num_threads(3)

    def number_inside(number: int | None) -> tuple[int, int]:
        meeting.wait()
        with limited_threads(number):
            meeting.wait()
            inside = torch.get_num_threads()
            meeting.wait()
        return inside, torch.get_num_threads()

    try:
        with ThreadPoolExecutor(4) as pool:
            seen = list(pool.map(number_inside, (1, 2, None, 1)))
        assert seen == [(1, 3), (2, 3), (3, 3), (1, 3)]
        assert torch.get_num_threads() == 3
        with ThreadPoolExecutor(1) as new_thread:
            assert new_thread.submit(torch.get_num_threads).result() == 3
    finally:
        torch.set_num_threads(before)


def numbers_of_threads() -> set[int]:
    """Those of torch, of OpenMP for the calling thread, and of BLAS."""
    return {torch.get_num_threads(), *(pool["num_threads"] for pool in threadpool_info())}


@pytest.fixture
def two_threads() -> Iterator[None]:
    """Two threads of each library, set by a thread that has ended: others may change them."""
    openmp, before = ThreadpoolController().select(user_api="openmp"), torch.get_num_threads()
    with ThreadPoolExecutor(1) as other:
        blas = other.submit(threadpool_limits, 2, user_api="blas").result()
    with openmp.limit(limits=2):
        torch.set_num_threads(2)
        yield
        torch.set_num_threads(before)
    with ThreadPoolExecutor(1) as other:
        other.submit(blas.restore_original_limits).result()


def test_a_small_fit_computes_with_one_thread_and_puts_all_numbers_back(
    two_threads: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    step, seen = loop.step, set()

    def watching(*arguments: Any) -> Any:
        seen.update(numbers_of_threads())
        return step(*arguments)

    monkeypatch.setattr(loop, "step", watching)
    fit("moons", 0)
    assert seen == {1} and numbers_of_threads() == {2}


@pytest.mark.parametrize(
    ("device", "shape", "inside"),
    [
        (Device(threads=1), (100, 2), {1}),
        (Device(threads=2), (100, 2), {2}),
        (Device(), (100, 1, 8, 8), {2}),
        (Device(threads=1), (SMALL, 2), {2}),
    ],
)
def test_small_data_has_one_thread_unless_more_are_set(
    device: Device, shape: tuple[int, ...], inside: set[int], two_threads: None
) -> None:
    with one_thread_if_small(device, shape):
        assert numbers_of_threads() == inside
    assert numbers_of_threads() == {2}


def test_blas_has_one_thread_until_the_last_of_several_small_fits_ends(two_threads: None) -> None:
    def blas() -> set[int]:
        return {pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"}

    fits = [one_thread_if_small(Device(threads=1), (100, 2)) for _ in range(2)]
    with ThreadPoolExecutor(1) as first, ThreadPoolExecutor(1) as second:
        for thread, one in zip((first, second), fits, strict=True):
            thread.submit(one.__enter__).result()
        first.submit(fits[0].__exit__, None, None, None).result()
        assert blas() == {1}
        second.submit(fits[1].__exit__, None, None, None).result()
    assert blas() == {2}


def test_searches_that_limit_blas_for_the_whole_process_take_turns(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    searching = threading.Lock()

    def alone(search: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:
            assert searching.acquire(blocking=False)
            try:
                time.sleep(0.01)
                return search(*arguments, **options)
            finally:
                searching.release()

        return call

    monkeypatch.setattr(KMeans, "fit", alone(KMeans.fit))
    monkeypatch.setattr(NearestNeighbors, "kneighbors", alone(NearestNeighbors.kneighbors))
    at_once([partial(fit, kind, 0) for kind in ("moons", "barlow", "deepcluster")] * 2)
