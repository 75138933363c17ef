import base64
import json
import shutil
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
import yaml

from gedilearn.errors import InputError
from gedilearn.report import page
from gedilearn.report.page import write_report
from helpers import gedi

HOSTILE = "<script>alert(1)</script>\"'><img src=http://evil.example/x onerror=alert(2)>"


class Parsed(HTMLParser):
    """The elements, their attributes and the text of a page, as a browser would see them."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.pieces: list[str] = []
        self.rows: list[list[str]] = []
        self.in_cell = False
        self.feed(html)
        self.text = " ".join(self.pieces)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.rows[-1].append("")
            self.in_cell = True

    def handle_endtag(self, tag: str) -> None:
        if tag in ("td", "th"):
            self.in_cell = False

    def handle_data(self, data: str) -> None:
        self.pieces.append(data)
        if self.in_cell:
            self.rows[-1][-1] += data


@pytest.fixture(scope="module")
def fitted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("runs") / "run"
    x = np.random.default_rng(0).normal(size=(60, 3))
    small = {"training.check_every": 4, "network.hidden": (16,)}
    model = gedi(3, max_iter=8, device="cpu", random_state=0, run_dir=path, **small)
    model.fit(x)
    return path


@pytest.fixture
def run(fitted: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy to spoil, with small stand-ins for the figures, which have tests of their own."""

    def stand_ins(path: Path) -> list[Path]:
        (path / "figures").mkdir(exist_ok=True)
        paths = [path / "figures" / name for name in ("training.png", "clusters.png")]
        for file in paths:
            file.write_bytes(b"picture " + file.name.encode())
        return paths

    monkeypatch.setattr(page, "draw_all", stand_ins)
    return Path(shutil.copytree(fitted, tmp_path / "run"))


def read_summary(run: Path) -> dict:
    return json.loads((run / "summary.json").read_text())


def change_summary(run: Path, **changes: object) -> None:
    (run / "summary.json").write_text(json.dumps(read_summary(run) | changes))


def change_config(run: Path, **changes: object) -> None:
    config = yaml.safe_load((run / "config.yaml").read_text())
    (run / "config.yaml").write_text(yaml.safe_dump(config | changes))


def test_the_report_embeds_real_figures(fitted: Path, tmp_path: Path) -> None:
    run = Path(shutil.copytree(fitted, tmp_path / "run"))
    path = write_report(run)
    assert path == run / "report.html"
    sources = [a["src"] or "" for tag, a in Parsed(path.read_text()).elements if tag == "img"]
    embedded = [base64.b64decode(s.removeprefix("data:image/png;base64,")) for s in sources]
    drawn = [(run / "figures" / name).read_bytes() for name in ("training.png", "clusters.png")]
    assert embedded == drawn
    assert all(content.startswith(b"\x89PNG") for content in drawn)


def test_the_verdict_comes_first(run: Path) -> None:
    text = Parsed(write_report(run).read_text()).text
    verdict = read_summary(run)["verdict"]
    assert verdict in text
    assert text.index("Not certified") < text.index(verdict) < text.index("Findings")


@pytest.mark.parametrize(
    ("certified", "gap", "failed_modes", "head"),
    [
        (True, 0.001, [], "Certified"),
        (True, 0.001, [None], "Certified, with remarks"),
        (False, 0.5, [], "Not certified"),
        (False, 0.5, ["cluster collapse"] * 2, "Not certified: cluster collapse"),
        (False, "inf", [], "Not certified: training diverged"),
    ],
)
def test_the_verdict_is_in_plain_words(
    run: Path, certified: bool, gap: object, failed_modes: list[str | None], head: str
) -> None:
    findings = [
        {"name": "n", "value": 1, "threshold": 2, "ok": False, "words": "w", "mode": mode}
        for mode in failed_modes
    ]
    diagnosis = {"findings": findings, "gap": gap, "tol": 0.01}
    change_summary(run, certified=certified, gap=gap, diagnosis=diagnosis)
    html = write_report(run).read_text()
    assert f"<strong>{head}</strong>" in html
    assert ('class="verdict good"' in html) == (head == "Certified")


def test_every_finding_is_listed_with_its_number_and_threshold(run: Path) -> None:
    parsed = Parsed(write_report(run).read_text())
    for finding in read_summary(run)["diagnosis"]["findings"]:
        (row,) = (row for row in parsed.rows if row[0] == finding["name"])
        assert float(row[1]) == pytest.approx(finding["value"], rel=1e-3)
        assert float(row[2]) == pytest.approx(finding["threshold"], rel=1e-3)
        assert row[3] == ("ok" if finding["ok"] else "not ok")
        assert row[4].startswith(finding["words"])


