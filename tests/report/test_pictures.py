"""The pictures of a report, against the numbers that they are drawn from."""

from __future__ import annotations

import base64
import io
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from PIL import Image
from sklearn.decomposition import PCA

from gedilearn.io import digits
from gedilearn.report import pictures
from gedilearn.report.pictures import (
    BINS,
    SHARES,
    WIDEST,
    Maps,
    Thumbnails,
    bars,
    percent,
    training,
)
from gedilearn.report.run import Curves, Preview
from gedilearn.verdict.hierarchy import hierarchy
from gedilearn.verdict.number import Number, NumberChoice


def maps_of(points: np.ndarray, labels: np.ndarray, scaling: str = "none", **more: Any) -> Maps:
    names = more.pop("names", [f"column {j}" for j in range(points[0].size)])
    n = len(points)
    known = {"rows": np.arange(n), "probability": np.ones(n), "features": np.zeros((n, 3))}
    return Maps(Preview(points, labels, **known | more), names, scaling)


def paths_of(svg: str) -> tuple[np.ndarray, np.ndarray]:
    """The points in the order of the script, in units of the drawing, and their clusters."""
    found = re.findall(r'data-cluster="(\d+)" d="([^"]*)"', svg)
    steps = [re.findall(r"M([\d.]+) ([\d.]+)h0", path) for _, path in found]
    clusters = [int(k) for (k, _), each in zip(found, steps, strict=True) for _ in each]
    return np.array([step for each in steps for step in each], float), np.array(clusters)


def area_of(paths: Any) -> float:
    """By the shoelace formula; holes count as negative."""
    total = 0.0
    for path in paths:
        for x, y in (polygon.T for polygon in path.to_polygons()):
            total += 0.5 * float((x[:-1] * y[1:] - x[1:] * y[:-1]).sum())
    return abs(total)


def test_points_are_drawn_where_they_are_cluster_by_cluster() -> None:
    rng = np.random.default_rng(0)
    x, labels = rng.normal(size=(300, 2)) * (1, 100) + (5, 0), rng.integers(0, 13, 300)
    maps = maps_of(x, labels)
    at, clusters = paths_of(maps.data(None).svg())
    np.testing.assert_array_equal(clusters, labels[maps.order])
    for drawn, values, sign in zip(at.T, x[maps.order].T, (1, -1), strict=True):
        slope, start = np.polyfit(values, drawn, 1)
        assert slope * sign > 0
        np.testing.assert_allclose(drawn, slope * values + start, atol=0.06)


@pytest.mark.parametrize("scaling", ["none", "standard"])
def test_many_columns_are_shown_on_the_principal_components(scaling: str) -> None:
    rng = np.random.default_rng(1)
    x, labels = rng.normal(size=(200, 6)) * (1, 2, 3, 4, 5, 60), rng.integers(0, 2, 200)
    maps = maps_of(x, labels, scaling)
    z = (x - x.mean(0)) / x.std(0) if scaling == "standard" else x
    expected = PCA(2).fit(z)
    np.testing.assert_allclose(np.abs(maps.place(x)), np.abs(expected.transform(z)), rtol=1e-5)
    assert maps.share == pytest.approx(expected.explained_variance_ratio_.sum())
    if scaling == "none":
        assert percent(expected.explained_variance_ratio_[0]) in maps.titles[0]
        assert "column 5" in maps.titles[0]


