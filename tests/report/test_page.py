import base64
import hashlib
import json
import re
import shutil
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
import yaml
from markupsafe import Markup
from safetensors.torch import load_file, save_file

from gedilearn import GEDI
from gedilearn.errors import InputError
from gedilearn.report.page import write_report
from gedilearn.report.pictures import Picture
from gedilearn.report.run import Run
from gedilearn.settings import STARTED
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
    x += 3 * np.repeat(np.eye(3), 20, axis=0)  # clusters that overlap: all three have rows
    small = {"training.check_every": 4, "network.hidden": (16,)}
    model = gedi(3, max_iter=8, device="cpu", random_state=0, run_dir=path, **small)
    model.fit(x)
    return path


@pytest.fixture
def run(fitted: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy to spoil, without its pictures, which have tests of their own."""
    monkeypatch.setattr(Picture, "svg", lambda picture: Markup(f"<svg>{picture.name}</svg>"))
    monkeypatch.setattr(Picture, "save", lambda picture, folder: folder)
    return Path(shutil.copytree(fitted, tmp_path / "run"))


def read_summary(run: Path) -> dict:
    return json.loads((run / "summary.json").read_text())


def change_summary(run: Path, **changes: object) -> None:
    (run / "summary.json").write_text(json.dumps(read_summary(run) | changes))


def change_config(run: Path, **changes: object) -> None:
    config = yaml.safe_load((run / "config.yaml").read_text())
    (run / "config.yaml").write_text(yaml.safe_dump(config | changes))


def test_the_report_writes_the_pictures_beside_it_and_leaves_pyplot_alone(
    fitted: Path, tmp_path: Path
) -> None:
    from matplotlib import get_backend, pyplot

    run, backend = Path(shutil.copytree(fitted, tmp_path / "run")), get_backend()
    path = write_report(run)
    assert path == run / "report.html" and not list(run.rglob("*.part"))
    drawn = {file.name: file.read_bytes() for file in (run / "figures").iterdir()}
    assert {"clusters.png", "network.png", "samples.png", "training.png"} <= drawn.keys()
    assert all(content.startswith(b"\x89PNG") for content in drawn.values())
    assert path.read_text().count('<svg class="chart"') == len(drawn)
    assert pyplot.get_fignums() == [] and get_backend() == backend
    html = path.read_text()
    assert not re.search(r"https?:|url\((?!#)", html)
    (script,) = re.findall(r"<script>(.*?)</script>", html, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert "default-src 'none'" in html and f"script-src 'sha256-{digest}'\"" in html


def test_the_verdict_comes_first(run: Path) -> None:
    text = Parsed(write_report(run).read_text().split("</style>")[1]).text
    verdict = read_summary(run)["verdict"]
    parts = (verdict["headline"][1:], verdict["reason"]["text"], "Next: ", "Checks for failure")
    parts += ("Map", "Cluster 0", "Single rows", "samples", "Training and")
    places = [text.index(part) for part in parts]
    assert places == sorted(places)


@pytest.mark.parametrize("grade", ["certified", "supported", "doubtful", "no structure found"])
def test_the_verdict_reads_like_this(run: Path, grade: str) -> None:
    data = yaml.safe_load((run / "config.yaml").read_text())["data"]
    change_config(run, data=data | {"source": "a b.csv"})
    verdict = {
        "grade": grade,
        "headline": f"{grade}: the 3 clusters touch.",
        "reason": {"code": "stable", "text": "Subsamples find the same clusters."},
        "next_step": "check some rows, or try 4 clusters",
        "try_clusters": 4,
        "figures": {"stability": 0.98765, "compared": "2 to 10", "missing": None},
    }
    change_summary(run, verdict=verdict)
    html = write_report(run).read_text()
    assert ('class="verdict good"' in html) == (grade in ("certified", "supported"))
    section = html[html.index('<section class="verdict') : html.index("<details>")]
    lines = [line.strip() for line in Parsed(section).pieces if line.strip()]
    assert lines == [
        f"{grade.capitalize()}: the 3 clusters touch.",
        "Subsamples find the same clusters.",
        "Next: check some rows, or try 4 clusters (gedi fit 'a b.csv' -k 4).",
        *("stability", "0.988", "compared", "2 to 10", "rows of a cluster", rows_words(run)),
        *("rows with a probability of 0.9 or more", lines[-1]),
    ]


def rows_words(run: Path) -> str:
    sizes = read_summary(run)["cluster_sizes"]
    low, high = min(sizes), max(sizes)
    return str(low) if low == high else f"{low} to {high}"


def test_cards_have_the_figures_of_their_clusters(run: Path) -> None:
    figures = [
        {"cluster": k, "trust": 0.25 + k, "size": 1, "touches": [1], "place": "touches cluster 1"}
        for k in range(3)
    ]
    change_summary(run, clusters=figures)
    html = write_report(run).read_text()
    assert all(f"Trust {0.25 + k}" in html for k in range(3))
    assert html.count("Touches cluster 1.") == 3


def test_only_settings_that_differ_from_the_defaults_are_listed(run: Path) -> None:
    parsed = Parsed(write_report(run).read_text())
    start = parsed.rows.index(["setting", "value", "default"]) + 1
    listed = {row[0]: row[1:] for row in parsed.rows[start : start + 5]}
    assert listed == {
        "n_clusters": ["3", "2"],
        "network.hidden": ["[16]", "[100, 100]"],
        "training.max_iter": ["8", str(STARTED["training.max_iter"])],
        "training.check_every": ["4", "50"],
        "device.accelerator": ['"cpu"', '"auto"'],
    }
    assert parsed.rows[start + 5][0] == "version"  # the next table


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
    hostile = {"code": HOSTILE, "text": HOSTILE}
    said = {"grade": "doubtful", "headline": HOSTILE, "reason": hostile, "next_step": HOSTILE}
    said |= {"try_clusters": None, "figures": {HOSTILE: HOSTILE}}
    change_summary(run, verdict=said, diagnosis=diagnosis, clusters=[{HOSTILE: 1}] * 3)
    event = {"time": HOSTILE, "kind": HOSTILE, "message": HOSTILE, "iteration": HOSTILE}
    (run / "events.jsonl").write_text(json.dumps(event) + "\n")
    profile = (run / "profile.json").read_text()
    named = json.loads(profile.replace('"column 1"', json.dumps(HOSTILE)))
    for cluster in named["clusters"]:
        cluster["words"] = HOSTILE
    (run / "profile.json").write_text(json.dumps(named | {"warnings": [HOSTILE]}))
    html = write_report(run).read_text()
    hostile = Parsed(html)
    assert "&lt;script&gt;alert(1)&lt;/script&gt;&#34;" in html
    assert HOSTILE in hostile.text
    assert {tag for tag, _ in hostile.elements} <= {tag for tag, _ in clean.elements} | {"li", "ul"}
    assert sum(tag == "script" for tag, _ in hostile.elements) == 2
    known = {name for _, attributes in clean.elements for name in attributes}
    for _, attributes in hostile.elements:
        assert attributes.keys() <= known
        assert not any(name.startswith("on") for name in attributes)
        assert (attributes.get("src") or "data:").startswith("data:")
        assert (attributes.get("href") or "#").startswith("#")
    (tooltips,) = re.findall(r'<script type="application/json" id="points">(.*?)</script>', html)
    assert any(HOSTILE[:39] in name for name, _ in json.loads(tooltips)["columns"])


@pytest.mark.parametrize("text", ["1" + "0" * 400, "2020-01-01", "{1: 2}", ".nan"])
def test_a_setting_that_is_none_is_shown_as_it_is(run: Path, text: str) -> None:
    config, name = run / "config.yaml", "tol"
    settings = yaml.safe_load(config.read_text())["settings"]["training"]
    config.write_text(
        config.read_text().replace(f"    {name}: {settings[name]}\n", f"    {name}: {text}\n")
    )
    page = write_report(run).read_text()
    assert f"training.{name}" in page


def test_the_page_shows_how_clusters_merge(run: Path) -> None:
    html = write_report(run).read_text()
    assert "<svg>hierarchy</svg>" in html
    for profile in json.loads((run / "profile.json").read_text())["clusters"]:
        listed = ", ".join(map(str, profile["partners"]))
        assert listed and f"Merges first with cluster {listed}." in html


def test_a_card_says_what_the_profile_says(run: Path) -> None:
    html = write_report(run).read_text()
    parsed, profile = Parsed(html), json.loads((run / "profile.json").read_text())
    for cluster in profile["clusters"]:
        words = cluster["words"][:1].upper() + cluster["words"][1:]
        assert f'id="cluster-{cluster["cluster"]}"' in html and words in parsed.text
        for kind, name in (("typical", "typical"), ("uncertain", "uncertain")):
            for row in cluster[kind]:
                assert any(line[:2] == [name, str(row["row"])] for line in parsed.rows)


def test_unusual_rows_are_listed_with_reasons_the_most_unusual_first(
    run: Path, tmp_path: Path
) -> None:
    lists, file = "The most unusual, with log p(x)", run / "profile.json"
    profile = json.loads(file.read_text())
    profile["outliers"] = [row | {"reason": ""} for row in profile["outliers"]]  # as of images
    file.write_text(json.dumps(profile))
    other = write_report(run).read_text()
    assert lists in other and "The most unusual rows, and why" not in other
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"fare": rng.normal(10, 1, 80), HOSTILE: rng.choice(["a", "b"], 80)})
    table.loc[7, "fare"], table.loc[40, "fare"] = 60.0, 30.0
    folder, small = tmp_path / "outliers", {"training.check_every": 4, "density.iterations": 4}
    settings = small | {"training.max_iter": 8, "network.hidden": (16,)}
    GEDI(2, run_dir=folder, random_state=0, settings=settings).fit(table)
    html = write_report(folder).read_text()
    parsed, outliers = Parsed(html), json.loads((folder / "profile.json").read_text())["outliers"]
    known = [row for row in outliers if row["reason"]]
    start = parsed.rows.index(["row", "outlier score", "cluster", "why"]) + 1
    shown = parsed.rows[start : start + len(known)]
    assert [row["row"] for row in known[:2]] == [7, 40] and len(known) > 2
    assert [line[0] for line in shown] == [str(row["row"]) for row in known]
    assert [line[3] for line in shown] == [row["reason"] for row in known]
    assert shown[0][3].startswith("fare 60 where similar rows have ")
    scores = [float(line[1]) for line in shown]
    assert scores == sorted(scores, reverse=True) and lists not in html and HOSTILE not in html


def test_trust_stands_beside_the_probability_where_a_run_has_it(run: Path) -> None:
    file, preview = run / "profile.json", run / "preview.safetensors"
    profile, tensors = json.loads(file.read_text()), load_file(preview)
    cluster = profile["clusters"][0]
    cluster["uncertain"][0]["trust"] = 0.12345
    for row in (*cluster["typical"], *cluster["uncertain"][1:], *cluster["outliers"]):
        row["trust"] = 0.75
    file.write_text(json.dumps(profile))
    n = len(tensors["labels"])
    save_file(tensors | {"trust": torch.linspace(0, 1, n, dtype=torch.float64)}, preview)
    html = write_report(run).read_text()
    parsed, row = Parsed(html), cluster["uncertain"][0]["row"]
    line = next(r for r in parsed.rows if r[:2] == ["uncertain", str(row)])
    assert line[4] == "0.123"
    assert "50% of these rows are below 0.5" in parsed.text
    points = re.search(r'id="points">(.*?)</script>', html, re.S)
    tooltips = json.loads(points[1])
    expected = tensors["rows"].double() / (n - 1)
    assert dict(tooltips["columns"])["trust"] == pytest.approx(
        expected[tooltips["row"]].tolist(), rel=1e-3
    )


@pytest.mark.parametrize(
    ("file", "content"),
    [
        ("profile.json", "{"),
        ("profile.json", '{"n_samples": 60}'),
        ("preview.safetensors", "none"),
        ("model.safetensors", "none"),
        ("metrics.jsonl", "5\n"),
        ("metrics.jsonl", '{"iteration": 5, "inv": ["x"], "bound_gap": [1.0]}\n'),
        ("metrics.jsonl", '{"iteration": 5, "inv": [1], "bound_gap": [1], "best": 7}\n'),
        ("summary.json", '{"verdict": "v", "cluster_sizes": ["1"]}'),
        *((file, None) for file in ("config.yaml", "metrics.jsonl", "preview.safetensors")),
        *((file, None) for file in ("summary.json", "model.safetensors", "profile.json")),
    ],
)
def test_damage_is_named_in_one_line_and_nothing_is_written(
    run: Path, file: str, content: str | None
) -> None:
    (run / file).unlink()
    if content is not None:
        (run / file).write_text(content)
    with pytest.raises(InputError, match=file) as caught:
        write_report(run)
    assert "\n" not in str(caught.value)
    assert not (run / "report.html").exists() and not (run / "figures").exists()


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("rows", lambda t: t + 1000),
        ("rows", lambda t: t[:-1].clone()),
        ("log_density", lambda t: t[:, None].clone()),
        ("trust", lambda t: t[:-1].clone()),
        ("features", lambda t: t[:-1].clone()),
        ("labels", lambda t: t + 3),
        ("points", lambda t: t[:, :2].clone()),
    ],
)
def test_a_preview_of_other_data_is_refused(run: Path, name: str, change: object) -> None:
    file = run / "preview.safetensors"
    tensors = load_file(file)
    save_file(tensors | {name: change(tensors[name])}, file)  # type: ignore[operator]
    with pytest.raises(InputError, match="preview"):
        write_report(run)


def test_a_profile_of_another_run_is_refused(run: Path) -> None:
    file = run / "profile.json"
    content = json.loads(file.read_text())
    first, second = content["clusters"][:2]
    first["size"], second["size"] = first["size"] - 1, second["size"] + 1
    file.write_text(json.dumps(content))
    with pytest.raises(InputError, match="other clusters"):
        write_report(run)


def test_a_run_that_diverged_from_the_start_has_a_page_without_its_network(run: Path) -> None:
    diagnosis = {"findings": [], "gap": "nan", "tol": 1}
    change_summary(run, bound_gap="nan", certified=False, diagnosis=diagnosis)
    row = {"iteration": 5, "inv": ["nan", 1.0], "bound_gap": ["inf", "nan"], "best": 0}
    (run / "metrics.jsonl").write_text(json.dumps(row) + "\n")
    (run / "model.safetensors").unlink()
    html = write_report(run).read_text()
    assert "Rows generated by the model" not in html


def test_the_density_continues_the_line_of_the_kept_member(run: Path) -> None:
    rows = [
        {"iteration": 5, "inv": [1, 2, 3], "bound_gap": [0.9, 0.3, "inf"], "best": 1},
        {"iteration": 10, "inv": [4], "gen": [7], "bound_gap": [0.2], "best": 1},
    ]
    (run / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    curves, nan = Run.read(run).curves(), np.nan
    assert curves.best == 1
    np.testing.assert_array_equal(curves.bound_gap, [[0.9, 0.3, np.inf], [nan, 0.2, nan]])
    np.testing.assert_array_equal(curves.terms["inv"], [[1, 2, 3], [nan, 4, nan]])
    np.testing.assert_array_equal(curves.terms["gen"], [[nan, nan, nan], [nan, 7, nan]])
