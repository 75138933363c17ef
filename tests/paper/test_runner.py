"""Rows made cell by cell: what is run, what is not run again, and where."""

from __future__ import annotations

import json
import math
import os
import threading
import warnings

import joblib
import pytest
import threadpoolctl

from gedilearn.errors import InputError
from gedilearn.paper.runner import Cell, Runner, changed

CELLS = [Cell("moons", "a", seed, ("a", "a too")) for seed in range(3)]
CELLS += [Cell("moons", "b", seed) for seed in range(2)]


def work(cell, n, settings):
    """Each row says where it was made."""
    where = {"thread": threading.current_thread().name, "process": os.getpid()}
    return [
        {"data": cell.data, "method": name, "seed": cell.seed, **where}
        for name in cell.rows or [cell.method]
    ]


def kept(out):
    return [json.loads(line) for line in (out / "rows.jsonl").read_text().splitlines()]


def test_rows_come_in_the_order_of_the_cells(tmp_path):
    rows = Runner(tmp_path).rows(CELLS, work, 5)
    assert [(r["method"], r["seed"]) for r in rows] == [
        *(("a", 0), ("a too", 0), ("a", 1), ("a too", 1), ("a", 2), ("a too", 2)),
        *(("b", 0), ("b", 1)),
    ]


def test_only_cells_that_lack_a_row_are_run_again_and_no_row_is_kept_twice(tmp_path):
    first = Runner(tmp_path).rows(CELLS, work, 5)
    lines = (tmp_path / "rows.jsonl").read_text().splitlines(keepends=True)
    gone = [i for i, r in enumerate(kept(tmp_path)) if (r["method"], r["seed"]) == ("a too", 1)]
    del lines[gone[0]]
    (tmp_path / "rows.jsonl").write_text("".join(lines))
    told = []
    rows = Runner(tmp_path, say=told.append).rows(CELLS, work, 5)
    assert told == ["moons, a too, seed 1 (0 to go)"]
    row = rows[3]
    assert (row["method"], row["seed"]) == ("a too", 1)
    assert [r for r in rows if r is not row] == [
        r for r in first if (r["method"], r["seed"]) != ("a too", 1)
    ]
    names = [(r["data"], r["method"], r["seed"]) for r in kept(tmp_path)]
    assert len(names) == len(set(names)) == 8


def test_what_was_done_before_an_interruption_is_kept(tmp_path):
    def interrupted(cell, *others):
        if cell.method == "b":
            raise KeyboardInterrupt
        return work(cell, *others)

    with pytest.raises(KeyboardInterrupt):
        Runner(tmp_path).rows(CELLS, interrupted, 5)
    assert len(kept(tmp_path)) == 6
    told = []
    Runner(tmp_path, say=told.append).rows(CELLS, work, 5)
    assert [line.split(",")[1] for line in told] == [" b", " b"]


def test_no_more_processes_are_started_than_there_are_cells(tmp_path):
    for _ in range(2):  # the second time there is none to run
        rows = Runner(tmp_path, jobs=10**12).rows(CELLS[:2], work, 5)
        assert len(rows) == 4


def test_a_backend_chosen_by_the_caller_runs_the_cells(tmp_path):
    with joblib.parallel_config(backend="threading", n_jobs=2):
        rows = Runner(tmp_path).rows(CELLS, work, 5)
    assert threading.current_thread().name not in {r["thread"] for r in rows}
    assert [r["method"] for r in rows][-2:] == ["b", "b"]


def test_a_row_has_plain_values_and_as_many_threads_as_asked_for(tmp_path):
    def fit(cell, n, settings):
        warnings.warn("not worth a line", stacklevel=1)
        pools = threadpoolctl.threadpool_info()
        threads = max(pool["num_threads"] for pool in pools)
        return [{"data": "moons", "method": "a", "seed": 3, "score": math.inf, "threads": threads}]

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        (row,) = Runner(tmp_path).rows([Cell("moons", "a", 3)], fit, 5, threads=1)
    assert (row["score"], row["threads"]) == ("inf", 1)


def test_a_folder_of_other_settings_or_without_its_config_is_refused(tmp_path):
    Runner(tmp_path).rows(CELLS, work, 5, {"a": 1})
    with pytest.raises(InputError, match="other settings"):
        Runner(tmp_path).rows(CELLS, work, 5, {"a": 2})
    (tmp_path / "config.json").unlink()
    with pytest.raises(InputError, match=r"no config\.json"):
        Runner(tmp_path).rows(CELLS, work, 5, {"a": 1})


def test_folders_below_are_named_after_the_settings(tmp_path):
    asked = {"changes": {"network.hidden": [8, 8], "views.kind": "noise"}}
    assert changed(asked) == ["network.hidden=[8, 8]", "views.kind=noise"]
    folder = Runner(tmp_path).within("paper/toy", asked).out
    name = "paper-toy-network.hidden=-8-8--views.kind=noise"
    assert folder == tmp_path / name
