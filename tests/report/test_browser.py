"""The report in a real browser: what people see, point at, and do not have to wait for.

Playwright drives the browser that the machine has (Debian's package chromium); its own would have
to be downloaded. Where there is none, these tests are skipped.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from gedilearn.report.page import write_report
from helpers import gedi

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "chrome"))), None)
if BROWSER is None:
    pytest.skip("no browser: apt-get install chromium", allow_module_level=True)
playwright = pytest.importorskip("playwright.sync_api", reason="pip install playwright")
axe = pytest.importorskip("axe_playwright_python", reason="pip install axe-playwright-python")

pytestmark = pytest.mark.browser
QUIET = [
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync"),
    *("--disable-background-networking", "--disable-component-update"),
]
SMALL: dict[str, Any] = {
    "max_iter": 8,
    "training.check_every": 4,
    "network.hidden": (16,),
    "density.iterations": 10,
    "density.base": "none",
    "sampler.steps": 2,
    "random_state": 0,
    "device": "cpu",
}
HOSTILE = "<img src=x onerror=alert(1)>'\"&</script><script>alert(2)</script>"
MEGABYTE = 10**6


def table() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    x = np.concatenate([rng.normal(m, 1, (40, 5)) for m in (-3, 0, 3)])
    x[:, 2] += np.repeat([-3, 0, 3], 40)  # tells most of a row's cluster, so that it is shown
    return pd.DataFrame(x, columns=["income", "visits", HOSTILE, "a" * 80, "age"])


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The reports of a table, a plane, images and 100,000 points."""
    folder, rng = tmp_path_factory.mktemp("runs"), np.random.default_rng(0)
    data: dict[str, Any] = {
        "table": table(),
        "plane": rng.normal(size=(90, 2)) * (1, 50) + (0, 1000),
        "images": rng.integers(0, 256, (30, 3, 12, 12), dtype=np.uint8),
        "many": rng.normal(size=(100_000, 8)) + 5 * rng.integers(0, 4, (100_000, 1)),
    }
    found = {}
    for name, x in data.items():
        more = dict(SMALL)
        if name == "table":
            more |= {"max_iter": 60}
        if name == "many":  # no neighbours, no density: only the page is looked at
            more |= {"views": lambda x, generator: x, "method": "no-gen"}
        gedi(3, run_dir=folder / name, **more).fit(x)
        found[name] = write_report(folder / name)
    return found


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with playwright.sync_playwright() as started:
        opened = started.chromium.launch(executable_path=BROWSER, args=QUIET)
        yield opened
        opened.close()


class Shown:
    """A page in a window, and what happened while it was shown."""

    def __init__(self, browser: Any, path: Path, width: int = 1100, **more: Any) -> None:
        window = {"width": width, "height": 900}
        self.context = browser.new_context(viewport=window, reduced_motion="reduce", **more)
        self.page, self.said, self.asked = self.context.new_page(), [], []
        self.page.on("console", lambda message: self.said.append(message.text))
        self.page.on("pageerror", lambda error: self.said.append(str(error)))
        self.page.on("dialog", lambda dialog: (self.said.append("dialog"), dialog.dismiss()))
        self.page.on("request", lambda request: self.asked.append(request.url))
        self.page.goto(path.as_uri())

    def __enter__(self) -> Shown:
        return self

    def __exit__(self, *_: object) -> None:
        self.context.close()

    def box(self, number: int = 0) -> list[float]:
        """What a map shows of its plane: x, y, width, height."""
        plane = self.page.locator("figure.points svg.plane").nth(number)
        return [float(v) for v in plane.get_attribute("viewBox").split()]

    def first_point(self, cluster: int) -> list[float]:
        """The place of a cluster's first point on the first map, in the window."""
        plane = self.page.locator("figure.points svg.plane").first
        plane.scroll_into_view_if_needed()
        return plane.evaluate(
            """(plane, cluster) => {
                const path = plane.querySelector(`path[data-cluster='${cluster}']`);
                const [x, y] = path.getAttribute("d").split("M")[1].slice(0, -2).split(" ");
                const at = new DOMPoint(x, y).matrixTransform(path.getScreenCTM());
                return [at.x, at.y];
            }""",
            cluster,
        )


@pytest.mark.parametrize(
    ("name", "scheme", "width"),
    [
        *((name, "light", 390) for name in ("table", "plane", "images", "many")),
        *((name, "dark", 1100) for name in ("table", "plane", "images", "many")),
    ],
)
def test_a_page_asks_for_nothing_fits_its_window_and_is_accessible(
    browser: Any, pages: dict[str, Path], name: str, scheme: str, width: int
) -> None:
    with Shown(browser, pages[name], width, color_scheme=scheme) as shown:
        page = shown.page
        page.evaluate("document.querySelectorAll('details').forEach(d => d.open = true)")
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert [url for url in shown.asked if not url.startswith(("file:", "data:"))] == []
        assert sum(url.startswith("file:") for url in shown.asked) == 1
        assert shown.said == []
        ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
        dark = sum(int(v) for v in ground[4:-1].split(",")) < 3 * 128
        assert dark == (scheme == "dark")
        page.evaluate((Path(axe.__file__).parent / "axe.min.js").read_text())
        found = page.evaluate("axe.run()")["violations"]
        assert [(v["id"], v["nodes"][0]["html"]) for v in found] == []


