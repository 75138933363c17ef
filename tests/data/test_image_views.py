import math

import pytest
import torch
from torch import Generator, Tensor
from torch.nn import functional as F  # noqa: N812

from gedilearn.data.image_views import (
    JITTER,
    ImageView,
    grey_views,
    jitter_parameters,
    paper_views,
)
from helpers import SEEDED

ALL = {
    "grey": grey_views(0.05),
    "paper": paper_views(0.03, flip=True),
}
every_view = pytest.mark.parametrize("view", ALL.values(), ids=ALL)


def images(n: int = 16, channels: int = 3, height: int = 20, width: int = 24) -> Tensor:
    """Random images with values all over [-1, 1]."""
    return 2 * torch.rand(n, channels, height, width) - 1


@pytest.fixture(autouse=True)
def seeded() -> None:
    torch.manual_seed(0)


@every_view
@pytest.mark.parametrize("channels", [1, 3, 4])
def test_views_keep_shape_type_and_range(view: ImageView, channels: int) -> None:
    x = images(channels=channels)
    before = x.clone()
    for out in (view(x, SEEDED), view(x.double(), SEEDED)):
        assert out.shape == x.shape
        assert -1 <= out.min() < -0.9 and 0.9 < out.max() <= 1
    assert view(x.double(), SEEDED).dtype == torch.float64
    assert torch.equal(x, before)


@every_view
def test_the_generator_alone_decides_the_views(view: ImageView) -> None:
    x = images()
    first = view(x, Generator().manual_seed(7))
    torch.manual_seed(1)
    state = torch.get_rng_state()
    same = Generator().manual_seed(7)
    assert torch.equal(view(x, same), first)
    assert not torch.equal(view(x, same), first)
    assert torch.equal(torch.get_rng_state(), state)


@pytest.mark.parametrize("n", [1, 7, 40])
def test_colours_are_jittered_as_kornia_does_by_itself_from_the_same_seed(n: int) -> None:
    from kornia.augmentation import ColorJitter

    change, x = ColorJitter(*JITTER, p=1.0), torch.rand(n, 3, 8, 8)
    torch.manual_seed(5)
    expected = change(x)
    generator = Generator().manual_seed(5)
    assert torch.equal(change(x, params=jitter_parameters(n, generator)), expected)
    assert torch.equal(generator.get_state(), torch.get_rng_state())


def test_crops_are_shifts_of_the_reflected_image_and_all_shifts_occur() -> None:
    x = images(1, height=32, width=34)
    padded = F.pad(x, (4, 4, 4, 4), mode="reflect")[0]
    windows = {
        (top, left): padded[:, top : top + 32, left : left + 34]
        for top in range(9)
        for left in range(9)
    }
    crops = paper_views(flip=False, noise=0, jitter_p=0, grey_p=0)(
        x.expand(1500, -1, -1, -1), SEEDED
    )
    found = []
    for crop in crops:
        matches = [place for place, window in windows.items() if torch.equal(window, crop)]
        assert len(matches) == 1
        found += matches
    counts = torch.tensor([found.count(place) for place in windows], dtype=torch.float64)
    assert counts.min() > 0
    expected = 1500 / 81
    chi_squared = ((counts - expected).square() / expected).sum()
    assert chi_squared < 130  # 80 degrees of freedom: exceeded once in 3,000 seeds


def test_half_of_the_images_are_mirrored_when_asked_and_none_otherwise() -> None:
    x = torch.linspace(-1, 1, 32).expand(1000, 3, 32, 32)  # brighter to the right

    def mirrored(view: ImageView) -> float:
        out = view(x, SEEDED)
        return (out[..., :16].mean((1, 2, 3)) > out[..., 16:].mean((1, 2, 3))).float().mean().item()

    assert mirrored(paper_views(0.03, flip=False)) == 0
    assert mirrored(paper_views(0.03, flip=True)) == pytest.approx(0.5, abs=0.06)


def is_grey(x: Tensor) -> Tensor:
    return (x - x.mean(1, keepdim=True)).abs().amax((1, 2, 3)) < 1e-5


