"""Coordinates against finite differences and numpy."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from gedilearn.density.density import Coordinates, Squash
from gedilearn.density.principal import choose_squash, directions_of


def coordinates(edge: float, d: int = 6, most: int = 3) -> Coordinates:
    rng = np.random.default_rng(0)
    made = Coordinates((1, 2, 3), d, most)
    made.used = torch.arange(d)
    made.centre = torch.from_numpy(rng.normal(size=d))
    made.directions = torch.from_numpy(np.linalg.qr(rng.normal(size=(d, d)))[0][:most].copy())
    made.deviations = torch.tensor([3.0, 2.0, 1.5]).double()
    made.rest = torch.tensor(0.4).double()
    made.squash_ = torch.tensor([edge, -1.0, 1.0, 0.25]).double()
    return made


@pytest.mark.parametrize("edge", [0.0, 0.01])
def test_the_volume_is_that_of_the_map(edge: float) -> None:
    made = coordinates(edge)
    x = torch.empty(4, 6).double().uniform_(-0.9, 0.9, generator=torch.Generator().manual_seed(1))
    _, volume = made(x)
    for point, found in zip(x, volume, strict=True):
        jacobian = torch.autograd.functional.jacobian(lambda v: made(v[None])[0][0], point)
        assert torch.allclose(torch.linalg.slogdet(jacobian)[1], found, atol=1e-9)


@pytest.mark.parametrize("edge", [0.0, 0.01])
def test_points_come_back(edge: float) -> None:
    made = coordinates(edge)
    x = torch.empty(4, 1, 2, 3).double().uniform_(-1, 1, generator=torch.Generator().manual_seed(1))
    assert torch.allclose(made.points(made(made.taken(x))[0]), x)


def test_pixels_out_of_range_have_the_density_of_the_last_in_it() -> None:
    squash = Squash(0.01, -1.0, 1.0, 0.1)
    u, _ = squash.apply(torch.tensor([[1.05, 7.0]]))
    assert torch.isfinite(u).all() and float(u[0, 0]) == float(u[0, 1])


def test_principal_directions_are_those_of_numpy() -> None:
    rng = np.random.default_rng(0)
    u = rng.normal(size=(500, 8)) @ rng.normal(size=(8, 8))
    squash = Squash(0.0, 0.0, 1.0, 0.0)
    made = directions_of(torch.from_numpy(u), (8,), torch.arange(8), squash, 0)
    variances = np.linalg.eigvalsh(np.cov(u.T, bias=True))[::-1]
    np.testing.assert_allclose(made.deviations.numpy() ** 2, variances, rtol=1e-8)
    y = made(torch.from_numpy(u))[0].numpy()
    np.testing.assert_allclose(np.cov(y.T, bias=True), np.eye(8), atol=1e-8)


def test_pixels_are_stretched_where_that_makes_them_likelier() -> None:
    rng = np.random.default_rng(0)
    ink = torch.from_numpy((rng.random((600, 16)) < 0.2) * 255.0).float()  # black or white
    smooth = torch.from_numpy(rng.normal(128, 20, (600, 16)).round()).float()
    rows, held = torch.arange(500), torch.arange(500, 600)
    generator = torch.Generator().manual_seed(0)
    assert choose_squash(ink, rows, held, generator).edge > 0
    assert choose_squash(ink, rows, held, generator).cell == 255
    assert choose_squash(smooth, rows, held, generator).cell == 1
