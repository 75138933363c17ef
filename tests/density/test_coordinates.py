"""Coordinates against finite differences and numpy."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from gedilearn.density.coordinates import Coordinates, Stretch
from gedilearn.density.principal import choose_stretch, directions_of
from helpers import seeded


@pytest.mark.parametrize("edge", [0.0, 0.01])
def test_the_volume_is_that_of_the_map_and_points_come_back(edge: float) -> None:
    rng = np.random.default_rng(0)
    given = {
        "centre": rng.normal(size=6),
        "directions": np.linalg.qr(rng.normal(size=(6, 6)))[0][:3],
        "deviations": [3.0, 2.0, 1.5],
        "rest": 0.4,
        "stretched": [edge, -1.0, 1.0, 0.25],
    }
    tensors = {name: torch.from_numpy(np.array(value)) for name, value in given.items()}
    template = torch.zeros(1, 2, 3).double()
    made = Coordinates(torch.arange(6), template, torch.tensor(0.25), **tensors)
    x = torch.empty(4, 1, 2, 3).double().uniform_(-0.9, 0.9, generator=seeded(1))
    y, volume = made(made.values_of(x))
    assert torch.allclose(made.points(made.undo(y)), x)
    for point, found in zip(made.values_of(x), volume, strict=True):
        jacobian = torch.autograd.functional.jacobian(lambda v: made(v[None])[0][0], point)
        assert torch.allclose(torch.linalg.slogdet(jacobian)[1], found, atol=1e-9)


def test_principal_directions_are_those_of_numpy() -> None:
    rng = np.random.default_rng(0)
    u = rng.normal(size=(500, 8)) @ rng.normal(size=(8, 8))
    plain = Coordinates(torch.arange(8), torch.zeros(8).double(), torch.zeros(8).double())
    made = directions_of(torch.from_numpy(u), plain, Stretch(0.0, 0.0, 1.0, 0.0), 0)
    variances = np.linalg.eigvalsh(np.cov(u.T))[::-1]
    np.testing.assert_allclose(made.deviations.numpy() ** 2, variances, rtol=1e-8)
    y = made(torch.from_numpy(u))[0].numpy()
    np.testing.assert_allclose(np.cov(y.T), np.eye(8), atol=1e-8)


def test_pixels_are_stretched_where_that_makes_them_likelier() -> None:
    rng, rows, held = np.random.default_rng(0), torch.arange(500), torch.arange(500, 600)
    ink = torch.from_numpy((rng.random((600, 16)) < 0.2) * 255.0).float()  # black or white
    smooth = torch.from_numpy(rng.normal(128, 20, (600, 16)).round()).float()
    found = choose_stretch(ink, rows, held, seeded())
    assert found.edge > 0 and found.cell == 255
    assert choose_stretch(smooth, rows, held, seeded()).cell == 1
    u, _ = found.apply(torch.tensor([[500.0, 9_000.0]]))  # out of range, as the last in it
    assert torch.isfinite(u).all() and float(u[0, 0]) == float(u[0, 1])
