"""Maps and charts: what is drawn where, against the numbers that it is drawn from."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.decomposition import PCA

from gedilearn.report import charts
from gedilearn.report.charts import Plane, areas, bars, dots, nodes
from gedilearn.report.maps import HELD, Maps
from gedilearn.report.markup import beside, digits, percent
from gedilearn.report.pictures import Pictures, side_for
from gedilearn.report.run import Preview

STEP = re.compile(r"M(-?[\d.]+) (-?[\d.]+)h0")


def maps_of(points: np.ndarray, labels: np.ndarray, scaling: str = "none", **more) -> Maps:
    """Of a run that is not there."""
    sizes = np.bincount(labels).tolist()
    config = SimpleNamespace(settings={"scaling": scaling})
    read = SimpleNamespace(config=config, finished=lambda: {"cluster_sizes": sizes})
    return Maps(read, Preview(points, labels, **more), None)


def drawn_at(drawing: str, plane: Plane) -> tuple[np.ndarray, np.ndarray]:
    """The points of a map in the units of its axes, in the order of the script, and clusters."""
    found, clusters = [], []
    for cluster, path in re.findall(r'<path data-cluster="(\d+)"[^>]* d="([^"]*)"', drawing):
        steps = STEP.findall(path)
        found += [(float(x), float(y)) for x, y in steps]
        clusters += [int(cluster)] * len(steps)
    x, y = np.array(found).T
    x = plane.x0 + x / plane.inner_width * (plane.x1 - plane.x0)
    y = plane.y1 - y / plane.inner_height * (plane.y1 - plane.y0)
    return np.column_stack([x, y]), np.array(clusters)


def test_points_are_drawn_where_they_are_and_told_of_in_the_same_order():
    rng = np.random.default_rng(0)
    x, labels = rng.normal(size=(300, 2)) * (1, 100) + (5, 0), rng.integers(0, 3, 300)
    rows, p = np.arange(300) * 7, rng.uniform(size=300)
    maps = maps_of(x, labels, rows=rows, probability=p, log_density=p - 3)
    at, clusters = drawn_at(maps.data(None).drawing, maps.plane)
    told = maps.hover_data()
    assert clusters.tolist() == told["cluster"]
    index = np.array(told["row"]) // 7
    np.testing.assert_allclose(at, x[index], atol=0.6 * np.ptp(x, axis=0).max() / 400 * 0.5)
    np.testing.assert_array_equal(labels[index], clusters)
    np.testing.assert_allclose(told["p"], p[index], rtol=1e-3)
    np.testing.assert_allclose(np.array(told["values"]).T, x[index], rtol=1e-3)


@pytest.mark.parametrize("scaling", ["none", "standard"])
def test_many_columns_are_shown_on_the_principal_components(scaling):
    rng = np.random.default_rng(1)
    x, labels = rng.normal(size=(200, 6)) * (1, 2, 3, 4, 5, 60), rng.integers(0, 2, 200)
    maps = maps_of(x, labels, scaling)
    z = (x - x.mean(0)) / x.std(0) if scaling == "standard" else x
    expected = PCA(2).fit(z)
    np.testing.assert_allclose(np.abs(maps.place(x)), np.abs(expected.transform(z)), rtol=1e-5)
    if scaling == "none":
        assert percent(expected.explained_variance_ratio_[0]) in maps.data(None).drawing
        assert "column 5" in maps.data(None).drawing


def test_the_network_map_is_the_same_every_time_and_of_the_same_points():
    rng = np.random.default_rng(2)
    labels = rng.integers(0, 3, 60)
    features = rng.normal(size=(60, 8)).astype(np.float32) + 6 * labels[:, None]
    maps = maps_of(rng.normal(size=(60, 5)), labels, features=features)
    first = maps.network()
    assert first is not None and first.drawing == maps.network().drawing
    ranges = re.findall(r'data-index="([^"]*)"', first.drawing)
    index = [i for part in " ".join(ranges).split() for i in _expanded(part)]
    assert index == list(range(60))


def _expanded(part: str) -> range:
    first, _, last = part.partition("-")
    return range(int(first), int(last or first) + 1)


@pytest.mark.parametrize(
    "features", [None, np.zeros((40, 3), np.float32), np.full((40, 3), np.nan, np.float32)]
)
def test_features_that_say_nothing_have_no_map(features):
    rng = np.random.default_rng(3)
    maps = maps_of(rng.normal(size=(40, 5)), rng.integers(0, 2, 40), features=features)
    assert maps.network() is None


def test_one_column_and_equal_points_are_drawn_too():
    labels = np.array([0, 1, 0, 1])
    for x in (np.array([[1.0], [2.0], [3.0], [4.0]]), np.ones((4, 1)), np.ones((4, 5))):
        at, clusters = drawn_at(maps_of(x, labels).data(None).drawing, maps_of(x, labels).plane)
        assert np.isfinite(at).all() and clusters.tolist() == [0, 0, 1, 1]


def test_areas_cover_the_cells_of_their_value_and_no_others():
    plane = Plane(0, 1, 0, 1)
    grid = np.random.default_rng(0).integers(0, 3, (5, 7))
    covered = np.zeros_like(grid, int)
    middles = nodes(plane, 7, 5)
    for value, path in enumerate(re.findall(r' d="([^"]*)"', areas(plane, grid, enumerate("abc")))):
        for x0, y0, x1, y1 in re.findall(r"M([\d.]+) ([\d.]+)H([\d.]+)V([\d.]+)H[\d.]+z", path):
            across = (plane.x(middles[:, 0]) > float(x0)) & (plane.x(middles[:, 0]) < float(x1))
            down = (plane.y(middles[:, 1]) < float(y0)) & (plane.y(middles[:, 1]) > float(y1))
            inside = (across & down).reshape(5, 7)
            assert (grid[inside] == value).all()
            covered += inside
    np.testing.assert_array_equal(covered, 1)


def test_shades_hold_the_shares_of_the_rows_that_they_say():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(4000, 2))

    def density(points: np.ndarray) -> np.ndarray:
        return -0.5 * (points**2).sum(1)

    maps = maps_of(x, np.zeros(4000, int), log_density=density(x))
    drawing = maps._held(SimpleNamespace(score_samples=density))
    area = (maps.plane.x1 - maps.plane.x0) * (maps.plane.y1 - maps.plane.y0)
    unit = area / (maps.plane.inner_width * maps.plane.inner_height)
    inner = 0.0
    for path, share in zip(re.findall(r' d="([^"]*)"', drawing)[::-1], HELD[::-1], strict=True):
        found = re.findall(r"M([\d.]+) ([\d.]+)H([\d.]+)V([\d.]+)", path)
        cells = np.array(found, float)
        inner += ((cells[:, 2] - cells[:, 0]) * (cells[:, 1] - cells[:, 3])).sum() * unit
        # The disk that holds a share of a Gaussian has the squared radius -2 log(1 - share).
        assert inner == pytest.approx(-2 * np.pi * np.log(1 - share), rel=0.12)


def test_bars_have_heights_by_the_root_of_their_counts_and_say_them():
    drawing = bars([0, 1, 2, 3], [4, 0, 16], "name", "x", below=3)
    heights = [float(h) for h in re.findall(r'class="bar"[^>]* height="([\d.]+)"', drawing)]
    assert heights[1] == pytest.approx(2 * heights[0], rel=0.01)
    assert "0 to 1: 4</title>" in drawing and "3 lower still" in drawing


def test_curves_leave_out_what_is_not_finite():
    x, y = np.arange(5.0), np.array([1.0, np.nan, 0.1, np.inf, 0.01])
    drawing = charts.lines(x, [(y, "kept")], "gap", "nats", level=0.05, logarithmic=True)
    (path,) = re.findall(r'class="line kept" d="([^"]*)"', drawing)
    assert path.count("M") == 3 and path.count("L") == 0 and 'class="level"' in drawing
    assert "no finite value" in charts.lines(x, [(y * np.nan, "kept")], "gap", "nats")


def test_dots_are_one_path_of_one_step_each():
    points = np.random.default_rng(0).uniform(size=(50, 2))
    assert len(STEP.findall(dots(Plane(0, 1, 0, 1), points, "c0"))) == 50


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        *((59654.2, "59,654"), (3, "3"), (0.00012345, "0.0001234"), (1e12, "1e+12")),
        *(("nan", "not finite"), (12.3456, "12.35"), (-7.0, "-7")),
    ],
)
def test_numbers_are_written_as_people_do(value, shown):
    assert digits(value) == shown


@pytest.mark.parametrize(
    ("pair", "shown"),
    [
        ((1.002, -0.00058), ("1.00", "0.00")),
        ((30344.1, 59155.2), ("30,344", "59,155")),
        ((3.1041, 3.0359), ("3.104", "3.036")),
        ((0.0, 0.0), ("0", "0")),
        ((7.0, 7.0), ("7.000", "7.000")),
    ],
)
def test_two_means_have_the_digits_that_tell_them_apart(pair, shown):
    assert beside(*pair) == shown


@pytest.mark.parametrize(
    ("share", "shown"),
    [(1, "100%"), (0.9996, "99.9%"), (0.996, "99.6%"), (0.5, "50%"), (0.082, "8.2%"), (0, "0%")],
)
def test_nearly_all_is_not_all(share, shown):
    assert percent(share) == shown


def test_many_or_large_pictures_become_small():
    assert side_for(10, (10, 3, 8, 8)) == 8
    assert side_for(10, (10, 3, 300, 200)) == 96
    assert side_for(10_000, (10, 3, 300, 200)) ** 2 * 10_000 <= 1_000_000
    rng = np.random.default_rng(0)
    for channels in (1, 3, 4):
        images = rng.uniform(size=(3, channels, 200, 100))
        strip = Pictures.like(images).strip(images, 5, 20, "<b>")
        assert 'alt="&lt;b&gt;"' in strip and strip.count("data:image/png;base64,") == 1
    as_bytes = Pictures.like(np.array([[[[0.0, 200.0]]]])).bytes(np.array([[[[51.0]]]]))
    assert as_bytes.tolist() == [[[[51, 51, 51]]]]


def test_pictures_leave_room_on_a_page_of_three_megabytes_even_of_noise():
    noise = np.random.default_rng(0).integers(0, 256, (1000, 3, 64, 64)).astype(float)
    pictures, side = Pictures.like(noise), side_for(150, noise.shape)
    strips = sum(len(pictures.strip(noise[i : i + 5], 5, side, "")) for i in range(0, 150, 5))
    assert strips + len(pictures.sheet(noise)) < 2.7e6


def test_the_page_s_colours_stand_out_in_light_and_dark():
    style = (Path(charts.__file__).parent / "page.css").read_text()
    light, dark = style.split("prefers-color-scheme: dark")
    for part in (light, dark[: dark.index("* {")]):
        colours = dict(re.findall(r"--(\w+): #([0-9a-f]{6});", part))
        for name, least in {"ink": 7, "quiet": 4.5, "link": 4.5, "good": 4.5, "bad": 4.5}.items():
            for ground in ("paper", "soft", "raised"):
                assert contrast(colours[name], colours[ground]) >= least, name
        for k in range(charts.COLOURS):
            assert contrast(colours[f"c{k}"], colours["raised"]) >= 3, k


def contrast(one: str, other: str) -> float:
    """The ratio of WCAG 2."""

    def luminance(colour: str) -> float:
        parts = [int(colour[i : i + 2], 16) / 255 for i in (0, 2, 4)]
        linear = [v / 12.92 if v <= 0.04045 else ((v + 0.055) / 1.055) ** 2.4 for v in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    high, low = sorted((luminance(one), luminance(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)