def test_gap_tolerance_sizes_version_and_fingerprint_are_there(run: Path) -> None:
    parsed = Parsed(write_report(run).read_text())
    summary, config = read_summary(run), yaml.safe_load((run / "config.yaml").read_text())
    assert f"{summary['gap']:.4g}" in parsed.text
    assert "0.002" in parsed.text
    for cluster, size in enumerate(summary["cluster_sizes"]):
        assert [str(cluster), str(size), f"{size / 60:.1%}"] in parsed.rows
    assert config["data"]["fingerprint"] in parsed.text
    assert f"gedi-learn {config['version']}" in parsed.text
    assert f"in {summary['seconds']} seconds" in parsed.text


def test_only_settings_that_differ_from_the_defaults_are_listed(run: Path) -> None:
    parsed = Parsed(write_report(run).read_text())
    start = parsed.rows.index(["setting", "value", "default"]) + 1
    listed = {row[0]: row[1:] for row in parsed.rows[start : start + 5]}
    assert listed == {
        "n_clusters": ["3", "2"],
        "network.hidden": ["[16]", "[100, 100]"],
        "training.max_iter": ["8", "200"],
        "training.check_every": ["4", "50"],
        "device.accelerator": ['"cpu"', '"auto"'],
    }
    assert parsed.rows[start + 5][0] == "training"  # the next table


def test_events_are_in_the_order_of_time(run: Path) -> None:
    events = [
        {"time": f"2024-01-0{day}T00:00:00Z", "kind": "finding", "message": f"day {day}"}
        for day in (3, 1, 2)
    ]
    (run / "events.jsonl").write_text("".join(json.dumps(e) + "\n" for e in events))
    rows = Parsed(write_report(run).read_text()).rows
    assert [row[3] for row in rows if row[-1].startswith("day")] == ["day 1", "day 2", "day 3"]


def test_text_from_files_stays_text(run: Path) -> None:
    clean = Parsed(write_report(run).read_text())
    config = yaml.safe_load((run / "config.yaml").read_text())
    change_config(
        run,
        data=config["data"] | {"source": HOSTILE, HOSTILE: HOSTILE, "fingerprint": HOSTILE},
        version=HOSTILE,
        settings=config["settings"] | {HOSTILE: HOSTILE},
        objects=[HOSTILE],
    )
    finding = {"name": HOSTILE, "value": 1, "threshold": 1, "ok": False, "words": HOSTILE}
    diagnosis = {"findings": [finding | {"mode": HOSTILE}], "gap": 1, "tol": 1}
    change_summary(run, verdict=HOSTILE, diagnosis=diagnosis)
    event = {"time": HOSTILE, "kind": HOSTILE, "message": HOSTILE, "iteration": HOSTILE}
    (run / "events.jsonl").write_text(json.dumps(event) + "\n")
    html = write_report(run).read_text()
    hostile = Parsed(html)
    assert "&lt;script&gt;alert(1)&lt;/script&gt;&quot;" in html
    assert HOSTILE in hostile.text
    assert {tag for tag, _ in hostile.elements} <= {tag for tag, _ in clean.elements}
    allowed = {"charset", "class", "content", "http-equiv", "lang", "name", "scope", "alt", "src"}
    for _, attributes in hostile.elements:
        assert attributes.keys() <= allowed
        assert (attributes.get("src") or "data:image/png").startswith("data:image/png")


def test_the_page_asks_for_nothing_from_outside(run: Path) -> None:
    html = write_report(run).read_text()
    assert "default-src 'none'" in html
    assert "http://" not in html
    assert "https://" not in html
    assert "url(" not in html
    assert "prefers-color-scheme: dark" in html


def test_a_second_report_replaces_the_first_and_leaves_no_parts(run: Path) -> None:
    write_report(run)
    change_summary(run, verdict="another verdict")
    assert "another verdict" in write_report(run).read_text()
    assert not list(run.rglob("*.part"))


@pytest.mark.parametrize("text", ["1" + "0" * 400, "2020-01-01", "{1: 2}", "[]", ".nan"])
@pytest.mark.parametrize("name", ["tol", "max_iter"])
def test_a_setting_that_is_none_is_shown_as_it_is(run: Path, name: str, text: str) -> None:
    config = run / "config.yaml"
    settings = yaml.safe_load(config.read_text())["settings"]["training"]
    config.write_text(
        config.read_text().replace(f"    {name}: {settings[name]}\n", f"    {name}: {text}\n")
    )
    page = write_report(run).read_text()
    assert f"training.{name}" in page


def test_a_run_without_a_result_is_refused_in_one_line(run: Path, tmp_path: Path) -> None:
    (run / "summary.json").unlink()
    with pytest.raises(InputError, match="gedi resume") as caught:
        write_report(run)
    assert "\n" not in str(caught.value)
    assert not (run / "report.html").exists()
    with pytest.raises(InputError, match="no such folder"):
        write_report(tmp_path / "nowhere")
