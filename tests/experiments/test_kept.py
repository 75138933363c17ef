"""Rows as runs and the documentation keep them: CSV, commits, and pages that agree with them."""

from __future__ import annotations

import importlib.util
import json
import re
import subprocess
from pathlib import Path

import pytest

from experiments.image_rows import made_up as made_up_image
from gedilearn.errors import InputError
from gedilearn.experiments import runner
from gedilearn.experiments.kept import kept_in, rows_as_csv, rows_of_csv
from gedilearn.experiments.runner import Cell, Runner
from gedilearn.experiments.table import Experiment, Table, grouped, label, statistic
from gedilearn.registry import EXPERIMENTS

DOCS = Path(__file__).parents[2] / "docs"
if not DOCS.exists():
    pytest.skip("the documentation is not part of this installation", allow_module_level=True)


@pytest.fixture(scope="module")
def script():
    """docs/make_results.py, which is not part of the library."""
    found = importlib.util.spec_from_file_location("make_results", DOCS / "make_results.py")
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module


# --- CSV


@pytest.mark.parametrize(
    "value",
    [
        *("words", "with, commas\nand lines", 'a "quote"', "inf", "nan", " spaces "),
        *("5", "1e3", "true", "null", "NaN", "[1", "[1]", '"quoted"', "", "{}"),
        *(None, True, False, 0, -3, 0.1, 1e-12, 1 / 3),
        *([], ["cluster collapse", 2.5, None], {"svhn": {"n": 3, "log_density": "inf"}}),
    ],
)
def test_a_value_is_read_back_as_it_was(value, tmp_path):
    rows = [{"data": "moons", "value": value}, {"data": "rings", "value": 1}]
    (tmp_path / "a.csv").write_text(rows_as_csv(rows), newline="")
    (first, second) = rows_of_csv(tmp_path / "a.csv")
    assert first == rows[0] and type(first["value"]) is type(value) and second == rows[1]


def test_words_stand_as_they_are_and_what_has_parts_as_json(tmp_path):
    rows = [{"method": "no gen", "modes": ["a", "b"], "nmi": 0.5, "ood": None, "certified": True}]
    assert rows_as_csv(rows).splitlines() == [
        "method,modes,nmi,ood,certified",
        'no gen,"[""a"", ""b""]",0.5,,true',
    ]


def test_rows_of_different_columns_share_a_table(tmp_path):
    (tmp_path / "a.csv").write_text(rows_as_csv([{"a": 1}, {"b": 2}]))
    assert rows_of_csv(tmp_path / "a.csv") == [{"a": 1, "b": None}, {"a": None, "b": 2}]


# --- commits