def test_images_turn_grey_in_all_channels_with_the_probability_asked_for() -> None:
    x = images(2000, height=8, width=8)
    share = is_grey(paper_views(flip=True, noise=0)(x, SEEDED)).float().mean().item()
    assert share == pytest.approx(0.1, abs=0.03)
    share = is_grey(paper_views(flip=True, noise=0, grey_p=0.5)(x, SEEDED)).float().mean().item()
    assert share == pytest.approx(0.5, abs=0.05)
    assert not is_grey(paper_views(flip=True, noise=0, grey_p=0)(x, SEEDED)).any()


def test_grey_is_the_luma_of_the_colours() -> None:
    colour = torch.tensor([0.8, -0.2, -0.6])
    x = colour[:, None, None].expand(4, 3, 8, 8)
    out = paper_views(flip=True, noise=0, jitter_p=0, grey_p=1)(x, SEEDED)
    luma = 0.299 * 0.8 - 0.587 * 0.2 - 0.114 * 0.6
    torch.testing.assert_close(out, torch.full_like(x, luma))


@pytest.mark.parametrize("noise", [0.03, 0.1])
def test_noise_has_the_deviation_asked_for(noise: float) -> None:
    x = torch.zeros(64, 3, 16, 16)
    for view in (grey_views(noise), paper_views(noise, True, 0), paper_views(noise, False, 0)):
        assert view(x, SEEDED).std().item() == pytest.approx(noise, rel=0.02)


def centre(x: Tensor) -> Tensor:
    """Centre of mass (x, y) of each image's brightness, in pixels from the middle: (n, 2)."""
    weight = (x[:, 0] + 1) / (x[:, 0] + 1).sum((1, 2), keepdim=True)
    places = torch.arange(x.shape[-1]) - (x.shape[-1] - 1) / 2
    return torch.stack([(weight * places).sum((1, 2)), (weight * places[:, None]).sum((1, 2))], 1)


def spot(size: int, column: float, row: float, n: int) -> Tensor:
    """A small round spot at a place given in pixels from the middle: (n, 1, size, size)."""
    places = torch.arange(size) - (size - 1) / 2
    squares = (places - column).square() + (places[:, None] - row).square()
    return (2 * torch.exp(-squares / 8) - 1).expand(n, 1, size, size)


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize(
    ("change", "across", "reach"),
    [
        ({"shift": 0.06}, False, 0.06 * 48),
        ({"scale": 0.15}, False, 14 / 0.85 - 14),
        ({"degrees": 10.0}, True, 14 * math.sin(math.radians(10))),
        ({"shear": 0.2}, True, 14 * 0.2),
    ],
)
def test_a_spot_off_the_middle_moves_along_and_across_as_far_as_it_may(
    change: dict[str, float], across: bool, reach: float, axis: int
) -> None:
    still = {"degrees": 0.0, "scale": 0.0, "shear": 0.0, "shift": 0.0, "elastic": 0.0}
    start = spot(48, 14 * (axis == 0), 14 * (axis == 1), 400)
    moved = (
        (centre(grey_views(0, **{**still, **change})(start, SEEDED)) - centre(start)).abs().amax(0)
    )
    furthest = moved[1 - axis if across else axis].item()
    assert 0.95 * reach < furthest < 1.06 * reach


@pytest.mark.parametrize(("column", "row"), [(0, 0), (10, -7)])
def test_elastic_displacements_have_the_deviation_asked_for_in_every_place(
    column: int, row: int
) -> None:
    view = grey_views(0, degrees=0, scale=0, shear=0, shift=0, elastic=0.05)
    start = spot(48, column, row, 1500)
    moved = centre(view(start, SEEDED)) - centre(start)
    # 0.05 of half the width, a little less since the spot averages over its neighbourhood
    torch.testing.assert_close(moved.std(0), torch.full((2,), 0.05 * 24), rtol=0.12, atol=0)


def test_a_shift_is_an_eighth_of_the_shorter_side_at_most_and_tiny_images_stay() -> None:
    for height, width, most in ((32, 40, 4), (8, 64, 1), (96, 96, 12), (4, 9, 0)):
        column = torch.arange(width).expand(300, 1, height, width) / width - 0.5
        out = paper_views(noise=0, flip=False)(column, SEEDED)
        middle = (out - column)[..., width // 2].mean((1, 2)) * width
        assert middle.abs().max().item() == pytest.approx(most, abs=1e-3)
