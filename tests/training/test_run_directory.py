from __future__ import annotations

from pathlib import Path

import pytest

from gedilearn.errors import InputError
from gedilearn.files import read_json_lines
from gedilearn.training.config import read_config
from gedilearn.training.run_directory import RunDirectory

CONFIG = {
    "settings": {"n_clusters": 3},
    "objects": [],
    "data": {"source": None, "shape": [30, 2], "fingerprint": "abc"},
}


def test_a_folder_with_anything_in_it_is_refused_and_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("mine")
    with pytest.raises(InputError, match="exists already"):
        RunDirectory.create(tmp_path, {})
    assert [p.name for p in tmp_path.iterdir()] == ["thesis.tex"]


def test_an_empty_folder_or_one_cut_off_at_birth_is_taken(tmp_path: Path) -> None:
    (tmp_path / ".config.yaml.part").write_text("form")
    RunDirectory.create(tmp_path, CONFIG)
    assert read_config(tmp_path).settings == {"n_clusters": 3}


def test_rewinding_drops_later_and_half_written_lines(tmp_path: Path) -> None:
    run = RunDirectory.create(tmp_path / "run", {})
    for iteration in (10, 20, 30):
        run.add_metrics({"iteration": iteration, "gap": [float("nan")]})
    with open(run.path / "metrics.jsonl", "a") as file:
        file.write('{"iteration": 40, "ga')
    run.rewind(20)
    rows = read_json_lines(run.path / "metrics.jsonl")
    assert [row["iteration"] for row in rows] == [10, 20]
    assert rows[0]["gap"] == ["nan"]


@pytest.mark.parametrize(
    ("text", "words"),
    [(None, "no config.yaml"), ("a: [", "damaged"), ("format: 7\nversion: 9.9", "format 7")],
)
def test_what_is_no_run_directory_is_named(tmp_path: Path, text: str | None, words: str) -> None:
    if text is not None:
        (tmp_path / "config.yaml").write_text(text)
    with pytest.raises(InputError, match=words):
        read_config(tmp_path)
