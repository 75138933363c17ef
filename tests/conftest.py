"""One thread for every test: the networks are tiny, and results stay reproducible."""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import pytest
import torch
from sklearn.datasets import make_moons

from gedilearn import GEDI

torch.set_num_threads(1)

LONG = ("readme", "ranks", "killed", "browser")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Files with tests of the long kinds come first: none of them is left for the end of a run."""
    long = {item.path for item in items if any(item.get_closest_marker(kind) for kind in LONG)}
    items.sort(key=lambda item: item.path not in long)


@pytest.fixture(autouse=True)
def _seeded() -> None:
    torch.manual_seed(0)


@pytest.fixture(scope="session")
def moons() -> tuple[np.ndarray, np.ndarray]:
    return make_moons(500, noise=0.05, random_state=0)


@pytest.fixture(scope="session")
def moons_model(moons: tuple[np.ndarray, np.ndarray]) -> GEDI:
    """A default fit of the moons; tests leave it as it is."""
    return GEDI(n_clusters=2, random_state=0).fit(moons[0])