def test_the_network_s_map_is_the_same_every_time_and_tells_of_its_points(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(pictures, "MOST_NEAR", 40)
    rng = np.random.default_rng(2)
    labels = rng.integers(0, 3, 60)
    features = rng.normal(size=(60, 8)).astype(np.float32) + 6 * labels[:, None]
    maps = maps_of(rng.normal(size=(60, 5)), labels, features=features)
    first, second = maps.network(), maps.network()
    assert first is not None and second is not None and first.svg() == second.svg()
    at, clusters = paths_of(first.svg())
    assert len(maps.near) == 40
    np.testing.assert_array_equal(clusters, maps.labels[maps.near])
    centres = np.stack([at[clusters == k].mean(0) for k in range(3)])
    nearest = np.linalg.norm(at[:, None] - centres, axis=-1).argmin(1)
    np.testing.assert_array_equal(nearest, clusters)  # groups of the features stay groups


@pytest.mark.parametrize(
    "features", [np.zeros((40, 3), np.float32), np.full((40, 3), np.nan, np.float32)]
)
def test_features_that_say_nothing_have_no_map(features: np.ndarray) -> None:
    rng = np.random.default_rng(3)
    maps = maps_of(rng.normal(size=(40, 5)), rng.integers(0, 2, 40), features=features)
    assert maps.network() is None


@pytest.mark.parametrize(
    "x", [np.array([[1.0], [2.0], [3.0], [4.0]]), np.ones((4, 1)), np.ones((4, 5))]
)
def test_one_column_and_equal_points_are_drawn_too(x: np.ndarray) -> None:
    labels = np.array([0, 1, 0, 1])
    at, clusters = paths_of(maps_of(x, labels).data(None).svg())
    assert np.isfinite(at).all() and clusters.tolist() == sorted(labels.tolist())


def test_shades_are_the_clusters_of_new_rows_and_hold_the_shares_that_they_say() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(4000, 2))

    def density(points: np.ndarray) -> np.ndarray:
        return np.asarray(-0.5 * (points**2).sum(1))

    model = SimpleNamespace(
        predict=lambda points: (points[:, 0] > 0.5).astype(int),
        score_samples=density,
        sample=lambda n, random_state: (np.full((n, 2), 50.0), np.zeros(n, int)),
    )
    maps = maps_of(x, (x[:, 0] > 0.5).astype(int), log_density=density(x))
    left, right = (each.get_paths() for each in maps.data(model).figure.axes[0].collections)
    height = maps.high[1] - maps.low[1]
    assert area_of(left) == pytest.approx((0.5 - maps.low[0]) * height, rel=0.03)
    assert area_of(right) == pytest.approx((maps.high[0] - 0.5) * height, rel=0.03)
    held = maps.samples(model).figure.axes[0].collections
    assert maps.outside == pictures.SAMPLES
    for shade, share in zip(held, SHARES, strict=True):
        # The disk that holds a share of a Gaussian has the squared radius -2 log(1 - share).
        expected = -2 * np.pi * np.log(1 - share)
        assert area_of(shade.get_paths()) == pytest.approx(expected, rel=0.12)


def test_bars_have_the_counts_and_heights_by_their_root() -> None:
    picture = bars(np.repeat([0.01, 0.99], [4, 16]), "name", "title", "x")
    assert picture is not None
    (axes,) = picture.figure.axes
    heights = [bar.get_height() for bar in axes.patches]  # type: ignore[attr-defined]
    assert (len(heights), heights[0], heights[-1], sum(heights)) == (BINS, 4, 16, 20)
    zero, low, high = axes.transData.transform([(0, 0), (0, 4), (0, 16)])[:, 1]
    assert high - zero == pytest.approx(2 * (low - zero))


def test_one_far_row_does_not_use_up_the_histogram() -> None:
    values = np.random.default_rng(0).normal(-5, 2, 200)
    values[7:9] = -1e6, np.nan
    picture = bars(values, "density", "", "log p(x)", are_shares=False)
    assert picture is not None
    counts = [bar.get_height() for bar in picture.figure.axes[0].patches]  # type: ignore[attr-defined]
    low, high = picture.figure.axes[0].get_xlim()
    assert low > -100 and high == np.nanmax(values)
    assert counts[0] >= 1 and sum(counts) == 199 and sum(count > 0 for count in counts) > 10


@pytest.mark.parametrize("values", [None, np.full(3, np.nan)])
def test_values_that_are_not_known_have_no_histogram(values: Any) -> None:
    assert bars(values, "trust", "", "") is None


def test_curves_leave_out_what_is_not_finite_and_show_the_level() -> None:
    iterations, nan = np.arange(1.0, 6), np.nan
    gap = np.array([[1.0, 2], [nan, 2], [0.1, 2], [np.inf, 2], [-0.01, 2]])
    curves = Curves(iterations, {"inv": gap * nan, "a/../b": gap}, gap, 0)
    drawn = training(curves, 0.05)
    assert [picture.name for picture in drawn] == ["training", "training-inv", "training-1"]
    other, kept, level = drawn[0].figure.axes[0].lines
    np.testing.assert_array_equal(kept.get_ydata(), [1, nan, 0.1, nan, nan])
    np.testing.assert_array_equal(other.get_ydata(), 2)
    assert list(level.get_ydata()) == [0.05, 0.05]
    assert drawn[0].figure.axes[0].get_yscale() == "log"
    assert drawn[1].svg()


