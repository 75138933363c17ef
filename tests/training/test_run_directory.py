from __future__ import annotations

import math
import multiprocessing
import time
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml

from gedilearn.errors import InputError
from gedilearn.io import read_json_lines
from gedilearn.training.journal import (
    SHARED,
    load_checkpoint,
    load_tree,
    publish,
    save_tree,
)
from gedilearn.training.run import RunDirectory


def test_a_folder_with_anything_in_it_is_refused_and_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("mine")
    with pytest.raises(InputError, match="exists already"), RunDirectory.create(tmp_path, {}):
        pass
    assert [p.name for p in tmp_path.iterdir()] == ["thesis.tex"]


def test_a_folder_in_use_is_refused_and_one_that_is_left_is_not(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    with RunDirectory.create(folder, {}) as run:
        with pytest.raises(InputError, match="in use by another process"), run.held():
            pass
        with pytest.raises(InputError, match="exists already"), RunDirectory.create(folder, {}):
            pass
    with run.held():
        pass


def test_what_a_killed_fit_left_in_the_middle_of_a_write_goes_with_the_next(tmp_path: Path) -> None:
    with RunDirectory.create(tmp_path, {}) as run:
        pass
    step = run.checkpoints / "step-000000010"
    step.mkdir(parents=True)
    kept = {tmp_path / ".notes.part", step / "shared.safetensors"}
    left = {run.path / ".model.safetensors.7.part", run.path / ".labels.csv.71.part"}
    left |= {run.checkpoints / ".latest.json.7.part", step / ".rank-0.safetensors.7.part"}
    for file in kept | left:
        file.touch()
    with run.held():
        assert not any(file.exists() for file in left)
        assert all(file.exists() for file in kept)


@pytest.mark.parametrize("error", [InputError, TypeError])  # the latter by a user's own views
@pytest.mark.parametrize("there", [True, False])
def test_what_is_refused_leaves_nothing(
    there: bool, error: type[Exception], tmp_path: Path
) -> None:
    folder = tmp_path / "a" / "run"
    if there:
        folder.mkdir(parents=True)
    with pytest.raises(error, match="no such device"), RunDirectory.create(folder, {}) as run:
        run.add_event("begun", "")
        raise error("no such device")
    assert list(tmp_path.rglob("*")) == ([folder.parent, folder] if there else [])


def take(folder: Path, who: int, ready: Any, ends: Any) -> None:
    """What one of several processes does, and how it ends."""
    ready.wait()
    try:
        with RunDirectory.create(folder, {"settings": {}, "objects": [str(who)]}):
            time.sleep(0.5)
            ends.put((who, "mine"))
    except InputError as error:
        ends.put((who, str(error)))


def test_of_many_processes_at_once_one_gets_the_folder(tmp_path: Path) -> None:
    forked = multiprocessing.get_context("fork")
    ready, ends = forked.Barrier(4), forked.SimpleQueue()
    arguments = [(tmp_path / "run", who, ready, ends) for who in range(4)]
    together = [forked.Process(target=take, args=each) for each in arguments]
    for process in together:
        process.start()
    told = dict(ends.get() for _ in together)
    for process in together:
        process.join()
    (winner,) = [who for who, words in told.items() if words == "mine"]
    config = yaml.safe_load((tmp_path / "run" / "config.yaml").read_text())
    assert config["objects"] == [str(winner)]
    del told[winner]
    assert all("in use" in words or "exists already" in words for words in told.values())


def test_rewinding_drops_later_and_half_written_lines(tmp_path: Path) -> None:
    with RunDirectory.create(tmp_path / "run", {}) as run:
        pass
    for iteration in (10, 20, 30):
        run.add_metrics({"iteration": iteration, "bound_gap": [float("nan")]})
    with open(run.path / "metrics.jsonl", "a") as file:
        file.write('{"iteration": 40, "ga')
    run.rewind(20)
    rows = read_json_lines(run.path / "metrics.jsonl")
    assert [row["iteration"] for row in rows] == [10, 20]
    assert rows[0]["bound_gap"] == ["nan"]


# --- checkpoints


def test_a_tree_comes_back_exactly_with_integer_keys_and_dtypes(tmp_path: Path) -> None:
    written = {
        "model": {"weight": torch.randn(3, 2), "count": torch.tensor(4)},
        "optimizer": {"state": {0: {"step": torch.tensor(7.0)}}, "groups": [{"lr": 1e-3}]},
        "best": None,
        "gap": math.inf,
        "rng": torch.get_rng_state(),
    }
    save_tree(tmp_path / "tree", written)
    read = load_tree(tmp_path / "tree")
    torch.testing.assert_close(read, written, rtol=0, atol=0)


def test_the_newest_published_checkpoint_is_found_and_older_ones_go(tmp_path: Path) -> None:
    assert load_checkpoint(tmp_path, SHARED) is None
    for step in (10, 20):
        folder = tmp_path / f"step-{step}"
        folder.mkdir()
        save_tree(folder / SHARED, {"step": step})
        publish(folder)
    assert load_checkpoint(tmp_path, SHARED) == (tmp_path / "step-20", [{"step": 20}])
    assert [p.name for p in tmp_path.glob("step-*")] == ["step-20"]
