from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.datasets import make_circles
from torch import Generator, Tensor, nn

from gedilearn.errors import InputError
from gedilearn.graph.views import (
    CallableViews,
    NoiseViews,
    WalkViews,
    draws_globally,
    make_views,
)
from gedilearn.settings import Views, resolve
from helpers import SEEDED


def test_noise_has_the_deviation_of_the_settings() -> None:
    x = torch.zeros(20_000, 3)
    view = NoiseViews(0.3).draw(torch.arange(len(x)), x, 0.5, SEEDED)
    assert view.std() == pytest.approx(0.3, rel=0.02)
    assert view.mean().abs() < 0.01


def test_noise_may_follow_the_progress_and_certifies_with_its_first_value() -> None:
    x, index = torch.zeros(20_000, 3), torch.arange(20_000)
    views = make_views(Views(kind="noise", noise=[[0.5, 0.1], [1.0, 0.3]]), x, 2, seed=0)
    assert views.annealed and not NoiseViews(0.1).annealed
    for progress, sigma in ((0.2, 0.1), (0.75, 0.2), (1.0, 0.3)):
        assert views.draw(index, x, progress, SEEDED).std() == pytest.approx(sigma, rel=0.02)
    assert views.certify(index, x, SEEDED).std() == pytest.approx(0.1, rel=0.02)


@pytest.mark.parametrize(
    ("kind", "noise"), [("noise", -0.1), ("noise", [[0, 0.1], [1, -1]]), ("grey", [[0, 0.1]])]
)
def test_impossible_noise_is_refused(kind: str, noise: object) -> None:
    with pytest.raises(InputError, match=r"^views\.noise="):
        resolve({"views": {"kind": kind, "noise": noise}}, (60, 2))


@pytest.fixture(scope="module")
def rings() -> tuple[torch.Tensor, np.ndarray, WalkViews]:
    x, y = make_circles(400, factor=0.4, noise=0.03, random_state=0)
    data = torch.tensor(x, dtype=torch.float32)
    views = make_views(Views(kind="walk", walk_noise=0.0), data, 2, seed=0)
    assert isinstance(views, WalkViews)
    return data, y, views


def test_walks_end_on_points_of_the_same_ring(rings) -> None:
    data, y, views = rings
    index = torch.arange(len(data))
    for progress in (0.0, 0.5, 1.0):
        view = views.draw(index, data, progress, SEEDED)
        nearest = torch.cdist(view, data).argmin(1)
        assert torch.equal(view, data[nearest])
        assert (y[nearest.numpy()] == y).all()


def test_walks_shorten_from_the_longest_to_one_step(rings) -> None:
    _, _, views = rings
    lengths = [views.steps(p) for p in np.linspace(0, 1, 201)]
    assert lengths[0] == lengths[49] == views.tables.longest
    assert lengths == sorted(lengths, reverse=True) and lengths[-1] == 1
    halvings = sorted(set(lengths), reverse=True)
    assert halvings == [views.tables.longest >> j for j in range(len(halvings))]


def test_the_noise_of_a_walk_has_the_neighbours_length_in_any_dimension() -> None:
    data = torch.randn(300, 50)
    views = make_views(Views(kind="walk", walk_noise=0.5), data, 2, seed=0)
    assert isinstance(views, WalkViews)
    index = torch.arange(300).repeat(20)
    torch.manual_seed(1)
    noisy = views.draw(index, data[index], 1.0, SEEDED)
    lengths = torch.cdist(noisy, data).amin(1)
    assert lengths.mean() == pytest.approx(float(0.5 * views.tables.radius.mean()), rel=0.15)


def test_a_function_receives_the_generator_if_it_has_the_argument() -> None:
    def moved(x: Tensor, *, generator: Generator) -> Tensor:
        return x + torch.rand(x.shape, generator=generator)

    x, index = torch.zeros(5, 2), torch.arange(5)
    views = CallableViews(moved)
    first, again = (views.draw(index, x, 0.0, Generator().manual_seed(3)) for _ in range(2))
    assert torch.equal(first, again) and first.std() > 0
    assert not draws_globally(views) and not draws_globally(NoiseViews(0.1))
    flipped, dropped = CallableViews(lambda x: x.flip(1)), CallableViews(nn.Dropout(0.5))
    for other in (flipped, dropped, CallableViews(torch.neg)):  # the last has no signature
        assert draws_globally(other)
        assert other.draw(index, x, 0.0, Generator()).shape == x.shape


@pytest.mark.parametrize(
    ("kind", "shape"),
    [("walk", (5, 1, 8, 8)), ("grey", (5, 3)), ("paper", (5, 3))],
)
def test_views_of_the_wrong_kind_are_refused(kind: str, shape: tuple[int, ...]) -> None:
    with pytest.raises(InputError, match=f"views.kind='{kind}' needs"):
        make_views(Views(kind=kind), torch.zeros(shape), 2, seed=0)


def test_views_of_images_are_the_same_in_other_units() -> None:
    x = torch.rand(64, 3, 16, 16) * 2 - 1
    drawn = []
    for pixels, units, noise in (((-1.0, 1.0), x, 0.02), ((-2.0, 4.0), 3 * x + 1, 0.06)):
        settings = Views(kind="paper", noise=noise, pixels=pixels)
        views = make_views(settings, units, 2, 0)
        drawn.append(views.draw(torch.arange(64), units, 0.0, torch.Generator().manual_seed(0)))
    torch.testing.assert_close(drawn[1], 3 * drawn[0] + 1, rtol=0, atol=1e-5)
    assert (drawn[0] - x).abs().mean() > 0.1