def test_a_picture_is_drawn_in_the_page_s_colours_and_is_a_file_too(tmp_path: Path) -> None:
    x, labels = np.random.default_rng(0).normal(size=(60, 2)), np.arange(60) % 12
    names = ["$\\frac{ <b>", "\udcff\x1b[31m" + "é" * 60]
    picture = maps_of(x, labels, names=names).data(None)
    svg = picture.svg()
    assert "$\\frac{ &lt;b&gt;" in svg and "<b>" not in svg
    assert not re.search(r"#[0-9a-f]{6}|http:|<style|font-family", svg)
    assert 'class="dots c1 square" data-cluster="11"' in svg
    ids = re.findall(r' id="([^"]*)"', svg + bars(np.ones(3), "b", "", "").svg())
    assert len(ids) == len(set(ids))
    with Image.open(picture.save(tmp_path / "figures")) as opened:
        assert opened.format == "PNG" and opened.width > 600


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        *((59654.2, "59,654"), (3, "3"), (0.00012345, "0.0001234"), (1e12, "1e+12")),
        *((float("nan"), "not finite"), (12.3456, "12.35"), (-7.0, "-7")),
    ],
)
def test_numbers_are_written_as_people_do(value: Any, shown: str) -> None:
    assert digits(value) == shown


@pytest.mark.parametrize("channels", [1, 3, 4])
def test_images_become_small_pictures_of_the_same_colours(channels: int) -> None:
    images = np.zeros((3, channels, 200, 100))
    images[1:] = 255
    images[:, :, :, :50] = 51
    small = Thumbnails(images)
    assert small.size == (24, 48)
    url = small.url(images[1])
    content = base64.b64decode(url.removeprefix("data:image/webp;base64,"))
    with Image.open(io.BytesIO(content)) as opened:
        pixels = np.asarray(opened.convert("RGB"), float)
    np.testing.assert_allclose(pixels[:, :8], 51, atol=4)
    np.testing.assert_allclose(pixels[:, 16:], 255, atol=4)


def test_small_pictures_are_exact_and_large_ones_leave_room_on_the_page() -> None:
    noise = np.random.default_rng(0).integers(0, 256, (100, 3, 64, 64)).astype(float)
    large, small = Thumbnails(noise), Thumbnails(noise[:, :, :8, :8])
    assert sum(len(large.url(image)) for image in noise) < 5_000 * len(noise)
    content = base64.b64decode(small.url(noise[0, :, :8, :8]).partition(",")[2])
    with Image.open(io.BytesIO(content)) as opened:
        np.testing.assert_array_equal(np.asarray(opened).transpose(2, 0, 1), noise[0, :, :8, :8])


def test_ticks_have_no_offset() -> None:
    flat = 1.0985 + 1e-6 * np.arange(5.0)[:, None]
    curves = Curves(np.arange(1.0, 6), {"prior": flat}, flat, 0)
    svg = training(curves, 0.0)[1].svg()
    assert "1.0985" in svg and "1e" not in svg and "+1" not in svg


def test_bands_are_as_wide_as_the_shares_of_rows_that_they_join() -> None:
    splits = [
        np.array([[30, 0, 20], [0, 40, 10]]),
        np.array([[30, 0, 0, 0], [0, 0, 40, 0], [0, 25, 0, 5]]),
    ]
    before = [(), *(tuple(map(tuple, flow.tolist())) for flow in splits)]
    numbers = [Number(k, 0.9, None, 1, 0.1, "tree", before[k - 2]) for k in (2, 3, 4)]
    evidence, drawn = pictures.numbers(NumberChoice(3, tuple(numbers)))
    assert len(evidence.figure.axes) == 3
    (axes,) = drawn.figure.axes
    widths = [100 * line.get_linewidth() / WIDEST for line in axes.lines]
    expected = [each for flow in splits for each in flow[flow > 0].tolist()]
    assert sorted(widths) == pytest.approx(sorted(expected))
    assert {tuple(line.get_xdata()) for line in axes.lines} == {(2, 3), (3, 4)}
    ends = [(x, y) for line in axes.lines for x, y in zip(*line.get_data(), strict=True)]
    dots = {tuple(at) for dots in axes.collections for at in dots.get_offsets().tolist()}
    assert set(ends) == dots and len(dots) == 2 + 3 + 4


def test_a_tree_has_a_line_for_each_cluster_and_of_many_the_last_merges() -> None:
    def drawn(n: int) -> list[str]:
        x = np.random.default_rng(0).normal(size=(n, 2))
        picture = pictures.hierarchy(
            hierarchy(x, np.arange(n), np.eye(n)), list(map(str, range(n)))
        )
        assert picture is not None
        (axes,) = picture.figure.axes
        picture.svg()
        return [label.get_text() for label in axes.get_yticklabels()]

    assert sorted(drawn(20), key=int) == list(map(str, range(20)))
    shown = drawn(300)
    counts = [int(name.split()[0]) for name in shown if name.endswith(" clusters")]
    assert len(shown) == pictures.MOST_LEAVES
    assert sum(counts) + len(shown) - len(counts) == 300
    assert pictures.hierarchy(np.zeros((0, 4)), ["0"]) is None