def git(folder, *arguments):
    who = ["-c", "user.name=a", "-c", "user.email=a@b"]
    command = ["git", "-C", str(folder), *who, *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def test_the_commit_is_that_of_a_package_in_a_work_tree_and_says_if_files_changed(tmp_path):
    package = tmp_path / "package"
    package.mkdir()
    (package / "__init__.py").touch()
    assert runner.commit.__wrapped__(package) == {}
    git(tmp_path, "init", "-q")
    git(tmp_path, "commit", "-q", "--allow-empty", "-m", "one")
    assert runner.commit.__wrapped__(package) == {}  # another project, with a copy in it
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-q", "-m", "two")
    head = git(tmp_path, "rev-parse", "HEAD")[:12]
    (tmp_path / "notes.md").touch()
    assert runner.commit.__wrapped__(package) == {"commit": head}
    (package / "__init__.py").write_text("1")
    assert runner.commit.__wrapped__(package) == {"commit": f"{head}+"}


def test_without_git_no_commit_is_named(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert runner.commit.__wrapped__() == {}


def count(cell, n, settings):
    return [
        {"data": cell.data, "method": cell.method, "seed": seed, "score": 1 / 3 + seed}
        for seed in cell.seeds
    ]


def run_counts(seeds, runner):
    return runner.rows_of_cells([Cell("moons", "a", tuple(seeds), ("a",))], count, 5)


def test_a_row_keeps_its_commit_and_rows_of_several_share_a_folder(tmp_path, monkeypatch):
    for seeds, commit in (([0], {"commit": "aaa"}), ([0, 1], {"commit": "bbb"}), ([2], {})):
        monkeypatch.setattr(runner, "commit", lambda commit=commit: commit)
        run_counts(seeds, Runner(tmp_path))
    (kept,) = kept_in(tmp_path, "")
    assert [row.get("commit") for row in kept.rows] == ["aaa", "bbb", None]
    assert kept.made_by("counts", []).endswith(", commit aaa, commit bbb.")
    assert "commit" not in kept.config
    monkeypatch.setattr(runner, "__version__", "0.0.1")
    with pytest.raises(InputError, match="other versions"):
        run_counts([3], Runner(tmp_path))


# --- pages


def counts_table(rows):
    columns = [label("method"), statistic("score", "score")]
    return [Table("Counts", columns, grouped(rows, "method"))]


@pytest.fixture
def counts():
    EXPERIMENTS.register("counts", Experiment("counts", run_counts, counts_table))
    yield
    EXPERIMENTS.remove("counts")


def test_a_page_from_collected_rows_is_that_of_the_run(counts, script, tmp_path):
    run_counts(range(3), Runner(tmp_path / "out"))
    results = tmp_path / "results"
    script.collect("counts", tmp_path / "out", results)
    assert (
        (results / "rows" / "counts.csv")
        .read_text()
        .splitlines()[1]
        .startswith("moons,a,0,0.333333")
    )
    assert json.loads((results / "rows" / "counts.json").read_text())["n"] == 5
    assert script.names(results) == ["counts"]
    script.make("counts", results)
    text = (results / "counts.md").read_text()
    assert "| a | 1.333 |" in text
    assert text == EXPERIMENTS["counts"].page(tmp_path / "out").text


def test_collected_images_keep_their_folders_and_pictures(script, tmp_path):
    folder = tmp_path / "out" / "cifar10-small"
    pictures = folder / "evaluations" / "cifar10-gedi-0"
    pictures.mkdir(parents=True)
    (pictures / "samples.png").write_bytes(b"samples")
    rows = [made_up_image("small", seed=seed) for seed in range(2)]
    (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    settings = {"samples": 5, "steps": 6, "probe": "fast", "changes": {}, "others": {}}
    config = {"n": 50_000, "settings": settings, "versions": {"torch": "2.0"}}
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "images.csv").write_text("not rows of the documentation")
    results = tmp_path / "results"
    script.collect("images", tmp_path / "out", results)
    script.make("images", results)
    assert (results / "samples-cifar10-small-gedi.png").read_bytes() == b"samples"
    text = (results / "images.md").read_text()
    assert text == EXPERIMENTS["images"].page(tmp_path / "out").text
    assert "(samples-cifar10-small-gedi.png)" in text and "| CIFAR-10 | GEDI | 2 | 0.120 |" in text
    rows_file = results / "rows" / "images" / "cifar10-small.csv"
    assert rows_of_csv(rows_file) == json.loads(json.dumps(rows))


def test_runs_stand_in_the_same_order_in_both_forms(counts, script, tmp_path):
    for name in ("a", "a-b", "a.b"):
        run_counts([0], Runner(tmp_path / "out" / name))
        (kept,) = kept_in(tmp_path / "out" / name, "")
        kept.write(tmp_path / "rows" / name)
    runs, rows = ([k.folder.name for k in kept_in(tmp_path / of)] for of in ("out", "rows"))
    assert runs == rows == ["a", "a-b", "a.b"]


def test_a_folder_of_something_else_is_not_collected(script, tmp_path):
    with pytest.raises(InputError, match="holds no rows"):
        script.collect("toy", tmp_path / "nothing", tmp_path / "results")
    assert not (tmp_path / "results").exists()


def test_the_pages_of_the_documentation_are_those_that_its_rows_give(script):
    """After a change of rows or of what is said about them: `make results`."""
    for name in script.names():
        page, file = script.page(name), script.RESULTS / f"{name}.md"
        assert page.text == file.read_text(encoding="utf-8"), f"{file} is not what its rows give"


def test_every_picture_that_a_page_shows_is_there(script):
    for file in script.RESULTS.glob("*.md"):
        for picture in re.findall(r"\]\(([^)]+\.png)\)", file.read_text(encoding="utf-8")):
            assert (file.parent / picture).exists(), f"{file.name} shows {picture}"