def test_pointing_at_a_point_tells_of_its_row_on_every_map(browser: Any, pages: dict) -> None:
    with Shown(browser, pages["table"]) as shown:
        page = shown.page
        tooltips = json.loads(page.locator("#points").text_content())
        page.mouse.move(*shown.first_point(1))
        box = page.locator(".tooltip:visible")
        assert box.count() == 1
        index = tooltips["cluster"].index(1)
        words = box.inner_text()
        near = [i for i, row in enumerate(tooltips["row"]) if f"Row {row}, cluster 1" in words]
        assert near and tooltips["cluster"][near[0]] == 1 and abs(near[0] - index) < 40
        assert f"trust {dict(tooltips['columns'])['trust'][near[0]]:.4g}" in words
        assert "probability" in words and "log p(x)" in words and "<img src=x" in words
        assert page.locator(".ring:visible").count() == 2
        page.mouse.move(1, 1)
        assert page.locator(".tooltip:visible").count() == 0


def test_maps_are_zoomed_by_buttons_keys_and_wheel_and_the_page_still_scrolls(
    browser: Any, pages: dict
) -> None:
    # `wait_for_function` evaluates text again and again, which the page's content policy forbids.
    with Shown(browser, pages["table"], bypass_csp=True) as shown:
        page, whole, other = shown.page, shown.box(), shown.box(1)
        page.get_by_role("button", name="Zoom in").first.click()
        x, _, width, height = shown.box()
        assert width == pytest.approx(0.6 * whole[2]) and height == pytest.approx(0.6 * whole[3])
        assert x + width / 2 == pytest.approx(whole[0] + whole[2] / 2)
        assert shown.box(1) == other  # the other map stays
        page.get_by_role("button", name="Show all points").first.click()
        assert shown.box() == pytest.approx(whole)
        stage = page.get_by_role("group", name="Map:").first
        stage.focus()
        page.keyboard.press("+")
        page.keyboard.press("ArrowRight")
        assert shown.box()[0] > x
        page.keyboard.press("0")
        assert shown.box() == pytest.approx(whole)
        stage.hover()
        before = page.evaluate("scrollY")
        page.mouse.wheel(0, 200)
        page.wait_for_function(f"scrollY > {before}")
        assert shown.box() == pytest.approx(whole)
        stage.hover()
        page.keyboard.down("Control")
        page.mouse.wheel(0, -200)
        page.keyboard.up("Control")
        plane = "document.querySelector('figure.points svg.plane')"
        page.wait_for_function(f"{plane}.viewBox.baseVal.width < {0.9 * whole[2]}")
        assert shown.said == []


def test_a_cluster_of_the_legend_is_lit_and_leads_to_its_card(browser: Any, pages: dict) -> None:
    with Shown(browser, pages["table"]) as shown:
        link = shown.page.locator(".legend a").nth(2)
        link.hover()
        lit = shown.page.locator("figure.points path.lit")
        assert {lit.nth(i).get_attribute("data-cluster") for i in range(lit.count())} == {"2"}
        link.click()
        assert shown.page.url.endswith("#cluster-2")
        assert shown.page.locator("#cluster-2").is_visible()


def test_everything_but_pointing_works_without_scripts(browser: Any, pages: dict) -> None:
    with Shown(browser, pages["table"], java_script_enabled=False) as shown:
        page = shown.page
        assert page.locator("figure.points svg.chart").count() == 2
        assert page.locator(".tools").count() == 0
        first = page.locator("figure.points").first
        assert first.locator("path[data-cluster]").count() == 3
        assert page.locator("article.card").count() == 3
        fold = page.locator("details", has_text="Training curves")
        assert not fold.locator("svg").first.is_visible()
        fold.locator("summary").click()
        assert fold.locator("svg").first.is_visible()


def test_no_other_script_runs_in_the_page(browser: Any, pages: dict) -> None:
    with Shown(browser, pages["table"]) as shown:
        shown.page.evaluate(
            """() => {
                const script = document.createElement("script");
                script.textContent = "window.ran = true";
                document.body.append(script);
            }"""
        )
        assert shown.page.evaluate("window.ran") is None
        assert any("Content Security Policy" in line for line in shown.said)


def test_a_picture_is_shown_of_the_image_that_is_pointed_at(browser: Any, pages: dict) -> None:
    with Shown(browser, pages["images"]) as shown:
        shown.page.mouse.move(*shown.first_point(0))
        picture = shown.page.locator(".tooltip:visible img")
        assert picture.evaluate("img => img.complete && img.naturalWidth") == 12
        assert shown.said == []


def test_the_page_of_many_points_is_small(pages: dict[str, Path]) -> None:
    for path in pages.values():
        assert path.stat().st_size < 3 * MEGABYTE
    assert "of the 100,000 rows are drawn" in pages["many"].read_text()
