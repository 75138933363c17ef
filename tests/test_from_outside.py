"""What CONTRIBUTING.md says of adding things, done from outside of the library.

A data set is added in tests/data, an experiment in tests/experiments, a command in tests/cli.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from pydantic import Field
from sklearn.datasets import make_blobs
from torch import Generator, Tensor, nn

from gedilearn import GEDI, settings
from gedilearn.density.parts import Fit, Rows
from gedilearn.errors import InputError
from gedilearn.graph.views import CallableViews, Views
from gedilearn.methods import terms
from gedilearn.methods.method import Batch, Forward, Method, share
from gedilearn.methods.settings import MethodSettings
from gedilearn.models.energy import EnergyModel
from gedilearn.registry import METHODS, PARTS, SAMPLERS, VIEWS, Registry
from gedilearn.sampling.langevin import LogDensity, SampleBatch, SamplerContext
from gedilearn.settings import known_paths
from helpers import gedi

X, Y = make_blobs(150, centers=[[0, 0], [5, 5]], cluster_std=0.5, random_state=0)
SHORT = {"max_iter": 30, "density.iterations": 6, "training.check_every": 10, "random_state": 0}


@pytest.fixture
def added() -> Iterator[list[tuple[Registry, str]]]:
    """Entries to be removed after the test."""
    entries: list[tuple[Registry, str]] = []
    yield entries
    for registry, name in entries:
        registry.remove(name)


# --- a method ---------------------------------------------------------------------------------


class Agreement(Method):
    """Predictions agree under views, and clusters are balanced."""

    def __init__(self, options: Any) -> None:
        self.options = options

    def terms(self, forward: Forward, model: EnergyModel, batch: Batch) -> dict[str, Tensor]:
        logits, of_view = (forward(share(x, model)).logits for x in (batch.x, batch.view))
        balance = self.options.balance * terms.prior(logits)
        return {"agreement": terms.invariance(logits, of_view), "balance": balance}


class Options(MethodSettings):
    """The settings of a method of one's own."""

    method = Agreement
    balance: float = Field(4.0, ge=0, description="Weight of the balance of clusters.")


def test_a_method_with_settings_of_its_own(added: list[Any], tmp_path: Path) -> None:
    METHODS.register("agreement", Options)
    added.append((METHODS, "agreement"))
    assert "agreement.balance" in known_paths()
    model = gedi(method="agreement", **SHORT, **{"agreement.balance": 3.0}).fit(X)
    assert model.settings_.own.balance == 3.0
    model.save(tmp_path / "model.safetensors")
    loaded = GEDI.load(tmp_path / "model.safetensors")
    assert (loaded.predict(X) == model.labels_).all()
    with pytest.raises(InputError, match=r"agreement\.balance=-1"):
        gedi(method="agreement", **SHORT, **{"agreement.balance": -1}).fit(X)


def test_a_method_that_is_not_there_is_named_with_the_nearest() -> None:
    with pytest.raises(InputError, match="unknown method 'swaw'"):
        GEDI(method="swaw").fit(X)


# --- a view -----------------------------------------------------------------------------------


def mirrored(settings: settings.Views, data: Tensor, n_clusters: int, seed: int) -> Views:
    """A point, or the point with its columns in the other order."""

    def view(x: Tensor, generator: Generator) -> Tensor:
        turned = torch.rand(len(x), 1, generator=generator) < 0.5
        return torch.where(turned, x.flip(1), x)

    return CallableViews(view)


def test_a_view(added: list[Any]) -> None:
    VIEWS.register("mirrored", mirrored)
    added.append((VIEWS, "mirrored"))
    model = gedi(views="mirrored", **SHORT).fit(X)
    assert model.settings_.views.kind == "mirrored"
    assert np.isfinite(model.bound_gap_)
    with pytest.raises(InputError, match="unknown view 'mirored'"):
        GEDI(views="mirored").fit(X)


# --- a sampler --------------------------------------------------------------------------------


class UniformSampler:
    """Draws from the box, whatever the density is, and counts how often."""

    drawn = 0
    positions = None
    weighted = False

    def __init__(self, wanted: SamplerContext) -> None:
        self.box, self.n_members = wanted.box, wanted.n_members

    def draw(self, log_density: LogDensity, batch: int, generator: Generator) -> SampleBatch:
        type(self).drawn += 1
        return SampleBatch(self.box.uniform(self.n_members, batch, generator=generator))

    def state(self) -> dict[str, Any]:
        return {}

    def load_state(self, state: dict[str, Any]) -> None:
        pass


def test_a_sampler(added: list[Any], tmp_path: Path) -> None:
    SAMPLERS.register("uniform", UniformSampler)
    added.append((SAMPLERS, "uniform"))
    own = {"sampler.kind": "uniform", "density.base": "none"}
    model = gedi(**SHORT, **own, run_dir=tmp_path / "run").fit(X)
    assert UniformSampler.drawn == 6  # once in each iteration of the density
    assert np.isfinite(model.score_samples(X)).all()
    with pytest.raises(InputError, match="unknown sampler 'unifrom'"):
        gedi(**{"sampler.kind": "unifrom"}).fit(X)


# --- a part of the base -----------------------------------------------------------------------


class Laplace(nn.Module):
    """Independent columns with the density of Laplace."""

    def __init__(self, centre: Tensor, width: Tensor) -> None:
        super().__init__()
        self.register_buffer("centre", centre)
        self.register_buffer("width", width)

    @classmethod
    def candidates(cls, rows: Rows) -> Iterator[tuple[str, Fit]]:
        yield "Laplace columns", cls.fit

    @classmethod
    def fit(cls, x: np.ndarray) -> Laplace:
        centre = np.median(x, 0)
        return cls(torch.from_numpy(centre), torch.from_numpy(np.abs(x - centre).mean(0)))

    def log_density(self, x: Tensor) -> Tensor:
        return -((x - self.centre).abs() / self.width + (2 * self.width).log()).sum(-1)

    def sample(self, n: int, generator: Generator) -> Tensor:
        uniform = torch.empty(n, len(self.centre)).uniform_(-1, 1, generator=generator)
        return self.centre - self.width * uniform.sign() * torch.log1p(-uniform.abs())


def test_a_part_of_the_base(added: list[Any], tmp_path: Path) -> None:
    PARTS.register("laplace", Laplace)
    added.append((PARTS, "laplace"))
    x = np.random.default_rng(0).laplace(size=(600, 6))
    model = gedi(**SHORT, **{"sampler.kind": "none"}).fit(x)
    assert model.density_.base.startswith("Laplace columns")
    assert abs(model.score(x) + 6 * np.log(2 * np.e)) < 0.2  # the negative entropy
    drawn, _ = model.sample(4_000, random_state=0)
    np.testing.assert_allclose(np.abs(drawn).mean(0), 1, atol=0.1)
    model.save(tmp_path / "model.safetensors")
    loaded = GEDI.load(tmp_path / "model.safetensors")
    np.testing.assert_array_equal(loaded.score_samples(x), model.score_samples(x))
    PARTS.remove("laplace")
    with pytest.raises(InputError, match="unknown part of the base 'laplace'"):
        GEDI.load(tmp_path / "model.safetensors")
    PARTS.register("laplace", Laplace)
